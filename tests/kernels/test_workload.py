"""The measured run on a tiny model: what it returns, what it refuses, that it can be stopped."""

import math

import pytest
import torch

from kernels.accuracy.evaluation import N_SCORED
from kernels.decoder.transformer import Decoder
from kernels.eviction.policies import n_kept
from kernels.machine import stream
from kernels.workload import Cancelled, Workload, measure_bandwidth

POINT = {
    "weights": "int4",
    "kv": "bf16",
    "context_tokens": 128,
    "alpha": 0.5,
    "policy": "attention_mass",
    "layout": "compacted",
}
QUANTITIES = {
    "decode": ("decode_s", "tokens_per_s", "memory_byte"),
    "ttft": ("ttft_s",),
    "quality": ("perplexity", "perplexity_ratio", "mean_kl", "top1_agreement"),
    "retrieval": ("retrieval_accuracy", "retrieval_greedy"),
}


@pytest.fixture(scope="module")
def workload(tiny_file):
    return Workload(tiny_file)


def measure(workload, what, options=None, **changes):
    return workload.measure(POINT | changes, what, lambda done, text: None, lambda: False, options)


@pytest.mark.parametrize("what", [["decode"], ["ttft"], ["quality"], ["decode", "ttft", "quality"]])
def test_what_was_asked_for_is_measured_and_the_rest_is_absent(workload, what):
    result = measure(workload, what)
    for group, names in QUANTITIES.items():
        for name in names:
            if group in what:
                value = result[name]
                assert value["q05"] <= value["median"] <= value["q95"]
                assert math.isfinite(value["median"])
                assert value["provenance"] == "measured"
                assert value["n"] >= 1
            else:
                assert result[name] == {"absent": f"{group} was not asked for"}
    conditions = result["conditions"]
    assert conditions["threads"] == torch.get_num_threads()
    assert conditions["torch"] == torch.__version__
    assert conditions["cpu"]
    if "decode" in what:
        assert 0 <= conditions["quiet_share"] <= 1
        assert result["decode_s"]["n"] >= 8
        assert result["tokens_per_s"]["median"] == pytest.approx(1 / result["decode_s"]["median"])


@pytest.mark.parametrize("weights", ["fp32", "bf16", "fp16", "int8", "int4"])
@pytest.mark.parametrize("kv", ["fp32", "bf16", "fp16", "int8"])
def test_every_pair_of_formats_runs(workload, weights, kv):
    result = measure(workload, ["decode"], weights=weights, kv=kv, context_tokens=64)
    assert result["decode_s"]["median"] > 0
    assert result["conditions"]["kv_tokens_read"] == n_kept(64, 0.5)


def test_memory_is_weights_plus_the_kept_cache(workload):
    full, half = (measure(workload, ["decode"], alpha=a)["memory_byte"]["median"] for a in (0, 0.5))
    assert full - half == 64 * (2 * 2 * 2 * 16 * 2)  # tokens x (k and v, layers, heads, head_dim, bytes)
    masked = measure(workload, ["decode"], alpha=0.5, layout="masked")
    assert masked["memory_byte"]["median"] == full
    assert any("reads the whole cache" in note for note in masked["notes"])


def test_the_reference_point_is_exact(workload):
    result = measure(workload, ["quality"], weights="fp32", kv="fp32", alpha=0)
    assert result["perplexity_ratio"]["median"] == result["perplexity_ratio"]["q95"] == 1
    assert result["mean_kl"]["median"] == 0
    assert result["top1_agreement"]["median"] == 1
    assert result["top1_agreement"]["n"] == N_SCORED
    assert any("relative to the file tiny.gguf" in note for note in result["notes"])


def test_windows_of_text_are_pooled(workload):
    one, three = (measure(workload, ["quality"], {"n_windows": n}) for n in (1, 3))
    assert one["mean_kl"]["n"] == N_SCORED
    assert three["mean_kl"]["n"] == three["conditions"]["n_scored_tokens"] == 3 * N_SCORED
    assert three["perplexity"]["median"] != one["perplexity"]["median"]  # other text
    assert any("in each of 3 windows" in note for note in three["notes"])


