"""The real agent as a child process, and its supervision of workers with a stand-in worker that obeys on command."""

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from itertools import pairwise

import pytest

from app import LAUNCHER, VERSION
from app.agent import main as agent_main
from app.agent.outbox import MAX_MESSAGES, Outbox
from app.agent.runs import Runs
from app.protocol import (
    CONTROL,
    MAX_QUEUED,
    SAMPLES,
    Decoder,
    decode_control,
    encode_control,
    encode_frame,
    record_struct,
)
from tests.processes import running
from tests.waiting import PATIENCE_S, wait_until

POINT = {"weights": "int4"}


class RawAgent:
    """An agent on two pipes; frames are read in a thread and looked for with a deadline."""

    def __init__(self, argv=(sys.executable, str(LAUNCHER), "agent")):
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self.frames = queue.Queue()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self):
        decoder = Decoder()
        while data := os.read(self.process.stdout.fileno(), 65536):
            for frame in decoder.feed(data):
                self.frames.put(frame)
        self.frames.put(None)

    def send(self, **message):
        self.process.stdin.write(encode_control(message, 0))

    def next(self, op=None, kind=CONTROL):
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            frame = self.frames.get(timeout=max(0.01, deadline_s - time.monotonic()))
            assert frame is not None, self.process.stderr.read().decode()
            if frame.kind == kind:
                message = decode_control(frame.body) if kind == CONTROL else frame
                if op is None or message["op"] == op:
                    return message

    def wait_for_end(self):
        assert self.process.wait(PATIENCE_S) is not None
        while self.frames.get(timeout=PATIENCE_S) is not None:
            pass
        return self.process.returncode

    def close(self):
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()


@pytest.fixture
def agent():
    raw = RawAgent()
    yield raw
    raw.close()


def children(pid):
    """Return the processes that a process has started."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def gone(pid):
    """Tell whether a process has ended (a zombie has)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_hello_then_catalogue_then_samples(agent):
    hello = agent.next()
    assert hello["op"] == "hello"
    assert hello["agent"] == VERSION
    assert hello["board"]["n_threads"] == os.cpu_count()
    assert os.uname().nodename not in str(hello["board"]).split()
    assert hello["can"]["measure"] is True or "pip install" in hello["can"]["measure"]["absent"]
    catalogue = agent.next()
    assert catalogue["op"] == "catalogue"
    present = [channel for channel in catalogue["channels"] if not channel["absent"]]
    assert catalogue["channels"][: len(present)] == present  # columns first
    assert {"cpu.busy_frac", "memory.available_byte"} <= {channel["key"] for channel in present}
    assert all(channel["unit"] for channel in catalogue["channels"])
    frame = agent.next(kind=SAMPLES)
    t_ns, *values = record_struct(len(present)).unpack(frame.body[: 8 + 4 * len(present)])
    assert frame.seq == 0
    assert abs(t_ns - time.monotonic_ns()) < 60 * 10**9
    memory = values[[channel["key"] for channel in present].index("memory.available_byte")]
    assert 1e6 < memory < 1e13


def test_some_power_channel_is_always_named(agent):
    catalogue = agent.next("catalogue")
    power = [channel for channel in catalogue["channels"] if channel["unit"] == "W"]
    assert power
    assert all(not channel["absent"] or len(channel["absent"]) > 20 for channel in power)


def test_native_periods_follow_in_a_second_catalogue(agent):
    first, second = agent.next("catalogue"), agent.next("catalogue")
    assert [c["key"] for c in first["channels"]] == [c["key"] for c in second["channels"]]
    assert all(c["native_period_s"] is None for c in first["channels"])
    assert all(c["native_period_s"] is None or 0 < c["native_period_s"] < 0.3 for c in second["channels"])


def test_samples_come_at_the_subscribed_rate_without_loss(agent):
    agent.next("catalogue")
    agent.send(op="subscribe", rate_hz=200.0)
    n_channels = len([c for c in agent.next("catalogue")["channels"] if not c["absent"]])
    record = record_struct(n_channels)
    times, expected = [], None
    while len(times) < 200:
        frame = agent.next(kind=SAMPLES)
        assert expected is None or frame.seq == expected
        records = [record.unpack_from(frame.body, at) for at in range(0, len(frame.body), record.size)]
        expected = frame.seq + len(records)
        times += [fields[0] for fields in records]
    assert times == sorted(times)
    periods_s = sorted((b - a) * 1e-9 for a, b in pairwise(times[100:]))
    assert periods_s[50] > 0.004
    assert periods_s[10] < 0.0051  # none is shorter, and a busy machine may make most of them longer


def test_frames_are_batched_to_fifty_a_second(agent):
    agent.next("catalogue")
    agent.send(op="subscribe", rate_hz=1000.0)
    agent.next("catalogue")
    agent.next(kind=SAMPLES)
    first_ns = [int.from_bytes(agent.next(kind=SAMPLES).body[:8], "little") for _ in range(30)]  # of each frame
    assert first_ns[-1] - first_ns[0] > 0.8 * 29 * 0.02e9


