"""What a board says of itself: whatever shape it comes in, what is shown of it can be relied on."""

import json
import struct
import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.agent import board
from app.client.events import Failed, Log
from app.client.messages import readings, sound_hello, sound_state
from app.library.machine import cannot, machine_key
from app.protocol import CONTROL, SAMPLES, Frame
from app.text.state_text import state_rows, unknown_text
from app.views.panels.board import _board_text
from tests.app.client.conversations import CHANNELS, GREETING, Conversation

SOUND = {"median": 0.01, "q05": 0.01, "q95": 0.01, "provenance": "measured"}
PLAYED = {
    "position": {"op": "position", "t_ns": 5, "first_ns": 0, "last_ns": 10**10, "speed": 1.0, "paused": False},
    "gap": {"op": "gap", "t_ns": 1, "reason": "x"},
    "markers": {"op": "markers", "t_ns": 0, "a_ns": 0, "b_ns": 1, "shown": True},
    "clock": {"op": "clock", "t_ns": 1, "offset_s": 0.0, "drift": 0.0},
    "measured": {"op": "measured", "request": {}, "body": {}, "time_utc": "2026-01-01T00:00:00+00:00"},
    "recording": {"op": "recording", "format": 1, "made_by": "x", "t_ns": 0, "time_utc": "2026-01-01T00:00:00+00:00"},
    "play": {"op": "play"},
}
HELLO = {
    "op": "hello",
    "agent": "1",
    "board": {
        "name": "Orin",
        "cpu": "A78",
        "n_threads": 8,
        "memory_byte": 8e9,
        "cache_byte": {"L2": 1},
        "virtual": True,
    },
    "can": {"measure": True, "bandwidth": {"absent": "no torch"}, "torch": "2.13", "weights": ["int4"]},
    "models": [{"file": "m.gguf", "byte": 98}],
    "state": {"memory": {"value": {"x": 1}}, "others": {"absent": "not yet"}, "new": {"value": 3, "warning": "hot"}},
    "runtimes": [{"runtime": "llama.cpp", "model": "m", "kind": "llama-bench"}],
    "new_member": [1],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64), 2**64) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def members(*names):
    return st.dictionaries(st.sampled_from(names) | st.text(max_size=5), JSON, max_size=5)


HELLOS = st.fixed_dictionaries(
    {
        "board": members("name", "cpu", "n_threads", "memory_byte", "available_byte", "virtual", "id", "os"),
        "can": members("measure", "bandwidth", "torch", "weights", "kv"),
        "models": st.lists(JSON | members("file", "byte"), max_size=3),
    },
    optional={
        "state": JSON | members("others", "memory", "governor"),
        "runtimes": JSON,
        "simulated": JSON,
        "recording": JSON,
    },
)


def test_what_is_as_expected_stays_as_it_is_the_unknown_too():
    assert sound_hello(HELLO) == (HELLO, [])


def test_the_hello_of_this_machine_is_sound():
    from pathlib import Path

    described = board.describe(Path("/"))
    assert sound_hello({**HELLO, "board": described})[0]["board"] == described


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"board": {"name": 5}}, ["board.name"]),
        ({"board": {"name": "x", "memory_byte": "lots", "n_threads": True}}, ["board.memory_byte", "board.n_threads"]),
        ({"board": {"name": "x", "n_threads": float("inf")}}, ["board.n_threads"]),
        ({"can": {"measure": 1, "bandwidth": {"absent": 5}, "kv": [7]}}, ["can.measure", "can.bandwidth", "can.kv"]),
        ({"models": [1, {"file": "m"}]}, ["models"]),
        ({"state": 7}, ["state"]),
        (
            {"state": {"others": 5, "x": {"absent": []}, "y": {"value": 1, "warning": {}}}},
            ["state.others", "state.x", "state.y"],
        ),
        ({"runtimes": [3]}, ["runtimes"]),
        ({"simulated": "perhaps", "recording": 4}, ["recording", "simulated"]),
    ],
)
def test_what_has_another_shape_is_left_out_and_named(change, wrong):
    sound, named = sound_hello({**HELLO, **change})
    assert named == wrong
    assert isinstance(sound["board"]["name"], str)
    assert sound_hello(sound) == (sound, [])


