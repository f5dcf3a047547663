"""Loads of devfreq."""

import math

import pytest

from app.agent.sensors import devfreq
from tests.app.agent.sensors.parsed import values


@pytest.mark.parametrize(
    ("raw", "per_mille", "load", "clock"),
    [
        ("33@528000000Hz\n", False, 0.33, 528e6),
        ("0@0Hz", False, 0.0, 0.0),
        ("345\n", True, 0.345, None),
        ("100%", False, 1.0, None),
        ("130@1Hz", False, math.nan, 1.0),
    ],
)
def test_devfreq_loads(raw, per_mille, load, clock):
    found = values(devfreq.parse_load(raw, per_mille))
    assert found["busy_frac"] == pytest.approx(load, nan_ok=True)
    assert found.get("clock_hz") == clock


@pytest.mark.parametrize("raw", ["", "\0", "12,5", "-3", "33@x", "33 @528Hz", "Operation not permitted"])
def test_devfreq_loads_that_are_none(raw):
    assert values(devfreq.parse_load(raw)) == {}


def test_devfreq_devices_are_known_without_their_address():
    subjects = {name: devfreq.subject(name) for name in ("fdab0000.npu", "17000000.ga10b", "dmc", "gpu-gpc-0", "bwmgr")}
    assert subjects == {
        "fdab0000.npu": "npu",
        "17000000.ga10b": "gpu",
        "dmc": "dram",
        "gpu-gpc-0": "gpu_gpc_0",
        "bwmgr": "dram",
    }
