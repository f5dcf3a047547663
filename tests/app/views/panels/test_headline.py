"""The headline: verdict, proposals and reasons in words."""

from dataclasses import replace

import pytest

from app.model.explained import explained
from app.text.explain import ranked, rich
from app.views.panels.headline import why_html
from core.predict.changes import Kind


def test_a_missed_accuracy_names_the_prune_rate_that_holds_it(store):
    store.set("point.alpha", 0.9)
    store.set("limits.accuracy", 0.95)
    assert f"Pruning at most <b>α\u00a0{store.r_max.alpha:.2f}</b> would hold it." in rich(explained(store))
    held = store.prediction_of(replace(store.point, alpha=store.r_max.alpha))
    assert held.top1_agreement.median >= 0.95


def test_the_sentence_adds_up_and_names_what_it_proposes(store):
    store.set("point.alpha", 0.0)
    assert sum(share for _, _, share in ranked(explained(store).parts_s)) == pytest.approx(1.0)
    text = rich(explained(store))
    assert "of each token's time" in text
    assert "would save <b>" in text
    change = next(one for one in explained(store).changes if one.step.kind is Kind.SETTING)
    there = store.prediction_of(change.step.point)
    assert (1.0 + change.decode_frac) * store.prediction.decode_s.median == pytest.approx(there.decode_s.median)
    assert replace(change.step.point, alpha=0.0, weights="", kv="") == replace(
        store.point, alpha=0.0, weights="", kv=""
    )


def test_a_missed_limit_comes_first(store):
    store.set("limits.latency", 1e-4)
    assert rich(explained(store)).startswith("Latency per token misses its limit")
    store.set("limits.accuracy", 0.999)
    assert rich(explained(store)).startswith("Limits are missed: latency by <b>")
    assert "top-1 by <b>" in rich(explained(store))


def test_no_proposal_leaves_what_the_accuracy_budget_allows(store):
    mark = store.r_max.alpha
    for alpha in (0.0, mark, 0.8):
        store.set("point.alpha", alpha)
        pruned = [one.step.point.alpha for one in explained(store).changes if one.step.point.alpha != alpha]
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
    assert {change.step.text for change in explained(store).changes if change.step.kind is Kind.SETTING} == proposed
    assert "10 % more bandwidth" in why_html(store)


def test_a_point_outside_the_model_is_said_first(store):
    for path, value in (("board", "jetson_orin_nano_8gb_super"), ("model", "llama-3.1-8b"), ("weights", "q8_0")):
        store.set(f"point.{path}", value)
    text = rich(explained(store))
    assert text.startswith(
        "<b>Llama-3.1-8B in GGUF Q8_0 does not fit in the memory of NVIDIA Jetson Orin Nano Super 8GB: "
    )
    store.set("point.runtime", "llamacpp_gpu")
    store.set("point.alpha", 0.5)
    assert "<b>llama.cpp or Ollama on a GPU cannot prune the KV cache: " in rich(explained(store))


def test_why_shows_parts_changes_and_the_mark(store):
    html = why_html(store)
    for words in ("Time by cost", "Effect of one change", "Effect of each slider", "r_max"):
        assert words in html
