"""Layout of the panels: at the first start, and their widths as the window is resized."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QMainWindow, QSizePolicy

from app.views.widgets.common import Dock

WIDE_PX, NARROW_PX = 1400, 1100
"""Widths of a window from which on the columns are widest, and up to which they are narrowest."""
_COLUMNS = ((300, 252), (330, 268))  # left and right column: widest, narrowest
_TALL_PX = 860  # the height of a window in which the right column holds three panels one below the other
_HEIGHTS = {"board": 330, "calibration": 380}
_SAME_PX = 3
_SETTLED_MS = 0


def column_px(width: int) -> tuple[int, int]:
    """Return the widths of the left and the right column in a window of a width, so that the centre has most of it."""
    share = min(max((width - NARROW_PX) / (WIDE_PX - NARROW_PX), 0.0), 1.0)
    left, right = (round(narrow + share * (wide - narrow)) for wide, narrow in _COLUMNS)
    return left, right


class DockLayout(QObject):
    """Places the docks of a window, and keeps their columns in proportion until a person has sized them.

    Parameters
    ----------
    window : QMainWindow
    docks : mapping of str to Dock
        ``controls`` at left; ``numbers``, ``board``, ``calibration`` and ``log`` at right.
    """

    def __init__(self, window: QMainWindow, docks: Mapping[str, Dock]) -> None:
        super().__init__(window)
        self._window, self._docks = window, docks
        self._columns = (docks["controls"], docks["numbers"])
        self._given = (0, 0)  # widths that they were given last
        docks["numbers"].setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)
        self._later = QTimer(self, singleShot=True, interval=_SETTLED_MS)
        self._later.timeout.connect(self._fit)

    def reset(self) -> None:
        """Put all panels where they are at the first start; in a low window those at right share one place in tabs."""
        left, right = Qt.DockWidgetArea.LeftDockWidgetArea, Qt.DockWidgetArea.RightDockWidgetArea
        d, window = self._docks, self._window
        for dock in d.values():
            window.removeDockWidget(dock)
            dock.setFloating(False)
        window.addDockWidget(left, d["controls"])
        for key in ("numbers", "board", "calibration"):
            window.addDockWidget(right, d[key])
        low = window.height() < _TALL_PX
        if low:
            window.tabifyDockWidget(d["board"], d["calibration"])
        window.tabifyDockWidget(d["calibration" if low else "board"], d["log"])
        for dock in d.values():
            dock.setVisible(True)
        d["board"].raise_()
        heights = {"numbers": d["numbers"].sizeHint().height(), **_HEIGHTS}
        window.resizeDocks([d[key] for key in heights], list(heights.values()), Qt.Orientation.Vertical)
        self._give()

    def fit_later(self) -> None:
        """Give the columns their share of a window whose width has changed."""
        if not self._later.isActive():
            self._later.start()

    def _fit(self) -> None:
        wanted = self._wanted()
        ours = all(abs(dock.width() - px) <= _SAME_PX for dock, px in zip(self._columns, self._given, strict=True))
        if ours and wanted != self._given:
            self._give()

    def _wanted(self) -> tuple[int, int]:
        left, right = (
            max(px, dock.minimumSizeHint().width())
            for px, dock in zip(column_px(self._window.width()), self._columns, strict=True)
        )
        return left, right

    def _give(self) -> None:
        self._given = self._wanted()
        self._window.resizeDocks(self._columns, list(self._given), Qt.Orientation.Horizontal)
