"""Load, memory and processor time."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent.files import KernelFile
from app.agent.sensors.proc import CpuTimes, Load, MemoryAvailable
from tests.app.agent.sensors.machine_tree import STAT, put


def test_busy_share_is_over_the_interval_and_steal_apart(tmp_path):
    path = tmp_path / "stat"
    path.write_text(STAT.format(user=100, idle=900, steal=50))
    sensor = CpuTimes(KernelFile(path))
    assert all(math.isnan(value) for value in sensor.read(0))
    put(path, STAT.format(user=130, idle=960, steal=60))
    assert sensor.read(1) == pytest.approx((0.3, 0.1))
    put(path, STAT.format(user=132, idle=960, steal=60))  # two ticks say nothing yet
    assert sensor.read(2) == pytest.approx((0.3, 0.1))
    put(path, STAT.format(user=1, idle=2, steal=0))  # counters of an unplugged processor
    assert all(math.isnan(value) for value in sensor.read(3))
    put(path, STAT.format(user=1, idle=12, steal=0))
    assert sensor.read(4) == pytest.approx((0, 0))


@pytest.mark.parametrize("make", [CpuTimes, MemoryAvailable, Load])
@given(data=st.binary(max_size=300))
def test_no_content_makes_a_sensor_raise(make, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"fuzzed_{make.__name__}"
    path.write_bytes(data)
    file = KernelFile(path)
    try:
        sensor = make(file)
        for t_ns in (0, 1, 2):
            values = sensor.read(t_ns)
            assert len(values) == len(sensor.channels)
    finally:
        file.close()
