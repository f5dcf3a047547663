"""Requests to a server on the board: JSON out, JSON or lines in, cancelled and timed out by closing the socket."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import math
import os
import socket
import ssl
import threading
import time
from typing import Any, Dict, Iterator, Mapping, Optional
from urllib.parse import urlsplit

from app.agent.runtimes.entry import RuntimeEntry
from app.agent.runtimes.outcome import Cancelled, Failed, Refused, Run, Silent, Unreadable, now_s, one_line

CONNECT_S = 5.0
BUSY = (429, 503)  # a server that wants to be asked again
BUSY_PAUSE_S = 1.0  # where it does not say when; twice as long each time
MAX_WORDS = 300
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
        self._connection = _connection(entry)
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
        """Yield the lines of the answer as they arrive; comments, which keep a connection alive, end no silence."""
        response, heard_s = self._response, now_s()
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
            if line.strip() and not line.startswith(b":"):
                heard_s = now_s()
            elif now_s() - heard_s > self._entry.timeout_s:
                raise Silent(f"{self._entry.where} sent nothing but comments for {self._entry.timeout_s:g} s")
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
        """Raise `Refused` with the server's own words unless the status is 200, `Failed` where the key is at fault."""
        if self.status == 200:
            return
        where, source = self._entry.where, self._entry.key_source
        if self.status in (401, 403) and source:
            raise Failed(f"{where} refused the API key of {source} ({self.status})")
        if self.status in (401, 403):
            raise Failed(f"{where} asks for an API key: name its file as key_file, or its variable as key_env")
        if 300 <= self.status < 400:
            raise Failed(f"{where} points to {one_line(self.header('Location'))}: give that place as its url")
        words = self._words()
        how = f"({self.status}): {words}" if words else f"with HTTP status {self.status}"
        raise Refused(f"{where} refused the request {how}", self.status, words)

    def header(self, name: str) -> str:
        """Return a header of the answer, "" where it has none of that name."""
        assert self._response is not None
        return self._response.getheader(name) or ""

    def retry_after_s(self) -> float:
        """Return for how long the server wants to be left alone, NaN where it does not say."""
        text = self.header("Retry-After").strip()
        with contextlib.suppress(ValueError):
            return max(float(text), 0.0)
        with contextlib.suppress(TypeError, ValueError, IndexError, OverflowError):
            return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
        return math.nan

    def _words(self) -> str:
        """Return what the server says of a refusal, "" where it says nothing or a page for people."""
        try:
            assert self._response is not None
            text = self._response.read(MAX_BODY_BYTE).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as error:
            raise self._failure(error) from None
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            return "" if text.lstrip().startswith("<") else without_secrets(text, self._entry)
        return without_secrets(error_of(parsed), self._entry)

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
            server = "the server" if self._entry.kind == "openai" else self._entry.kind
            return Failed(f"nothing listens at {self._entry.address}: start {server}, or correct its url")
        if isinstance(error, socket.gaierror):
            return Failed(f"{self._entry.address} names no machine that this board can find: correct its url")
        if isinstance(error, ssl.SSLCertVerificationError):
            why = one_line(error.verify_message)
            return Failed(f"the certificate of {self._entry.where} is not trusted ({why}): name its CA's as ca_file")
        if isinstance(error, ssl.SSLError):
            return Failed(
                f"{self._entry.where} does not speak TLS ({one_line(error.reason)}): is its url one of http://?"
            )
        words = getattr(error, "strerror", None) or type(error).__name__
        return Failed(f"{self._entry.where} broke the connection: {words}")


def answered(entry: RuntimeEntry, run: Run, path: str, message: Optional[Mapping[str, Any]] = None) -> Exchange:
    """Return one request and its answer; a server that is busy is asked again until the entry's time-out."""
    end_s, pause_s = now_s() + entry.timeout_s, BUSY_PAUSE_S
    while True:
        exchange = Exchange(entry, run, path, message)
        if exchange.status not in BUSY:
            return exchange
        asked_s = exchange.retry_after_s()
        wait_s = pause_s if math.isnan(asked_s) else asked_s
        if now_s() + wait_s > end_s:
            return exchange
        exchange.close()
        run.progress(0.0, f"{entry.kind} is busy: it is asked again in {wait_s:.0f} s")
        _wait(run, wait_s)
        pause_s *= 2


def _wait(run: Run, wait_s: float) -> None:
    end_s = now_s() + wait_s
    while now_s() < end_s:
        run.check()
        time.sleep(min(POLL_S, max(end_s - now_s(), 0.0)))


def call(entry: RuntimeEntry, run: Run, path: str, message: Optional[Mapping[str, Any]] = None) -> Any:
    """Return the JSON answer of one request that must succeed."""
    with answered(entry, run, path, message) as exchange:
        exchange.check()
        return exchange.json()


def parse_json(data: bytes, entry: RuntimeEntry) -> Dict[str, Any]:
    """Return the JSON object in `data`, or raise `Unreadable`."""
    try:
        parsed = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise Unreadable(f"{entry.where} answered with something that is not a JSON object: {data[:40]!r}")
    return parsed


def sse_data(line: bytes) -> Optional[bytes]:
    """Return the payload of a ``data:`` line of a server-sent event stream; None for other lines and ``[DONE]``."""
    payload = _payload(line)
    return None if payload in (b"", b"[DONE]") else payload


def sse_ended(line: bytes) -> bool:
    """Tell whether a line is the last of a stream."""
    return _payload(line) == b"[DONE]"


def _payload(line: bytes) -> bytes:
    line = line[3:] if line.startswith(b"\xef\xbb\xbf") else line
    return line[5:].strip() if line.startswith(b"data:") else b""


def error_of(answer: Any) -> Any:
    """Return what is an error in an answer, however the server puts it; None where there is none."""
    if not isinstance(answer, dict):
        return answer
    error = answer.get("error") or answer.get("detail")
    if error is None and (answer.get("object") == "error" or answer.get("message")):
        error = answer.get("message")
    return error.get("message", error) if isinstance(error, dict) else error


def without_secrets(said: object, entry: RuntimeEntry) -> str:
    """Return the words of a server on one line, without the secrets that it may repeat."""
    text = "" if said is None else str(said)
    for secret in entry.secrets():
        text = text.replace(secret, "***")
    return one_line(text, MAX_WORDS)


def _connection(entry: RuntimeEntry) -> http.client.HTTPConnection:
    parts = urlsplit(entry.url)
    if parts.scheme != "https":
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=CONNECT_S)
    path = os.path.expanduser(entry.ca_file) if entry.ca_file else None
    if path and os.path.exists(path) and not os.path.isfile(path):  # it would be read without an end
        raise Failed(f"the CA's certificate cannot be read: {entry.ca_file}: it is not a file")
    try:
        context = ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise Failed(f"the CA's certificate cannot be read: {entry.ca_file}: it is not PEM") from None
    except OSError as error:
        raise Failed(f"the CA's certificate cannot be read: {entry.ca_file}: {error.strerror}") from None
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=CONNECT_S, context=context)


def _headers(entry: RuntimeEntry) -> Dict[str, str]:
    try:
        return entry.headers()
    except ValueError as error:
        raise Failed(f"the API key cannot be read: {error}") from None
