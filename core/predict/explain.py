"""Verdict on an operating point as data: bound, memory fit, missed limits, proposed changes, and margins to limits.

`app.text.explain` words it, in the same way for the command line, the dashboard and JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from core.physics.stages import MEMORY_PARTS, binding_parts_s
from core.predict.changes import Change, changes, proposed, steps
from core.predict.request import ANSWER_TOKENS, request_p99_s
from core.predict.scenario import predict
from core.predict.validity import MemoryFit, memory_fit
from core.spec import BY_NAME, Absent, Catalogue, Estimate, OperatingPoint, Output, Posterior, Prediction
from core.units import check_range

DOMINANT_FRAC = 0.5
"""A cost dominates a token where its share of the time is larger."""


class Bound(StrEnum):
    """A group of costs with a common remedy: fewer bytes, less arithmetic, fewer operators to launch, or more power."""

    MEMORY = "memory"
    COMPUTE = "compute"
    OVERHEAD = "overhead"
    POWER = "power"


PARTS_OF = {
    Bound.MEMORY: ("weights", "kv"),
    Bound.COMPUTE: ("compute", "unpack"),
    Bound.OVERHEAD: ("layers", "token", "reselection"),
    Bound.POWER: ("power",),
}
"""The terms of the decode time in each group, as `core.physics.stages.binding_parts_s` names them."""


@dataclass(frozen=True, slots=True)
class MissedLimit:
    """A limit that a point misses, and its value: the measured one where there is one."""

    output: str  # key of `limited_outputs`
    limit: float
    value: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Bound of an operating point (scalars only) with its evidence, missed limits with remedies, and changes."""

    decode_s: Output
    parts_s: Mapping[str, float]  # decode time by term, charged to the side that binds; {} where it is absent [s]
    binding: (
        str  # longer side of the roofline: "memory" (reading, unpacking), "compute"; "power" if limited; "" if absent
    )
    bound: Bound | None  # the group that dominates; None where none does
    memory: MemoryFit | Absent
    outside: tuple[str, ...]  # violated limits of the model, board or runtime as sentences, memory first
    missed: tuple[MissedLimit, ...]
    feasible_alpha: float | None  # lower prune rate that keeps a missed accuracy limit
    needs_bits: bool  # the accuracy limit is missed without pruning too: weights or cache need more bits
    changes: tuple[Change, ...]  # single steps that lower the decode time, the largest saving first
    proposed: tuple[Change, ...]  # the best two changes of settings, see `core.predict.changes.proposed`
    prunes: bool  # whether the runtime can prune the cache
    interval_scale: float  # of the decode time
    interval_basis: str  # its reason as a sentence; "" where there is nothing to report

    @property
    def shares(self) -> dict[str, float]:
        """Share of the decode time by term; their sum is 1."""
        total = sum(self.parts_s.values())
        return {name: part / total for name, part in self.parts_s.items()}

    @property
    def dominant(self) -> str | None:
        """The term that dominates, or None where none does."""
        return next((name for name, share in self.shares.items() if share > DOMINANT_FRAC), None)


