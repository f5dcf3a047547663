"""The one mutable state of the dashboard. It changes here and nowhere else: first the value, then the signal.

Views read the store and push `app.model.commands`; the conductor writes what the board says. `changed` carries the path
that has changed: a settable path of `Store.get`, or one of ``prediction``, ``measurements``, ``calibration``,
``catalogue``, ``link``, ``activity``, ``log``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Signal

from app.library import axes
from app.library.axes import Axis
from app.library.limits import LIMITS, Limits
from app.library.machine import no_sensor, why_not_measurable
from app.library.measurements import Measurement
from app.library.prediction_curves import Dots, Mark, Sensitivity
from app.model.checks import checked
from app.model.measured_points import Measured
from app.model.prediction_cache import Predicted
from app.model.published import Published, joined
from app.model.state import NO_AXIS, PLAIN, Activity, Link, LogLine
from core.spec import (
    BY_PATH,
    FIELDS,
    Absent,
    Board,
    Catalogue,
    Estimate,
    OperatingPoint,
    Output,
    Posterior,
    Prediction,
    Provenance,
    Runtime,
)

if TYPE_CHECKING:
    from app.library.loop import Loop
    from core.calibrate.fit import Calibration

    Proposal = tuple[OperatingPoint, str]
LOG_LINES = 1000


class Store(QObject):
    """All state that more than one panel sees.

    Parameters
    ----------
    catalogue : Catalogue
        Boards, models, runtimes and formats; ``catalogue.boards["this"]`` learns its bandwidth when it is measured.
    point : OperatingPoint, optional
        Where to start.
    """

    changed = Signal(str)

    def __init__(self, catalogue: Catalogue, point: OperatingPoint | None = None) -> None:
        super().__init__()
        self._catalogue = catalogue
        self._point = point or OperatingPoint()
        axes.check_point(self._point, catalogue)
        self._limits = Limits()
        self._values: dict[str, Any] = {"axis": "point.alpha", "pinned": None, **PLAIN}
        self._link, self._activity, self._log = Link(), Activity(), deque[LogLine](maxlen=LOG_LINES)
        self._measured = self._elsewhere = Measured((), catalogue)
        self._calibration: Calibration | None = None
        self._proposal: Proposal | None = None
        self._machine, self._not_here = "", "This board has not been measured yet."
        self.loop: Loop | None = None  # the attached board followed
        self.sustained: Output = Absent("sustained operation is not simulated")
        self.beta_measured: Mapping[str, float] = {}
        self._predicted, self.published = Predicted(catalogue), Published()

    # ---- reading

    @property
    def catalogue(self) -> Catalogue:
        """Boards, models, runtimes and formats by key."""
        return self._catalogue

    @property
    def point(self) -> OperatingPoint:
        """The current operating point (scalars only)."""
        return self._point

    @property
    def limits(self) -> Limits:
        """The user's limits."""
        return self._limits

    @property
    def axis(self) -> str:
        """The path of the slider last moved: the horizontal axis of the curves."""
        return str(self._values["axis"])

    @property
    def link(self) -> Link:
        """State of the link to the board."""
        return self._link

    @property
    def activity(self) -> Activity:
        """Current activity of the board."""
        return self._activity

    @property
    def log(self) -> Sequence[LogLine]:
        """The last lines of the log, oldest first."""
        return self._log

    @property
    def measurements(self) -> Sequence[Measurement]:
        """All measurements of the attached board, oldest first."""
        return self._measured.all

    @property
    def elsewhere(self) -> Sequence[Measurement]:
        """Measurements of boards attached before, and imported ones: the board's key is in their points."""
        return self._elsewhere.all

    @property
    def machine(self) -> str:
        """The machine, runtime version and model file that the measurements hold for; "" before one is attached."""
        return self._machine

    @property
    def calibration(self) -> Calibration | None:
        """The model fitted to the attached board, or None before there are enough measurements."""
        return self._calibration

    @property
    def proposal(self) -> tuple[OperatingPoint, str] | None:
        """The measurement that would narrow the predictions most, and why; None where none would by much."""
        return self._proposal

    def get(self, path: str) -> Any:
        """Return the value at a path: ``point``, ``point.alpha``..., ``limits``, ``limits.latency``..., ``axis``,
        ``pinned``, or one of `PLAIN`.

        Raises
        ------
        ValueError
            There is no such path.
        """
        if path == "point":
            return self._point
        if path == "limits":
            return self._limits
        if path in BY_PATH:
            return getattr(self._point, BY_PATH[path].name)
        if path in LIMITS:
            return getattr(self._limits, LIMITS[path])
        if path in self._values:
            return self._values[path]
        raise ValueError(f"there is no path {path!r} in the store")

    def axis_range(self, path: str) -> Axis:
        """Return range, step and options of a path of the point, for the current board and model."""
        return axes.axis_of(path, self._point, self._catalogue)

    def position(self, path: str) -> float:
        """Return the position of the current point on the axis of `path` (SI value, or index of the option)."""
        return axes.position(path, self._point, self._catalogue)

    # ---- writing

    def checked(self, path: str, value: Any) -> Any:
        """Return `value` as `set` would store it at `path`.

        Raises
        ------
        ValueError
            One sentence naming the path, the value and what was expected.
        """
        return checked(path, value, self._point, self._catalogue)

    def set(self, path: str, value: Any) -> None:
        """Check a value, store it, then emit every path that changed by it. Setting what is there already does nothing.

        Setting a field of the point also makes it the axis. A new board or model takes along what it cannot do: its
        power mode goes back to the default, a context beyond the model's becomes the model's, with a line in the log.

        Raises
        ------
        ValueError
            As `checked`; nothing was changed.
        """
        value = self.checked(path, value)
        if path in BY_PATH:
            paths = self._replace_point(self._fitting(axes.moved(self._point, path, value)))
            if path not in NO_AXIS:
                paths += self._replace_value("axis", path)
        elif path == "point":
            paths = self._replace_point(value)
        elif path in LIMITS or path == "limits":
            limits = value if path == "limits" else replace(self._limits, **{LIMITS[path]: value})
            paths = [p for p, name in LIMITS.items() if getattr(limits, name) != getattr(self._limits, name)]
            self._limits = limits
        else:
            paths = self._replace_value(path, value)
        for changed in paths:
            self.changed.emit(changed)

    def _replace_value(self, path: str, value: Any) -> list[str]:
        if self._values[path] == value:
            return []
        self._values[path] = value
        return [path]

    def _replace_point(self, point: OperatingPoint) -> list[str]:
        before, self._point = self._point, point
        paths = [field.path for field in FIELDS if getattr(point, field.name) != getattr(before, field.name)]
        if not paths:
            return []
        self._predicted.forget(paths)
        return [*paths, "prediction"]

    def _fitting(self, point: OperatingPoint) -> OperatingPoint:
        point, notes = axes.settled(point, self._point, self._catalogue)
        for note in notes:
            self.say("info", note)
        return point

    def set_link(self, **changes: Any) -> None:
        """Replace fields of `link` and emit ``link``."""
        self._link = replace(self._link, **changes)
        self.changed.emit("link")

    def set_activity(self, activity: Activity) -> None:
        """Replace `activity` and emit ``activity``."""
        self._activity = activity
        self.changed.emit("activity")

    def say(self, level: str, text: str) -> None:
        """Append a line to the log and emit ``log``."""
        self._log.append(LogLine(datetime.now(UTC), level, text))
        self.changed.emit("log")

    def set_machine(
        self,
        machine: str,
        measurements: Sequence[Measurement],
        not_here: str = "",
        beta: Mapping[str, float] | None = None,
        elsewhere: Sequence[Measurement] = (),
    ) -> None:
        """Set the attached machine and its earlier measurements; `not_here` is the reason that it cannot measure.

        `beta` has the measured factors of its instruction sets; `elsewhere` is of other boards, or by others of this.
        """
        self._machine, self._not_here, self.beta_measured = machine, not_here, beta or {}
        self._measured = Measured(measurements, self._catalogue)
        self._elsewhere = Measured(elsewhere, self._catalogue)
        self._predicted.forget(())  # r_max may be of what was measured
        self.changed.emit("measurements")

    def add_measurement(self, measurement: Measurement) -> None:
        """Append a measurement of the attached board and emit ``measurements``."""
        self._measured.add(measurement, self._catalogue)
        self.changed.emit("measurements")

    def set_calibration(
        self, calibration: Calibration | None, proposal: Proposal | None = None, loop: Loop | None = None
    ) -> None:
        """Replace the calibration, the next measurement and the loop; every prediction of this board follows."""
        self._calibration, self._proposal, self.loop = calibration, proposal, loop
        self._predict_anew("calibration")

    def set_board(
        self,
        board: Board,
        runtime: Runtime | None = None,
        published: Mapping[tuple[str, str, str], Posterior] | None = None,
    ) -> None:
        """Replace a board, a runtime as it is there, and what published measurements teach; predictions follow."""
        for path in ("point", "pinned"):
            if (held := self.get(path)) is not None and held.board == board.key:
                self.set(path, axes.with_mode_of(held, board))
        known = self._catalogue
        self._catalogue = replace(
            known,
            boards={**known.boards, board.key: board},
            bench_runtimes=known.bench_runtimes
            if runtime is None
            else {**known.bench_runtimes, (board.key, runtime.key): runtime},
            board_posteriors=known.board_posteriors if published is None else published,
        )
        self._measured = self._measured.that_exist(self._catalogue)
        self._elsewhere = self._elsewhere.that_exist(self._catalogue)
        self._predict_anew("catalogue")

    def _predict_anew(self, because: str) -> None:
        self._predicted = Predicted(self._catalogue, self.posterior)
        self.changed.emit(because)
        self.changed.emit("prediction")

    # ---- what follows from it

    @property
    def not_measured_here(self) -> str:
        """Why the board of the current point has no measurements, in one sentence; "" when it can have some."""
        if self._point.board != "this" or self._point.runtime != "builtin":
            return why_not_measurable(self._point, self._catalogue, self._link.hello)
        return self._not_here

    @property
    def not_measurable(self) -> str:
        """Why the current point cannot be measured, in one sentence; "" when it can be, now."""
        reason = self.not_measured_here or why_not_measurable(self._point, self._catalogue, self._link.hello)
        return reason or ("" if self._link.state == "attached" else self._link.text)

    @property
    def prediction(self) -> Prediction:
        """All outputs at the current point, calibrated where the calibration applies."""
        return self.prediction_of(self._point)

    def prediction_of(self, point: OperatingPoint) -> Prediction:
        """All outputs at another point, such as the pinned one."""
        return self._predicted.at(point)

    def curve(
        self, n: int = 128, axis: str = "", point: OperatingPoint | None = None
    ) -> tuple[NDArray[np.float64], Prediction]:
        """Predict along `axis` (default: the slider last moved), everything else as in `point` (default: the current).

        A categorical axis has one position 0, 1, 2... an option (`axis_range(axis).options` names them), and NaN where
        an option has no value.
        """
        return self._predicted.curve(self.axis_range(axis or self.axis), point or self._point, n)

    @property
    def sensitivities(self) -> Mapping[str, Sensitivity]:
        """Effect of one step of each numeric slider on the current point, by path."""
        return self._predicted.sensitivities(self._point)

    @property
    def r_max(self) -> Mark:
        """The largest KV prune rate that keeps the quality budget: the accuracy limit, or else the attention mass."""
        known = [*self._elsewhere.all, *self._measured.all]
        return self._predicted.r_max(self._point, self._limits.top1_agreement, known)

    @property
    def measurement(self) -> Measurement | None:
        """The latest measurement of exactly the current point, or None."""
        here = self._here()
        return here[-1] if here else None

    def _here(self) -> list[Measurement]:
        return [] if self.not_measured_here else self._measured.at(self._point, self._catalogue)

    @property
    def rails(self) -> Mapping[str, Any]:
        """Power of the parts of the board at exactly the current point, by channel, from the last run."""
        found = (measurement.body.get("rails") for measurement in reversed(self._here()))
        return next((rails for rails in found if isinstance(rails, Mapping)), {})

    def has_measured(self, name: str) -> bool:
        """True if the board has answered for one output at exactly the current point, even with an absence."""
        return any(name in measurement.body for measurement in self._here())

    def measured(self, name: str) -> Output:
        """Return the latest measured value of one output at exactly the current point, or Absent with the reason."""
        if self.not_measured_here:
            return Absent(self.not_measured_here)
        reason = self.not_measurable or no_sensor(self._link.channels, name) or "not measured yet"
        for measurement in reversed(self._here()):
            if name in measurement.body:
                output = measurement.output(name)
                if isinstance(output, Estimate):
                    return output
                reason = output.reason
        return Absent(reason)

    def dots(self, name: str, axis: str = "") -> Dots:
        """Return the measured values of one output along `axis`: those equal to the current point in everything else.

        Repeats of a position are all there, up to `app.model.measured_points.REPEATS_SHOWN`.
        """
        known = Measured((), self._catalogue) if self.not_measured_here else self._measured
        return known.along(axis or self.axis, self._point, name, self._catalogue)

    def dots_elsewhere(self, name: str, axis: str = "") -> dict[Provenance, Dots]:
        """Return the points of `elsewhere`, and published rows that fit, for one output along `axis`, by provenance."""
        at = axis or self.axis, self._point, name, self._catalogue
        return joined(self._elsewhere.by_origin(*at), self.published.along(*at))

    @property
    def posterior(self) -> Posterior | None:
        """Posterior of the calibration; `predict` ignores it for another board or runtime."""
        return None if self._calibration is None else self._calibration.posterior
