"""Power of a battery."""

import math

import pytest

from tests.app.agent.sensors.machine_tree import absent, read_all, tree


def battery(status="Discharging\n", **values):
    base = "sys/class/power_supply/BAT0"
    return {f"{base}/type": "Battery\n", f"{base}/status": status, **{f"{base}/{key}": v for key, v in values.items()}}


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        (battery(power_now="12500000"), 12.5),
        (battery(power_now="-12500000"), 12.5),  # some drivers sign, some do not
        (battery("Charging", power_now="20000000"), -20.0),
        (battery(current_now="1500000", voltage_now="12000000"), 18.0),
        (battery("Full", power_now="0"), 0.0),
        (battery("Unknown", power_now="5000000"), None),
        (battery(power_now=""), None),
        (battery(current_now="1500000", voltage_now="x"), None),
    ],
)
def test_battery_power_is_signed_by_its_status(tmp_path, contents, expected):
    value = read_all(tree(tmp_path, contents))["battery.power_w"]
    assert math.isnan(value) if expected is None else value == pytest.approx(expected)


def test_the_battery_of_a_mouse_and_the_mains_are_not_the_machine(tmp_path):
    tree(
        tmp_path,
        {
            "sys/class/power_supply/AC/type": "Mains",
            "sys/class/power_supply/hid/type": "Battery",
            "sys/class/power_supply/hid/scope": "Device",
            "sys/class/power_supply/hid/status": "Discharging",
            "sys/class/power_supply/hid/power_now": "1",
        },
    )
    assert read_all(tmp_path) == {}


def test_a_battery_is_not_the_board(tmp_path):
    reasons = absent(tree(tmp_path, battery(power_now="1")))
    assert "battery shows its own flow only" in reasons["board.power_w"]