def explain(
    point: OperatingPoint,
    catalogue: Catalogue,
    known: Posterior,
    *,
    alpha_max: float | None = None,
    latency_s: float | None = None,
    power_w: float | None = None,
    accuracy_frac: float | None = None,
    request_s: float | None = None,
    sustained_tokens_s: float | None = None,
    answer_tokens: float = ANSWER_TOKENS,
    sustained: Output | None = None,
    measured: Callable[[str], Output] | None = None,
    predicted: Callable[[OperatingPoint], Prediction] | None = None,
) -> Verdict:
    """Return the verdict on a point (scalars only).

    Parameters
    ----------
    point : OperatingPoint
    catalogue : Catalogue
    known : Posterior
        Of the point's board, runtime and power mode.
    alpha_max : float, optional
        The largest prune rate within the quality budget (r_max) or the accuracy limit, in [0, 1). No change prunes
        beyond it.
    latency_s, power_w, accuracy_frac, request_s, sustained_tokens_s, answer_tokens, sustained : optional
        Limits and what they are set against, as in `margins`.
    measured : callable, optional
        Returns the measured value of a field of `Prediction` at the point; it takes precedence over the predicted one.
    predicted : callable, optional
        Returns the prediction of a point, such as from a cache; `predict` by default.

    Raises
    ------
    ValueError
        As `predict`.
    """
    predicted = predicted or (lambda one: predict(one, catalogue, known))
    here, at = predicted(point), catalogue.resolve(point)
    limits = {
        "decode_s": latency_s,
        "power_w": power_w,
        "top1_agreement": accuracy_frac,
        "request_p99_s": request_s,
        "sustained_tokens_s": sustained_tokens_s,
    }

    def value(name: str) -> Output:
        found = measured(name) if measured else None
        output: Output = found if isinstance(found, Estimate) else getattr(here, name)
        return output

    missed = tuple(_missed(limits, limited_outputs(value, answer_tokens, sustained)))
    tried = tuple(changes(here, steps(point, catalogue, known.bandwidth_byte_s, alpha_max), predicted))
    feasible_alpha, needs_bits = _accuracy_remedy(point, missed, alpha_max, predicted)
    parts = binding_parts_s(here) if isinstance(here.decode_s, Estimate) else {}
    return Verdict(
        decode_s=here.decode_s,
        parts_s=parts,
        binding=str(here.binding),
        bound=_bound(parts),
        memory=memory_fit(point, at),
        outside=here.outside,
        missed=missed,
        feasible_alpha=feasible_alpha,
        needs_bits=needs_bits,
        changes=tried,
        proposed=tuple(proposed(tried, here, latency_s)),
        prunes="alpha" in at.runtime.knobs,
        interval_scale=known.interval_scale.decode,
        interval_basis=known.interval_scale_basis,
    )


def _bound(parts_s: Mapping[str, float]) -> Bound | None:
    least = DOMINANT_FRAC * sum(parts_s.values())
    of = {bound: sum(parts_s.get(name, 0.0) for name in names) for bound, names in PARTS_OF.items()}
    return next((bound for bound, seconds in of.items() if seconds > least), None)


AT_LEAST = frozenset({"top1_agreement", "sustained_tokens_s"})
"""Outputs whose limit is a lower one."""


def limited_outputs(
    value: Callable[[str], Output], answer_tokens: float = ANSWER_TOKENS, sustained: Output | None = None
) -> dict[str, Output]:
    """Return the outputs that can have a limit (scalars only).

    Parameters
    ----------
    value : callable
        Returns a field of `Prediction`, measured or predicted.
    answer_tokens : float
        Tokens of the answer of a request, >= 1 [tokens].
    sustained : Output, optional
        Speed at the end of a simulated run [tokens/s].
    """
    return {
        **{name: value(name) for name in ("decode_s", "power_w", "top1_agreement")},
        "request_p99_s": request_p99_s(value("ttft_s"), value("decode_s"), answer_tokens),
        "sustained_tokens_s": Absent("sustained operation is not simulated") if sustained is None else sustained,
    }


def _missed(limits: Mapping[str, float | None], outputs: Mapping[str, Output]) -> Iterator[MissedLimit]:
    for name, limit in limits.items():
        output = outputs[name]
        if limit is not None and isinstance(output, Estimate):
            value = float(output.median)
            if (value < limit) if name in AT_LEAST else (value > limit):
                yield MissedLimit(name, limit, value)


def _accuracy_remedy(
    point: OperatingPoint,
    missed: Sequence[MissedLimit],
    alpha_max: float | None,
    predicted: Callable[[OperatingPoint], Prediction],
) -> tuple[float | None, bool]:
    """Return the lower prune rate that keeps the accuracy limit, if any, and whether the limit is missed unpruned."""
    limit = next((each.limit for each in missed if each.output == "top1_agreement"), None)
    if limit is None:
        return None, False
    unpruned = predicted(replace(point, alpha=0.0)).top1_agreement
    if isinstance(unpruned, Estimate) and float(unpruned.median) < limit:
        return None, True
    return (alpha_max if alpha_max is not None and alpha_max < float(point.alpha) else None), False


@dataclass(frozen=True, slots=True)
class Margin:
    """Relative distance to one limit: 1 - value / limit, (value - limit) / (1 - limit) of accuracy, 1 - limit / value
    of a speed.

    A negative margin is a missed limit.
    """

    limit: str
    median: float
    low: float  # at the worse end of the prediction's 90 % interval
    high: float


