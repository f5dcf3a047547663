"""Words of ssh and of login shells that cannot start the agent, as one sentence with the remedy."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Sequence

from app.client.transport import Ended

NOT_FOUND = 127
OLD_PYTHON_STATUS = 79
SSH_FAILED = 255
SFTP_STATUS = 11
"""Of OpenSSH's sftp-server where what it reads is no sftp."""

_IN_PLACE_OF = "in place of the agent (ForceCommand, or a login shell such as nologin)"

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
        r"Permissions \d+ for '([^']+)' are too open",
        "ssh does not use the key {1}, which others can read: type chmod 600 {1}",
        True,
    ),
    (
        r"Unable to negotiate with .*: no matching (.+?) found\. Their offer: (\S+)",
        "{host} and ssh here have no {1} in common: it offers {2}, which a newer ssh allows only where "
        "its configuration names it",
        True,
    ),
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


_IN_PLACE: tuple[tuple[str, str, bool], ...] = (
    (
        r"(?i)CommandNotFoundException|cmdlet|コマンドレット",
        "the login shell of {host} is PowerShell, which cannot start the agent: "
        "expected a shell of Linux or macOS (sh, bash, zsh, fish); on Windows that is the ssh server of its WSL",
        True,
    ),
    (
        r"""(?:^|\s)["'«“‘]exec["'»”’]""",
        "{host} is a Windows machine (its login shell is cmd.exe), on which the agent cannot start: "
        "expected Linux or macOS, such as the ssh server of its WSL",
        True,
    ),
    (
        r"Python was not found; run without arguments|xcode-select: (?:note|error)",
        "there is no python3 on {host}: expected Python 3.8 or newer ({line})",
        True,
    ),
    (
        r"(?i)\bsftp\b.*\bonly\b|\bonly\b.*\bsftp\b|restricted by rssh|\bscponly\b",
        "the account on {host} is for file transfer only: expected one with a login shell ({line})",
        True,
    ),
    (
        r"(?i)account has expired",
        "the account on {host} has expired: its administrator can renew it ({line})",
        True,
    ),
    (
        r"(?i)account is (?:currently )?(?:not available|disabled|locked)",
        "the account on {host} has no login shell: expected one that has ({line})",
        True,
    ),
    (
        r"(?i)(?:not|n't) (?:provide|allow|have|permit) shell|git shell is not enabled|unrecognized command 'exec"
        r"|shell access is (?:disabled|denied|not)",
        "the account on {host} runs no commands: expected one with a login shell ({line})",
        True,
    ),
    (
        r"(?i)exec: restricted|forbidden command|restricted shell|command not allowed",
        "the login shell of {host} is restricted and starts no python3: expected one that does ({line})",
        True,
    ),
    (
        r"(?i)password (?:has|is) expired|password change required|required to change your password",
        "the password on {host} has expired: type ssh {host} once and set a new one",
        True,
    ),
    (
        r"pam_nologin|System is (?:booting up|going down|starting up|shutting down)",
        "{host} lets nobody in now ({line})",
        False,
    ),
    (
        r"(?i)please log ?in as the (?:user )?[\"'“]?([\w.-]+)[\"'”]? (?:user )?(?:rather|instead)",
        "{host} is to be attached as the user {1}: {1}@{host} ({line})",
        True,
    ),
)
"""The same of what an account's login shell or forced command prints where the agent should start."""

_NOISE = re.compile(
    r"\*\* |\s*\+ |At line:|Could not chdir to home directory|\S*(?:stty|mesg|tput|tset)\b.*|.*warning: setlocale"
    r"|\S*xauth:|Warning: Permanently added|Connection to \S+ closed"
)
_ERROR = re.compile(
    r"(?i)\b(?:error|fatal|cannot|can't|could not|denied|not found|no such|no version|failed|not available|not allowed"
    r"|unknown|invalid|expired|refused|unable)\b|Error\b"
)
_SHOWN_CHAR = 200
_PRINTED_LINES = 3


