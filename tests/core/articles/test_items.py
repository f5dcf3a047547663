"""Every golden value of the two articles is computed here: driven by the golden file, so that none is forgotten."""

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from core.articles import relax
from core.articles.as_printed import article_a, article_b
from core.articles.item import Item
from core.articles.items import ITEMS, item
from core.physics import pruning
from tests.places import GOLDEN

QUANTITIES: dict[str, Any] = json.loads((GOLDEN / "quantities.json").read_text())
PARTS = {"pub": "printed", "asw": "as_written", "phy": "physical", "chk": "checks"}

SIMULATED = {
    # the golden value comes from random numbers or a search of another program: (lowest, highest) that is right
    "B02.chk.mse/step2*12(b=3)": (0.9985, 1.0015),
    "B02.chk.mse/step2*12(b=4)": (0.9985, 1.0015),
    "B02.chk.mse/step2*12(b=8)": (0.9985, 1.0015),
    "B10.phy.error_feedback_worst_cum_error/step": (0.499, 0.5),
    "B10.chk.plain_rounding_cum_error/step": (10.0, math.inf),
    "A02.phy.identity_residual": (0.0, 1e-15),
    "B04.phy.f_opt_numeric": (999.9999, 1000.0001),
    "B16.phy.kth_simulated": (0.828, 0.838),
}
EXACT = [key for key in QUANTITIES if key not in SIMULATED]


@cache
def computed(key: str) -> Item:
    return item(key)


def value_of(full: str) -> Any:
    """The program's value of a golden name ``ITEM.kind.name``, or of ``ITEM.name`` where no kind is given."""
    one, rest = computed(full[:3]), full[4:]
    kind, _, name = rest.partition(".")
    if kind in PARTS and not name:
        values = getattr(one, PARTS[kind])
        golden = QUANTITIES[full]
        return {name: values[name] for name in golden} if isinstance(golden, dict) else next(iter(values.values()))
    if kind in PARTS:
        return getattr(one, PARTS[kind])[name]
    return next(getattr(one, part)[rest] for part in PARTS.values() if rest in getattr(one, part))


def same(value: Any, golden: Any) -> bool:
    if isinstance(golden, dict):
        return value.keys() == golden.keys() and all(same(value[key], golden[key]) for key in golden)
    if isinstance(golden, list):
        return len(value) == len(golden) and all(same(v, g) for v, g in zip(value, golden, strict=True))
    if isinstance(golden, bool | str):
        return type(value) is type(golden) and value == golden
    return math.isclose(value, golden, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize("full", EXACT)
def test_golden(full: str):
    assert same(value_of(full), QUANTITIES[full]), f"{value_of(full)} is not {QUANTITIES[full]}"


@pytest.mark.parametrize("full", SIMULATED)
def test_golden_of_random_numbers(full: str):
    low, high = SIMULATED[full]
    assert low <= value_of(full) <= high
    assert low <= QUANTITIES[full] <= high


def test_every_item_is_there_with_a_verdict():
    assert len(EXACT) + len(SIMULATED) == len(QUANTITIES) >= 400
    assert list(ITEMS) == [f"A{i:02}" for i in range(1, 18)] + [f"B{i:02}" for i in range(1, 17)]
    for key in ITEMS:
        one = computed(key)
        assert one.key == key
        assert one.title
        assert one.verdict.endswith(".")
        assert one.printed
        assert one.as_written or one.physical or one.checks
    with pytest.raises(ValueError, match="item: got 'C01', expected one of A01"):
        item("C01")


def test_the_golden_formula_takes_arrays():
    bandwidth = np.array([51.2, 102.4])
    expected = [article_a.golden_latency_ms(b, 0.5, 1.0) for b in bandwidth]
    np.testing.assert_array_equal(article_a.golden_latency_ms(bandwidth, 0.5, 1.0), expected)


def test_r_max_as_published_and_its_replacement_on_even_attention():
    even = np.full(2048, 1 / 2048)
    assert article_a.r_max(0.6, np.log(2048), 2048) == pytest.approx(0.0, abs=1e-12)
    assert pruning.r_max_mass(even, 0.02) == pytest.approx(0.02, abs=1 / 2048)


def test_the_printed_fragment_keeps_what_a_query_says():
    rng = np.random.default_rng(0)
    attention, keys = rng.dirichlet(np.ones(6), (1, 2, 6)), rng.normal(size=(1, 2, 6, 4))
    kept = article_a.entropy_prune(attention, keys, 6, 0.5)
    assert kept.shape == (1, 2, 1, 2, 3, 4)
    with pytest.raises(RuntimeError, match="selected index k = 3 out of range of 1 queries"):
        article_a.entropy_prune(attention[:, :, :1], keys, 6, 0.5)


def test_gumbel_noise_has_the_moments_of_its_distribution():
    noise = relax.gumbel_noise((np.arange(2_000_000) + 0.5) / 2_000_000)
    assert noise.mean() == pytest.approx(relax.GUMBEL_MEAN, abs=1e-5)
    assert noise.var() == pytest.approx(relax.GUMBEL_VARIANCE, abs=1e-4)


def test_the_published_loop_diverges_and_the_corrected_one_does_not():
    drifts = [article_b.drift_after(0.2, n) for n in range(0, 60, 10)]
    assert np.all(np.diff(drifts) > 0)


def test_quorum_tolerates_a_third():
    for n in range(4, 40):
        f, votes = article_b.quorum(n)
        assert 3 * f + 1 <= n
        assert 2 * votes - n >= f + 1 or n != 3 * f + 1


def test_fusing_the_stages_saves_what_they_hand_over():
    found = item("A07").physical
    handed, convert = 2 * 128 * 128 * 2 / 64.0, 1.8
    assert found["cycles.separate(64B/c)"] == pytest.approx(2048 + 1024 + 1024 + 2 * convert)
    assert found["cycles.gemm_softmax(64B/c)"] == pytest.approx(4096 + convert - handed)
    assert found["cycles.all_without_spill(64B/c)"] == pytest.approx(4096 - 2 * handed)


def test_printed_figures_carry_the_labels_of_the_articles():
    fit, importance_, pipeline_, consensus_ = (computed(key).printed for key in ("A09", "A10", "A15", "B16"))
    assert fit["one_fit_ms"] == [14.2, 8.7, 11.5]
    assert fit["memory_MB"] == [3.1, 4.8, 2.6]
    assert fit["R2"] == [0.989, 0.991, 0.987]
    assert "error_ms" not in fit
    assert (importance_["decay_scale"], importance_["pos_sensitivity"]) == (64, 0.3)
    assert "threshold" not in importance_  # the 0.3 of a threshold is that of A02
    assert pipeline_["formats"] == {"QKV": "FP16", "O": "INT4", "residual": "BF16"}
    assert consensus_["terminal_kinds"] == 17
    assert "nodes" not in consensus_
