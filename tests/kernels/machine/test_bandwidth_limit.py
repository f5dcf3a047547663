"""Limiting the memory bandwidth: the search on made-up machines, the process itself, and what a run says of it."""

import itertools
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from kernels.machine import bandwidth_limit, co_runner
from kernels.machine.bandwidth_limit import CLOSE_FRAC, Limiter, read_byte_s
from kernels.machine.co_runner import CHUNK_BYTE, PERIOD_S, CoRunner, read_for
from kernels.workload import Workload
from tests.waiting import wait_until

POINT = {
    "weights": "int8",
    "kv": "bf16",
    "context_tokens": 96,
    "alpha": 0.0,
    "policy": "attention_mass",
    "layout": "compacted",
}


class Machine:
    """A made-up memory: each thread reads up to `thread` byte/s, all together up to `total`, shared by demand."""

    def __init__(self, monkeypatch, total, thread, n_threads):
        self.total, self.thread, self.beside = total, thread, []
        self.n_threads = n_threads
        monkeypatch.setattr(bandwidth_limit, "CoRunner", self.co_runner)
        monkeypatch.setattr(torch, "get_num_threads", lambda: self.n_threads)
        monkeypatch.setattr(torch, "set_num_threads", lambda n: setattr(self, "n_threads", n))

    def co_runner(self, duty):
        machine = self

        class Beside:
            def __enter__(self):
                machine.beside.append(duty)

            def __exit__(self, *args):
                machine.beside.remove(duty)

        return Beside()

    def probe(self):
        mine, theirs = self.n_threads * self.thread, sum(self.beside) * self.thread
        return mine * min(1.0, self.total / (mine + theirs))


@pytest.fixture
def board(monkeypatch):
    return Machine(monkeypatch, total=40e9, thread=20e9, n_threads=4)


@pytest.mark.parametrize("wanted", [40e9, 35e9, 28e9, 20e9, 12e9])
def test_what_is_left_is_near_what_was_asked_for_and_all_is_put_back(board, wanted):
    limiter = Limiter(board.probe)
    with limiter.limited(wanted, lambda done, text: None) as limit:
        assert limit.read_byte_s == pytest.approx(wanted, rel=CLOSE_FRAC)
        assert limit.read_byte_s == board.probe()
        assert board.n_threads == limit.n_threads
        assert len(board.beside) == (4 - limit.n_threads if limit.duty_frac else 0)
    assert board.n_threads == 4
    assert board.beside == []


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (43e9, "got 4.3e.10, expected at most 4e.10: this machine reads no more, and only less can be set"),
        (5e9, "expected at least 1e.10: that is what processes reading memory all the time leave to one thread here"),
    ],
)
def test_more_than_there_is_and_less_than_can_be_are_refused(board, wanted, says):
    limiter = Limiter(board.probe)
    with pytest.raises(ValueError, match=says), limiter.limited(wanted, lambda done, text: None):
        pass
    assert board.n_threads == 4


def test_what_lies_between_two_settings_is_refused_with_the_nearest(monkeypatch):
    ample = Machine(monkeypatch, total=100e9, thread=20e9, n_threads=2)  # one reader does not slow another
    limiter = Limiter(ample.probe)
    with (
        pytest.raises(ValueError, match="cannot be set here: the nearest is"),
        limiter.limited(29e9, lambda d, t: None),
    ):
        pass


