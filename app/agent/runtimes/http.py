"""Requests to a server on the board: JSON out, JSON or lines in, cancelled and timed out by closing the socket."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from typing import Any, Dict, Iterator, Mapping, Optional
from urllib.parse import urlsplit

from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.outcome import Cancelled, Failed, Run, Silent, now_s

CONNECT_S = 5.0
POLL_S = 0.1
MAX_LINE_BYTE = 1 << 20
MAX_BODY_BYTE = 16 << 20


class Exchange:
    """One request and its answer; use in a ``with`` statement.

    Attributes
    ----------
    status
        HTTP status.
    start_s, sent_s
        When it began and when the request had left.
    stall_s
        Longest time that this program did not get to run meanwhile: no time stamp is better than that.

    Raises
    ------
    Failed
        Nothing answers there.
    """

    def __init__(self, entry: RuntimeEntry, run: Run, path: str, message: Optional[Mapping[str, Any]] = None) -> None:
        self._entry, self._run = entry, run
        self._over = threading.Event()
        self._given_up = False
        self.stall_s = 0.0
        self._response: Optional[http.client.HTTPResponse] = None
        parts = urlsplit(entry.url)
        make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = make(parts.hostname or "", parts.port, timeout=CONNECT_S)
        body = None if message is None else json.dumps(message).encode("ascii")
        headers = {"Content-Type": "application/json", **_headers(entry)}
        self.start_s = now_s()
        try:
            self._connection.connect()
            sock = self._connection.sock
            sock.settimeout(entry.timeout_s)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._watch, args=(sock,), name="runtime watch", daemon=True).start()
            self._connection.request("GET" if body is None else "POST", parts.path.rstrip("/") + path, body, headers)
            self.sent_s = now_s()
            self._response = self._connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._failure(error) from None
        self.status = self._response.status

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up: a server ends what it generates for us."""
        self._over.set()
        if self._response is not None:
            self._response.close()  # it may hold the socket, where the connection does not any more
        self._connection.close()

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the answer as they arrive."""
        response = self._response
        assert response is not None
        while True:
            try:
                line = response.readline(MAX_LINE_BYTE + 1)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._failure(error) from None
            if self._given_up:
                raise Cancelled
            if not line:
                return
            if len(line) > MAX_LINE_BYTE:
                raise Failed(f"{self._entry.where} sent a line of more than {MAX_LINE_BYTE} bytes")
            yield line

    def json(self) -> Any:
        """Return the answer, which must be JSON."""
        try:
            assert self._response is not None
            data = self._response.read(MAX_BODY_BYTE)
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(error) from None
        return parse_json(data, self._entry)

    def check(self) -> None:
        """Raise `Failed` with the server's own words unless the status is 200."""
        if self.status == 200:
            return
        if self.status in (401, 403):
            raise Failed(f"{self._entry.where} asks for an API key: name the file that holds it as key_file")
        words = f"with HTTP status {self.status}"
        with contextlib.suppress(Failed):
            words = f"({self.status}): {_words(self.json())}"
        raise Failed(f"{self._entry.where} refused the request {words}")

    def _watch(self, sock: socket.socket) -> None:
        last_s = now_s()
        while not self._over.wait(POLL_S):
            last_s, before_s = now_s(), last_s
            self.stall_s = max(self.stall_s, last_s - before_s - POLL_S)
            if self._run.cancelled():
                self._given_up = True
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                return

    def _failure(self, error: BaseException) -> Exception:
        if self._given_up or self._run.cancelled():
            return Cancelled()
        if isinstance(error, socket.timeout):
            return Silent(f"{self._entry.where} was silent for {self._entry.timeout_s:g} s")
        if isinstance(error, ConnectionRefusedError):
            return Failed(f"nothing listens at {self._entry.url}: start {self._entry.kind}, or correct its url")
        words = getattr(error, "strerror", None) or type(error).__name__
        return Failed(f"{self._entry.where} broke the connection: {words}")


def call(entry: RuntimeEntry, run: Run, path: str, message: Optional[Mapping[str, Any]] = None) -> Any:
    """Return the JSON answer of one request that must succeed."""
    with Exchange(entry, run, path, message) as exchange:
        exchange.check()
        return exchange.json()


def parse_json(data: bytes, entry: RuntimeEntry) -> Dict[str, Any]:
    """Return the JSON object in `data`, or raise `Failed`."""
    try:
        parsed = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise Failed(f"{entry.where} answered with something that is not a JSON object: {data[:40]!r}")
    return parsed


def sse_data(line: bytes) -> Optional[bytes]:
    """Return the payload of a ``data:`` line of a server-sent event stream; None for other lines and ``[DONE]``."""
    if not line.startswith(b"data:"):
        return None
    payload = line[5:].strip()
    return None if payload in (b"", b"[DONE]") else payload


def _headers(entry: RuntimeEntry) -> Dict[str, str]:
    try:
        return entry.headers()
    except (OSError, UnicodeDecodeError) as error:
        words = getattr(error, "strerror", None) or "it is not text"
        raise Failed(f"the API key cannot be read: {entry.key_file}: {words}") from None


def _words(answer: Mapping[str, Any]) -> str:
    error = answer.get("error", answer)
    text = error.get("message", error) if isinstance(error, dict) else error
    return f"{text!s:.200}".replace("\n", " ")
