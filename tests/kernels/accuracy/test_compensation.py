"""Compensated points as they are measured: the live set is read, refused where it is for something else, undone."""

import dataclasses

import pytest
import torch

from kernels.accuracy.compensation import OffsetSet
from kernels.native.build import cpu_model
from kernels.workload import Cancelled, Workload
from tests.tiny_gguf import WIDE_HEADS, write_tiny_gguf

POINT = {"weights": "int3", "kv": "bf16", "policy": "attention_mass", "layout": "compacted"}
POINT |= {"context_tokens": 32.0, "alpha": 0.0, "compensation": "offsets"}
N_CHANNELS = 2 * 2 * WIDE_HEADS["hidden"]


class Sets:
    """Sets of a board, newest last."""

    def __init__(self):
        self.sets = []

    def live(self):
        return self.sets[-1] if self.sets else None

    def install(self, made):
        epoch = len(self.sets) + 1
        self.sets.append(dataclasses.replace(made, epoch=epoch, crc=epoch))
        return {"epoch": epoch, "crc": epoch, "n_channels": len(made.offsets)}

    def rollback(self):
        self.sets.pop()


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    sets = Sets()
    path = write_tiny_gguf(tmp_path_factory.mktemp("wide") / "wide.gguf", sizes=WIDE_HEADS)
    return Workload(path, parameters=sets), sets


@pytest.fixture
def workload(everything):
    return everything[0]


@pytest.fixture
def sets(everything):
    everything[1].sets.clear()
    return everything[1]


def a_set(workload, **changes):
    offsets = (0.2 * torch.randn(N_CHANNELS)).tolist()
    made = OffsetSet(offsets, 0.7, "int3", "offsets", workload._file.identity, cpu_model(), epoch=1, crc=7)
    return dataclasses.replace(made, **changes)


def measure(workload, *what, cancelled=lambda: False, **changes):
    options = {"n_compared": 2} if "compensation" in what else {}
    return workload.measure(POINT | changes, what or ("quality",), lambda done, text: None, cancelled, options)


def numbers(body):
    return body["perplexity"]["median"], body["mean_kl"]["median"]


def test_a_live_set_changes_what_is_computed_and_its_rollback_brings_the_same_numbers_back(workload, sets):
    plain = numbers(measure(workload, compensation="none"))
    sets.sets.append(a_set(workload))
    live = measure(workload)
    assert numbers(live) != plain
    assert live["conditions"]["parameters"] == {"epoch": 1, "crc": 7}
    assert numbers(measure(workload, compensation="none")) == plain  # a live set is for points that ask for it
    sets.sets.append(a_set(workload, offsets=(0.1 * torch.randn(N_CHANNELS)).tolist(), epoch=2))
    assert numbers(measure(workload)) not in (plain, numbers(live))
    sets.rollback()
    assert numbers(measure(workload)) == numbers(live)
    sets.rollback()
    assert numbers(measure(workload, compensation="none")) == plain


@pytest.mark.parametrize("compensation", ["offsets", "both"])
def test_a_point_with_offsets_does_not_run_without_a_live_set(workload, sets, compensation):
    words = f"parameters: no set is live on this board, compensation {compensation} needs one: make it"
    with pytest.raises(ValueError, match=f"^{words}"):
        measure(workload, compensation=compensation)


def test_error_feedback_changes_what_is_computed_without_a_set(workload, sets):
    fed, plain = (measure(workload, compensation=kind) for kind in ("feedback", "none"))
    assert numbers(fed) != numbers(plain)
    assert "parameters" not in fed["conditions"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "another 1234"}, "the live set is for model another 1234, this point has "),
        ({"weights": "int4"}, "the live set is for weights int4, this point has int3"),
        ({"compensation": "both"}, "the live set is for compensation both, this point has offsets"),
        ({"offsets": (1.0,) * 8}, f"the live set has 8 channels, expected {N_CHANNELS}"),
    ],
)
def test_a_set_for_something_else_is_refused_in_one_sentence(workload, sets, changes, words):
    sets.sets.append(a_set(workload, **changes))
    with pytest.raises(ValueError, match=f"^parameters: {words}"):
        measure(workload)


def test_a_set_of_another_chip_is_applied_and_named(workload, sets):
    sets.sets.append(a_set(workload, chip="Another chip"))
    assert measure(workload)["notes"][0] == "The live parameter set was made on another chip, Another chip."


@pytest.mark.parametrize("compensation", ["offsets", "both"])
def test_the_effect_is_measured_in_pairs_and_the_set_stays_live(workload, sets, compensation):
    body = measure(workload, "compensation", compensation=compensation, weights="int4")
    found = body["compensation"]
    assert (found["kind"], found["installed"]["epoch"], len(sets.sets)) == (compensation, 1, 1)
    assert (sets.live().weights, sets.live().compensation) == ("int4", compensation)
    assert body["conditions"]["parameters"] == {"epoch": 1, "crc": 1}
    assert found["drift_sd"]
    for name in ("mean_kl", "top1_agreement", "top1_loss"):
        difference = found["with"][name]["median"] - found["without"][name]["median"]
        assert found["change"][name]["median"] == pytest.approx(difference, abs=1e-9)
    ratio = found["with"]["perplexity_ratio"]["median"] / found["without"]["perplexity_ratio"]["median"]
    assert found["change"]["perplexity_ratio"]["median"] == pytest.approx(ratio)
    for record in (found["change"]["decode_ratio"], found["with"]["decode_s"], found["change"]["mean_kl"]):
        assert record["q05"] <= record["median"] <= record["q95"]
    plain = measure(workload, weights="int4", compensation="none")["perplexity_ratio"]["median"]
    same = measure(workload, weights="int4", compensation=compensation)["perplexity_ratio"]["median"]
    assert plain != same


def test_the_inner_loop_alone_needs_no_set(workload, sets):
    found = measure(workload, "compensation", compensation="feedback")["compensation"]
    assert (found["installed"], found["drift_sd"], sets.sets) == (None, [], [])
    assert "accuracy only" in found["change"]["decode_ratio"]["absent"]  # int3


def test_a_run_that_ends_early_rolls_its_set_back(workload, sets, monkeypatch):
    monkeypatch.setattr("kernels.workload._PROGRESS_EVERY_S", 0.0)  # the rest of a tiny model takes no longer
    with pytest.raises(Cancelled):
        measure(workload, "compensation", cancelled=lambda: bool(sets.sets))
    assert sets.sets == []


def test_nothing_is_measured_of_no_compensation(workload):
    with pytest.raises(ValueError, match="compensation: got none, expected offsets, feedback or both"):
        measure(workload, "compensation", compensation="none")
    with pytest.raises(ValueError, match="compensation: got 'twice', expected one of none, offsets"):
        measure(workload, compensation="twice")
