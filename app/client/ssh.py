"""A board reached by the system's own ``ssh``: nothing is installed there, nothing is written there, nothing stays.

The agent travels through the standard input of ``python3 -c STUB`` on the board and runs from memory. The user's ssh
configuration, keys, agents and jump hosts are ssh's business and just work; so are the host keys, whose check is never
switched off.
"""

from __future__ import annotations

import collections
import contextlib
import io
import os
import re
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from app.client.agent_file import agent_hash, packed_agent
from app.client.askpass import Ask, Desk, Questions, can_ask
from app.client.ssh_errors import echoed, ended, printed_text
from app.client.transport import MAX_LOG_BYTE, READ_BYTE, Ended, OpenError, agent_log_file, open_log
from app.protocol import MAGIC
from core.catalogue.text_files import printable

CONNECT_S = 5
"""For the first host to answer, where the user's configuration says nothing else."""

PERSON_S = 150.0
"""For a person to type a password and for the board to start Python; an ssh server gives 120 seconds itself."""

SESSION = {"SessionType": "default", "StdinNull": "no", "ForkAfterAuthentication": "no"}
"""What a host of the user's that is for tunnels may have set otherwise; an ssh before 8.7 has no such settings."""

LAST_WORDS_S = 2.0
"""For what ssh said to be here once it has ended; a master connection that it left behind may hold its pipe."""

GRACE_S = 2.0
"""For ssh to end after its input has ended: a link that is dead must not hold up the next one."""

SETTINGS_S = 5.0
MAX_LINES, MAX_LINE_BYTE = 40, 4096
PRINTED_BYTE = 4096  # of standard output before the first frame
ECHO_BYTE = 64  # of the agent that come back from a command which sends back what it gets
_STEERING = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
SSH_NAME = re.compile(r"(?:[A-Za-z0-9_.+][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_\[:.][A-Za-z0-9_.:%\]-]*")
SSH_URL = re.compile(
    r"ssh://(?:[A-Za-z0-9_.+][A-Za-z0-9_.+-]*@)?(?:[A-Za-z0-9_.][A-Za-z0-9_.-]*|\[[0-9a-fA-F:.%]+\])(?::\d{1,5})?"
)

STUB = (
    "import os,sys,io,zlib,hashlib,zipfile;b=[];"
    'exec("while sum(map(len,b))<{n}:b.append(os.read(0,{n}-sum(map(len,b)))or sys.exit(4))");'
    'ARCHIVE=zlib.decompress(b"".join(b));'
    'hashlib.sha256(ARCHIVE).hexdigest()=="{sha256}"or sys.exit("trilemma: the agent did not arrive whole");'
    'exec(zipfile.ZipFile(io.BytesIO(ARCHIVE)).read("__main__.py"))'
)
"""Reads the compressed zipapp from standard input and runs it if it is the one named. Without the characters that some
login shell changes between single quotes: ``'`` (all), ``!`` and line ends (csh), a backslash (fish)."""