@pytest.mark.parametrize(("kv", "n_decoded"), [("bf16", 0), ("int4", N_SCORED - 1)])
def test_accuracy_of_int4_caches_is_that_of_decoding(workload, monkeypatch, kv, n_decoded):
    positions = []
    decode = Decoder.decode

    def counted(self, token, position, *rest):
        positions.append(position)
        return decode(self, token, position, *rest)

    monkeypatch.setattr(Decoder, "decode", counted)
    result = measure(workload, ["quality"], kv=kv)
    assert positions == list(range(128, 128 + n_decoded))
    assert 0 < result["mean_kl"]["median"] < 1


def test_needles_are_counted_with_their_depths(workload):
    result = measure(workload, ["retrieval"], {"n_haystacks": 2}, context_tokens=520)
    assert result["retrieval_accuracy"]["n"] == result["conditions"]["retrieval_needles"] == 20
    by_depth = result["conditions"]["retrieval_by_depth"]
    assert [depth for depth, _ in by_depth] == sorted(depth for depth, _ in by_depth)
    assert sum(share for _, share in by_depth) / 10 == pytest.approx(result["retrieval_accuracy"]["median"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"windows": 2}, "options: got 'windows', expected some of n_windows"),
        ({"n_windows": 0}, "n_windows: got 0, expected a whole number from 1 to 32"),
        ({"n_windows": "two"}, "n_windows: got 'two'"),
        ({"n_haystacks": 1.5}, "n_haystacks: got 1.5"),
        ({"probed": 2}, "probed: got 2, expected a whole number from 0 to 1"),
    ],
)
def test_options_that_cannot_be_are_refused(workload, options, message):
    with pytest.raises(ValueError, match=message):
        measure(workload, ["quality"], options)


