import json
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import zeta

from core.physics.pruning import (
    causal_column_mass,
    entropy,
    harmonic_number,
    keep_count,
    output_error,
    page_keep_frac,
    pruned_latency_s,
    r_max_effective_support,
    r_max_entropy_bound,
    r_max_mass,
    r_max_zipf,
    retained_mass,
    zipf_entropy,
    zipf_retained_mass,
)
from tests.places import GOLDEN

MODELS = json.loads((GOLDEN / "models.json").read_text())
QUANTITIES = json.loads((GOLDEN / "quantities.json").read_text())
RNG = np.random.default_rng(7)


@pytest.mark.parametrize(
    ("n", "alpha", "kept"), [(10, 0.3, 7), (10, 0.9, 1), (2048, 0.623, 773), (2048, 0.6, 820), (1, 0.99, 1), (7, 0, 7)]
)
def test_keep_count_golden(n: int, alpha: float, kept: int):
    assert keep_count(n, alpha) == kept


def test_keep_count_of_an_array_is_that_of_each_element():
    n, alpha = np.arange(1.0, 400.0)[:, None], np.linspace(0.0, 0.99, 23)
    kept = keep_count(n, alpha)
    assert np.all((kept >= 1) & (kept <= n))
    assert np.all(np.diff(kept, axis=1) <= 0)
    assert kept[299, 7] == keep_count(300.0, float(alpha[7]))
    exact = [max(1, -(-(1000 * n - 900 * n) // 1000)) for n in range(1, 400)]  # ceil in whole numbers
    np.testing.assert_array_equal(keep_count(n[:, 0], 0.9), exact)


@pytest.mark.parametrize(("n", "alpha"), [(10, 1.0), (10, -0.1), (0, 0.5), (10, float("nan"))])
def test_keep_count_refuses(n: float, alpha: float):
    with pytest.raises(ValueError, match=r"alpha = |n_tokens = "):
        keep_count(n, alpha)


def test_page_keep_golden():
    golden = MODELS["M4.page_keep_expected(random tokens,keep=.4,page=16)"]
    assert page_keep_frac(0.4, 16) == pytest.approx(golden, rel=1e-12)
    assert page_keep_frac(0.4, 1) == pytest.approx(0.4, rel=1e-15)


@pytest.mark.parametrize("s", [0.8, 1.0, 1.2, 1.5])
def test_zipf_mass_golden(s: float):
    assert zipf_retained_mass(2048, 819, s) == pytest.approx(MODELS[f"M4.mass_kept(keep=.4,n=2048,s={s})"], rel=1e-12)


def test_zipf_mass_in_hurwitz_form():
    golden = MODELS["M4.mass_kept_via_hurwitz(keep 819,n 2048,s=1.2)"]
    hurwitz = (zeta(1.2, 1) - zeta(1.2, 820)) / (zeta(1.2, 1) - zeta(1.2, 2049))
    assert zipf_retained_mass(2048, 819) == pytest.approx(golden, rel=1e-12) == pytest.approx(hurwitz, rel=1e-12)


@pytest.mark.parametrize("s", [0.0, 0.5, 1.0, 1.0000001, 1.2, 3.0, 4.0])
def test_harmonic_number_is_the_sum(s: float):
    n = np.array([0.0, 1.0, 2.0, 15.0, 16.0, 17.0, 100.0, 131072.0])
    sums = [float(np.sum(np.arange(int(k), 0, -1.0) ** -s)) for k in n]
    np.testing.assert_allclose(harmonic_number(n, s), sums, rtol=1e-12)


def test_zipf_mass_limits_and_monotony():
    k = np.arange(1.0, 2049.0)
    mass = zipf_retained_mass(2048.0, k)
    assert np.all(np.diff(mass) > 0)
    assert mass[-1] == 1.0
    assert zipf_retained_mass(2048, 100, 0.0) == pytest.approx(100 / 2048, rel=1e-13)
    with pytest.raises(ValueError, match=r"n_keep / n_tokens = 1\.5"):
        zipf_retained_mass(10, 15)


def test_zipf_mass_of_long_contexts_follows_that_of_looked_up_ones():
    keep = np.array([1.0, 100.0, 30000.0, 65535.0])
    few, many = (zipf_retained_mass(n, keep) for n in (65536.0, 65537.0))
    ratio = harmonic_number(65536.0, 1.2) / harmonic_number(65537.0, 1.2)
    np.testing.assert_allclose(many, few * ratio, rtol=1e-12)
    n = np.array([30000.0, 131072.0])
    for whole in (n, n[:1]):
        np.testing.assert_array_equal(zipf_retained_mass(whole, whole), 1.0)


def test_zipf_entropy_of_the_default():
    assert zipf_entropy(2048) == pytest.approx(4.49, abs=5e-3)
    assert zipf_entropy(2048, 0.0) == pytest.approx(np.log(2048), rel=1e-12)


def test_mass_of_a_measured_attention():
    p = RNG.dirichlet(np.full(50, 0.3))
    assert retained_mass(p, 50) == pytest.approx(1.0, rel=1e-12)
    assert retained_mass(p, 3) == pytest.approx(sorted(p)[-1] + sorted(p)[-2] + sorted(p)[-3], rel=1e-12)
    for bad in ([0.5, 0.4], [1.5, -0.5], [], [[1.0]]):
        with pytest.raises(ValueError, match="mass"):
            retained_mass(bad, 1)


def test_output_error_identity_and_bound():
    for _ in range(200):
        n = int(RNG.integers(2, 40))
        p, v = RNG.dirichlet(np.full(n, 0.5)), RNG.normal(size=(n, 8))
        keep = RNG.random(n) < 0.5
        keep[RNG.integers(n)] = True
        made = output_error(p, v, keep)
        np.testing.assert_allclose(made.error, made.identity, atol=2e-14)
        assert np.linalg.norm(made.error) <= made.bound + 1e-15
        assert made.dropped_mass == pytest.approx(1 - p[keep].sum(), abs=1e-14)
    all_kept = output_error(p, v, np.ones(n, bool))
    assert all_kept.bound == 0.0
    with pytest.raises(ValueError, match="mass of the kept tokens = 0"):
        output_error([1.0, 0.0], np.eye(2), [False, True])


def test_pruned_latency_golden_and_limits():
    golden = QUANTITIES["A12.phy.latency_ratio_65_vs_60_no_recompute(n=2048)"]
    f_kv = QUANTITIES["A01.phy.qwen2_1.5b.f_kv(n=2048)"]
    low, high = pruned_latency_s(0.05, f_kv, np.array([0.6, 0.65]))
    assert high / low == pytest.approx(golden, rel=1e-9)
    assert low / 0.05 == pytest.approx(QUANTITIES["A01.phy.qwen2_1.5b.T(a=0.6)/T(0)(n=2048)"], rel=1e-9)
    assert pruned_latency_s(0.05, f_kv, 0.0) == 0.05
    assert pruned_latency_s(0.05, 1.0, 1.0, 3, 1.8e-3) == pytest.approx(5.4e-3)
    alpha = np.linspace(0, 1, 11)
    np.testing.assert_array_equal(
        pruned_latency_s(0.05, f_kv, alpha, 2, 1e-3), [pruned_latency_s(0.05, f_kv, float(a), 2, 1e-3) for a in alpha]
    )
    assert np.all(np.diff(pruned_latency_s(0.05, f_kv, alpha)) < 0)
    with pytest.raises(ValueError, match=r"kv_frac = 1\.2"):
        pruned_latency_s(0.05, 1.2, 0.5)


@pytest.mark.parametrize(("h", "name"), [(0, "0"), (2, "2"), (4.5, "4.5"), (np.log(2048), "7.625")])
def test_effective_support_golden(h: float, name: str):
    golden = QUANTITIES[f"A05.phy.r_eff=1-exp(H)/L(H={name})"]
    assert r_max_effective_support(h, 2048) == pytest.approx(golden, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("h", "eps"), [(2.0, 0.1), (2.0, 0.5), (0.5, 0.1), (0.5, 0.25)])
def test_entropy_bound_golden(h: float, eps: float):
    golden = QUANTITIES[f"A05.phy.safe_r(H={h},eps={eps})"]
    assert r_max_entropy_bound(h, 2048, eps) == pytest.approx(golden, rel=1e-9)


def test_the_entropy_bound_never_exceeds_the_mass_budget():
    for _ in range(100):
        p = RNG.dirichlet(np.full(64, RNG.uniform(0.01, 1.0)))
        eps = float(RNG.uniform(0.01, 0.9))
        assert r_max_entropy_bound(entropy(p), 64, eps) <= r_max_mass(p, eps) + 1e-12


def test_mass_budget():
    assert r_max_mass(np.full(100, 0.01), 0.02) == pytest.approx(0.02)
    assert r_max_mass([1.0, 0.0, 0.0, 0.0], 0.0) == 0.75
    assert r_max_mass([0.7, 0.2, 0.1], 0.0) == 0.0
    budgets = [r_max_mass(RNG.dirichlet(np.ones(30)), 0.0)] + [r_max_zipf(512, eps) for eps in (0.01, 0.05, 0.3)]
    assert all(a < b for a, b in pairwise(budgets))
    kept = keep_count(512, r_max_zipf(512, 0.02))
    assert zipf_retained_mass(512, kept) >= 0.98 > zipf_retained_mass(512, kept - 1)


def test_uniform_causal_attention_golden():
    mass = causal_column_mass(2048)
    assert mass.sum() == pytest.approx(QUANTITIES["A05.phy.sum_p_uniform_causal"], rel=1e-12)
    assert entropy(mass) == pytest.approx(QUANTITIES["A05.phy.H_uniform_causal(L=2048)"], rel=1e-12)
    asymptote = np.log(2048) - (1 - np.euler_gamma)
    assert asymptote == pytest.approx(QUANTITIES["A05.phy.H_uniform_causal_asymptote"], rel=1e-12)
    assert causal_column_mass(3) == pytest.approx([(1 + 1 / 2 + 1 / 3) / 3, (1 / 2 + 1 / 3) / 3, 1 / 9])
