import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from core.physics import dvfs
from core.spec import Absent
from tests.places import GOLDEN

Q = json.loads((GOLDEN / "quantities.json").read_text())
M = json.loads((GOLDEN / "models.json").read_text())
MLU370 = (np.array([800e6, 1200e6, 1400e6]), np.array([32.0, 68.0, 92.0]), np.array([186.0, 312.0, 334.0]))


def test_published_table_gives_the_golden_figures():
    f, p, x = MLU370
    np.testing.assert_allclose(x / p, Q["B04.asw.eff"], rtol=1e-12)
    np.testing.assert_allclose(np.diff(x) / np.diff(p), Q["B04.chk.marginal_img_per_J"], rtol=1e-12)
    np.testing.assert_allclose(p / x**2, Q["B04.phy.EDP(P/X^2)"], rtol=1e-12)
    np.testing.assert_allclose(x / (f / 1e6), Q["B04.chk.X_per_MHz"], rtol=1e-12)
    assert (x[1] / f[1]) / (x[0] / f[0]) == pytest.approx(Q["B04.chk.superlinear_800_1200"], rel=1e-12)
    np.testing.assert_allclose(np.diff(np.log(p)) / np.diff(np.log(f)), Q["B04.chk.exponent_P_vs_f"], rtol=1e-12)
    np.testing.assert_allclose(dvfs.kneedle_difference(f, x), Q["B04.phy.kneedle_diff_vs_f"], atol=1e-12)
    np.testing.assert_allclose(dvfs.kneedle_difference(p, x), Q["B04.phy.kneedle_diff_vs_P"], atol=1e-12)
    assert f[dvfs.kneedle(f, x)] == Q["B04.phy.kneedle_argmax_vs_f"] * 1e6
    assert f[dvfs.kneedle(p, x)] == Q["B04.phy.kneedle_argmax_vs_P"] * 1e6
    assert f[np.argmin(p / x**3)] == Q["B04.phy.argmin_ED2P"] * 1e6


def test_knees_of_the_published_table():
    found = dvfs.knees(*MLU370, log_sd=0.02, price_per_w=2.0)
    assert found["performance_per_watt"].clock_hz == Q["B04.phy.argmax_perf_per_watt"] * 1e6
    assert found["performance_per_watt"].edge
    assert found["energy_delay"].clock_hz == Q["B04.phy.argmin_EDP"] * 1e6
    assert not found["energy_delay"].edge
    assert found["envelope_bend"].clock_hz == Q["B04.phy.kneedle_argmax_vs_P"] * 1e6
    assert found["price"].clock_hz == 1200e6  # 3.5 > 2 > 0.917 per watt
    for knee in found.values():
        assert knee.q05_hz <= knee.clock_hz <= knee.q95_hz


def test_a_noisy_table_widens_the_interval():
    f = np.linspace(0.4e9, 2e9, 17)
    p, x = dvfs.power_w(f, 2.0, 1e-27, 3.0), f / 1e6
    sharp, vague = (dvfs.knees(f, p, x, log_sd=s)["performance_per_watt"] for s in (0.001, 0.05))
    assert sharp.q95_hz - sharp.q05_hz < vague.q95_hz - vague.q05_hz
    assert vague.q05_hz <= sharp.clock_hz <= vague.q95_hz


def test_voltage_implied_by_the_published_power():
    f, p, _ = MLU370
    volts = 0.85 * np.sqrt(p / p[1] * f[1] / f)
    assert volts[0] == pytest.approx(Q["B04.chk.V_at_800_if_.85_at_1200_noleak"], rel=1e-12)
    assert volts[2] == pytest.approx(Q["B04.chk.V_at_1400_if_.85_at_1200_noleak"], rel=1e-12)
    np.testing.assert_allclose(dvfs.relative_dynamic_power(f, volts), p / p[-1], rtol=1e-12)


def test_optimal_clock_golden():
    assert dvfs.optimal_clock_hz(20, 1e-8, 3) == pytest.approx(Q["B04.phy.f_opt_closed(P0=20,k=1e-8,n=3)"], rel=1e-12)
    assert dvfs.power_w(1000.0, 0, 1e-8, 3) / 20 == pytest.approx(Q["B04.phy.Pdyn/P0_at_opt"], rel=1e-12)
    edp = dvfs.optimal_clock_hz(20, 1e-8, 3, delay_exponent=2)
    assert edp == pytest.approx(Q["B04.phy.f_opt_EDP_closed"], rel=1e-12)
    best = dvfs.optimal_clock_hz(5, 2e-9, 2.6)
    assert best == pytest.approx(M["M10.f_opt(P0=5,k=2e-9,n=2.6)"], rel=1e-12)
    assert dvfs.power_w(best, 0, 2e-9, 2.6) / 5 == pytest.approx(M["M10.Pdyn_at_opt/P0"], rel=1e-12)
    with_memory = dvfs.optimal_clock_hz(5, 2e-9, 2.6, cycles=1e3, memory_s=0.5)
    golden = M["M10.f_opt_with_memory(C=1e3,M=.5,same P)"]  # found by minimisation, which stops about 1e-8 away
    assert with_memory == pytest.approx(golden, rel=1e-7)
    assert dvfs.time_s(1e9, 1e6, 5e-3) * 1e3 == pytest.approx(
        Q["B04.phy.time(f)=Cyc/f+Tmem example f=1GHz,Cyc=1e6,Tmem=5ms"], rel=1e-12
    )


