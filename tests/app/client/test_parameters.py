"""The board's compensation parameters: steps in their order, a board that dies at any of them, and the whole way."""

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
from app.agent.parameters import Parameters
from app.agent.slots import Slots
from app.parameter_set import CONTEXT, MAX_FRAGMENT_BYTE, ParametersError, ParameterSet, decode, described

MADE_FOR = {"chip": "A chip", "version": "1.0", "model": "m 1f", "weights": "int4", "compensation": "both"}
OLD = ParameterSet(MADE_FOR, 0.25, (1.0, 0.0, -2.0))
NEW = ParameterSet(MADE_FOR, 0.5, (0.25,) * 700)  # a message and a half


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
    n = min(3, len(wanted.offsets))
    return board.verify_live(epoch, 0, [1.2, 2.2, 3.2][:n], decode(data).compensate([1.2, 2.2, 3.2][:n]))


def live_of(slots):
    data = Slots(slots._folder).live()[2]
    return None if data is None else decode(data)


def test_a_set_goes_the_whole_way_and_lives_on(slots):
    board = Parameters(slots)
    assert board.status()["epoch"] == 0
    assert put(board, OLD)["epoch"] == 1
    assert put(board, NEW)["epoch"] == 2
    assert board.status()["n_channels"] == 700
    assert live_of(slots) == NEW
    assert Parameters(slots).status()["epoch"] == 2  # a board that starts again


def test_3072_channels_need_pieces_and_a_message_holds_512():
    few, many = (len(ParameterSet(MADE_FOR, 1.0, (1.0,) * n).encode()) for n in (1, 3073))
    assert many - few == 3072 * 4 == 6 * MAX_FRAGMENT_BYTE
    assert MAX_FRAGMENT_BYTE // struct.calcsize("<f") == 512


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
        (OLD._replace(gain=2.0), "the gain 2, expected 0 < gain < 2"),
        (OLD._replace(gain=math.nan), "the gain nan"),
        (OLD._replace(offsets=(1.0, math.inf)), "channel 1 of the set has the offset inf, expected a finite"),
        (OLD._replace(offsets=(math.nan,)), "channel 0 of the set has the offset nan"),
        (OLD._replace(offsets=()), "says 0 channels"),
        (OLD._replace(context={**MADE_FOR, "chip": "a\nb"}), "the set has no context, expected texts of chip, version"),
        (OLD._replace(context={**MADE_FOR, "weights": 4}), "the set has no context"),
        (OLD._replace(context={**MADE_FOR, "model": "m" * 3000}), "the set has no context"),
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
        "context": MADE_FOR,
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


def test_rollback_goes_to_the_older_set_then_to_none_and_no_epoch_comes_twice(slots):
    board = Parameters(slots)
    with pytest.raises(ParametersError, match="no set is live on this board: there is nothing to roll back"):
        board.rollback()
    put(board, OLD)
    put(board, NEW)
    assert board.rollback()["epoch"] == 1
    assert live_of(slots) == OLD
    assert board.rollback()["n_channels"] is None
    assert live_of(slots) is None
    with pytest.raises(ParametersError, match="nothing to roll back"):
        board.rollback()
    assert put(board, NEW)["epoch"] == 3
    assert Parameters(slots).rollback()["n_channels"] is None


def test_the_live_set_is_read_in_pieces(slots):
    board = Parameters(slots)
    with pytest.raises(ParametersError, match="no set is live on this board"):
        board.step("read", {"offset": 0})
    large = NEW._replace(offsets=tuple(float(i) for i in range(9000)))
    put(board, large)
    data = b""
    while len(data) < len(large.encode()):
        data += bytes.fromhex(board.step("read", {"offset": len(data)})["data"])
    assert decode(data) == large
    assert board.step("read", {"offset": len(data)}) == {"data": "", "total": len(data)}


def test_a_locked_board_may_be_looked_at_only(slots):
    board = Parameters(slots)
    put(board, OLD)
    for step, members in (("status", {}), ("read", {"offset": 0})):
        assert board.answer({"id": 1, "step": step, **members}, "locked here")["op"] == "result"
    for step in ("set", "commit", "rollback"):
        assert board.answer({"id": 1, "step": step}, "locked here")["reason"] == "locked here"


def test_the_set_says_what_it_is_for_without_its_offsets():
    assert described(NEW.encode()) == (700, MADE_FOR)
    assert tuple(MADE_FOR) == CONTEXT


def test_a_live_set_adds_its_offsets_to_outputs():
    values = np.random.default_rng(0).normal(size=300)
    mine = NEW._replace(offsets=tuple(np.linspace(-1.0, 1.0, 700)))
    expected = values + np.array(decode(mine.encode()).offsets)[50:350]
    assert decode(mine.encode()).compensate(list(values), 50) == pytest.approx(expected.tolist())


DIES = textwrap.dedent(
    """
    import os, signal, sys, zlib
    sys.path.insert(0, sys.argv[3])
    from pathlib import Path
    from app.agent import parameters as p
    from app.agent.slots import Slots
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
    board = p.Parameters(Slots(Path(sys.argv[1])))
    new = ParameterSet(dict.fromkeys(("chip", "version", "model", "weights", "compensation"), "x"), 0.5, (0.25,) * 700)
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
        assert found in (OLD, NEW._replace(context=dict.fromkeys(CONTEXT, "x")))
        seen.add(found.gain)
        assert put(Parameters(Slots(folder)), NEW)["state"] == "idle"  # and it goes on
        lived = done.returncode == 0
        if lived:
            break
    assert lived
    assert seen == {OLD.gain, NEW.gain}


@pytest.mark.parametrize("cut", [0, 3, 20, 30])
def test_a_torn_slot_or_name_is_not_live(slots, cut):
    put(Parameters(slots), OLD)
    name = slots._folder / ("live" if cut < 20 else f"set-{slots.live()[0]}")
    name.write_bytes(name.read_bytes()[:cut])
    assert Parameters(slots).status()["epoch"] == 0
    assert put(Parameters(slots), NEW)["state"] == "idle"


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
