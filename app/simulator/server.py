"""The simulated board behind the protocol: its clock, its samples, and requests one after the other.

One thread answers pings at once; the other, every 20 ms, lets the board's time pass, sends the samples that are due and
moves the run on.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from app import VERSION as AGENT_VERSION
from app.agent.parameters import Parameters
from app.protocol import (
    CONTROL,
    MAX_QUEUED,
    MINOR,
    RATE_RANGE_HZ,
    SAMPLES,
    VERSION,
    Decoder,
    ProtocolError,
    decode_control,
    encode_control,
    encode_frame,
    record_struct,
)
from app.simulator.board import SimulatedBoard
from app.simulator.heat import STEP_S
from app.simulator.runs import Run, bandwidth, measure
from app.simulator.slots import MemorySlots

TICK_S = 0.02
MOST_STEPS = 2000  # of the board's time in one tick; it falls behind rather than stand still

Message = Mapping[str, Any]


class Server:
    """Serves a simulated board over a pair of descriptors.

    Parameters
    ----------
    read_fd, write_fd
        The client's end of the link.
    board : SimulatedBoard
    accelerate : float
        How much faster its time passes than ours: runs, heat and battery; samples keep our time.
    """

    def __init__(self, read_fd: int, write_fd: int, board: SimulatedBoard, accelerate: float = 1.0) -> None:
        self._read_fd, self._write_fd = read_fd, write_fd
        self._board, self._accelerate = board, accelerate
        self._incoming: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._n_sent = self._n_records = self._n_requests = 0
        self._rate_hz = 10.0
        self._record = record_struct(len(board.channels()))
        self._requests = _Requests()
        self._parameters = Parameters(MemorySlots())
        self._run: Run | None = None

    def serve(self) -> None:
        """Say hello and serve until the input ends or the board switches off."""
        self._send(self._hello())
        self._catalogue()
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        self._passed_s = self._sampled_s = began_s = time.monotonic()
        tick = 0
        while self._open() and not self._board.off:
            tick += 1
            self._pass_time(time.monotonic())
            self._sample(time.monotonic())
            time.sleep(max(0.0, began_s + tick * TICK_S - time.monotonic()))
        if self._board.off:
            self._send({"op": "log", "level": "error", "text": self._board.off})

    # ---- what is said

    def _send(self, message: Message) -> None:
        with self._lock:
            self._write(encode_control(message, self._n_sent))
            self._n_sent += 1

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._write_fd, view) :]
        except OSError:
            os._exit(0)  # the reader of our output left

    def _hello(self) -> Message:
        faster = "" if self._accelerate == 1 else f", its time passes {self._accelerate:g} times as fast"
        facts = self._board.facts()
        return {
            "op": "hello",
            "protocol": VERSION,
            "minor": MINOR,
            "agent": AGENT_VERSION,
            "t_ns": time.monotonic_ns(),
            "simulated": True,
            "board": {**facts, "name": f"{facts['name']} (simulated{faster})"},
            "state": {"power_mode": self._board.power_mode_state()},
            "can": {"measure": True, "bandwidth": True, "torch": "none"},
            "models": [{"file": "any model of the catalogue", "byte": 0}],
            "runtimes": [],
        }

    def _catalogue(self) -> None:
        self._send({"op": "catalogue", "channels": self._board.channels(), "rate_hz": self._rate_hz})

    def _sample(self, now_s: float) -> None:
        """Send the records that are due, as many as fit a frame."""
        period_s = 1 / self._rate_hz
        n = int((now_s - self._sampled_s) / period_s)
        if n < 1:
            return
        first_s = max(self._sampled_s, now_s - 1.0)
        times = [first_s + (i + 1) * period_s for i in range(int((now_s - first_s) / period_s + 1e-9))]
        if times:
            body = b"".join(self._record.pack(round(t * 1e9), *self._board.read()) for t in times)
            with self._lock:
                self._write(encode_frame(SAMPLES, self._n_records, body))
            self._n_records += len(times)
            self._sampled_s = times[-1]

    # ---- what is asked

    def _read(self) -> None:
        decoder = Decoder()
        try:
            while data := os.read(self._read_fd, 65536):
                t2_ns = time.monotonic_ns()
                for frame in decoder.feed(data):
                    if frame.kind == CONTROL:
                        self._take(frame.body, t2_ns)
        except (ProtocolError, OSError) as error:
            print(f"trilemma simulate-board: {error}", file=sys.stderr)
        self._incoming.put(None)

    def _take(self, body: bytes, t2_ns: int) -> None:
        try:
            message = decode_control(body)
        except ProtocolError as error:
            self._send({"op": "log", "level": "warning", "text": f"request refused: {error}"})
            return
        if message["op"] == "ping":
            self._send({"op": "pong", "t1_ns": message["t1_ns"], "t2_ns": t2_ns, "t3_ns": time.monotonic_ns()})
        else:
            self._incoming.put(message)

    def _open(self) -> bool:
        """Take what has come in; False when the client is gone."""
        while True:
            try:
                message = self._incoming.get_nowait()
            except queue.Empty:
                return True
            if message is None:
                return False
            self._answer(message)

    def _answer(self, message: Message) -> None:
        op = message["op"]
        if op in ("measure", "bandwidth"):
            for ended in self._requests.add(message):
                self._end(ended)
        elif op == "parameters":
            self._send(self._parameters.answer(message))
        elif op == "cancel":
            for ended in self._requests.cancel(message["id"]):
                self._end(ended)
        elif op == "subscribe":
            low, high = RATE_RANGE_HZ
            if low <= message["rate_hz"] <= high:
                self._rate_hz, self._sampled_s = float(message["rate_hz"]), time.monotonic()
                self._catalogue()
                return
            text = f"request refused: rate_hz: got {message['rate_hz']:g}, expected {low:g} to {high:g}"
            self._send({"op": "log", "level": "warning", "text": text})
        else:
            text = f"request refused: a simulated board does not know {op}"
            self._send({"op": "log", "level": "warning", "text": text})

    def _end(self, failed: Message) -> None:
        if self._run is not None and self._requests.running is None:
            self._run.close()
            self._run = None
        self._send(failed)

    # ---- what happens

    def _pass_time(self, now_s: float) -> None:
        """Let the board's time catch up with ours, in whole steps."""
        step_s = STEP_S / self._accelerate
        for _ in range(min(int((now_s - self._passed_s) / step_s), MOST_STEPS)):
            self._passed_s += step_s
            self._board.step(self._work())
            if self._board.off:
                return
        self._passed_s = max(self._passed_s, now_s - MOST_STEPS * step_s)

    def _work(self) -> float:
        """Move the run on by a step and return how busy the board is in it."""
        request = self._requests.next()
        if request is None:
            return 0.0
        try:
            if self._run is None:
                self._n_requests += 1
                dice = np.random.default_rng([self._board.seed, 2, self._n_requests])
                self._run = (
                    bandwidth(self._board, dice)
                    if request["op"] == "bandwidth"
                    else measure(self._board, request, dice)
                )
            step = next(self._run)
        except StopIteration as end:
            self._finish({"op": "result", "id": request["id"], "body": self._told(end.value)})
            return 0.0
        except ValueError as error:
            self._finish({"op": "failed", "id": request["id"], "kind": "failed", "reason": str(error)})
            return 0.0
        self._progress(request["id"], step.done_frac, step.text)
        return step.load_frac

    def _told(self, body: dict[str, Any]) -> dict[str, Any]:
        if self._accelerate == 1:
            return body
        note = f"Time was accelerated: {self._accelerate:g} s of the board passed in each second."
        return {**body, "notes": [*body.get("notes", ()), note]}

    def _finish(self, message: Message) -> None:
        self._run = None
        self._requests.finish()
        self._send(message)

    def _progress(self, request_id: int, done_frac: float, text: str) -> None:
        self._send({"op": "progress", "id": request_id, "done_frac": done_frac, "text": text})


