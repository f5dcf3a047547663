"""Writing recordings: full and stalled disks, killed agents, killed programs."""

import os
import queue
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest

from app import LAUNCHER
from app.client import recorder as recorder_
from app.client.events import Catalogue, ClockRead, Connected, Disconnected, Samples
from app.client.recorder import Recorder, RecordingError
from app.client.recording import Recording
from app.client.session import Session
from app.client.transport import LocalTransport
from tests.app.client.recordings import CATALOGUE, hello, opened, samples
from tests.processes import running
from tests.waiting import wait_until

PATIENCE_S = 180.0
SEED = os.environ.get("TRILEMMA_KILL_SEED", "5")
"""Of the times of kills. TRILEMMA_KILLS is their number; docs/recording.md has the command for two hundred."""


# --- writing ----------------------------------------------------------------------------------------------------------
def system(monkeypatch, **calls):
    """Give the recorder, and nobody else, other calls of the system."""
    monkeypatch.setattr(recorder_, "os", types.SimpleNamespace(**{**vars(os), **calls}))


def test_a_file_that_exists_is_never_touched(tmp_path):
    path = tmp_path / "mine"
    path.write_text("precious")
    with pytest.raises(RecordingError, match="exists already: expected a new file"):
        Recorder(path)
    assert path.read_text() == "precious"
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordingError, match="cannot be recorded to"):
        Recorder(tmp_path / "file" / "x")


def test_a_full_disk_ends_the_recording_with_whole_frames_in_one_sentence(tmp_path, monkeypatch):
    room, real = 3000, os.write

    def write(fd, data):
        nonlocal room
        if not room:
            raise OSError(28, "No space left on device")
        n = real(fd, memoryview(data)[: min(room, 700)])
        room -= min(n, room)
        return n

    system(monkeypatch, write=write)
    said = queue.Queue()
    made = Recorder(tmp_path / "x.trilemma", on_failed=said.put)
    for message in (hello(), CATALOGUE):
        made.note(message)
    for i in range(1000):
        made.take(samples(2 * i, 2))
        if made.failure:
            break
    reason = said.get(timeout=PATIENCE_S)
    assert reason == f"{made.path}: the recording ended: no space left on device; what was recorded before is kept"
    made.take(samples(0, 2))  # nothing happens any more
    made.close()
    made.close()
    monkeypatch.undo()
    recording = opened(made.path)
    assert recording.scan.n_damaged == 0
    assert 0 < made.n_byte == made.path.stat().st_size <= 3000


def test_two_threads_may_close_it_and_one_does(tmp_path, monkeypatch):
    closed, real = [], os.close

    def fsync(fd):  # of the first that closes: meanwhile another comes
        if not other.is_alive() and not closed:
            other.start()
            other.join(PATIENCE_S)

    system(monkeypatch, fsync=fsync, close=lambda fd: (closed.append(fd), real(fd)))
    monkeypatch.setattr(recorder_, "SYNC_S", PATIENCE_S)
    made = Recorder(tmp_path / "x.trilemma")
    other = threading.Thread(target=made.close)
    made.close()
    assert len(closed) == 1


def test_a_stalled_disk_costs_counted_frames_not_memory(tmp_path, monkeypatch):
    go, real = threading.Event(), os.write
    monkeypatch.setattr(recorder_, "MAX_WAITING_BYTE", 10_000)
    system(monkeypatch, write=lambda fd, data: go.wait(PATIENCE_S) and real(fd, data))
    made = Recorder(tmp_path / "x.trilemma")
    for i in range(1000):
        made.take(samples(2 * i, 2))
    assert made._n_waiting_byte <= 10_000
    assert 0 < made.n_dropped < 1000
    go.set()
    made.close()
    assert made.n_byte == made.path.stat().st_size


def test_what_is_recorded_reaches_the_disk_each_second(tmp_path, monkeypatch):
    synced, real = queue.Queue(), os.fsync
    monkeypatch.setattr(recorder_, "SYNC_S", 0.02)
    system(monkeypatch, fsync=lambda fd: (real(fd), synced.put(fd)))
    made = Recorder(tmp_path / "x.trilemma")
    synced.get(timeout=PATIENCE_S)
    made.take(samples(0, 2))
    synced.get(timeout=PATIENCE_S)
    made.close()


