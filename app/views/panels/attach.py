"""Attaching boards: the commands, the dialog that asks which one, and the one in which ssh asks a person."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QIcon, QKeyEvent
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QLineEdit,
    QMenu,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app.model.boards import Boards
from app.model.store import Store
from app.text.format import as_sentence
from app.views.actions import Actions
from app.views.widgets.common import label, set_role, set_text
from app.views.widgets.theme import GAP, PADDING

FORMS = "[user@]host over ssh · tls://host of a paired board · unix:PATH · sim:BOARD · a recording's file"


class BoardCommands(QObject):
    """Commands of the Board menu.

    Parameters
    ----------
    actions : Actions
        Takes the commands.
    boards : Boards
    store : Store
    window : QWidget
        Under the dialogs.

    Attributes
    ----------
    menu
        The boards attached last.
    """

    def __init__(self, actions: Actions, boards: Boards, store: Store, window: QWidget) -> None:
        super().__init__(window)
        self._boards, self._store, self._window = boards, store, window
        tip = "Measure on another board: over ssh, TLS, a simulated one or a recording"
        actions.add("&Board", "attach", "&Attach…", self.ask, "Ctrl+Shift+A", tip)
        actions.add("&Board", "attach_this", "&This machine", boards.attach_this, tip="Attach this computer")
        self._detach = actions.add("&Board", "detach", "&Detach", boards.detach, tip="Detach the board")
        actions.separate("&Board")
        self.menu = QMenu("Recent &boards", window)
        self.menu.setObjectName("recent_boards")
        self.menu.aboutToShow.connect(self._fill)
        boards.asked.connect(self._ask)
        store.changed.connect(self._on_changed)
        self._on_changed("link")

    def ask(self) -> None:
        """Ask which board, and attach it."""
        AttachDialog(self._boards, self._store, self._window).exec()

    def attach(self, text: str) -> None:
        """Attach a board, or say in the log why not."""
        reason = self._boards.attach(text)
        if reason:
            self._store.say("error", reason)

    def _fill(self) -> None:
        self.menu.clear()
        for target in self._boards.recent:
            self.menu.addAction(target.replace("&", "&&")).triggered.connect(partial(self._attach_recent, target))
        if not self._boards.recent:
            self.menu.addAction("No recent boards").setEnabled(False)

    def _attach_recent(self, target: str, _checked: bool = False) -> None:
        self.attach(target)

    def _ask(self, prompt: str, secret: bool) -> None:
        dialog = QuestionDialog(prompt, secret=secret, parent=self._window)
        dialog.exec()
        self._boards.answer(dialog.answer)

    def _on_changed(self, path: str) -> None:
        if path == "link":
            self._detach.setEnabled(self._store.link.state != "detached")
            if self._store.link.state == "attached":
                self._boards.remember(self._store.link.target)


class AttachDialog(QDialog):
    """Asks for a board; stays until it is attached, and shows the obstacle in a sentence.

    Parameters
    ----------
    boards : Boards
    store : Store
        Its link has the progress of the attempt.
    """

    def __init__(self, boards: Boards, store: Store, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._boards, self._store = boards, store
        self._waiting = False
        self.setWindowTitle("Attach a board")
        self.setObjectName("attach_dialog")
        self.target = QLineEdit()
        self.target.setObjectName("attach.target")
        self.target.setAccessibleName("Board to attach")
        self.target.setPlaceholderText("user@board")
        self.target.setClearButtonEnabled(True)
        self.target.installEventFilter(self)
        self.target.textEdited.connect(self._edited)
        self.known = QTreeWidget()
        self.known.setColumnCount(2)
        self.known.setHeaderHidden(True)
        self.known.setRootIsDecorated(False)
        self.known.setUniformRowHeights(True)
        self.known.setObjectName("attach.known")
        self.known.setAccessibleName("Recent boards and SSH hosts")
        self.known.currentItemChanged.connect(self._chosen)
        self.known.itemActivated.connect(lambda _item, _column: self._attach())
        self.state = label("", "secondary", wrap=True, selectable=True)
        self.state.setObjectName("attach.state")
        self.state.setAccessibleName("Connection status")
        self._build()
        self._offer()
        boards.probed.connect(self._probed)
        store.changed.connect(self._on_changed)
        self._edited()
        self.target.setFocus(Qt.FocusReason.OtherFocusReason)

    def sizeHint(self) -> QSize:
        """Return a width in which a sentence takes two lines at most."""
        return QSize(560, 380)

    def _build(self) -> None:
        self.attach = QPushButton("&Attach")
        self.try_ = QPushButton("&Try")
        self.try_.setToolTip("Test the connection without attaching the board")
        for button, name in ((self.attach, "attach.attach"), (self.try_, "attach.try")):
            button.setObjectName(name)
        self.attach.setDefault(True)
        buttons = QDialogButtonBox()
        buttons.addButton(self.attach, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.addButton(self.try_, QDialogButtonBox.ButtonRole.ActionRole)
        close = buttons.addButton(QDialogButtonBox.StandardButton.Close)
        close.setObjectName("attach.close")
        close.setIcon(QIcon())  # the platform's is dark on dark
        self.attach.clicked.connect(self._attach)
        self.try_.clicked.connect(self._probe)
        close.clicked.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(PADDING, PADDING, PADDING, PADDING)
        layout.setSpacing(GAP - 2)
        layout.addWidget(self.target)
        layout.addWidget(label(FORMS, "dim", wrap=True))
        layout.addWidget(self.known, 1)
        layout.addWidget(self.state)
        layout.addWidget(buttons)

    def _offer(self) -> None:
        recent = self._boards.recent
        hosts = [host for host in self._boards.hosts() if host not in recent]
        for target, words in [(t, "recent") for t in recent] + [(h, "ssh configuration") for h in hosts]:
            item = QTreeWidgetItem([target, words])
            item.setToolTip(0, target)
            item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self.known.addTopLevelItem(item)
        header = self.known.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.known.setVisible(bool(self.known.topLevelItemCount()))

    # ---- what the user does

    def _edited(self) -> None:
        self._waiting = False
        given = bool(self.target.text().strip())
        self.attach.setEnabled(given)
        self.try_.setEnabled(given)
        self._say("")

    def _chosen(self, item: QTreeWidgetItem | None) -> None:
        if item is not None:
            self.target.setText(item.text(0))
            self._edited()

    def _attach(self) -> None:
        reason = self._boards.attach(self.target.text())
        self._waiting = not reason
        self._say(as_sentence(reason or self._store.link.text), "bad" if reason else "secondary")

    def _probe(self) -> None:
        reason = self._boards.probe(self.target.text())
        words = as_sentence(reason) if reason else f"Connecting to {self.target.text().strip()}."
        self._say(words, "bad" if reason else "secondary")

    def reject(self) -> None:
        """Close the dialog; a running attempt continues, a probe is dropped."""
        self._boards.forget_probe()
        super().reject()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let the arrow keys choose in the list while one types."""
        moves = (Qt.Key.Key_Up, Qt.Key.Key_Down)
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent) and event.key() in moves:
            self.known.keyPressEvent(event)
            return True
        return super().eventFilter(watched, event)

    # ---- what comes of it

    def _probed(self, words: str, can: bool) -> None:
        self._say(as_sentence(words), "ok" if can else "bad")

    def _on_changed(self, path: str) -> None:
        if path != "link" or not self._waiting:
            return
        link = self._store.link
        if link.state == "attached":
            self._waiting = False
            self.accept()
        elif link.state == "lost":
            self._say(as_sentence(link.text), "bad")

    def _say(self, words: str, role: str = "secondary") -> None:
        set_role(self.state, role)
        set_text(self.state, words)


