"""A card with a chart: its title, what it reads under the pointer, and a plot that is made when it is first shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QPaintEvent

from app.text.chart import Chart
from app.text.format import display_unit
from app.views.widgets.common import Card, ElidedLabel, PlotSpace, label, row, set_text
from app.views.widgets.theme import Theme

if TYPE_CHECKING:
    from app.views.widgets.chart_plot import ChartPlot

_LEAST_PX = 190


class ChartCard(Card):
    """One chart. The words are there at once; the plot follows after the first paint."""

    picked = Signal(int)  # the key of the dot that was clicked
    hovered = Signal(int)  # the key of the dot under the pointer, -1 where there is none; `say` what it is

    def __init__(self, theme: Theme, path: str, title: str) -> None:
        super().__init__()
        self.setObjectName(path)
        self._theme, self._path, self._title = theme, path, title
        self.chart = Chart(title, ("", ""), ("", ""), message=" ")
        self.plot: ChartPlot | None = None
        self._words = ElidedLabel("dim")  # the axes, or what is under the pointer
        self._space = PlotSpace()
        self.setMinimumHeight(_LEAST_PX)
        self.body.setSpacing(4)
        head = row(label(title, "heading"), self._words)
        head.setStretch(1, 1)
        self.body.addLayout(head)
        self.body.addWidget(self._space, 1)

    def show_chart(self, chart: Chart) -> None:
        """Show a chart in place of the one before."""
        self.chart = chart
        self._space.say(chart.message.strip())
        set_text(self._words, _axes_text(chart))
        if self.plot is not None:
            self._draw()

    def say(self, words: str) -> None:
        """Say something in place of what the axes are; "" says that again."""
        set_text(self._words, words or _axes_text(self.chart))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Make the plot once the card has been painted without it."""
        super().paintEvent(event)
        if self.plot is None:
            QTimer.singleShot(0, self.make_plot)

    def make_plot(self) -> None:
        """Import and make the plot, once."""
        if self.plot is not None:
            return
        from app.views.widgets.chart_plot import ChartPlot

        self.plot = ChartPlot(self._theme, f"{self._path}.plot", self._title)
        self.plot.pointed.connect(self._pointed)
        self.plot.picked.connect(self.picked)
        self.plot.hovered.connect(self.hovered)
        self._space.take(self.plot)
        self._draw()

    def _draw(self) -> None:
        assert self.plot is not None
        self.plot.show_chart(self.chart)
        self.plot.setAccessibleDescription(self.chart.message or self.chart.description)

    def _pointed(self, x: float | None) -> None:
        assert self.plot is not None
        shown = x is not None and bool(self.chart.series) and not self.chart.message
        self.plot.point_at(x if shown else None)
        reading = self.chart.reading(self.plot.plain_x(x)) if shown and x is not None else ""
        set_text(self._words, reading or _axes_text(self.chart))


def _axes_text(chart: Chart) -> str:
    """Return "speed in tokens/s against time in min", or nothing where nothing is drawn."""
    if chart.message:
        return ""

    def said(axis: tuple[str, str], span: tuple[float, float]) -> str:
        name, unit = axis
        shown = display_unit(unit, max(map(abs, span))).text if unit else ""
        return f"{name} in {shown}" if shown else name

    return f"{said(chart.y, chart.y_range)} against {said(chart.x, chart.x_range)}"
