"""The state of a board: its modes, clocks, throttling and memory, and when it is sent."""

import threading

from app.agent.state import BoardState, StateWatch, gist
from tests.app.agent.board_trees import PROC, build
from tests.waiting import PATIENCE_S, wait_until


def state_of(board, name):
    return BoardState(board(name).root)


def test_the_state_of_a_jetson(board):
    state = state_of(board, "orin_nx").read()
    assert state["power_mode"] == {"value": "nvpmodel 25W"}
    assert state["governor"]["value"] == {"policy0": "schedutil", "policy4": "schedutil"}
    assert "policy4 is capped at 1.19 GHz of 1.98 GHz" in state["cpu_clock"]["warning"]
    assert state["gpu_clock"]["value"]["max_hz"] == 918000000
    assert "absent" in state["memory_clock"]
    assert all(set(entry) <= {"value", "absent", "warning"} for entry in state.values())
    assert all(("value" in entry) != ("absent" in entry) for entry in state.values())


def test_a_slow_governor_and_a_scaling_memory_clock_are_warned_about(board):
    state = state_of(board, "rk3588").read()
    assert state["governor"]["warning"] == (
        "governor is powersave on policy4, governor is powersave on policy6: decode will be slower than the board can; "
        "set performance to compare"
    )
    assert "memory runs at 528 MHz of 2112 MHz" in state["memory_clock"]["warning"]
    assert state["supply"] == {"value": "mains"}
    assert state["power_mode"]["absent"]


def test_throttling_now_and_earlier_is_told_in_words(board):
    state = state_of(board, "pi5").read()
    assert state["throttle"]["warning"] == "slowed down now: under-voltage, throttled"
    calm = build(board.root, {"sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled": "50000\n"})
    assert BoardState(calm).read()["throttle"] == {
        "value": "under-voltage (earlier), throttled (earlier)",
        "warning": "has happened since the start: under-voltage, throttled",
    }


def test_a_laptop_on_battery_with_swapped_memory(board):
    watched = state_of(board, "laptop")
    state = watched.read()
    assert "platform profile is low-power" in state["power_mode"]["warning"]
    assert "energy preference is power on policy0" in state["governor"]["warning"]
    assert "policy4 is capped at 2.00 GHz of 3.40 GHz" in state["cpu_clock"]["warning"]
    assert state["supply"]["value"] == "battery, 63 %"
    assert "warning" in state["supply"]
    assert "only 0.9 GB of memory are left" in state["memory"]["warning"]
    assert "2.0 GB are swapped out" in state["memory"]["warning"]
    assert state["bus"]["value"] == "PCIe 8.0 GT/s PCIe x4"
    assert "4 of its 8 lanes" in state["bus"]["warning"]
    assert state["throttle"] == {"value": "none"}  # 12 times before we came
    build(board.root, {"sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count": "15\n"})
    assert "throttled by heat 3 times since attached" in watched.read()["throttle"]["warning"]


def test_a_fan_is_no_throttle_and_a_cooled_processor_is(board):
    assert "pwm-fan" not in str(state_of(board, "pi5").read()["throttle"])
    cooled = {
        "sys/class/thermal/cooling_device1/type": "thermal-cpufreq-0\n",
        "sys/class/thermal/cooling_device1/cur_state": "2\n",
        "sys/class/thermal/cooling_device1/max_state": "5\n",
    }
    state = BoardState(build(board.root, cooled)).read()
    assert "thermal-cpufreq-0 at step 2 of 5" in state["throttle"]["warning"]


def test_nvpmodel_is_asked_where_it_keeps_no_file(board):
    asked = "#!/bin/sh\n[ \"$1\" = -q ] && printf 'NV Power Mode: MODE_15W\\n2\\n'\n"
    sensed = board({**PROC, "usr/sbin/nvpmodel": asked})
    (sensed.root / "usr/sbin/nvpmodel").chmod(0o755)
    assert BoardState(sensed.root).read()["power_mode"] == {"value": "nvpmodel MODE_15W"}


def test_an_empty_machine_has_a_reason_for_each_entry(tmp_path):
    state = BoardState(tmp_path).read()
    assert all(len(entry["absent"]) > 10 for entry in state.values())


class CountedState(BoardState):
    """A state that counts how often it was read."""

    n_reads = 0

    def read(self):
        self.n_reads += 1
        return super().read()

    def seen(self):
        """Wait until what is there now was read, and sent if it is to be."""
        before = self.n_reads
        wait_until(lambda: self.n_reads >= before + 2)


def test_the_state_is_sent_when_words_change_not_at_each_step_of_a_clock(board):
    sensed = board("rk3588")
    sent, state = [], CountedState(board.root)
    watch = StateWatch(state, sent.append)
    thread = threading.Thread(target=watch.run, args=(0.01, 3600.0), daemon=True)
    thread.start()
    clock = "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq"
    governor = "sys/devices/system/cpu/cpufreq/policy4/scaling_governor"
    wait_until(lambda: state.n_reads)
    state.seen()  # with the only look at other programs
    before = len(sent)
    build(sensed.root, {clock: "408000\n"})
    state.seen()
    assert len(sent) == before
    build(sensed.root, {governor: "performance\n"})
    wait_until(lambda: sent[before:] and governor_in(sent[-1]) == "performance")  # not while it is being written
    watch.stop()
    thread.join(PATIENCE_S)
    assert sent[-1]["op"] == "state"


def governor_in(message):
    return message["state"]["governor"].get("value", {}).get("policy4")


def test_numbers_alone_make_no_new_state():
    assert gist({"a": {"value": 1, "warning": "1.2 cores"}}) == gist({"a": {"value": 2, "warning": "3 cores"}})
    assert gist({"a": {"value": "x"}}) != gist({"a": {"value": "y"}})
    assert gist({"a": {"value": 1}}) != gist({"a": {"value": 1, "warning": "w"}})
