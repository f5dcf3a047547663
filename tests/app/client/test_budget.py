"""Budgets of what a board may say."""

import struct

import pytest

from app.client import budget
from app.client.budget import BUDGETS, CHANNELS, LOG, STATE, Bucket, Budgets, Pace
from app.client.events import BoardState, Catalogue, Log, Samples
from app.protocol import CONTROL, SAMPLES, Frame
from tests.app.client.conversations import CHANNELS as TWO_CHANNELS
from tests.app.client.conversations import GREETING, Conversation


class Hours:
    """A clock that a test moves."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    made = Hours()
    monkeypatch.setattr(budget.time, "monotonic", made)
    return made


def test_a_bucket_gives_its_burst_and_then_its_rate():
    clock = Hours()
    bucket = Bucket(2.0, 3.0, clock)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    clock.now_s += 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]
    clock.now_s += 1e6
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


def test_what_is_owed_takes_its_time():
    clock = Hours()
    bucket = Bucket(10.0, 5.0, clock)
    assert bucket.owe(5.0) == 0.0
    assert bucket.owe(1.0) == pytest.approx(0.1)
    assert bucket.owe(1.0) == pytest.approx(0.2)


def test_what_goes_beyond_is_counted_and_said_in_one_sentence_at_most_every_few_seconds():
    clock = Hours()
    budgets = Budgets(clock)
    n = round(BUDGETS[LOG][1])
    assert sum(budgets.allows(LOG) for _ in range(n + 7)) == n
    assert budgets.sentence() == "left out of what the board sends: 7 lines of its log"
    budgets.allows(LOG)
    assert budgets.sentence() == ""
    clock.now_s += budget.SAY_S
    assert budgets.sentence() == "left out of what the board sends: 1 lines of its log"
    assert budgets.sentence() == ""


def test_a_board_as_quick_as_any_is_never_held_up_and_a_flood_is():
    clock = Hours()
    pace, quick = Pace(clock), Frame(SAMPLES, 0, bytes(20 * (8 + 4 * 100)))  # 100 channels at 1000 Hz
    for _ in range(2000):
        assert pace.pause_s(quick) == 0.0
        clock.now_s += 0.02
    flood = Frame(CONTROL, 0, bytes(60_000))
    taken = 0
    began_s = clock.now_s
    while clock.now_s < began_s + 20.0:
        clock.now_s += pace.pause_s(flood) + 1e-4
        taken += 60_000
    assert taken / 20.0 == pytest.approx(budget.MESSAGE_BYTE_S, rel=0.2)


@pytest.fixture
def talk():
    made = Conversation("agent")
    made.hear(GREETING)
    made.hear(TWO_CHANNELS)
    return made


def count(talk, kind):
    return sum(isinstance(event, kind) for event in talk.events)


def test_a_log_that_floods_is_cut_and_what_is_beyond_is_said(talk):
    for i in range(1000):
        talk.hear({"op": "log", "level": "warning", "text": f"{i} " + "L" * 60_000})
    lines = [event.text for event in talk.events if isinstance(event, Log)]
    assert len(lines) < 200
    assert max(map(len, lines)) <= 501
    assert "lines of its log" in " ".join(lines)


def test_the_last_state_of_a_flood_is_shown_in_the_end(talk, monkeypatch):
    for i in range(100):
        talk.hear({"op": "state", "state": {"power_mode": {"value": f"mode {i}"}}})
    assert count(talk, BoardState) == BUDGETS[STATE][1]
    monkeypatch.setattr(talk.reader._budgets, "takes", lambda name: True)
    talk.hear({"op": "log", "level": "info", "text": "x"})
    assert talk.events[-2].state == {"power_mode": {"value": "mode 99"}}


def test_channels_that_change_all_the_time_are_taken_seldom_and_their_samples_with_them(talk, monkeypatch):
    def catalogue(i):
        return {"op": "catalogue", "channels": [{"key": f"c{i}", "unit": "W", "source": ""}], "rate_hz": 10}

    for i in range(50):
        talk.hear(catalogue(i))
    assert count(talk, Catalogue) == BUDGETS[CHANNELS][1]
    one = Frame(SAMPLES, 0, bytes(8 + 4))
    talk.hear(one)
    assert count(talk, Samples) == 0
    monkeypatch.setattr(talk.reader._budgets, "takes", lambda name: True)
    talk.hear(one)
    assert [c.key for c in [e for e in talk.events if isinstance(e, Catalogue)][-1].channels] == ["c49"]
    assert count(talk, Samples) == 1


def test_of_very_many_channels_the_first_are_kept_with_their_samples(talk):
    n = 1700
    talk.hear(
        {"op": "catalogue", "channels": [{"key": f"{i:x}", "unit": "W", "source": ""} for i in range(n)], "rate_hz": 1}
    )
    assert len([e for e in talk.events if isinstance(e, Catalogue)][-1].channels) == 256
    assert "it has 1700 channels: the first 256 are kept and shown" in talk.events[-1].text
    talk.hear(Frame(SAMPLES, 0, struct.pack(f"<q{n}f", 0, *range(n))))
    assert talk.session.rings.n_channels == 256
    assert talk.session.rings.window(255, -1e18, 1e18)[1].tolist() == [255.0]
