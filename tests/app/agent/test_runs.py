"""Runs of the agent's worker: one at a time, superseded, queued, cancelled."""

import os
import queue
import sys
import textwrap

import pytest

from app import LAUNCHER
from app.agent.runs import Runs
from app.protocol import (
    MAX_QUEUED,
)
from tests.waiting import PATIENCE_S

STAND_IN = """
    import os, sys, threading, time
    sys.path.insert(0, {root!r})
    from app.protocol import *
    lock, cancelled = threading.Lock(), threading.Event()
    def send(**message):
        with lock:
            os.write(1, encode_control(message, 0))
    def run(request):
        if request["op"] == "bandwidth":
            send(op="result", id=request["id"], body={{"read_byte_s": {{"absent": "stand-in"}}, "pid": os.getpid()}})
            return
        how = request["point"].get("how", "finish")
        send(op="progress", id=request["id"], done_frac=0.5, text=how)
        if how == "die":
            os.kill(os.getpid(), 9)
        if how == "exit":
            os._exit(3)
        if how == "garbage":
            os.write(1, b"x" * (2 << 20))
        if how == "wait":
            cancelled.wait()
            cancelled.clear()
            send(op="failed", id=request["id"], kind="cancelled", reason="cancelled")
        if how == "stubborn":  # takes the cancellation too late
            cancelled.wait()
            cancelled.clear()
            how = "finish"
        if how == "deaf":
            time.sleep(3600)
        if how == "finish":
            send(op="result", id=request["id"], body={{"decode_s": {{"absent": "stand-in"}}, "pid": os.getpid()}})
    decoder = Decoder()
    while data := os.read(0, 65536):
        for frame in decoder.feed(data):
            message = decode_control(frame.body)
            if message["op"] == "cancel":
                cancelled.set()
            else:
                threading.Thread(target=run, args=(message,), daemon=True).start()
    os._exit(0)
"""


class Bench:
    """A `Runs` with the stand-in worker, and what it answered."""

    def __init__(self, tmp_path, argv=None):
        script = tmp_path / "worker.py"
        script.write_text(textwrap.dedent(STAND_IN).format(root=str(LAUNCHER.parent)))
        self.answers = queue.Queue()
        argv = argv or [sys.executable, str(script)]
        self.runs = Runs(argv, dict(os.environ), self.answers.put, lambda body: {**body, "power_w": {"absent": "none"}})

    def measure(self, request_id, how="finish", **more):
        point = {"how": how}
        self.runs.submit({"op": "measure", "id": request_id, "point": point, "what": ["decode"], **more})

    def next(self, op=None):
        while True:
            answer = self.answers.get(timeout=PATIENCE_S)
            if op is None or answer["op"] == op:
                return answer

    def ends(self, count):
        """Return (id, kind) of the next answers that end a request."""
        got = []
        while len(got) < count:
            answer = self.next()
            if answer["op"] != "progress":
                got.append((answer["id"], answer.get("kind", "result")))
        return got


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.runs.close()


def test_a_run_gives_progress_then_a_result_with_power(bench):
    bench.measure(1)
    assert bench.next()["op"] == "progress"
    result = bench.next()
    assert (result["op"], result["id"]) == ("result", 1)
    assert result["body"]["power_w"] == {"absent": "none"}


def test_the_worker_is_kept_between_runs_and_bandwidth_gets_no_power(bench):
    bench.measure(1)
    pid = bench.next("result")["body"]["pid"]
    bench.runs.submit({"op": "bandwidth", "id": 2})
    body = bench.next("result")["body"]
    assert body["pid"] == pid
    assert "power_w" not in body


def test_a_newer_request_supersedes_an_unfinished_one(bench):
    bench.measure(1, "wait")
    bench.next("progress")
    bench.measure(2, "wait")
    bench.measure(3)
    assert bench.ends(3) == [(1, "superseded"), (2, "superseded"), (3, "result")]


def test_queued_requests_keep_their_order_and_are_not_superseded(bench):
    bench.measure(1, "wait", queue=True)
    bench.next("progress")
    bench.measure(2, queue=True)
    bench.runs.submit({"op": "bandwidth", "id": 3})
    bench.measure(4)  # goes first, supersedes none of them
    bench.runs.cancel(1)
    ends = bench.ends(4)
    assert (1, "cancelled") in ends  # before the result of 4 or after it, as the worker is quick
    assert [end for end in ends if end[0] != 1] == [(4, "result"), (2, "result"), (3, "result")]


