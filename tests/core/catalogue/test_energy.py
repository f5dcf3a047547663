import math

import numpy as np
import pytest

from core.catalogue import energy as le
from core.catalogue.toml_files import parse
from core.physics.heatfield import steady_field_k
from core.physics.throttle import PowerAllocator, TripCaps


def test_cells_are_there_with_plausible_energy():
    cells = le.load_cells()
    assert next(iter(cells)) == "molicel-p42a"
    assert {"NMC (graphite), high power", "LFP", "LCO"} <= {cell.chemistry for cell in cells.values()}
    assert cells["molicel-p42a"].energy_j / 3600 == pytest.approx(15.12, rel=0.05)  # data sheet, typical
    assert cells["lithiumwerks-apr18650m1b"].energy_j / 3600 == pytest.approx(3.96, rel=0.05)
    for cell in cells.values():
        assert cell.soc[0] == 0
        assert cell.soc[-1] == 1


def test_cooling_keeps_the_resistance_of_its_step_response():
    cooling = le.load_cooling()
    assert [round(c.resistance_k_w, 9) for c in cooling.values()] == [10.0, 4.0, 2.2]
    assert all(all(c.sources.values()) for c in cooling.values())


def test_throttle_rules_make_throttles():
    rules = le.load_throttle_rules()
    assert isinstance(rules["default"].throttle(4.0), PowerAllocator)
    assert rules["default"].throttle(4.0).sustainable_w == 15.0
    assert isinstance(rules["rk3588"].throttle(4.0), TripCaps)
    assert rules["rk3576"].shutdown_temp_c == 115
    assert rules["raspberry_pi_5"].top_clock_hz == 2.4e9
    assert all(math.isfinite(rule.shutdown_temp_c) for rule in rules.values())


def test_operating_points_are_there_with_sources():
    tables = le.load_dvfs()
    npu = tables["rk3588_npu"]
    assert npu.clock_hz[-1] == 1e9
    assert npu.voltage_v[-1] == 0.85
    np.testing.assert_array_equal(tables["mlu370"].power_w, [32, 68, 92])
    assert all(table.sources["clock_hz"] for table in tables.values())


def test_published_scenarios():
    found = le.load_scenarios()
    assert list(found) == ["industrial", "v2x", "wearable"]
    assert [s.energy_weight for s in found.values()] == [0.8, 1.0, 1.2]
    assert (found["v2x"].min_accuracy_frac, found["v2x"].max_latency_s, found["v2x"].max_energy_j) == (
        0.781,
        0.035,
        0.142,
    )


def dvfs(text):
    return le.dvfs_table("t", "t.toml", parse("t.toml", text))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'clock_hz = [2e9, 1e9]\nname="x"',
            r"t.toml: clock_hz: got \[2000000000.0, 1000000000.0\], expected rising clocks",
        ),
        ('clock_hz = [1e9]\nname="x"', "t.toml: clock_hz: got no source"),
        ('clock_hz = [1e9]\nname="x"\n[sources]\ndefault="x"', "power_w and throughput together, or voltage_v"),
        ('clock_hz = [1e9]\nvoltage_v=[1,2]\nname="x"', "voltage_v: got .*, expected 1 numbers"),
        ('clock_hz = [true]\nname="x"', "clock_hz: got True"),
        ("clock_hz = []", "clock_hz: got \\[\\]"),
        ("clock_hz = 5", "clock_hz: got 5, expected a list of numbers"),
    ],
)
def test_bad_tables_are_refused_in_one_sentence(text, says):
    with pytest.raises(ValueError, match=says):
        dvfs(text)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("rc_s = [1, 2]", "rc_s: got .*, expected 1 time constants"),
        ("rc_s = [0]", "rc_s: got 0"),
        ("rc_s = [30]\nwatts = 3", "watts: got 3, expected no such key"),
    ],
)
def test_bad_cells_are_refused_in_one_sentence(change, says):
    text = f"""
ocv = "molicel-p28a.csv"
name = "x"
chemistry = "y"
charge_c = 1000
cutoff_v = 2.5
r0_ohm = 0.02
rc_ohm = [0.01]
{change}
[sources]
default = "test"
"""
    with pytest.raises(ValueError, match=says):
        le._cell("x", "cells/x.toml", parse("cells/x.toml", text))


@pytest.mark.parametrize("key", ["bare", "heatsink", "fan"])
def test_the_plate_behind_the_chip_is_the_last_resistance_of_its_cooling(key):
    plate, spreader = le.load_plate(key), le.load_spreaders()[key]
    source = spreader.source_w(plate, 7.0)
    assert source.sum() == pytest.approx(7.0)
    rise = steady_field_k(plate, source)
    under_chip = float((rise * source).sum() / source.sum())
    assert under_chip == pytest.approx(7.0 * le.load_cooling()[key].ladder.resistance_k_w[-1], rel=1e-4)
    lost = float(rise.sum() * plate.cell_loss_w_k)
    assert lost == pytest.approx(7.0, rel=1e-9)  # what comes in goes out
    assert rise.argmax() in np.flatnonzero(source)
    assert rise[0, 0] == pytest.approx(rise.min())
