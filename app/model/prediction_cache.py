"""Cache of predictions for one catalogue and one calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.library import attention, axes, prediction_curves
from app.library.axes import Axis
from app.library.measurements import Measurement
from app.library.prediction_curves import Mark, Sensitivity
from core.predict.scenario import predict
from core.spec import Catalogue, OperatingPoint, Posterior, Prediction


class Predicted:
    """Predictions at and around operating points, each made once.

    Parameters
    ----------
    catalogue : Catalogue
    posterior : Posterior, optional
        Posterior of a calibration; `predict` ignores one of another board or runtime.
    """

    def __init__(self, catalogue: Catalogue, posterior: Posterior | None = None) -> None:
        self._catalogue, self._posterior = catalogue, posterior
        self._made: dict[Any, Any] = {}

    def forget(self, paths: Sequence[str]) -> None:
        """Let go what is of another point, now that `paths` of it have changed.

        A curve along the slider that moved is the same from wherever on it one looks.
        """
        self._made = {key: made for key, made in self._made.items() if key[0] == "curve" and [key[2]] == list(paths)}

    def at(self, point: OperatingPoint) -> Prediction:
        """All outputs at a point."""
        made: Prediction = self._once(("point", point), lambda: predict(point, self._catalogue, self._posterior))
        return made

    def curve(self, axis: Axis, point: OperatingPoint, n: int) -> tuple[NDArray[np.float64], Prediction]:
        """Predict along an axis, everything else as in `point`."""
        made: tuple[NDArray[np.float64], Prediction] = self._once(
            ("curve", n, axis.path, axes.moved(point, axis.path, None)),
            lambda: prediction_curves.curve(axis, point, self._catalogue, self._posterior, n),
        )
        return made

    def sensitivities(self, point: OperatingPoint) -> Mapping[str, Sensitivity]:
        """Effect of one step of each numeric slider on a point, by path."""
        made: Mapping[str, Sensitivity] = self._once(
            ("sensitivities", point), lambda: prediction_curves.sensitivities(point, self._catalogue, self._posterior)
        )
        return made

    def r_max(self, point: OperatingPoint, top1_limit: float | None, measurements: Sequence[Measurement]) -> Mark:
        """The largest KV prune rate that keeps the quality budget: the accuracy limit, or else the attention mass."""
        made: Mark = self._once(
            ("r_max", point, top1_limit, len(measurements)),
            lambda: prediction_curves.r_max(
                point, self._catalogue, self._posterior, top1_limit, attention.nearest(measurements, point)
            ),
        )
        return made

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]
