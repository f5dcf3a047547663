"""``agent serve``: the agent behind a socket, for boards that run it permanently.

A Unix socket that only its owner can open, by default; where there is none, the loopback and a token. Beyond the
loopback only with TLS and a token, which ``trilemma pair`` puts here. A client proves the token before it receives
anything else, and is locked out for a while after five wrong ones. One client controls the board, others watch.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import select
import socket
import ssl
import sys
import threading
import time
from typing import Any, Dict, Optional, Tuple

from app.agent.main import Agent
from app.agent.serving.auth_limits import Locks, Place, Places
from app.agent.serving.listen import (
    is_loopback,
    listen,
    listen_unix,
    loopback_token,
    paired_secrets,
    shown,
    socket_path,
    split_address,
)
from app.agent.signals import when_told_to_end
from app.protocol import MAGIC, Decoder, ProtocolError, decode_control, encode_control
from app.secure import (
    PORT,
    Pump,
    constant_time_equal,
    new_nonce,
    proof,
)

GREET_S = 5.0  # for a client to prove itself
MAX_GREETING_BYTE = 4096
MAX_CLIENTS = 16  # at once, attached
BUSY_S = 0.5  # rest where the system can accept no more
LEAVE_S, LEAVE_STEP_S = 30.0, 0.02  # for a client that has hung up to be gone, with its run, sensors and tools
HUNG_UP = getattr(select, "POLLRDHUP", 0) | getattr(select, "POLLHUP", 0)
WATCHING = "another program controls this board: this one may only watch"
LOCKED = "what stays on this board is read-only: its agent serves without --allow-control"


class Server:
    """Accepts clients and runs an agent for each.

    Parameters
    ----------
    listener
        The listening socket.
    token
        What clients must prove; "" where only its owner can open the socket.
    context, certificate
        For TLS, and the fingerprint of the certificate that it shows; None and "" without.
    locked
        Why clients may not change what stays on the board; "" where the one in control may.
    """

    def __init__(
        self,
        listener: socket.socket,
        token: str,
        context: Optional[ssl.SSLContext] = None,
        certificate: str = "",
        locked: str = LOCKED,
    ) -> None:
        self._locked = locked
        self._listener = listener
        self._token = token
        self._context = context
        self._certificate = certificate
        self._locks = Locks()
        self._controller = threading.Lock()
        self._in_control: Optional[socket.socket] = None  # the client that had it last
        self._collecting = threading.Lock()
        self._places = Places()
        self._clients = threading.Semaphore(MAX_CLIENTS)

    def run(self) -> None:
        """Serve until the listening socket is closed."""
        while True:
            try:
                client, peer = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                time.sleep(BUSY_S)  # a client that left while it waited, or no descriptor free
                continue
            address = peer[0] if isinstance(peer, tuple) else ""
            place = self._places.enter(client, address)
            if place is None:
                client.close()
                continue
            try:
                threading.Thread(target=self._serve, args=(client, place), name="client", daemon=True).start()
            except RuntimeError:  # the system has no thread more
                self._places.leave(place)
                client.close()

    def _serve(self, client: socket.socket, place: Place) -> None:
        control: Optional[bool] = None
        with contextlib.ExitStack() as open_:
            open_.enter_context(contextlib.suppress(OSError, ProtocolError))  # ssl.SSLError is an OSError
            open_.enter_context(client)
            try:
                client.settimeout(GREET_S)
                if self._context is not None:
                    tls = self._context.wrap_socket(client, server_side=True, do_handshake_on_connect=False)
                    client = place.connection = open_.enter_context(tls)
                    tls.do_handshake()
                control = self._greet(client, place.address)
            finally:
                self._places.leave(place)
            if control is not None:
                try:
                    self._attend(client, control)
                finally:
                    self._clients.release()
                    with self._collecting:  # while one collects, another would not
                        gc.collect()  # an agent's parts hold each other, and the descriptors of its sensors

    def _greet(self, client: socket.socket, address: str) -> Optional[bool]:
        """Let a client prove itself and take a place; return whether it wants control, None when it is turned away."""
        locked_s = self._locks.locked_s(address)
        if locked_s > 0:
            _refuse(client, f"too many wrong tokens from {address}: locked for {locked_s:.0f} s more")
            return None
        nonce = new_nonce()
        client.sendall(encode_control({"op": "challenge", "nonce": nonce}, 0))
        answer = _read_answer(client)
        wanted = proof(self._token, "client", nonce, answer["nonce"], self._certificate)
        if not constant_time_equal(answer["proof"], wanted):
            self._locks.failed(address)
            _refuse(client, "the token is not that of this board")
            return None
        self._locks.proved(address)
        self._places.proved(address)
        if not self._clients.acquire(blocking=False):
            _refuse(client, f"too many clients: {MAX_CLIENTS} are attached already")
            return None
        ours = proof(self._token, "agent", nonce, answer["nonce"], self._certificate)
        try:
            client.sendall(encode_control({"op": "welcome", "proof": ours}, 1))
        except OSError:
            self._clients.release()
            raise
        return bool(answer["control"])

    def _take_control(self, client: socket.socket) -> bool:
        """Take control of the board; wait for that of a client that has hung up, whose run takes a moment to end."""
        deadline_s = time.monotonic() + LEAVE_S
        while not self._controller.acquire(blocking=False):
            if not _has_left(self._in_control) or time.monotonic() > deadline_s:
                return False
            time.sleep(LEAVE_STEP_S)
        self._in_control = client
        return True

    def _attend(self, client: socket.socket, control: bool) -> None:
        """Run an agent for a client until either leaves."""
        controls = control and self._take_control(client)
        try:
            client.settimeout(None)
            plain = client
            if isinstance(client, ssl.SSLSocket):
                plain, inner = socket.socketpair()
                threading.Thread(target=Pump(client, inner).run, name="tls", daemon=True).start()
            with plain:

                def hang_up() -> None:
                    with contextlib.suppress(OSError):
                        plain.shutdown(socket.SHUT_RDWR)

                fd = plain.fileno()
                read_only = "" if controls else WATCHING
                Agent(fd, fd, hang_up=hang_up, read_only=read_only, locked=self._locked, strict=True).serve()
                hang_up()
        finally:
            if controls:
                self._controller.release()


def _has_left(client: Optional[socket.socket]) -> bool:
    """Return True if a client has hung up, even while its agent still reads its last message."""
    if client is None:
        return True
    try:
        poll = select.poll()
        poll.register(client, HUNG_UP)
        return bool(poll.poll(0))
    except (OSError, ValueError):  # closed already
        return True


def _read_answer(client: socket.socket) -> Dict[str, Any]:
    """Return the client's answer to the challenge.

    Raises
    ------
    ProtocolError
        If what comes is anything else, at its first byte that cannot be ours: so to a web page nothing is said.
    """
    decoder, received = Decoder(), b""
    deadline_s = time.monotonic() + GREET_S
    while len(received) < MAX_GREETING_BYTE and (left_s := deadline_s - time.monotonic()) > 0:
        client.settimeout(left_s)
        data = client.recv(MAX_GREETING_BYTE)
        received += data
        if not data or not received.startswith(MAGIC[: len(received)]):
            break
        for frame in decoder.feed(data):
            message = decode_control(frame.body)
            if message["op"] != "answer":
                raise ProtocolError(f"a client began with {message['op']}")
            return message
        if decoder.n_skipped_byte:
            break
    raise ProtocolError("a client did not answer the challenge")


def _refuse(client: socket.socket, reason: str) -> None:
    client.sendall(encode_control({"op": "refused", "reason": reason}, 0))


# --- the command ------------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where to serve."""
    parser.add_argument(
        "--bind",
        metavar="HOST:PORT",
        help=f"serve at this address (port {PORT}), in place of a Unix socket; beyond the loopback it takes a pairing",
    )
    parser.add_argument(
        "--allow-control", action="store_true", help="let the client in control change what stays: the live parameters"
    )
    parser.add_argument(
        "--metrics-port",
        metavar="PORT",
        help="serve OpenMetrics text too, at http://127.0.0.1:PORT/metrics; HOST:PORT opens it to others, as it is",
    )


