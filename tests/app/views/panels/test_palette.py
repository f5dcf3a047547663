"""The palette: every command, by words in any order."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.views.panels.palette import ActionList, matches, plain
from app.views.widgets.theme import Theme


@pytest.fixture(scope="module")
def theme(qapp):
    return Theme("dark")


def test_every_menu_entry_is_in_the_palette_and_has_a_key_or_a_mnemonic(window, qtbot):
    shown = []
    for menu_action in window.menuBar().actions():
        assert "&" in menu_action.text()
        menu = menu_action.menu()
        shown += [a for a in menu.actions() if not a.isSeparator() and a.menu() is None]
    palette = ActionList(window, "Commands", window.actions_.all(), runnable=True)
    qtbot.addWidget(palette)
    listed = {item.text(0) for item in palette._items()}
    assert {plain(action) for action in shown} == listed
    assert len(listed) > 25


def test_the_palette_narrows_and_runs(window, qtbot):
    palette = ActionList(window, "Commands", window.actions_.all(), runnable=True)
    qtbot.addWidget(palette)
    QTest.keyClicks(palette.search, "theme light")
    visible = [item.text(0) for item in palette._items() if not item.isHidden()]
    assert visible == ["Theme: light"]
    QTest.keyClick(palette.search, Qt.Key.Key_Return)
    assert window._store.get("theme") == "light"
    window._store.set("theme", "dark")


def test_words_match_in_any_order():
    assert matches("preset open", "Open preset")
    assert not matches("open export", "Open preset")
