"""Every control and command: its name, its key, its place in the order of Tab."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QComboBox,
    QDialog,
    QLineEdit,
    QMenu,
    QMenuBar,
    QProgressBar,
    QScrollBar,
    QSlider,
    QSplitter,
    QTabBar,
    QWidget,
)

from app.model.export import json_export
from app.views.panels.export import ExportDialog
from app.views.panels.headline import Why
from app.views.panels.palette import ActionList
from app.views.panels.table import CurveTable
from app.views.widgets.plots import Figure

KINDS = (QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QSlider, QProgressBar, QTabBar, Figure)
OF_QT = ("qt_", "ScrollLeftButton", "ScrollRightButton", "_q_")


def interactive(window):
    """Return what a user can act on, be it by the keyboard alone, without the parts that Qt makes of them."""
    return [
        child
        for child in window.findChildren(QWidget)
        if (isinstance(child, KINDS) or child.focusPolicy() & Qt.FocusPolicy.TabFocus)
        and child.window() is window
        and not child.objectName().startswith(OF_QT)
        and not (isinstance(child.parent(), QAbstractScrollArea) and child is child.parent().viewport())
        and not isinstance(child.parent(), (QComboBox, QLineEdit, QAbstractItemView, QMenuBar))
        and not isinstance(child, (QMenu, QMenuBar, QScrollBar, QSplitter))
    ]


def nameless(window):
    return [f"{type(c).__name__} {c.objectName()!r}" for c in interactive(window) if not spoken(c)]


def spoken(widget):
    """Return what a screen reader says of a widget; a button has its text."""
    return widget.accessibleName() or (isinstance(widget, QAbstractButton) and widget.text())


def test_every_control_has_a_name_and_an_accessible_name(window):
    controls = interactive(window)
    assert len(controls) > 60
    assert nameless(window) == []
    anonymous = [f"{type(c).__name__} {c.accessibleName()!r}" for c in controls if not c.objectName()]
    assert anonymous == []


DIALOGS = {
    "Why": lambda store, window: Why(store, window),
    "CurveTable": lambda store, window: CurveTable(store, window),
    "ExportDialog": lambda store, window: ExportDialog(window, "Export", json_export(store)),
    "ActionList": lambda store, window: ActionList(window, "Commands", window.actions_.all(), runnable=True),
}
ELSEWHERE = {"AttachDialog", "QuestionDialog"}
"""Dialogs whose names tests/app/test_attach.py checks."""


@pytest.mark.parametrize("kind", DIALOGS)
def test_every_control_of_a_dialog_has_an_accessible_name(window, kind):
    dialog = DIALOGS[kind](window._store, window)
    assert type(dialog).__name__ == kind
    assert dialog.objectName()
    assert interactive(dialog)
    assert nameless(dialog) == []


def test_no_dialog_is_left_out(window):
    """Every module of the views is there once the window is made."""
    ours = {kind.__name__ for kind in QDialog.__subclasses__() if kind.__module__.startswith("app.views")}
    assert ours == DIALOGS.keys() | ELSEWHERE


def test_each_path_of_the_point_is_an_object(window):
    for path in (
        "alpha",
        "bandwidth",
        "beta",
        "context",
        "weights",
        "kv",
        "policy",
        "layout",
        "board",
        "model",
        "runtime",
    ):
        assert window.findChild(QWidget, f"point.{path}") is not None, path


def test_no_two_commands_share_a_key(window):
    keys = [k.toString() for a in window.actions_.all() for k in a.shortcuts()]
    assert len(keys) == len(set(keys))
    assert {"Ctrl+Shift+P", "?", "Space", "Ctrl+Z"} <= set(keys)


def test_every_control_is_reached_by_tab(window):
    reached, widget = set(), window.controls.sliders["point.alpha"].line
    for _ in range(3000):
        reached.add(widget.objectName())
        widget = widget.nextInFocusChain()
    for path in ("point.alpha.field", "point.context.line", "point.weights", "limits.latency", "why.button"):
        assert path in reached


def test_tab_goes_from_left_to_right(window):
    chain, at = [], window
    while (at := at.nextInFocusChain()) is not window:
        chain.append(at)
    start = chain.index(window.controls.sliders["point.alpha"].line)
    chain = chain[start:] + chain[:start]  # it is a ring
    panels = window.controls.pin, window.centre.tabs.tabBar(), *(card.plot for card in window.curves.cards)
    places = [chain.index(widget) for widget in (*panels, window.docks["board"].findChild(QWidget, "board.data_sheet"))]
    assert places == sorted(places)


def test_no_two_commands_of_a_menu_share_a_mnemonic(window):
    submenus = {"&Board": window.board_commands.menu, "&File": window._recent}
    for title, actions in window.actions_.menus.items():
        texts = [action.text() for action in actions if action is not None]
        texts += [submenus[title].title()] if title in submenus else []
        letters = [text[text.index("&") + 1].lower() for text in texts if "&" in text]
        assert len(letters) == len(set(letters)), title