def test_more_windows_than_the_text_has_are_refused(tiny_file, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("abcdefgh " * 100, encoding="utf-8")
    with pytest.raises(ValueError, match="n_windows: got 9, expected at most 2, of 384 tokens each, in a text of 900"):
        measure(Workload(tiny_file, text_file=file), ["quality"], {"n_windows": 9})


def test_accuracy_of_pruning_does_not_depend_on_the_layout_that_holds_the_same_tokens(workload):
    by_layout = [
        measure(workload, ["quality"], weights="fp32", kv="fp32", alpha=0.9, layout=layout)["mean_kl"]["median"]
        for layout in ("compacted", "masked")
    ]
    assert by_layout[0] == pytest.approx(by_layout[1], rel=1e-3)
    assert by_layout[0] > 1e-6


def quality(workload, **changes):
    return measure(workload, ["quality"], weights="fp32", kv="fp32", **changes)["mean_kl"]["median"]


def test_the_weights_of_the_composite_score_decide_what_is_kept(workload):
    at = {"alpha": 0.9, "policy": "composite"}
    mass, usual, phase = (quality(workload, **at, score_weights=w) for w in ("1/0/0/0", "0.5/0.25/0.25/0", "0/0/0/1"))
    assert mass == quality(workload, alpha=0.9)
    assert usual == quality(workload, **at)
    assert len({mass, usual, phase}) == 3


def test_pruned_activations_cost_accuracy_and_are_said(workload):
    kl = [quality(workload, alpha=0.0, activation_keep=keep) for keep in (1.0, 0.8, 0.3)]
    assert kl[0] < 1e-6 < kl[1] < kl[2]
    result = measure(workload, ["decode"], activation_keep=0.8)
    assert result["decode_s"]["median"] > 0
    assert any("20% of the feed-forward activations" in note for note in result["notes"])


@pytest.mark.parametrize("kv_layout", ["head_major", "token_major", "blocked"])
def test_the_layout_of_the_cache_changes_no_answer_and_its_move_is_timed(workload, kv_layout):
    assert quality(workload, alpha=0.5, kv_layout=kv_layout) == pytest.approx(quality(workload, alpha=0.5), rel=1e-3)
    result = measure(workload, ["decode"], kv_layout=kv_layout)
    assert result["conditions"]["relayout_s"]["median"] > 0
    assert any("operator by operator" in note for note in result["notes"])


def test_precision_costs_accuracy(workload):
    kl = [
        measure(workload, ["quality"], alpha=0, weights=w, kv="fp32")["mean_kl"]["median"]
        for w in ("bf16", "int8", "int4")
    ]
    assert 0 < kl[0] < kl[1] < kl[2]


def test_time_to_first_token_is_measured_once_and_then_remembered(workload):
    first = measure(workload, ["ttft"], context_tokens=200)
    again = measure(workload, ["ttft"], context_tokens=200, alpha=0.9)
    assert first["ttft_s"] == again["ttft_s"]


@pytest.mark.parametrize("context_tokens", [128, 400])  # shorter and longer than the prompt that is there
def test_a_carried_over_prompt_is_said_to_be_one(tiny_file, context_tokens):
    workload = Workload(tiny_file)
    own = measure(workload, ["decode"], context_tokens=256, weights="fp32")
    carried = measure(workload, ["decode"], context_tokens=context_tokens)
    assert not any("carried over" in note for note in own["notes"])
    assert any("carried over" in note for note in carried["notes"])
    assert carried["conditions"]["kv_tokens_read"] == context_tokens // 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": "q4_k_m"}, "weights: got 'q4_k_m', expected one of fp32"),
        ({"kv": "int3"}, "kv: got 'int3'"),
        ({"policy": "random"}, "policy: got 'random'"),
        ({"layout": "gather"}, "layout: got 'gather'"),
        ({"alpha": 1.0}, "alpha: got 1, expected 0 <= alpha < 1"),
        ({"alpha": -0.1}, "alpha: got -0.1"),
        ({"alpha": "abc"}, "alpha: got 'abc', expected a finite number"),
        ({"alpha": float("nan")}, "alpha: got nan"),
        ({"context_tokens": 0}, "context_tokens: got 0, expected a whole number from 2 to 640"),
        ({"context_tokens": 641}, "context_tokens: got 641"),
        ({"context_tokens": 10.5}, "context_tokens: got 10.5"),
        ({"context_tokens": None}, "context_tokens: got None"),
    ],
)
def test_points_that_cannot_be_applied_are_refused(workload, changes, message):
    with pytest.raises(ValueError, match=message.replace("<", "<")):
        measure(workload, ["decode"], **changes)


@pytest.mark.parametrize("what", [[], ["power"]])
def test_unknown_quantities_are_refused(workload, what):
    with pytest.raises(ValueError, match="what: got"):
        measure(workload, what)


@pytest.mark.parametrize("what", ["decode", "ttft", "quality"])
def test_cancelling_stops_and_leaves_the_workload_usable(tiny_file, what):
    workload = Workload(tiny_file)
    with pytest.raises(Cancelled):
        workload.measure(POINT, [what], lambda done, text: None, lambda: True)
    assert QUANTITIES[what][0] in measure(workload, [what])


def test_progress_grows_and_says_what_runs(tiny_file):
    seen = []
    Workload(tiny_file).measure(POINT, ["decode", "ttft"], lambda done, text: seen.append((done, text)), lambda: False)
    assert seen
    assert all(0 <= done <= 1 and text for done, text in seen)
    assert seen[-1][0] >= seen[0][0]


@pytest.mark.parametrize("n_threads", [0, -1])
def test_thread_count_must_be_positive(tiny_file, n_threads):
    with pytest.raises(ValueError, match="n_threads"):
        Workload(tiny_file, n_threads=n_threads)


def test_a_text_that_is_too_short_is_refused(tiny_file, tmp_path):
    file = tmp_path / "short.txt"
    file.write_text("too short", encoding="utf-8")
    with pytest.raises(ValueError, match=r"short.txt: got a text of \d+ tokens"):
        Workload(tiny_file, text_file=file)


