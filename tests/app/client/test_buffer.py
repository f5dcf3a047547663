"""What arrived lately, saved after the fact."""

import time
from datetime import UTC, datetime

import numpy as np
import pytest

from app.client.buffer import save_buffer
from app.client.recorder import RecordingError
from app.client.session import Session
from tests.app.client.recordings import BODY, CATALOGUE, REQUEST, hello, opened


# --- after the fact ---------------------------------------------------------------------------------------------------
def test_the_buffer_is_saved_after_the_fact_with_its_gaps(tmp_path):
    session = Session(lambda: None, lambda event: None)
    session.beginning = {"hello": hello(), "clock": {"op": "clock", "t_ns": 0, "offset_s": 9.0, "drift": 0}}
    session.beginning["catalogue"] = CATALOGUE
    session.rings.reset(2)
    now_s = time.monotonic()
    y = np.arange(200, dtype=np.float32).reshape(100, 2)
    session.rings.append(now_s - 60 + np.arange(100) * 0.1, y)
    session.rings.mark_gap()
    session.rings.append(now_s - 5 + np.arange(10) * 0.1, y[:10])
    n = save_buffer(
        tmp_path / "x.trilemma",
        session,
        55.0,
        [{"op": "measured", "request": REQUEST, "body": BODY, "time_utc": "2026-01-01T00:00:00+00:00"}],
    )
    recording = opened(tmp_path / "x.trilemma")
    before, after = list(recording.pieces())
    assert n == recording.n_records == len(before.t_ns) + 10
    assert before.t_ns[0] * 1e-9 == pytest.approx(now_s - 55, abs=0.2)
    assert after.y.tolist() == y[:10].tolist()
    assert not after.joined
    assert after.t_ns[0] * 1e-9 == pytest.approx(now_s - 5, abs=1e-6)
    assert abs((recording.time_utc(recording.last_ns) - datetime.now(UTC)).total_seconds() + 4.1) < 2
    assert recording.notes["measured"]
    with pytest.raises(RecordingError, match="nothing to save: no sample arrived in the last 1 s"):
        save_buffer(tmp_path / "y.trilemma", session, 1.0)
    assert not (tmp_path / "y.trilemma").exists()
