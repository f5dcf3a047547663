"""Recordings with numbers that no sensor and no clock has: they play on, and their summary is finite."""

import json
import math
import struct

import numpy as np
import pytest

from app.client.events import Disconnected, Log, Position
from app.client.replay import ReplayTransport
from app.client.session import Session
from app.library.recorded import summary
from app.protocol import CONTROL, SAMPLES, encode_control, encode_frame
from tests.app.client.recordings import CATALOGUE, T0_NS, opened
from tests.app.client.recordings import hello as first
from tests.waiting import wait_until

OPENING = {"op": "recording", "format": 1, "made_by": "x", "t_ns": T0_NS, "time_utc": "2026-01-01T00:00:00+00:00"}
ODD_VALUES = (math.inf, -math.inf, math.nan, 3e38, -3e38)
ODD_TIMES = (-(2**63), -1, 0, T0_NS - 10**12, 2**63 - 1)


def written(path, rows, *messages):
    said = [OPENING, first(), {"op": "clock", "t_ns": T0_NS, "offset_s": 0.0, "drift": 0.0}, CATALOGUE, *messages]
    data = b"".join(m if isinstance(m, bytes) else encode_control(m, i) for i, m in enumerate(said))
    for seq, (t_ns, value) in enumerate(rows):
        data += encode_frame(SAMPLES, seq, struct.pack("<q2f", t_ns, value, 1.0))
    path.write_bytes(data)
    return path


def frame(**message):
    return encode_frame(CONTROL, 0, json.dumps(message).encode())


def around(t_ns, value):
    """A second of samples with an odd one in the middle."""
    fine = [(T0_NS + i * 10**8, 2.0) for i in range(10)]
    return [*fine[:5], (t_ns, value), *fine[5:]]


@pytest.mark.parametrize(
    "rows",
    [*(around(T0_NS + 45 * 10**7, value) for value in ODD_VALUES), *(around(t_ns, 2.0) for t_ns in ODD_TIMES)],
)
def test_a_recording_with_an_odd_sample_is_played_to_its_end_and_summed_up(tmp_path, rows):
    path = written(tmp_path / "odd.trilemma", rows)
    document = summary(opened(path))
    json.dumps(document, allow_nan=False)
    power = document["channels"][0]
    assert (power["least"], power["most"], power["mean"]) == (2.0, 2.0, pytest.approx(2.0))
    events = []
    session = Session(lambda: ReplayTransport(path, speed=0.0), events.append)
    session.start()
    wait_until(lambda: any(isinstance(e, Position) and e.paused for e in list(events)))
    session.stop()
    assert not any(isinstance(event, Disconnected) for event in events)
    t_s, y = session.rings.records(-np.inf, np.inf)
    assert (np.diff(t_s) >= 0).all()
    assert np.nansum(y[:, 0] == 2.0) >= 10


def test_words_of_a_recording_with_numbers_out_of_range_are_left_out_and_said(tmp_path):
    odd = (
        frame(op="clock", t_ns=1, offset_s=1e300, drift=0.0),
        frame(op="gap", t_ns=2**63, reason="x"),
        frame(op="markers", t_ns=0, a_ns=2**63, b_ns=0, shown=True),
        frame(op="measured", request={}, body={"decode_s": 5}, time_utc="2026-01-01T00:00:00+00:00"),
        frame(op="measured", request={}, body={}, time_utc="yesterday\u202e"),
    )
    path = written(tmp_path / "odd.trilemma", around(T0_NS, 2.0), *odd)
    assert opened(path).n_unreadable == len(odd)
    events = []
    session = Session(lambda: ReplayTransport(path, speed=0.0), events.append)
    session.start()
    wait_until(lambda: any(isinstance(e, Log) and f"{len(odd)} frames are left out" in e.text for e in list(events)))
    session.stop()
