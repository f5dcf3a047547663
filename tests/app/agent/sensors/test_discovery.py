"""Sensors of whole machines."""

import errno
import os

import pytest

from app.agent import files
from app.agent.sensor_columns import ChangeCounter
from app.agent.sensors import discover
from tests.app.agent.sensors.machine_tree import PC, absent, read_all, tree

SECOND = 10**9


def test_a_whole_pc_in_si(tmp_path):
    values = read_all(tree(tmp_path, PC))
    assert values["cpu0.clock_hz"] == 2.4e9
    assert values["cpu4.clock_hz"] == 1.8e9
    assert values["memory.available_byte"] == 8_000_000 * 1024
    assert values["cpu.load_1min"] == 0.42
    assert values["acpitz.temp_c"] == pytest.approx(27.8)
    assert values["package.temp_c"] == 61
    assert values["k10temp.tctl.temp_c"] == 64.5
    assert values["amdgpu.ppt.power_w"] == 7.5
    assert set(values) == {
        *("cpu0.clock_hz", "cpu4.clock_hz", "memory.available_byte", "cpu.load_1min", "cpu.busy_frac"),
        *("cpu.steal_frac", "acpitz.temp_c", "package.temp_c", "k10temp.tctl.temp_c", "amdgpu.ppt.power_w"),
        *("package.power_w", "core.power_w"),
    }
    assert absent(tmp_path) == {}


def test_every_channel_has_unit_and_source_and_a_key_of_its_own(tmp_path):
    sensors, missing = discover(tree(tmp_path, PC))
    channels = [channel for sensor in sensors for channel in sensor.channels]
    assert len({channel.key for channel in channels}) == len(channels)
    assert all(channel.unit and str(tmp_path) in channel.source and not channel.absent for channel in channels)
    assert not missing


def test_an_empty_machine_says_why_for_each_family_and_senses_nothing(tmp_path):
    sensors, missing = discover(tmp_path)
    assert sensors == []
    reasons = {channel.key: channel.absent for channel in missing}
    assert set(reasons) == {
        *("cpu.clock_hz", "cpu.busy_frac", "memory.available_byte", "cpu.load_1min", "package.temp_c", "board.power_w")
    }
    assert reasons["board.power_w"].startswith("no power sensor on this machine")
    assert "No such file" in reasons["cpu.busy_frac"]


def test_a_virtual_machine_is_told_why_it_has_no_power(tmp_path):
    tree(tmp_path, {"proc/cpuinfo": "processor : 0\nflags : fpu hypervisor avx2\n"})
    assert "its host keeps the energy counters" in absent(tmp_path)["board.power_w"]


def test_root_only_files_are_absent_with_the_rule_that_opens_them(tmp_path, monkeypatch):
    real_open = os.open

    def refuse(path, *args):
        if str(path).endswith("energy_uj"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_open(path, *args)

    monkeypatch.setattr(files.os, "open", refuse)
    tree(tmp_path, {key: value for key, value in PC.items() if "hwmon5" not in key})
    reasons = absent(tmp_path)
    for key in ("package.power_w", "core.power_w", "board.power_w"):
        assert reasons[key].startswith("needs root: ")
        assert "energy_uj" in reasons[key]
        assert 'SUBSYSTEM=="powercap"' in reasons[key]
    assert not any(key.endswith("power_w") for key in read_all(tmp_path))


def test_native_period_is_found_by_counting_changes():
    counted = ChangeCounter()
    for i in range(1000):  # read each millisecond, a new value each 100 ms
        counted.see(i * SECOND // 1000, i // 100)
    assert counted.period_s() == pytest.approx(0.1)
    still = ChangeCounter()
    for i in range(1000):
        still.see(i * SECOND // 1000, 42)
    assert still.period_s() is None
