"""The total power of the board."""

from app.agent.channel import Channel
from app.agent.power import total_power

TOTAL_OF = {"board": "input", "package": "disjoint", "dram": "disjoint", "battery": "flow"}


def power_channel(key, covers="x", why=""):
    return Channel(key, "W", "file", covers, why, total=TOTAL_OF.get(key.split(".")[0], ""))


def test_the_total_never_adds_a_rail_to_its_own_sum():
    package, core, dram = (power_channel(f"{name}.power_w", name) for name in ("package", "core", "dram"))
    board, battery = power_channel("board.power_w", "psys"), power_channel("battery.power_w", "flow")
    assert total_power([package, core, dram]) == ([0, 2], "package + dram")
    assert total_power([package, core, dram, board])[0] == [3]
    assert total_power([battery, package])[0] == [1]
    assert total_power([battery])[0] == [0]
    assert total_power([dram]) == ([], "the power sensors of this machine cover parts of the board only: dram")
    assert total_power([power_channel("board.power_w", why="needs root: x")]) == ([], "needs root: x")


def battery(status="Discharging\n", **values):
    base = "sys/class/power_supply/BAT0"
    return {f"{base}/type": "Battery\n", f"{base}/status": status, **{f"{base}/{key}": v for key, v in values.items()}}
