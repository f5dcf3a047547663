"""Fit of the cost of KV token re-selection to measured re-selections.

::

    T_reselect = L t_policy + (c_format C + r_format K + s_policy Q) / BW

C are the keys and values that are compacted, K the keys of all cached tokens and Q the same once per query head
(`core.physics.latency.reselection_parts`). The terms are fitted in logarithms about the runtime's priors. The common
factor of a term for all policies or formats is one parameter, so a measurement of one policy or format informs the
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.calibrate import robust
from core.calibrate.leave_one_out import FEWEST, CrossCheck, cross_check
from core.calibrate.observations import MeasuredPoint
from core.physics import latency, traffic
from core.spec import Catalogue, ReselectionCost

Floats = NDArray[np.float64]

TERMS = ("layer", "copy", "read", "score")  # in the order of `latency.reselection_parts`
TERM_LOG_SD = 1.0  # [prior] of each term on a machine about the runtime's
OWN_LOG_SD = 0.4  # [prior] of one policy or format about the common factor of the term
SCATTER_LOG_SD = 0.1  # [prior] of a measured re-selection about its prediction


@dataclass(frozen=True, slots=True)
class MeasuredReselection:
    """One measured re-selection (scalars).

    Attributes
    ----------
    policy, kv : a policy of the runtime's cost, and the KV format
    moved_byte, n_layers, bandwidth_byte_s : as in `core.physics.latency.reselection_parts`
    duration_s : measured, > 0 [s]
    """

    policy: str
    kv: str
    moved_byte: tuple[float, float, float]
    n_layers: int
    bandwidth_byte_s: float
    duration_s: float

    def parts_s(self, cost: ReselectionCost) -> tuple[float, ...]:
        """Return the predicted terms of the duration [s]."""
        parts = latency.reselection_parts(
            cost, self.policy, self.kv, self.moved_byte, self.n_layers, self.bandwidth_byte_s
        )
        return tuple(float(part) for part in parts)


def measured_reselections(
    points: Sequence[MeasuredPoint], catalogue: Catalogue, bandwidth_byte_s: float
) -> list[MeasuredReselection]:
    """Return the timed re-selections among points of one board with a peak bandwidth."""
    found = []
    for measured in points:
        if measured.reselection_s is not None:
            point, at = measured.point, catalogue.resolve(measured.point)
            copied, keys, scored = traffic.reselection_byte(at.model, point.context_tokens, point.alpha, point.layout)
            moved = float(copied), float(keys), float(scored)
            n_layers = at.model.n_caching_layers
            found.append(
                MeasuredReselection(point.policy, at.kv.key, moved, n_layers, bandwidth_byte_s, measured.reselection_s)
            )
    return found


def fitted_cost(known: ReselectionCost, measured: Sequence[MeasuredReselection]) -> ReselectionCost:
    """Return the re-selection cost fitted to measurements; `known` where there are none.

    The `log_sd` of the result contains the scatter of a new re-selection and the remaining uncertainty of the terms.
    """
    if not measured:
        return known
    columns = _columns(known, measured)
    fitted = robust.fit(*_problem(known, measured, columns))
    left = np.sum(fitted.jacobian @ fitted.cov * fitted.jacobian, axis=1)
    scatter = float(fitted.scale[0]) * robust.NORMAL_SD_PER_SCALE
    grown = dict(zip(columns, np.exp(fitted.mean), strict=True))

    def times(term: str, given: Mapping[str, float]) -> dict[str, float]:
        return {key: float(of * grown[term, ""] * grown.get((term, key), 1.0)) for key, of in given.items()}

    formats = {m.kv for m in measured}
    return ReselectionCost(
        layer_s=times("layer", known.layer_s),
        copy=times("copy", _with_formats(known, known.copy, formats)),
        read=times("read", _with_formats(known, known.read, formats)),
        score=times("score", known.score),
        log_sd=float(np.hypot(scatter, np.sqrt(np.mean(left)))),
    )


def _with_formats(known: ReselectionCost, of: Mapping[str, float], formats: Iterable[str]) -> dict[str, float]:
    return {**of, **{kv: known.of_format(of, kv) for kv in formats}}


def check(known: ReselectionCost, measured: Sequence[MeasuredReselection]) -> CrossCheck | None:
    """Predict each re-selection from all others; None where there are fewer than `FEWEST`."""
    if len(measured) < FEWEST:
        return None
    others = [fitted_cost(known, [*measured[:i], *measured[i + 1 :]]) for i in range(len(measured))]
    predicted_s = [sum(m.parts_s(cost)) for m, cost in zip(measured, others, strict=True)]
    log_sd = np.array([cost.log_sd for cost in others])
    return cross_check(np.log([m.duration_s for m in measured]), np.log(predicted_s), log_sd)


def _columns(known: ReselectionCost, measured: Sequence[MeasuredReselection]) -> list[tuple[str, str]]:
    """Return the term of each parameter, and its policy or format; "" for the factor common to all."""
    formats = sorted({m.kv for m in measured})
    own = [("score" if score else "layer", policy) for policy, score in sorted(known.score.items())]
    return [*((term, "") for term in TERMS), *own, *((term, kv) for term in ("copy", "read") for kv in formats)]


def _problem(
    known: ReselectionCost, measured: Sequence[MeasuredReselection], columns: Sequence[tuple[str, str]]
) -> tuple[robust.Model, robust.Observed, robust.Prior]:
    """Return model, observations and prior of the fit; its parameters are logarithms of factors, see `_columns`."""
    terms = np.array([m.parts_s(known) for m in measured])
    term = np.array([TERMS.index(name) for name, _ in columns])
    applies = np.array([[key in ("", m.policy, m.kv) for _, key in columns] for m in measured], dtype=float)
    of_term = (term[None, :] == np.arange(len(TERMS))[:, None]).astype(float)

    def model(theta: Floats) -> tuple[Floats, Floats]:
        grown = terms * np.exp((applies * theta) @ of_term.T)
        total = grown.sum(axis=1)
        return np.log(total), applies * (grown / total[:, None])[:, term]

    n = len(measured)
    observed = robust.Observed(np.log([m.duration_s for m in measured]), np.zeros(n), np.zeros(n, dtype=np.intp))
    sd = np.array([TERM_LOG_SD if not key else OWN_LOG_SD for _, key in columns])
    scale = np.array([SCATTER_LOG_SD / robust.NORMAL_SD_PER_SCALE])
    return model, observed, robust.Prior(np.zeros(len(sd)), np.diag(np.square(sd)), scale)
