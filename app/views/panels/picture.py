"""Commands for the picture of the view in front and for the data of its plots."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.views.actions import Actions
from app.views.widgets.plot_picture import ask_save, image, png, svg, tsv


class PictureCommands:
    """The commands for the picture of the view in front and for the data of its plots.

    Parameters
    ----------
    view
        Returns the view in front.
    """

    def __init__(self, actions: Actions, view: Callable[[], QWidget]) -> None:
        self._view, self._actions = view, actions
        actions.separate("&File")
        actions.add("&File", "picture.png", "Save &picture of the view as PNG…", lambda: self._save(".png"))
        actions.add("&File", "picture.svg", "Save picture of the view as S&VG…", lambda: self._save(".svg"))

    def add_copies(self) -> None:
        """Add the commands that copy, at the end of the Edit menu."""
        self._actions.separate("&Edit")
        self._actions.add("&Edit", "picture.copy", "Copy picture of the &view", self._copy)
        tip = "The series of all plots of the view, tab-separated, for a spreadsheet"
        self._actions.add("&Edit", "picture.data", "Copy &data of the plots", self._copy_data, "Ctrl+Shift+C", tip)

    def _save(self, suffix: str) -> None:
        view = self._view()
        ask_save(view, suffix, lambda: png(view, 2) if suffix == ".png" else svg(view))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setImage(image(self._view(), 2))

    def _copy_data(self) -> None:
        from app.views.widgets.plots import Figure

        figures = [figure for figure in self._view().findChildren(Figure) if figure.isVisible()]
        QGuiApplication.clipboard().setText("\n".join(f"{f.accessibleName()}\n{tsv(f)}" for f in figures))
