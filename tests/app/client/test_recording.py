"""Recordings: what is written, what can be read after every kind of damage, and what a crash or a full disk costs."""

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
import zlib
from datetime import UTC, datetime

import numpy as np
import pytest

from app import LAUNCHER
from app.client import frame_scanner
from app.client import recorder as recorder_
from app.client.buffer import save_buffer
from app.client.events import Catalogue, ClockRead, Connected, Disconnected, Samples
from app.client.recorder import Recorder, RecordingError
from app.client.recording import Recording
from app.client.session import Session
from app.client.transport import LocalTransport
from app.protocol import SAMPLES, Frame, encode_control, encode_frame, record_struct
from tests.processes import running
from tests.waiting import wait_until

PATIENCE_S = 180.0
SEED = os.environ.get("TRILEMMA_KILL_SEED", "5")
"""Of the times of kills. TRILEMMA_KILLS is their number; docs/recording.md has the command for two hundred."""
RECORD = record_struct(2)
BODY = {"decode_s": {"median": 0.02, "q05": 0.019, "q95": 0.021, "n": 9, "provenance": "measured"}}
REQUEST = {"op": "measure", "id": 1, "point": {"context_tokens": 512}, "what": ["decode"]}


def hello(**more):
    made = {"op": "hello", "protocol": 1, "agent": "9.9", "t_ns": 0, "board": {"name": "Bench board"}}
    return {**made, "can": {"measure": True}, "models": [], **more}


def channel(key, absent=""):
    return {"key": key, "unit": "W", "source": "x", "native_period_s": None, "absent": absent}


CATALOGUE = {"op": "catalogue", "channels": [channel("a"), channel("b"), channel("c", "not here")], "rate_hz": 10}
T0_NS = 10**12


def samples(first, count, period_ns=10**8):
    body = b"".join(RECORD.pack(T0_NS + i * period_ns, i, -i) for i in range(first, first + count))
    return Frame(SAMPLES, first, body)


def record(path, n_frames=30, per_frame=2):
    """Make a recording of two channels, 10 Hz, with one measurement in the middle; the board's clock is 5 s ahead."""
    made = Recorder(path, (T0_NS - 5 * 10**9, datetime(2026, 1, 1, tzinfo=UTC)))
    made.note(hello())
    made.note({"op": "clock", "t_ns": T0_NS - 5 * 10**9, "offset_s": 5.0, "bound_s": 1e-4, "drift": 1e-6})
    made.note(CATALOGUE)
    for i in range(n_frames):
        made.take(samples(i * per_frame, per_frame))
        if i == n_frames // 2:
            made.note({"op": "measured", "request": REQUEST, "body": BODY, "time_utc": "2026-01-01T00:00:03+00:00"})
    made.close()
    assert not made.failure
    return path


OPEN = []


def opened(path):
    OPEN.append(Recording(path))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def close_all():
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def made(tmp_path):
    return record(tmp_path / "made.trilemma")


def values(recording):
    return [int(v) for piece in recording.pieces() for v in piece.y[:, 0]]


def test_a_recording_holds_what_was_put_in_in_the_clock_that_recorded(made):
    recording = opened(made)
    assert recording.warnings == []
    assert recording.n_records == 60
    assert values(recording) == list(range(60))
    (piece,) = recording.pieces()
    assert [c.key for c in piece.channels] == ["a", "b"]
    assert piece.t_ns.tolist() == [T0_NS - 5 * 10**9 + i * 10**8 for i in range(60)]
    assert recording.hello["board"]["name"] == "Bench board"
    assert recording.time_utc(recording.first_ns + 10**9) == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert recording.last_ns - recording.first_ns == 59 * 10**8
    (measured,) = recording.notes["measured"]
    assert measured.message["body"] == BODY
    assert [c.key for c in recording.channels] == ["a", "b", "c"]


def test_cut_at_every_byte_every_whole_frame_is_kept(made):
    whole = opened(made)
    first_readable = int(whole.end[0])  # before that there is no frame at all
    ends, of_samples = whole.end, set(whole._frame.tolist())
    size = made.stat().st_size
    assert size > 2000
    for length in range(size - 1, -1, -1):
        os.truncate(made, length)
        if length < first_readable:
            with pytest.raises(RecordingError, match=r"made\.trilemma: holds no recording"):
                opened(made)
            continue
        cut = opened(made)
        n = int(np.searchsorted(ends, length, "right"))
        assert len(cut.at_ns) == n
        assert cut.n_records == 2 * sum(frame < n for frame in of_samples)
        assert cut.scan.torn_byte == length - int(ends[n - 1])
        assert cut.n_lost == 0
        cut.close()


def test_of_thousands_of_flipped_bits_each_costs_its_frame_alone(tmp_path):
    made = record(tmp_path / "small.trilemma", n_frames=12)
    dice, good = random.Random(7), made.read_bytes()
    whole = opened(made)
    bounds = list(zip(whole.start.tolist(), whole.end.tolist(), strict=True))
    with made.open("r+b", buffering=0) as file:
        for _ in range(4000):
            at = dice.randrange(len(good))
            os.pwrite(file.fileno(), bytes([good[at] ^ 1 << dice.randrange(8)]), at)
            damaged = opened(made)
            expected = [bound for bound in bounds if not bound[0] <= at < bound[1]]
            kept = list(zip(damaged.start.tolist(), damaged.end.tolist(), strict=True))
            if at < bounds[3][1]:  # the opening: what hangs on the catalogue cannot be read without it
                assert set(kept) <= set(expected)
                assert len(kept) + damaged.n_unreadable == len(expected)
            else:
                assert kept == expected
            assert damaged.scan.n_damaged == 1
            assert damaged.warnings
            damaged.close()
            os.pwrite(file.fileno(), good[at : at + 1], at)
    assert values(opened(made)) == list(range(24))