class _Requests:
    """Request queue: a newer request supersedes an unfinished one that is not queued, as with a real agent."""

    def __init__(self) -> None:
        self.running: Message | None = None
        self._waiting: deque[Message] = deque()

    def add(self, request: Message) -> list[Message]:
        """Take a request; return what ends by it."""
        if _queued(request):
            if len(self._waiting) >= MAX_QUEUED:
                return [_failed(request, "failed", f"{MAX_QUEUED} requests are waiting already")]
            self._waiting.append(request)
            return []
        reason = "a newer request took its place"
        ended = [_failed(other, "superseded", reason) for other in self._waiting if not _queued(other)]
        self._waiting = deque(other for other in self._waiting if _queued(other))
        if self.running is not None and not _queued(self.running):
            ended.append(_failed(self.running, "superseded", reason))
            self.running = None
        self._waiting.appendleft(request)
        return ended

    def cancel(self, request_id: int) -> list[Message]:
        """Take a request back; return what ends by it."""
        running = self.running
        if running is not None and running["id"] == request_id:
            self.running = None
            return [_failed(running, "cancelled", "cancelled")]
        ended = [other for other in self._waiting if other["id"] == request_id]
        self._waiting = deque(other for other in self._waiting if other["id"] != request_id)
        return [_failed(other, "cancelled", "cancelled before it began") for other in ended]

    def next(self) -> Message | None:
        """Return the run in progress."""
        if self.running is None and self._waiting:
            self.running = self._waiting.popleft()
        return self.running

    def finish(self) -> None:
        """Let the next one run."""
        self.running = None


def _queued(request: Message) -> bool:
    return request["op"] == "bandwidth" or bool(request.get("queue"))


def _failed(request: Message, kind: str, reason: str) -> Message:
    return {"op": "failed", "id": request["id"], "kind": kind, "reason": reason}
