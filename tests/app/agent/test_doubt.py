"""A board power that cannot be right: smaller than its part, or frozen."""

import json
import math

import pytest

from app.agent.channel import Channel
from app.agent.doubt import FROZEN_S, PowerCheck
from app.agent.energy import EnergyMeter
from app.agent.power import total_power
from app.agent.sampler import Sampler
from app.agent.sensors import discover
from app.agent.serving.metrics import SCRAPE_HOLD_S, Meters
from app.cli import main
from tests.app.agent.board_trees import build, ina3221
from tests.app.agent.power_boards import JETSON


def looks(check, channels, rows, step_s=1.0):
    for n, row in enumerate(rows):
        check.see(n * step_s, channels, row)
    return channels[0].doubt


def board_channels():
    return [
        Channel("ina3221.vdd_in.power_w", "W", "file", "the whole board", total="input"),
        Channel("ina3221.vdd_cpu.power_w", "W", "file", "rail", part_of="ina3221.vdd_in.power_w"),
        Channel("cpu.busy_frac", "frac", "file"),
    ]


def test_a_whole_that_is_smaller_than_its_part_is_no_power_of_the_board():
    check, channels = PowerCheck(), board_channels()
    looks(check, channels, [[3.0, 7.0, 0.5]] * 6)
    columns, words = total_power(channels)
    assert columns == []
    assert words == (
        "ina3221.vdd_in.power_w reads 3 W and its part ina3221.vdd_cpu.power_w 7 W: "
        "a whole is not smaller than its part"
    )
    message = channels[0].message()
    assert "total" not in message or message["total"] == ""
    assert message["note"] == words
    for n in range(6, 12):
        check.see(float(n), channels, [9.0, 7.0, 0.5])
    assert total_power(channels)[0] == [0]
    assert "doubt" not in channels[0].message()


@pytest.mark.parametrize(
    "rows",
    [
        [[3.0, 7.0, 0.5], [9.0, 7.0, 0.5]] * 10,  # read at different moments
        [[7.0, 7.1, 0.5]] * 20,  # steps of the sensors
        [[math.nan, 7.0, 0.5]] * 20,
        [[9.0, 7.0, 0.1]] * 100,  # nothing changes
        [[9.0, 7.0, 0.9]] * 100,
        [[9.0 + n % 2 / 100, 7.0, n % 20 / 20] for n in range(100)],
    ],
)
def test_what_is_in_order_is_believed(rows):
    assert looks(PowerCheck(), board_channels(), rows) == ""


def test_a_power_that_stands_still_through_rest_and_load_is_none():
    check, channels = PowerCheck(), board_channels()
    n = int(FROZEN_S)
    rows = [[5.0, 2.0, 0.05]] * n + [[5.0, 4.0, 0.95]] * n
    assert looks(check, channels, rows).startswith("ina3221.vdd_in.power_w stands still at 5 W while the load changes")
    for i in range(2 * n, 2 * n + 6):
        check.see(float(i), channels, [5.0 + i / 100, 4.0, 0.95])
    assert channels[0].doubt == ""


def test_the_next_whole_counts_where_the_first_is_doubted():
    channels = [
        Channel("board.power_w", "W", "psys", "the whole platform (RAPL psys)", total="input"),
        Channel("package.power_w", "W", "rapl", "the processor package", total="disjoint"),
        Channel("dram.power_w", "W", "rapl", "the memory", total="disjoint"),
    ]
    looks(PowerCheck(), channels, [[0.0, 15.0, 2.0]] * 6)
    assert total_power(channels) == ([1, 2], "the processor package + the memory")


def test_a_battery_s_slow_flow_is_not_doubted():
    channels = [
        Channel("battery.power_w", "W", "file", "flow", total="flow"),
        Channel("core.power_w", "W", "file", "core", part_of="battery.power_w"),
    ]
    assert looks(PowerCheck(), channels, [[5.0, 9.0]] * 20) == ""


WRONG = {
    **JETSON,
    **ina3221(1, {1: ("VDD_IN", 5000, 600), 2: ("VDD_CPU_GPU_CV", 5000, 1400), 3: ("VDD_SOC", 5000, 100)}),
}


def test_one_scrape_says_that_the_whole_is_wrong(tmp_path, capsys):
    build(tmp_path, WRONG)
    assert main(["agent", "--metrics", "--json", "--root", str(tmp_path)]) == 0
    families = {family["name"]: family["samples"] for family in json.loads(capsys.readouterr().out)}
    assert "trilemma_board_power_watts" not in families
    reasons = {s["labels"]["channel"]: s["labels"]["reason"] for s in families["trilemma_channel_absent"]}
    assert (
        "ina3221.vdd_in.power_w reads 3 W and its part ina3221.vdd_cpu_gpu_cv.power_w 7 W" in reasons["board.power_w"]
    )


def test_the_sampler_tells_the_client_and_the_meter(tmp_path):
    sensors, missing = discover(build(tmp_path, WRONG))
    told, sent = [], []
    outbox = type("Sent", (), {"send_layout": sent.append, "set_max_records": lambda self, n: None})()
    sampler = Sampler(sensors, missing, outbox, EnergyMeter())
    sampler.on_power = lambda reason, covers: told.append(reason)
    assert sampler.power[0] == ""
    sampler._columns.read(0)
    for n in range(6):
        sampler._look(float(n))
    assert len(told) == 1
    assert "a whole is not smaller than its part" in told[0]
    (channel,) = [c for c in sent[-1]["channels"] if c["key"] == "ina3221.vdd_in.power_w"]
    assert channel["note"] == told[0]
    assert channel.get("total", "") == ""


def test_meters_show_no_energy_of_a_power_in_doubt(tmp_path):
    meters = Meters(build(tmp_path, WRONG), SCRAPE_HOLD_S)
    try:
        meters.settle()
        assert "trilemma_board_power_watts" not in meters.text()
    finally:
        meters.close()
