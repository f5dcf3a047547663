"""Reasons of an absent board power: the right thing is named, with what to type."""

import pytest

from tests.app.agent.board_trees import PROC, Denied, build, script
from tests.app.agent.power_boards import PI5, absent_of, as_root, mac, total_of, values_of
from tests.app.agent.sensed import Sensed
from tests.app.agent.sensors.machine_tree import absent, rapl, tree
from tests.waiting import wait_until

PI_REFUSED = (
    "#!/bin/sh\necho \"Can't open device file: {}\"\necho 'Try creating it with: sudo mknod it c 100 0'\nexit 255\n"
)


@pytest.mark.parametrize("device", ["/dev/vcio", "/dev/vcio_gencmd"])
def test_a_pi_whose_user_is_not_in_the_group_is_told_which(board, device):
    reasons = absent_of(sensed := board({**PI5, "usr/bin/vcgencmd": PI_REFUSED.format(device)}))
    for key in ("pi", "board.power_w"):
        assert "sudo usermod -aG video USER" in reasons[key]
        assert "log in again" in reasons[key]
        assert device in reasons[key]
    assert "mknod" not in str(reasons)
    assert "RAPL" not in str(reasons)
    assert total_of(sensed) == ([], reasons["board.power_w"])


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("VCHI initialization failed", "sudo usermod -aG video USER"),
        ('error=1 error_msg="Command not registered"', "sudo rpi-eeprom-update -a"),
        ("segmentation fault", "ended with status 255 (segmentation fault)"),
    ],
)
def test_other_words_of_vcgencmd(board, printed, words):
    tool = f"#!/bin/sh\necho '{printed}'\nexit 255\n"
    assert words in absent_of(board({**PI5, "usr/bin/vcgencmd": tool}))["board.power_w"]


def test_a_refusal_is_forgotten_once_the_tool_works(board, tmp_path):
    works = (
        f"#!/bin/sh\nif [ -e {tmp_path}/group ]; then\n"
        "echo 'VDD_CORE_A current(7)=1.0A'; echo 'VDD_CORE_V volt(15)=0.8V'\n"
        "else echo 'VCHI initialization failed'; exit 255; fi\n"
    )
    (tool,) = board({**PI5, "usr/bin/vcgencmd": works}).tools
    assert "usermod" in tool.feed.failure
    (tmp_path / "group").touch()
    wait_until(lambda: not tool.feed.failure)
    tool.refresh()
    assert [channel.key for channel in tool.channels][-1] == "pi.board.power_w"
    assert tool.absent == []


def test_powermetrics_without_root_says_so_and_what_to_type(board):
    reasons = absent_of(board({**PROC, "usr/bin/powermetrics": script("x", 0.1)}))
    assert reasons["board.power_w"] == reasons["powermetrics"]
    assert "needs root" in reasons["board.power_w"]
    assert "sudo" in reasons["board.power_w"]
    assert "RAPL" not in reasons["board.power_w"]


def test_powermetrics_that_refuses_says_its_own_words(tmp_path, monkeypatch):
    as_root(monkeypatch)
    refused = "#!/bin/sh\necho 'powermetrics must be invoked as the superuser' >&2\nexit 1\n"
    with Sensed(build(tmp_path, {**PROC, "usr/bin/powermetrics": refused})) as sensed:
        assert absent_of(sensed)["board.power_w"].startswith("needs root: powermetrics answers root only")


def test_powermetrics_without_a_gpu_sampler_is_asked_for_the_processor(tmp_path, monkeypatch):
    as_root(monkeypatch)
    sample = mac(4, "Intel energy model derived package power (CPUs+GT+SA): 2.65W\n")
    tool = (
        "#!/bin/sh\ncase \"$2\" in *gpu*) echo 'powermetrics: unrecognized sampler: gpu_power'; exit 64;; esac\n"
        f"while :; do cat <<'END'\n{sample}END\nsleep 0.05; done\n"
    )
    with Sensed(build(tmp_path, {**PROC, "usr/bin/powermetrics": tool})) as sensed:
        wait_until(lambda: sensed.tools[0].feed.columns)
        sensed.tools[0].refresh()
        assert values_of(sensed)["powermetrics.intel_energy_model_derived_package.power_w"] == 2.65


