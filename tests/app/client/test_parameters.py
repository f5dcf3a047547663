"""The board's compensation parameters: steps in their order, a board that dies at any of them, and the whole way."""

import json
import math
import signal
import struct
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import LAUNCHER
from app.agent.parameters import Parameters, Slots
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.parameters import install
from app.client.transport import LocalTransport
from app.parameter_set import MAX_FRAGMENT_BYTE, ParametersError, ParameterSet, decode
from core.physics.compensation import compensated

OLD = ParameterSet(0.25, 2.0, ((1.0, 0.0),) * 3)
NEW = ParameterSet(0.5, 1.0, ((0.25, 0.125),) * 300)  # two messages and a half


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def slots(tmp_path):
    return Slots(tmp_path / "parameters")


def send(board, wanted, size=MAX_FRAGMENT_BYTE):
    data = wanted.encode()
    for offset in range(0, len(data), size):
        board.set(offset, len(data), data[offset : offset + size])
    return data


def put(board, wanted, size=MAX_FRAGMENT_BYTE):
    data = send(board, wanted, size)
    board.verify(zlib.crc32(data))
    epoch = board.commit()["epoch"]
    n = min(3, len(wanted.channels))
    return board.verify_live(epoch, 0, [1.2, 2.2, 3.2][:n], decode(data).compensate([1.2, 2.2, 3.2][:n]))


def live_of(slots):
    data = Slots(slots._folder).live()[2]
    return None if data is None else decode(data)


def test_a_set_goes_the_whole_way_and_lives_on(slots):
    board = Parameters(slots)
    assert board.status()["epoch"] == 0
    assert put(board, OLD)["epoch"] == 1
    assert put(board, NEW)["epoch"] == 2
    assert board.status()["n_channels"] == 300
    assert live_of(slots) == NEW
    assert Parameters(slots).status()["epoch"] == 2  # a board that starts again


def test_3072_channels_need_pieces_and_a_message_holds_256():
    assert len(ParameterSet(1.0, 0.0, ((1.0, 0.0),) * 3072).encode()) - 16 == 24576
    assert MAX_FRAGMENT_BYTE // struct.calcsize("<ff") == 256


def test_pieces_may_come_twice_but_not_with_a_hole(slots):
    board = Parameters(slots)
    data = NEW.encode()
    for _ in range(2):
        board.set(0, len(data), data[:2048])
        board.set(2048, len(data), data[2048:])
    assert board.verify(zlib.crc32(data))["state"] == "verified"
    board.set(0, len(data), data[:1000])
    with pytest.raises(ParametersError, match="at byte 2048 does not follow"):
        board.set(2048, len(data), data[2048:])
    assert board.status()["state"] == "idle"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (OLD._replace(gain=2.0), "gain 2 and target mean 2: expected 0 < gain < 2"),
        (OLD._replace(gain=math.nan), "gain nan"),
        (OLD._replace(target_mean=math.inf), "target mean inf"),
        (OLD._replace(channels=((1.0, 0.0), (0.0, 0.0))), "channel 1: scale 0 and zero 0"),
        (OLD._replace(channels=((1.0, math.nan),)), "channel 0: scale 1 and zero nan"),
        (OLD._replace(channels=()), "says 0 channels"),
    ],
)
def test_numbers_out_of_range_never_get_behind_verify(slots, wanted, words):
    board = Parameters(slots)
    put(board, OLD)
    data = send(board, wanted)
    with pytest.raises(ParametersError, match=words):
        board.verify(zlib.crc32(data))
    assert (board.status()["state"], board.status()["epoch"]) == ("idle", 1)
    assert live_of(slots) == OLD


@given(st.binary(max_size=80))
def test_bytes_that_are_no_set_are_refused_with_a_sentence(data):
    with pytest.raises(ParametersError, match=r"^the set "):
        decode(data)


def test_one_flipped_bit_is_found(slots):
    board = Parameters(slots)
    data = bytearray(OLD.encode())
    crc = zlib.crc32(data)
    data[20] ^= 1
    board.set(0, len(data), bytes(data))
    with pytest.raises(ParametersError, match="the checksum of the set is"):
        board.verify(crc)


@pytest.mark.parametrize("step", ["verify", "commit", "verify_live"])
def test_steps_out_of_order_are_refused(slots, step):
    message = {"crc": 0, "epoch": 1, "first": 0, "probe": [1.0], "expected": [1.0]}
    with pytest.raises(ParametersError, match=f"{step} belongs to the state"):
        Parameters(slots).step(step, message)


