"""Recordings that tests make and read."""

from datetime import UTC, datetime

from app.client.recorder import Recorder
from app.client.recording import Recording
from app.protocol import SAMPLES, Frame, record_struct

RECORD = record_struct(2)
BODY = {"decode_s": {"median": 0.02, "q05": 0.019, "q95": 0.021, "n": 9, "provenance": "measured"}}
REQUEST = {"op": "measure", "id": 1, "point": {"context_tokens": 512}, "what": ["decode"]}


def hello(**more):
    made = {"op": "hello", "protocol": 1, "agent": "9.9", "t_ns": 0, "board": {"name": "Bench board"}}
    return {**made, "can": {"measure": True}, "models": [], **more}


def channel(key, absent=""):
    return {"key": key, "unit": "W", "source": "x", "native_period_s": None, "absent": absent}


CATALOGUE = {"op": "catalogue", "channels": [channel("a"), channel("b"), channel("c", "not here")], "rate_hz": 10}
T0_NS = 10**12


def samples(first, count, period_ns=10**8):
    body = b"".join(RECORD.pack(T0_NS + i * period_ns, i, -i) for i in range(first, first + count))
    return Frame(SAMPLES, first, body)


def record(path, n_frames=30, per_frame=2):
    """Make a recording of two channels, 10 Hz, with one measurement in the middle; the board's clock is 5 s ahead."""
    made = Recorder(path, (T0_NS - 5 * 10**9, datetime(2026, 1, 1, tzinfo=UTC)))
    made.note(hello())
    made.note({"op": "clock", "t_ns": T0_NS - 5 * 10**9, "offset_s": 5.0, "bound_s": 1e-4, "drift": 1e-6})
    made.note(CATALOGUE)
    for i in range(n_frames):
        made.take(samples(i * per_frame, per_frame))
        if i == n_frames // 2:
            made.note({"op": "measured", "request": REQUEST, "body": BODY, "time_utc": "2026-01-01T00:00:03+00:00"})
    made.close()
    assert not made.failure
    return path


OPEN = []


def opened(path):
    OPEN.append(Recording(path))
    return OPEN[-1]


def values(recording):
    return [int(v) for piece in recording.pieces() for v in piece.y[:, 0]]
