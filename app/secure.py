"""What both ends of a socket need to trust each other: secrets in private files, proofs of a token, TLS in one thread.

Standard library only, Python 3.8: this file travels to the board.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import select
import socket
import ssl
import stat
import tempfile
from pathlib import Path
from typing import List

TOKEN_BIT = 256
PORT = 7417
"""Where an agent serves that is not told another port."""

_CHUNK = 65536


class SecurityError(Exception):
    """Something that must be secret or proven is not; the message is one sentence."""


def new_token() -> str:
    """Return a fresh token of `TOKEN_BIT` random bits, in hexadecimal."""
    return secrets.token_hex(TOKEN_BIT // 8)


def new_nonce() -> str:
    """Return a number that is used once."""
    return secrets.token_hex(16)


def proof(token: str, who: str, server_nonce: str, client_nonce: str, certificate: str = "") -> str:
    """Return what only a holder of the token can say.

    Parameters
    ----------
    token
        The shared secret.
    who
        "client" or "agent": neither can send the other's proof back.
    server_nonce, client_nonce
        Fresh numbers of both, so that no proof serves twice.
    certificate
        Fingerprint of the TLS certificate that the link goes through, so that it cannot be passed on; "" without TLS.
    """
    text = "\n".join(("trilemma", who, server_nonce, client_nonce, certificate))
    return hmac.new(token.encode(), text.encode(), hashlib.sha256).hexdigest()


def constant_time_equal(one: str, other: str) -> bool:
    """Compare two proofs in a time that does not depend on where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())


def fingerprint(certificate_der: bytes) -> str:
    """Return the SHA-256 of a certificate, in hexadecimal."""
    return hashlib.sha256(certificate_der).hexdigest()


def read_private(path: Path) -> str:
    """Return the content of a file that only its owner can read.

    Raises
    ------
    SecurityError
        If there is none, or others can read it, or it is another user's.
    """
    try:
        descriptor = os.open(str(path), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would not open
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(file.fileno())
            content = (file.read(_CHUNK) or b"") if stat.S_ISREG(state.st_mode) else b""
    except OSError as error:
        raise SecurityError(f"{path} cannot be read: {os.strerror(error.errno or 0).lower()}") from None
    if os.name == "posix":
        if state.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SecurityError(f"{path} can be read by others: expected it private, chmod 600 {path}")
        if state.st_uid != os.geteuid():
            raise SecurityError(f"{path} belongs to another user: expected it to be yours")
    return content.decode("utf-8", "replace")


def write_private(path: Path, content: "str | bytes") -> None:
    """Replace a file by one that only its owner can read; whole or not at all. Text is written as UTF-8.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(dir=str(path.parent), prefix=".")  # 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, str(path))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def tls_context(server: bool) -> ssl.SSLContext:
    """Return a context for TLS 1.2 or newer. Who the other end is, is told by its certificate's fingerprint alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not server:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Pump:
    """Carries bytes between a TLS socket and a plain one until either ends; closes both.

    A TLS object must not be read and written by two threads at once, as both ends of a link do: `run` is the one
    thread that touches it. Of each direction at most one chunk waits, so a stalled end stalls the other.
    """

    def __init__(self, tls: ssl.SSLSocket, plain: socket.socket) -> None:
        self._tls = tls
        self._plain = plain
        self._to_tls = b""
        self._to_plain = b""
        self._starved = False  # TLS must write before it can read

    def run(self) -> None:
        """Carry until either end closes."""
        self._tls.setblocking(False)
        self._plain.setblocking(False)
        with self._tls, self._plain, contextlib.suppress(OSError, ValueError):  # ssl.SSLError is an OSError
            while self._turn():
                pass

    def _turn(self) -> bool:
        if self._to_plain or not self._tls.pending():
            self._wait()
        return self._carry_in() and self._carry_out()

    def _carry_in(self) -> bool:
        if not self._to_plain:
            data = self._receive()
            if data == b"":
                return False
            self._to_plain = data or b""
        if self._to_plain:
            with contextlib.suppress(BlockingIOError):
                self._to_plain = self._to_plain[self._plain.send(self._to_plain) :]
        return True

    def _carry_out(self) -> bool:
        if not self._to_tls:
            try:
                self._to_tls = self._plain.recv(_CHUNK)
            except BlockingIOError:
                return True
            if not self._to_tls:
                return False
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            self._to_tls = self._to_tls[self._tls.send(self._to_tls) :]
        return True

    def _receive(self) -> "bytes | None":
        self._starved = False
        try:
            return self._tls.recv(_CHUNK)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLWantWriteError:
            self._starved = True
            return None

    def _wait(self) -> None:
        reads: List[socket.socket] = []
        writes: List[socket.socket] = []
        if not self._to_plain:
            reads.append(self._tls)
        else:
            writes.append(self._plain)
        if not self._to_tls:
            reads.append(self._plain)
        if self._to_tls or self._starved:
            writes.append(self._tls)
        select.select(reads, writes, [])