def test_an_ascend_board_without_npu_smi_or_its_group_is_told_so(board, tmp_path):
    reasons = absent(build(tmp_path / "a", {**PI5, "proc/device-tree/model": b"Orange Pi AIpro\0", "dev/davinci0": ""}))
    assert reasons["board.power_w"].startswith("npu-smi is not installed, or not in PATH")
    refused = script("dcmi module initialize failed. ret is -8005").replace("exit 0", "exit 1")
    sensed = board({**PROC, "dev/davinci0": "", "usr/local/bin/npu-smi": refused})
    assert "(dcmi module initialize failed. ret is -8005)" in absent_of(sensed)["board.power_w"]
    assert "sudo usermod -aG HwHiAiUser USER" in absent_of(sensed)["board.power_w"]


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "sudo modprobe nvidia"),
        ("Failed to initialize NVML: Driver/library version mismatch", "restart the board"),
        ("No devices were found", "finds no card"),
    ],
)
def test_nvidia_smi_that_does_not_work_says_why(board, printed, words):
    tool = f"#!/bin/sh\necho \"{printed}\"\necho 'Make sure that the latest driver is installed.'\nexit 9\n"
    reasons = absent_of(board({**PROC, "usr/bin/nvidia-smi": tool}))
    assert words in reasons["nvidia"]
    assert "nvidia.other" not in reasons


def test_rapl_that_only_root_reads_says_what_opens_it(board):
    contents = {
        **PROC,
        "proc/cpuinfo": "vendor_id\t: AuthenticAMD\nflags : avx2\n",
        **{
            name: Denied(value) if name.endswith("energy_uj") else value
            for name, value in rapl("0", "package-0", 1).items()
        },
    }
    reason = absent_of(board(contents))["board.power_w"]
    assert reason.startswith("needs root: ")
    assert "sudo chmod a+r /sys/class/powercap/*/energy_uj" in reason
    assert 'SUBSYSTEM=="powercap"' in reason


def test_a_card_alone_names_what_locks_the_processor_s_power(board):
    locked = {name: Denied(v) if name.endswith("energy_uj") else v for name, v in rapl("0", "package-0", 1).items()}
    card = script("index, power.draw [W]\n0, 100.00 W", 0.05)
    _, words = total_of(board({**PROC, **locked, "usr/bin/nvidia-smi": card}))
    assert words.startswith("the power sensors of this machine cover parts of the board only: card gpu0; needs root: ")
    assert "sudo chmod a+r /sys/class/powercap/*/energy_uj" in words


@pytest.mark.parametrize(
    ("contents", "rapl_named", "words"),
    [
        ({"proc/device-tree/model": b"Orange Pi 5\0"}, False, "no hwmon power input"),
        ({"proc/cpuinfo": "processor : 0\nCPU architecture: 8\n"}, False, "no hwmon power input"),
        ({"proc/cpuinfo": "processor : 0\nisa : rv64gc\n"}, False, "no hwmon power input"),
        ({"proc/cpuinfo": "vendor_id : GenuineIntel\nflags : avx2\n"}, True, "sudo modprobe intel_rapl_msr"),
        (
            {"proc/cpuinfo": "vendor_id : GenuineIntel\nflags : hypervisor\n"},
            True,
            "its host keeps the energy counters",
        ),
    ],
)
def test_rapl_is_named_only_where_there_may_be_one(tmp_path, contents, rapl_named, words):
    reason = absent(tree(tmp_path, contents))["board.power_w"]
    assert ("RAPL" in reason) == rapl_named
    assert words in reason
