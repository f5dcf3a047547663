"""The measurements of the attached board, found by operating point and along a slider."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from app.library.axes import axis_of, canonical, exists, position_on, with_pruning_of
from app.library.measurements import Measurement
from app.library.prediction_curves import Dots
from core.spec import BY_PATH, FIELDS, Catalogue, Estimate, OperatingPoint, Provenance

REPEATS_SHOWN = 5
"""Repeats of one point that a curve shows, the newest."""

_PATHS = tuple(BY_PATH)
_UNPRUNED = ("point.alpha", *(field.path for field in FIELDS if field.of_pruning))
"""Without pruning these are of no effect."""

_Key = tuple[object, ...]


def _key(point: OperatingPoint) -> _Key:
    return tuple(getattr(point, field.name) for field in FIELDS)


def point_key(point: OperatingPoint, catalogue: Catalogue) -> _Key:
    """Return the key that points measured in the same way share."""
    return _key(canonical(point, catalogue))


def _without(*paths: str) -> itemgetter[_Key]:
    return itemgetter(*(i for i, path in enumerate(_PATHS) if path not in paths))


class Measured:
    """Measurements with the point that each was really run at, so that a slider finds its dots within a frame."""

    def __init__(self, measurements: Sequence[Measurement], catalogue: Catalogue) -> None:
        self.all: list[Measurement] = []
        self._keys: list[_Key] = []
        for measurement in measurements:
            self.add(measurement, catalogue)

    def that_exist(self, catalogue: Catalogue) -> Measured:
        """Return those whose points a catalogue can name: another board has other power modes."""
        return Measured([one for one in self.all if exists(one.point, catalogue)], catalogue)

    def add(self, measurement: Measurement, catalogue: Catalogue) -> None:
        """Append a measurement."""
        self.all.append(measurement)
        self._keys.append(point_key(measurement.point, catalogue))

    def at(self, point: OperatingPoint, catalogue: Catalogue) -> list[Measurement]:
        """Return the measurements of exactly a point, oldest first."""
        here = point_key(point, catalogue)
        return [measurement for key, measurement in zip(self._keys, self.all, strict=True) if key == here]

    def along(
        self, path: str, point: OperatingPoint, name: str, catalogue: Catalogue, origin: Provenance | None = None
    ) -> Dots:
        """Return an output along the axis of `path`, of the measurements equal to `point` in everything else.

        `origin` leaves out what comes from elsewhere.

        Of a position that was measured more than once, the newest `REPEATS_SHOWN` are there, oldest first: how far they
        lie apart is the machine's doing. On the axis of alpha the unpruned point belongs to every policy and layout.
        """
        here = canonical(point, catalogue)
        if path == "point.alpha":
            here = with_pruning_of(point, here)
        rest, unpruned, mine = _without(path), _without(*_UNPRUNED), _key(here)
        alpha, axis = _PATHS.index("point.alpha"), axis_of(path, point, catalogue)
        found: dict[float, list[tuple[tuple[float, ...], str]]] = {}
        for key, measurement in zip(self._keys, self.all, strict=True):
            same = unpruned if path == "point.alpha" and key[alpha] == 0 else rest
            if same(key) != same(mine):
                continue
            output = measurement.output(name)
            if isinstance(output, Estimate) and origin in (None, output.provenance):
                x = position_on(axis, canonical(measurement.point, catalogue), catalogue)
                if math.isnan(x):
                    continue
                row = (x, float(output.median), float(output.q05), float(output.q95))
                found.setdefault(x, []).append((row, str(measurement.body.get("source", ""))))
        return _dots([row for x in sorted(found) for row in found[x][-REPEATS_SHOWN:]])

    def by_origin(self, path: str, point: OperatingPoint, name: str, catalogue: Catalogue) -> dict[Provenance, Dots]:
        """Return the same by where it comes from, as far as there is any."""
        if not self.all:
            return {}
        origins = (Provenance.MEASURED, Provenance.SIMULATED, Provenance.PUBLISHED)
        found = {origin: self.along(path, point, name, catalogue, origin) for origin in origins}
        return {origin: dots for origin, dots in found.items() if len(dots.x)}


def _dots(found: list[tuple[tuple[float, ...], str]]) -> Dots:
    rows: NDArray[np.float64] = np.array([row for row, _ in found], dtype=float).reshape(-1, 4)
    return Dots(rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3], tuple(source for _, source in found))
