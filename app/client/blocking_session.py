"""A session for commands that do one thing after another and wait for it."""

from __future__ import annotations

import contextlib
import queue
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Self

from app.client.clock import Reading
from app.client.events import (
    BoardState,
    Catalogue,
    Channel,
    Connected,
    Disconnected,
    Event,
    Failed,
    Log,
    Progress,
    Result,
)
from app.client.session import Session
from app.client.transport import START_S, Transport

CANCEL_S = 5.0  # for a board to say that the run which Ctrl-C cancels has ended
ANSWER_S = 15.0
QUIET_S = 3660.0
"""For a run without a word of its progress: a minute more than a board's runtime may take (its ``timeout_s``)."""
RUN_S = 86400.0
"""For a run in all, however often the board reports progress."""
STATE_S = 5.0  # the agent has had two looks at what else runs 1 s after the start
PERIODS_S = 1.0  # the agent publishes the periods of its quick sensors 0.25 s after the start


class LinkError(Exception):
    """The board cannot be attached, or a run ended without a result; the message is one sentence.

    Attributes
    ----------
    kind
        "link", or that of the `Failed` event.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


class AttachedBoard:
    """An attached board, for use in a ``with`` statement.

    Parameters
    ----------
    open_transport
        Opens the link.

    Attributes
    ----------
    hello
        What the agent says of itself and the board.
    channels
        Its sensor channels.
    log
        The last lines of its log, each with the seconds since 1970 at which it came.

    Raises
    ------
    LinkError
        On entry, if the agent does not answer.
    """

    def __init__(self, open_transport: Callable[[], Transport]) -> None:
        self.hello: Mapping[str, Any] = {}
        self.channels: tuple[Channel, ...] = ()
        self.log: deque[tuple[float, Log]] = deque(maxlen=1000)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._complaint = ""  # the first line of the log that was no information, until attached
        self._error = ""  # the last line of the log about an error
        self._session = Session(open_transport, self._events.put)
        self._patience_s = getattr(open_transport, "patience_s", START_S)

    def __enter__(self) -> Self:
        self._session.start()
        try:
            self._wait_for(Catalogue, self._patience_s)
        except BaseException:
            self._session.stop()
            raise
        self._complaint = ""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._session.stop()

    def wait_for_state(self) -> None:
        """Wait until `hello` lists other programs on the board, where its agent reports them."""
        if "absent" in self.hello.get("state", {}).get("others", {}):
            with contextlib.suppress(LinkError):
                self._wait_for(BoardState, STATE_S)

    def wait_for_periods(self) -> None:
        """Wait until the catalogue carries the native periods of the quick sensors."""
        with contextlib.suppress(LinkError):  # a recording has them from the start
            self._wait_for(Catalogue, PERIODS_S)

    def clock(self) -> Reading:
        """Return the reading of the board's clock now."""
        return self._session.clock.at(time.monotonic_ns())

    def measure(
        self,
        point: Mapping[str, Any],
        what: Collection[str],
        on_progress: Callable[[float, str], None],
        *,
        model_file: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Mapping[str, Any]:
        """Measure an operating point and return the result's body; Ctrl-C cancels the run on the board.

        Raises
        ------
        LinkError
            If it ends without a result, says nothing for `QUIET_S`, or takes longer than `RUN_S`.
        """
        return self._finish(self._session.measure(point, what, model_file=model_file, options=options), on_progress)

    def bandwidth(self, on_progress: Callable[[float, str], None]) -> Mapping[str, Any]:
        """Measure the memory bandwidth, as `measure` does a point."""
        return self._finish(self._session.bandwidth(), on_progress)

    def parameters(self, step: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do a step with the board's compensation parameters and return its answer.

        Raises
        ------
        LinkError
            The board refuses it, in one sentence, or is silent.
        """
        return self._answer(self._session.parameters(step, members), lambda done_frac, text: None, ANSWER_S, ANSWER_S)

    def _finish(self, request_id: int, on_progress: Callable[[float, str], None]) -> Mapping[str, Any]:
        try:
            return self._answer(request_id, on_progress, QUIET_S, RUN_S)
        except KeyboardInterrupt:
            self._session.cancel(request_id)
            with contextlib.suppress(LinkError):  # "cancelled", as asked
                self._answer(request_id, on_progress, CANCEL_S, CANCEL_S)
            raise

    def _answer(
        self, request_id: int, on_progress: Callable[[float, str], None], quiet_s: float, most_s: float
    ) -> Mapping[str, Any]:
        """Wait for an answer: for `quiet_s` from the request or its last progress on, and for `most_s` in all."""
        end_s = time.monotonic() + most_s
        deadline_s = min(end_s, time.monotonic() + quiet_s)
        while True:
            event = self._next(deadline_s)
            if isinstance(event, Progress) and event.request_id == request_id:
                deadline_s = min(end_s, time.monotonic() + quiet_s)
                on_progress(event.done_frac, event.text)
            elif isinstance(event, Result) and event.request_id == request_id:
                return event.body
            elif isinstance(event, Failed) and event.request_id == request_id:
                more = f": {self._error}" if event.kind == "link" and self._error else ""
                raise LinkError(event.kind, f"{event.reason}{more}")

    def _wait_for(self, kind: type, timeout_s: float) -> None:
        deadline_s = time.monotonic() + timeout_s
        while True:
            event = self._next(deadline_s)
            if isinstance(event, kind):
                return
            if isinstance(event, Disconnected):
                raise LinkError("link", event.reason)

    def _next(self, deadline_s: float) -> Event:
        """Return the next event; none is taken after the deadline, however many wait.

        Raises
        ------
        LinkError
            None comes before it.
        """
        left_s = deadline_s - time.monotonic()
        try:
            if left_s <= 0:
                raise queue.Empty
            event = self._events.get(timeout=left_s)
        except queue.Empty:
            more = f": {self._complaint}" if self._complaint else ""
            raise LinkError("link", f"the agent does not answer{more}") from None
        if isinstance(event, Connected):
            self.hello = event.hello
        elif isinstance(event, BoardState):
            self.hello = {**self.hello, "state": event.state}
        elif isinstance(event, Catalogue):
            self.channels = event.channels
        elif isinstance(event, Log):
            self.log.append((time.time(), event))
            if event.level != "info":
                self._complaint = self._complaint or event.text
            self._error = event.text if event.level == "error" else self._error
        return event