def test_a_users_text_is_used(tiny_file, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("abcdefgh " * 400, encoding="utf-8")
    own = measure(Workload(tiny_file, text_file=file), ["quality"], weights="fp32", kv="fp32", alpha=0)
    default = measure(Workload(tiny_file), ["quality"], weights="fp32", kv="fp32", alpha=0)
    assert own["perplexity"]["median"] != default["perplexity"]["median"]


def test_bandwidth(monkeypatch):
    monkeypatch.setattr(stream, "buffer_byte", lambda: 1 << 20)
    result = measure_bandwidth(lambda done, text: None, lambda: False)
    assert {"read_byte_s", "copy_byte_s", "triad_byte_s", "conditions"} == set(result)
    assert "quiet_share" in result["conditions"]
    with pytest.raises(Cancelled):
        measure_bandwidth(lambda done, text: None, lambda: True)


def test_the_stages_of_a_token_add_up_to_its_time(workload):
    result = measure(workload, ["stages", "decode"], context_tokens=256)
    stages = {name: value["median"] for name, value in result["stages_s"].items()}
    assert list(stages) == [
        *("embedding_s", "qkv_s", "rope_and_write_s", "attention_s", "out_s", "mlp_s", "head_s", "rest_s")
    ]
    assert all(seconds >= 0 for seconds in stages.values())
    assert sum(stages.values()) == pytest.approx(result["step_s"]["median"], rel=1e-9)
    assert len(result["layer_s"]) == 2
    of_layers = [stages[f"{name}_s"] for name in ("qkv", "rope_and_write", "attention", "out", "mlp")]
    assert sum(result["layer_s"]) == pytest.approx(sum(of_layers))
    request = result["request_stages_s"]
    assert list(request)[:4] == ["prompt_load_s", "kv_build_s", "first_token_s", "decode_s"]
    assert "hands its tokens to nobody" in request["protocol_s"]["absent"]


@pytest.mark.parametrize("weights", ["int3", "int2"])
def test_formats_for_accuracy_only_have_no_speed(workload, weights):
    result = measure(workload, ["decode", "ttft", "stages", "quality"], weights=weights, kv="fp32", alpha=0)
    for name in ("decode_s", "ttft_s", "stages_s", "memory_byte"):
        assert "its speed is not known" in result[name]["absent"]
    finer = measure(workload, ["quality"], weights="int8", kv="fp32", alpha=0)
    assert result["mean_kl"]["median"] > 2 * finer["mean_kl"]["median"]


def test_a_run_probes_the_bandwidth_between_its_tokens_where_asked(workload):
    plain, probed = (measure(workload, ["decode"], {"probed": n}) for n in (0, 1))
    assert "read_byte_s" not in plain["conditions"]
    assert (
        plain["conditions"]["decode_window_tokens"] == plain["decode_s"]["n"] or plain["conditions"]["quiet_share"] < 1
    )
    read = probed["conditions"]["read_byte_s"]
    assert read["q05"] <= read["median"] <= read["q95"]
    assert read["median"] > 1e8
    assert read["n"] >= 16
    assert "decode_window_s" not in probed["conditions"]
    assert "takes energy too" in probed["conditions"]["no_window"]


def test_choosing_anew_is_part_of_the_time_and_of_the_accuracy(workload):
    once = measure(workload, ["decode", "quality"])
    often = measure(workload, ["decode", "quality"], reselect_tokens=4)
    choice_s = often["conditions"]["choice_s"]["median"]
    assert often["decode_s"]["q05"] > choice_s / 4
    assert any("4 tokens" in note and "; included in the decode time" in note for note in often["notes"])
    assert any("64 tokens" in note and "not included in the decode time" in note for note in once["notes"])
    assert often["mean_kl"]["median"] != once["mean_kl"]["median"]
    unpruned = measure(workload, ["quality"], alpha=0.0, reselect_tokens=4)
    assert unpruned["mean_kl"] == measure(workload, ["quality"], alpha=0.0)["mean_kl"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"reselect_tokens": 2.5}, "reselect_tokens: got 2.5, expected a whole number"),
        ({"reselect_tokens": 8, "layout": "masked"}, "layout: got masked, expected compacted or paged"),
    ],
)
def test_choices_that_cannot_be_are_refused(workload, changes, says):
    with pytest.raises(ValueError, match=says):
        measure(workload, ["decode"], **changes)
