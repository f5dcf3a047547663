"""Choosing anew which cached tokens are read: what measured choices teach of the terms of its time.

::

    T_choice = L t_layer + f_format (s_policy K + c C) / BW

K are the keys of all cached tokens, C keys and values of those that are copied together (`core.latency.choice_s`). The
terms are learned in logarithms about the runtime's priors. What the scores of all policies have in common is one
parameter, so a measured policy also tells of those that were not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core import latency, robust, traffic
from core.crosscheck import FEWEST, CrossCheck, of_predictions
from core.measured import MeasuredPoint
from core.spec import Catalogue, ChoiceCost

Floats = NDArray[np.float64]

TERM_LOG_SD = 1.0  # [prior] of each term on a machine about the runtime's
POLICY_LOG_SD = 0.3  # [prior] of a policy's scores about those of all
FORMAT_LOG_SD = 0.4  # [prior] of a cache format about the others
SCATTER_LOG_SD = 0.1  # [prior] of a measured choice about its prediction


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """One measured choice (scalars).

    Attributes
    ----------
    policy, kv : one that the runtime's cost knows, and the format of the cache
    key_byte, copied_byte, n_layers, bandwidth_byte_s : as in `core.latency.choice_s`
    duration_s : measured, > 0 [s]
    """

    policy: str
    kv: str
    key_byte: float
    copied_byte: float
    n_layers: int
    bandwidth_byte_s: float
    duration_s: float

    def predicted_s(self, cost: ChoiceCost) -> float:
        """Return its duration by a cost [s]."""
        moved = self.key_byte, self.copied_byte, self.n_layers
        return float(latency.choice_s(cost, self.policy, self.kv, *moved, self.bandwidth_byte_s))


def measured_choices(
    points: Sequence[MeasuredPoint], catalogue: Catalogue, bandwidth_byte_s: float
) -> list[MeasuredChoice]:
    """Return the choices that were timed at operating points of one board, whose bandwidth that is."""
    found = []
    for measured in points:
        if measured.choice_s is not None:
            point, at = measured.point, catalogue.setting(measured.point)
            byte = traffic.choice_byte(at.model, point.context_tokens, point.alpha, point.layout)
            read, copied = map(float, byte)
            n_layers = at.model.n_caching_layers
            found.append(
                MeasuredChoice(point.policy, at.kv.key, read, copied, n_layers, bandwidth_byte_s, measured.choice_s)
            )
    return found


def learned(known: ChoiceCost, measured: Sequence[MeasuredChoice]) -> ChoiceCost:
    """Return what choosing costs by the measurements; `known` itself where there are none.

    The `log_sd` returned is the scatter of a new choice with what is left of the terms' uncertainty.
    """
    if not measured:
        return known
    policies, formats = sorted(known.score), sorted({m.kv for m in measured} | set(known.format))
    fitted = robust.fit(*_problem(known, measured, policies, formats))
    left = np.sum(fitted.jacobian @ fitted.cov * fitted.jacobian, axis=1)
    scatter = float(fitted.scale[0]) * robust.NORMAL_SD_PER_SCALE
    grown = np.exp(fitted.mean)
    layer, copy, score = grown[:3]
    of_policy = dict(zip(policies, grown[3 : 3 + len(policies)], strict=True))
    of_format = dict(zip(formats, grown[3 + len(policies) :], strict=True))
    return ChoiceCost(
        layer_s=float(known.layer_s * layer),
        copy=float(known.copy * copy),
        score={policy: float(of * score * of_policy[policy]) for policy, of in known.score.items()},
        log_sd=float(np.hypot(scatter, np.sqrt(np.mean(left)))),
        format={key: float(known.format.get(key, 1.0) * of_format[key]) for key in formats},
    )


def check(known: ChoiceCost, measured: Sequence[MeasuredChoice]) -> CrossCheck | None:
    """Predict each choice from all others; None for too few."""
    if len(measured) < FEWEST:
        return None
    others = [learned(known, [*measured[:i], *measured[i + 1 :]]) for i in range(len(measured))]
    predicted_s = [m.predicted_s(cost) for m, cost in zip(measured, others, strict=True)]
    log_sd = np.array([cost.log_sd for cost in others])
    return of_predictions(np.log([m.duration_s for m in measured]), np.log(predicted_s), log_sd)


def _problem(
    known: ChoiceCost, measured: Sequence[MeasuredChoice], policies: Sequence[str], formats: Sequence[str]
) -> tuple[robust.Model, robust.Observed, robust.Prior]:
    """Parameters: logarithms, relative to `known`, of the layers' term, the copy's, all scores', each policy's scores,
    and each format's two terms.
    """
    per_byte = np.array([known.format.get(m.kv, 1.0) / m.bandwidth_byte_s for m in measured])
    terms = np.stack(
        [
            np.array([m.n_layers * known.layer_s for m in measured]),
            np.array([known.copy * m.copied_byte for m in measured]) * per_byte,
            np.array([known.score[m.policy] * m.key_byte for m in measured]) * per_byte,
        ],
        axis=1,
    )
    of_policy = np.array([[float(m.policy == policy) for policy in policies] for m in measured])
    of_format = np.array([[float(m.kv == key) for key in formats] for m in measured])

    def model(theta: Floats) -> tuple[Floats, Floats]:
        own = theta[3 : 3 + len(policies)], theta[3 + len(policies) :]
        grown = terms * np.exp(theta[:3])
        grown[:, 1:] *= np.exp(of_format @ own[1])[:, None]
        grown[:, 2] *= np.exp(of_policy @ own[0])
        total = grown.sum(axis=1)
        shares = grown / total[:, None]
        return np.log(total), np.hstack([shares, shares[:, 2:] * of_policy, shares[:, 1:].sum(1)[:, None] * of_format])

    n = len(measured)
    observed = robust.Observed(np.log([m.duration_s for m in measured]), np.zeros(n), np.zeros(n, dtype=np.intp))
    sd = np.array([TERM_LOG_SD] * 3 + [POLICY_LOG_SD] * len(policies) + [FORMAT_LOG_SD] * len(formats))
    scale = np.array([SCATTER_LOG_SD / robust.NORMAL_SD_PER_SCALE])
    return model, observed, robust.Prior(np.zeros(len(sd)), np.diag(np.square(sd)), scale)
