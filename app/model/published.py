"""Published rows of the shipped table beside an operating point: found by what fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from app.library.measurements import Measurement
from app.library.prediction_curves import Dots
from app.model.measured_points import Measured
from core.predict.scenario import predict
from core.spec import Catalogue, Estimate, OperatingPoint, Provenance

NEAR_LOG = 0.03
"""Difference of predicted times, in logarithms, up to which a row of another context counts as of the same."""


class Published:
    """Published rows of boards of the catalogue, found by what fits an operating point.

    A row fits a point of its board, power mode, model, runtime and formats, pruned by nothing. Its context may differ
    by as much as changes the predicted time by `NEAR_LOG`; KV formats of equal bits are one.
    """

    def __init__(self, rows: Sequence[Measurement] = ()) -> None:
        self._rows: dict[tuple[str, str, str], list[Measurement]] = {}
        for row in rows:
            self._rows.setdefault((row.point.board, row.point.model, row.point.runtime), []).append(row)
        self._last: tuple[object, Measured] | None = None

    def along(self, path: str, point: OperatingPoint, name: str, catalogue: Catalogue) -> Dots:
        """Return an output of the rows that fit, along the axis of `path`."""
        key = (path, point.context_tokens, point.kv, point.board, point.model, point.runtime, point.weights)
        if self._last is None or self._last[0] != key:
            rows = self._rows.get((point.board, point.model, point.runtime), [])
            self._last = key, Measured([_as_at(point, row, path, catalogue) for row in rows], catalogue)
        return self._last[1].along(path, point, name, catalogue)


def joined(known: dict[Provenance, Dots], published: Dots) -> dict[Provenance, Dots]:
    """Return dots by provenance with more published ones."""
    if not len(published.x):
        return known
    own = known.get(Provenance.PUBLISHED)
    if own is not None:
        columns = [np.concatenate(pair) for pair in zip(_columns(own), _columns(published), strict=True)]
        published = Dots(columns[0], columns[1], columns[2], columns[3], (*own.sources, *published.sources))
    return {**known, Provenance.PUBLISHED: published}


def _columns(dots: Dots) -> tuple[NDArray[np.float64], ...]:
    return dots.x, dots.median, dots.q05, dots.q95


def _as_at(point: OperatingPoint, row: Measurement, path: str, catalogue: Catalogue) -> Measurement:
    """Return a row with the context and the KV format of a point where they amount to its own."""
    own, bits = row.point, catalogue.kv_formats
    if path != "point.kv" and bits[own.kv].bits_per_value == bits[point.kv].bits_per_value:
        own = replace(own, kv=point.kv)
    if path != "point.context":
        contexts = np.array([own.context_tokens, point.context_tokens], dtype=float)
        times = predict(replace(own, context_tokens=contexts), catalogue, None)
        outputs = (times.decode_s, times.ttft_s)
        output = outputs["ttft_s" in row.body]
        if isinstance(output, Estimate) and abs(np.diff(np.log(output.median))[0]) <= NEAR_LOG:
            own = replace(own, context_tokens=point.context_tokens)
    return replace(row, point=own)