def roofline_s(
    point: OperatingPoint, catalogue: Catalogue, posterior: Posterior | None = None
) -> tuple[float, float] | Absent:
    """Return the memory time (reading and unpacking) and the compute time of a token, each alone [s].

    The larger one binds. Scalars only. The compute time is that of the point at the highest bandwidth that the field
    allows.

    Returns
    -------
    (memory_s, compute_s) or Absent
        Absent where the decode time is, or where no source gives the compute rate.
    """
    here = predict(point, catalogue, posterior)
    if isinstance(here.decode_s, Absent):
        return here.decode_s
    at = catalogue.resolve(point)
    if at.mode.compute_op_s is None:
        return Absent(f"no source states the compute rate of {at.board.name}")
    unbounded = predict(replace(point, bandwidth_byte_s=BY_NAME["bandwidth_byte_s"].high), catalogue, posterior)
    return sum(float(here.parts_s[name]) for name in MEMORY_PARTS), binding_parts_s(unbounded)["compute"]


def margins(
    prediction: Prediction,
    *,
    latency_s: float | None = None,
    power_w: float | None = None,
    accuracy_frac: float | None = None,
    request_s: float | None = None,
    sustained_tokens_s: float | None = None,
    answer_tokens: float = ANSWER_TOKENS,
    sustained: Output | None = None,
) -> dict[str, Margin | Absent]:
    """Return the margins of a point (scalars only) to the given limits, by name.

    Parameters
    ----------
    prediction : Prediction
    latency_s : float, optional
        Largest decode time of a token, > 0 [s].
    power_w : float, optional
        Largest power, > 0 [W].
    accuracy_frac : float, optional
        Smallest top-1 agreement, in [0, 1).
    request_s : float, optional
        Largest 99 % quantile of the time of a whole request, > 0 [s].
    sustained_tokens_s : float, optional
        Smallest speed of sustained operation, > 0 [tokens/s].
    answer_tokens : float
        Tokens of the answer of a request, >= 1 [tokens].
    sustained : Output, optional
        Speed at the end of a simulated run [tokens/s].

    Raises
    ------
    ValueError
        A limit outside its range.
    """
    limits = {"latency_s": latency_s, "power_w": power_w, "request_s": request_s}
    for name, limit in (limits | {"sustained_tokens_s": sustained_tokens_s}).items():
        if limit is not None:
            check_range(name, limit, 0.0, open_low=True)
    if accuracy_frac is not None:
        check_range("accuracy_frac", accuracy_frac, 0.0, 1.0, open_high=True)
    outputs = limited_outputs(lambda name: getattr(prediction, name), answer_tokens, sustained)
    found = dict[str, Margin | Absent]()
    for name, limit, output in (
        ("latency", latency_s, "decode_s"),
        ("power", power_w, "power_w"),
        ("accuracy", accuracy_frac, "top1_agreement"),
        ("request P99", request_s, "request_p99_s"),
        ("sustained speed", sustained_tokens_s, "sustained_tokens_s"),
    ):
        if limit is not None:
            found[name] = _margin(name, limit, outputs[output], output)
    return found


def _margin(name: str, limit: float, value: Output, output: str) -> Margin | Absent:
    if isinstance(value, Absent):
        return value
    worse, better = (value.q05, value.q95) if output in AT_LEAST else (value.q95, value.q05)
    return Margin(name, *(margin_frac(output, limit, float(x)) for x in (value.median, worse, better)))


def margin_frac(output: str, limit: float, value: float) -> float:
    """Return the relative distance of a value to its limit: 1 at the ideal, 0 at the limit, negative beyond it.

    Parameters
    ----------
    output : str
        Key of `limited_outputs`, or another output whose limit is an upper one.
    limit, value : float
        Limit and value, > 0 [unit of the output].

    Examples
    --------
    >>> margin_frac("decode_s", 0.2, 0.05), margin_frac("sustained_tokens_s", 5.0, 10.0)
    (0.75, 0.5)
    >>> round(margin_frac("top1_agreement", 0.9, 0.95), 6), margin_frac("top1_agreement", 1.0, 0.9)
    (0.5, -0.1)
    """
    if output == "top1_agreement":
        return (value - limit) / (1.0 - limit) if limit < 1.0 else round(value - limit, 15)
    return 1.0 - limit / value if output in AT_LEAST else 1.0 - value / limit
