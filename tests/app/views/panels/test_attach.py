"""The dialog that attaches a board, and the questions of ssh."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit, QPushButton

from app.model.store import Store
from app.views.actions import Actions
from app.views.panels.attach import AttachDialog, BoardCommands, QuestionDialog
from core.catalogue.load import load_catalogue
from tests.app.model.boards_offered import offered

CATALOGUE = load_catalogue()


@pytest.fixture
def boards(qapp, tmp_path):
    made = offered(tmp_path)
    yield made
    made.close()


def find(dialog, kind, name):
    return dialog.findChild(kind, name)


@pytest.fixture
def dialog(boards, qtbot):
    boards._settings.boards = ["pi@orin"]
    made = AttachDialog(boards, Store(CATALOGUE))
    qtbot.addWidget(made)
    made.show()
    return made


def test_the_dialog_offers_and_the_arrow_keys_choose(dialog, qtbot):
    items = [dialog.known.topLevelItem(i) for i in range(dialog.known.topLevelItemCount())]
    assert [(item.text(0), item.text(1)) for item in items] == [
        ("pi@orin", "recent"),
        ("orin", "ssh configuration"),
        ("rpi5", "ssh configuration"),
        ("rk3588", "ssh configuration"),
    ]
    assert not dialog.attach.isEnabled()
    for _ in range(2):
        qtbot.keyClick(dialog.target, Qt.Key.Key_Down)
    assert dialog.target.text() == dialog.known.currentItem().text(0)
    assert dialog.attach.isEnabled()


def test_enter_attaches_and_the_dialog_goes_when_the_board_is_there(dialog, qtbot):
    qtbot.keyClicks(dialog.target, "pi@orin")
    qtbot.keyClick(dialog.target, Qt.Key.Key_Return)
    assert dialog._boards._conductor.log == ["orin"]
    assert dialog.isVisible()
    dialog._store.set_link(state="attached", text="Attached.")
    assert not dialog.isVisible()


def test_what_is_in_the_way_is_a_sentence_in_the_dialog(dialog, qtbot):
    qtbot.keyClicks(dialog.target, "a b")
    qtbot.mouseClick(dialog.attach, Qt.MouseButton.LeftButton)
    assert "expected [user@]host" in dialog.state.text()
    assert dialog.state.property("role") == "bad"
    dialog.target.clear()
    qtbot.keyClicks(dialog.target, "orin")
    assert dialog.state.text() == ""
    qtbot.keyClick(dialog.target, Qt.Key.Key_Return)
    dialog._store.set_link(state="lost", text="orin refused the login")
    assert dialog.state.text() == "Orin refused the login."
    assert dialog.isVisible()


def test_a_probe_shows_in_the_dialog_and_not_after_it_was_closed(dialog, qtbot):
    qtbot.keyClicks(dialog.target, "orin")
    dialog._boards.probed.emit("Orin answers.", True)
    assert (dialog.state.text(), dialog.state.property("role")) == ("Orin answers.", "ok")
    before = dialog._boards._probe_number
    dialog.reject()
    dialog._boards._tell(before, "late", False)
    assert dialog.state.text() == "Orin answers."


def test_every_control_of_the_dialog_has_a_name(dialog):
    for widget in (*dialog.findChildren(QPushButton), dialog.target, dialog.known, dialog.state):
        assert widget.objectName().startswith("attach.")
        assert widget.accessibleName() or widget.text()


def test_a_secret_is_hidden_and_handed_back(qtbot):
    dialog = QuestionDialog("pi@orin's password: ", secret=True)
    qtbot.addWidget(dialog)
    dialog.show()
    assert dialog.line.echoMode() == QLineEdit.EchoMode.Password
    assert find(dialog, object, "question.prompt").text() == "pi@orin's password:"
    qtbot.keyClicks(dialog.line, "s3cret")
    qtbot.keyClick(dialog.line, Qt.Key.Key_Return)
    assert dialog.answer == "s3cret"


def test_a_yes_or_no_is_two_buttons_and_enter_means_no(qtbot):
    dialog = QuestionDialog("<b>Trust</b> (yes/no)?", secret=False)
    qtbot.addWidget(dialog)
    dialog.show()
    assert not dialog.line.isVisible()
    assert find(dialog, object, "question.prompt").textFormat() == Qt.TextFormat.PlainText
    qtbot.keyClick(dialog, Qt.Key.Key_Return)
    assert dialog.answer == "no"


def test_closing_a_question_cancels_it(qtbot):
    dialog = QuestionDialog("password: ", secret=True)
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert dialog.answer is None


def test_the_menu_knows_the_last_boards_and_detach_only_what_is_attached(boards, qtbot, qapp):
    from PySide6.QtWidgets import QWidget

    window = QWidget()
    qtbot.addWidget(window)
    store, actions = Store(CATALOGUE), Actions(window)
    commands = BoardCommands(actions, boards, store, window)
    assert not actions["detach"].isEnabled()
    store.set_link(state="attached", text="Attached.")
    assert actions["detach"].isEnabled()
    commands._fill()
    assert [action.isEnabled() for action in commands.menu.actions()] == [False]
    store.set_link(state="attached", text="Attached.", target="a_b@orin")
    commands._fill()
    (recent,) = commands.menu.actions()
    recent.trigger()
    assert boards._conductor.log == ["orin"]
    actions["attach_this"].trigger()
    actions["detach"].trigger()
    assert boards._conductor.log[1:] == ["this machine", "detached"]
    commands.attach("a b")
    assert store.log[-1].level == "error"
