"""Lets ssh ask a person through this program: ssh starts this file, which carries the question to the desk and back.

As ``SSH_ASKPASS`` it runs in a process of its own that ssh starts, with the standard library only. The answer travels
through a Unix socket in a folder that only this user can enter, and is written nowhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

Ask = Callable[[str, bool], "str | None"]
"""Answers a question: its text, and whether the answer is a secret; None cancels. Called from a thread of its own."""

MAX_BYTE = 8192
CANCELLED = b"-"
_LASTING = re.compile(r"passphrase|password", re.IGNORECASE)
"""What is asked that has the same answer the next time; a code from a telephone has not."""


class Questions:
    """Questions that ssh may ask while one board stays attached: a person answers until a login succeeds, never after.

    A passphrase or password that was right is kept in memory, for the links that are opened again by themselves; what
    else ssh asks then is not answered. `person_is_here` lets it ask again.

    Parameters
    ----------
    ask
        Puts a question to a person; None where ssh asks on the terminal.

    Attributes
    ----------
    refused
        The question of this attempt that was not put to anyone; "" where there was none.
    unanswered
        The question that waits for its answer; "" where there is none.
    """

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask
        self._kept: dict[str, str] = {}
        self._given: dict[str, str] = {}  # in this attempt
        self.attended = True
        self.refused = self.unanswered = ""

    @property
    def on_terminal(self) -> bool:
        """True if ssh asks on the terminal itself."""
        return self._ask is None

    def begin(self) -> None:
        """Begin an attempt."""
        self._given = {}
        self.refused = self.unanswered = ""

    def answer(self, prompt: str, secret: bool) -> str | None:
        """Return the answer, None where there is none; asked once more in one attempt, it was wrong."""
        answer = self._kept.pop(prompt, None)
        if answer is None:
            if self._ask is None or not self.attended:
                self.refused = prompt
                return None
            self.unanswered = prompt
            answer = self._ask(prompt, secret)
            self.unanswered = ""
        if answer is not None and secret and _LASTING.search(prompt):
            self._given[prompt] = answer
        return answer

    def accepted(self) -> None:
        """Take that the login has succeeded."""
        self._kept.update(self._given)
        self.attended = False

    def person_is_here(self) -> None:
        """Take that someone waits for the next attempt, who can be asked."""
        self.attended = True


def can_ask() -> bool:
    """Return True if ssh can ask through this program; Windows lacks Unix sockets and executable scripts."""
    return hasattr(socket, "AF_UNIX") and os.name == "posix"


class Desk:
    """Receiver of the questions of one ssh process.

    Parameters
    ----------
    ask
        Answers them.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._folder = Path(tempfile.mkdtemp(prefix="trilemma-"))  # 0700
        self._program = self._folder / "askpass"
        words = " ".join(map(shlex.quote, (sys.executable, "-I", "-S", __file__, str(self._folder / "socket"))))
        self._program.write_text(f'#!/bin/sh\nexec {words} "$1"\n')
        self._program.chmod(0o700)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self._folder / "socket"))
        self._socket.listen()
        self._open = True
        self._asking: socket.socket | None = None
        threading.Thread(target=self._serve, name="askpass", daemon=True).start()

    def environment(self) -> dict[str, str]:
        """Return the variables that make ssh ask here. Before OpenSSH 8.4 it does so only where there is a DISPLAY."""
        variables = {"SSH_ASKPASS": str(self._program), "SSH_ASKPASS_REQUIRE": "force"}
        return variables if os.environ.get("DISPLAY") else {**variables, "DISPLAY": ":none"}

    def close(self) -> None:
        """Answer nothing any more, a question that is open neither, and remove the folder."""
        self._open = False
        for end in (self._asking, self._socket):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serve(self) -> None:
        while self._open:
            try:
                asking, _ = self._socket.accept()
            except OSError:
                return
            self._asking = asking
            with asking, contextlib.suppress(OSError):
                if not self._open:  # `close` may have come before it could know of this question
                    return
                kind, _, prompt = asking.recv(MAX_BYTE).decode("utf-8", "replace").partition("\n")
                answer = self._ask(prompt, is_secret(prompt, kind))
                if kind == "confirm" and answer != "yes":
                    answer = None  # ssh looks at the status only
                asking.sendall(CANCELLED if answer is None else b"=" + answer.encode("utf-8"))


def is_secret(prompt: str, kind: str) -> bool:
    """Return True if the answer must be hidden: all but a plain yes or no.

    Parameters
    ----------
    prompt
        What ssh asks.
    kind
        ``SSH_ASKPASS_PROMPT``: "confirm" for a plain yes or no; the question about a host key comes without it.
    """
    return kind != "confirm" and "(yes/no" not in prompt


def _tidy(place: Path) -> None:
    """Remove the folder of a desk whose program is gone."""
    with contextlib.suppress(OSError):
        for file in (place, place.with_name("askpass")):
            file.unlink()
        place.parent.rmdir()


def main(argv: list[str]) -> int:
    """Carry the question to the desk and print the answer; status 1 when there is none."""
    answer = b""
    with socket.socket(socket.AF_UNIX) as desk, contextlib.suppress(OSError):
        desk.connect(argv[0])
        kind = os.environ.get("SSH_ASKPASS_PROMPT", "")
        desk.sendall(f"{kind}\n{argv[1]}".encode()[:MAX_BYTE])
        while data := desk.recv(MAX_BYTE):
            answer += data
    if not answer:  # closed, or killed while ssh asked
        _tidy(Path(argv[0]))
    if answer in (b"", CANCELLED):
        return 1
    sys.stdout.buffer.write(answer[1:] + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
