"""A recording behind a session: it plays, stands, jumps and never plays a sample twice into the rings."""

import json
import math
import queue
import time
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

from app.client import replay
from app.client.events import Catalogue, ClockRead, Connected, Failed, Gap, Log, Measured, Position, Samples
from app.client.recorder import Recorder, RecordingError
from app.client.recording import Recording
from app.client.replay import NOT_HERE, ReplayTransport
from app.client.rings import HOUR_AT_10_HZ
from app.client.session import Session
from app.client.target import open_target
from app.protocol import SAMPLES, Decoder, Frame, decode_control, encode_control, record_struct
from tests.waiting import PATIENCE_S

RECORD = record_struct(1)
T0_NS = 10**12
BODY = {"decode_s": {"median": 0.02, "q05": 0.019, "q95": 0.021, "n": 9, "provenance": "measured"}}
MEASURED = {"op": "measured", "request": {"op": "measure", "id": 1, "point": {}, "what": ["decode"]}}
MEASURED = {**MEASURED, "body": BODY, "time_utc": "2026-01-01T00:00:03.000+00:00"}
CHANNEL = {"key": "board.power_w", "unit": "W", "source": "x", "native_period_s": None, "absent": ""}
HELLO = {"op": "hello", "protocol": 1, "agent": "9.9", "board": {"name": "B"}, "can": {"measure": True}, "models": []}
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def samples(first, count, seq=None):
    body = b"".join(RECORD.pack(T0_NS + i * 10**8, i) for i in range(first, first + count))
    return Frame(SAMPLES, first if seq is None else seq, body)


@pytest.fixture
def path(tmp_path):
    """100 s at 10 Hz; the link is lost from 40 to 50 s, and the agent then counts and ticks anew, 7 s ahead."""
    made = Recorder(tmp_path / "made.trilemma", (T0_NS, BEGAN))
    made.note({**HELLO, "t_ns": T0_NS})
    made.note({"op": "clock", "t_ns": T0_NS, "offset_s": 0.0, "bound_s": 1e-4, "drift": 0.0})
    made.note({"op": "catalogue", "channels": [CHANNEL], "rate_hz": 10})
    for i in range(0, 400, 2):
        made.take(samples(i, 2))
        if i == 30:
            made.note(MEASURED)
    made.note({"op": "gap", "t_ns": T0_NS + 40 * 10**9, "reason": "the agent ended"})
    made.note({**HELLO, "t_ns": T0_NS + 57 * 10**9})
    made.note({"op": "clock", "t_ns": T0_NS + 50 * 10**9, "offset_s": 7.0, "bound_s": 2e-4, "drift": 0.0})
    made.note({"op": "catalogue", "channels": [CHANNEL], "rate_hz": 10})
    for i in range(500, 1000, 2):
        made.take(samples(i + 70, 2, seq=i - 500))
    made.close()
    return made.path


class Player:
    """A session over a recording, and its events."""

    def __init__(self, path, speed):
        self.events = queue.Queue()
        self.session = Session(lambda: ReplayTransport(path, speed=speed), self.events.put)
        self.session.start()

    def wait(self, kind, check=lambda event: True):
        deadline_s = time.monotonic() + PATIENCE_S
        while not (
            isinstance(event := self.events.get(timeout=max(0.01, deadline_s - time.monotonic())), kind)
            and check(event)
        ):
            pass
        return event

    def times(self):
        """The samples that the rings hold, in seconds after the beginning of the recording; None for a gap."""
        t_s, y = self.session.rings.window(0, -math.inf, math.inf)
        return [None if math.isnan(v) else round(t - T0_NS * 1e-9, 3) for t, v in zip(t_s, y, strict=True)]

    def jump(self, second, **more):
        """Go to a second, paused, and wait until it stands there."""
        self.session.play(t_s=T0_NS * 1e-9 + second, paused=True, **more)
        self.wait(Position, lambda p: p.paused and abs(p.t_s - T0_NS * 1e-9 - second) < 1e-6)
        self.session.bandwidth()  # is answered behind what the jump brings
        self.wait(Failed)