@dataclass(frozen=True)
class SshTarget:
    """Destination of ssh, and its way to ask a person.

    Parameters
    ----------
    destination
        ``[user@]host``, a host of the user's configuration, or ``ssh://[user@]host[:port]``.
    config_file
        Read in place of the user's configuration (``ssh -F``).
    ask
        Answers ssh's questions; None lets ssh ask on the terminal.
    words
        Words for the agent's command line.
    questions
        What ssh may ask: those of one session, whose attempts know of each other.

    Raises
    ------
    ValueError
        If the destination could be anything but one.
    """

    destination: str
    config_file: Path | None = None
    ask: Ask | None = None
    words: tuple[str, ...] = ()
    questions: Questions = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "questions", Questions(self.ask))
        check_destination(self.destination)

    @property
    def name(self) -> str:
        """The host, without the user."""
        return self.destination.removeprefix("ssh://").rpartition("@")[2]

    @property
    def options(self) -> list[str]:
        """The options that every call of ssh takes."""
        return [] if self.config_file is None else ["-F", str(self.config_file)]

    def settings(self) -> Mapping[str, str]:
        """Return ssh's settings for the destination (``ssh -G``) by lower-case keyword; none if ssh fails."""
        argv = ["ssh", "-G", *self.options, "--", self.destination]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SETTINGS_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return {}
        pairs = (line.partition(" ") for line in done.stdout.splitlines())
        return {key.lower(): value for key, _, value in pairs}

    def command(self, payload_byte: int) -> list[str]:
        """Return the command that runs the agent, which reads so many bytes first."""
        stub = STUB.format(n=payload_byte, sha256=agent_hash())
        silent = not can_ask() if self.ask else not self.questions.attended
        fixed = {
            "BatchMode": "yes" if silent else "no",
            "ServerAliveInterval": "5",
            "ServerAliveCountMax": "2",
            "ClearAllForwardings": "yes",  # one channel: a forwarding of the user's may be taken already
            "RemoteCommand": "none",
            "LogLevel": "ERROR",  # errors are read, whatever the user's configuration says
        }
        settings = self.settings()
        if settings.get("connecttimeout", "none") == "none" and not _hop(settings):
            fixed["ConnectTimeout"] = str(CONNECT_S)
        fixed |= {key: value for key, value in SESSION.items() if settings.get(key.lower(), value) != value}
        options = [word for key, value in fixed.items() for word in ("-o", f"{key}={value}")]
        words = " ".join([f"exec python3 -I -S -c '{stub}'", *self.words])
        return ["ssh", "-T", "-a", "-x", *options, *self.options, "--", self.destination, words]

    def first_hop(self) -> tuple[str, int] | None:
        """Return host and port that the first TCP connection goes to; None where a proxy command makes it."""
        settings, target = self.settings(), self
        for _ in range(8):
            hop = _hop(settings)
            if not hop:
                break
            if hop == "command":
                return None
            first = hop.split(",")[0]
            try:
                target = SshTarget(first if first.startswith("ssh://") else f"ssh://{first}", self.config_file)
            except ValueError:
                return None
            settings = target.settings()
        name, port = settings.get("hostname", ""), settings.get("port", "")
        return (name, int(port)) if name and port.isdecimal() else None


def check_destination(text: str) -> None:
    """Raise ValueError unless `text` is a host for ssh: no option of its, nothing a shell would understand."""
    host, colon, port = text.rpartition(":")
    if colon and port.isdecimal() and ":" not in host:
        raise ValueError(f"{text!r:.80}: a host with a port is expected as ssh://{host}:{port}")
    if colon and port.isdecimal() and text.startswith("ssh://") and not 0 < int(port) < 65536:
        raise ValueError(f"{text!r:.80}: expected a port of 1 to 65535")
    if not (SSH_NAME.fullmatch(text) or SSH_URL.fullmatch(text)):
        raise ValueError(
            f"{text!r:.80} is no board: expected [user@]host or ssh://[user@]host[:port], "
            "letters, digits and . _ - : only, not beginning with -"
        )


def _hop(settings: Mapping[str, str]) -> str:
    """Return the jump hosts of ssh's settings, "command" where a command makes the connection, or ""."""
    jump = settings.get("proxyjump", "none")
    if jump != "none":
        return jump
    return "" if settings.get("proxycommand", "none") == "none" else "command"


