"""One attached board: requests out, events in, samples into rings, and the link opened again when it breaks."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from app.client.budget import Pace
from app.client.clock import Clock
from app.client.events import Channel, Connected, Disconnected, Event, Failed, Log, Position
from app.client.link import Link
from app.client.reader import Reader
from app.client.rings import Rings
from app.client.transport import Ended, OpenError, Transport
from app.protocol import MINOR, VERSION, Decoder, ProtocolError, encode_control

if TYPE_CHECKING:
    from app.client.recorder import Recorder

BACKOFF_S = (0.5, 1.0, 2.0, 4.0, 8.0)
JITTER_FRAC = 0.2
STEADY_S = 5.0  # a link that lived so long starts the backoff anew
HELLO_S = 60.0  # from the first byte to a whole hello, however its bytes trickle in
WATCH_S = 0.5  # between looks whether a board that was out of reach is back

LOST = "the link to the board was lost before this was finished"
DETACHED = "no board is attached"


class Session:
    """Keeps one board attached until stopped.

    Events come on the session's reader thread, in order; after `Connected` every request is answered by exactly one
    `Result` or `Failed`. A request is never sent twice: one that was lost with its link fails.

    Parameters
    ----------
    open_transport
        Opens the link; may raise OSError, which counts as a failed attempt. One that may ask a person has a function
        ``attended``, called when a person wants the next attempt.
    on_event
        Takes the events; must not block.
    reachable
        Tells within a second whether the board can be reached: once it is back, the next attempt is made at once.

    Attributes
    ----------
    rings
        The samples; a gap of the link is one record of NaN.
    clock
        Offset of the agent's clock, its bound and its drift.
    position
        Where the player stands, if the other end is a recording; else None.
    n_lost
        Records that the agent dropped, since the start.
    beginning
        The agent's last "hello", "clock" and "catalogue": what a recording that begins now must say first, in order.
    recorder
        Takes everything that arrives, from the next frame on; None records nothing. Set it, and set it back to None, at
        any time.
    """

    def __init__(
        self,
        open_transport: Callable[[], Transport],
        on_event: Callable[[Event], None],
        reachable: Callable[[], bool] | None = None,
    ) -> None:
        self._reachable = reachable
        self.rings = Rings()
        self.clock = Clock()
        self.position: Position | None = None
        self.n_lost = 0
        self.beginning: dict[str, Mapping[str, Any]] = {}
        self.recorder: Recorder | None = None
        self._open_transport = open_transport
        self._on_event = on_event
        self._ids = count(1)
        self._lock = threading.Lock()
        self._pending: dict[int, Mapping[str, Any]] = {}  # the requests that were sent, by their ids
        self._refused: list[int] = []  # made while no board was attached, not yet answered
        self._link: Link | None = None  # the open one
        self._attached = False  # the agent at its other end has said hello
        self._rate_hz: float | None = None
        self._wake = threading.Event()  # ends the wait for the next attempt, or tells it to look at what was refused
        self._retry_now = False
        self._running = False
        self._channels: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._run, name="session", daemon=True)

    def start(self) -> None:
        """Begin to attach; returns at once."""
        self._running = True
        self._thread.start()

    def stop(self) -> None:
        """Detach and end the agent; no event comes after this returns."""
        self._running = False
        self._wake.set()
        with self._lock:
            link = self._link
        if link is not None:
            link.hang_up()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def reconnect_now(self) -> None:
        """Try again at once instead of waiting for the next attempt."""
        attended: Callable[[], None] | None = getattr(self._open_transport, "attended", None)
        if attended is not None:
            attended()
        self._retry_now = True
        self._wake.set()

    def measure(
        self,
        point: Mapping[str, Any],
        what: Collection[str],
        *,
        queue: bool = False,
        model_file: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> int:
        """Ask for an operating point to be measured.

        Parameters
        ----------
        point
            Fields of an `OperatingPoint`.
        what
            Some of `app.protocol.WHAT`.
        queue
            Wait for a turn and never be superseded; otherwise this supersedes what is unfinished and not queued.
        model_file
            Path of another GGUF file on the board.
        options
            How much is measured, by name; what is not named is the board's choice.

        Returns
        -------
        int
            The id that the events carry.
        """
        message: dict[str, Any] = {"op": "measure", "point": dict(point), "what": list(what), "queue": queue}
        more = {"model_file": model_file, "options": None if options is None else dict(options)}
        return self._request({**message, **{key: value for key, value in more.items() if value is not None}})

    def bandwidth(self) -> int:
        """Ask for the memory bandwidth to be measured; waits for its turn."""
        return self._request({"op": "bandwidth"})

    def parameters(self, step: str, members: Mapping[str, Any]) -> int:
        """Ask for a step with the board's compensation parameters."""
        return self._request({**members, "op": "parameters", "step": step})

    def cancel(self, request_id: int) -> None:
        """End a request; its `Failed` says "cancelled". One that has ended is not an error."""
        self._send({"op": "cancel", "id": request_id})

    def subscribe(self, rate_hz: float) -> None:
        """Set the rate of the samples, 0.1 to 1000 Hz; kept across reconnects."""
        self._rate_hz = rate_hz
        self._send({"op": "subscribe", "rate_hz": rate_hz})

    def play(self, *, t_s: float | None = None, speed: float | None = None, paused: bool | None = None) -> None:
        """Ask the player of a recording for another position, another speed (0: all it can), to pause or to go on."""
        wanted = {"t_ns": None if t_s is None else round(t_s * 1e9), "speed": speed, "paused": paused}
        self._send({"op": "play", **{key: value for key, value in wanted.items() if value is not None}})

    def now_s(self) -> float:
        """Return the time of the newest samples' clock: ours, or where the player of a recording stands."""
        return time.monotonic() if self.position is None else self.position.now_s

    @property
    def silent_s(self) -> float:
        """Time since the attached agent was last heard [s]; 0 for a recording."""
        with self._lock:
            link = self._link if self._attached else None
        return 0.0 if link is None or self.position is not None else link.silent_s

    def _request(self, message: dict[str, Any]) -> int:
        request_id = next(self._ids)
        message["id"] = request_id
        encode_control(message, 0)  # what cannot be sent is the caller's mistake, not the link's
        with self._lock:
            if self._link is None or not self._attached:
                self._refused.append(request_id)
                self._wake.set()
            else:
                self._pending[request_id] = message
                self._link.outgoing.put(message)
        return request_id

    def _send(self, message: dict[str, Any]) -> None:
        with self._lock:
            if self._link is not None and self._attached:
                self._link.outgoing.put(message)

    def _run(self) -> None:
        attempt = 0
        while self._running:
            start_s = time.monotonic()
            ended = self._attach()
            if time.monotonic() - start_s >= STEADY_S:
                attempt = 0
            if not self._running:
                break
            wait_s = BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)] * random.uniform(1 - JITTER_FRAC, 1 + JITTER_FRAC)
            attempt += 1
            self._on_event(Disconnected(ended.reason, None if ended.final else wait_s))
            self._wait(float("inf") if ended.final else wait_s)
        self._fail_refused()

    def _wait(self, wait_s: float) -> None:
        """Wait for the next attempt, answering what is asked meanwhile; a board that comes into reach ends the wait."""
        end_s = time.monotonic() + wait_s
        was_away = False
        while self._running and not self._retry_now and (left_s := end_s - time.monotonic()) > 0:
            self._fail_refused()
            if self._reachable is not None and wait_s < float("inf"):
                away = not self._reachable()
                if was_away and not away:
                    break
                was_away, left_s = away, min(left_s, WATCH_S)
            self._wake.wait(None if left_s == float("inf") else left_s)
            self._wake.clear()
        self._retry_now = False

    def _attach(self) -> Ended:
        """Hold one link until it ends; return why it did."""
        try:
            transport = self._open_transport()
        except OpenError as error:
            self._fail_refused()
            return Ended(str(error), error.final)
        except OSError as error:
            self._fail_refused()
            return Ended(f"the agent cannot start: {error.strerror or error}")
        link = Link(transport)
        with self._lock:
            self._link = link
        reason = ""
        try:
            ended = self._serve(link)
            reason = ended.reason
            return ended
        finally:
            with self._lock:
                self._link, self._attached = None, False
                lost, self._pending = sorted(self._pending), {}
            link.close()
            recorder = self.recorder  # another thread may end the recording meanwhile
            if recorder is not None:
                gap = {"op": "gap", "t_ns": time.monotonic_ns(), "reason": reason or "the link was closed"}
                recorder.note(gap)
            for request_id in lost:
                self._on_event(Failed(request_id, "link", f"{LOST}: {reason}" if reason else LOST))
            self._fail_refused()

    def _serve(self, link: Link) -> Ended:
        if not self._running:  # stopped while it opened
            return Ended("")
        decoder = Decoder()
        reader, pace, end_s = Reader(self, link.role), Pace(), 0.0
        try:
            while data := link.read():
                for frame in decoder.feed(data):
                    reader.take(frame)
                    if link.role == "agent" and self._running:
                        time.sleep(pace.pause_s(frame))
                end_s = end_s or time.monotonic() + HELLO_S
                if not reader.connected and time.monotonic() >= end_s:
                    return Ended(f"the agent has said no hello for {HELLO_S:g} s")
        except ProtocolError as error:
            return Ended(str(error))
        silent = "the agent ended" if reader.connected else "the agent ended before it said hello"
        return link.ended() or Ended(silent)

    def emit(self, event: Event) -> None:
        """Tell the listener; for the reader."""
        self._on_event(event)

    def connected(self, hello: Mapping[str, Any]) -> None:
        """Take that the agent has said hello; for the reader."""
        with self._lock:
            self._attached = True
            if self._rate_hz is not None and self._link is not None:
                self._link.outgoing.put({"op": "subscribe", "rate_hz": self._rate_hz})
        self.clock, self.position = Clock(), None
        self._on_event(Connected(hello))
        if hello.get("minor", MINOR) != MINOR:
            theirs = f"{hello['protocol']}.{hello['minor']}"
            words = f"The board's agent speaks protocol {theirs}, this program {VERSION}.{MINOR}"
            self._on_event(Log("info", f"{words}: what only one of them knows is left out."))
        self._fail_refused()

    def _fail_refused(self) -> None:
        with self._lock:
            refused, self._refused = self._refused, []
        for request_id in refused:
            self._on_event(Failed(request_id, "link", DETACHED))

    def waits_for(self, request_id: int) -> bool:
        """True if a request was sent and not answered yet."""
        return request_id in self._pending

    def finish(self, request_id: int) -> Mapping[str, Any] | None:
        """Take a request off the list and return it; None when it was answered before, or is of another link."""
        with self._lock:
            return self._pending.pop(request_id, None)

    def set_channels(self, channels: tuple[Channel, ...]) -> int:
        """Prepare the rings; the samples of before a broken link stay when the channels are the same."""
        present = tuple(channel.key for channel in channels if not channel.absent)
        if present != self._channels:
            self.rings.reset(len(present), present)
            self._channels = present
        return len(present)
