"""The calibration: its parameters with intervals, how well it predicts unseen points, and what to measure next."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QGridLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.model.explained import known
from app.model.store import Store
from app.text.explain import basis
from app.text.format import counted, estimate_text, number_text
from app.views.panels.palette import plain
from app.views.widgets.common import Dock, ElidedLabel, label, row, set_text, set_tip
from app.views.widgets.page import Scroll
from app.views.widgets.theme import PADDING
from core.spec import OperatingPoint

_PACE_MS = 150


class CalibrationPanel(QWidget):
    """The calibration: parameters, leave-one-out error, next measurement."""

    proposed = Signal(object)  # an OperatingPoint to go to and measure

    def __init__(self, store: Store, calibrate: QAction, cancel: QAction) -> None:
        super().__init__()
        self.setObjectName("calibration")
        self._store, self._cancel = store, cancel
        self._dock: Dock | None = None
        self._next_point: OperatingPoint | None = None
        self._parameters = QGridLayout()
        self._rows: list[tuple[ElidedLabel, QLabel, QLabel]] = []  # one a parameter, kept from fit to fit
        self._busy = label("", "bad", wrap=True)
        self._error, self._coverage = label("", "secondary", wrap=True), label("", "dim", wrap=True)
        self._power = label("", "dim", wrap=True)
        self._published, self._next = label("", "dim", wrap=True), label("", "secondary", wrap=True)
        self._go = QPushButton("Measure it")
        self._go.setObjectName("calibration.next")
        self._go.setAccessibleName("Go to the proposed point and measure it")
        self._go.clicked.connect(lambda: self.proposed.emit(self._next_point))
        self._calibrate = QPushButton(plain(calibrate))
        self._calibrate.setObjectName("calibrate.button")
        self._calibrate.setAccessibleName("Calibrate now")
        self._action = calibrate
        self._calibrate.clicked.connect(self._press)
        calibrate.changed.connect(self._refresh_activity)
        self._progress = QProgressBar()
        self._build()
        self._later = QTimer(self, singleShot=True, interval=_PACE_MS)
        self._later.timeout.connect(self._refresh)
        store.changed.connect(self._on_changed)
        self._refresh()
        self._refresh_activity()

    def _build(self) -> None:
        self._parameters.setHorizontalSpacing(8)
        self._parameters.setVerticalSpacing(2)
        self._parameters.setColumnStretch(0, 1)
        self._progress.setRange(0, 1000)
        self._progress.setTextVisible(False)
        self._progress.setObjectName("calibration.progress")
        self._progress.setAccessibleName("Progress of the calibration")
        page = QWidget()
        page.setObjectName("page")
        inside = QVBoxLayout(page)
        inside.setContentsMargins(PADDING, 2, PADDING, 4)
        inside.setSpacing(6)
        inside.addWidget(self._busy)
        inside.addWidget(self._error)
        inside.addWidget(self._coverage)
        inside.addWidget(self._power)
        inside.addWidget(self._published)
        inside.addLayout(self._parameters)
        inside.addWidget(self._next)
        inside.addLayout(row(self._go, 1))
        inside.addStretch(1)
        area = Scroll("calibration.area", "Calibration", page)
        foot = row(self._calibrate, 1, self._progress)
        foot.setStretch(2, 3)
        foot.setContentsMargins(PADDING, 4, PADDING, PADDING - 4)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(area, 1)
        layout.addLayout(foot)

    def _press(self) -> None:
        (self._cancel if self._store.activity.kind in ("calibrate", "bandwidth") else self._action).trigger()

    # ---- what the store says

    def _on_changed(self, path: str) -> None:
        if path == "calibration" or path in ("point.board", "point.model", "point.runtime", "link"):
            self._later.start()
            self._show_aside()
        elif path == "activity":
            self._refresh_activity()

    def _refresh_activity(self) -> None:
        activity = self._store.activity
        running = activity.kind in ("calibrate", "bandwidth")
        self._calibrate.setEnabled(running or self._action.isEnabled())
        self._calibrate.setText("Cancel" if running else plain(self._action))
        self._calibrate.setMinimumWidth(max(self._calibrate.minimumWidth(), self._calibrate.sizeHint().width()))
        self._calibrate.setAccessibleName("Cancel the calibration" if running else "Calibrate now")
        self._progress.setVisible(running)
        self._progress.setValue(round(1000 * activity.done_frac))
        set_tip(self._progress, activity.text)

    def _refresh(self) -> None:
        calibration = self._store.calibration
        for part in (self._busy, self._coverage, self._power, self._published, self._next, self._go):
            part.setVisible(False)
        if calibration is None or self._store.not_measured_here:
            self._show_rows(0)
            reason, rests_on = self._store.not_measured_here, basis(known(self._store), self._store.catalogue)
            set_text(self._error, rests_on or reason or _unmeasured(self._store))
            set_text(self._coverage, f"{reason.partition(':')[0].rstrip('.')}." if rests_on and reason else "")
            self._coverage.setVisible(bool(rests_on and reason))
            return
        self._show_check()
        self._show_parameters()
        self._propose()

    def _show_check(self) -> None:
        calibration = self._store.calibration
        assert calibration is not None
        set_text(self._busy, calibration.busy)
        self._busy.setVisible(bool(calibration.busy))
        check, published, n = calibration.check, calibration.article_check, len(calibration.points)
        n_outliers = int(sum(calibration.outlier))
        flagged = f" Flagged as outliers and kept: {n_outliers}." if n_outliers else ""
        if check is None:
            set_text(self._error, f"{counted(n, 'point')}: too few for a leave-one-out check.{flagged}")
            return
        set_text(
            self._error,
            f"Leave-one-out error of decode time: median {_percent(check.median_error_frac)}, "
            f"p90 {_percent(check.p90_error_frac)}.{flagged}",
        )
        set_text(
            self._coverage,
            f"The 90 % interval covers {_percent(check.coverage_frac)} of {counted(check.n, 'point')}. "
            f"{calibration.posterior.interval_scale_basis} R²\u00a0{number_text(check.r2, 4)}".replace("  ", " "),
        )
        self._coverage.setVisible(True)
        self._show_power_check()
        if published is not None:
            set_text(
                self._published,
                f"The published formula, its constant fitted to the same points: median "
                f"{_percent(published.median_error_frac)}, p90 {_percent(published.p90_error_frac)}.",
            )
            self._published.setVisible(True)

    def _show_power_check(self) -> None:
        calibration = self._store.calibration
        check = calibration.power_check if calibration is not None else None
        if calibration is None or check is None:
            return
        covers = calibration.posterior.power_covers
        of = f" ({covers})" if covers else ""
        set_text(
            self._power,
            f"Power{of}, each point left out: median {_percent(check.median_error_frac)}, "
            f"p90 {_percent(check.p90_error_frac)}; {_percent(check.coverage_frac)} of {counted(check.n, 'point')} in "
            "the 90 % interval.",
        )
        self._power.setVisible(True)

    def _show_parameters(self) -> None:
        calibration = self._store.calibration
        assert calibration is not None
        self._show_rows(len(calibration.parameters))
        for (name, value, interval), parameter in zip(self._rows, calibration.parameters, strict=False):
            e = parameter.estimate
            text = estimate_text(float(e.median), float(e.q05), float(e.q95), parameter.unit)
            name.setText(parameter.label)
            name.set_tip(parameter.meaning)
            set_text(value, f"{text.value} {text.unit}")
            value.setAccessibleName(parameter.meaning)
            set_text(interval, f"[{text.interval}]" if parameter.identified else "not identified")
            p = parameter.prior
            before = estimate_text(float(p.median), float(p.q05), float(p.q95), parameter.unit)
            interval.setToolTip(f"{parameter.meaning}: {text}, {parameter.verdict}; before measuring {before}")

    def _show_rows(self, n: int) -> None:
        while len(self._rows) < n:
            made = ElidedLabel("dim"), label("", "secondary"), label("", "dim")
            for column, part in enumerate(made):
                self._parameters.addWidget(part, len(self._rows), column, Qt.AlignmentFlag.AlignVCenter)
            self._rows.append(made)
        for i, parts in enumerate(self._rows):
            for part in parts:
                part.setVisible(i < n)

    def _propose(self) -> None:
        found = self._store.proposal
        self._next_point = found[0] if found else None
        sentence = (
            f"Next: {found[1].replace('alpha ', 'α ')}."
            if found
            else "No further point would narrow the predictions by more than 1 %."
        )
        set_text(self._next, sentence)
        self._next.setVisible(True)
        self._go.setVisible(found is not None)

    def follow(self, dock: Dock) -> None:
        """Show the number of points in the dock's title."""
        self._dock = dock
        self._show_aside()

    def _show_aside(self) -> None:
        if self._dock is not None:
            calibration = self._store.calibration
            set_text(self._dock.aside, counted(len(calibration.points), "point") if calibration else "")


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _unmeasured(store: Store) -> str:
    """Show the basis of predictions for the attached board before any measurement."""
    sheet = store.catalogue.boards[store.point.board].data_sheet
    board = f"the data sheet of {store.catalogue.boards[sheet].name} and " if sheet else ""
    return f"Nothing is measured yet: predictions rest on {board}the runtime's priors{'' if sheet else ' alone'}."
