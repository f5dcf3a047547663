"""Frames and messages: what is whole gets through, everything else is skipped, counted and bounded."""

import json
import random
import struct
import subprocess
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.client.agent_file import SOURCES
from app.protocol import (
    CONTROL,
    MAGIC,
    MAX_BODY_BYTE,
    MAX_REJECTED,
    MAX_SKIPPED_BYTE,
    MESSAGES,
    SAMPLES,
    VERSION,
    Decoder,
    Frame,
    ProtocolError,
    check_message,
    decode_control,
    encode_control,
    encode_frame,
    record_struct,
)
from tests.places import ROOT

HEADER_BYTE = 17
VERMIN = "import vermin; vermin.main()"
PING = {"op": "ping", "t1_ns": 1}
without_magic = st.binary(max_size=200).filter(lambda data: b"\xfe" not in data)
frames = st.lists(
    st.tuples(st.sampled_from([CONTROL, SAMPLES]), st.integers(0, 2**64 - 1), st.binary(max_size=300)), max_size=8
)


def decode(stream, chunk=None):
    decoder = Decoder()
    step = chunk or max(1, len(stream))
    got = [frame for at in range(0, len(stream), step) for frame in decoder.feed(stream[at : at + step])]
    return got, decoder


def flood(decoder, chunk):
    """Feed the same bytes again and again, for 256 MiB or until the decoder gives up."""
    for _ in range(256 * 2**20 // len(chunk)):
        list(decoder.feed(chunk))


def test_layout_of_a_frame_is_the_documented_one():
    frame = encode_frame(SAMPLES, 0x0102030405060708, b"abc")
    assert frame[:HEADER_BYTE] == b"\xfeTL" + bytes([VERSION, SAMPLES]) + b"\x03\0\0\0" + bytes(range(8, 0, -1))
    assert frame[HEADER_BYTE:-4] == b"abc"
    assert struct.unpack("<I", frame[-4:])[0] == zlib.crc32(frame[:-4])


@given(frames, st.lists(without_magic, min_size=9, max_size=9), st.integers(1, 64))
def test_frames_survive_any_chunking_and_any_text_between_them(sent, noise, chunk):
    stream = noise[0] + b"".join(
        encode_frame(kind, seq, body) + noise[i + 1] for i, (kind, seq, body) in enumerate(sent)
    )
    got, decoder = decode(stream, chunk)
    assert got == [Frame(*frame) for frame in sent]
    assert decoder.n_rejected == 0
    skipped = sum(len(piece) for piece in noise[: len(sent) + 1])
    assert skipped - 2 <= decoder.n_skipped_byte <= skipped  # the last two bytes may yet begin a magic


@given(st.binary(max_size=4000), st.integers(1, 500))
def test_random_bytes_never_raise_anything_but_protocol_error(data, chunk):
    decode(data, chunk)


@settings(max_examples=300)
@given(st.data())
def test_a_flipped_bit_loses_only_its_frame(data):
    sent = [encode_frame(SAMPLES, i, bytes([i]) * 40) for i in range(6)]
    stream = bytearray(b"".join(sent))
    bit = data.draw(st.integers(0, len(stream) * 8 - 1))
    stream[bit // 8] ^= 1 << (bit % 8)
    hit = (bit // 8) // len(sent[0])
    padding = encode_frame(SAMPLES, 9, bytes(15_000)) * 40  # a length bit may ask for up to 512 KiB more
    got, _ = decode(bytes(stream) + padding, 65536)
    assert [frame.seq for frame in got if frame.seq != 9] == [i for i in range(6) if i != hit]


def test_every_cut_keeps_all_whole_frames():
    sent = [encode_frame(SAMPLES, i, bytes(7 * i)) for i in range(5)]
    stream = b"".join(sent)
    ends = [sum(map(len, sent[: i + 1])) for i in range(5)]
    for cut in range(len(stream) + 1):
        got, _ = decode(stream[:cut])
        assert len(got) == sum(end <= cut for end in ends)


def test_a_length_of_4_gib_is_refused_without_memory():
    header = struct.pack("<3sBBIQ", MAGIC, VERSION, SAMPLES, 0xFFFFFFFF, 0)
    chunk = bytes(64 * 1024)
    decoder = Decoder()
    tracemalloc.start()
    try:
        list(decoder.feed(header))
        with pytest.raises(ProtocolError):
            flood(decoder, chunk)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoder.n_rejected == 1
    assert peak < 2 * 1024 * 1024


def test_a_promised_body_is_held_once_and_no_more():
    """An honest header of the largest length, then a stream that never completes it with a right checksum."""
    header = struct.pack("<3sBBIQ", MAGIC, VERSION, SAMPLES, MAX_BODY_BYTE[SAMPLES], 0)
    decoder = Decoder()
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="gave up"):
            flood(decoder, header + bytes(64 * 1024))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * 1024 * 1024


def test_garbage_ends_in_one_sentence():
    with pytest.raises(ProtocolError, match="no Trilemma frame"):
        decode(b"x" * (MAX_SKIPPED_BYTE + 10), 65536)
    bad = struct.pack("<3sBBIQ", MAGIC, VERSION, 77, 0, 0)
    with pytest.raises(ProtocolError, match=f"{MAX_REJECTED} damaged frames"):
        decode(bad * (MAX_REJECTED + 1))


def test_a_whole_frame_forgives_what_came_before():
    bad = struct.pack("<3sBBIQ", MAGIC, VERSION, 77, 0, 0) * (MAX_REJECTED - 1)
    got, decoder = decode((bad + encode_frame(CONTROL, 0, b"{}")) * 3)
    assert len(got) == 3
    assert decoder.n_rejected == 3 * (MAX_REJECTED - 1)


def test_another_version_is_named():
    frame = bytearray(encode_frame(CONTROL, 0, b"{}"))
    frame[3] = 9
    with pytest.raises(ProtocolError, match=r"may speak version 9 .* this one speaks 1"):
        decode(bytes(frame) * MAX_REJECTED)


def test_a_whole_frame_of_another_version_ends_in_one_sentence_that_names_both():
    head = struct.pack("<3sBBIQ", MAGIC, VERSION + 8, 9, 2, 0) + b"{}"
    frame = head + struct.pack("<I", zlib.crc32(head))
    with pytest.raises(ProtocolError, match=rf"speaks version {VERSION + 8} .* this one speaks {VERSION}:"):
        decode(b"Welcome\n" + frame)


def test_whole_frames_of_an_unknown_kind_are_left_out():
    head = struct.pack("<3sBBIQ", MAGIC, VERSION, 77, 5, 0) + b"later"
    frame = head + struct.pack("<I", zlib.crc32(head))
    got, decoder = decode(encode_frame(CONTROL, 1, b"{}") + frame + encode_frame(CONTROL, 2, b"{}"), 7)
    assert [f.seq for f in got] == [1, 2]
    assert (decoder.n_rejected, decoder.n_skipped_byte) == (0, 0)


def test_frames_before_the_break_are_delivered():
    decoder = Decoder()
    got = []

    def feed():
        for frame in decoder.feed(encode_frame(CONTROL, 5, b"{}") + b"x" * (MAX_SKIPPED_BYTE + 10)):
            got.append(frame)

    with pytest.raises(ProtocolError):
        feed()
    assert [frame.seq for frame in got] == [5]


def test_mutated_streams_stay_bounded_in_time():
    """Magic after magic with honest headers: each costs a checksum, so their number must be bounded."""
    evil = struct.pack("<3sBBIQ", MAGIC, VERSION, SAMPLES, 500_000, 0)
    with pytest.raises(ProtocolError):
        decode(evil * 100_000, 65536)


@pytest.mark.parametrize("op", MESSAGES)
def test_messages_make_the_round_trip(op):
    examples = {int: 3, str: "a\u03b2", dict: {"x": [1.5, None, True]}, list: ["decode"], bool: True}
    message = {"op": op, "unknown to this version": 1}
    for name, kind in MESSAGES[op].items():
        message[name.rstrip("?")] = 2.5 if isinstance(kind, tuple) else examples[kind]
    frame = encode_control(message, 7)
    (got,), _ = decode(frame)
    assert decode_control(got.body) == message
    for name in MESSAGES[op]:
        if not name.endswith("?"):
            with pytest.raises(ProtocolError, match=name):
                check_message({key: value for key, value in message.items() if key != name})
            with pytest.raises(ProtocolError, match=name):
                check_message({**message, name: None})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"op":"ping","t1_ns":1', "not JSON"),
        (b"[" * 60_000, "not JSON|nested"),
        (b'{"a":' * 10_000, "not JSON|nested"),
        (b"[1]", "not an object"),
        (b"{}", "unknown operation None"),
        (b'{"op":["ping"]}', "unknown operation"),
        (b'{"op":"format_disk"}', "unknown operation 'format_disk'"),
        (b'{"op":"ping","t1_ns":"1"}', "t1_ns: got '1', expected int"),
        (b'{"op":"ping","t1_ns":true}', "t1_ns: got True, expected int"),
        (b'{"op":"ping","t1_ns":1.0}', "t1_ns: got 1.0, expected int"),
        (b'{"op":"subscribe","rate_hz":NaN}', "finite"),
        (b'{"op":"subscribe","rate_hz":1e999}', "finite"),
        (b'{"op":"subscribe","rate_hz":-Infinity}', "finite"),
        (b'{"op":"ping","t1_ns":18446744073709551616}', "64 bits"),
        (b'{"op":"hello","t_ns":-1' + b"0" * 400 + b"}", "64 bits"),
        (b'{"op":"log","level":"info","text":"\\ud800"}', "half a character"),
        (b'{"op":"ping","t1_ns":' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"op":"measure","id":1,"what":["decode"],"point":{"a":[[[[[[[1]]]]]]]}}', "nested deeper than 8"),
    ],
)
def test_bad_control_messages_are_refused_in_one_sentence(body, says):
    with pytest.raises(ProtocolError, match=says) as caught:
        decode_control(body)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_depth_8_is_allowed():
    check_message({"op": "measure", "id": 1, "what": [], "point": {"a": [[[[[[1]]]]]]}})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["op", "id", "point", "what", "t1_ns", "rate_hz"]), json_values))
