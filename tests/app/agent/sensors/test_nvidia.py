"""The table of nvidia-smi."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.sensors import nvidia
from tests.app.agent.sensors.parsed import MIB, SENSORS, values

cells = st.lists(st.sampled_from(["[N/A]", "Not Supported", "12.5 W", "300 MHz", "7 %"]), min_size=2, max_size=2)


@given(st.permutations(["index", "power.draw.instant [W]", "utilization.gpu [%]"]), st.integers(0, 7), cells)
def test_nvidia_columns_in_any_order(header, index, given_cells):
    table = nvidia.Table()
    table.parse(", ".join(header))
    cell_of = dict(zip(("power.draw.instant [W]", "utilization.gpu [%]"), given_cells, strict=True))
    parsed = table.parse(", ".join(str(index) if name == "index" else cell_of[name] for name in header))
    for name, key in (("power.draw.instant [W]", "power_w"), ("utilization.gpu [%]", "busy_frac")):
        known = {**parsed.values, **parsed.missing}
        reading = known[f"gpu{index}.{key}"]
        assert reading.raw == cell_of[name]
        rightly = {"power_w": {"12.5 W": 12.5}, "busy_frac": {"7 %": 0.07}}[key].get(cell_of[name], math.nan)
        assert reading.value == pytest.approx(rightly, nan_ok=True)  # a clock is no power


def test_nvidia_smi_by_its_header_with_units_and_leading_blanks():
    table = nvidia.Table()
    header, first, second, jetson, broken = (SENSORS / "nvidia.txt").read_text().splitlines()
    assert table.parse(header).values == {}
    found = values(table.parse(first))
    assert found["gpu0.power_w"] == 71.31
    assert found["gpu0.mean.power_w"] == found["gpu0.smoothed.power_w"] == 70.02
    assert found["gpu0.clock_hz"] == 1410e6
    assert found["gpu0.memory.used_byte"] == 4301 * MIB
    assert found["gpu0.temp_c"] == 41
    assert found["gpu0.busy_frac"] == 0.37
    old = table.parse(second)
    assert old.missing["gpu1.power_w"].raw == "[N/A]"
    assert values(old)["gpu1.smoothed.power_w"] == 12.9
    assert values(table.parse(jetson)) == {"gpu0.clock_hz": 306e6}
    assert not table.parse(jetson).notes
    assert table.parse(broken).notes == [broken]


def test_nvidia_smi_before_its_header_and_with_missing_columns_says_nothing():
    assert nvidia.Table().parse("0, 71.31 W").values == {}
    table = nvidia.Table()
    table.parse("index, power.draw [W]")
    assert table.parse("0, 71.31 W, 5").values == {}
    assert table.parse("0, 71,31 W").values == {}  # a comma decimal makes another column
    assert table.parse("x, 71.31 W").values == {}


def test_nvidia_smi_580_without_memory_of_its_own_or_rights():
    table = nvidia.Table()
    table.parse("index, power.draw.instant [W], clocks.current.sm [MHz], utilization.gpu [%], memory.used [MiB]")
    parsed = table.parse("0, 11.20 W, 2411 MHz, 96 %, [N/A]")
    assert values(parsed) == {"gpu0.power_w": 11.2, "gpu0.clock_hz": 2411e6, "gpu0.busy_frac": 0.96}
    parsed = table.parse(
        "1, 70.00 W, 1410 MHz, Requested functionality has been deprecated, [Insufficient Permissions]"
    )
    assert set(parsed.missing) == {"gpu1.busy_frac", "gpu1.memory.used_byte"}
    assert parsed.notes == []