def test_a_run_that_is_stopped_leaves_nothing_behind(board):
    def stop(done, text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Limiter(board.probe).limited(20e9, stop):
        pass
    assert (board.n_threads, board.beside) == (4, [])


def test_the_words_say_how():
    assert bandwidth_limit.Limit(1, 0.4, 8.1e9).words == "co-runner at 40 % duty, 1 thread, read 8.1 GB/s beside it"
    assert bandwidth_limit.Limit(2, 0.0, 30e9).words == "2 threads, read 30.0 GB/s"


def test_the_probe_reads_memory():
    assert 1e8 < read_byte_s() < 1e13


def test_chunks_are_read_round_and_round():
    buffer = np.ones(3 * CHUNK_BYTE, np.uint8)
    assert read_for(buffer, 2 * CHUNK_BYTE, 0.0) == 2 * CHUNK_BYTE
    assert read_for(buffer, 2 * CHUNK_BYTE, 1e-9) in (0, 2 * CHUNK_BYTE)
    assert read_for(buffer, 0, 0.01) % CHUNK_BYTE == 0


def test_the_process_reads_its_share_of_the_time_and_ends_with_the_block():
    with CoRunner(0.3) as beside:
        process = beside._process
        stat = Path(f"/proc/{process.pid}/stat")

        def cpu_s():
            return sum(map(int, stat.read_text(encoding="ascii").rpartition(")")[2].split()[11:13])) / 100

        start_s, before_s = time.perf_counter(), cpu_s()
        wait_until(lambda: cpu_s() - before_s >= 0.15)
        busy = (cpu_s() - before_s) / (time.perf_counter() - start_s)  # the clock is read outside, so never too much
    assert process.poll() is not None
    assert busy < 0.6  # 0.3 when it gets a processor whenever it wants one, less on a busy machine
    assert PERIOD_S < 0.01


@pytest.mark.parametrize("duty", [0, -1, 1.5])
def test_a_duty_outside_its_range_is_refused(duty):
    with pytest.raises(ValueError, match="duty_frac: got"):
        CoRunner(duty)


def test_one_that_does_not_start_is_told(monkeypatch):
    monkeypatch.setattr(co_runner, "__file__", "/dev/null")
    with pytest.raises(RuntimeError, match="did not start"), CoRunner(0.5):
        pass


def measure(workload, what, **changes):
    return workload.measure(POINT | changes, what, lambda done, text: None, lambda: False)


def test_a_run_at_less_bandwidth_says_what_was_read_beside_it(tiny_file, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # however many processors there are
    workload = Workload(tiny_file)
    reads = itertools.cycle([30e9, 12e9, 20e9, 15e9])  # of all threads, beside a reader, without one, in the run
    workload._limiter = Limiter(lambda: next(reads))
    result = measure(workload, ["decode", "ttft"], bandwidth_byte_s=12e9)
    assert result["decode_s"]["median"] > 0
    conditions = result["conditions"]
    assert conditions["bandwidth_byte_s"] == 15e9
    assert conditions["bandwidth_how"] == "co-runner at 100 % duty, 1 thread, read 15.0 GB/s beside it"
    assert any(note.startswith("Measured at reduced bandwidth: co-runner at 100 % duty") for note in result["notes"])
    free = measure(workload, ["ttft"])
    assert free["ttft_s"] != result["ttft_s"]
    assert "bandwidth_how" not in free["conditions"]


def test_threads_are_a_part_of_the_point(tiny_file):
    workload, own = Workload(tiny_file), torch.get_num_threads()
    assert measure(workload, ["decode"], threads=1)["conditions"]["threads"] == 1
    assert torch.get_num_threads() == own
    with pytest.raises(ValueError, match=rf"threads: got {own + 1}, expected a whole number from 1 to {own}"):
        measure(workload, ["decode"], threads=own + 1)
    with pytest.raises(ValueError, match="threads, bandwidth_byte_s: got both"):
        measure(workload, ["decode"], threads=1, bandwidth_byte_s=1e9)


def test_a_power_mode_that_names_threads_limits_the_run_to_them(tiny_file):
    workload = Workload(tiny_file)
    assert measure(workload, ["decode"], power_mode="1 thread")["conditions"]["threads"] == 1
    assert measure(workload, ["decode"], power_mode="default")["conditions"]["threads"] == torch.get_num_threads()
    with pytest.raises(ValueError, match="threads: got 4096, expected a whole number from 1 to"):
        measure(workload, ["decode"], power_mode="4096 threads")
