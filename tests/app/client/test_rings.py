"""Rings of samples."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.client.rings import Rings


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


def test_a_jump_of_the_boards_clock_leaves_no_record_in_the_future():
    rings = Rings(1, capacity=4)
    for t_s in (1.0, 2.0, 3600.0, 3601.0, 3602.0, 3603.0, 3604.0):
        rings.append(np.array([t_s]), np.array([[t_s]], np.float32))
    rings.end_at(10.0)
    rings.append(np.array([11.0]), np.array([[11.0]], np.float32))
    times, y = rings.window(0, -math.inf, math.inf)
    assert times.tolist() == [10.0, 10.0, 10.0, 11.0]
    assert y.tolist() == [3602.0, 3603.0, 3604.0, 11.0]
