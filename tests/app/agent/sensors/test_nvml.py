"""Graphics cards through NVML, and through their tool where it does not work."""

import math
import shutil
import subprocess

import pytest

from tests.app.agent.board_trees import OUTPUTS, PROC, script

NVML = r"""
#define CARD(i) ((void *)(long)((i) + 1))
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(unsigned code) { return code == 3 ? "Not Supported" : "Unknown Error"; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **card) { *card = CARD(i); return i > 1 ? 2 : 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *card, unsigned long long *mj) {
    static unsigned long long counted = 1ull << 40;
    if (card != CARD(0)) return 3;
    *mj = counted += 25000;
    return 0;
}
int nvmlDeviceGetPowerUsage(void *card, unsigned *mw) { *mw = card == CARD(0) ? 249000 : 55500; return 0; }
int nvmlDeviceGetClockInfo(void *card, unsigned kind, unsigned *mhz) {
    *mhz = kind == 1 ? 1980 : 3201;
    return kind == 0;
}
int nvmlDeviceGetUtilizationRates(void *card, unsigned *share) { share[0] = 97; share[1] = 101; return 0; }
int nvmlDeviceGetMemoryInfo(void *card, unsigned long long *m) {
    m[0] = 80ull << 30, m[1] = 0, m[2] = 1ull << 30;
    return 0;
}
"""
"""Two cards: one that has used 25 J more each time it is asked, an older one; this library has no temperature."""


def test_cards_are_read_through_nvml_with_their_energy_counter_and_no_tool_is_started(board, tmp_path):
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler: the stand-in of the library is compiled")
    source, library = tmp_path / "nvml.c", tmp_path / "usr/lib/libnvidia-ml.so.1"
    source.write_text(NVML)
    library.parent.mkdir(parents=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", str(library), str(source)], check=True)
    sensed = board({**PROC, "dev/nvidiactl": "", "usr/bin/nvidia-smi": script("index, power.draw [W]\n0, 1.00 W", 0.1)})
    assert not sensed.tools
    sensed.read(0)
    found = dict(zip([channel.key for channel in sensed.channels], sensed.read(10**8), strict=True))
    assert found["nvidia.gpu0.power_w"] == pytest.approx(250)
    assert found["nvidia.gpu0.smoothed.power_w"] == pytest.approx(249)
    assert found["nvidia.gpu1.smoothed.power_w"] == pytest.approx(55.5)
    assert (found["nvidia.gpu1.clock_hz"], found["nvidia.gpu1.memory.clock_hz"]) == (1980e6, 3201e6)
    assert found["nvidia.gpu0.busy_frac"] == pytest.approx(0.97)
    assert math.isnan(found["nvidia.gpu0.memory.busy_frac"])  # 101 % is none
    assert found["nvidia.gpu0.memory.used_byte"] == 2**30
    channels = {channel.key: channel for channel in [*sensed.channels, *sensed.absent]}
    assert channels["nvidia.gpu1.power_w"].absent == "NVML says of this card: Not Supported"
    assert "has no nvmlDeviceGetTemperature" in channels["nvidia.gpu0.temp_c"].absent
    assert channels["nvidia.gpu0.power_w"].total == channels["nvidia.gpu1.smoothed.power_w"].total == "disjoint"
    assert channels["nvidia.gpu0.smoothed.power_w"].part_of == "nvidia.gpu0.power_w"


@pytest.mark.parametrize("content", ["", "no library", "init fails"])
def test_a_library_that_does_not_work_leaves_the_cards_to_the_tool(board, tmp_path, content):
    library = tmp_path / "usr/lib/libnvidia-ml.so.1"
    library.parent.mkdir(parents=True)
    if content == "init fails":
        if shutil.which("gcc") is None:
            pytest.skip("no C compiler: the stand-in of the library is compiled")
        (tmp_path / "nvml.c").write_text("int nvmlInit_v2(void) { return 18; }")  # driver and library differ
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "nvml.c")], check=True)
    elif content:
        library.write_text(content)
    smi = script("index, power.draw [W]\n0, 1.00 W", 0.1)
    sensed = board({**PROC, "dev/nvidiactl": "", "usr/bin/nvidia-smi": smi})
    assert [tool.channels[0].key for tool in sensed.tools] == ["nvidia.gpu0.smoothed.power_w"]


def test_an_old_card_counts_by_its_smoothed_power_and_jetsons_by_their_rails(board):
    header, _, old, *_ = (OUTPUTS / "nvidia.txt").read_text().split("\n")
    sensed = board({**PROC, "usr/bin/nvidia-smi": script(f"{header}\n{old}", 0.1)})
    channels = {channel.key: channel for channel in sensed.channels}
    assert channels["nvidia.gpu1.smoothed.power_w"].total == "disjoint"
    assert "nvidia.gpu1.power_w" not in channels
    (missing,) = [c for tool in sensed.tools for c in tool.absent if c.key == "nvidia.gpu1.power_w"]
    assert missing.absent == "nvidia-smi says that this board has none: [N/A]"


def test_the_query_falls_back_to_what_an_old_driver_knows(board):
    smi = """#!/bin/sh
    case "$1" in *instant*) echo 'Field "power.draw.instant" is not a valid field to query.'; exit 2;; esac
    while :; do echo 'index, power.draw [W], clocks.current.sm [MHz]'; echo '0, 55.5 W, 1200 MHz'; sleep 0.1; done
    """
    sensed = board({**PROC, "usr/bin/nvidia-smi": smi})
    channels = dict(zip([channel.key for channel in sensed.channels], sensed.read(), strict=True))
    assert channels["nvidia.gpu0.smoothed.power_w"] == 55.5
