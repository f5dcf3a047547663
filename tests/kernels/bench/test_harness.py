"""The method of timing and the bench: verdicts instead of bad numbers, goals by regime, checks before times."""

import itertools
import time
from types import SimpleNamespace

import pytest
import torch

from kernels.bench import harness
from kernels.bench.harness import FAST_BYTE_S, Case, duplicate, n_copies, regime, rotating, subjects
from kernels.machine import timing
from kernels.machine.stream import ReadProbe, last_level_cache_byte
from kernels.machine.timing import N_REPEATS, timed

GB_S = 1e9


def probe_of(*values):
    """A probe that finds these bandwidths, one after the other."""
    turn = itertools.cycle(values)
    return lambda: next(turn)


def ticking(*durations):
    """A clock that finds these durations of a call, one sample after the other."""
    turn = itertools.cycle(durations)

    def clock(call, n):
        call()
        return n * next(turn)

    return clock


def case(**changes):
    given = {
        "name": "thing int8", "variant": "ours", "shape": (4, 5), "dtype": "int8", "floor_byte": 8e6,
        "run": lambda: None, "check": lambda: None,
    }  # fmt: skip
    return Case(**(given | changes))


def row(case, probe, clock):
    return harness._row(case, probe, clock)


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch):
    """No involuntary switches, whatever else this machine does; tests that want some say so."""
    monkeypatch.setattr(timing, "involuntary_switches", lambda: 0)


def test_the_median_of_at_least_15_repeats_counts():
    (found,) = timed([lambda: None], probe_of(GB_S), ticking(1.0, 1.0, 9.0))
    assert found.duration_s == 1.0
    assert N_REPEATS >= 15


def test_a_sample_of_a_short_call_holds_many_of_them():
    calls = []
    (found,) = timed([lambda: calls.append(1)], probe_of(GB_S))
    assert len(calls) > 1000  # an append takes far less than a microsecond
    assert found.duration_s < 5e-5


def test_calls_are_timed_in_alternation():
    order = []
    slow = [lambda: (order.append("a"), time.sleep(0.002)), lambda: (order.append("b"), time.sleep(0.002))]
    timed(slow, probe_of(GB_S), n_repeats=3)
    assert "".join(order[-6:]) == "ababab"


def test_disturbed_samples_do_not_count_and_too_many_of_them_are_a_verdict(monkeypatch):
    switches = itertools.count()  # every sample is disturbed
    monkeypatch.setattr(timing, "involuntary_switches", lambda: next(switches))
    (found,) = timed([lambda: None], probe_of(GB_S), ticking(1.0))
    assert found.quiet_share == 0
    assert found.disturbed == "not quiet enough: something else ran during 100% of the repeats"


def test_probes_that_disagree_are_a_verdict():
    (found,) = timed([lambda: None], probe_of(30 * GB_S, 40 * GB_S), ticking(1.0))
    assert found.read_byte_s == 35 * GB_S
    assert found.disturbed == "not quiet enough: the read bandwidth went from 30.0 to 40.0 GB/s"


def test_no_repeats_raise():
    with pytest.raises(ValueError, match="n_repeats: got 0, expected at least 1"):
        timed([lambda: None], probe_of(GB_S), n_repeats=0)


