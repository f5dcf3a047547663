"""The data sheet of an attached board: recognised, applied, remembered, chosen by hand."""

import sys
from dataclasses import replace

import pytest

from app import LAUNCHER
from app.agent import board
from app.cli import main
from app.client.blocking_session import AttachedBoard
from app.client.transport import LocalTransport
from app.library.axes import canonical, own_bandwidth_byte_s
from app.library.bandwidth import with_bandwidth
from app.library.board_library import BoardLibrary
from app.library.calibration import share_calibration
from app.library.data_sheet import (
    NONE_BY_HAND,
    THIS,
    DataSheet,
    chosen_key,
    described,
    found_words,
    with_memory,
)
from app.library.files import FileError, data_dir
from app.library.machine import machine_key, why_not_measurable
from app.library.measurements import ran
from core.catalogue.load import load_catalogue
from core.catalogue.memory_reserve import usable_memory
from core.predict.scenario import initial_posterior, predict
from core.spec import Absent, OperatingPoint

CATALOGUE = load_catalogue()
NANO = CATALOGUE.boards["jetson_orin_nano_8gb_super"]
HELLO = {
    "board": {"cpu": "x", "n_threads": 6, "name": "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super"},
    "can": {"measure": True, "torch": "2"},
    "models": [{"file": "m.gguf", "byte": 98}],
    "state": {"power_mode": {"value": "nvpmodel 15W"}},
}
TREE = {
    "proc/device-tree/model": b"Orange Pi 5 Plus\0",
    "proc/device-tree/compatible": b"xunlong,orangepi-5-plus\0rockchip,rk3588\0",
    "proc/meminfo": b"MemTotal: 16000000 kB\n",
}  # fmt: skip


