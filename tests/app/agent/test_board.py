"""The board's description."""

import os

from app.agent.board import describe, n_big_cores
from tests.app.agent.sensors.machine_tree import tree

BOARD = {
    "proc/cpuinfo": "processor : 0\nmodel name : AMD Ryzen 7\nflags : fpu avx2 avx512f hypervisor\nprocessor : 1\n",
    "proc/meminfo": "MemTotal: 2000 kB\nMemAvailable: 1500 kB\n",
    "etc/os-release": 'NAME="x"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "sys/devices/system/cpu/cpu0/cache/index0/level": "1",
    "sys/devices/system/cpu/cpu0/cache/index0/type": "Data",
    "sys/devices/system/cpu/cpu0/cache/index0/size": "32K",
    "sys/devices/system/cpu/cpu0/cache/index1/level": "1",
    "sys/devices/system/cpu/cpu0/cache/index1/type": "Instruction",
    "sys/devices/system/cpu/cpu0/cache/index1/size": "64K",
    "sys/devices/system/cpu/cpu0/cache/index3/level": "3",
    "sys/devices/system/cpu/cpu0/cache/index3/type": "Unified",
    "sys/devices/system/cpu/cpu0/cache/index3/size": "16M",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
}


def test_board_is_described_without_naming_it(tmp_path):
    board = describe(tree(tmp_path, BOARD))
    assert board["cpu"] == board["name"] == "AMD Ryzen 7"
    assert board["n_threads"] == 2
    assert (board["memory_byte"], board["available_byte"]) == (2000 * 1024, 1500 * 1024)
    assert board["cache_byte"] == {"L1d": 32768, "L3": 16 << 20}
    assert board["isa"] == ["avx2", "avx512f"]
    assert board["governor"] == "powersave"
    assert board["os"] == "Debian GNU/Linux 12 (bookworm)"
    assert board["virtual"] is True
    assert os.uname().nodename not in str(board).split()


def test_device_tree_names_the_board(tmp_path):
    tree(
        tmp_path,
        {
            "proc/device-tree/model": b"NVIDIA Jetson Orin Nano\0",
            "proc/cpuinfo": "processor : 0\nFeatures : asimd asimddp\nCPU implementer : 0x41\nCPU part : 0xd42\n",
        },
    )
    board = describe(tmp_path)
    assert board["name"] == "NVIDIA Jetson Orin Nano"
    assert board["cpu"] == "ARM implementer 0x41 part 0xd42"
    assert board["isa"] == ["asimd", "asimddp"]


def test_release_and_chip_are_named_where_the_board_tells_them(tmp_path):
    line = "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\n"
    tree(tmp_path, {"etc/nv_tegra_release": line, "sys/devices/soc0/soc_id": "QCS8550\n"})
    board = describe(tmp_path)
    assert board["release"] == "L4T 36.4.3"
    assert board["soc"] == "QCS8550"
    assert "release" not in describe(tmp_path / "nothing")


def cores(capacities, siblings=lambda n: str(n)):
    return {
        name: value
        for n, capacity in enumerate(capacities)
        for name, value in (
            (f"sys/devices/system/cpu/cpu{n}/cpu_capacity", capacity),
            (f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list", siblings(n)),
        )
    }


def test_threads_are_one_for_each_big_core(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert n_big_cores(tree(tmp_path / "rk3588", cores([400] * 4 + [1024] * 4))) == 4
    pairs = cores([1024] * 8, lambda n: f"{n // 2 * 2}-{n // 2 * 2 + 1}")
    assert n_big_cores(tree(tmp_path / "smt", pairs)) == 4
    tree(tmp_path / "smt", {"sys/fs/cgroup/cpu.max": "200000 100000\n"})
    assert n_big_cores(tmp_path / "smt") == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert n_big_cores(tmp_path / "rk3588") == 2
    assert n_big_cores(tmp_path / "nothing known") == 2