# --- with a real agent ------------------------------------------------------------------------------------------------
class Attached:
    """A started session with a local agent; its events in a queue."""

    def __init__(self):
        self.events, self.pid = queue.Queue(), 0
        self.connected_s = 0.0  # when it was the last time
        self.session = Session(self._open, self._take)

    def __enter__(self):
        self.session.start()
        return self

    def __exit__(self, *_):
        self.session.stop()

    def _take(self, event):
        if isinstance(event, Connected):
            self.connected_s = time.monotonic()
        self.events.put(event)

    def _open(self):
        transport = LocalTransport()
        self.pid = transport.pid
        return transport

    def wait(self, kind):
        deadline_s = time.monotonic() + PATIENCE_S
        while not isinstance(event := self.events.get(timeout=max(0.01, deadline_s - time.monotonic())), kind):
            pass
        return event


def test_one_recording_over_killed_agents_with_their_gaps_and_clock(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    dice = random.Random(SEED)
    killed_s, newest_s, back_s = [], [], []
    with Attached() as board:
        board.wait(Catalogue)
        board.session.subscribe(1000.0)
        made = Recorder(tmp_path / "x.trilemma")
        board.session.recorder = made
        for _ in range(int(os.environ.get("TRILEMMA_KILLS", "1"))):
            board.wait(ClockRead)
            for _ in range(dice.randint(1, 30)):
                board.wait(Samples)
            newest_s.append(board.session.rings.records(0, 1e18)[0][-1])
            killed_s.append(time.monotonic())
            os.kill(board.pid, signal.SIGKILL)
            board.wait(Disconnected)
            board.session.reconnect_now()
            board.wait(Connected)
            back_s.append(board.connected_s)
        board.wait(ClockRead)
        board.wait(Samples)
        board.session.recorder = None
    made.close()
    recording = opened(made.path)
    assert not recording.warnings
    reasons = [note.message["reason"] for note in recording.notes["gap"]]
    assert reasons.count("the agent ended") == len(killed_s)
    assert len(recording.notes["hello"]) == 1 + len(reasons)
    pieces = list(recording.pieces())
    assert sum(not piece.joined for piece in pieces) == len(reasons)
    t_s = np.concatenate([piece.t_ns for piece in pieces]) * 1e-9
    assert all(np.abs(t_s - newest).min() < 0.1 for newest in newest_s)  # what came is kept; 0.1 s: the clock's bound
    for killed, back in zip(killed_s, back_s, strict=True):  # nothing of after its death, and it comes back
        assert not np.any((t_s > killed + 0.1) & (t_s < back - 1.0))
    assert recording.n_lost == 0
    bounds = [note.message["bound_s"] for note in recording.notes["clock"] if "bound_s" in note.message]
    assert min(bounds) < 0.1


FULL_DISK_PROGRAM = f"""
import queue, resource, sys
from pathlib import Path
sys.path.insert(0, {str(LAUNCHER.parent)!r})
from app.client.events import Catalogue, Samples
from app.client.recorder import Recorder
from app.client.session import Session
from app.client.transport import LocalTransport
events, failed = queue.Queue(), queue.Queue()
session = Session(LocalTransport, events.put)
session.start()
while not isinstance(events.get(timeout=120), Catalogue):
    pass
session.subscribe(1000.0)
if sys.argv[2] != "disk":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
session.recorder = Recorder(Path(sys.argv[1]), on_failed=failed.put)
print(failed.get(timeout=120), flush=True)
while not events.empty():
    events.get()
n = 0
while n < 20:
    event = events.get(timeout=120)
    n += isinstance(event, Samples)
session.recorder.close()
print(session.n_lost, failed.qsize())
session.stop()
"""


def record_until_full(path, limit, tmp_path):
    """Record in a process of its own until nothing more can be written; return its sentence and the recording."""
    argv = [sys.executable, "-c", FULL_DISK_PROGRAM, str(path), limit]
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(tmp_path / "data")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    sentence, last = done.stdout.splitlines()
    assert last == "0 0"  # nothing lost by the session, one sentence
    assert done.stderr == ""
    return sentence, Recording(path)


def test_a_file_that_may_not_grow_ends_the_recording_and_the_session_goes_on(tmp_path):
    path = tmp_path / "x.trilemma"
    sentence, recording = record_until_full(path, "40000", tmp_path)
    assert sentence == f"{path}: the recording ended: file too large; what was recorded before is kept"
    with recording:
        assert recording.n_records > 100
        assert recording.scan.n_damaged == recording.n_lost == 0
        assert not recording.warnings
        assert 40000 - 8000 < recording.n_byte <= 40000
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(tmp_path)}
    command = f'ulimit -f 30; exec "{sys.executable}" "{LAUNCHER}" record this "{tmp_path}/cli.trilemma" --rate 1kHz'
    argv = ["/bin/sh", "-c", command]  # 30 blocks of 512 byte
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert (
        done.stderr
        == f"{tmp_path}/cli.trilemma: the recording ended: file too large; what was recorded before is kept\n"
    )