@pytest.mark.parametrize("message", [{}, {"crc": -1}, {"crc": True}, {"crc": "7"}])
def test_members_of_the_wrong_kind_are_refused(slots, message):
    with pytest.raises(ParametersError, match="crc: got"):
        Parameters(slots).step("verify", message)
    with pytest.raises(ParametersError, match="step: got 'reboot'"):
        Parameters(slots).step("reboot", message)


def test_a_long_pause_gives_up_what_was_begun(slots):
    clock = Clock()
    board = Parameters(slots, 0.5, clock)
    put(board, OLD)
    data = send(board, NEW)
    clock.now += 0.6
    with pytest.raises(ParametersError, match=r"verify belongs to the state receiving, this one is idle \(the set was"):
        board.verify(zlib.crc32(data))
    send(board, NEW)
    board.verify(zlib.crc32(data))
    board.commit()
    assert board.status()["epoch"] == 2
    clock.now += 0.6
    assert board.status() | {"timeout_s": 0} == {
        "state": "idle",
        "epoch": 1,
        "crc": zlib.crc32(OLD.encode()),
        "n_channels": 3,
        "n_received_byte": 0,
        "timeout_s": 0,
        "said": "the trial was given up: nothing came for 0.5 s",
    }
    assert live_of(slots) == OLD


def test_a_live_set_that_does_not_do_what_was_meant_is_rolled_back(slots):
    board = Parameters(slots)
    put(board, OLD)
    data = send(board, NEW)
    board.verify(zlib.crc32(data))
    epoch = board.commit()["epoch"]
    with pytest.raises(ParametersError, match=r"channel 0 of the live set gives .*; the old set is live again"):
        board.verify_live(epoch, 0, [1.2], [9.0])
    assert (board.status()["state"], board.status()["epoch"]) == ("idle", 1)
    assert live_of(slots) == OLD


def test_rollback_undoes_the_last_set_once_and_no_epoch_comes_twice(slots):
    board = Parameters(slots)
    with pytest.raises(ParametersError, match="no older set to go back to"):
        board.rollback()
    put(board, OLD)
    put(board, NEW)
    assert board.rollback()["epoch"] == 1
    assert live_of(slots) == OLD
    with pytest.raises(ParametersError, match="no older set"):
        board.rollback()
    assert put(board, NEW)["epoch"] == 3


def test_the_board_compensates_as_the_engine_does():
    golden = ParameterSet(0.05, 2.0, ((1.0, 0.0),) * 3)
    assert golden.compensate([1.2, 2.2, 3.2]) == pytest.approx([1.0, 2.0, 3.0])  # B10
    assert golden.compensate([1.3, 2.1, 3.2]) == pytest.approx([1.005, 1.995, 3.0])
    values = np.random.default_rng(0).normal(size=64)
    scales, zeros = np.linspace(0.1, 0.5, 64), np.linspace(-1.0, 1.0, 64)
    mine = ParameterSet(0.3, 0.1, tuple(zip(scales, zeros, strict=True))).compensate(list(values))
    assert mine == pytest.approx(compensated(values, 0.1, 0.3, scales, zeros))


DIES = textwrap.dedent(
    """
    import os, signal, sys, zlib
    sys.path.insert(0, sys.argv[3])
    from pathlib import Path
    from app.agent import parameters as p
    from app.parameter_set import ParameterSet
    n_left = int(sys.argv[2])
    def moment():
        global n_left
        n_left -= 1
        if n_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def watch(name):
        call = getattr(os, name)
        def watched(*args):
            moment()
            done = call(*args)
            moment()
            return done
        setattr(os, name, watched)
    for name in ("fsync", "replace"):
        watch(name)
    board = p.Parameters(p.Slots(Path(sys.argv[1])))
    new = ParameterSet(0.5, 1.0, ((0.25, 0.125),) * 300)
    data = new.encode()
    board.set(0, len(data), data[:2048])
    board.set(2048, len(data), data[2048:])
    board.verify(zlib.crc32(data))
    board.commit()
    board.verify_live(2, 0, [1.0], new.compensate([1.0]))
    """
)


def test_a_board_that_dies_at_any_write_has_the_old_set_or_the_whole_new_one(slots):
    repository = str(Path(LAUNCHER).parent)
    lived, seen = False, set()
    for fatal in range(1, 40):
        folder = slots._folder.with_name(f"board-{fatal}")
        put(Parameters(Slots(folder)), OLD)
        done = subprocess.run(
            [sys.executable, "-c", DIES, folder, str(fatal), repository], capture_output=True, text=True
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        found = live_of(Slots(folder))
        assert found in (OLD, NEW)
        seen.add(found)
        assert put(Parameters(Slots(folder)), NEW)["state"] == "idle"  # and it goes on
        lived = done.returncode == 0
        if lived:
            break
    assert lived
    assert seen == {OLD, NEW}


@pytest.mark.parametrize("cut", [0, 3, 20, 30])
def test_a_torn_slot_or_name_is_not_live(slots, cut):
    put(Parameters(slots), OLD)
    name = slots._folder / ("live" if cut < 20 else f"set-{slots.live()[0]}")
    name.write_bytes(name.read_bytes()[:cut])
    assert Parameters(slots).status()["epoch"] == 0
    assert put(Parameters(slots), NEW)["state"] == "idle"


# --- over the link of a real agent


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    return tmp_path


def command(*words):
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), "parameters", *map(str, words)], capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    return done