def test_any_json_object_is_taken_or_refused(message):
    body = json.dumps(message).encode()
    try:
        got = decode_control(body)
    except ProtocolError:
        return
    assert got["op"] in MESSAGES


def test_messages_that_cannot_be_sent_are_the_senders_mistake():
    with pytest.raises(ProtocolError, match="too long"):
        encode_control({"op": "log", "level": "info", "text": "x" * 70_000}, 0)
    with pytest.raises(ProtocolError, match="finite"):
        encode_control({"op": "result", "id": 1, "body": {"decode_s": float("nan")}}, 0)
    with pytest.raises(ProtocolError, match="JSON values"):
        encode_control({"op": "result", "id": 1, "body": {"decode_s": b"x"}}, 0)


def test_a_million_mutations_of_a_real_stream():
    """Each byte of a session's stream is overwritten at random; the decoder skips or gives up, never more."""
    record = record_struct(3).pack(10**9, 1.0, 2.0, 3.0)
    stream = b"".join(encode_control(PING, i) + encode_frame(SAMPLES, i, record * 4) for i in range(200))
    dice = random.Random(5)
    n_mutations = 0
    while n_mutations < 1_000_000:
        mutated = bytearray(stream)
        count = dice.choice((1, 10, 100, len(stream) // 2))
        for _ in range(count):
            mutated[dice.randrange(len(stream))] = dice.randrange(256)
        n_mutations += count
        try:
            for frame in Decoder().feed(bytes(mutated)):
                if frame.kind == CONTROL:
                    assert decode_control(frame.body) == PING
                else:
                    assert frame.body == record * 4
        except ProtocolError:
            pass


def test_agent_and_protocol_run_on_python_3_8():
    """All that travels to a board; the process that measures needs torch and what that needs."""
    files = [path for pattern in SOURCES if "kernels" not in pattern for path in ROOT.glob(pattern)]
    files = [path for path in files if path.name != "worker.py" and path.suffix == ".py"]
    assert len(files) > 10
    done = subprocess.run(
        [sys.executable, "-c", VERMIN, "-t=3.8-", "--violations", "--no-tips", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_floor_check_catches_newer_syntax(tmp_path):
    newer = tmp_path / "newer.py"
    newer.write_text("match 1:\n    case 1:\n        pass\n")
    command = [sys.executable, "-c", VERMIN, "-t=3.8-", "--violations", "--no-tips", str(newer)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 1


def test_agent_needs_nothing_but_the_standard_library():
    """Import it with every other distribution out of reach."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import app.agent.main; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert {name.split(".")[0] for name in done.stdout.split()} - {*sys.stdlib_module_names, "__main__"} <= {"app"}
