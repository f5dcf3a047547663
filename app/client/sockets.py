"""An agent that serves at a socket: on this machine, or beyond it through TLS with a pinned certificate and a token."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
import threading
import time
from pathlib import Path

from app.client.pairing import Pairing, load_pairing
from app.client.transport import READ_BYTE, START_S, Ended, OpenError
from app.protocol import Decoder, ProtocolError, decode_control, encode_control
from app.secure import (
    PORT,
    Pump,
    SecurityError,
    constant_time_equal,
    fingerprint,
    new_nonce,
    proof,
    read_private,
    tls_context,
)
from core.catalogue.text_files import printable

GREET_S = 5.0
CLOSED = "closed the connection: expected an agent, and not too many clients at it"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class SocketTransport:
    """A connected socket whose other end has proved to be the agent.

    Attributes
    ----------
    patience_s
        How long its first word may take: the board may still be ending the run of the client before.
    """

    patience_s = START_S

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._broken = ""

    def read(self) -> bytes:
        """Return the bytes that arrived; b"" when the link has ended."""
        try:
            data = self._connection.recv(READ_BYTE)
        except OSError as error:
            data = b""
            self._broken = os.strerror(error.errno or 0).lower() if error.errno != errno.EBADF else self._broken
        if not data:
            self._connection.close()  # here, not in `close`: another thread may be reading then
        return data

    def write(self, data: bytes) -> None:
        """Send all of `data`."""
        self._connection.sendall(data)

    def close(self) -> None:
        """End the link."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def ended(self) -> Ended | None:
        """Return the system's message of a broken link; None where the agent closed it."""
        return Ended(f"the link to the board broke: {self._broken}") if self._broken else None


def split_host(text: str) -> tuple[str, int]:
    """Return host and port of ``host[:port]``, ``[ipv6]:port`` or either with ``//`` before it.

    Raises
    ------
    ValueError
        If it is neither.
    """
    text = text.removeprefix("//").rstrip("/")
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(PORT)
    balanced = host.startswith("[") == host.endswith("]")
    if not host or not balanced or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r:.60}: expected host or host:port, the port 1 to 65535")
    return host.strip("[]"), int(port)


def loopback_token_file() -> Path:
    """Return the file with the token of this user's agent on this machine."""
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(settings) / "trilemma" / "agent" / "loopback-token"


def open_tls(host: str, port: int) -> SocketTransport:
    """Open a link to a paired board.

    Raises
    ------
    OpenError
        One sentence: not paired, another certificate, the token refused, or no answer.
    """
    pairing = _paired(host)
    plain = _connect(pairing.host, port)
    plain.settimeout(GREET_S)
    try:
        tls = tls_context(server=False).wrap_socket(plain)
    except OSError as error:  # ssl.SSLError is one
        plain.close()
        if isinstance(error, (ConnectionError, ssl.SSLEOFError)):
            raise OpenError(f"{host}:{port} {CLOSED}") from None
        raise OpenError(f"{host}:{port} does not speak TLS: {error.strerror or error}") from None
    shown = fingerprint(tls.getpeercert(binary_form=True) or b"")
    if not constant_time_equal(shown, pairing.fingerprint):
        tls.close()
        raise OpenError(
            f"{host} shows another certificate than the one it was paired with: another machine has paired with it, "
            f"or it is another board; find out which before trilemma pair [user@]{host}",
            final=True,
        )
    _prove(tls, pairing.token, shown, host)
    inner, ours = socket.socketpair()
    threading.Thread(target=Pump(tls, inner).run, name="tls", daemon=True).start()
    return SocketTransport(ours)


def open_tcp(host: str, port: int) -> SocketTransport:
    """Open a link to an agent on the loopback, with the token in its file.

    Raises
    ------
    OpenError
        One sentence.
    """
    file = loopback_token_file()
    if not file.exists():
        words = "no agent of yours has served at a port of this machine: expected trilemma agent serve --bind 127.0.0.1"
        raise OpenError(f"{words}, which makes {file}", final=True)
    try:
        token = read_private(file).strip()
    except SecurityError as error:
        raise OpenError(str(error), final=True) from None
    connection = _connect(host, port)
    _prove(connection, token, "", f"{host}:{port}")
    return SocketTransport(connection)


def open_unix(path: Path) -> SocketTransport:
    """Open a link to an agent at a Unix socket.

    Raises
    ------
    OpenError
        One sentence.
    """
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise OpenError(f"unix:{path}: this system has no Unix sockets: expected tcp://localhost:PORT", final=True)
    connection = socket.socket(family)
    connection.settimeout(GREET_S)  # its queue may be full
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise OpenError(f"no agent serves at {path}: {(error.strerror or str(error)).lower()}") from None
    _prove(connection, "", "", str(path))
    return SocketTransport(connection)


def _paired(host: str) -> Pairing:
    try:
        return load_pairing(host)
    except SecurityError as error:
        raise OpenError(str(error), final=True) from None


def _connect(host: str, port: int) -> socket.socket:
    try:
        connection = socket.create_connection((host, port), GREET_S)
    except socket.gaierror:
        raise OpenError(f"there is no host {host}: its name cannot be resolved") from None
    except TimeoutError:
        raise OpenError(f"{host}:{port} does not answer: is it switched on and on this network") from None
    except OSError as error:
        words = (error.strerror or str(error)).lower()
        raise OpenError(f"{host}:{port} cannot be reached: {words}; is trilemma agent serve running there") from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _prove(connection: socket.socket, token: str, certificate: str, name: str) -> None:
    """Prove that we have the token, and have the agent prove it.

    Raises
    ------
    OpenError
        If either fails; the connection is closed.
    """
    deadline_s = time.monotonic() + GREET_S
    try:
        challenge = _expect(connection, "challenge", name, deadline_s)
        nonce = new_nonce()
        ours = proof(token, "client", challenge["nonce"], nonce, certificate)
        connection.sendall(encode_control({"op": "answer", "nonce": nonce, "proof": ours, "control": True}, 0))
        theirs = proof(token, "agent", challenge["nonce"], nonce, certificate)
        if not constant_time_equal(_expect(connection, "welcome", name, deadline_s)["proof"], theirs):
            raise OpenError(f"{name} does not know the token: it is not the agent that it should be", final=True)
        connection.settimeout(None)
    except (OSError, ProtocolError) as error:
        connection.close()
        if isinstance(error, OpenError):
            raise
        raise OpenError(f"{name} does not answer as an agent does: {error}") from None


def _expect(connection: socket.socket, op: str, name: str, deadline_s: float) -> dict[str, str]:
    """Return the next message, which must be of an operation. It is read byte for byte: what follows is the session's.

    Raises
    ------
    OpenError
        If the agent refuses, or closes.
    TimeoutError
        If it is not whole at the deadline, however its bytes trickle in.
    """
    decoder = Decoder()
    while data := _recv_byte(connection, deadline_s):
        for frame in decoder.feed(data):
            message = decode_control(frame.body)
            if message["op"] == "refused":
                reason = printable(str(message["reason"]))
                raise OpenError(f"{name} refused: {reason}", final="too many" not in reason)
            if message["op"] == op:
                return message
            raise ProtocolError(f"it said {message['op']}, expected {op}")
    raise OpenError(f"{name} {CLOSED}")


def _recv_byte(connection: socket.socket, deadline_s: float) -> bytes:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    connection.settimeout(left_s)
    return connection.recv(1)
