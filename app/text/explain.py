"""The verdict on an operating point in words, the same for the terminal, the dashboard and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from app.library.records import output_record
from app.text.format import change_text, counted, number_text, quantity_text, unbroken
from app.text.names import PARTS
from app.text.quantities import LATENCY, POWER, REQUEST, SUSTAINED, TOP1, WORDS, Quantity
from core.predict.changes import WORTH_FRAC, Change
from core.predict.explain import DOMINANT_FRAC, PARTS_OF, Bound, MissedLimit, Verdict
from core.spec import Absent, Catalogue, Output, Posterior

LIMITED: Mapping[str, Quantity] = {quantity.output: quantity for quantity in (LATENCY, POWER, TOP1, REQUEST, SUSTAINED)}
"""The quantities that have a limit, by field of the prediction."""

_DOING = {
    Bound.MEMORY: "reading memory",
    Bound.COMPUTE: "computing",
    Bound.OVERHEAD: "overhead",
    Bound.POWER: "lower clocks",
}
_SHOWN_FRAC = 0.01  # a smaller share of the time is left out
_STRONG, _END = "\x02", "\x03"  # around what matters most; no name has them


def plain(verdict: Verdict) -> str:
    """Return the headline as text."""
    return _headline(verdict).replace(_STRONG, "").replace(_END, "")


def rich(verdict: Verdict) -> str:
    """Return the headline as HTML: ``<b>`` around what matters most, numbers tied to their units."""
    return unbroken(escape(_headline(verdict), quote=False)).replace(_STRONG, "<b>").replace(_END, "</b>")


def document(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as JSON values, the headline as "limits"."""
    absent = output_record(verdict.decode_s) if isinstance(verdict.decode_s, Absent) else None
    no_half = {"absent": f"none takes more than {100 * DOMINANT_FRAC:g} % of the time"}
    return {
        "limits": plain(verdict),
        "parts_frac": verdict.shares,
        "binding": absent or verdict.binding,
        "bound": absent or verdict.bound or no_half,
        "dominant_part": absent or verdict.dominant or no_half,
        "memory": _memory(verdict),
        "missed": [_missed_record(missed) for missed in verdict.missed],
        "accuracy_remedy": _remedy_record(verdict),
        "changes": [_change_record(change) for change in verdict.changes],
        "proposed": [change.step.text for change in verdict.proposed],
        "interval": verdict.interval_basis
        or {"absent": "the intervals are the model's own, or scaled by published boards"},
        "outside": list(verdict.outside),
    }


