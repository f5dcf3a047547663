"""Catalogues and values of whole boards.

The expected catalogues are tests/data/boards/*.txt, one channel a line: key, unit, value, its part in the total, and
for an absent one the reason.
"""

import math
import os
import sys
import tempfile
from pathlib import Path

import pytest

from app import LAUNCHER
from app.agent.power import total_power
from app.client.blocking_session import AttachedBoard
from app.client.transport import LocalTransport
from tests.app.agent.board_trees import (
    BOARDS,
    HORIZON,
    LAPTOP,
    ORIN_NX,
    OUTPUTS,
    PROC,
    RK3588,
    Denied,
    build,
    script,
)
from tests.app.agent.sensed import Sensed
from tests.places import DATA
from tests.waiting import attempts

EXPECTED = DATA / "boards"


@pytest.mark.parametrize("name", BOARDS)
def test_the_catalogue_of_a_whole_board(name, board):
    assert board(name).catalogue() == (EXPECTED / f"{name}.txt").read_text()


def power_of(sensed):
    """Return the total power now, and what it covers."""
    columns, words = total_power([*sensed.channels, *sensed.absent])
    values = sensed.read()
    return sum(values[i] for i in columns) if columns else math.nan, words


def test_no_watt_is_counted_twice_on_any_board(board):
    inner = {"orin_nx": 14.22272, "agx_orin": 7.88, "thor": 16.25, "nano": 4.206, "laptop": 18.0}
    for name, expected_w in inner.items():
        with Sensed(build_in(board, name)) as sensed:
            assert power_of(sensed)[0] == pytest.approx(expected_w), name


def build_in(board, name):
    root = Path(tempfile.mkdtemp(dir=board.root))
    return build(root, {key: value for key, value in BOARDS[name].items() if not isinstance(value, Denied)})


def test_each_part_names_a_channel_that_is_there(board):
    for name in ("orin_nx", "agx_orin", "thor", "pi5", "nano"):
        with Sensed(build_in(board, name)) as sensed:
            keys = {channel.key for channel in sensed.channels}
            assert all(not channel.part_of or channel.part_of in keys for channel in sensed.channels)
            assert not any(channel.part_of and channel.total for channel in sensed.channels)


def test_hwmon_chips_that_change_their_numbers_are_the_same_channels(board):
    moved = {key.replace("hwmon1/", "hwmon7/"): value for key, value in ORIN_NX.items() if "mc_all" not in key}
    sensed = board("orin_nx")
    with Sensed(build(board.root / "moved", moved)) as again:
        assert [channel.key for channel in again.channels] == [channel.key for channel in sensed.channels]


def test_root_sees_what_others_are_told_how_to_open(board):
    opened = {key: str(value) if isinstance(value, Denied) else value for key, value in RK3588.items()}
    sensed = board(opened)
    values = {channel.key: value for channel, value in zip(sensed.channels, sensed.read(), strict=True)}
    assert values["rknpu.core1.busy_frac"] == 0.65
    assert not any(channel.absent.startswith("needs root") for channel in sensed.absent)


def test_a_load_above_100_percent_is_clamped_and_the_channel_says_so(board):
    sensed = board({**RK3588, "sys/kernel/debug/rknpu/load": "NPU load:  20000%\n"})
    (load,) = [channel for channel in sensed.channels if channel.key == "rknpu.busy_frac"]
    values = dict(zip([channel.key for channel in sensed.channels], sensed.read(), strict=True))
    assert values["rknpu.busy_frac"] == 1.0
    assert "above 100 %" in load.note
    assert "above 100 %" in load.message()["note"]


def test_a_tool_for_root_runs_for_root(board, monkeypatch):
    sensed = board({**HORIZON, "dev/null": ""})
    assert not sensed.tools
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with Sensed(sensed.root) as again:
        assert "horizon.bpu.temp_c" in [channel.key for channel in again.channels]


def test_intel_and_graphics_card_are_disjoint_parts(board):
    card = script((OUTPUTS / "nvidia.txt").read_text().split("\n1, ")[0], 0.1)
    contents = {key: str(value) if isinstance(value, Denied) else value for key, value in LAPTOP.items()}
    contents = {key: value for key, value in contents.items() if "intel-rapl:1/" not in key}
    sensed = board({**contents, "usr/bin/nvidia-smi": card})
    columns, words = total_power([*sensed.channels, *sensed.absent])
    assert [sensed.channels[i].key for i in columns] == ["package.power_w", "nvidia.gpu0.power_w"]
    assert "card gpu0" in words


def test_a_french_board_is_read_in_english(board):
    french = """#!/bin/sh
    if [ "$LC_ALL" = C ]; then t=41.5; else t=41,5; fi
    while :; do echo "CPU@${t}C"; sleep 0.1; done
    """
    sensed = board({**PROC, "usr/bin/tegrastats": french})
    assert dict(zip([c.key for c in sensed.channels], sensed.read(), strict=True))["tegrastats.cpu.temp_c"] == 41.5


def test_a_client_sees_the_board_as_its_own_agent_tells_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
    root = build(tmp_path / "board", {key: str(v) if isinstance(v, Denied) else v for key, v in ORIN_NX.items()})
    argv = [sys.executable, str(LAUNCHER), "agent", "--root", str(root)]
    with AttachedBoard(lambda: LocalTransport(argv)) as attached:
        hello = attached.hello
        channels = {channel.key: channel for channel in attached.channels}
        for _ in attempts():  # a tool that was slow to start comes in a later catalogue
            if "tegrastats.vdd_in.power_w" in channels:
                break
            attached.wait_for_periods()
            channels = {channel.key: channel for channel in attached.channels}
    assert hello["board"]["release"] == "L4T 36.4.3"
    assert hello["state"]["power_mode"] == {"value": "nvpmodel 25W"}
    total = channels["ina3221.vdd_in.power_w"]
    assert (total.total, total.covers) == ("input", "the whole board (rail VDD_IN)")
    assert total.error == pytest.approx(5.008 * 0.008 + 2.84 * 0.008)
    assert channels["tegrastats.vdd_in.power_w"].part_of == total.key
    assert channels["ina3221.vdd_soc.power_w"].part_of == total.key
