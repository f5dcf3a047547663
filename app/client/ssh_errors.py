"""Standard error of ssh as one sentence with the remedy."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.client.transport import Ended

NOT_FOUND = 127
OLD_PYTHON_STATUS = 79
SSH_FAILED = 255

_CAUSES: tuple[tuple[str, str, bool], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED|host key for .* has changed",
        "the host key of {host} has changed: it was installed anew, or it is another machine; "
        "find out which, and only then remove the old key {where}",
        True,
    ),
    (r"REVOKED HOST KEY", "the host key of {host} is revoked: it is not to be trusted", True),
    (
        r"Host key verification failed|No .* host key is known",
        "{host} is not known to ssh yet and its key was not accepted: "
        "type ssh {host} once, compare the fingerprint and answer yes",
        True,
    ),
    (r"Could not resolve hostname ([^:]*)", "there is no host {1}: its name cannot be resolved", True),
    (
        r"Permission denied \(([^)]*)\)|Too many authentication failures|No more authentication methods",
        "{host} refused the login: no key or password was accepted; type ssh {host} to see what it wants",
        True,
    ),
    (
        r"connect to host (\S+) port (\d+): Connection refused",
        "{host} refuses connections on port {2}: no ssh server listens there",
        False,
    ),
    (
        r"Connection timed out|Operation timed out|timeout during|Timeout, server",
        "{host} does not answer: it may be off, or not on this network",
        False,
    ),
    (
        r"No route to host|Network is unreachable|Host is down",
        "{host} cannot be reached from this network: it may be off, or on another one",
        False,
    ),
    (
        r"kex_exchange_identification|Connection closed by|Connection reset by|banner",
        "{host} closed the connection before the login",
        False,
    ),
    (r"[Bb]ad configuration option|terminating, \d+ bad configuration", "{line}", True),
    (
        r"administratively prohibited|stdio forwarding failed",
        "the jump host does not let connections to {host} through",
        True,
    ),
)
"""Pattern in what ssh says, the sentence it means, and whether another try can only end the same way. First wins."""


def ended(destination: str, status: int | None, lines: Sequence[str], *, heard: bool) -> Ended | None:
    """Return the reason that an attempt ended, in a sentence.

    Parameters
    ----------
    destination
        As given to ssh.
    status
        Of ssh; None while it runs. 255 is its own, others are those of the command on the board.
    lines
        Lines of standard error.
    heard
        True if the board's Python had answered.
    """
    name = destination.removeprefix("ssh://").rpartition("@")[2]
    told = [line for line in lines if line.strip()]
    if status == OLD_PYTHON_STATUS:
        words = next((line for line in told if line.startswith("trilemma: ")), "trilemma: Python is too old here")
        return Ended(f"{name}: {words.removeprefix('trilemma: ')}", final=True)
    if status == NOT_FOUND or (status not in (None, 0, SSH_FAILED) and any(map(_no_python, told))):
        return Ended(f"there is no python3 on {name}: expected Python 3.8 or newer", final=True)
    if status == SSH_FAILED or (status is not None and status < 0):
        return _of_ssh(name, told, heard=heard)
    if status and not heard:
        last = told[-1] if told else f"it ended with status {status}"
        if last.startswith("trilemma: "):
            return Ended(f"{name}: {last.removeprefix('trilemma: '):.200}", final=True)
        return Ended(f"the agent does not start on {name}: {last:.200}", final=True)
    return None


def _of_ssh(name: str, told: Sequence[str], *, heard: bool) -> Ended:
    text = "\n".join(told)
    for pattern, sentence, final in _CAUSES:
        match = re.search(pattern, text)
        if match:
            groups = [group or "" for group in match.groups()]
            line = next((line for line in told if re.search(pattern, line)), "")
            old = re.search(r"Offending \S+ key in (\S+):(\d+)", text)
            where = f"from line {old[2]} of {old[1]}" if old else f"with ssh-keygen -R {name}"
            words = sentence.format(match.group(0), *groups, host=name, name=name, line=line[:200], where=where)
            return Ended(words, final and not heard)
    if heard:
        return Ended(f"the link to {name} was lost")
    return Ended(f"ssh to {name} failed: {told[-1]:.200}" if told else f"ssh to {name} failed")


def _no_python(line: str) -> bool:
    return "python3" in line and re.search(r"not found|No such file|Unknown command", line) is not None