@pytest.fixture
def play(path):
    made = []

    def begin(speed, of=path):
        made.append(Player(of, speed))
        return made[-1]

    yield begin
    for player in made:
        player.session.stop()


def test_a_session_over_it_sees_the_board_and_everything_measured(play):
    player = play(0.0)
    hello = player.wait(Connected).hello
    assert hello["board"]["name"] == "B"
    assert hello["recording"] == {
        "file": "made.trilemma",
        "format": 1,
        "made_by": "0.1.0",
        "t_ns": T0_NS,
        "time_utc": "2026-01-01T00:00:00.000+00:00",
        "clock": {"offset_s": 7.0, "bound_s": 2e-4, "drift": 0.0},
    }
    assert [c.key for c in player.wait(Catalogue).channels] == ["board.power_w"]
    first = player.wait(Position)
    assert (first.first_s, first.last_s) == (pytest.approx(1000.0), pytest.approx(1099.9))
    measured = player.wait(Measured)
    assert measured == Measured(MEASURED["request"], BODY, MEASURED["time_utc"])
    assert player.wait(Gap) == Gap(pytest.approx(1040.0), "the agent ended")
    player.wait(Position, lambda p: p.paused)
    whole = [i / 10 for i in range(400)] + [None] + [i / 10 for i in range(500, 1000)]
    assert player.times() == whole
    assert player.session.n_lost == 0
    assert player.session.now_s() == pytest.approx(1099.9)
    player.events.put(None)
    left = [event for event in iter(player.events.get, None) if isinstance(event, (Measured, Log))]
    assert left == []  # told once


def test_a_jump_shows_the_past_of_where_it_lands_and_appends_nothing(play):
    player = play(0.0)
    player.wait(Position, lambda p: p.paused)
    for second in (20.1, 10.1, 70.1, 10.1, 45.0):  # where frames end: a jump lands between them
        player.jump(second)
        got = [t for t in player.times() if t is not None]
        assert got == [i / 10 for i in range(1000) if i / 10 <= second and not 40 <= i / 10 < 50]
        assert player.session.now_s() == pytest.approx(1000 + second)
        assert player.times().count(None) == (second >= 50)


def test_it_plays_in_its_own_time(play, monkeypatch):
    player = play(0.0)
    player.wait(Position, lambda p: p.paused)
    player.jump(10.0)
    began_s = time.monotonic()
    player.session.play(paused=False, speed=20.0)
    player.wait(Position, lambda p: not p.paused)
    player.wait(Position, lambda p: p.t_s >= 1025.0)
    played_s = time.monotonic() - began_s
    player.session.play(paused=True)
    stands = player.wait(Position, lambda p: p.paused)
    assert played_s >= 15.0 / 20 - 0.05  # a busy machine adds to it
    at_s = player.session.now_s()
    assert at_s == stands.t_s
    samples_until = player.times()[-1]
    assert samples_until <= at_s - 1000 + 1e-6
    assert samples_until > at_s - 1000 - 0.3
    assert player.times() == [i / 10 for i in range(len(player.times()))]
    monkeypatch.setattr(replay, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 100.0))
    assert player.session.now_s() == at_s  # paused


