"""The window as a whole: commands that run, files, layout."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QDockWidget,
    QFileDialog,
    QMessageBox,
    QPushButton,
)

from app.model.presets import save_preset
from app.model.settings import Settings
from app.model.state import Activity
from app.views.main_window import MainWindow
from app.views.widgets.page import Scroll
from app.views.widgets.theme import Theme
from core.catalogue.load import load_catalogue
from tests.app.views.silent_session import attach

CATALOGUE = load_catalogue()


@pytest.fixture(scope="module")
def theme(qapp):
    return Theme("dark")


def test_space_presses_a_focused_button_and_otherwise_pauses(window, qtbot):
    store = window._store
    window.controls.sliders["point.alpha"].line.setFocus()
    QTest.keyClick(window, Qt.Key.Key_Space)
    assert store.get("paused") is True
    store.set("paused", False)
    window.controls.pin.setFocus()
    QTest.keyClick(window.controls.pin, Qt.Key.Key_Space)
    assert store.get("paused") is False
    assert store.get("pinned") == store.point


def test_commands_are_off_while_they_can_do_nothing(window):
    actions = window.actions_
    assert not actions["measure"].isEnabled()
    assert not actions["cancel"].isEnabled()
    attach(window._store)
    assert actions["calibrate"].isEnabled()
    assert not actions["reconnect"].isEnabled()
    window._store.set_activity(Activity("measure", "prompt", 0.4))
    assert actions["cancel"].isEnabled()
    assert window.controls._progress.value() == 400
    window._store.set_activity(Activity(text="Measured."))
    assert not window.controls._progress.isVisible()


def test_power_modes_with_more_threads_than_the_machine_has_are_not_offered(window):
    choice, store = window.controls.choices["point.power_mode"], window._store

    def offered():
        return {choice.itemData(i) for i in range(choice.count())}

    assert "4 threads" in offered()  # of which machine is not known yet
    attach(store)
    assert offered() == {"default", "1 thread", "2 threads"}
    store.set("point.power_mode", "4 threads")  # as a preset of another machine may say
    assert "4 threads" in offered()
    store.set("point.power_mode", "")
    store.set("point.board", "raspberry_pi_5")
    assert offered() == set(CATALOGUE.boards["raspberry_pi_5"].power_modes)


@pytest.mark.parametrize("pinned", [False, True])
def test_nothing_is_cut_at_the_sides_of_a_small_window(window, qtbot, pinned):
    theme = window._theme
    theme.apply()
    window.resize(1100, 700)
    window._store.set("pinned", window._store.point if pinned else None)
    areas = window.findChildren(Scroll)
    assert len(areas) > 5
    qtbot.waitUntil(lambda: all(area.horizontalScrollBar().maximum() == 0 for area in areas))


def test_the_names_of_the_views_come_closer_where_there_is_less_room(window, qtbot):
    window._theme.apply()
    bar = window.centre.tabs.tabBar()
    window.resize(1600, 900)
    qtbot.waitUntil(lambda: bar.property("tight") is False)
    loose = bar.sizeHint().width()
    window.resize(1000, 900)
    qtbot.waitUntil(lambda: bar.sizeHint().width() < loose - 40)
    window.resize(1600, 900)
    qtbot.waitUntil(lambda: bar.sizeHint().width() == loose)


def test_a_warning_stands_at_the_foot_for_a_while(window):
    window._store.say("info", "nothing to see")
    assert window.statusBar().currentMessage() == ""
    window._store.say("warning", "the board is hot")
    assert window.statusBar().currentMessage() == "the board is hot"


def test_a_preset_opens_as_one_step_and_becomes_recent(window, parts, tmp_path):
    store, stack, *_, settings = parts
    store.set("point.alpha", 0.4)
    path = tmp_path / "edge.json"
    save_preset(path, store)
    store.set("point.alpha", 0.1)
    window.open_preset(path)
    assert store.point.alpha == 0.4
    assert settings.recent == [str(path)]
    assert window._preset.text() == "Preset: edge.json · saved"
    stack.undo()
    assert store.point.alpha == 0.1
    assert "changed" in window._preset.text()


def test_a_preset_that_cannot_be_opened_says_so_once(window, monkeypatch, tmp_path):
    said = []
    monkeypatch.setattr(QMessageBox, "warning", lambda *args: said.append(args[2]))
    bad = tmp_path / "bad.json"
    bad.write_text('{"format": "trilemma-preset", "version": 1, "point": {"alpha": "much"}}')
    before = window._store.point
    window.files.try_open(bad)
    assert len(said) == 1
    assert "bad.json" in said[0]
    assert window._store.point == before


def test_save_asks_once_and_what_cannot_be_written_is_one_sentence(window, monkeypatch, tmp_path):
    target = tmp_path / "new"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *args: (str(target), ""))
    window.actions_["save"].trigger()
    assert target.with_suffix(".json").exists()
    said = []
    monkeypatch.setattr(QMessageBox, "warning", lambda *args: said.append(args[2]))
    window._store.set("preset", "/dev/full/preset.json")
    window.actions_["save"].trigger()
    assert len(said) == 1
    assert "preset.json" in said[0]


def test_the_layout_comes_back(window, parts, qtbot):
    window.docks["log"].setVisible(False)
    window.resize(1200, 800)
    settings = Settings()
    settings.geometry, settings.docks = window.layout_state()
    again = MainWindow(*parts[:4], settings)
    qtbot.addWidget(again)
    again.show()
    assert not again.docks["log"].isVisible()
    again.actions_["reset_layout"].trigger()
    assert all(dock.isVisible() for dock in again.findChildren(QDockWidget))


def test_garbage_in_the_saved_layout_is_ignored(parts, qtbot):
    settings = Settings(geometry="bm9uc2Vuc2U=", docks="bm9uc2Vuc2U=")
    made = MainWindow(*parts[:4], settings)
    qtbot.addWidget(made)
    made.show()
    assert made.docks["controls"].isVisible()


def test_buttons_are_their_actions(window):
    for button in window.findChildren(QPushButton):
        assert "&" not in button.text()
    assert isinstance(window.actions_["measure"], QAction)


@pytest.mark.parametrize(
    ("key", "held", "command"),
    [
        (Qt.Key.Key_Question, Qt.KeyboardModifier.NoModifier, "shortcuts"),
        (Qt.Key.Key_F1, Qt.KeyboardModifier.NoModifier, "shortcuts"),
        (Qt.Key.Key_M, Qt.KeyboardModifier.NoModifier, "markers"),
    ],
)
def test_a_key_runs_its_command_whatever_has_the_focus_but_a_text(window, key, held, command, monkeypatch):
    ran = []
    monkeypatch.setattr(window, "_list", lambda runnable: ran.append("palette" if runnable else "shortcuts"))
    monkeypatch.setattr(window.centre, "toggle_markers", lambda: ran.append("markers"))
    window.activateWindow()
    assert QTest.qWaitForWindowActive(window, 60_000)
    for widget in (window.controls.choices["point.weights"], window.controls.pin, window.tabs.tabBar()):
        widget.setFocus()
        QTest.keyClick(widget, key, held)
    assert ran == [command] * 3
    field = window.controls.sliders["point.alpha"].field
    field.setFocus()
    QTest.keyClick(field, key, held)
    assert len(ran) == (4 if key == Qt.Key.Key_F1 else 3)


def test_compensation_is_asked_for_at_a_quantised_point_only(window, monkeypatch):
    store, asked = window._store, []
    monkeypatch.setattr(window._conductor, "measure_now", lambda *parts: asked.append((store.point, parts)) or "")
    before = store.point
    window.actions_["compensate"].trigger()
    assert asked == []  # nothing is attached
    assert store.point == before
    store.set_machine("m", [], "")
    store.set_link(state="attached", hello={"can": {"measure": True}, "models": [{}]})
    window.actions_["compensate"].trigger()
    assert asked == [(replace(before, compensation="both"), (("compensation",), ()))]
    window._stack.undo()
    assert store.point == before
    store.set("point.weights", "fp32")
    window.actions_["compensate"].trigger()
    assert len(asked) == 1
    assert "fp32 are the reference" in store.log[-1].text