def test_a_full_disk_ends_the_recording_and_the_session_goes_on(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        sentence, recording = record_until_full(disk / "x.trilemma", "disk", tmp_path)
        with recording:
            assert sentence.endswith("the recording ended: no space left on device; what was recorded before is kept")
            assert recording.n_records > 100
            assert recording.scan.n_damaged == recording.n_lost == 0
        made = Recorder(disk / "other.trilemma")
        made.note(hello())
        made.close()
        assert "no space left on device" in made.failure
    finally:
        subprocess.run(["umount", str(disk)], check=True)


RECORDING_PROGRAM = f"""
import mmap, queue, struct, sys, time
from pathlib import Path
sys.path.insert(0, {str(LAUNCHER.parent)!r})
from app.client.events import Catalogue, Samples
from app.client.recorder import Recorder
from app.client.session import Session
from app.client.transport import LocalTransport
events = queue.Queue()
session = Session(LocalTransport, events.put)
session.start()
while not isinstance(events.get(timeout=120), Catalogue):
    pass
session.subscribe(1000.0)
session.recorder = Recorder(Path(sys.argv[1]))
began_s = session.now_s()
print("recording", flush=True)
with open(sys.argv[2], "r+b") as file:
    seen = mmap.mmap(file.fileno(), 8)  # outlives us
while True:
    if isinstance(events.get(), Samples):
        for t_s in session.rings.records(session.now_s() - 1.0, 1e18)[0][-1:]:
            n_byte = session.recorder.n_byte
            while session.recorder.n_byte == n_byte:  # frames are written in their order: that of t_s with the next
                time.sleep(0.001)
            if t_s > began_s:
                seen[:8] = struct.pack("<d", t_s)
"""


def killed_program(path, n_changes):
    """Kill a program that records at 1 kHz; return the time of the last sample that it had received and written."""
    seen = path.with_suffix(".seen")
    seen.write_bytes(bytes(8))
    words = [sys.executable, "-c", RECORDING_PROGRAM, str(path), str(seen)]
    with running(words, stdout=subprocess.PIPE) as program:
        assert program.stdout.readline() == b"recording\n"
        for _ in range(n_changes):
            before = seen.read_bytes()
            wait_until(lambda before=before: seen.read_bytes() != before)
    return struct.unpack("<d", seen.read_bytes())[0]


def test_a_killed_program_loses_nothing_that_was_written_and_the_file_opens(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    dice = random.Random(SEED)
    for i in range(int(os.environ.get("TRILEMMA_KILLS", "2"))):
        path = tmp_path / f"{i}.trilemma"
        received_s = killed_program(path, dice.randint(1, 20))
        recording = opened(path)
        assert recording.scan.n_damaged <= 1  # the frame that was being written
        assert recording.last_ns * 1e-9 > received_s - 0.1  # the clock's bound