def build(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path


def sheet_of(hello=HELLO):
    return opened().data_sheet(hello)


def opened():
    return BoardLibrary(data_dir(), pytest.fail)


def test_an_agent_on_a_rk3588_is_described_by_its_data_sheet(here):
    root = build(here / "board", TREE)
    argv = [sys.executable, str(LAUNCHER), "agent", "--root", str(root)]
    with AttachedBoard(lambda: LocalTransport(argv)) as attached:
        hello = attached.hello
    assert hello["board"]["compatible"] == ["xunlong,orangepi-5-plus", "rockchip,rk3588"]
    found = sheet_of(hello)
    assert (found.key, found.by) == ("rk3588", "by its device tree, rockchip,rk3588")
    opened().remember_target("pi@rock", hello)
    catalogue = opened().catalogue()
    assert catalogue.boards["pi@rock"].data_sheet == "rk3588"
    for runtime in ("rkllm_npu", "builtin"):
        point = OperatingPoint(board="pi@rock", runtime=runtime, model="qwen2.5-1.5b", weights="w8a8", kv="fp16")
        ours, sheet = (predict(replace(point, board=key), catalogue).decode_s for key in ("pi@rock", "rk3588"))
        assert ours == sheet
    assert initial_posterior(catalogue.resolve(replace(point, runtime="rkllm_npu")), catalogue).n_decode > 0


@pytest.mark.parametrize(("key", "runtime"), [("dgx_spark", "llamacpp_gpu"), ("spacemit_k3", "llamacpp_cpu")])
def test_an_attached_board_is_predicted_as_that_of_its_data_sheet(key, runtime):
    catalogue = described(CATALOGUE, THIS, DataSheet(key, "by hand", ""))
    boards = (catalogue.boards[THIS], CATALOGUE.boards[key])
    assert len({(board.integer_speedup, board.most_memory_byte, board.unit) for board in boards}) == 1
    point = OperatingPoint(board=key, runtime=runtime, model="llama-3-8b", weights="q4_0", kv="fp16")
    here = replace(point, board=THIS, power_mode=next(iter(boards[1].power_modes)))
    assert predict(here, catalogue).decode_s == predict(point, CATALOGUE).decode_s


def test_a_mac_tells_its_processor_and_memory(here):
    tool = here / "usr" / "sbin" / "sysctl"
    tool.parent.mkdir(parents=True)
    says = {"hw.memsize": "34359738368", "iogpu.wired_limit_mb": "0"}
    answers = "".join(f"  {name}) echo {value};;\n" for name, value in says.items())
    tool.write_text(f'#!/bin/sh\ncase "$2" in\n{answers}  *) echo "Apple M1 Max";;\nesac\n')
    tool.chmod(0o755)
    told = board.describe(here)
    assert (told["cpu"], told["memory_byte"], "gpu_limit_byte" in told) == ("Apple M1 Max", 34359738368, False)
    hello = {**HELLO, "board": told}
    assert sheet_of(hello).key == "apple_m1_max"
    mac = with_memory(described(CATALOGUE, THIS, sheet_of(hello)).boards[THIS], hello)
    assert usable_memory(mac).usable_byte == pytest.approx(0.6667 * 32 * 2**30)
    tool.write_text(tool.read_text().replace("echo 0;;", "echo 28672;;"))
    hello["board"] = board.describe(here)
    assert hello["board"]["gpu_limit_byte"] == 28 * 2**30
    assert usable_memory(with_memory(mac, hello)).usable_byte == 28 * 2**30
    assert usable_memory(replace(with_memory(mac, hello), unit="cpu", available_byte=None)).usable_byte < 32 * 2**30


def test_what_a_board_says_is_free_is_what_a_model_can_have(here):
    this = CATALOGUE.boards[THIS]
    told = {"memory_byte": 16e9, "available_byte": 11e9}
    assert usable_memory(with_memory(this, {"board": told})).usable_byte == 11e9
    assert usable_memory(with_memory(this, {"board": {"memory_byte": 16e9}})).usable_byte == 0.98 * 16e9 - 0.5e9
    assert usable_memory(with_memory(this, {"board": {}})) is None
    card = CATALOGUE.boards["intel_arc_b60"]
    assert with_memory(card, {"board": told}) is card  # of which the system's memory says nothing


def test_the_mode_that_a_board_is_in_is_its_default_and_the_others_cannot_be_measured():
    found = sheet_of()
    assert found == DataSheet("jetson_orin_nano_8gb_super", f"by its name, {HELLO['board']['name']}", "15W")
    catalogue = described(CATALOGUE, THIS, found)
    this = catalogue.boards[THIS]
    assert list(this.power_modes) == ["15W", "MAXN", "25W", "7W", "1 thread", "2 threads", "4 threads"]
    assert own_bandwidth_byte_s(OperatingPoint(), catalogue) == NANO.power_modes["15W"].bandwidth_byte_s
    assert this.memory_byte == NANO.memory_byte
    reason = why_not_measurable(OperatingPoint(power_mode="MAXN"), catalogue, HELLO)
    assert reason.startswith("This board is in power mode 15W: set it to MAXN")
    assert why_not_measurable(OperatingPoint(power_mode="2 threads"), catalogue, HELLO) == ""
    filed = ran(OperatingPoint(), {}, catalogue)
    assert filed.power_mode == "15W"
    assert canonical(filed, catalogue) == OperatingPoint()
    assert share_calibration(filed, OperatingPoint(), catalogue)
    tomorrow = described(CATALOGUE, THIS, replace(found, mode="MAXN"))
    assert not share_calibration(filed, OperatingPoint(), tomorrow)
    elsewhere = {**HELLO, "state": {"power_mode": {"value": "nvpmodel MAXN_SUPER"}}}
    assert sheet_of(elsewhere).mode == "MAXN"
    assert sheet_of({**HELLO, "state": {"power_mode": {"value": "nvpmodel MODE_10W"}}}).by.endswith(
        "it has no mode nvpmodel MODE_10W"
    )


def test_the_cores_of_a_gpu_board_have_their_own_rates_and_measured_bandwidth():
    catalogue = described(CATALOGUE, THIS, sheet_of())
    board = with_bandwidth(catalogue.boards[THIS], {"median": 30e9, "q05": 29e9, "q95": 31e9})
    catalogue = replace(catalogue, boards={**catalogue.boards, THIS: board})
    cores = catalogue.resolve(OperatingPoint())
    gpu = catalogue.resolve(OperatingPoint(runtime="llamacpp_gpu"))
    assert (cores.board.unit, gpu.board.unit) == ("cpu", "gpu")
    assert (cores.mode.bandwidth_byte_s, gpu.mode.bandwidth_byte_s) == (30e9, NANO.power_modes["15W"].bandwidth_byte_s)
    fast = catalogue.resolve(OperatingPoint(power_mode="MAXN"))
    assert fast.mode.bandwidth_byte_s == pytest.approx(30e9 * 102.4 / 68.3)
    assert fast.mode.compute_op_s == fast.mode.vector_op_s == NANO.power_modes["MAXN"].cpu_vector_op_s
    assert gpu.mode.compute_op_s == NANO.power_modes["15W"].compute_op_s


def test_published_measurements_of_such_a_board_teach_an_attached_one():
    pi = DataSheet("raspberry_pi_5", "by its name, Raspberry Pi 5")
    point = OperatingPoint(runtime="llamacpp_cpu", model="llama-3.2-1b", weights="q4_k_m", kv="fp16")
    here = predict(point, described(CATALOGUE, THIS, pi)).decode_s
    sheet = predict(replace(point, board="raspberry_pi_5"), CATALOGUE).decode_s
    assert here == sheet
    assert described(CATALOGUE, THIS, Absent("no")) is CATALOGUE


def test_a_choice_by_hand_goes_first_and_is_remembered():
    machine = machine_key(HELLO)
    opened().set_data_sheet(machine, "rk3576")
    assert sheet_of() == DataSheet("rk3576", "chosen by hand")
    assert (chosen_key(sheet_of()), found_words(sheet_of().by)) == ("rk3576", "chosen by hand")
    opened().set_data_sheet(machine, THIS)
    assert sheet_of() == NONE_BY_HAND
    assert chosen_key(sheet_of()) == THIS
    opened().set_data_sheet(machine, "")
    assert chosen_key(sheet_of()) == ""
    assert sheet_of().key == NANO.key
    with pytest.raises(FileError, match="'toaster' has no data sheet; expected one of"):
        opened().set_data_sheet(machine, "toaster")


def test_commands_tell_of_it_and_take_a_choice(here, capsys):
    assert main(["attach", "this", "--board-as", "toaster", "--probe"]) == 2
    assert "--board-as: board 'toaster' has no data sheet" in capsys.readouterr().err
    assert main(["attach", "this", "--board-as", "raspberry_pi_5", "--probe"]) == 0
    assert "Raspberry Pi 5, chosen by hand; --board-as KEY chooses another" in capsys.readouterr().out
    assert main(["predict"]) == 0
    assert "Described by the data sheet of Raspberry Pi 5, chosen by hand;" in capsys.readouterr().out
    assert main(["predict", "--json"]) == 0
    assert '"key": "raspberry_pi_5"' in capsys.readouterr().out
    assert main(["attach", "this", "--board-as", "found", "--probe"]) == 0
    assert "none of the catalogue fits it; --board-as KEY" in capsys.readouterr().out
    assert main(["predict", "--json"]) == 0
    assert '"data_sheet": null' in capsys.readouterr().out
