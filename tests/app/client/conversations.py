"""Random conversations: frames that are whole and whose messages have the right members, with any values in them."""

import math
import queue
import struct
from types import SimpleNamespace

from hypothesis import strategies as st

from app.client.reader import Reader
from app.client.session import Session
from app.protocol import CONTROL, CRC, HEADER, MESSAGES, SAMPLES, Frame, ProtocolError, encode_control

EDGES = [0, 1, -1, 5, 2**31, -(2**31), 2**53, 2**61, 2**63 - 1, 2**63, -(2**63), 2**64 - 1, -(2**64 - 1)]
EXTREMES = [0.0, -1.0, 0.5, 1e-300, 1e18, 3.4e38, -3.4e38, 1e300, -1e308, 1e308]
WORDS = [
    "",
    "x",
    "decode_s",
    "measured",
    "\x1b[2J\x9b31m",
    "\u202eevil\u2066\u2028",
    "<b>x</b>",
    "L" * 3000,
    "2026-01-01T00:00:00+00:00",
]
text = st.sampled_from(WORDS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
whole = st.sampled_from(EDGES) | st.integers(-(2**64) + 1, 2**64 - 1)
number = st.sampled_from(EXTREMES) | st.floats(allow_nan=False, allow_infinity=False) | whole
values = st.recursive(
    st.none() | st.booleans() | number | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
record = st.fixed_dictionaries(
    {"median": number, "q05": number, "q95": number, "provenance": st.sampled_from(["measured", "simulated", "made"])}
)
sound = st.floats(0.01, 10.0).map(lambda x: {"median": x, "q05": x / 2, "q95": x * 2, "n": 3, "provenance": "measured"})
NAMES = ("decode_s", "ttft_s", "tokens_per_s", "power_w", "top1_agreement", "memory_byte", "idle_power_w")
body = st.dictionaries(st.sampled_from(NAMES), sound | record | values, min_size=1, max_size=4).flatmap(
    lambda given: st.fixed_dictionaries(
        {name: st.just(value) for name, value in given.items()},
        optional=dict.fromkeys(("rails", "conditions", "notes", "applied", "spans", "attention", "stages_s"), values),
    )
) | st.fixed_dictionaries(
    {"read_byte_s": sound.map(lambda v: {**v, **{k: v[k] * 1e9 for k in ("median", "q05", "q95")}})}
)
channel = st.fixed_dictionaries(
    {"key": text, "unit": st.sampled_from(["W", "degC", "Hz", "frac", "odd"]), "source": text},
    optional={"native_period_s": number, "absent": text, "error": number, "total": text, "note": text, "covers": text},
)
entry = st.fixed_dictionaries({"value": values}, optional={"warning": text}) | st.fixed_dictionaries({"absent": text})
state = st.dictionaries(
    st.sampled_from(["power_mode", "governor", "others", "memory", "throttle"]) | text, entry | values, max_size=4
)
BETTER = {
    "board": st.fixed_dictionaries(
        {"name": text}, optional={"cpu": text, "n_threads": number, "memory_byte": number, "id": text}
    ),
    "can": st.fixed_dictionaries({"measure": st.just(True) | values, "bandwidth": st.just(True) | values}),
    "models": st.lists(st.fixed_dictionaries({"file": text, "byte": number}) | values, max_size=2),
    "state": state,
    "channels": st.lists(channel, max_size=4),
    "body": body | st.dictionaries(text, values, max_size=3),
    "id": st.integers(1, 6) | whole,
    "kind": st.sampled_from(["failed", "cancelled", "superseded"]) | text,
    "level": st.sampled_from(["info", "warning", "error"]) | text,
    "done_frac": st.floats(0, 1) | number,
}
BY_TYPE = {
    int: whole,
    str: text,
    bool: st.booleans(),
    dict: st.dictionaries(text, values, max_size=3),
    list: st.lists(values, max_size=3),
}
SPOKEN = (
    "hello",
    "catalogue",
    "progress",
    "result",
    "failed",
    "state",
    "pong",
    "log",
    "recording",
    "clock",
    "gap",
    "markers",
    "measured",
    "position",
    "welcome",
    "ready",
    "play",
)


def member(name, kind):
    return BETTER.get(name, BY_TYPE.get(kind, number) if not isinstance(kind, tuple) else number)


def message(op):
    needed = {name: member(name, kind) for name, kind in MESSAGES[op].items() if not name.endswith("?")}
    more = {name[:-1]: member(name[:-1], kind) for name, kind in MESSAGES[op].items() if name.endswith("?")}
    more |= {name: values for name in ("runtimes", "simulated", "recording") if op == "hello"}
    more |= {"state": state} if op == "hello" else {}
    return st.fixed_dictionaries({"op": st.just(op), **needed}, optional=more)


messages = st.sampled_from(SPOKEN).flatmap(message)
sample = st.builds(
    lambda t, y: struct.pack(f"<q{len(y)}f", t, *y),
    st.sampled_from([0, 10**9, 2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1),
    st.lists(st.sampled_from([0.0, 1.0, math.nan, math.inf, -math.inf, 3e38]), max_size=4),
)
samples = st.builds(
    lambda seq, rows: Frame(SAMPLES, seq, b"".join(rows)),
    st.integers(0, 2**64 - 1),
    st.lists(sample, min_size=1, max_size=3),
)
GREETING = {
    "op": "hello",
    "protocol": 1,
    "agent": "1",
    "t_ns": 0,
    "board": {"name": "b"},
    "can": {"measure": True, "bandwidth": True},
    "models": [{"file": "m", "byte": 1}],
}
CHANNELS = {
    "op": "catalogue",
    "channels": [{"key": "board.power_w", "unit": "W", "source": "s"}, {"key": "b", "unit": "Hz", "source": ""}],
    "rate_hz": 10,
}


class Conversation:
    """A session without a link, whose reader is fed frames; `events` is what its listener heard."""

    def __init__(self, role, on_event=None):
        self.events = []
        self.session = Session(lambda: None, on_event or self.events.append)
        self.session._link = SimpleNamespace(outgoing=queue.SimpleQueue(), silent_s=0.0)
        self.reader = Reader(self.session, role)
        self.asked = []

    def hear(self, said):
        """Take a message or a frame; what cannot be encoded is not valid and is left out."""
        if isinstance(said, dict):
            try:
                said = Frame(CONTROL, 0, encode_control(said, 0)[HEADER.size : -CRC.size])
            except ProtocolError:
                return
        try:
            self.reader.take(said)
        except ProtocolError:
            assert not self.reader.connected

    def ask(self):
        self.asked.append(self.session.measure({"context_tokens": 512.0}, ["decode", "ttft"]))