def ranked(parts_s: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Return the terms of the decode time: (term, seconds, share), the largest first, without zeros."""
    total = sum(parts_s.values())
    found = [(name, seconds, seconds / total) for name, seconds in parts_s.items() if seconds > 0]
    return sorted(found, key=lambda part: -part[1])


# ---- the headline


def _headline(verdict: Verdict) -> str:
    """Return in this order: what does not fit or run, limits missed, bottleneck, proposed change."""
    said = [_strong(f"{text}.") for text in verdict.outside]
    said += [*_missed(verdict.missed), *_remedy(verdict)]
    if isinstance(verdict.decode_s, Absent):
        said.append(f"There is no decode time to explain: {verdict.decode_s.reason}.")
    else:
        said += [_bottleneck(verdict), *_power_limit(verdict), _proposal(verdict, float(verdict.decode_s.median))]
        said += [verdict.interval_basis] if verdict.interval_scale > 1.0 and verdict.interval_basis else []
    return " ".join(said)


def _strong(text: str) -> str:
    return f"{_STRONG}{text}{_END}"


def _missed(missed: Sequence[MissedLimit]) -> list[str]:
    if not missed:
        return []
    if len(missed) == 1:
        limit = quantity_text(missed[0].limit, LIMITED[missed[0].output].unit)
        return [f"{LIMITED[missed[0].output].title} misses its limit of {limit} by {_by(missed[0])}."]
    names = (LIMITED[each.output].short for each in missed)
    *first, last = (f"{name[0].lower()}{name[1:]} by {_by(each)}" for name, each in zip(names, missed, strict=True))
    return [f"Limits are missed: {', '.join(first)} and {last}."]


def _by(missed: MissedLimit) -> str:
    return _strong(quantity_text(abs(missed.value - missed.limit), LIMITED[missed.output].unit, 2))


def _remedy(verdict: Verdict) -> list[str]:
    """Return the remedy for a missed accuracy limit."""
    if verdict.needs_bits:
        return ["No prune rate keeps the accuracy: weights or cache need more bits."]
    if verdict.feasible_alpha is None:
        return []
    return [f"Pruning at most {_strong(f'α {number_text(verdict.feasible_alpha, 2)}')} would hold it."]


def _bottleneck(verdict: Verdict) -> str:
    """Return the bottleneck with its evidence; where no group of costs dominates, the three largest costs."""
    shares = {name: share for name, _, share in ranked(verdict.parts_s)}
    if verdict.bound is None:
        first, *others = _listed(shares, shares)[:3]
        share, _, name = first.partition(" % ")
        costs = ", ".join([f"{share} % of each token's time is {name}", *others])
        return f"No single cost dominates: {costs}."
    inside = [name for name in PARTS_OF[verdict.bound] if name in shares]
    whole = sum(shares[name] for name in inside)
    listed = _listed(shares, inside)
    of = PARTS[max(inside, key=shares.__getitem__)] if len(listed) == 1 else ", ".join(listed)
    evidence = [f"{_percent(whole)} of each token's time is {_DOING[verdict.bound]} ({of})"]
    evidence += _listed(shares, [name for name in shares if name not in inside])[:1]
    return f"Decode is {_strong(f'{verdict.bound}-bound')}: {', '.join(evidence)}."


def _power_limit(verdict: Verdict) -> list[str]:
    """Return that a power limit binds, where the bottleneck does not say so."""
    return [f"The {_strong('power limit binds')}."] if verdict.binding == "power" != verdict.bound else []


def _listed(shares: Mapping[str, float], names: Sequence[str] | Mapping[str, float]) -> list[str]:
    """Return the shares of some terms in words, the largest first."""
    shown = sorted((name for name in names if shares[name] >= _SHOWN_FRAC), key=lambda name: -shares[name])
    return [f"{_percent(shares[name])} {PARTS[name]}" for name in shown]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _proposal(verdict: Verdict, now_s: float) -> str:
    """Return the two best changes with their saving and cost."""
    if not verdict.proposed:
        tried = "smaller format and no pruning within r_max" if verdict.prunes else "smaller format of the runtime"
        return f"No {tried} would save {100 * WORTH_FRAC:g} %."
    best, *others = verdict.proposed
    text = best.step.text
    words = f"{text[0].upper()}{text[1:]} would save {_strong(_saved(best, now_s))}{_cost(best)}"
    return "; ".join([words, *(f"{o.step.text} would save {_saved(o, now_s)}{_cost(o)}" for o in others)]) + "."


def _saved(change: Change, now_s: float) -> str:
    saved = change_text(-change.decode_frac * now_s, "s", like=now_s).lstrip("+")
    return f"{saved} ({_percent(-change.decode_frac)})"


def _cost(change: Change) -> str:
    if change.top1_difference is None:
        return ""
    if change.top1_difference > -5e-4:
        return " at no loss of agreement"
    return f" and cost {-100 * change.top1_difference:.1f} points of agreement"


# ---- JSON


def _memory(verdict: Verdict) -> dict[str, Any]:
    fit = verdict.memory
    if isinstance(fit, Absent):
        return {"absent": fit.reason}
    bound = {"upper_bound": True} if fit.upper_bound else {}
    return {
        "needed_byte": fit.needed_byte,
        "available_byte": fit.available_byte,
        "fits": fit.fits,
        "memory_byte": fit.memory_byte,
        "of_largest_version": fit.of_largest_version,
        "basis": fit.basis,
        "source": fit.source or {"absent": "the board says so itself"},
        **bound,
    }


def _missed_record(missed: MissedLimit) -> dict[str, Any]:
    return {"output": missed.output, "limit": missed.limit, "value": missed.value}


def _remedy_record(verdict: Verdict) -> dict[str, Any]:
    if verdict.feasible_alpha is not None:
        return {"alpha": verdict.feasible_alpha}
    if verdict.needs_bits:
        return {"absent": "no prune rate keeps the accuracy: weights or cache need more bits"}
    return {"absent": "no lower prune rate is needed"}


def _change_record(change: Change) -> dict[str, Any]:
    def known(value: float | None) -> Any:
        return {"absent": "not predicted for both"} if value is None else value

    return {
        "change": change.step.text,
        "decode_s_frac": change.decode_frac,
        "energy_j_per_token_frac": known(change.energy_frac),
        "top1_agreement_difference": known(change.top1_difference),
    }


# ---- what the numbers rest on


def basis(known: Posterior, catalogue: Catalogue) -> str:
    """Return the published measurements that a prediction rests on, as a sentence; "" where there are none."""
    return f"Predictions of {catalogue.boards[known.board].name} rest on {known.basis}." if known.basis else ""


def evidence(output: Output, known: Posterior, n_points: int = 0) -> str:
    """Return provenance and interval of a decode time; `n_points` were measured where it is calibrated."""
    if isinstance(output, Absent):
        return output.reason
    text = LATENCY.text(output)
    points = f" from {known.basis}" if known.basis else ""
    if n_points and output.provenance == "calibrated":
        points = f" on {counted(n_points, 'point')}"
    return f"{WORDS[output.provenance]}{points}, 90 % interval {text.interval or 'none'} {text.unit}"
