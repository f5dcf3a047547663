"""What limits an operating point and what to change, in words with evidence. Free of Qt.

Every figure in a sentence is a prediction of the same engine that draws the curves, at the changed point.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape

from app.library.prediction_basis import rests_on
from app.model.store import Store
from app.text.format import change_text, counted, number_text, quantity_text, unbroken
from app.text.names import PARTS, nominal_bits
from app.text.quantities import LATENCY, POWER, TOP1, WORDS, Quantity
from core.physics.stages import binding_parts_s
from core.predict.changes import WORTH_FRAC, Change, Kind, proposed, steps
from core.predict.changes import changes as core_changes
from core.spec import Absent, Estimate, OperatingPoint, Posterior, Prediction


def changes(store: Store, kinds: Collection[Kind] = tuple(Kind)) -> list[Change]:
    """Return what single steps of these kinds from the current point would do, the one that saves most time first."""
    point = store.point
    taken = steps(point, store.catalogue, _rests_on(store).bandwidth_byte_s, store.r_max.alpha)
    return core_changes(store.prediction, (step for step in taken if step.kind in kinds), store.prediction_of)


def _knobs(store: Store, here: OperatingPoint) -> tuple[str, ...]:
    return store.catalogue.runtimes[here.runtime].knobs


def accuracy_note(store: Store) -> str:
    """Return what accuracy is relative to, where the model comes from a file."""
    model = store.catalogue.models[store.point.model]
    form = store.catalogue.weight_formats.get(model.reference_format)
    if form is None:
        return ""
    bits = nominal_bits(form)
    return (
        f"Relative to the model file, whose weights are {bits:g}-bit ({form.name.removeprefix('GGUF ')}): "
        "formats at or above it add no weight error; rounding of activations and cache remains."
    )


def shares(prediction: Prediction) -> list[tuple[str, float, float]]:
    """Return what the time of a token goes to: (key, seconds, share), the largest first, what is 0 left out."""
    parts = binding_parts_s(prediction)
    total = sum(parts.values())
    found = [(key, value, value / total) for key, value in parts.items() if value > 0 and total > 0]
    return sorted(found, key=lambda part: -part[1])


GROUPS = {"memory": ("weights", "kv"), "compute": ("compute", "unpack"), "fixed": ("layers", "token", "reselection")}
"""What a token's time goes to, by what could be done about it: keys of PARTS."""


def verdict(prediction: Prediction) -> str:
    """Return what decoding is bound by, with its evidence, as a sentence with ``<b>`` around what matters most.

    It is bound by memory or by arithmetic only where that takes most of a token; else the largest part is named.
    """
    parts = {key: share for key, _, share in shares(prediction)}
    of = {group: sum(parts.get(key, 0.0) for key in keys) for group, keys in GROUPS.items()}
    for group, adjective, what in (
        ("memory", "memory-bound", "reading memory"),
        ("compute", "compute-bound", "computing"),
    ):
        if of[group] > 0.5:
            inside = _listed(parts, GROUPS[group])
            rest = _listed(parts, [key for key in parts if key not in GROUPS[group]])
            only = inside[0].partition(" % ")[2]
            is_ = only if len(inside) == 1 else f"{what} ({', '.join(inside)})"
            then = ", ".join([f"{_percent(of[group])} of each token is {is_}", *rest[:1]])
            return f"Decode is <b>{adjective}</b>: {then}."
    rest = _listed(parts, [key for key in parts if key not in GROUPS["fixed"]])
    if of["fixed"] >= max((parts.get(key, 0.0) for key in (*GROUPS["memory"], *GROUPS["compute"])), default=0.0):
        name = "Per-layer cost" if parts.get("layers", 0.0) >= parts.get("token", 0.0) else "Constant cost"
        then = f", then {', '.join(rest[:2])}" if rest else ""
        return f"<b>{name}</b> holds this point up: {_percent(of['fixed'])} of each token{then}."
    return f"No single cost dominates: of each token, {', '.join(_listed(parts, list(parts))[:3])}."


def _listed(parts: Mapping[str, float], keys: Sequence[str]) -> list[str]:
    """Return the shares of some parts in words, the largest first, without what is below 1 %."""
    ranked = sorted((key for key in keys if parts.get(key, 0.0) >= 0.01), key=lambda key: -parts[key])
    return [f"{_percent(parts[key])} {PARTS[key]}" for key in ranked]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def sentence(store: Store) -> str:
    """Return the sentence on top, with ``<b>`` around what matters most."""
    prediction = store.prediction
    if isinstance(prediction.decode_s, Absent):
        return f"There is no decode time to explain: {prediction.decode_s.reason}."
    outside = [f"<b>{escape(text)}.</b>" for text in prediction.outside]
    parts = [*outside, *missed(store), verdict(prediction), proposal(store), interval_scale(store)]
    return unbroken(" ".join(part for part in parts if part))


