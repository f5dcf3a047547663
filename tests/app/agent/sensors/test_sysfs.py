"""Thermal zones, hwmon and numbers in files."""

import errno
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agent import files
from app.agent.files import parse_int, text
from app.agent.sensors import discover
from tests.app.agent.sensors.machine_tree import PC, absent, read_all, tree, zone


@pytest.mark.parametrize(
    ("temp", "expected"),
    [("61000\n", 61.0), ("-256000\n", None), ("-5000\n", -5.0), ("300000\n", None), ("\0\0", None), ("61,5", None)],
)
def test_temperature_of_a_powered_off_block_is_absent_not_minus_256(tmp_path, temp, expected):
    value = read_all(tree(tmp_path, zone(0, "GPU-therm", temp)))["gpu_therm.temp_c"]
    assert math.isnan(value) if expected is None else value == expected


def test_the_constant_of_the_pmic_is_no_sensor(tmp_path):
    tree(tmp_path, {**zone(0, "PMIC-Die", "100000"), **zone(1, "CPU-therm", "45000")})
    assert "pmic_die.temp_c" not in read_all(tmp_path)
    assert "constant" in absent(tmp_path)["pmic_die.temp_c"]


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.EINVAL, errno.ENODATA, errno.ENODEV, errno.EIO])
def test_a_driver_that_refuses_is_nan_for_that_read_only(tmp_path, monkeypatch, code):
    tree(tmp_path, zone(0, "gpu-thermal", "50000"))
    (sensor,) = discover(tmp_path)[0]
    real_pread = os.pread

    def refuse(*args):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, "pread", refuse)
    assert math.isnan(sensor.read(0)[0])
    monkeypatch.setattr(files.os, "pread", real_pread)
    assert sensor.read(1)[0] == 50


def test_hwmon_is_known_by_name_whatever_its_number(tmp_path):
    before = tree(tmp_path / "a", PC)
    after = tree(
        tmp_path / "b", {key.replace("hwmon3", "hwmon9").replace("hwmon5", "hwmon3"): v for key, v in PC.items()}
    )
    assert read_all(before).keys() == read_all(after).keys()
    assert read_all(after)["k10temp.tctl.temp_c"] == 64.5


def test_hwmon_without_label_and_with_number_zero(tmp_path):
    tree(tmp_path, {"sys/class/hwmon/hwmon0/name": "nvme", "sys/class/hwmon/hwmon0/temp0_input": "33850"})
    assert read_all(tmp_path) == pytest.approx({"nvme.temp0.temp_c": 33.85})


def test_a_thermal_zone_is_not_shown_again_as_hwmon_and_cores_are_left_asleep(tmp_path):
    tree(
        tmp_path,
        {
            **zone(0, "acpitz", "30000"),
            "sys/class/hwmon/hwmon0/name": "acpitz",
            "sys/class/hwmon/hwmon0/temp1_input": "30000",
            "sys/class/hwmon/hwmon1/name": "coretemp",
            "sys/class/hwmon/hwmon1/temp1_input": "50000",
            "sys/class/hwmon/hwmon1/temp1_label": "Package id 0",
            "sys/class/hwmon/hwmon1/temp2_input": "49000",
            "sys/class/hwmon/hwmon1/temp2_label": "Core 0",
        },
    )
    assert read_all(tmp_path) == {"acpitz.temp_c": 30, "coretemp.package_id_0.temp_c": 50}


def test_an_average_is_read_where_there_is_no_input(tmp_path):
    base = "sys/class/hwmon/hwmon0"
    tree(tmp_path, {f"{base}/name": "amdgpu", f"{base}/power1_average": "9000000", f"{base}/power2_input": "-392000"})
    tree(tmp_path, {f"{base}/power2_average": "1"})
    values = read_all(tmp_path)
    assert values == pytest.approx({"amdgpu.power1.power_w": 9, "amdgpu.power2.power_w": -0.392})  # negative stays so


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_parse_int_takes_integers_and_nothing_else(data):
    value = parse_int(data)
    if value is not None:
        shown = data.decode() if isinstance(data, bytes) else data
        assert int(shown.strip(" \t\r\n\0")) == value


def test_text_ends_at_nul_and_survives_what_is_missing(tmp_path):
    (tmp_path / "model").write_bytes(b"Raspberry Pi 5 Model B Rev 1.0\0")
    assert text(tmp_path / "model") == "Raspberry Pi 5 Model B Rev 1.0"
    assert text(tmp_path / "none") == ""
    (tmp_path / "odd").write_bytes(b"\xff\xfe board\n")
    assert "board" in text(tmp_path / "odd")