def test_a_row_holds_share_goal_and_verdict(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # as many as make 40 GB/s slow
    found = row(case(goal_share=(0.75, 0.5)), probe_of(40 * GB_S), ticking(1e-3))
    assert found == {
        "name": "thing int8", "variant": "ours", "shape": [4, 5], "dtype": "int8",
        "us": pytest.approx(1000), "gb_s": pytest.approx(8), "read_share": pytest.approx(0.2),
        "quiet": 1.0, "goal": 0.75, "holds": False,
    }  # fmt: skip
    assert row(case(goal_share=(0.1, 0.1)), probe_of(40 * GB_S), ticking(1e-3))["holds"] is True


def test_the_goal_is_that_of_the_regime(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    slow, fast = (row(case(goal_share=(0.8, 0.52)), probe_of(b * GB_S), ticking(1e-3)) for b in (50, 80))
    assert (slow["goal"], fast["goal"]) == (0.8, 0.52)
    assert regime(FAST_BYTE_S * 2, 2) == 0
    assert regime(FAST_BYTE_S * 2 + 1, 2) == 1


def test_a_machine_that_is_not_quiet_gives_a_reason_and_no_number():
    found = row(case(goal_share=(0.5, 0.5)), probe_of(10 * GB_S, 40 * GB_S), ticking(1e-3))
    reason = {"absent": "not quiet enough: the read bandwidth went from 10.0 to 40.0 GB/s"}
    assert found["us"] == found["gb_s"] == found["read_share"] == reason
    assert found["quiet"] == 1.0
    assert found["goal"] == 0.5
    assert found["holds"] is None


def test_a_speed_up_is_held_against_its_baseline():
    clock = ticking(*[1.0] * 3, *[2.0] * 3, 1.0, 2.0)  # warming up each, then in turn
    found = row(case(baseline=lambda: None, goal_speedup=1.9), probe_of(GB_S), clock)
    assert found["speedup"] == 2
    assert found["holds"] is True
    assert found["goal"] == 1.9


def test_an_untimed_case_says_why():
    found = row(case(untimed="int3 is for accuracy only: there is no kernel for it"), probe_of(GB_S), ticking(1.0))
    assert found["us"] == {"absent": "int3 is for accuracy only: there is no kernel for it"}
    assert found["holds"] is None


def test_a_wrong_result_ends_the_bench_before_it_is_timed():
    def wrong():
        raise ValueError("relative error 0.5, expected at most 0.01")

    with pytest.raises(ValueError, match=r"thing int8, ours, \(4, 5\): wrong result: relative error 0.5"):
        row(case(check=wrong), probe_of(GB_S), ticking(1.0))


def test_copies_exceed_the_last_level_cache_and_are_used_in_turn():
    cache_byte = last_level_cache_byte() or 32 << 20
    for byte in (cache_byte // 100, 1 << 20, cache_byte, 100 * cache_byte):
        assert n_copies(byte) * byte >= 3 * cache_byte
    assert n_copies(1000) == 512  # of so little the call takes the time: a tiny model is tuned within seconds
    seen = []
    call = rotating("abc", seen.append)
    for _ in range(5):
        call()
    assert seen == list("abcab")
    tensor = torch.ones(3)
    assert duplicate(tensor).data_ptr() != tensor.data_ptr()


def test_the_read_probe_finds_a_bandwidth_that_memory_can_have():
    assert 1e8 < ReadProbe()() < 1e12


def test_unknown_names_raise():
    assert "linear" in subjects()
    with pytest.raises(ValueError, match=r"names: got nonsense, expected some of .*linear"):
        harness.run(["linear", "nonsense"], quick=True)


def test_a_word_chooses_among_the_cases_of_a_subject(monkeypatch):
    module = SimpleNamespace(cases=lambda _quick, _device: iter([case(), case(name="thing fp32")]))
    monkeypatch.setattr(harness, "subjects", lambda: ["things"])
    monkeypatch.setattr(harness.importlib, "import_module", lambda _name: module)
    monkeypatch.setattr(harness, "ReadProbe", lambda _device: probe_of(GB_S))
    assert [r["name"] for r in harness.run([])] == ["thing int8", "thing fp32"]
    assert [r["name"] for r in harness.run(["things/fp"])] == ["thing fp32"]
    with pytest.raises(ValueError, match="names: got things/int4, expected words that the names of some cases hold"):
        harness.run(["things/int4"])


@pytest.mark.parametrize(
    ("device", "built", "n_devices", "says"),
    [
        ("cuda", False, 0, r"got cuda, expected cpu: torch \S+ is built without CUDA"),
        ("cuda:0", True, 0, "got cuda:0, expected cpu: torch finds no CUDA device on this machine"),
        ("cuda:2", True, 2, "got cuda:2, expected at most cuda:1"),
        ("mps", True, 2, "got 'mps', expected cpu, cuda or cuda:N"),
    ],
)
def test_a_device_that_is_not_there_is_refused_with_what_there_is(monkeypatch, device, built, n_devices, says):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: built)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    with pytest.raises(ValueError, match=says):
        harness.run(["linear"], device=device)


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:1"])
def test_devices_that_are_there_are_taken(monkeypatch, device):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    harness.check_device(device)
