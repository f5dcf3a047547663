"""Owns the session with the board: what the board says goes into the store, what the user wants goes to the board.

Events arrive on the session's reader thread and wait in a queue; a timer at the frame rate, slower while a speed is
measured, empties it in the GUI thread. The plots pull the samples themselves: that some came is no event here.

The order of things: on attach the memory bandwidth, the point on the screen, then the calibration plan, the speed of
all its points before the accuracy, then twice more, each as far as it was not measured on this machine before. Every
measurement teaches the calibration. A point where the sliders rest is measured by itself, ahead of the plan; a newer
one supersedes it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer

from app.campaign.campaign import Campaign
from app.campaign.plan import ACCURACY, SPEED, Run, What, calibration_rounds
from app.campaign.recipe import measured, undisturbed
from app.client import events
from app.library import axes
from app.library.board_library import BoardLibrary
from app.library.data_sheet import DataSheet
from app.library.files import FileError
from app.library.machine import cannot, machine_key, recorded
from app.library.measurements import answers
from app.model.attached_board import AttachedBoard
from app.model.attachment import Attachment, MakeSession
from app.model.background_fit import Calibrated, Fitting
from app.model.history import History
from app.model.recorder_controls import Tape
from app.model.requests import Request
from app.model.state import Activity
from app.model.store import Store
from core.spec import BY_PATH, Absent, OperatingPoint

if TYPE_CHECKING:
    from app.client.session import Session

FRAME_MS = 16
UNDISTURBED_MS = 200
"""Pace of the same while a speed is measured: on this machine every frame of ours interrupts what is timed."""
REST_MS = 250
"""A slider that has not moved for this long is at rest, and its point is measured."""
DRAIN_S = 0.02
"""How long a frame takes events from the board; the rest waits for the next one."""
FITTED_FOR = ("point.board", "point.runtime", "point.power_mode")
"""What a calibration is of."""
THIS_MACHINE = "this machine"


class Conductor(QObject):
    """Drives the board.

    Parameters
    ----------
    store : Store
    make_session : callable
        ``make_session(on_event) -> Session``, not started.
    name : str
        Of the board, for people.
    library : BoardLibrary
        What is known of boards, and where measurements are kept.
    """

    def __init__(
        self, store: Store, make_session: MakeSession, library: BoardLibrary, name: str = THIS_MACHINE
    ) -> None:
        super().__init__()
        self._store, self._board = store, AttachedBoard(store, library)
        self._queue: deque[events.Event | Calibrated] = deque()
        self._make_session, self._name, self._target = make_session, name, ""
        self._attachment = Attachment(self._queue.append, make_session)
        self.history = History(self._session)
        self.tape = Tape(store, lambda: self._session)
        self.wanted_sheet: str | None = None  # of the first board: a key, "this" for none, "found" for its own
        self._pending: dict[int, Request] = {}
        self._plan: Campaign | None = None  # the calibration that runs
        self.fitting = Fitting(store, self._queue.append)
        self._handlers: dict[type, Callable[[Any], None]] = {
            events.Connected: self._on_connected,
            events.Disconnected: self._on_disconnected,
            events.Catalogue: lambda event: store.set_link(channels=event.channels),
            events.BoardState: self._on_state,
            events.Log: lambda event: store.say(event.level, event.text),
            events.Progress: self._on_progress,
            events.Result: self._on_result,
            events.Failed: self._on_failed,
            events.Measured: lambda event: self.fitting.start(),
            Calibrated: self.fitting.take,
        }
        self._frame = QTimer(self, interval=FRAME_MS)
        self._frame.timeout.connect(self._drain)
        self._rest = QTimer(self, interval=REST_MS, singleShot=True)
        self._rest.timeout.connect(self._rested)
        store.changed.connect(self._on_changed)

    # ---- what the user asks for

    def start(self) -> None:
        """Attach the board."""
        self._store.set_link(state="connecting", text=f"Attaching {self._name}.")
        self._session.start()
        self._frame.start()

    def stop(self) -> None:
        """Detach the board and end its agent."""
        self._frame.stop()
        self._rest.stop()
        self.tape.stop()
        self._attachment.stop()
        self.fitting.join()

    def attach(self, make_session: MakeSession, name: str, target: str = "") -> None:
        """Attach another board in place of the one that is attached; `target` is what the user wrote for it."""
        self._leave(make_session)
        self._make_session, self._name, self._target = make_session, name, target
        self._store.set_link(state="connecting", target=target)
        self.start()

    def detach(self) -> None:
        """Detach the board; `reconnect_now` attaches it again."""
        self._leave(self._make_session)
        self._store.set_link(state="detached", text="No board is attached.")

    def _leave(self, make_session: MakeSession) -> None:
        """Let the session go and make the next one; nothing that the old one said is taken any more."""
        self._frame.stop()
        self._rest.stop()
        self.tape.leave()
        self._plan = None
        self._pending.clear()
        self._attachment.replace(make_session)
        kept = [event for event in self._queue if isinstance(event, Calibrated)]
        self._queue.clear()
        self._queue.extend(kept)
        self.history = History(self._session)
        self._store.set_link(hello={}, channels=(), n_lost=0, retry_at_s=None)
        if self._store.activity.kind != "idle":
            self._store.set_activity(Activity(text="Stopped: the board was detached."))

    def reconnect_now(self) -> None:
        """Try again at once instead of waiting for the countdown; a board that was detached is attached again."""
        if self._store.link.state == "detached":
            self.attach(self._make_session, self._name, self._store.link.target)
        else:
            self._session.reconnect_now()

    @property
    def silent_s(self) -> float:
        """Time since the attached board was last heard [s]."""
        return self._session.silent_s

    @property
    def _session(self) -> Session:
        return self._attachment.session

    def measure_now(self, what: What = SPEED, then: What = ACCURACY) -> str:
        """Measure the current point: speed, then accuracy, or other parts. Return why not, in one sentence, or ""."""
        if not (reason := self._store.not_measurable):
            self._measure(self._store.point, what, then)
        return reason

    def parameters(self, step: str = "status") -> str:
        """Ask for the live parameter set of the board, or for a "rollback" to the one before. Return why not, or ""."""
        if self._store.link.state != "attached":
            return self._store.link.text
        self._pending[self._session.parameters(step, {})] = Request("parameters")
        return ""

    def calibrate_now(self) -> str:
        """Measure the bandwidth and the whole plan again. Return the reason against it in one sentence, or ""."""
        reason = self._store.not_measured_here or recorded(self._store.link.hello)
        if not reason:
            self.cancel()
            if not cannot(self._store.link.hello, "bandwidth"):
                self._measure_bandwidth()
            self._start_plan(self._store.point, again=True)
        return reason

    def cancel(self) -> None:
        """End everything that runs or waits on the board, the rest of the plan too."""
        self._plan = None
        for request_id in list(self._pending):
            self._session.cancel(request_id)

    # ---- what the board says

    def _drain(self) -> None:
        n_lost = None
        end_s = time.perf_counter() + DRAIN_S
        for _ in range(len(self._queue)):
            event = self._queue.popleft()
            if isinstance(event, events.Samples):
                n_lost = event.n_lost
            else:
                self._handle(event)
            if time.perf_counter() > end_s:
                break
        self.tape.check()
        if n_lost is not None and n_lost != self._store.link.n_lost:
            self._store.set_link(n_lost=n_lost)
        timed = any(request.kind == "bandwidth" or request.what == SPEED for request in self._pending.values())
        self._frame.setInterval(UNDISTURBED_MS if timed else FRAME_MS)

    def _handle(self, event: events.Event | Calibrated) -> None:
        if not isinstance(event, Calibrated):
            self.tape.take(event)
        if (handler := self._handlers.get(type(event))) is not None:
            handler(event)

    def _on_connected(self, event: events.Connected) -> None:
        machine, board = machine_key(event.hello), self._board
        not_here = cannot(event.hello, "measure")
        text = f"Attached. {not_here}".rstrip()
        self._store.set_link(state="attached", text=text, hello=event.hello, retry_at_s=None)
        played = bool(recorded(event.hello))
        if not_here and not played:
            self._store.say("warning", not_here)
        if self.wanted_sheet is not None:
            board.choose_sheet(machine, "" if self.wanted_sheet == "found" else self.wanted_sheet)
            self.wanted_sheet = None
        if machine != self._store.machine or board.library.data_sheet(event.hello) != board.sheet:
            self._meet(event.hello)
        if not_here or not self._store.get("auto_measure"):
            return
        if board.bandwidth_of != machine or board.bandwidth_disturbed:
            self._measure_bandwidth()
        self._start_plan(OperatingPoint(), again=False)

    def _meet(self, hello: Mapping[str, Any]) -> None:
        """Make everything that is known that of the machine that said hello."""
        name, not_here = "" if self._name == THIS_MACHINE else self._name, cannot(hello, "measure")
        if hello.get("simulated"):
            name = str(hello.get("board", {}).get("name", name))  # a target names it by its key
        if self._board.meet(name, hello, "" if recorded(hello) else not_here):
            self._remember(hello)
        self.fitting.start()

    def choose_sheet(self, key: str) -> None:
        """Describe the attached board by the data sheet of a key, "this" for none, "" for the one found by itself."""
        if hello := self._store.link.hello:
            self._board.choose_sheet(machine_key(hello), key)
            self._meet(hello)

    @property
    def sheet(self) -> DataSheet | Absent:
        """The data sheet that describes the attached board, or why there is none."""
        return self._board.sheet

    def _on_state(self, event: events.BoardState) -> None:
        hello = {**self._store.link.hello, "state": event.state}
        before = self._store.link.hello.get("state", {}).get("power_mode")
        self._store.set_link(hello=hello)
        if event.state.get("power_mode") != before and self._board.library.data_sheet(hello) != self.sheet:
            self._meet(hello)

    def _on_disconnected(self, event: events.Disconnected) -> None:
        self._plan = None
        self._pending.clear()
        retry_at_s = None if event.retry_in_s is None else time.monotonic() + event.retry_in_s
        self._store.set_link(state="lost", text=event.reason, retry_at_s=retry_at_s)
        if not self._said(event.reason):  # once, however often it is tried
            self._store.say("warning", event.reason)
        if self._store.activity.kind != "idle":
            self._store.set_activity(Activity(text=f"Stopped: {event.reason}"))

    def _said(self, text: str) -> bool:
        return bool(self._store.log) and self._store.log[-1].text == text

    def _on_progress(self, event: events.Progress) -> None:
        if (request := self._pending.get(event.request_id)) is not None:
            self._show(request, event.done_frac, event.text)

    def _on_result(self, event: events.Result) -> None:
        request = self._pending.pop(event.request_id, None)
        if request is None:
            return
        if request.kind == "bandwidth":
            self._board.take_bandwidth(event.body)
        elif request.kind == "parameters":
            self._store.set_link(hello={**self._store.link.hello, "parameters": event.body})
        elif request.run is not None:
            self._take_result(request.run, event.body)
            if "compensation" in request.what:
                self.parameters()
            if request.then and request.point == self._store.point:
                self._measure(request.point, request.then)
            elif request.kind == "measure" and "decode_s" in event.body and request.what == SPEED:
                self._rested()
        self.fitting.start()
        self._ended(request, request.outcome)

    def _on_failed(self, event: events.Failed) -> None:
        request = self._pending.pop(event.request_id, None)
        if request is None:
            return
        if event.kind in ("failed", "link") and not self._said(event.reason):  # once, where a lost link ends all
            self._store.say("error", event.reason)
        if event.kind == "link":  # another plan begins when the board is back
            self._plan = None
        if request.run is not None and self._plan is not None:
            self._plan.failed(request.run, event.reason)
        self._ended(request, event.reason)

    # ---- measuring

    def _on_changed(self, path: str) -> None:
        if path in BY_PATH or path == "auto_measure":
            self._rest.start()
        if path in FITTED_FOR:
            self.fitting.start()

    def _rested(self) -> None:
        """Measure what is not known of the current point; its accuracy waits for the speed of the plan."""
        store = self._store
        asked = any(request.kind == "measure" and request.point == store.point for request in self._pending.values())
        if asked or not store.get("auto_measure") or store.not_measurable:
            return
        waits = any(request.kind == "calibrate" and request.what == SPEED for request in self._pending.values())
        if not store.has_measured("decode_s"):
            self._measure(store.point, SPEED)
        elif not waits and not store.has_measured("top1_agreement"):
            self._measure(store.point, ACCURACY)

    def _measure(self, point: OperatingPoint, what: tuple[str, ...], then: tuple[str, ...] = ()) -> None:
        self._rest.stop()  # this is the measurement it would have started
        run = Run(axes.canonical(point, self._store.catalogue), what)
        request = Request("measure", point, run, then)
        self._pending[self._session.measure(run.record, what)] = request
        self._show(request, 0.0, "Waiting for the board.")

    def _measure_bandwidth(self) -> None:
        request = Request("bandwidth")
        self._pending[self._session.bandwidth()] = request
        self._show(request, 0.0, "Measuring the memory bandwidth.")

    def _start_plan(self, at: OperatingPoint, *, again: bool) -> None:
        """Queue the calibration plan of a point's runtime; `again` repeats the timing of known points."""
        sheet, known = self._board.data_sheet, self._store.measurements
        if again:
            known = [replace(each, body=answers(each.body, ACCURACY)) for each in known]
        self._plan = Campaign(calibration_rounds(at, sheet), sheet, undisturbed(known))
        self._next_round()

    def _next_round(self) -> None:
        """Ask for the next round of the plan, once the one before has ended."""
        plan = self._plan
        if plan is None or plan.waiting:
            return
        while plan.begin_round():
            if plan.what == ACCURACY:
                self._rested()  # the point on the screen before those of the plan
            while (run := plan.next()) is not None:
                request_id = self._session.measure(run.record, run.what, queue=True, options=run.options)
                self._pending[request_id] = Request("calibrate", run.point, run)
        asked = any(request.kind == "bandwidth" for request in self._pending.values())
        if not plan.waiting and not asked and self._board.bandwidth_disturbed:
            self._measure_bandwidth()
        self._rested()

    def _take_result(self, run: Run, body: Mapping[str, Any]) -> None:
        """Keep the measurement that a result is."""
        try:
            found = measured(run, body, self._store.catalogue, self._store.machine)
        except FileError as error:
            self._store.say("error", str(error))
            if self._plan is not None:
                self._plan.failed(run, str(error))
            return
        if self._plan is not None and not self._plan.took(run, found):
            self._plan.count(found)
        if self._board.take_measurement(found):
            self._remember(self._store.link.hello)
        said = {line.text for line in self._store.log}
        for note in found.body.get("notes", ()):
            if note not in said:  # every point of a plan has the same to say
                self._store.say("info", str(note))

    def _remember(self, hello: Mapping[str, Any]) -> None:
        """Keep which machine the target is, once there is something worth finding again."""
        if self._target:
            self._board.remember(self._target, hello)
            self._target = ""

    # ---- what is shown of it

    def _show(self, request: Request, done_frac: float, text: str) -> None:
        self._store.set_activity(request.activity(done_frac, text, self._plan))

    def _ended(self, request: Request, text: str) -> None:
        if request.kind == "calibrate":
            self._next_round()
        if not self._pending:
            self._store.set_activity(Activity(text=text, done_frac=1.0))
