"""The middle of the window: the sentence on top, and the views in tabs, all but the curves made when first shown."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from PySide6.QtCore import QEvent, QTimer, Signal
from PySide6.QtGui import QAction, QResizeEvent, QUndoStack
from PySide6.QtWidgets import QApplication, QTabWidget, QVBoxLayout, QWidget

from app.model.conductor import Conductor
from app.model.store import Store
from app.views.panels.curves import Curves
from app.views.panels.headline import Headline
from app.views.widgets.page import Measuring
from app.views.widgets.theme import GAP, Theme

VIEWS = {
    "trade": ("Trade-off", "app.views.panels.tradeoff", "TradeOff"),
    "breakdown": ("Breakdown", "app.views.panels.breakdown", "Breakdown"),
    "pruning": ("Pruning", "app.views.panels.pruning", "Pruning"),
    "energy": ("Energy", "app.views.panels.energy", "Energy"),
    "schedule": ("Schedule", "app.views.panels.schedule", "ScheduleView"),
    "lab": ("Lab", "app.views.panels.lab", "LabView"),
    "scenarios": ("Scenarios", "app.views.panels.scenarios", "Scenarios"),
    "loop": ("Loop", "app.views.panels.loop", "LoopView"),
}
"""Views of the point: key -> title, module and class, made with the store, the undo stack and the theme."""

_LOOSE_FROM_PX = 700  # the width of the middle that has room between the names of the views
_LIVE_AFTER_MS = 1000  # the live view remembers from then on, shown or not


class LazyPage(QWidget):
    """A tab whose content is made when it is first shown."""

    def __init__(self, make: Callable[[], QWidget]) -> None:
        super().__init__()
        self._make = make
        self.content: QWidget | None = None
        QVBoxLayout(self).setContentsMargins(0, 0, 0, 0)

    def fill(self) -> QWidget:
        """Make the content, once, and return it."""
        if self.content is None:
            self.content = self._make()
            layout = self.layout()
            assert layout is not None
            layout.addWidget(self.content)
        return self.content


class Centre(QWidget):
    """The sentence and the tabs."""

    proposed = Signal(object)  # an OperatingPoint to go to and measure
    commanded = Signal(str)  # key of a command of the window

    def __init__(
        self, store: Store, stack: QUndoStack, conductor: Conductor, theme: Theme, why: QAction, pause: QAction
    ) -> None:
        super().__init__()
        self.headline = Headline(store, why)
        self.curves = Curves(store, stack, theme)
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setUsesScrollButtons(True)
        self.tabs.setObjectName("views")
        self.tabs.setAccessibleName("Views")
        self.tabs.tabBar().setObjectName("views.tabs")
        self.tabs.tabBar().setAccessibleName("Views")
        self.tabs.addTab(self.curves, "Curves")

        def make_live() -> QWidget:
            from app.views.panels.live import Live

            return Live(store, conductor, stack, theme, pause)

        def maker(module: str, name: str) -> Callable[[], QWidget]:
            def make() -> QWidget:
                made: QWidget = getattr(importlib.import_module(module), name)(store, stack, theme)
                if isinstance(made, Measuring):
                    made.proposed.connect(self.proposed)
                    made.commanded.connect(self.commanded)
                return made

            return make

        self.pages = {"live": LazyPage(make_live)}
        self.tabs.addTab(self.pages["live"], "Live")
        for key, (title, module, name) in VIEWS.items():
            self.pages[key] = LazyPage(maker(module, name))
            self.tabs.addTab(self.pages[key], title)
        self.tabs.currentChanged.connect(self._show_tab)
        QTimer.singleShot(_LIVE_AFTER_MS, self.pages["live"].fill)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(GAP - 4)
        layout.addWidget(self.headline)
        layout.addWidget(self.tabs, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Set the names of the views closer together where they would not fit otherwise."""
        super().resizeEvent(event)
        bar, tight = self.tabs.tabBar(), self.width() < _LOOSE_FROM_PX
        if bar.property("tight") != tight:
            bar.setProperty("tight", tight)
            bar.style().unpolish(bar)
            bar.style().polish(bar)
            QApplication.sendEvent(bar, QEvent(QEvent.Type.StyleChange))  # or it keeps the sizes of its tabs

    def show_view(self, key: str) -> None:
        """Bring a view to the front: "curves", "live" or one of `VIEWS`."""
        self.tabs.setCurrentWidget(self.curves if key == "curves" else self.pages[key])

    @property
    def front(self) -> QWidget:
        """The view in front."""
        page = self.tabs.currentWidget()
        return page.content if isinstance(page, LazyPage) and page.content is not None else page

    def toggle_markers(self) -> None:
        """Show or hide the markers of the live view."""
        from app.views.panels.live import Live

        live = self.pages["live"].fill()
        assert isinstance(live, Live)
        live.markers.toggle()

    def _show_tab(self, index: int) -> None:
        page = self.tabs.widget(index)
        if isinstance(page, LazyPage):
            page.fill()
