"""Reading recordings: cut, damaged, hostile."""

import os
import random
import types
import zlib
from datetime import UTC, datetime

import numpy as np
import pytest

from app.client import frame_scanner
from app.client.recorder import RecordingError
from app.protocol import SAMPLES, encode_control, encode_frame
from tests.app.client.recordings import BODY, CATALOGUE, opened, record, samples, values

T0_NS = 10**12


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
    assert recording.n_unreadable == 6
    assert recording.time_utc(0) is None
    assert len(list(recording.pieces())) == 1
    assert any("the date is not known" in text for text in recording.warnings)
