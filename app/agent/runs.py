"""Measured runs: which request is next, and the worker process that carries it out.

The worker loads torch and may be killed by the kernel when memory runs out; the agent and its sensors live on, and the
next request starts a fresh worker.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections import deque
from typing import Any, Callable, Mapping, Sequence

from app.agent.runtimes.drivers import Drivers
from app.agent.runtimes.entry import RuntimeEntry
from app.protocol import CONTROL, MAX_QUEUED, WHAT, Decoder, ProtocolError, decode_control, encode_control

PATIENCE_S = 10.0  # a worker that does not answer a cancellation by then is killed
_ALLOCATOR_BYTE = str(4 << 30)

Message = Mapping[str, Any]


def worker_environment(n_threads: int) -> dict[str, str]:
    """Return the worker's environment.

    The allocator keeps large buffers instead of returning them to the kernel (each fresh output would page-fault at
    every call), huge pages are asked for, and one thread runs on each big core: more of them wait for each other.
    """
    ours = {
        "MALLOC_MMAP_THRESHOLD_": _ALLOCATOR_BYTE,
        "MALLOC_TRIM_THRESHOLD_": _ALLOCATOR_BYTE,
        "THP_MEM_ALLOC_ENABLE": "1",
        "OMP_NUM_THREADS": str(n_threads),
    }
    return {**ours, **os.environ}  # what the user has set wins


class Worker:
    """One worker process: `send` writes to it; its reader thread calls `on_message` and, once at the end, `on_end`."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        on_message: Callable[[Message], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._on_message = on_message
        self._on_end = on_end
        self._n_sent = 0
        threading.Thread(target=self._read, name="worker reader", daemon=True).start()

    def send(self, message: Message) -> None:
        """Write a message; when the worker is gone, its end is reported by the reader."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode_control(message, self._n_sent))
            self._process.stdin.flush()
        except (OSError, ValueError):
            return
        self._n_sent += 1

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def _read(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        decoder = Decoder()
        reason = ""
        try:
            while not reason:
                data = os.read(self._process.stdout.fileno(), 65536)
                if not data:
                    break
                for frame in decoder.feed(data):
                    if frame.kind == CONTROL:
                        self._on_message(decode_control(frame.body))
        except ProtocolError as error:
            reason = f"the measuring process broke the protocol: {error}"
            self.kill()
        status = self._process.wait()
        self._process.stdout.close()
        with contextlib.suppress(OSError):  # what it did not take any more
            self._process.stdin.close()
        self._on_end(reason or _death(status))


def _death(status: int) -> str:
    if status == -9:
        return (
            "the measuring process was killed (signal 9), as the kernel does when memory runs out: "
            "try a shorter context or a smaller format"
        )
    ended = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"the measuring process {ended}; see the agent log"


class Runs:
    """Accepts requests, runs one at a time in the worker, and answers each exactly once.

    Parameters
    ----------
    argv, env
        How to start the worker.
    send
        Takes the answers; called from several threads.
    complete
        Adds to the result of a measured point what only the agent knows (power).
    unavailable
        Why nothing can be measured here; "" when it can.
    idled
        Told the start and end of each pause in which nothing ran, in seconds of ``time.monotonic``.
    begun
        Called when a run begins.
    rest_s
        How long the board rests before its first run.
    runtimes, n_threads
        Other runtimes of this board, and the threads their commands are given.
    """

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        send: Callable[[Message], None],
        complete: Callable[[dict[str, Any]], dict[str, Any]],
        unavailable: str = "",
        *,
        idled: Callable[[float, float], None] = lambda start_s, end_s: None,
        begun: Callable[[], None] = lambda: None,
        rest_s: float = 0.0,
        runtimes: Sequence[RuntimeEntry] = (),
        n_threads: int = 1,
    ) -> None:
        self._drivers = Drivers(runtimes, self._on_message, n_threads)
        self._idled, self._begun = idled, begun
        self._idle_since_s: float | None = time.monotonic()
        self._rested_s = self._idle_since_s + rest_s
        self._argv = argv
        self._env = env
        self._send = send
        self._complete = complete
        self._unavailable = unavailable
        self._lock = threading.RLock()
        self._waiting: deque[Message] = deque()
        self._running: Message | None = None
        self._answered = False  # the running request has had its answer, the worker is finishing
        self._worker: Worker | None = None
        self._patience: threading.Timer | None = None
        self._closed = False

    def submit(self, request: Message) -> None:
        """Take a "measure" or "bandwidth" request."""
        with self._lock:
            reason = _why_not(request) or self._why_not_here(request)
            if not reason and _queued(request) and len(self._waiting) >= MAX_QUEUED:
                reason = f"{MAX_QUEUED} requests are waiting already"
            if reason:
                self._fail(request, "failed", reason)
                return
            if _queued(request):
                self._waiting.append(request)
            else:
                self._supersede()
                self._waiting.appendleft(request)
            self._next()

    def cancel(self, request_id: int) -> None:
        """End a request; one that is not known has ended already."""
        with self._lock:
            for request in [r for r in self._waiting if r["id"] == request_id]:
                self._waiting.remove(request)
                self._fail(request, "cancelled", "cancelled before it began")
            if self._running is not None and self._running["id"] == request_id:
                self._stop_running("cancelled", "cancelled")

    def close(self) -> None:
        """End the worker; nothing is answered any more."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            self._drivers.kill()
            if self._worker is not None:
                self._worker.kill()

    def _why_not_here(self, request: Message) -> str:
        return self._drivers.why_not(request["point"]) if _driven(request) else self._unavailable

    def _supersede(self) -> None:
        reason = "a newer request took its place"
        for request in [r for r in self._waiting if not _queued(r)]:
            self._waiting.remove(request)
            self._fail(request, "superseded", reason)
        if self._running is not None and not _queued(self._running):
            self._stop_running("superseded", reason)
        elif self._running is not None and self._running["op"] == "measure" and not self._answered:
            self._waiting.appendleft(self._running)  # it begins anew after the newer one
            self._answered = True  # what comes of this attempt is no answer
            self._cancel_running(self._running)

    def _stop_running(self, kind: str, reason: str) -> None:
        if self._running is None or self._answered:
            return
        self._answered = True
        self._fail(self._running, kind, reason)
        self._cancel_running(self._running)

    def _cancel_running(self, request: Message) -> None:
        worker = self._worker
        if _driven(request):
            self._drivers.send({"op": "cancel", "id": request["id"]})
            return
        assert worker is not None  # it carries the request out
        worker.send({"op": "cancel", "id": request["id"]})
        self._patience = threading.Timer(PATIENCE_S, self._kill_if_still_running, (request, worker))
        self._patience.daemon = True
        self._patience.start()

    def _kill_if_still_running(self, request: Message, worker: Worker) -> None:
        with self._lock:
            if self._running is request and self._worker is worker:
                worker.kill()

    def _next(self) -> None:
        if self._running is not None or not self._waiting or self._closed:
            return
        now_s = time.monotonic()
        if now_s < self._rested_s:
            wait = threading.Timer(self._rested_s - now_s, self._next_after_rest)
            wait.daemon = True
            wait.start()
            return
        if self._idle_since_s is not None:
            self._idled(self._idle_since_s, now_s)
            self._idle_since_s = None
        request = self._waiting.popleft()
        try:
            executor = self._drivers if _driven(request) else self._ready_worker()
        except OSError as error:
            self._fail(request, "failed", f"the measuring process cannot start: {error.strerror}")
            self._next()
            return
        self._running = request
        self._answered = False
        self._begun()
        executor.send(request)

    def _ready_worker(self) -> Worker:
        if self._worker is None:
            self._worker = Worker(self._argv, self._env, self._on_message, self._on_end)
        return self._worker

    def _next_after_rest(self) -> None:
        with self._lock:
            self._next()

    def _on_message(self, message: Message) -> None:
        op = message["op"]
        if op == "log":
            self._send(message)
        if op not in ("progress", "result", "failed"):
            return
        if op == "result" and "decode_s" in message["body"]:
            message = {**message, "body": self._complete(message["body"])}  # may wait for a sensor: without the lock
        with self._lock:
            if self._running is None or message["id"] != self._running["id"]:
                return
            if op == "result" and any(request is self._running for request in self._waiting):
                self._waiting.remove(self._running)  # it was to begin anew, and was quicker than that
                self._answered = False
            if not self._answered:
                self._send(message)
            if op != "progress":
                self._finish_running()
                self._next()

    def _on_end(self, reason: str) -> None:
        with self._lock:
            self._worker = None
            request = self._running
            self._finish_running()
            if request is not None and not self._answered and not self._closed:
                self._fail(request, "failed", reason)
            self._next()

    def _finish_running(self) -> None:
        self._running = None
        if self._idle_since_s is None:
            self._idle_since_s = time.monotonic()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _fail(self, request: Message, kind: str, reason: str) -> None:
        self._send({"op": "failed", "id": request["id"], "kind": kind, "reason": reason})


def _queued(request: Message) -> bool:
    return request["op"] == "bandwidth" or bool(request.get("queue"))


def _driven(request: Message) -> bool:
    """Return True if a request names a runtime other than Trilemma's own decoder."""
    return request["op"] == "measure" and bool(request["point"].get("runtime", "builtin") != "builtin")


def _why_not(request: Message) -> str:
    """Return the fault of a request in a sentence, or ""; the worker checks the point itself."""
    what = request.get("what", ["decode"])
    if not what or any(name not in WHAT for name in what):
        return f"what: got {what!r:.60}, expected some of {', '.join(WHAT)}"
    if "texts" in what and (len(what) > 1 or not _driven(request)):
        return "texts: expected alone, of another runtime than Trilemma's own decoder"
    return ""
