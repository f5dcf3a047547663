"""Boards that were paired: of each the address, the fingerprint of its certificate and the token, in a private file."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import platformdirs

from app.client.ssh import PERSON_S, SshTarget, SshTransport
from app.client.transport import OpenError
from app.protocol import Decoder, ProtocolError, decode_control, encode_control
from app.secure import SecurityError, fingerprint, new_token, read_private, write_private

CERTIFICATE_DAYS = 3650
_FIELDS = {"name": str, "host": str, "fingerprint": str, "token": str}


@dataclass(frozen=True)
class Pairing:
    """Record of a paired board on this desktop."""

    name: str  # as the user calls it: tls://NAME
    host: str  # where it is
    fingerprint: str  # SHA-256 of its certificate
    token: str


def pairings_folder() -> Path:
    """Return the folder of pairings: ``TRILEMMA_DATA_DIR``, or the platform's folder for settings."""
    named = os.environ.get("TRILEMMA_DATA_DIR")
    base = Path(named) if named else Path(platformdirs.user_config_dir("trilemma", appauthor=False))
    return base / "pairings"


def save_pairing(pairing: Pairing) -> Path:
    """Keep a pairing in a file that only this user can read; return its path.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    path = _path(pairing.name)
    write_private(path, json.dumps(asdict(pairing), indent=2) + "\n")
    return path


def load_pairing(name: str) -> Pairing:
    """Return the pairing of a board.

    Raises
    ------
    SecurityError
        If there is none, or others can read it.
    """
    path = _path(name)
    if not path.exists():
        raise SecurityError(f"{name} is not paired with this machine: expected trilemma pair [user@]{name} before")
    try:
        content = json.loads(read_private(path))
        return Pairing(**{field: kind(content[field]) for field, kind in _FIELDS.items()})
    except (ValueError, KeyError, TypeError):
        raise SecurityError(f"{path} holds no pairing: expected trilemma pair [user@]{name} to make it anew") from None


def _path(name: str) -> Path:
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*", name):
        raise SecurityError(f"{name!r:.60} is no name of a board: expected letters, digits and . _ - :")
    return pairings_folder() / f"{name.replace(':', '_')}.json"


def make_certificate() -> tuple[str, str]:
    """Return a fresh self-signed certificate with its key, as PEM text, and its fingerprint; nothing touches the disk.

    Raises
    ------
    SecurityError
        If the ``openssl`` program is not here.
    """
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256"]
    argv += ["-days", str(CERTIFICATE_DAYS), "-subj", "/CN=trilemma", "-keyout", "-", "-out", "-"]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=30)
    except FileNotFoundError:
        raise SecurityError("a certificate takes the openssl program, which is not installed here") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise SecurityError(f"openssl made no certificate: {str(error.stderr or error).strip():.200}") from None
    text = done.stdout
    der = ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])
    return text, fingerprint(der)


def pair(where: SshTarget) -> tuple[Pairing, list[str]]:
    """Make a certificate and a token, hand them to a board once through ssh, and keep what knows it again.

    Returns
    -------
    pairing : Pairing
        Saved already.
    command : list of str
        Starts the agent that serves there.

    Raises
    ------
    SecurityError, OSError
        If it is not paired; one sentence.
    """
    name = where.name
    pem, known = make_certificate()
    pairing = Pairing(name, where.settings().get("hostname", name), known, new_token())
    _path(name)  # a name that cannot be kept is said before anything is sent
    command = _hand_over(where, {"op": "pair", "pem": pem, "token": pairing.token})
    save_pairing(pairing)
    return pairing, command


def _hand_over(where: SshTarget, message: dict[str, str]) -> list[str]:
    transport = SshTransport(replace(where, words=("install",)))
    given_up = threading.Event()

    def give_up() -> None:
        given_up.set()
        transport.close()

    patience = threading.Timer(PERSON_S, give_up)
    patience.daemon = True
    patience.start()
    try:
        transport.write(encode_control(message, 0))
        decoder = Decoder()
        while data := transport.read():
            for frame in decoder.feed(data):
                answer = decode_control(frame.body)
                if answer["op"] == "paired":
                    return [str(word) for word in answer["command"]]
        ended = transport.ended()
    except (BrokenPipeError, ProtocolError):
        ended = transport.ended()
    except (OSError, ValueError):  # closed under our hands
        if not given_up.is_set():
            raise
        ended = None
    finally:
        patience.cancel()
        transport.close()
    if given_up.is_set():
        raise OpenError(f"{where.name} did not take the pairing within {PERSON_S:g} s")
    raise OpenError(ended.reason if ended is not None else f"{where.name} did not take the pairing")
