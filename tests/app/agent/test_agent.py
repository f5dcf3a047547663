"""The agent over its pipes."""

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest

from app import LAUNCHER, VERSION
from app.agent import main as agent_main
from app.agent.outbox import MAX_MESSAGES, Outbox
from app.protocol import (
    CONTROL,
    SAMPLES,
    Decoder,
    decode_control,
    encode_control,
    encode_frame,
    record_struct,
)
from tests.processes import running
from tests.waiting import PATIENCE_S, wait_until


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


def test_the_worker_dies_with_its_agent(agent):
    """The real worker: killed agent, closed pipe, no orphan."""
    if agent.next("hello")["can"]["measure"] is not True:
        pytest.fail("the extra local is not installed; make test installs it")
    agent.send(op="bandwidth", id=1)
    agent.next("progress")
    (worker,) = children(agent.process.pid)
    agent.process.kill()
    wait_until(lambda: gone(worker))