@pytest.mark.parametrize("rate_hz", [0.0, 0.05, 1001.0, -1.0, 1e300])
def test_a_rate_out_of_range_is_refused_in_words(agent, rate_hz):
    agent.send(op="subscribe", rate_hz=rate_hz)
    assert "expected 0.1 to 1000" in agent.next("log")["text"]


def test_ping_is_answered_in_the_agents_clock(agent):
    before = time.monotonic_ns()
    agent.send(op="ping", t1_ns=before)
    pong = agent.next("pong")
    assert pong["t1_ns"] == before <= pong["t2_ns"] <= pong["t3_ns"] <= time.monotonic_ns()


def test_it_ends_when_its_input_ends(agent):
    agent.next("hello")
    agent.process.stdin.close()
    assert agent.wait_for_end() == 0


def test_it_ends_when_nobody_reads():
    argv = [sys.executable, str(LAUNCHER), "agent"]
    with running(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout.read(1)
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_a_closed_stream_at_the_start_is_refused_in_one_sentence(closed):
    command = f"{sys.executable} {LAUNCHER} agent {closed}"
    done = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("trilemma agent: standard input or output is closed")
    assert done.stderr.count("\n") == 1


def test_a_terminal_is_no_client():
    leader, follower = os.openpty()
    try:
        argv = [sys.executable, str(LAUNCHER), "agent"]
        done = subprocess.run(argv, stdin=follower, capture_output=True, text=True, check=False)
    finally:
        os.close(leader)
        os.close(follower)
    assert done.returncode == 2
    assert "is a terminal" in done.stderr


def test_it_ignores_ctrl_c_and_keeps_serving(agent):
    agent.next("hello")
    agent.process.send_signal(signal.SIGINT)
    agent.send(op="ping", t1_ns=1)
    assert agent.next("pong")["t1_ns"] == 1


def test_text_in_the_stream_is_skipped(agent):
    agent.process.stdin.write(b"Welcome to Debian\r\nLast login: never\n")
    agent.send(op="ping", t1_ns=2)
    assert agent.next("pong")["t1_ns"] == 2


def test_endless_garbage_closes_the_link(agent):
    agent.next("hello")
    with contextlib.suppress(BrokenPipeError):
        for _ in range(64):
            agent.process.stdin.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2500)
    agent.wait_for_end()
    assert "no Trilemma frame" in agent.process.stderr.read().decode()


@pytest.mark.parametrize(
    "body", [b"[1]", b'{"op":"format_disk"}', b'{"op":"cancel","id":"x"}', b'{"op":"hello"}', b"\xff", b"[" * 60000]
)
def test_a_bad_message_is_refused_and_the_link_lives(agent, body):
    agent.process.stdin.write(encode_frame(CONTROL, 0, body))
    assert agent.next("log")["text"].startswith("request refused: ")
    agent.send(op="ping", t1_ns=3)
    assert agent.next("pong")["t1_ns"] == 3


def test_a_stalled_reader_costs_the_oldest_samples_and_they_are_counted():
    read_fd, write_fd = os.pipe()
    outbox = Outbox(write_fd, max_records=10)
    for i in range(25):
        outbox.push(bytes([i]) * 12)
    assert outbox.n_dropped == 15
    writer = threading.Thread(target=outbox.run)
    writer.start()
    (frame,) = Decoder().feed(os.read(read_fd, 65536))
    assert (frame.kind, frame.seq) == (SAMPLES, 15)
    assert frame.body == b"".join(bytes([i]) * 12 for i in range(15, 25))
    outbox.close()
    writer.join(PATIENCE_S)
    os.close(read_fd)
    os.close(write_fd)


def test_a_reader_that_only_asks_is_given_up():
    outbox = Outbox(-1)
    for _ in range(MAX_MESSAGES + 1):
        outbox.send({"op": "log", "level": "info", "text": "x"})
    outbox.run()  # returns: bad descriptor, or closed; in no case for ever


def test_no_thread_writes_to_a_link_that_was_given_up(tmp_path, monkeypatch):
    """Its descriptor may be another client's by then."""
    monkeypatch.setattr(agent_main, "JOIN_S", 0.05)
    ours, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the least there is
    agent = agent_main.Agent(
        theirs.fileno(), theirs.fileno(), tmp_path, hang_up=lambda: theirs.shutdown(socket.SHUT_RDWR)
    )
    with ours, theirs:
        ours.sendall(500 * encode_control({"op": "ping", "t1_ns": 1}, 0))
        ours.shutdown(socket.SHUT_WR)  # it reads none of the answers
        agent.serve()
        assert "writer" not in [thread.name for thread in threading.enumerate()]


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


def test_the_worker_dies_with_its_agent(agent):
    """The real worker: killed agent, closed pipe, no orphan."""
    if agent.next("hello")["can"]["measure"] is not True:
        pytest.fail("the extra local is not installed; make test installs it")
    agent.send(op="bandwidth", id=1)
    agent.next("progress")
    (worker,) = children(agent.process.pid)
    agent.process.kill()
    wait_until(lambda: gone(worker))