def _rests_on(store: Store) -> Posterior:
    return rests_on(store.point, store.catalogue, store.posterior)


def interval_scale(store: Store) -> str:
    """Return why the band is wider than the model's own, as a sentence with its evidence; "" where it is not."""
    known = _rests_on(store)
    return known.interval_scale_basis if known.interval_scale.decode > 1.0 else ""


def basis(store: Store) -> str:
    """Return the published measurements that the prediction rests on, as a sentence; "" where there are none."""
    known = _rests_on(store)
    board = store.catalogue.boards[known.board].name
    return f"Predictions of {board} rest on {known.basis}." if known.basis else ""


def missed(store: Store) -> list[str]:
    """Return the limits that the point misses, as one sentence, and what would keep the accuracy limit."""
    found = []
    for quantity in (LATENCY, POWER, TOP1):
        limit = store.get(quantity.limit)
        measured = store.measured(quantity.output)
        output = measured if isinstance(measured, Estimate) else getattr(store.prediction, quantity.output)
        _, holds = quantity.verdict(output, limit)
        if holds is False:
            by = quantity_text(abs(float(output.median) - limit), quantity.unit, 2)
            found.append((quantity, quantity_text(limit, quantity.unit), by))
    if not found:
        return []
    sentences = [_missed(found)]
    return [*sentences, *_remedy(store)] if any(quantity is TOP1 for quantity, *_ in found) else sentences


def _missed(found: Sequence[tuple[Quantity, str, str]]) -> str:
    if len(found) == 1:
        quantity, limit, by = found[0]
        return f"{quantity.title} misses its limit of {limit} by <b>{by}</b>."
    *first, last = (f"{quantity.short.lower()} by <b>{by}</b>" for quantity, _, by in found)
    return f"Limits are missed: {', '.join(first)} and {last}."


def _remedy(store: Store) -> list[str]:
    """Return what keeps the accuracy limit: the prune rate that still holds it, where there is one."""
    mark = store.r_max.alpha
    if mark is None or mark >= store.point.alpha:
        return []
    if mark == 0:
        return ["No pruning would hold it either: weights or cache need more bits."]
    return [f"Pruning at most <b>α {number_text(mark, 2)}</b> would hold it."]


def proposal(store: Store) -> str:
    """Return what to change, with what it saves and costs: the best one, then the second."""
    base = store.prediction.decode_s
    assert isinstance(base, Estimate)
    now = float(base.median)
    best = proposed(changes(store, (Kind.SETTING,)), store.prediction, store.limits.latency_s)
    if not best:
        prunes = "alpha" in _knobs(store, store.point)
        tried = "smaller format and no pruning within r_max" if prunes else "smaller format that this runtime takes"
        return f"No {tried} would save more than {100 * WORTH_FRAC:g} %."
    (text, saved, cost), *rest = (
        (each.step.text, quantity_text_like(-each.decode_frac * now, now), _cost(each)) for each in best
    )
    words = f"{text[0].upper()}{text[1:]} would save <b>{saved}</b>{cost}"
    return "; ".join([words, *(f"{text} would save {saved}{cost}" for text, saved, cost in rest)]) + "."


def quantity_text_like(value_s: float, like: float) -> str:
    """Return a time in the prefix of another, without a sign."""
    return change_text(value_s, "s", like=like).lstrip("+")


def _cost(change: Change) -> str:
    if change.top1_difference is None:
        return ""
    if change.top1_difference > -5e-4:
        return " at no loss of agreement"
    return f" and cost {-100 * change.top1_difference:.1f} % agreement"


def evidence(store: Store) -> str:
    """Return what the sentence rests on."""
    output = store.prediction.decode_s
    if isinstance(output, Absent):
        return output.reason
    text = LATENCY.text(output)
    calibration = store.calibration if output.provenance == "calibrated" else None
    points = f" on {counted(len(calibration.points), 'point')}" if calibration else ""
    rests_on = _rests_on(store).basis
    points = points or (f" from {rests_on}" if rests_on else "")
    return f"{WORDS[output.provenance]}{points}, 90 % interval {text.interval or 'none'} {text.unit}"
