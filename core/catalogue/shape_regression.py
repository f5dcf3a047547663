"""Regression of the shape of a decoder on its size, for models that the catalogue does not have.

It is fitted to all models of the catalogue. The log-sds of the estimates are part of the shape
(`ModelShape.depth_log_sd` and others) and widen the intervals of predictions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.spec import ModelShape

Floats = NDArray[np.float64]

ANY_CONTEXT = 10_000_000  # no limit: rows may exceed the context that a model was trained on
KV_16_BIT_BYTE = 4  # of a key and its value
HEAD_WIDTH = 128  # of an attention head
DEPTHS = np.arange(4, 161)
KV_WIDTH_STEP = 64  # the width of a layer's keys is a multiple
POWER_OF_TWO_ODDS = 5.0  # [prior] odds that it is a power of two
SPARSE = 1.5  # held over read parameters, beyond which a model is a mixture of experts
NAMED_LOG_SD = 0.05  # of the parameters given the number in the name, beyond its rounding: "7B" has 6.7 to 8.2
HUBER = 1.5  # scales within which residuals have full weight
N_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Known figures of a model; None for unknown ones. At least one of the first two is known."""

    total_params: float | None = None
    read_params: float | None = None  # per token, without the input embedding
    kv_byte_per_token: float | None = None  # in 16 bit
    weighed: bool = False  # whether the bytes of its weights are known


@dataclass(frozen=True, slots=True)
class Line:
    """A linear regression between logarithms, and the log-sd about it."""

    slope: Floats  # (n,), the first one is the intercept
    log_sd: float

    @classmethod
    def through(cls, x: Floats, y: Floats) -> Line:
        """Fit y, shape (n,), by the columns of x, shape (n, p), with Huber weights; the log-sd is of all residuals."""
        weight = np.ones(len(y))
        for _ in range(N_ROUNDS):
            root = np.sqrt(weight)
            slope = np.asarray(np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0], dtype=np.float64)
            residual = np.abs(y - x @ slope)
            weight = 1.0 / np.maximum(1.0, residual / max(HUBER * 1.4826 * float(np.median(residual)), 1e-9))
        return cls(slope, float(np.sqrt(np.mean(np.square(y - x @ slope)))))

    def at(self, *x: float) -> float:
        """Return the value of the regression."""
        return float(self.slope @ np.array([1.0, *x]))


