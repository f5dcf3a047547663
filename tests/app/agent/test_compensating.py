"""The sets of a board as the measuring process uses them: installed by the steps of the exchange, read as they are."""

import pytest

from app import VERSION
from app.agent.compensating import BoardSets
from app.agent.parameters import Parameters
from app.agent.slots import Slots
from app.parameter_set import decode
from kernels.accuracy.compensation import OffsetSet

MADE = OffsetSet((0.5, -0.25, 1.0), 0.75, "int4", "both", "a model 1f", "a chip")


@pytest.fixture
def slots(tmp_path):
    return Slots(tmp_path / "parameters")


def test_a_set_is_installed_and_read_as_it_was_made(slots):
    sets = BoardSets(slots)
    assert sets.live() is None
    told = sets.install(MADE)
    live = sets.live()
    assert (told["epoch"], told["n_channels"], told["n_message"]) == (1, 3, 1)
    assert (live.epoch, live.crc) == (told["epoch"], told["crc"])
    assert (live.offsets, live.gain) == (MADE.offsets, MADE.gain)
    assert (live.weights, live.compensation, live.model, live.chip) == ("int4", "both", "a model 1f", "a chip")
    assert decode(slots.live()[2]).context["version"] == VERSION
    assert Parameters(slots).status()["crc"] == told["crc"]  # the agent sees it too


def test_rollback_restores_the_set_before_then_none(slots):
    sets = BoardSets(slots)
    sets.install(MADE)
    sets.install(OffsetSet((2.0,), 0.5, "int8", "offsets", "another", "a chip"))
    assert sets.live().weights == "int8"
    sets.rollback()
    assert sets.live().offsets == MADE.offsets
    sets.rollback()
    assert sets.live() is None
    with pytest.raises(ValueError, match=r"^parameters: no set is live on this board"):
        sets.rollback()


@pytest.mark.parametrize("offset", [float("nan"), float("inf")])
def test_a_set_out_of_range_is_refused_and_the_old_one_stays(slots, offset):
    sets = BoardSets(slots)
    sets.install(MADE)
    with pytest.raises(ValueError, match=r"^parameters: channel 0 of the set has the offset"):
        sets.install(OffsetSet((offset,), 0.5, "int4", "both", "m", "c"))
    assert sets.live().offsets == MADE.offsets