def run(bind: Optional[str], metrics_port: Optional[str] = None, *, allow_control: bool = False) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit status.

    Raises
    ------
    SecurityError, OSError, ValueError
        If it must not or cannot serve there; one sentence.
    """
    listener, server, where = open_server(bind, "" if allow_control else LOCKED)
    when_told_to_end(lambda: os._exit(_cleared(listener)))
    print(f"trilemma agent: serving at {where}", file=sys.stderr, flush=True)
    if metrics_port is not None:
        from app.agent.serving.metrics_server import serve_metrics

        host, port = serve_metrics(metrics_port)[0].server_address[:2]
        print(f"trilemma agent: metrics at http://{host!s}:{port}/metrics", file=sys.stderr, flush=True)
    server.run()
    return 0


def _cleared(listener: socket.socket) -> int:
    if listener.family == getattr(socket, "AF_UNIX", None):
        with contextlib.suppress(OSError):
            os.unlink(listener.getsockname())
    return 0


def open_server(bind: Optional[str], locked: str = LOCKED) -> Tuple[socket.socket, Server, str]:
    """Return the listening socket, its server, and the target that reaches it.

    Raises
    ------
    SecurityError, OSError, ValueError
        As `run`.
    """
    if bind is None and hasattr(socket, "AF_UNIX"):
        listener, where = listen_unix(socket_path())
        return listener, Server(listener, "", locked=locked), where
    host, port = split_address(bind or "127.0.0.1")
    if is_loopback(host):
        token = loopback_token()
        listener = listen(host, port)
        return listener, Server(listener, token, locked=locked), f"tcp://{shown(listener)}"
    context, certificate, token = paired_secrets()
    listener = listen(host, port)
    return listener, Server(listener, token, context, certificate, locked), f"tls://{shown(listener)}"