@dataclass(frozen=True, slots=True)
class TypicalShapes:
    """Regressions over the models of the catalogue, in natural logarithms. P is the parameters read per token.

    Attributes
    ----------
    depth : layers, by ln P and ln(held / P); held are all parameters without a separate input embedding
    head : parameters of the output head, by ln P; dense models only
    kv_width : width of the keys of a layer, by ln P
    read : P over all parameters; dense models only
    width : ln(body / (layers hidden**2))
    """

    depth: Line
    head: Line
    kv_width: Line
    read: Line
    width: Line

    @classmethod
    def of(cls, models: Iterable[ModelShape]) -> TypicalShapes:
        """Fit the regressions to models; models of equal shape count once."""
        distinct = {(m.n_layers, m.hidden_size, m.intermediate_size, m.vocab_size): m for m in models}
        known = list(distinct.values())
        read, held, body, head, total, layers, hidden, kv = np.log(
            [
                (
                    m.body_params + m.head_params,
                    max(_held(m), m.body_params + m.head_params),
                    m.body_params,
                    m.head_params,
                    m.total_params,
                    m.n_layers,
                    m.hidden_size,
                    m.n_kv_heads * m.head_dim,
                )
                for m in known
            ]
        ).T
        one = np.ones(len(known))
        dense = held - read < np.log(SPARSE)
        return cls(
            depth=Line.through(np.column_stack([one, read, np.where(dense, 0.0, held - read)]), layers),
            head=Line.through(np.column_stack([one, read])[dense], head[dense]),
            kv_width=Line.through(np.column_stack([one, read]), kv),
            read=Line.through(one[dense, None], (read - total)[dense]),
            width=Line.through(one[:, None], body - layers - 2.0 * hidden),
        )

    def shape(self, key: str, name: str, facts: ModelFacts) -> ModelShape:
        """Return the expected shape of a model.

        Parameters
        ----------
        key, name : str
        facts : ModelFacts

        Returns
        -------
        ModelShape
            With attention heads about 128 wide.

        Raises
        ------
        ValueError
            Neither number of parameters is known.
        """
        if facts.read_params is None and facts.total_params is None:
            raise ValueError("facts.read_params, facts.total_params = None, None; expected at least one number")
        total = facts.total_params
        read = facts.read_params or (total or 0.0) * np.exp(self.read.at())
        held = max(total or read, read)
        sparse = held > SPARSE * read
        head, head_log_sd = self._head(read, held, sparse=sparse, exact=None not in (total, facts.read_params))
        body = read - head
        n_layers, depth_log_sd = self._depth(read, held if sparse else read, facts.kv_byte_per_token)
        n_heads = max(1, round(float(np.sqrt(body / n_layers / np.exp(self.width.at()))) / HEAD_WIDTH))
        kv_width = float(np.exp(self.kv_width.at(np.log(read))))
        if facts.kv_byte_per_token is not None:
            kv_width = facts.kv_byte_per_token / (KV_16_BIT_BYTE * n_layers)
        n_kv_heads = max(1, round(kv_width / HEAD_WIDTH))
        head_dim = max(1, round(kv_width / n_kv_heads))
        hidden = HEAD_WIDTH * n_heads
        return ModelShape(
            key=key,
            name=name,
            n_layers=n_layers,
            hidden_size=hidden,
            n_heads=max(n_kv_heads, round(hidden / head_dim)),
            n_kv_heads=n_kv_heads,
            head_dim=head_dim,
            intermediate_size=4 * hidden,
            vocab_size=max(1, round(head / hidden)),
            tied_embeddings=sparse or held <= read,
            body_params=body,
            head_params=head,
            total_params=held,
            max_context_tokens=ANY_CONTEXT,
            depth_log_sd=depth_log_sd,
            cache_log_sd=self.kv_width.log_sd if facts.kv_byte_per_token is None else 0.0,
            body_log_sd=head_log_sd * head / body,
            read_log_sd=0.0 if facts.weighed else self._read_log_sd(facts),
        )

    def _head(self, read: float, held: float, *, sparse: bool, exact: bool) -> tuple[float, float]:
        """Return the parameters of the output head and their log-sd: those of a separate input embedding if known."""
        embedding = held - read
        if exact and not sparse and embedding > 0.01 * held:
            return min(embedding, 0.5 * read), 0.0
        expected = float(np.exp(self.head.at(np.log(held if sparse else read))))
        return min(expected, 0.4 * read), self.head.log_sd

    def _depth(self, read: float, held: float, kv_byte: float | None) -> tuple[int, float]:
        """Return the number of layers and its log-sd; a known cache size restricts it to plausible key widths."""
        log_layers = self.depth.at(np.log(read), np.log(held / read))
        if kv_byte is None:
            return max(2, round(float(np.exp(log_layers)))), self.depth.log_sd
        width = kv_byte / (KV_16_BIT_BYTE * DEPTHS)
        power = np.log2(np.maximum(width, 1.0)) % 1.0 == 0.0
        can_be = (width % KV_WIDTH_STEP == 0.0) * np.where(power, POWER_OF_TWO_ODDS, 1.0)
        weight = np.exp(-0.5 * np.square((np.log(DEPTHS) - log_layers) / self.depth.log_sd))
        weight *= can_be if can_be.any() else 1.0
        best = int(DEPTHS[np.argmax(weight)])
        off = np.square(np.log(DEPTHS / best))
        return best, float(np.sqrt(np.average(off, weights=weight)))

    def _read_log_sd(self, facts: ModelFacts) -> float:
        """Return the log-sd of the parameters read: by the regression on a total, and by the rounding of names."""
        params = facts.read_params or facts.total_params or 0.0
        unit = next((unit for unit in (1e9, 1e8) if abs(params / unit - round(params / unit)) < 1e-6), 0.0)
        rounded = float(np.hypot(NAMED_LOG_SD, unit / (np.sqrt(12.0) * params))) if unit else 0.0
        return float(np.hypot(rounded, 0.0 if facts.read_params else self.read.log_sd))


def _held(model: ModelShape) -> float:
    """Return all parameters without a separate input embedding."""
    return model.total_params - (0.0 if model.tied_embeddings else model.head_params)
