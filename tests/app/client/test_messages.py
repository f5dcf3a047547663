"""What a board says of itself: whatever shape it comes in, what is shown of it can be relied on."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.agent import board
from app.client.messages import sound_hello, sound_state
from app.library.machine import cannot, machine_key
from app.text.state_text import state_rows, unknown_text
from app.views.panels.board import _board_text

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
