"""Power from energy counters."""

import math

import pytest

from app.agent.channel import Channel
from app.agent.files import KernelFile
from app.agent.power import total_power
from app.agent.sensors import discover
from app.agent.sensors.rapl import EnergyCounter
from tests.app.agent.sensors.machine_tree import RAPL_RANGE_UJ, put, rapl, tree

SECOND = 10**9


def counter(tmp_path, energy_uj, range_uj=RAPL_RANGE_UJ):
    path = tmp_path / "energy_uj"
    path.write_text(str(energy_uj))
    return path, EnergyCounter(Channel("package.power_w", "W", str(path)), KernelFile(path), range_uj)


def test_power_is_the_slope_of_the_counter(tmp_path):
    path, sensor = counter(tmp_path, 1_000_000)
    assert math.isnan(sensor.read(0)[0])  # one reading has no slope
    put(path, 1_000_000 + 1_500_000)
    assert sensor.read(SECOND // 10)[0] == pytest.approx(15)


def test_a_counter_that_wraps_gives_the_true_power(tmp_path):
    path, sensor = counter(tmp_path, RAPL_RANGE_UJ - 400_000)
    sensor.read(0)
    put(path, 600_000)
    assert sensor.read(SECOND // 10)[0] == pytest.approx(10)


def test_each_domain_wraps_by_itself(tmp_path):
    tree(tmp_path, {**rapl("0", "package-0", RAPL_RANGE_UJ - 1), **rapl("0:2", "dram", 17515587911, 65712999613)})
    sensors, _ = discover(tmp_path)
    power = {sensor.channels[0].key: sensor for sensor in sensors}
    for sensor in power.values():
        sensor.read(0)
    put(tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj", 999_999)
    put(tmp_path / "sys/class/powercap/intel-rapl:0:2/energy_uj", 17515587911 + 200_000)
    assert power["package.power_w"].read(SECOND // 10)[0] == pytest.approx(10)
    assert power["dram.power_w"].read(SECOND // 10)[0] == pytest.approx(2)


def test_a_counter_reset_is_not_a_spike(tmp_path):
    path, sensor = counter(tmp_path, 17_515_587_911)
    sensor.read(0)
    put(path, 5_000)  # after suspend
    assert math.isnan(sensor.read(SECOND // 10)[0])
    put(path, 1_005_000)
    assert sensor.read(SECOND // 5)[0] == pytest.approx(10)


def test_a_wrap_without_a_known_range_is_not_guessed(tmp_path):
    path, sensor = counter(tmp_path, 1_000_000, range_uj=0)
    sensor.read(0)
    put(path, 100)
    assert math.isnan(sensor.read(SECOND // 10)[0])


def test_a_counter_that_stands_still_is_not_zero_watts(tmp_path):
    _, sensor = counter(tmp_path, 0)
    values = [sensor.read(i * SECOND // 10)[0] for i in range(30)]
    assert all(math.isnan(value) for value in values)


def test_reads_between_updates_repeat_the_last_power(tmp_path):
    path, sensor = counter(tmp_path, 0)
    sensor.read(0)
    put(path, 1_000_000)
    assert sensor.read(SECOND // 10)[0] == pytest.approx(10)
    assert sensor.read(SECOND // 10 + SECOND // 1000)[0] == pytest.approx(10)


@pytest.mark.parametrize("content", ["", "No data available", "-5", "1,5", "1.5", "0x10", "\0"])
def test_a_counter_that_is_no_number_is_nan(tmp_path, content):
    path, sensor = counter(tmp_path, 1_000)
    sensor.read(0)
    put(path, content)
    assert math.isnan(sensor.read(SECOND // 10)[0])


def test_memory_mapped_rapl_is_not_counted_twice(tmp_path):
    twin = {
        "sys/class/powercap/intel-rapl-mmio:0/name": "package-0\n",
        "sys/class/powercap/intel-rapl-mmio:0/energy_uj": "1",
    }
    tree(tmp_path, {**rapl("0", "package-0", 1), **twin})
    sensors, _ = discover(tmp_path)
    assert [sensor.channels[0].key for sensor in sensors] == ["package.power_w"]


def test_two_packages_have_two_keys(tmp_path):
    tree(tmp_path, {**rapl("0", "package-0", 1), **rapl("1", "package-1", 1)})
    sensors, _ = discover(tmp_path)
    channels = [sensor.channels[0] for sensor in sensors]
    assert [channel.key for channel in channels] == ["package.power_w", "package2.power_w"]
    assert total_power(channels)[0] == [0, 1]
