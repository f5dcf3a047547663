"""Targets: the text a user writes for a board, as an opener of a link to it.

=====================  =============================================================================
``this``               this machine
``[user@]host``        over ssh; a host of ssh's configuration too, or ``ssh://[user@]host[:port]``
``tls://host[:port]``  an agent that serves there, paired before (``trilemma pair``)
``tcp://localhost:p``  an agent that serves on this machine, with the token in its file
``unix:PATH``          an agent that serves at a Unix socket of this machine
``sim:KEY[,seed=N]``   a simulated board, with options of ``trilemma simulate-board``
a file                 a recording
=====================  =============================================================================

What only some of them need is imported with them: this machine is attached at every start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from app import LAUNCHER
from app.client.transport import START_S, LocalTransport, Transport

if TYPE_CHECKING:
    from app.client.askpass import Ask

THIS = "this"
REACH_S = 0.8
SIMULATION_OPTIONS = ("seed", "ambient", "cooling", "battery", "accelerate")


@dataclass(frozen=True)
class Target:
    """A board that can be attached; calling it opens a link.

    Attributes
    ----------
    text
        As the user wrote it.
    name
        For people: "this machine", "orin".
    reachable
        Checks within a second if it can be reached; None where only an attempt can.
    patience_s
        How long opening may take until the agent's first word.
    attended
        To be called when a person wants the next attempt, and can be asked again; None where nobody ever is.
    """

    text: str
    name: str
    opener: Callable[[], Transport]
    reachable: Callable[[], bool] | None = None
    patience_s: float = START_S
    attended: Callable[[], None] | None = None

    def __call__(self) -> Transport:
        """Open a link.

        Raises
        ------
        OSError
            If it cannot be opened; `app.client.transport.OpenError` says in a sentence why.
        """
        return self.opener()


def open_target(text: str, *, ssh_config: Path | None = None, ask: Ask | None = None) -> Target:
    """Return the board that `text` names.

    Parameters
    ----------
    text
        See this module.
    ssh_config
        For ssh, in place of the user's configuration.
    ask
        Answers ssh's questions; None lets ssh ask on the terminal.

    Raises
    ------
    ValueError
        If it names none; one sentence.
    """
    text = text.strip()
    if text in ("", THIS):
        return Target(THIS, "this machine", LocalTransport)
    scheme, colon, rest = text.partition(":")
    makers: dict[str, Callable[[str], Target]] = {"sim": _simulated, "unix": _unix, "tls": _tls, "tcp": _tcp}
    if colon and scheme in makers:
        return makers[scheme](rest)
    if scheme != "ssh" and (os.sep in text or _is_file(text)):
        if rest.startswith("//"):
            raise ValueError(
                f"{text:.80}: {scheme}:// is no way to a board: expected ssh://, tls:// or tcp://localhost"
            )
        return _recording(text)
    return _ssh(text, ssh_config, ask)


def _ssh(text: str, config_file: Path | None, ask: Ask | None) -> Target:
    from app.client.ssh import PERSON_S, SshTarget, SshTransport

    where = SshTarget(text, config_file, ask)
    if config_file is not None and not config_file.is_file():
        raise ValueError(f"{config_file}: expected a configuration file of ssh, there is none")

    @cache
    def hop() -> tuple[str, int] | None:
        return where.first_hop()

    def reachable() -> bool:
        first = hop()
        return first is None or can_connect(*first)

    name = text.removeprefix("ssh://").rpartition("@")[2]
    return Target(text, name, lambda: SshTransport(where), reachable, PERSON_S, where.questions.person_is_here)


def can_connect(host: str, port: int) -> bool:
    """Return True if something accepts TCP connections there."""
    import socket

    try:
        socket.create_connection((host, port), REACH_S).close()
    except OSError:
        return False
    return True


def _simulated(text: str) -> Target:
    """Return a simulated board: its key, then options of ``simulate-board`` as ``name=value`` behind commas."""
    key, *options = (part.strip() for part in text.split(","))
    if not key.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise ValueError(f"sim:{key}: expected the key of a board, see trilemma boards")
    words = []
    for option in options:
        name, equals, value = option.partition("=")
        if name not in SIMULATION_OPTIONS or not equals:
            raise ValueError(
                f"sim:{text}: {option!r}: expected {', '.join(SIMULATION_OPTIONS)} and a value, as in seed=3"
            )
        words.append(f"--{name}={value}")
    argv = (sys.executable, str(LAUNCHER), "simulate-board", key, "--stdio", *words)
    return Target(f"sim:{text}", f"{key} (simulated)", lambda: LocalTransport(argv))


def _is_file(text: str) -> bool:
    try:
        return Path(text).expanduser().is_file()
    except (OSError, RuntimeError):  # too long for a name; ~ of nobody
        return False


def _recording(text: str) -> Target:
    if not _is_file(text):
        raise ValueError(f"{text:.200}: expected a recording, there is no such file")
    path = Path(text).expanduser()
    from app.client.replay import ReplayTransport

    return Target(str(path), path.name, lambda: ReplayTransport(path))


def _tls(rest: str) -> Target:
    from app.client.pairing import load_pairing
    from app.client.sockets import open_tls, split_host
    from app.secure import SecurityError

    host, port = split_host(rest)

    def reachable() -> bool:
        try:
            return can_connect(load_pairing(host).host, port)
        except SecurityError:
            return True  # an attempt says why not

    return Target(f"tls://{host}:{port}", host, lambda: open_tls(host, port), reachable)


def _tcp(rest: str) -> Target:
    from app.client.sockets import LOOPBACK, open_tcp, split_host

    host, port = split_host(rest)
    if host not in LOOPBACK:
        raise ValueError(f"tcp://{host}: expected localhost; another machine is reached by tls:// or ssh")
    name = f"{host}:{port}"
    return Target(f"tcp://{name}", name, lambda: open_tcp(host, port), lambda: can_connect(host, port))


def _unix(rest: str) -> Target:
    from app.client.sockets import open_unix

    if not rest:
        raise ValueError("unix: expected the path of a socket behind it, as in unix:/run/agent.sock")
    path = Path(rest).expanduser()
    return Target(f"unix:{path}", path.name, lambda: open_unix(path))