class QuestionDialog(QDialog):
    """A question of ssh, as ssh puts it: a secret is hidden while it is typed, a yes or no is two buttons.

    Attributes
    ----------
    answer
        What was answered; None where it was cancelled.
    """

    def __init__(self, prompt: str, *, secret: bool, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("SSH prompt")
        self.setObjectName("question_dialog")
        self.answer: str | None = None
        layout = QVBoxLayout(self)
        layout.setContentsMargins(PADDING, PADDING, PADDING, PADDING)
        layout.setSpacing(GAP)
        words = label(prompt.strip(), wrap=True, selectable=True)
        words.setObjectName("question.prompt")
        words.setMinimumWidth(420)
        layout.addWidget(words)
        self.line = QLineEdit()
        self.line.setObjectName("question.answer")
        self.line.setAccessibleName("Answer")
        self.line.setEchoMode(QLineEdit.EchoMode.Password if secret else QLineEdit.EchoMode.Normal)
        buttons = QDialogButtonBox(self)
        if secret:
            layout.addWidget(self.line)
            buttons.addButton(QDialogButtonBox.StandardButton.Ok).clicked.connect(self._take)
            buttons.addButton(QDialogButtonBox.StandardButton.Cancel).clicked.connect(self.reject)
            self.line.setFocus(Qt.FocusReason.OtherFocusReason)
        else:
            yes = buttons.addButton(QDialogButtonBox.StandardButton.Yes)
            yes.clicked.connect(partial(self._choose, "yes"))
            yes.setAutoDefault(False)
            no = buttons.addButton(QDialogButtonBox.StandardButton.No)
            no.clicked.connect(partial(self._choose, "no"))
            no.setDefault(True)  # to trust a key is never the key that happens to be pressed
            no.setFocus(Qt.FocusReason.OtherFocusReason)
        for button in buttons.buttons():
            button.setIcon(QIcon())
        layout.addWidget(buttons)

    def _take(self) -> None:
        self._choose(self.line.text())

    def _choose(self, text: str, _checked: bool = False) -> None:
        self.answer = text
        self.accept()
