"""Loads of Rockchip's NPU."""

from hypothesis import given
from hypothesis import strategies as st

from app.agent.sensors import rknpu
from tests.app.agent.sensors.parsed import SENSORS, values


@given(st.dictionaries(st.integers(0, 15), st.integers(0, 40_000), min_size=1, max_size=8))
def test_loads_of_any_number_of_npu_cores_come_back(loads):
    line = "NPU load:  " + "".join(f"Core{core}: {load:2d}%, " for core, load in loads.items())
    parsed = rknpu.parse(line + "\n")
    assert values(parsed) == {f"rknpu.core{core}.busy_frac": min(load / 100, 1.0) for core, load in loads.items()}
    assert len(parsed.notes) == sum(load > 100 for load in loads.values())


def test_rknpu_in_three_forms_with_clamped_loads():
    three, one, other, over, two = (rknpu.parse(line) for line in (SENSORS / "rknpu.txt").read_text().splitlines())
    assert values(three) == {"rknpu.core0.busy_frac": 0.41, "rknpu.core1.busy_frac": 0.07, "rknpu.core2.busy_frac": 0.0}
    assert values(one) == {"rknpu.busy_frac": 0.52}
    assert values(other)["rknpu.core2.busy_frac"] == 1.0
    assert values(over) == {"rknpu.busy_frac": 1.0}
    assert "above 100 %" in over.notes[0]
    assert set(values(two)) == {"rknpu.core0.busy_frac", "rknpu.core1.busy_frac"}
    assert [found.notes for found in (three, one, other, two)] == [[], [], [], []]
