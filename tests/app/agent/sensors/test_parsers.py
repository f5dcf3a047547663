"""All parsers of tools: any text, floods and damage; cnmon, horizon, powermetrics, Adreno.

The texts in tests/data/sensors are written in the tools' formats. The random damage is tests/app/mutate_parsers.py.
"""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.sensors import cnmon, devfreq, horizon, npu_smi, nvidia, pi, powermetrics, rknpu, tegrastats
from app.agent.sensors.adreno import parse_busy, parse_percent
from app.agent.sensors.reading import MAX_FIELDS, MAX_NOTE_CHAR, MAX_NOTES
from tests.app.agent.sensors.parsed import MIB, SENSORS, unknown, values
from tests.app.mutate_parsers import FLOOD_CHAR, floods
from tests.places import ROOT


def test_cnmon_of_both_versions():
    parsed = cnmon.parse((SENSORS / "cnmon.txt").read_text())
    found = values(parsed)
    assert found["mlu0.power_w"] == 143
    assert found["mlu0.busy_frac"] == 0.64
    assert found["mlu0.memory.used_byte"] == 9120 * MIB
    assert (found["mlu1.power_w"], found["mlu1.cap_w"]) == (29, 150)
    assert unknown(parsed, "mlu1.memory.total_byte", "mlu1.fan_frac")  # masked, N/A
    assert parsed.notes == []


def test_half_a_table_gives_the_whole_chips_only():
    text = (SENSORS / "npu_smi.txt").read_text()
    cut = npu_smi.parse(text[: text.index("| 0       0  ") + 20])
    assert cut.values == {}
    text = (SENSORS / "cnmon.txt").read_text()
    assert set(values(cnmon.parse(text[: text.index("| 1     /")]))) == {
        key for key in values(cnmon.parse(text)) if key.startswith("mlu0")
    }


def test_horizon_in_megahertz_with_the_broken_echo_and_in_kilohertz():
    parsed = horizon.parse((SENSORS / "horizon.txt").read_text())
    found = values(parsed)
    assert found["bpu.temp_c"] == 50.7
    assert found["vdd_cpu.voltage_v"] == pytest.approx(0.781)
    assert found["cpu0.clock_hz"] == 1200e6
    assert found["bpu0.busy_frac"] == 0.63
    assert found["ddr.clock_hz"] == 4266e6
    assert found["policy0.clock_hz"] == 1500e6  # kHz on this board
    assert found["bpu1.busy_frac"] == 0.17
    assert parsed.notes == ["FAKE     : 100.0 (mV)"]


def test_powermetrics_keeps_both_gpu_values_apart():
    parsed = powermetrics.parse((SENSORS / "powermetrics.txt").read_text())
    found = values(parsed)
    assert found["gpu.power_w"] == pytest.approx(0.034)
    assert found["gpu_own.power_w"] == pytest.approx(0.031)
    assert found["combined.power_w"] == pytest.approx(0.945)
    assert found["intel_energy_model_derived_package.power_w"] == 2.65
    assert found["cpu_0.clock_hz"] == 1201e6
    assert parsed.notes == ["Current pressure level: Nominal"]
    assert "combined.power_w" not in powermetrics.parse("CPU Power: 12 mW\n").values  # older releases


def test_adreno_files():
    assert parse_busy(b"  12000   48000\n") == 0.25
    assert math.isnan(parse_busy(b"0 0\n"))  # it watched for no time
    assert math.isnan(parse_busy(b"5 3"))
    assert parse_percent(b"12 %\n") == 0.12
    assert math.isnan(parse_percent(b"300"))


def nvidia_lines(text):
    return nvidia.Table().parse(text)


PARSERS = {
    "tegrastats": tegrastats.parse,
    "nvidia": nvidia_lines,
    "npu_smi": npu_smi.parse,
    "cnmon": cnmon.parse,
    "horizon": horizon.parse,
    "powermetrics": powermetrics.parse,
    "pmic": pi.parse_pmic,
    "throttled": pi.parse_throttled,
    "rknpu": rknpu.parse,
    "devfreq": devfreq.parse_load,
}


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text(max_size=400))
def test_any_text_is_survived(name, text):
    parsed = PARSERS[name](text)
    assert all(reading.raw for reading in parsed.values.values())
    assert len(parsed.notes) <= MAX_NOTES


@pytest.mark.parametrize("name", PARSERS)
def test_64_kib_of_anything_make_a_bounded_result(name):
    sound = (SENSORS / f"{name}.txt").read_text()
    for text in floods(sound):
        assert len(text) == FLOOD_CHAR
        parsed = PARSERS[name](text)
        assert len(parsed.values) <= MAX_FIELDS
        assert len(parsed.notes) <= MAX_NOTES
        assert all(len(note) <= MAX_NOTE_CHAR for note in parsed.notes)


def test_damaged_outputs_raise_nothing_and_invent_nothing():
    argv = [sys.executable, str(ROOT / "tests" / "app" / "mutate_parsers.py"), "--n", "20000"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found) == set(PARSERS)
    assert all(result["n_fields"] > 500 for result in found.values())  # the damage leaves something to find


def test_powermetrics_of_macos_26():
    parsed = powermetrics.parse(
        "M0-Cluster Online: 66%\nM0-Cluster down residency:   0.00%\nS-Cluster idle residency: .5%\n"
    )
    assert values(parsed) == {
        "m0_cluster_online.frac": 0.66,
        "m0_cluster_down_residency.frac": 0,
        "s_cluster_idle_residency.frac": 0.005,
    }