@pytest.mark.parametrize("m", [1.0, 2.0])
def test_closed_form_equals_bounded_minimisation(m):
    rng = np.random.default_rng(3)
    for _ in range(25):
        p0, n, mem = rng.uniform(1, 30), rng.uniform(m + 0.3, 4), rng.choice([0.0, rng.uniform(0, 2)])
        k = p0 / 1000.0**n
        best = float(dvfs.optimal_clock_hz(p0, k, n, delay_exponent=m, cycles=1e3, memory_s=mem))
        cost = lambda u, p0=p0, k=k, n=n, mem=mem: np.log(  # noqa: E731
            dvfs.power_w(np.exp(u), p0, k, n) * dvfs.time_s(np.exp(u), 1e3, mem) ** m
        )
        found = minimize_scalar(
            cost, bounds=(np.log(best) - 2, np.log(best) + 2), method="bounded", options={"xatol": 1e-10}
        )
        assert float(np.exp(found.x)) == pytest.approx(best, rel=1e-6)


def test_optimal_clock_falls_with_memory_time_and_broadcasts():
    mem = np.array([0.0, 0.1, 0.5, 2.0])
    best = dvfs.optimal_clock_hz(5, 2e-9, 2.6, cycles=1e3, memory_s=mem)
    assert (np.diff(best) < 0).all()
    assert best[2] == dvfs.optimal_clock_hz(5, 2e-9, 2.6, cycles=1e3, memory_s=0.5)


def test_kneedle_golden():
    x = np.linspace(0, 1, 10)
    assert x[dvfs.kneedle(x, -1 / (x + 0.1) + 5)] == pytest.approx(M["M10.kneedle_figure2"])


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 30), st.floats(0.01, 50), st.floats(-9, 9), st.floats(0.01, 50), st.integers(0, 2**31))
def test_kneedle_does_not_move_under_affine_maps(n, scale, shift, height, seed):
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.uniform(0.1, 1, n))
    y = np.cumsum(np.sort(rng.uniform(0.01, 1, n))[::-1])
    np.testing.assert_allclose(
        dvfs.kneedle_difference(scale * x + shift, height * y - shift), dvfs.kneedle_difference(x, y), atol=1e-9
    )


def test_tables_without_a_knee_say_so():
    one = dvfs.knees([1e9], [5.0], [10.0], log_sd=0.02)
    assert all(isinstance(v, Absent) for v in one.values())
    line = dvfs.knees([1e9, 2e9, 3e9], [1.0, 2.0, 3.0], [10.0, 20.0, 30.0], log_sd=0.0)
    assert isinstance(line["envelope_bend"], Absent)
    assert "straight" in line["envelope_bend"].reason
    assert dvfs.kneedle([1.0, 2.0], [1.0, 4.0]) is None
    assert "price" in line["price"].reason


def test_concave_envelope_drops_what_lies_below():
    hull = dvfs.concave_envelope([0, 1, 2, 3, 3], [0, 1, 3, 3.5, 2])
    assert hull.tolist() == [0, 2, 3]


def test_voltage_forms():
    f = np.array([0.1e9, 1e9, 2e9])
    np.testing.assert_allclose(dvfs.linear_voltage_v(f, 0.7, 0.4, 0.3e-9), [0.7, 0.7, 1.0])
    v = np.array([0.6, 0.8, 1.0])
    clock = dvfs.alpha_power_clock_hz(v, 3e9, 0.35, 1.3)
    assert (np.diff(clock) > 0).all()
    assert clock[2] == pytest.approx(3e9 * 0.65**1.3)
    table = ([300e6, 800e6, 1000e6], [0.7, 0.75, 0.85])
    np.testing.assert_array_equal(
        dvfs.table_voltage_v(np.array([100e6, 300e6, 301e6, 1e9]), *table), [0.7, 0.7, 0.75, 0.85]
    )


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: dvfs.table_voltage_v(2e9, [1e9], [0.8]), "clock_hz = 2e\\+09 is outside"),
        (lambda: dvfs.alpha_power_clock_hz(0.3, 1e9, 0.35, 1.3), "voltage_v - threshold_v"),
        (lambda: dvfs.optimal_clock_hz(5, 1e-9, 2.0, delay_exponent=2), "exponent = 2"),
        (lambda: dvfs.time_s(0.0, 1e3), "clock_hz = 0"),
        (lambda: dvfs.knees([2e9, 1e9], [1, 2], [1, 2], log_sd=0.1), "clock_hz steps"),
        (lambda: dvfs.knees([1e9, 2e9], [1, 2, 3], [1, 2], log_sd=0.1), "shapes"),
        (lambda: dvfs.knees([1e9, 2e9], [0, 2], [1, 2], log_sd=0.1), "power_w = 0"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