def test_records_that_a_damaged_frame_held_are_missing_not_joined(made):
    whole = opened(made)
    data = bytearray(made.read_bytes())
    data[int(whole.start[whole._frame[10]]) + 30] ^= 1
    made.write_bytes(data)
    recording = opened(made)
    assert recording.n_lost == 2
    assert [(piece.joined, len(piece.t_ns), piece.seq) for piece in recording.pieces()] == [
        (True, 20, 0),
        (False, 38, 22),
    ]
    assert recording.warnings == [f"1 damaged places with {int(whole.end[5] - whole.start[5])} byte were skipped."]


def test_junk_before_between_and_behind_frames_is_skipped(made, tmp_path):
    whole = opened(made)
    data = made.read_bytes()
    middle = int(whole.start[20])
    junk = bytes(random.Random(1).randbytes(100_000))
    for i, parts in enumerate(((junk, data), (data[:middle], b"\xfeTL" * 999, data[middle:]), (data, junk))):
        path = tmp_path / f"{i}.trilemma"
        path.write_bytes(b"".join(parts))
        recording = opened(path)
        assert values(recording) == list(range(60))
        assert recording.scan.n_damaged == 1


def test_a_file_made_to_waste_time_is_given_up(tmp_path, monkeypatch):
    summed_byte = []
    counted = types.SimpleNamespace(crc32=lambda data: summed_byte.append(len(data)) or zlib.crc32(data))
    monkeypatch.setattr(frame_scanner, "zlib", counted)
    header = encode_frame(SAMPLES, 0, bytes(500_000))[:16]
    trap = header * 60_000
    (tmp_path / "trap.trilemma").write_bytes(trap)
    with pytest.raises(RecordingError, match="holds no recording"):
        opened(tmp_path / "trap.trilemma")
    most_byte = frame_scanner._WRONG_BYTE + 4 * len(trap) + 500_016
    assert most_byte / 2 < sum(summed_byte) <= most_byte  # of 30 GB that its lengths claim


@pytest.mark.parametrize("content", [b"", b"hello", b"\xfeTL", bytes(1000)])
def test_what_is_no_recording_is_refused_in_one_sentence(tmp_path, content):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=r"x\.csv: holds no recording: expected a file that trilemma record"):
        opened(path)
    with pytest.raises(RecordingError, match=r"none: cannot be read: no such file"):
        opened(tmp_path / "none")


def test_impossible_numbers_in_whole_frames_do_no_harm(tmp_path):
    path = tmp_path / "x.trilemma"
    frames = [
        {"op": "recording", "format": 9, "made_by": "x", "t_ns": -(2**64 - 1), "time_utc": "yesterday"},
        {"op": "clock", "t_ns": 2**64 - 1, "offset_s": 1e300, "drift": 0.0},
        CATALOGUE,
        {"op": "catalogue", "channels": [{"key": 3}], "rate_hz": 1},
    ]
    data = b"".join(encode_control(message, 0) for message in frames)
    data += encode_frame(SAMPLES, 1 << 63, samples(0, 2).body) + encode_frame(SAMPLES, 5, samples(0, 2).body)
    data += encode_frame(1, 0, b'{"op":"gap","t_ns":1' + b"0" * 40 + b',"reason":"long"}')
    path.write_bytes(data + encode_frame(1, 0, b'{"op":"dance"}'))
    recording = opened(path)
    assert recording.n_records == 2
    assert recording.n_unreadable == 3
    assert recording.time_utc(0) is None
    assert len(list(recording.pieces())) == 1
    assert any("format 9" in text for text in recording.warnings)


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


# --- after the fact ---------------------------------------------------------------------------------------------------


def test_the_buffer_is_saved_after_the_fact_with_its_gaps(tmp_path):
    session = Session(lambda: None, lambda event: None)
    session.beginning = {"hello": hello(), "clock": {"op": "clock", "t_ns": 0, "offset_s": 9.0, "drift": 0}}
    session.beginning["catalogue"] = CATALOGUE
    session.rings.reset(2)
    now_s = time.monotonic()
    y = np.arange(200, dtype=np.float32).reshape(100, 2)
    session.rings.append(now_s - 60 + np.arange(100) * 0.1, y)
    session.rings.mark_gap()
    session.rings.append(now_s - 5 + np.arange(10) * 0.1, y[:10])
    n = save_buffer(
        tmp_path / "x.trilemma",
        session,
        55.0,
        [{"op": "measured", "request": REQUEST, "body": BODY, "time_utc": "2026-01-01T00:00:00+00:00"}],
    )
    recording = opened(tmp_path / "x.trilemma")
    before, after = list(recording.pieces())
    assert n == recording.n_records == len(before.t_ns) + 10
    assert before.t_ns[0] * 1e-9 == pytest.approx(now_s - 55, abs=0.2)
    assert after.y.tolist() == y[:10].tolist()
    assert not after.joined
    assert after.t_ns[0] * 1e-9 == pytest.approx(now_s - 5, abs=1e-6)
    assert abs((recording.time_utc(recording.last_ns) - datetime.now(UTC)).total_seconds() + 4.1) < 2
    assert recording.notes["measured"]
    with pytest.raises(RecordingError, match="nothing to save: no sample arrived in the last 1 s"):
        save_buffer(tmp_path / "y.trilemma", session, 1.0)
    assert not (tmp_path / "y.trilemma").exists()