def test_a_queued_run_makes_way_for_a_newer_request_and_begins_anew(bench):
    bench.measure(1, "wait", queue=True)
    assert bench.next()["op"] == "progress"
    bench.measure(2)
    assert bench.ends(1) == [(2, "result")]
    assert bench.next() == {"op": "progress", "id": 1, "done_frac": 0.5, "text": "wait"}
    bench.measure(3, queue=True)
    bench.runs.cancel(1)
    assert bench.ends(2) == [(1, "cancelled"), (3, "result")]


def test_a_run_that_ends_before_it_can_make_way_is_not_run_twice(bench):
    bench.measure(1, "stubborn", queue=True)
    bench.next("progress")
    bench.measure(2)
    assert bench.ends(2) == [(1, "result"), (2, "result")]
    bench.measure(3)
    assert bench.ends(1) == [(3, "result")]


def test_the_queue_is_bounded(bench):
    bench.measure(0, "wait", queue=True)
    bench.next("progress")
    for i in range(1, MAX_QUEUED + 2):
        bench.measure(i, queue=True)
    failed = bench.next("failed")
    assert failed["id"] == MAX_QUEUED + 1
    assert "waiting already" in failed["reason"]


def test_cancel_ends_waiting_and_running_requests_and_ignores_others(bench):
    bench.measure(1, "wait", queue=True)
    bench.measure(2, queue=True)
    bench.next("progress")
    for request_id in (2, 1, 1, 99):
        bench.runs.cancel(request_id)
    bench.measure(3)
    assert bench.ends(3) == [(2, "cancelled"), (1, "cancelled"), (3, "result")]


def test_a_killed_worker_fails_its_run_and_the_next_gets_a_fresh_one(bench):
    bench.measure(1)
    pid = bench.next("result")["body"]["pid"]
    bench.measure(2, "die")
    failed = bench.next("failed")
    assert failed["id"] == 2
    assert "killed (signal 9)" in failed["reason"]
    assert "\n" not in failed["reason"]
    bench.measure(3)
    assert bench.next("result")["body"]["pid"] != pid


@pytest.mark.parametrize(("how", "says"), [("exit", "ended with status 3"), ("garbage", "broke the protocol")])
def test_a_worker_that_breaks_is_replaced(bench, how, says):
    bench.measure(1, how)
    assert says in bench.next("failed")["reason"]
    bench.measure(2)
    assert bench.next("result")["id"] == 2


def test_requests_queued_behind_a_dying_worker_are_run(bench):
    bench.measure(1, "die", queue=True)
    bench.measure(2, queue=True)
    assert bench.ends(2) == [(1, "failed"), (2, "result")]


def test_a_worker_that_does_not_answer_a_cancellation_is_killed(bench, monkeypatch):
    monkeypatch.setattr("app.agent.runs.PATIENCE_S", 0.1)
    bench.measure(1, "deaf")
    bench.next("progress")
    bench.measure(2)
    assert bench.ends(2) == [(1, "superseded"), (2, "result")]


def test_what_cannot_start_fails_in_one_sentence(tmp_path):
    bench = Bench(tmp_path, argv=[str(tmp_path / "no such program")])
    bench.measure(1)
    assert bench.next("failed")["reason"] == "the measuring process cannot start: No such file or directory"


def test_without_the_extra_a_run_is_refused_with_the_command_to_type(tmp_path):
    answers = queue.Queue()
    reason = "torch is not installed: make run installs it, or pip install '.[local]' in its folder"
    runs = Runs(["/bin/false"], {}, answers.put, dict, unavailable=reason)
    runs.submit({"op": "measure", "id": 1, "point": {}, "what": ["decode"]})
    assert answers.get_nowait() == {"op": "failed", "id": 1, "kind": "failed", "reason": reason}


@pytest.mark.parametrize("what", [[], ["speed"], ["decode", "speed"], [["decode"]]])
def test_an_unknown_quantity_is_refused(bench, what):
    bench.runs.submit({"op": "measure", "id": 1, "point": {}, "what": what})
    assert "expected some of decode, ttft, quality" in bench.next("failed")["reason"]