def test_it_stands_behind_all_that_is_before_its_place_however_busy_the_machine_is(path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(replay, "time", SimpleNamespace(monotonic=lambda: now[0]))
    player = ReplayTransport(path, speed=10.0)
    player.read()
    now[0] = 2.0  # it did not get to run for so long
    player.write(encode_control({"op": "play", "paused": True}, 0))
    frames = list(Decoder().feed(player.read()))
    values = [value for frame in frames if frame.kind == SAMPLES for _, value in RECORD.iter_unpack(frame.body)]
    assert values == [*range(200)]
    assert decode_control(frames[-1].body)["t_ns"] == T0_NS + 20 * 10**9
    player.close()


def test_speed_is_changed_while_it_plays_and_play_at_the_end_begins_anew(play):
    player = play(50.0)
    player.wait(Position, lambda p: p.t_s > 1005)
    player.session.play(speed=0.0)
    player.wait(Position, lambda p: p.paused)
    assert player.session.now_s() == pytest.approx(1099.9)
    player.session.play(speed=10.0, paused=False)
    again = player.wait(Position, lambda p: not p.paused)
    assert again.t_s < 1010
    player.wait(Samples)
    assert player.times()[0] == 0.0


def test_it_stays_alive_while_it_stands_and_answers_what_it_cannot_do(play):
    player = play(0.0)
    player.wait(Position, lambda p: p.paused)
    player.wait(Position)  # a pulse
    player.wait(Position)
    request_id = player.session.measure({"alpha": 0.5}, ["decode"])
    assert player.wait(Failed) == Failed(request_id, "failed", NOT_HERE)
    request_id = player.session.parameters("status", {})
    assert player.wait(Failed) == Failed(request_id, "failed", NOT_HERE)
    player.session.play(speed=1e9)
    assert "speed: got 1e+09, expected 0.01 to 1000" in player.wait(Log).text


def test_its_clock_is_the_recorded_one(play):
    player = play(0.0)
    reads = [player.wait(ClockRead, lambda read: math.isfinite(read.bound_s)) for _ in range(2)]
    assert [(read.offset_s, read.bound_s) for read in reads] == [(0.0, 1e-4), (7.0, 2e-4)]


def test_damage_is_played_around_and_said(path, play):
    with Recording(path) as whole:
        at = int(whole.start[100]) + 25
        data = bytearray(path.read_bytes())
        data[at : at + 3] = b"\xff\xff\xff"
        path.write_bytes(data)
    player = play(0.0)
    assert "1 damaged places" in player.wait(Log).text
    player.wait(Position, lambda p: p.paused)
    assert player.times().count(None) == 2
    assert player.session.n_lost == 2
    assert len([t for t in player.times() if t is not None]) == 898


def test_a_jump_in_a_long_recording_reads_no_more_than_an_hour_at_10_hz(play, tmp_path, monkeypatch):
    n, period_ns = 120_000, 10**6
    layout = np.dtype([("t_ns", "<i8"), ("y", "<f4", (16,))])
    records = np.zeros(n, layout)
    records["t_ns"] = T0_NS + np.arange(n) * period_ns
    made = Recorder(tmp_path / "x.trilemma", (T0_NS, BEGAN))
    made.note({**HELLO, "t_ns": T0_NS})
    made.note({"op": "catalogue", "channels": [{**CHANNEL, "key": str(i)} for i in range(16)], "rate_hz": 1000})
    for first in range(0, n, 20):
        made.take(Frame(SAMPLES, first, records[first : first + 20].tobytes()))
    made.close()
    player = play(0.0, made.path)
    player.wait(Position, lambda p: p.paused)
    read, n_read = replay.ReplayTransport._samples, []
    monkeypatch.setattr(
        replay.ReplayTransport, "_samples", lambda self, piece: n_read.append(len(piece.t_ns)) or read(self, piece)
    )
    for second in (100.0, 50.0, 110.0):
        n_read.clear()
        player.jump(second)
        assert HOUR_AT_10_HZ - 20 <= sum(n_read) <= HOUR_AT_10_HZ + 20  # a frame holds 20
        assert player.times()[-1] == pytest.approx(second, abs=0.021)


def test_no_recording_is_a_link_that_cannot_be_opened(tmp_path):
    (tmp_path / "x.csv").write_text("a,b")
    with pytest.raises(RecordingError, match="holds no recording"):
        ReplayTransport(tmp_path / "x.csv")
    with pytest.raises(ValueError, match="speed: got -1"):
        ReplayTransport(tmp_path / "x.csv", speed=-1.0)


def test_a_file_is_a_target(path):
    transport = open_target(str(path))()
    assert isinstance(transport, ReplayTransport)
    transport.close()


def test_a_probe_says_how_well_the_clock_was_known(path, capsys):
    from app.cli import main

    assert main(["attach", str(path), "--probe", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clock"] == {"offset_s": 7.0, "bound_s": 2e-4, "drift": 0.0}
