"""The session over a real agent and over scripted ones."""

import gc
import math
import os
import queue
import threading
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from app.client import link, session
from app.client.events import Catalogue, Connected, Disconnected, Failed, Log, Progress, Samples
from app.client.session import BACKOFF_S, DETACHED, LOST, Session
from app.client.transport import OpenError
from app.protocol import (
    ProtocolError,
    encode_control,
)
from tests.app.client.attached import POINT, attached
from tests.app.client.scripted import ScriptedTransport, hello
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """One real agent for the tests that leave it as they found it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRILEMMA_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        with attached() as made:
            hello = made.wait(Connected).hello
            if hello["can"]["measure"] is not True:
                pytest.fail("the extra local is not installed; make test installs it")
            made.channels = made.wait(Catalogue).channels
            yield made


def test_samples_flow_into_rings_in_our_clock(board):
    index = [channel.key for channel in board.channels].index("memory.available_byte")
    board.wait(Samples)
    t_s, y = board.session.rings.window(
        index, time.monotonic() - 60, time.monotonic() + 1
    )  # the clocks agree within a bound
    assert len(t_s) >= 1
    assert np.all(np.diff(t_s) > 0)
    assert -1 < time.monotonic() - t_s[-1] < 5
    assert np.all((y > 1e6) & (y < 1e13))


def test_offset_to_a_process_on_this_machine_is_zero_within_its_bound(board):
    deadline_s = time.monotonic() + PATIENCE_S
    while not math.isfinite((clock := board.session.clock.at(time.monotonic_ns())).bound_s):
        assert time.monotonic() < deadline_s
        board.wait(Samples)
    assert abs(clock.offset_s) <= clock.bound_s < 0.1


def test_bad_points_fail_in_one_sentence_that_names_what_is_wrong(board):
    for wrong, says in (
        ({"alpha": 1.0}, "alpha"),
        ({"context_tokens": 0}, "context"),
        ({"weights": "nonsense"}, "weights"),
    ):
        request_id = board.session.measure({**POINT, **wrong}, ["decode"])
        failed = board.ended(request_id)
        assert failed.kind == "failed"
        assert says in failed.reason
        assert "\n" not in failed.reason
        assert "Traceback" not in failed.reason


def test_a_model_file_that_is_cut_fails_in_one_sentence(board, tmp_path):
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(b"GGUF\3\0\0\0\1\0\0\0")
    for path, says in ((cut, "cut.gguf"), (tmp_path / "none.gguf", "none.gguf")):
        failed = board.ended(board.session.measure(POINT, ["decode"], model_file=str(path)))
        assert failed.kind == "failed"
        assert says in failed.reason


def test_a_newer_point_supersedes_a_running_one_and_cancel_ends_it(board):
    old = board.session.measure(POINT, ["decode", "ttft", "quality"])
    board.wait(Progress, lambda event: event.request_id == old)
    new = board.session.measure({**POINT, "alpha": 0.5}, ["ttft", "quality"])
    assert board.ended(old).kind == "superseded"
    board.wait(Progress, lambda event: event.request_id == new)
    board.session.cancel(new)
    assert board.ended(new).kind == "cancelled"


def test_a_killed_worker_fails_its_run_and_the_next_has_a_fresh_one(board):
    first = board.session.measure(POINT, ["ttft"])
    board.wait(Progress, lambda event: event.request_id == first)
    (worker,) = board.children()
    os.kill(worker, 9)
    assert "killed (signal 9)" in board.ended(first).reason
    second = board.session.measure(POINT, ["ttft"])
    board.wait(Progress, lambda event: event.request_id == second)
    assert board.children() != [worker]
    board.session.cancel(second)
    assert board.ended(second).kind == "cancelled"


def test_a_killed_agent_fails_what_ran_and_the_link_comes_back_with_a_gap(monkeypatch, tmp_path):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    with attached() as board:
        able = board.wait(Connected).hello["can"]["measure"] is True
        index = [c.key for c in board.wait(Catalogue).channels].index("memory.available_byte")
        board.wait(Samples)
        request_id = board.session.bandwidth()
        if able:
            board.wait(Progress)
        while board.session.rings.window(index, 0, math.inf)[0][-1] > time.monotonic():
            board.wait(Samples)  # before the first pong they may lie too late by what the hello took
        killed_s = time.monotonic()
        os.kill(board.transport.pid, 9)
        if able:
            assert board.ended(request_id) == Failed(request_id, "link", f"{LOST}: the agent ended")
        down = board.wait(Disconnected)
        assert down.reason == "the agent ended"
        assert 0.4 <= down.retry_in_s <= 0.6
        board.wait(Connected)
        board.wait(Catalogue)
        board.wait(Samples)
        t_s, y = board.session.rings.window(index, 0, math.inf)
        (gap,) = np.flatnonzero(np.isnan(y))
        near_s = killed_s + 0.2  # by the clock's offset, known better with each pong; the next try comes later
        assert t_s[gap] <= near_s < t_s[gap + 1]  # samples of before are kept, a gap parts them from the new ones
        assert gap >= 1
        assert board.wait(Samples).n_lost == 0


def test_stop_ends_the_agent_and_every_thread():
    before = set(threading.enumerate())
    with attached() as board:
        board.wait(Connected)
        process = board.transport._process
    assert process.returncode == 0
    assert set(threading.enumerate()) <= before


def test_a_session_that_was_left_gives_its_memory_back_at_once():
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        session = Session(lambda: ScriptedTransport(hello()), (events := queue.SimpleQueue()).put)
        session.start()
        while not isinstance(events.get(timeout=PATIENCE_S), Connected):
            pass
        session.stop()
        rings = weakref.ref(session.rings)
        del session
        assert rings() is None
    finally:
        if was_enabled:
            gc.enable()


def test_requests_carry_what_was_asked_and_the_rate_is_kept_across_links():
    links = [ScriptedTransport(hello()), ScriptedTransport(hello())]
    opened = iter(links)
    with attached(lambda: next(opened)) as board:
        board.wait(Connected)
        request_id = board.session.measure(POINT, ["decode"], queue=True)
        board.session.subscribe(50.0)
        board.session.cancel(request_id)
        wanted = {"op": "measure", "id": request_id, "point": POINT, "what": ["decode"], "queue": True}
        assert links[0].asked() == wanted
        assert links[0].asked() == {"op": "subscribe", "rate_hz": 50.0}
        assert links[0].asked() == {"op": "cancel", "id": request_id}
        links[0].put(b"")
        assert board.wait(Failed).reason == f"{LOST}: the agent ended"
        board.wait(Connected)
        assert links[1].asked() == {"op": "subscribe", "rate_hz": 50.0}


def test_a_request_that_cannot_be_sent_is_the_callers_mistake():
    session = Session(ScriptedTransport, lambda event: None)
    with pytest.raises(ProtocolError, match="finite"):
        session.measure({"alpha": math.nan}, ["decode"])


def refusing():
    raise OSError(2, "No such file or directory")


def test_attempts_back_off_with_jitter_and_for_ever():
    with attached(refusing) as board:
        waits = []
        for _ in range(8):
            down = board.wait(Disconnected)
            assert down.reason == "the agent cannot start: No such file or directory"
            waits.append(down.retry_in_s)
            board.session.reconnect_now()
    for wait_s, nominal_s in zip(waits, [*BACKOFF_S, 8.0, 8.0, 8.0], strict=True):
        assert 0.8 * nominal_s <= wait_s <= 1.2 * nominal_s
    assert len(set(waits)) == len(waits)


def test_a_request_without_a_board_fails_at_once():
    def refusing_for_good():
        raise OpenError("no", final=True)

    with attached(refusing_for_good) as board:
        assert board.wait(Disconnected).retry_in_s is None  # nothing else would end the wait
        request_id = board.session.measure(POINT, ["decode"])
        assert board.ended(request_id) == Failed(request_id, "link", DETACHED)


def test_a_recording_may_end_in_the_moment_in_which_the_link_does():
    class Recorder:
        def note(self, message):
            pass

    class Recorded(Session):
        """Looked at twice, its recorder is gone: as when another thread ends the recording in between."""

        @property
        def recorder(self):
            return next(self.looks, None)

        @recorder.setter
        def recorder(self, value):
            self.looks = iter([value] if value else [])

    events = queue.Queue()
    made = Recorded(lambda: ScriptedTransport(b""), events.put)
    made.recorder = Recorder()
    made.start()
    assert isinstance(events.get(timeout=PATIENCE_S), Disconnected)
    made.stop()


def test_a_silent_agent_is_given_up(monkeypatch):
    monkeypatch.setattr(link, "SILENCE_S", 0.2)
    with attached(lambda: ScriptedTransport(hello())) as board:
        board.wait(Connected)
        assert "silent" in board.wait(Disconnected).reason


def test_a_hello_that_trickles_in_is_given_up(monkeypatch):
    monkeypatch.setattr(session, "HELLO_S", 0.0)
    with attached(lambda: ScriptedTransport(encode_control(hello(), 0)[:9])) as board:
        assert board.wait(Disconnected).reason == "the agent has said no hello for 0 s"


def test_how_long_an_agent_has_said_nothing_is_told_from_its_last_byte(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(link, "time", SimpleNamespace(monotonic=lambda: now[0], monotonic_ns=lambda: 0))
    script = ScriptedTransport(hello())
    with attached(lambda: script) as board:
        board.wait(Connected)
        now[0] = 4.0
        assert board.session.silent_s == 4.0
        script.put(encode_control({"op": "log", "level": "info", "text": "here"}, 1))
        board.wait(Log)
        assert board.session.silent_s == 0.0
    assert board.session.silent_s == 0.0
