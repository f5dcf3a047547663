from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.predict.parameters import prior
from core.predict.power_mode_transfer import transferred
from core.predict.scenario import initial_posterior, predict
from core.spec import OperatingPoint, PowerMode

CATALOGUE = load_catalogue()
POINT = OperatingPoint(
    board="jetson_orin_nano_8gb_super",
    runtime="llamacpp_gpu",
    model="llama-3.2-1b",
    weights="q4_k_m",
    power_mode="MAXN",
)
KNOWN = prior(CATALOGUE.resolve(POINT))
FAST = PowerMode("fast", 100e9, 10e12, clock_hz=1e9)


def change(new):
    moved = transferred(KNOWN, FAST, new)
    return {name: float(after - before) for name, after, before in
            zip(KNOWN.names, moved.log_mean, KNOWN.log_mean, strict=True)}, moved  # fmt: skip


def test_same_mode_changes_nothing_but_its_name():
    shifts, moved = change(PowerMode("same", 100e9, 10e12, clock_hz=1e9))
    assert all(shift == 0.0 for shift in shifts.values())
    np.testing.assert_array_equal(moved.log_cov, KNOWN.log_cov)
    assert moved.power_mode == "same"


def test_unpacking_takes_time_by_the_clock_alone():
    slow = PowerMode("slow", 50e9, 5e12, clock_hz=0.5e9)
    shifts, moved = change(slow)
    # rho is in units of reading at peak: time = rho / bandwidth doubles with half the clock
    assert shifts["rho"] == pytest.approx(np.log(0.5) - np.log(0.5))
    assert shifts["t_layer_s"] == pytest.approx(0.5 * np.log(2.0))
    assert shifts["eta"] == shifts["kappa"] == shifts["eta_compute"] == 0.0
    assert moved.bandwidth_byte_s == 50e9
    only_clock, _ = change(PowerMode("clock", 100e9, None, clock_hz=0.5e9))
    assert only_clock["rho"] == pytest.approx(np.log(2.0))


def test_unknown_clock_widens():
    _, known = change(PowerMode("a", 50e9, None, clock_hz=0.5e9))
    _, unknown = change(PowerMode("b", 50e9, None))
    i = KNOWN.names.index("rho")
    assert unknown.log_cov[i, i] > known.log_cov[i, i]


def test_mode_without_rows_is_predicted_from_the_mode_that_has_them():
    slow = replace(POINT, power_mode="7W")
    known = initial_posterior(CATALOGUE.resolve(slow), CATALOGUE)
    assert known.power_mode == "7W"
    assert "moved to 7W" in known.basis
    assert known.n_decode > 0
    fast, low = predict(POINT, CATALOGUE), predict(slow, CATALOGUE)
    assert low.decode_s.median > 1.4 * fast.decode_s.median
    assert low.decode_s.q95 / low.decode_s.q05 > fast.decode_s.q95 / fast.decode_s.q05


def test_unpacking_goes_by_the_vector_rates_where_both_modes_state_them():
    fast = PowerMode("fast", 100e9, vector_op_s=4e12)
    moved = transferred(KNOWN, fast, PowerMode("slow", 50e9, vector_op_s=1e12))
    i = KNOWN.names.index("rho")
    assert moved.log_mean[i] - KNOWN.log_mean[i] == pytest.approx(np.log(0.5) - np.log(0.25))
    assert moved.log_cov[i, i] == KNOWN.log_cov[i, i]