@settings(max_examples=300, deadline=None)
@given(HELLOS)
@example({"board": {"name": ""}, "can": {}, "models": []})
@example({"board": {"n_threads": float("inf")}, "can": {}, "models": []})
def test_whatever_a_board_says_can_be_shown(message):
    sound, _ = sound_hello(message)
    assert machine_key(sound)
    assert isinstance(cannot(sound, "measure"), str)
    assert _board_text(sound["board"], simulated=bool(sound.get("simulated")))
    float(sound["board"].get("memory_byte", 0))
    state = sound.get("state", {})
    state_rows(state)
    unknown_text(state)
    assert "absent" not in state.get("others", {}) or isinstance(state["others"]["absent"], str)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_a_state_of_any_shape_can_be_shown(state):
    sound, _ = sound_state(state)
    state_rows(sound)
    unknown_text(sound)


@pytest.mark.parametrize("op", ["position", "gap", "markers", "clock", "measured", "recording", "play", "ready"])
def test_an_agent_may_not_say_what_a_player_says(op):
    said = Conversation("agent")
    said.hear(GREETING)
    n = len(said.events)
    said.hear(PLAYED.get(op, {"op": "ready", "agent": "x"}))
    (event,) = said.events[n:]
    wanted = f"{op} is a word of recordings" if op in PLAYED and op != "play" else f"{op} is not an answer"
    assert event == Log("warning", f"message from the agent ignored: {wanted}")
    assert said.session.position is None


def test_a_player_may_say_it_and_no_number_beyond_its_range():
    said = Conversation("recording")
    said.hear(GREETING)
    said.hear(PLAYED["position"])
    assert said.session.position.last_s == 10.0
    for name, value in (("t_ns", -(2**63)), ("first_ns", 2**63), ("speed", -1e300), ("speed", 1e4)):
        n = len(said.events)
        said.hear({**PLAYED["position"], name: value})
        (event,) = said.events[n:]
        assert event.text.startswith(f"message from the agent ignored: position: {name}: expected")
    assert said.session.position.last_s == 10.0


def test_an_agent_that_calls_itself_a_recording_is_none():
    said = Conversation("agent")
    said.hear({**GREETING, "recording": {"file": "x", "t_ns": 0, "time_utc": "2026-01-01T00:00:00+00:00"}})
    assert "recording" not in said.events[0].hello


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            {"decode_s": {"median": -1, "q05": -2, "q95": 0, "provenance": "measured"}},
            "decode_s.median: got -1, expected",
        ),
        ({"decode_s": {**SOUND, "provenance": "simulated"}}, "decode_s.provenance: got 'simulated', expected measured"),
        ({"decode_s": SOUND, "rails": {"a": 5}}, "rails.a: got 5, expected an object"),
        ({}, "the result: expected decode_s or ttft_s, a value or absent with a reason"),
        (5, "result: body: got 5, expected dict"),
    ],
)
def test_a_result_that_is_not_sound_is_one_failure_that_names_board_field_and_expectation(body, says):
    said = Conversation("agent")
    said.hear(GREETING)
    said.ask()
    n = len(said.events)
    for _ in range(2):
        said.hear(Frame(CONTROL, 0, json.dumps({"op": "result", "id": said.asked[0], "body": body}).encode()))
    failed, *_ = said.events[n:]
    assert failed.kind == "failed"
    assert failed.reason.startswith(f"b: the result is not as expected: {says}")
    assert sum(isinstance(event, Failed) for event in said.events) == 1


def test_readings_that_no_sensor_has_are_missing():
    given = np.array([1.0, -2.0, np.inf, -np.inf, np.nan, 3e38, 0.0], np.float32)
    assert np.array_equal(readings(given), np.array([1.0, -2.0, *[np.nan] * 4, 0.0], np.float32), equal_nan=True)


def test_a_sample_of_a_live_board_that_lies_far_in_the_future_is_left_out_and_counted():
    said = Conversation("agent")
    said.hear({**GREETING, "t_ns": time.monotonic_ns()})
    said.hear(CHANNELS)
    for t_ns in (2**63 - 1, time.monotonic_ns() + 3600 * 10**9, time.monotonic_ns()):
        said.hear(Frame(SAMPLES, 0, struct.pack("<q2f", t_ns, 1.0, 2.0)))
    assert len(said.session.rings.records(-np.inf, np.inf)[0]) == 1
    assert "samples at impossible times" in " ".join(event.text for event in said.events if isinstance(event, Log))
