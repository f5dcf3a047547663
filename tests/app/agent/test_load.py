"""Load of the machine: what other programs take, however short they live."""

from app.agent import load, processes
from app.agent.load import Pressure, Snapshot
from tests.app.agent.board_trees import build

BEFORE = Snapshot(0.0, 100.0, 10.0, 5.0, 1.0)


def test_the_time_of_others_is_the_busy_time_without_our_own():
    after = Snapshot(10.0, 115.0, 18.0, 9.0, 1.5)
    assert load.others_cores(BEFORE, after) == 0.7
    assert load.between(BEFORE, after) == {"psi_cpu_frac": 0.4, "psi_memory_frac": 0.05}
    assert load.others_cores(BEFORE, after._replace(busy_s=None)) is None
    assert load.others_cores(BEFORE, after._replace(busy_s=101.0)) == 0.0
    assert load.others_cores(BEFORE, BEFORE) is None
    assert load.between(BEFORE, after._replace(cpu_wait_s=None, memory_wait_s=None)) == {}


def test_counters_of_the_kernel_are_read(tmp_path):
    build(
        tmp_path,
        {
            "proc/stat": "cpu  100 50 50 900 5 10 20 30 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\n",
            "proc/pressure/cpu": "some avg10=97.00 avg60=1.00 avg300=0.00 total=2500000\n",
        },
    )
    assert load.busy_s(tmp_path) == 2.6
    assert load.waited_s(tmp_path, "cpu") == 2.5
    assert load.waited_s(tmp_path, "memory") is None
    before = load.snapshot(tmp_path)
    after = before._replace(t_s=before.t_s + 1.0, busy_s=3.6)
    assert load.conditions(tmp_path, before, after, {})["others_frac"] == 0.5
    assert "others_frac" not in load.conditions(tmp_path, before, after, {"runtime": "llama_server"})


def test_pressure_tells_at_once_that_something_began(tmp_path, monkeypatch):
    now_s = [0.0]
    monkeypatch.setattr(load.time, "monotonic", lambda: now_s[0])
    total = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"
    build(tmp_path, {"proc/pressure/cpu": total.format(0)})
    pressure = Pressure(tmp_path)
    for t_s, waited_us, busy, changed in (
        (1.0, 0, False, False),
        (2.0, 900000, False, True),
        (3.0, 1800000, True, False),
        (4.0, 1800000, True, True),
    ):
        now_s[0] = t_s
        build(tmp_path, {"proc/pressure/cpu": total.format(waited_us)})
        assert pressure.changed(busy) is changed


def test_programs_that_ended_in_between_count():
    entry = processes._entry({"sshd": 0.01}, ["5.00"], 1.6)
    assert entry["value"]["cores"] == 1.6
    assert entry["warning"] == (
        "other programs take 1.6 cores (short-lived or hidden programs 1.6): timings will be worse"
    )