class SshTransport:
    """The agent on a board, over the system's ``ssh``.

    Parameters
    ----------
    target
        Where.
    log_file
        Takes what ssh and the agent say on standard error.

    Attributes
    ----------
    patience_s
        How long the first byte may take: a person may have to answer.

    Raises
    ------
    OpenError
        If there is no ssh here.
    """

    patience_s = PERSON_S

    def __init__(self, target: SshTarget, log_file: Path | None = None) -> None:
        self._target = target
        self._lines: collections.deque[str] = collections.deque(maxlen=MAX_LINES)
        self._payload = packed_agent()
        self._accepted = False
        self._printed = bytearray()  # in place of the agent's first frame
        self._heard = False
        self._beginning = self._payload[:ECHO_BYTE]
        self._echoes = False
        argv = target.command(len(self._payload))
        target.questions.begin()
        self._desk = None if target.ask is None or not can_ask() else Desk(target.questions.answer)
        try:
            self._process = _start(argv, self._desk)
        except OSError as error:
            if self._desk is not None:
                self._desk.close()
            words = f"ssh cannot start ({error.strerror}): is the OpenSSH client installed"
            raise OpenError(words, final=True) from None
        self._listener = threading.Thread(
            target=self._listen, args=(log_file or agent_log_file(),), name="ssh errors", daemon=True
        )
        self._listener.start()

    @property
    def pid(self) -> int:
        """The process id of ssh."""
        return self._process.pid

    def read(self) -> bytes:
        """Return the bytes that arrived; b"" when ssh has ended."""
        assert self._process.stdout is not None
        if self._process.stdout.closed:
            return b""
        data = os.read(self._process.stdout.fileno(), READ_BYTE)
        if data:
            if not self._accepted:
                self._accepted, self._echoes = True, data.startswith(self._beginning)
                self._target.questions.accepted()
                self._close_desk()
            if not self._heard:
                self._listen_for_frame(data)
            if self._echoes:
                data = b""
        if not data:
            self._process.stdout.close()  # here, not in `close`: another thread may be reading then
        return data

    def write(self, data: bytes) -> None:
        """Send all of `data`, the agent before the first of it."""
        assert self._process.stdin is not None
        data, self._payload = self._payload + data, b""
        view = memoryview(data)
        while view:
            view = view[self._process.stdin.write(view) :]

    def close(self) -> None:
        """Let the agent end by closing its input; end ssh if that does not."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._close_desk()
        if not self._accepted:  # it may wait for a person, who has left
            self._process.terminate()
        try:
            self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen_for_frame(self, data: bytes) -> None:
        self._printed += data
        self._heard = MAGIC in self._printed
        del self._printed[: None if self._heard else -PRINTED_BYTE]

    def printed(self) -> str:
        """Return what the board has printed in place of the agent's answer, on one line; "" where it answered."""
        return printed_text(_lines(self._printed))

    def _close_desk(self) -> None:
        if self._desk is not None:
            self._desk.close()

    def unanswered(self) -> str:
        """Return the question of ssh that waits for its answer, or ""."""
        return self._target.questions.unanswered

    def ended(self) -> Ended | None:
        """Return in a sentence the reason that ssh ended; None where the agent ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LAST_WORDS_S)
        self._listener.join(LAST_WORDS_S)
        asked, name = self._target.questions, self._target.name
        if self._echoes:
            return echoed(self._target.destination)
        if asked.refused:
            question = printable(asked.refused).strip().rstrip(":?")
            return Ended(f'{name} asks again "{question:.120}": reconnect to answer', final=True)
        found = ended(
            self._target.destination,
            self._process.returncode,
            list(self._lines),
            heard=self._heard,
            printed=_lines(self._printed),
        )
        if found is None or not found.final or self._accepted:
            return found
        if not asked.on_terminal and not can_ask():
            return Ended(
                f"{found.reason}; ssh cannot ask in a window on this system: load the key into ssh-agent", True
            )
        if asked.on_terminal and not asked.attended:
            return Ended(
                f"{name} wants a password or passphrase again, which ssh asks on the terminal: attach anew", True
            )
        return found

    def _listen(self, log_file: Path) -> None:
        assert self._process.stderr is not None
        raw_stderr = cast(io.RawIOBase, self._process.stderr)
        with open_log(log_file) as log, io.BufferedReader(raw_stderr) as stderr:
            room_byte = MAX_LOG_BYTE
            while raw := stderr.readline(MAX_LINE_BYTE):
                self._lines.extend(_lines(raw))
                if room_byte > 0:  # a board that never stops must not fill the disk
                    log.write(raw)
                    log.flush()
                    room_byte -= len(raw)


def _lines(data: bytes | bytearray) -> list[str]:
    """Return what a board printed, in lines that cannot steer a terminal."""
    text = _STEERING.sub("", data.decode("utf-8", "replace"))
    return [printable(line).rstrip() for line in text.splitlines()]


def _start(argv: Sequence[str], desk: Desk | None) -> subprocess.Popen[bytes]:
    """Start ssh. With a desk it has no terminal and asks there; without one Ctrl-C must not reach it."""
    pipes = subprocess.PIPE
    if desk is not None:
        env = {**os.environ, **desk.environment()}
        return subprocess.Popen(
            argv, stdin=pipes, stdout=pipes, stderr=pipes, bufsize=0, env=env, start_new_session=True
        )
    if os.name == "posix":
        argv = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *argv]
    return subprocess.Popen(argv, stdin=pipes, stdout=pipes, stderr=pipes, bufsize=0)
