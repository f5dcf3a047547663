"""The log."""

from PySide6.QtWidgets import (
    QWidget,
)

from app.views.panels.log import LogPanel
from app.views.widgets.theme import DARK, LIGHT, Theme


def test_the_log_gives_the_word_of_a_warning_its_colour(qtbot, store):
    theme = Theme("dark")
    panel = LogPanel(store, theme)
    qtbot.addWidget(panel)
    store.say("error", "it broke")

    def colors():
        return {f.format.foreground().color().name() for f in panel.document().lastBlock().layout().formats()}

    qtbot.waitUntil(lambda: colors() >= {DARK.dim, DARK.bad})
    theme.choose("light")
    qtbot.waitUntil(lambda: colors() >= {LIGHT.dim, LIGHT.bad})


def test_the_log_keeps_order(window):
    window._store.say("info", "first")
    window._store.say("warning", "second")
    lines = window.docks["log"].findChild(QWidget, "log").toPlainText().splitlines()
    assert [line.split("  ", 1)[1] for line in lines[-2:]] == ["first", "warning: second"]
