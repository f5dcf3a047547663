"""The boards that can be attached: what a user writes made into a session, tried out, remembered; ssh's questions."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.client.events import Event
from app.client.session import Session
from app.client.target import THIS, Target, open_target

if TYPE_CHECKING:
    from app.model.attachment import MakeSession
    from app.model.conductor import Conductor
    from app.model.settings import Settings

LOOK_MS = 100
N_RECENT = 10
MAX_HOSTS = 200


def session_of(target: Target) -> MakeSession:
    """Return the factory of sessions with a board."""

    def make_session(on_event: Callable[[Event], None]) -> Session:
        if target.attended is not None:
            target.attended()
        return Session(target, on_event, target.reachable)

    return make_session


def ssh_hosts(config_file: Path | None = None) -> list[str]:
    """Return the hosts that ssh's configuration names, patterns left out; its ``Include`` files too."""
    found: dict[str, None] = {}
    files = [config_file or Path.home() / ".ssh" / "config"]
    for file in files:
        try:
            lines = file.read_text("utf-8", "replace").splitlines()
        except OSError:
            continue
        for line in lines:
            keyword, _, rest = line.strip().replace("=", " ", 1).partition(" ")
            if keyword.lower() == "host":
                found |= dict.fromkeys(word for word in rest.split() if not set(word) & set("*?!"))
            elif keyword.lower() == "include" and len(files) < MAX_HOSTS:
                for word in rest.split():
                    path = Path(word).expanduser()
                    folder = path.parent if path.is_absolute() else file.parent / path.parent
                    files += [other for other in sorted(folder.glob(path.name)) if other not in files]
    return list(found)[:MAX_HOSTS]


class Boards(QObject):
    """Attaches boards by what a user writes for them (`app.client.target`).

    Parameters
    ----------
    conductor : Conductor
    settings : Settings
        Remembers the last ones.
    ssh_config : Path, optional
        For ssh, in place of the user's configuration.
    """

    asked = Signal(str, bool)  # a question of ssh, and whether its answer is a secret; `answer` it
    probed = Signal(str, bool)  # what a probe found, in one sentence, and whether the board can be attached
    changed = Signal()  # the last ones

    def __init__(self, conductor: Conductor, settings: Settings, ssh_config: Path | None = None) -> None:
        super().__init__()
        self._conductor, self._settings, self._ssh_config = conductor, settings, ssh_config
        self._notes: deque[Callable[[], None]] = deque()  # from other threads
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._one_at_a_time = threading.Lock()
        self._open = True
        self._probe_number = 0
        self._look = QTimer(self, interval=LOOK_MS)
        self._look.timeout.connect(self._take_notes)

    @property
    def recent(self) -> list[str]:
        """Boards attached last, newest first, without this machine."""
        return list(self._settings.boards)

    def hosts(self) -> list[str]:
        """Return the hosts of ssh's configuration."""
        return ssh_hosts(self._ssh_config)

    def target(self, text: str) -> Target:
        """Return the board that a text names; ssh will ask here.

        Raises
        ------
        ValueError
            If it names none; one sentence.
        """
        return open_target(text, ssh_config=self._ssh_config, ask=self._ask)

    def attach(self, text: str) -> str:
        """Attach a board in place of the one that is attached. Return why not, in one sentence, or ""."""
        try:
            target = self.target(text)
        except (ValueError, OSError) as error:
            return f"{error}."
        self._look.start()
        self._conductor.attach(session_of(target), target.name, target.text if target.text != THIS else "")
        return ""

    def remember(self, text: str) -> None:
        """Keep that a board was attached, as what was written for it; this machine needs none."""
        if text and [text] != self._settings.boards[:1]:
            self._settings.boards = [text, *(other for other in self._settings.boards if other != text)][:N_RECENT]
            self.changed.emit()

    def attach_this(self) -> None:
        """Attach this machine."""
        self.attach(THIS)

    def detach(self) -> None:
        """Detach the board."""
        self._conductor.detach()

    def probe(self, text: str) -> str:
        """Probe a board in the background; `probed` has the result. Return the reason that it cannot start, or ""."""
        try:
            target = self.target(text)
        except (ValueError, OSError) as error:
            return f"{error}."
        self._probe_number += 1
        self._look.start()
        threading.Thread(target=self._try, args=(target, self._probe_number), name="probe", daemon=True).start()
        return ""

    def forget_probe(self) -> None:
        """Tell nothing of a probe that still runs."""
        self._probe_number += 1

    def answer(self, text: str | None) -> None:
        """Answer ssh's question; None cancels it."""
        self._answers.put(text)

    def close(self) -> None:
        """Answer no question any more."""
        self._open = False
        self._look.stop()
        self._answers.put(None)

    def _try(self, target: Target, number: int) -> None:
        from app.client.blocking_session import AttachedBoard, LinkError

        try:
            with AttachedBoard(target) as board:
                about = board.hello.get("board", {})
                n_present = sum(not channel.absent for channel in board.channels)
                words = f"{about.get('name', target.name)} answers: {n_present} sensor channels, {about.get('os', '')}"
                can = True
        except (LinkError, OSError) as error:
            words, can = f"{error}", False
        self._notes.append(lambda: self._tell(number, f"{words.rstrip(', ')}.", can))

    def _tell(self, number: int, words: str, can: bool) -> None:
        if number == self._probe_number:
            self.probed.emit(words, can)

    def _ask(self, prompt: str, secret: bool) -> str | None:
        """Hand a question of ssh to the screen and wait for its answer; called from a thread of ssh's desk."""
        with self._one_at_a_time:
            if not self._open:
                return None
            self._notes.append(lambda: self.asked.emit(prompt, secret))
            return self._answers.get()

    def _take_notes(self) -> None:
        while self._notes:
            self._notes.popleft()()
