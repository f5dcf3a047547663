import json

import numpy as np
import pytest

from core.physics import clock as c
from tests.places import GOLDEN

Q = json.loads((GOLDEN / "quantities.json").read_text())


def test_exchange_golden():
    stamps = 100.0, 160.0, 165.0, 125.0
    assert c.offset_s(*stamps) == Q["B14.phy.offset"]
    assert c.delay_s(*stamps) == Q["B14.phy.delay"]
    assert c.asymmetry_error_s(12, 8) == Q["B14.phy.offset_error_from_asymmetry(df=12,dr=8)"]


def test_offset_is_within_half_the_round_trip_whatever_the_ways():
    rng = np.random.default_rng(0)
    true, forward, back, hold = (
        rng.normal(0, 5, 1000),
        rng.exponential(1, 1000),
        rng.exponential(1, 1000),
        rng.uniform(0, 1, 1000),
    )
    t1 = rng.uniform(0, 100, 1000)
    t2, t3 = t1 + forward + true, t1 + forward + hold + true
    t4 = t1 + forward + hold + back
    error = c.offset_s(t1, t2, t3, t4) - true
    np.testing.assert_allclose(error, c.asymmetry_error_s(forward, back), atol=1e-12)
    assert (np.abs(error) <= c.delay_s(t1, t2, t3, t4) + 1e-12).all()


def test_drift_golden():
    t = np.arange(10.0)
    line = c.fit_line(t, 5e-3 + 20e-6 * t)
    assert line.drift * 1e6 == pytest.approx(Q["B14.phy.skew_ppm"], rel=1e-9)
    assert line.offset_s == pytest.approx(Q["B14.phy.offset_s"], rel=1e-9)
    assert line.at(100.0) == pytest.approx(7e-3)


def test_hull_is_immune_to_queues_and_least_squares_is_not():
    rng = np.random.default_rng(3)
    t = np.sort(rng.uniform(0, 600, 400))
    clean = 2e-3 + 20e-6 * t
    seen = clean + np.where(rng.random(400) < 0.7, rng.exponential(5e-3, 400), 0.0)
    hull, squares = c.hull_line(t, seen), c.fit_line(t, seen)
    assert hull.drift == pytest.approx(20e-6, rel=1e-6)
    assert hull.offset_s == pytest.approx(2e-3, rel=1e-6)
    assert abs(squares.offset_s - 2e-3) > 1e-3
    seen[::2] += 10.0
    assert c.hull_line(t, seen).drift == pytest.approx(20e-6, rel=1e-4)


def test_hull_lies_below_all_points_in_any_order():
    rng = np.random.default_rng(4)
    t, y = rng.integers(0, 20, 60).astype(float), rng.normal(size=60)
    line = c.hull_line(t, y)
    assert (y - line.at(t) > -1e-12).all()
    assert line == c.hull_line(t[::-1], y[::-1])


def test_filter_finds_drift_and_knows_its_error():
    rng = np.random.default_rng(5)
    t = np.arange(0, 300, 1.0)
    true = 1e-3 + 20e-6 * t
    found = c.track(t, true + rng.normal(0, 50e-6, t.size), 50e-6)
    assert found.drift[-1] == pytest.approx(20e-6, abs=4 * found.drift_sd[-1])
    assert found.offset_s[-1] == pytest.approx(true[-1], abs=4 * found.offset_sd_s[-1])
    assert found.offset_sd_s[-1] < 20e-6
    assert (np.diff(found.drift_sd) < 0).all()


def test_lowest_delays_are_kept():
    delay = np.array([5, 1, 9, 2, 7, 3, 8, 6, 4, 10.0])
    assert np.flatnonzero(c.quickest(delay, 0.2)).tolist() == [1, 3]
    assert c.quickest([4.0], 0.1).tolist() == [True]


def test_network_golden():
    pairs, readings = [(0, 1), (1, 2), (0, 2)], [3.0, -5.0, -2.0]
    np.testing.assert_allclose(c.network_offsets_s(3, pairs, readings), Q["B14.phy.network_offsets"], atol=1e-12)
    rows = np.array([[-1, 1, 0], [0, -1, 1], [-1, 0, 1]])
    assert np.linalg.matrix_rank(rows) == Q["B14.chk.rank_without_gauge"]
    with pytest.raises(ValueError, match="connect only part of the 3 clocks"):
        c.network_offsets_s(3, [(0, 1)], [3.0])


def test_what_83_ns_are_worth_golden():
    assert pytest.approx(Q["B14.chk.light_in_83ns_m"], rel=1e-12) == c.LIGHT_M_S * 83e-9
    assert c.time_for_distance_s(0.1) * 1e9 == pytest.approx(Q["B14.chk.ns_for_10cm_tof"], rel=1e-12)
    assert c.time_for_distance_s(0.1, 33.3) * 1e3 == pytest.approx(Q["B14.chk.ms_for_10cm_at_33.3mps"], rel=1e-12)
    assert pytest.approx(Q["B14.chk.motion_at_33.3mps_in_83ns_um"], rel=1e-12) == 33.3 * 83e-9 * 1e6


def test_dscp_golden():
    assert pytest.approx(Q["B15.tick_s"], rel=1e-15) == c.DSCP_TICK_S
    assert pytest.approx(Q["B15.wrap_h"], rel=1e-15) == c.DSCP_WRAP_S / 3600
    for key, value in Q.items():
        if key.startswith("B15.asw.dscp("):
            assert c.dscp_of_time(int(key[13:-1])) == value
    assert c.tos_byte(46) == Q["B15.chk.tos_byte_of_dscp46"]


def test_dscp_decodes_to_the_span_that_wrote_it():
    rng = np.random.default_rng(6)
    for time_ns in rng.integers(0, 2**61, 200).tolist():
        first, last = c.times_of_dscp(c.dscp_of_time(time_ns), time_ns)
        assert first <= time_ns <= last
        assert c.dscp_of_time(first) == c.dscp_of_time(last) == c.dscp_of_time(time_ns)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: c.fit_line([1.0, 1.0], [1.0, 2.0]), "holds 1 different times"),
        (lambda: c.hull_line([1.0], [1.0]), "expected two equal columns"),
        (lambda: c.quickest([1.0], 0.0), "share = 0"),
        (lambda: c.track([0.0, 1.0], [0.0, 1.0], 0.0), "sd_s = 0"),
        (lambda: c.network_offsets_s(2, [(0, 2)], [1.0]), "pairs = 2"),
        (lambda: c.dscp_of_time(-1), "time_ns = -1"),
        (lambda: c.tos_byte(64), "dscp = 64"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
