import csv
import json
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.physics.quality import (
    IMPORTANCE_MATRIX,
    LANGUAGE_MODELLING,
    PLAIN,
    RETRIEVAL,
    TOP1_LOG_SD,
    TOP1_POWER,
    TOP1_SCALE,
    BitCurve,
    Degradation,
    added,
    kv_degradation,
    mean_kl,
    perplexity_ratio,
    pruning_degradation,
    retrieval_score,
    top1_agreement,
    weights_degradation,
)
from core.spec import POLICIES
from core.units import Z90
from tests.places import GOLDEN

MODELS = json.loads((GOLDEN / "models.json").read_text())


def table(name: str) -> list[dict[str, str]]:
    with files("resources").joinpath("measurements", f"{name}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


PRECISION = table("precision_ppl")
LLAMA3 = [
    row
    for row in PRECISION
    if row["model"] == "Llama-3-8B" and row["bits_per_weight"] and 2.1 < float(row["bits_per_weight"]) < 10
]


def degradation_of(row: dict[str, str]) -> float:
    ppl, delta = float(row["ppl"]), float(row["delta_ppl"])
    return float(np.log(ppl / (ppl - delta)))


@pytest.mark.parametrize("bits", [8.5, 6.56, 4.89, 4.5, 4.0, 3.0, 2.5])
def test_weights_degradation_golden(bits: float):
    golden = MODELS[f"M5.dlnPPL_imatrix(b={bits})"]
    assert weights_degradation(bits, importance_matrix=True).median == pytest.approx(golden, rel=1e-12)


def test_weights_degradation_golden_plain_and_half_life():
    assert weights_degradation(4.5).median == pytest.approx(MODELS["M5.dlnPPL_plain(b=4.5)"], rel=1e-12)
    golden = MODELS["M5.bits_per_halving_imatrix"]
    assert np.log(2) / IMPORTANCE_MATRIX.rate == pytest.approx(golden, rel=1e-12)


def test_weights_degradation_falls_with_bits_and_ends_at_16():
    medians = [weights_degradation(b).median for b in (2, 3, 4, 6, 8, 12, 15.99)]
    assert all(a > b for a, b in pairwise(medians))
    assert medians[-1] < 1e-7
    assert weights_degradation(16.0) == Degradation(0.0, 0.0)
    assert weights_degradation(4.5, scale=1.5).median == pytest.approx(1.5 * weights_degradation(4.5).median)


def test_formats_at_or_above_the_file_lose_nothing():
    assert weights_degradation(5.0, reference_bits=5.0) == Degradation(0.0, 0.0)
    assert weights_degradation(8.0, reference_bits=5.0) == Degradation(0.0, 0.0)
    assert weights_degradation(4.0, reference_bits=5.0).median == weights_degradation(4.0).median


def test_degradation_of_an_array_of_bits_is_that_of_each():
    bits = np.array([1.0, 2.5, 4.5, 8.5, 15.99, 16.0, 32.0])
    for degradation_of_bits in (
        weights_degradation,
        kv_degradation,
        lambda b: weights_degradation(b, reference_bits=5.0, scale=2.0),
    ):
        together = degradation_of_bits(bits)
        for i, b in enumerate(bits):
            assert (together.median[i], together.log_sd[i]) == degradation_of_bits(float(b))
        assert np.all(np.diff(together.median) <= 0.0)
        assert np.all((together.log_sd == 0.0) == (together.median == 0.0))
    with pytest.raises(ValueError, match="bits_per_value = 0 is outside"):
        kv_degradation(np.array([8.0, 0.0]))


def test_importance_matrix_curve_is_the_least_squares_fit():
    best = {row["quant"]: row for row in reversed(LLAMA3) if row["imatrix"]}  # one row a format
    bits = np.array([float(row["bits_per_weight"]) for row in best.values()])
    log_degradation = np.log([degradation_of(row) for row in best.values()])
    slope, intercept = np.polyfit(bits, log_degradation, 1)
    assert len(best) == 14
    assert np.exp(intercept) == pytest.approx(IMPORTANCE_MATRIX.amplitude, rel=0.01)
    assert -slope == pytest.approx(IMPORTANCE_MATRIX.rate, rel=0.01)


@pytest.mark.parametrize(("with_matrix", "curve"), [(True, IMPORTANCE_MATRIX), (False, PLAIN)])
def test_table_rows_lie_in_the_band(with_matrix: bool, curve: BitCurve):
    rows = [row for row in LLAMA3 if bool(row["imatrix"]) == with_matrix]
    inside = [
        abs(
            np.log(
                degradation_of(row)
                / weights_degradation(float(row["bits_per_weight"]), importance_matrix=with_matrix).median
            )
        )
        <= Z90 * curve.log_sd
        for row in rows
    ]
    assert len(rows) >= 11
    assert np.mean(inside) >= 0.85


def test_plain_curve_is_the_least_squares_fit():
    rows = [row for row in LLAMA3 if not row["imatrix"]]
    bits = np.array([float(row["bits_per_weight"]) for row in rows])
    log_degradation = np.log([degradation_of(row) for row in rows])
    slope, intercept = np.polyfit(bits, log_degradation, 1)
    assert np.exp(intercept) == pytest.approx(PLAIN.amplitude, abs=0.05)
    assert -slope == pytest.approx(PLAIN.rate, abs=5e-4)
    assert np.std(log_degradation - np.polyval([slope, intercept], bits), ddof=2) == pytest.approx(
        PLAIN.log_sd, abs=5e-3
    )


def test_rows_of_another_model_lie_in_the_band_with_its_scale():
    model = load_catalogue().models["llama-2-70b"]
    rows = [row for row in PRECISION if row["model"] == "Llama-2-70B" and row["quant"] != "fp16"]
    base = next(float(row["ppl"]) for row in PRECISION if row["model"] == "Llama-2-70B" and row["quant"] == "fp16")
    inside = []
    for row in rows:
        bits, actual = float(row["bits_per_weight"]), np.log(float(row["ppl"]) / base)
        degradation = weights_degradation(
            bits, scale=model.degradation_scale, scale_log_sd=model.degradation_scale_log_sd
        )
        inside.append(abs(np.log(actual / degradation.median)) <= Z90 * degradation.log_sd)
    assert len(rows) == 12
    assert np.mean(inside) >= 0.85


def test_kv_degradation_prior():
    assert kv_degradation(8.0).median == pytest.approx(0.0005, rel=0.1)
    assert kv_degradation(4.0).median == pytest.approx(0.01, rel=0.1)
    assert kv_degradation(2.0).median == pytest.approx(0.05, rel=0.15)
    assert kv_degradation(16.0) == kv_degradation(32.0) == Degradation(0.0, 0.0)


def test_kv_degradation_covers_the_published_row():
    rows = {(r["model"], r["k_cache_type"]): r for r in table("kv_quant_accuracy") if r["weight_type"] == "Q4_K_M"}
    base, int8 = (float(rows["Qwen3.6-35B-A3B", kind]["ppl"]) for kind in ("f16", "q8_0"))
    degradation = kv_degradation(8.5)
    assert abs(np.log(np.log(int8 / base) / degradation.median)) <= Z90 * degradation.log_sd * 1.5


def test_pruning_degradation_by_policy():
    assert set(LANGUAGE_MODELLING) == set(POLICIES)
    eps = np.linspace(0.0, 1.0, 11)
    for policy in POLICIES:
        degradation = pruning_degradation(eps, policy)
        assert np.all(np.diff(degradation.median) > 0)
        assert degradation.median[0] == degradation.log_sd[0] == 0.0
        assert degradation.median[3] == pruning_degradation(float(eps[3]), policy).median
    with pytest.raises(ValueError, match="policy = 'luck' is none of"):
        pruning_degradation(0.1, "luck")
    with pytest.raises(ValueError, match=r"dropped_mass = 1\.1"):
        pruning_degradation(1.1, "key_norm")


def test_degradations_add():
    one, two = Degradation(0.02, 0.4), Degradation(0.05, 1.0)
    both = added(one, two)
    assert both.median == pytest.approx(0.07)
    assert both.log_sd == pytest.approx(np.hypot(0.02 * 0.4, 0.05) / 0.07)
    assert added(one, Degradation(0.0, 0.0)) == pytest.approx(one)
    assert added(Degradation(0.0, 0.0)) == Degradation(0.0, 0.0)
    rng = np.random.default_rng(1)
    sampled = sum(d.median * np.exp(d.log_sd * rng.normal(size=200_000)) for d in (one, Degradation(0.05, 0.3)))
    assert np.std(np.log(sampled)) == pytest.approx(added(one, Degradation(0.05, 0.3)).log_sd, rel=0.02)


def test_perplexity_ratio_band():
    exact = perplexity_ratio(Degradation(0.0, 0.0))
    assert exact == (1.0, 1.0, 1.0)
    band = perplexity_ratio(Degradation(np.array([0.01, 0.1]), 0.5))
    assert np.all((band.q05 > 1) & (band.q05 < band.median) & (band.median < band.q95))
    assert np.log(np.log(band.q95) / np.log(band.median)) == pytest.approx(Z90 * 0.5)


def test_mean_kl_covers_the_rows():
    rows = [r for r in PRECISION if r["kl_divergence"] and r["delta_ppl"] and r["trust"] != "X"]
    inside = []
    for row in rows:
        kl = mean_kl(Degradation(degradation_of(row), 0.0))
        inside.append(abs(np.log(float(row["kl_divergence"]) / kl.median)) <= Z90 * kl.log_sd)
    assert len(rows) > 40
    assert np.mean(inside) >= 0.85


def top1_rows() -> list[tuple[float, float]]:
    rows = [(r["kl_divergence"], r["same_top_token_pct"]) for r in PRECISION]
    rows += [(r["kl_divergence"], r["top_token_agreement_pct"]) for r in table("kv_quant_accuracy")]
    return [(float(kl), float(pct) / 100) for kl, pct in rows if kl and pct]


def test_top1_agreement_is_the_fit_and_covers_its_rows():
    kl, agreement = np.array(top1_rows()).T
    assert kl.size == 12
    y = np.log(-np.log(agreement))
    power, log_scale = np.polyfit(np.log(kl), y, 1)
    assert power == pytest.approx(TOP1_POWER, abs=5e-4)
    assert np.exp(log_scale) == pytest.approx(TOP1_SCALE, abs=5e-4)
    assert np.std(y - np.polyval([power, log_scale], np.log(kl)), ddof=2) == pytest.approx(TOP1_LOG_SD, abs=5e-4)
    band = top1_agreement(Degradation(kl, 0.0))
    assert np.mean((band.q05 <= agreement) & (agreement <= band.q95)) >= 0.85


def test_top1_agreement_limits():
    assert top1_agreement(Degradation(0.0, 0.0)) == (1.0, 1.0, 1.0)
    band = top1_agreement(Degradation(np.array([1e-4, 1e-2, 1.0, 100.0]), 0.3))
    assert np.all(np.diff(band.median) < 0)
    assert np.all((band.q05 >= 0) & (band.q05 < band.median) & (band.median < band.q95) & (band.q95 < 1))


SHARE = {
    "random": (64.7, 7.2, 0.6),
    "key_norm": (80.0, 54.7, 31.5),
    "attention_mass": (78.3, 56.8, 35.8),
    "sinks_recent": (83.4, 61.9, 39.4),
    "snapkv": (86.4, 73.4, 45.3),
    "lagkv": (96.7, 88.8, 70.9),
    "expected_attention": (99.5, 96.3, 79.4),
    "kvzip": (99.8, 99.7, 99.5),
}


@pytest.mark.parametrize("method", list(RETRIEVAL))
def test_retrieval_curves_cover_their_rows(method: str):
    actual = np.array(SHARE[method]) / 100
    band = retrieval_score(np.array([0.25, 0.5, 0.75]), method)
    assert np.all((band.q05 <= actual) & (actual <= band.q95))


def test_retrieval_curves_follow_the_published_rows():
    names = {"key_norm": "knorm", "attention_mass": "observed_attention", "sinks_recent": "streaming_llm"}
    for policy, method in names.items():
        rows = [
            (float(r["kv_removed_fraction"]), float(r["score_relative_to_full_cache_pct"]) / 100)
            for r in table("kv_eviction_accuracy")
            if r["method"] == method and r["benchmark"] == "RULER" and r["score_relative_to_full_cache_pct"]
        ]
        removed, share = np.array(rows).T
        p, log_c = np.polyfit(np.log(removed / (1 - removed)), np.log(-np.log(share)), 1)
        assert RETRIEVAL[policy].c == pytest.approx(np.exp(log_c), abs=0.02)
        assert RETRIEVAL[policy].p == pytest.approx(p, abs=0.02)


def test_retrieval_score_limits():
    score = retrieval_score(np.linspace(0, 0.99, 34), "sinks_recent").median
    assert score[0] == 1.0
    assert np.all(np.diff(score) < 0)
    with pytest.raises(ValueError, match="alpha = 1 is outside"):
        retrieval_score(1.0, "sinks_recent")


@pytest.mark.parametrize("bits", [0.5, 33.0, float("nan")])
def test_bits_out_of_range_are_refused(bits: float):
    with pytest.raises(ValueError, match="bits_per_weight = "):
        weights_degradation(bits)
    with pytest.raises(ValueError, match="bits_per_value = "):
        kv_degradation(bits)