def ended(
    destination: str, status: int | None, lines: Sequence[str], *, heard: bool, printed: Sequence[str] = ()
) -> Ended | None:
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
        True if the board's agent had answered.
    printed
        Lines of standard output that came in place of the agent's answer.
    """
    name = _name(destination)
    told = [line for line in lines if line.strip()]
    if status == OLD_PYTHON_STATUS:
        words = next((line for line in told if line.startswith("trilemma: ")), "trilemma: Python is too old here")
        return Ended(f"{name}: {words.removeprefix('trilemma: ')}", final=True)
    named = None if heard or status is None else _cause(_IN_PLACE, name, [*told, *printed])
    if named is not None:
        return named
    if _lacks_python(status, told):
        return Ended(f"there is no python3 on {name}: expected Python 3.8 or newer", final=True)
    if status == SSH_FAILED or (status is not None and status < 0):
        return _of_ssh(name, told, printed, heard=heard)
    if status is None or heard:
        return None
    words = _telling(told, printed)
    if words.startswith("trilemma: "):
        return Ended(f"{name}: {words.removeprefix('trilemma: ')}", final=True)
    if status == SFTP_STATUS and not words:
        return Ended(f"the account on {name} is for file transfer (sftp) only: expected one with a login shell", True)
    if status and (told or not words):
        return Ended(f"the agent does not start on {name}: {words or _silent(status)}", final=True)
    return Ended(f"{name} runs a command of its own {_IN_PLACE_OF}: {words or 'it printed nothing'}", final=bool(words))


def echoed(destination: str) -> Ended:
    """Return the reason that a link ended whose other end sends back what it gets, as ``cat`` does."""
    return Ended(
        f"{_name(destination)} runs a command of its own {_IN_PLACE_OF}: it sends back what it gets", final=True
    )


def _name(destination: str) -> str:
    return destination.removeprefix("ssh://").rpartition("@")[2]


def printed_text(lines: Sequence[str]) -> str:
    """Return the last paragraph of what came on standard output, on one line."""
    shown: list[str] = []
    for line in reversed(lines):
        if line.strip() and len(shown) < _PRINTED_LINES:
            shown.insert(0, line.strip())
        elif shown:
            break
    return " ".join(shown)[:_SHOWN_CHAR]


def _telling(told: Sequence[str], printed: Sequence[str]) -> str:
    """Return the line that tells why: of standard error the last one that names an error, else what was printed."""
    known = [line.strip() for line in told if not _NOISE.match(line)]
    errors = [line for line in known if _ERROR.search(line)]
    if errors:
        return errors[-1][:_SHOWN_CHAR]
    shown = printed_text([line for line in printed if not _NOISE.match(line)])
    return (known[-1] if known else "")[:_SHOWN_CHAR] if told and (known or not shown) else shown


def _silent(status: int) -> str:
    """Return what is known of a command that ended and printed nothing."""
    if status > 128:
        with contextlib.suppress(ValueError):
            return f"it was ended by {signal.Signals(status - 128).name}"
    hint = ", as the login shell /bin/false does" if status == 1 else ""
    return f"it ended with status {status} and printed nothing{hint}"


def _cause(causes: Sequence[tuple[str, str, bool]], name: str, told: Sequence[str]) -> Ended | None:
    """Return the first cause whose pattern one of the lines has."""
    text = "\n".join(told)
    for pattern, sentence, final in causes:
        match = re.search(pattern, text)
        if match:
            groups = [group or "" for group in match.groups()]
            line = next((line.strip() for line in told if re.search(pattern, line)), "")
            old = re.search(r"Offending \S+ key in (\S+):(\d+)", text)
            where = f"from line {old[2]} of {old[1]}" if old else f"with ssh-keygen -R {name}"
            words = sentence.format(match.group(0), *groups, host=name, name=name, line=line[:_SHOWN_CHAR], where=where)
            return Ended(words, final)
    return None


def _of_ssh(name: str, told: Sequence[str], printed: Sequence[str], *, heard: bool) -> Ended:
    found = _cause(_CAUSES, name, told)
    if found is not None:
        return found._replace(final=found.final and not heard)
    if heard:
        return Ended(f"the link to {name} was lost")
    words = _telling(told, printed) or (told[-1][:_SHOWN_CHAR] if told else "")
    return Ended(f"ssh to {name} failed: {words}" if words else f"ssh to {name} failed")


def _lacks_python(status: int | None, told: Sequence[str]) -> bool:
    """Return True if the shell says that there is no python3; one whose libraries are missing is there."""
    if status in (None, 0, SSH_FAILED) or any(re.search(r"loading shared librar|ibrary not loaded", t) for t in told):
        return False
    return status == NOT_FOUND or any(map(_no_python, told))


def _no_python(line: str) -> bool:
    """Return True if the line says it, in words of csh in any language too: ``python3 : Commande introuvable.``"""
    if re.search(r"\bpython3\b.*(?:not found|No such file)|Unknown command.*\bpython3\b", line):
        return True
    return re.fullmatch(r"python3 ?: [^:]+", line.strip()) is not None and "denied" not in line
