"""The session: with the real agent and worker as processes, and with scripted links for what real ones rarely do."""

import contextlib
import math
import os
import queue
import signal
import threading
import time
import zlib
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.client import link, transport
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.events import Catalogue, Connected, Disconnected, Failed, Log, Progress, Result, Samples
from app.client.rings import Rings
from app.client.session import BACKOFF_S, DETACHED, LOST, Session
from app.client.transport import LocalTransport, OpenError
from app.protocol import (
    MINOR,
    SAMPLES,
    VERSION,
    Decoder,
    ProtocolError,
    decode_control,
    encode_control,
    encode_frame,
    record_struct,
)
from tests.waiting import PATIENCE_S

POINT = {
    "weights": "fp32",
    "kv": "bf16",
    "context_tokens": 2048,
    "alpha": 0.0,
    "policy": "sinks_recent",
    "layout": "compacted",
}


class Attached:
    """A started session whose events are waited for, and the process of its agent."""

    def __init__(self, open_transport=None):
        self.events = queue.Queue()
        self.transport = None
        self.session = Session(open_transport or self._open, self.events.put)

    def _open(self):
        self.transport = LocalTransport()
        return self.transport

    def wait(self, kind, check=lambda event: True):
        """Return the next event of a kind; what comes before it is dropped."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            event = self.events.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if isinstance(event, kind) and check(event):
                return event

    def ended(self, request_id):
        return self.wait((Result, Failed), lambda event: event.request_id == request_id)

    def children(self):
        pid = self.transport.pid
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]


@contextlib.contextmanager
def attached(open_transport=None):
    made = Attached(open_transport)
    made.session.start()
    try:
        yield made
    finally:
        made.session.stop()


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
            assert board.ended(request_id) == Failed(request_id, "failed", f"{LOST}: the agent ended")
        down = board.wait(Disconnected)
        assert down.reason == "the agent ended"
        assert 0.4 <= down.retry_in_s <= 0.6
        board.wait(Connected)
        board.wait(Catalogue)
        board.wait(Samples)
        t_s, y = board.session.rings.window(index, 0, math.inf)
        (gap,) = np.flatnonzero(np.isnan(y))
        assert t_s[gap] <= killed_s < t_s[gap + 1]  # samples of before are kept, a gap parts them from the new ones
        assert gap >= 1
        assert board.wait(Samples).n_lost == 0


def test_stop_ends_the_agent_and_every_thread():
    before = set(threading.enumerate())
    with attached() as board:
        board.wait(Connected)
        process = board.transport._process
    assert process.returncode == 0
    assert set(threading.enumerate()) <= before


def test_stop_kills_an_agent_that_does_not_end(monkeypatch):
    monkeypatch.setattr(transport, "GRACE_S", 0.05)
    opened = LocalTransport(["/bin/sleep", "1000"])
    with attached(lambda: opened):
        pass
    assert opened._process.returncode == -signal.SIGKILL


class ScriptedTransport:
    """A link whose far end the test plays: bytes put are read, messages written are kept."""

    def __init__(self, *script):
        self._incoming = queue.Queue()
        self.sent = queue.Queue()
        self._decoder = Decoder()
        for data in script:
            self.put(data)

    def put(self, data):
        self._incoming.put(encode_control(data, 0) if isinstance(data, dict) else data)

    def read(self):
        data = self._incoming.get()
        if data == b"":
            self._incoming.put(b"")
        return data

    def write(self, data):
        for frame in self._decoder.feed(data):
            self.sent.put(decode_control(frame.body))

    def asked(self):
        """Return the next message that is no ping."""
        while (message := self.sent.get(timeout=PATIENCE_S))["op"] == "ping":
            pass
        return message

    def close(self):
        self._incoming.put(b"")


def hello(**more):
    return {
        "op": "hello",
        "protocol": 1,
        "agent": "9.9",
        "t_ns": time.monotonic_ns(),
        "board": {},
        "can": {"measure": True},
        "models": [],
        **more,
    }


def channel(key, absent=""):
    return {"key": key, "unit": "W", "source": "x", "native_period_s": None, "absent": absent}


CATALOGUE = {"op": "catalogue", "channels": [channel("a"), channel("b"), channel("c", "not here")], "rate_hz": 10}
RECORD = record_struct(2)


def samples(first, count, t0_s=0.0):
    body = b"".join(RECORD.pack(int((t0_s + i) * 1e9), i, -i) for i in range(first, first + count))
    return encode_frame(SAMPLES, first, body)


def test_lost_records_are_counted_and_drawn_as_a_gap():
    t_s = time.monotonic()
    script = ScriptedTransport(hello(t_ns=0), CATALOGUE, samples(0, 3), samples(7, 2), samples(9, 1))
    with attached(lambda: script) as board:
        got = [board.wait(Samples) for _ in range(3)]
        assert [(event.n_new, event.n_lost) for event in got] == [(3, 0), (2, 4), (1, 4)]
        times, y = board.session.rings.window(0, 0, math.inf)
        assert [None if math.isnan(v) else v for v in y] == [0, 1, 2, None, 7, 8, 9]
        assert times[0] == pytest.approx(t_s, abs=5)  # the agent's zero in our clock
        assert board.session.rings.window(1, 0, math.inf)[1][1] == -1


def test_a_newer_agent_is_understood_and_a_wrong_message_is_a_line_in_the_log():
    script = ScriptedTransport(
        hello(protocol=2, colour="blue"),
        encode_frame(1, 0, b'{"op":"dance"}'),
        encode_frame(1, 0, b"not json"),
        {"op": "catalogue", "channels": [{"key": "a"}], "rate_hz": 10},
        encode_frame(SAMPLES, 0, b"12345"),
        {"op": "log", "level": "error", "text": "hot"},
        CATALOGUE,
    )
    with attached(lambda: script) as board:
        assert board.wait(Connected).hello["colour"] == "blue"
        texts = [board.wait(Log).text for _ in range(5)]
        assert [text.split(":")[0] for text in texts[:3]] == ["message from the agent ignored"] * 3
        assert "do not fit the catalogue" in texts[3]
        assert texts[4] == "hot"
        assert [c.key for c in board.wait(Catalogue).channels] == ["a", "b", "c"]


def test_a_hello_of_another_shape_is_shown_as_far_as_it_can_be():
    script = ScriptedTransport(
        hello(board={"name": 5, "os": "\x1b]0;mine\x07"}, state=[1]),
        {"op": "log", "level": "loud", "text": "\x1b[31mred"},
    )
    with attached(lambda: script) as board:
        connected = board.wait(Connected).hello
        assert connected["board"] == {"name": "unknown board", "os": "]0;mine"}
        assert connected["state"] == {}
        assert board.wait(Log) == Log(
            "warning",
            "left out of what the board says of itself, since it is not as expected: board.name, state",
        )
        assert board.wait(Log) == Log("info", "[31mred")


def test_an_agent_whose_first_word_is_no_hello_is_given_up_at_once():
    with attached(
        lambda: ScriptedTransport(encode_frame(1, 0, b'{"op":"hello","t_ns":1' + b"0" * 400 + b"}"))
    ) as board:
        assert board.wait(Disconnected).reason.startswith(
            "what the agent says first is no hello: a control message holds"
        )


def test_another_minor_version_is_said_and_another_major_one_ends_the_link():
    with attached(lambda: ScriptedTransport(hello(minor=99))) as board:
        board.wait(Connected)
        assert board.wait(Log).text.startswith(
            f"The board's agent speaks protocol 1.99, this program {VERSION}.{MINOR}: "
        )
    head = b"\xfeTL" + bytes([VERSION + 1, 1]) + (2).to_bytes(4, "little") + bytes(8) + b"{}"
    frame = head + zlib.crc32(head).to_bytes(4, "little")
    with attached(lambda: ScriptedTransport(frame)) as board:
        assert (
            f"speaks version {VERSION + 1} of the protocol, this one speaks {VERSION}"
            in board.wait(Disconnected).reason
        )


def test_answers_to_unknown_or_finished_requests_are_dropped():
    script = ScriptedTransport(hello())
    with attached(lambda: script) as board:
        board.wait(Connected)
        request_id = board.session.bandwidth()
        for _ in range(2):
            script.put({"op": "result", "id": request_id, "body": {}})
        script.put({"op": "result", "id": 999, "body": {}})
        script.put({"op": "log", "level": "info", "text": "end"})
        assert board.wait((Result, Log)) == Result(request_id, {})
        assert board.wait((Result, Log)) == Log("info", "end")


def test_spans_of_a_run_lie_in_the_clock_of_the_samples():
    script = ScriptedTransport(hello(t_ns=time.monotonic_ns() + 5_000_000_000))
    with attached(lambda: script) as board:
        board.wait(Connected)
        first, second = board.session.bandwidth(), board.session.bandwidth()
        script.put({"op": "result", "id": first, "body": {"spans": [{"stage": "x", "start_s": 105.0, "end_s": 106.5}]}})
        script.put({"op": "result", "id": second, "body": {"spans": [{"stage": "x"}]}})
        (span,) = board.wait(Result).body["spans"]
        assert span == {"stage": "x", "start_s": pytest.approx(100, abs=0.5), "end_s": pytest.approx(101.5, abs=0.5)}
        assert span["end_s"] - span["start_s"] == pytest.approx(1.5)
        assert board.wait(Result).body["spans"] == []


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
        assert board.ended(request_id) == Failed(request_id, "failed", DETACHED)


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


def test_a_stream_that_is_no_agent_is_named():
    with attached(lambda: ScriptedTransport(b"x" * (2 << 20))) as board:
        assert "no Trilemma frame" in board.wait(Disconnected).reason
    with attached(lambda: LocalTransport(["/bin/echo", "command not found"])) as board:
        assert board.wait(Disconnected).reason == "the agent ended before it said hello"


def test_a_login_banner_before_the_first_frame_is_skipped():
    with attached(lambda: ScriptedTransport(b"Welcome to Ubuntu\r\n$ ", hello())) as board:
        board.wait(Connected)


def test_a_silent_agent_is_given_up(monkeypatch):
    monkeypatch.setattr(link, "SILENCE_S", 0.2)
    with attached(lambda: ScriptedTransport(hello())) as board:
        board.wait(Connected)
        assert "silent" in board.wait(Disconnected).reason


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


def test_a_flood_of_samples_stays_in_bounded_memory():
    rings = Rings(16)
    size = rings._t.nbytes + rings._y.nbytes
    block = np.zeros((5000, 16), np.float32)
    for i in range(50):
        rings.append(np.arange(5000.0) + 5000 * i, block)
    assert rings._t.nbytes + rings._y.nbytes == size < 8 << 20
    assert len(rings.window(0, 0, math.inf)[0]) == 36_000


@settings(max_examples=150)
@given(st.lists(st.integers(0, 12) | st.none(), max_size=20), st.integers(0, 80), st.integers(0, 80))
def test_rings_are_a_list_of_which_the_end_is_kept(blocks, low, high):
    rings, kept = Rings(2, capacity=7), []
    for count in blocks:
        if count is None:
            rings.mark_gap()
            kept += [(kept[-1][0], None)] if kept else []
            continue
        t = (math.floor(kept[-1][0]) + 1 if kept else 0) + np.arange(float(count))
        rings.append(t, np.stack([t, -t], axis=1).astype(np.float32))
        kept += [(time, time) for time in t]
    times, y = rings.window(0, low, high + 0.5)
    expected = [(t, v) for t, v in kept[-7:] if low <= t <= high + 0.5]
    assert len(times) == len(expected)
    for got_t, got_y, (t, v) in zip(times, y, expected, strict=True):
        assert got_t == pytest.approx(t)
        assert math.isnan(got_y) if v is None else got_y == v


def test_a_correction_of_the_clock_never_makes_time_run_back():
    rings = Rings(1)
    rings.append(np.array([10.0, 9.5]), np.array([[1], [2]], np.float32))
    rings.append(np.array([9.9, 11.0]), np.array([[3], [4]], np.float32))
    t_s, y = rings.window(0, 0, 99)
    assert y.tolist() == [1, 2, 3, 4]
    assert np.all(np.diff(t_s) >= 0)


def test_windows_are_copies_and_wrong_channels_are_refused():
    rings = Rings(1)
    rings.append(np.array([1.0]), np.array([[2.0]], np.float32))
    _, y = rings.window(0, 0, 9)
    y[:] = 5
    assert rings.window(0, 0, 9)[1][0] == 2
    with pytest.raises(IndexError, match="channel_index: got 1, expected 0 to 0"):
        rings.window(1, 0, 9)


def test_a_blocking_board_says_why_it_cannot_be_attached():
    with pytest.raises(LinkError, match="cannot start"), AttachedBoard(refusing):
        pass
    with pytest.raises(LinkError, match="before it said hello"), AttachedBoard(lambda: LocalTransport(["/bin/true"])):
        pass


def test_a_blocking_board_returns_bodies_and_raises_failures():
    script = ScriptedTransport(hello(), CATALOGUE)
    answers = iter(
        (
            ({"op": "progress", "id": 1, "done_frac": 0.5, "text": ""}, {"op": "result", "id": 1, "body": {"x": 1}}),
            ({"op": "failed", "id": 2, "kind": "failed", "reason": "no"},),
            (b"",),
        )
    )

    def answer():
        for said in answers:
            script.asked()
            for data in said:
                script.put(data)

    thread = threading.Thread(target=answer)
    thread.start()
    with AttachedBoard(lambda: script) as board:
        shown = []
        assert board.bandwidth(lambda done, text: shown.append((done, text))) == {"x": 1}
        assert shown == [(0.5, "")]
        with pytest.raises(LinkError, match="no") as caught:
            board.measure(POINT, ["decode"], lambda done, text: None)
        assert caught.value.kind == "failed"
        with pytest.raises(LinkError, match="lost"):
            board.bandwidth(lambda done, text: None)
    thread.join(PATIENCE_S)


def test_ctrl_c_cancels_on_the_board_and_comes_through(monkeypatch):
    script = ScriptedTransport(hello(), CATALOGUE)
    with AttachedBoard(lambda: script) as board:

        def interrupted(done, text):
            raise KeyboardInterrupt

        def answer():
            while (message := script.sent.get(timeout=PATIENCE_S))["op"] != "cancel":
                if message["op"] == "bandwidth":
                    script.put({"op": "progress", "id": message["id"], "done_frac": 0.5, "text": "half"})
            script.put({"op": "failed", "id": message["id"], "kind": "cancelled", "reason": "cancelled"})

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            board.bandwidth(interrupted)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_the_log_keeps_the_last_words_of_earlier_runs_and_is_bounded(tmp_path):
    log = tmp_path / "folder" / "agent.log"
    say = ["/bin/sh", "-c", "echo words >&2"]
    for _ in range(2):
        ended = LocalTransport(say, log)
        assert ended.read() == b""
        ended.close()
    assert log.read_text() == "words\nwords\n"
    log.write_bytes(bytes((1 << 20) + 1))
    ended = LocalTransport(say, log)
    assert ended.read() == b""
    ended.close()
    assert log.read_text() == "words\n"


def test_without_a_place_for_the_log_the_agent_runs_all_the_same(tmp_path):
    (tmp_path / "file").write_text("")
    ended = LocalTransport(["/bin/echo", "hello"], tmp_path / "file" / "agent.log")
    assert ended.read() == b"hello\n"
    assert ended.read() == b""
    ended.close()
