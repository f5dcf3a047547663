"""The agent: sensors and measured runs behind a pair of descriptors; it ends when its input ends or goes silent.

Threads: this one takes requests; the sampler (nice) reads sensors; the writer empties the outbox; each worker process
has a reader. They meet in `Outbox` and `Runs`, which lock.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable

from app import VERSION as AGENT_VERSION
from app.agent import board
from app.agent.energy import EnergyMeter, RunEnergy
from app.agent.launch import Scratch, worker_argv
from app.agent.outbox import Outbox
from app.agent.parameters import Parameters
from app.agent.run_conditions import RunConditions
from app.agent.runs import Runs, worker_environment
from app.agent.runtimes.entry import RuntimeEntry, entries_file, read_entries
from app.agent.sampler import Sampler
from app.agent.sensors import arrange, discover
from app.agent.signals import when_told_to_end
from app.agent.slots import Slots, parameters_folder
from app.agent.state import BoardState, StateWatch
from app.protocol import CONTROL, MINOR, Decoder, Malformed, ProtocolError, decode_control
from app.protocol import VERSION as PROTOCOL_VERSION

REST_S = 1.5
"""Before the first run of a board with a power sensor, so that its idle power is known."""

JOIN_S = 1.0
SILENCE_S = 60.0
"""A client that has pinged, as they do each second, and then is silent for so long is gone, whatever its link says."""


def _end_process() -> None:
    os._exit(0)  # the main thread waits in a read that nothing else would end


class Agent:
    """Sensors and measured runs behind a pair of descriptors.

    Parameters
    ----------
    read_fd, write_fd
        The client's end of the link.
    root
        Root of the board's file system.
    hang_up
        Ends the link when the client is gone: `serve` returns, or the process ends.
    read_only
        Why this client may only watch; "" where it may measure.
    locked
        Why it may not change what stays on the board, the live parameters; "" where it may.
    strict
        End the link at a message that no client of ours sends, as behind a socket that others reach; else refuse it.
    """

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        root: Path = Path("/"),
        *,
        hang_up: Callable[[], None] = _end_process,
        read_only: str = "",
        locked: str = "",
        strict: bool = False,
    ) -> None:
        self._hang_up = hang_up
        self._read_only = read_only
        self._locked = read_only or locked
        self._strict = strict
        self._pinged = False
        self._read_fd = read_fd
        self._root = root
        self._closing = False
        self._outbox = Outbox(write_fd)
        sensors, absent = discover(root)
        meter = EnergyMeter()
        self._state = BoardState(root)
        self._watch = StateWatch(self._state, self._outbox.send)
        self._sampler = Sampler(sensors, absent, self._outbox, meter, partial(arrange, root, sensors, absent))
        self._unavailable, argv = read_only or board.why_no_measuring(), []
        if not self._unavailable:
            try:
                argv = worker_argv()
            except OSError as error:
                self._unavailable = str(error.strerror)
        energy = RunEnergy(meter, *self._sampler.power, self._sampler.total_period_s, self._sampler.rails)
        self._sampler.on_power = energy.cover
        n_threads = board.n_big_cores(root)
        self._scratch = Scratch()
        environment = {**worker_environment(n_threads), **self._scratch.environment()}
        self._runtimes, self._runtimes_wrong = _configured()
        self._parameters = Parameters(Slots(parameters_folder()))
        self._conditions = RunConditions(root, self._state, self._sampler.hottest_c)
        self._runs = Runs(
            argv,
            environment,
            self._outbox.send,
            lambda body: self._conditions.complete(energy.complete(body)),
            self._unavailable,
            idled=energy.idled,
            begun=self._conditions.begun,
            rest_s=0.0 if self._sampler.power[0] else REST_S,
            runtimes=self._runtimes,
            n_threads=n_threads,
        )

    def serve(self) -> None:
        """Say hello and answer until the input ends or breaks the protocol."""
        self._outbox.send(self._hello())
        self._sampler.publish_catalogue()
        if self._runtimes_wrong:
            self._outbox.send({"op": "log", "level": "error", "text": self._runtimes_wrong})
        writer = threading.Thread(target=self._write, name="writer", daemon=True)
        writer.start()
        reading = [
            threading.Thread(target=run, name=name, daemon=True)
            for name, run in (("sampler", self._sampler.run), ("state", self._watch.run))
        ]
        for thread in reading:
            thread.start()
        decoder = Decoder()
        try:
            while True:
                data = self._read()
                if not data:
                    break
                for frame in decoder.feed(data):
                    if frame.kind == CONTROL:
                        self._take(frame.body)
                if self._strict and decoder.n_skipped_byte:
                    raise Malformed("there is something between the frames")
        except (ProtocolError, OSError) as error:
            print(f"trilemma agent: {error}", file=sys.stderr)
        finally:
            self._end(writer, reading)

    def _end(self, writer: threading.Thread, reading: list[threading.Thread]) -> None:
        self._closing = True
        self._watch.stop()
        self._sampler.stop()
        self._runs.close()
        self._outbox.close()
        self._scratch.clear()
        for thread in (*reading, writer):  # the first ones hold the descriptors of the sensors
            thread.join(JOIN_S)
        if writer.is_alive():  # it waits for a client that reads nothing, and its descriptor may soon be another's
            self._hang_up()
            writer.join()

    def _read(self) -> bytes:
        """Wait for the client; b"" when it has ended, or gone silent after it had pinged."""
        while self._pinged and os.name == "posix" and not select.select([self._read_fd], [], [], SILENCE_S)[0]:
            print(f"trilemma agent: the client has been silent for {SILENCE_S:g} s", file=sys.stderr)
            return b""
        return os.read(self._read_fd, 65536)

    def _write(self) -> None:
        self._outbox.run()
        if not self._closing:  # the reader of our output left
            self.give_up()

    def give_up(self) -> None:
        """End the run, remove its files and hang up; for any thread."""
        self._runs.close()
        self._scratch.clear()
        self._hang_up()

    def _hello(self) -> dict[str, Any]:
        able: Any = {"absent": self._unavailable} if self._unavailable else True
        return {
            "op": "hello",
            "protocol": PROTOCOL_VERSION,
            "minor": MINOR,
            "agent": AGENT_VERSION,
            "board": board.describe(self._root),
            "state": self._state.read(),
            "can": {"measure": able, "bandwidth": able, "torch": board.torch_version()},
            "models": board.model_files(),
            "runtimes": [entry.message() for entry in self._runtimes],
            "runtimes_wrong": self._runtimes_wrong,
            "parameters": self._parameters.status(),
            "t_ns": time.monotonic_ns(),  # last: the client takes it for the time of arrival until the first ping
        }

    def _take(self, body: bytes) -> None:
        t_ns = time.monotonic_ns()
        try:
            message = decode_control(body)
            self._answer(message, t_ns)
        except (ProtocolError, ValueError) as error:  # the call failed, the link is sound
            if self._strict and isinstance(error, Malformed):
                raise
            self._outbox.send({"op": "log", "level": "warning", "text": f"request refused: {error}"})

    def _answer(self, message: dict[str, Any], t_ns: int) -> None:
        op = message["op"]
        refused = self._locked if "compensation" in message.get("what", ()) else self._read_only
        if op in ("measure", "bandwidth") and refused:
            self._outbox.send({"op": "failed", "id": message["id"], "kind": "failed", "reason": refused})
        elif op in ("measure", "bandwidth"):
            self._runs.submit(message)
        elif op == "parameters":
            self._outbox.send(self._parameters.answer(message, self._locked))
        elif op == "cancel":
            self._runs.cancel(message["id"])
        elif op == "subscribe":
            self._sampler.subscribe(message["rate_hz"])
            self._sampler.publish_catalogue()
        elif op == "ping":
            self._pinged = True
            pong = {"op": "pong", "t1_ns": message["t1_ns"], "t2_ns": t_ns, "t3_ns": time.monotonic_ns()}
            self._outbox.send(pong)
        else:
            raise ProtocolError(f"{op} is not a request")


def _configured() -> tuple[list[RuntimeEntry], str]:
    """Return the runtimes of this board, and what is wrong with their file."""
    try:
        return read_entries(entries_file()), ""
    except ValueError as error:
        return [], str(error)


def claim_stdout() -> int:
    """Return a descriptor of the real standard output; from now on prints, of C code too, go to standard error."""
    sys.stdout.flush()
    fd = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return fd


def main(root: Path = Path("/")) -> int:
    """Serve this machine over standard input and output, until they end."""
    write_fd = claim_stdout()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the client, which cancels
    agent = Agent(0, write_fd, root)
    when_told_to_end(agent.give_up)
    agent.serve()
    return 0