def test_a_set_is_installed_over_the_link_and_rolled_back(data_dir):
    example = Path(LAUNCHER).parent / "resources" / "examples" / "parameters.toml"
    assert "No parameters are live" in command().stdout
    for epoch in (1, 2):
        found = json.loads(command("--install", example, "--json").stdout)
        assert (found["live"]["epoch"], found["live"]["n_channels"], found["live"]["state"]) == (epoch, 4, "idle")
        assert found["installed"]["n_message"] == 1
        assert 0 < found["installed"]["set_s"] < found["installed"]["total_s"]
    assert json.loads(command("--rollback", "--json").stdout)["live"]["epoch"] == 1
    refused = command("--rollback")
    assert (refused.returncode, "no older set to go back to" in refused.stderr) == (2, True)


def test_the_article_s_3072_channels_go_over_the_link(data_dir):
    wanted = ParameterSet(0.05, 0.0, tuple((0.01 * (i + 1), 0.5 * i) for i in range(3072)))
    with AttachedBoard(LocalTransport) as board:
        found = install(board.parameters, wanted)
        assert board.parameters("status", {})["n_channels"] == 3072
        with pytest.raises(LinkError, match="verify belongs to the state receiving"):
            board.parameters("verify", {"crc": 1})
    assert (found.n_message, found.payload_byte) == (13, 24592)  # 24576 of them channels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gain = 3", "gain: got 3, expected a number from"),
        ("gain = 0.5", "scale: got nothing, expected a list of numbers"),
        ("gain = 0.5\nscale = [0.0]\nzero = [0.0]", "scale: got 0.0, expected a list of numbers"),
        ("gain = 0.5\nscale = [1.0]\nzero = [nan]", "zero: got nan"),
        ("gain = 0.5\nscale = [1.0, 1.0]\nzero = [0.0]", "got 2 scales and 1 zeros, expected equally many"),
        ("gain = ", "that is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_before_a_board_is_asked(data_dir, text, words):
    path = data_dir / "set.toml"
    path.write_text(text, encoding="utf-8")
    done = command("--install", path)
    assert done.returncode == 2
    assert words in done.stderr
    assert command("--install", data_dir / "none.toml").stderr.endswith(
        "none.toml: cannot be read (No such file or directory), expected a file\n"
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300, 10**400])
def test_a_probe_that_cannot_be_compensated_is_refused(slots, value):
    board = Parameters(slots)
    put(board, OLD)
    data = send(board, NEW)
    board.verify(zlib.crc32(data))
    epoch = board.commit()["epoch"]
    with pytest.raises(ParametersError, match="probe: got a number that is not below"):
        board.step("verify_live", {"epoch": epoch, "first": 0, "probe": [value], "expected": [1.0]})
    with pytest.raises(ParametersError, match="first: got one out of range"):
        board.step("verify_live", {"epoch": epoch, "first": 10**400, "probe": [1.0], "expected": [1.0]})
    assert live_of(slots) == OLD


def test_two_agents_never_write_over_the_live_set(slots):
    first, second = Parameters(slots), Parameters(slots)
    put(first, OLD)
    data = send(second, NEW)
    second.verify(zlib.crc32(data))
    put(first, OLD)  # now the slot that the second was to write is the live one
    with pytest.raises(ParametersError, match="another agent on this board changed the live set"):
        second.commit()
    assert live_of(slots) == OLD


def test_a_rollback_after_a_trial_that_ran_out_undoes_nothing_more(slots):
    clock = Clock()
    board = Parameters(slots, 0.5, clock)
    put(board, OLD)
    put(board, OLD._replace(gain=0.5))
    data = send(board, NEW)
    board.verify(zlib.crc32(data))
    board.commit()
    clock.now += 0.6
    assert board.status()["state"] == "idle"
    assert board.rollback()["epoch"] == 2
    assert live_of(slots) == OLD._replace(gain=0.5)


def test_a_name_of_the_live_set_that_makes_no_sense_is_none(slots):
    put(Parameters(slots), OLD)
    (slots._folder / "live").write_text('{"slot": 0, "epoch": 1e999}', encoding="ascii")
    assert Parameters(slots).status()["epoch"] == 0
