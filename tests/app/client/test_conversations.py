"""Whatever order valid frames come in and whatever they hold: the reader lives, and what it hands on is sound."""

import dataclasses
import math
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.client.events import ClockRead, Failed, Gap, Marked, Measured, Position, Result
from app.measurement_body import check_body
from tests.app.client.conversations import CHANNELS, GREETING, Conversation, messages, samples

OF_PLAYERS = (Gap, Marked, Measured, Position)


def parts(value):
    """Yield the scalars of an event; the bound of a clock is infinite before the first ping."""
    if dataclasses.is_dataclass(value):
        skipped = ("bound_s",) if isinstance(value, ClockRead) else ()
        value = [getattr(value, field.name) for field in dataclasses.fields(value) if field.name not in skipped]
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from parts(item)
    else:
        yield value


def sound(value):
    for part in parts(value):
        if isinstance(part, str):
            assert all(unicodedata.category(char) not in ("Cc", "Cs", "Zl", "Zp") or char in "\n\t" for char in part)
        elif isinstance(part, (int, float)):
            assert abs(part) < 2**64 if isinstance(part, int) else math.isfinite(part)
        else:
            assert part is None


class Talk(RuleBasedStateMachine):
    """A board that says anything, and a program that measures now and then."""

    role = "agent"

    @initialize(begins=st.booleans())
    def begin(self, begins):
        self.talk = Conversation(self.role)
        self.n_checked = 0
        if begins:
            self.talk.hear(GREETING)
            self.talk.hear(CHANNELS)

    @rule(said=messages | samples)
    def hear(self, said):
        self.talk.hear(said)

    @rule()
    def ask(self):
        self.talk.ask()

    @invariant()
    def what_is_handed_on_is_sound(self):
        if not hasattr(self, "talk"):
            return
        events = self.talk.events
        for event in events[self.n_checked :]:
            sound(event)
            if self.role == "agent":
                assert not isinstance(event, OF_PLAYERS)
            if isinstance(event, Result):
                check_body(event.body, ("measured", "simulated"), ("decode_s", "ttft_s"))
        self.n_checked = len(events)
        answered = [event.request_id for event in events if isinstance(event, (Result, Failed))]
        assert len(answered) == len(set(answered))
        t_s, y = self.talk.session.rings.records(-math.inf, math.inf)
        assert np.isfinite(t_s).all()
        assert (np.diff(t_s) >= 0).all()
        assert not np.isinf(y).any()


class Play(Talk):
    """The same of the player of a recording."""

    role = "recording"


@pytest.mark.parametrize("machine", [Talk, Play])
def test_any_order_of_valid_frames_is_survived(machine):
    case = machine.TestCase
    case.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
    case("runTest").runTest()


@settings(max_examples=60, deadline=None)
@given(messages)
def test_no_message_of_a_stranger_passes_the_door_before_the_hello(said):
    talk = Conversation("agent")
    talk.hear(said)
    assert talk.reader.connected == any(type(event).__name__ == "Connected" for event in talk.events)
