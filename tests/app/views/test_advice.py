"""The verdict and the proposals in words."""

from dataclasses import replace

import pytest

from app.views import advice
from app.views.panels.headline import why_html
from core.predict.changes import Kind


def test_a_missed_accuracy_names_the_prune_rate_that_holds_it(store):
    store.set("point.alpha", 0.9)
    store.set("limits.accuracy", 0.95)
    assert f"Pruning at most <b>α\u00a0{store.r_max.alpha:.2f}</b> would hold it." in advice.sentence(store)
    held = store.prediction_of(replace(store.point, alpha=store.r_max.alpha))
    assert held.top1_agreement.median >= 0.95


def test_the_sentence_adds_up_and_names_what_it_proposes(store):
    store.set("point.alpha", 0.0)
    assert sum(share for _, _, share in advice.shares(store.prediction)) == pytest.approx(1.0)
    text = advice.sentence(store)
    assert "of each token" in text
    assert "would save <b>" in text
    change = next(one for one in advice.changes(store) if one.step.kind is Kind.SETTING)
    there = store.prediction_of(change.step.point)
    assert (1.0 + change.decode_frac) * store.prediction.decode_s.median == pytest.approx(there.decode_s.median)
    assert replace(change.step.point, alpha=0.0, weights="", kv="") == replace(
        store.point, alpha=0.0, weights="", kv=""
    )


def test_a_missed_limit_comes_first(store):
    store.set("limits.latency", 1e-4)
    assert advice.sentence(store).startswith("Latency per token misses its limit")
    store.set("limits.accuracy", 0.999)
    assert advice.sentence(store).startswith("Limits are missed: latency by <b>")
    assert "top-1 by <b>" in advice.sentence(store)


def test_no_proposal_leaves_what_the_accuracy_budget_allows(store):
    mark = store.r_max.alpha
    for alpha in (0.0, mark, 0.8):
        store.set("point.alpha", alpha)
        pruned = [one.step.point.alpha for one in advice.changes(store) if one.step.point.alpha != alpha]
        assert all(alpha < other <= mark for other in pruned)
        assert bool(pruned) == (alpha < mark - 0.01)


@pytest.mark.parametrize(
    ("runtime", "weights", "kv", "proposed"),
    [
        ("rkllm_npu", "w4a16", "fp16", set()),
        ("builtin", "fp32", "bf16", {"int8 weights", "pruning up to r_max (α 0.28)"}),
    ],
)
def test_only_what_the_runtime_can_do_is_proposed(store, runtime, weights, kv, proposed):
    store.set("point.alpha", 0.0)
    for path, value in (("runtime", runtime), ("weights", weights), ("kv", kv)):
        store.set(f"point.{path}", value)
    assert {change.step.text for change in advice.changes(store, (Kind.SETTING,))} == proposed
    assert "10 % more bandwidth" in why_html(store)


def test_a_point_outside_the_model_is_said_first(store):
    for path, value in (("board", "jetson_orin_nano_8gb_super"), ("model", "llama-3.1-8b"), ("weights", "q8_0")):
        store.set(f"point.{path}", value)
    text = advice.sentence(store)
    assert text.startswith(
        "<b>Llama-3.1-8B in GGUF Q8_0 does not fit in the memory of NVIDIA Jetson Orin Nano Super 8GB: "
    )
    store.set("point.runtime", "llamacpp_gpu")
    store.set("point.alpha", 0.5)
    assert "<b>llama.cpp or Ollama on a GPU prunes no cache: " in advice.sentence(store)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (
            {"weights": 3.1, "kv": 5.8, "layers": 1.1},
            "Decode is <b>memory-bound</b>: 89 % of each token is reading memory (58 % the KV cache, 31 % weights), "
            "11 % per-layer cost.",
        ),
        (
            {"compute": 7.0, "weights": 1.0, "layers": 2.0},
            "Decode is <b>compute-bound</b>: 70 % of each token is arithmetic, 20 % per-layer cost.",
        ),
        (
            {"layers": 3.9, "token": 0.2, "weights": 2.9, "kv": 1.8, "unpack": 1.2},
            "<b>Per-layer cost</b> holds this point up: 41 % of each token, then 29 % weights, 18 % the KV cache.",
        ),
        ({"token": 6.0, "weights": 4.0}, "<b>Constant cost</b> holds this point up: 60 % of each token, then 40 %"),
        ({"weights": 3.0, "kv": 1.8, "layers": 2.6, "unpack": 2.6}, "No single cost dominates: of each token, 30 % w"),
    ],
)
def test_the_verdict_never_contradicts_its_evidence(store, parts, says):
    prediction = replace(store.prediction, parts_s={key: 1e-3 * value for key, value in parts.items()})
    assert advice.verdict(prediction).startswith(says)


def test_what_arithmetic_hides_is_not_said_to_limit(store):
    parts = dict.fromkeys(("unpack", "token", "reselection"), 0.0) | {"weights": 7e-3}
    parts |= dict.fromkeys(("kv", "compute", "layers"), 1e-3)
    assert "memory-bound" in advice.verdict(replace(store.prediction, parts_s=parts, binding="memory"))
    said = advice.verdict(replace(store.prediction, parts_s=parts, binding="compute"))
    assert said == "Decode is <b>compute-bound</b>: 90 % of each token is arithmetic, 10 % per-layer cost."
