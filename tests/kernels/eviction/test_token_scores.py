import math

import numpy as np
import pytest
import torch

from core.articles.importance import ScoreWeights, importance, kept_tokens, rotary_score_slope, rotary_sensitivity
from kernels.eviction.policies import select
from kernels.eviction.token_scores import (
    KeyNorms,
    PageBounds,
    RopeSensitivity,
    attention_mass_scores,
    composite_scores,
    expected_attention_scores,
    key_norm_scores,
    pair_magnitudes,
    probabilities,
    ranks,
    rope_sensitivity_scores,
    snapkv_scores,
)


def randn(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def angles(n, dim, base=10000.0):
    theta = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * theta
    return torch.polar(torch.ones_like(angle), angle).to(torch.complex64), theta.float()


def rotated(x, rotation):
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * rotation).flatten(-2)


def test_low_key_norm_is_kept():
    k = torch.full((1, 6, 4), 2.0)
    k[0, 2] = 0.1
    assert key_norm_scores(k)[0].argmax() == 2
    assert key_norm_scores(k)[0, 0] == -4


def test_mass_sums_to_the_number_of_queries():
    g = torch.Generator().manual_seed(0)
    mass = attention_mass_scores(torch.randn(6, 5, 8, generator=g), torch.randn(2, 30, 8, generator=g))
    assert mass.shape == (2, 30)
    assert torch.allclose(mass.sum(-1), torch.full((2,), 3.0 * 5))


def test_mass_is_causal_and_finds_the_key_that_is_attended_to():
    k = torch.randn(1, 30, 8, generator=torch.Generator().manual_seed(1))
    q = (k[:, 11] * 20)[:, None].expand(1, 4, 8)
    mass = attention_mass_scores(q, k)
    assert mass[0].argmax() == 11
    late = attention_mass_scores(torch.zeros(1, 4, 8), k)[0]
    assert late[29] == pytest.approx(1 / 30)  # only the last query sees the last key


def test_probabilities_are_causal_and_sum_to_one():
    p = probabilities(randn(6, 5, 8), randn(2, 30, 8, seed=1))
    assert p.shape == (2, 3, 5, 30)
    assert torch.allclose(p.sum(-1), torch.ones(2, 3, 5))
    for i in range(5):
        assert not p[:, :, i, 26 + i :].any()
    with pytest.raises(ValueError, match=r"q: got 31 queries, expected 1\.\.30"):
        probabilities(randn(2, 31, 8), randn(2, 30, 8))


def test_snapkv_is_the_pooled_mass_and_keeps_its_window():
    q, k = randn(6, 5, 8), randn(2, 30, 8, seed=1)
    mass = attention_mass_scores(q, k)
    found = snapkv_scores(q, k, pool_tokens=3)
    assert torch.allclose(found[:, 7], mass[:, 6:9].mean(1))
    assert torch.allclose(found[:, 0], mass[:, :2].mean(1))  # what lies outside does not count
    assert torch.allclose(snapkv_scores(q, k, pool_tokens=1)[:, :25], mass[:, :25])
    assert (found[:, 25:].amin(1) > found[:, :25].amax(1)).all()
    assert snapkv_scores(q, k[:, :5]).shape == (2, 5)  # all of it is the window
    with pytest.raises(ValueError, match="pool_tokens: got 2"):
        snapkv_scores(q, k, pool_tokens=2)


def test_expected_attention_equals_the_mean_over_many_queries():
    """Queries drawn from a Gaussian, each rotated by the mean rotation to come: the formula against a simulation."""
    dim, n_tokens, n_sample = 8, 40, 4000
    rotation, _ = angles(200, dim)
    k, v = randn(1, n_tokens, dim, seed=1), randn(1, n_tokens, dim, seed=2)
    drawn = randn(1, n_sample, dim, seed=3).double() @ (0.1 * randn(dim, dim, seed=4).double()) + randn(dim, seed=5)
    q = drawn.float()
    future = rotation[50:60]
    sample = rotation[torch.arange(n_sample) % 200]
    found = expected_attention_scores(rotated(q, sample), k, v, sample, future, n_sinks=0)
    mean_rotation = future.mean(0)
    weights = torch.exp(rotated(q, mean_rotation)[0].double() @ k[0].double().T).mean(0)
    expected = weights / weights.sum() * v[0].norm(dim=-1)
    assert torch.allclose(found[0].double(), expected, rtol=0.05)
    assert found[0].argmax() == expected.argmax()


def test_expected_attention_without_spread_is_attention_and_keeps_sinks():
    dim = 8
    rotation, _ = angles(60, dim)
    k, v = randn(2, 30, dim), randn(2, 30, dim, seed=1)
    q = randn(4, 1, dim, seed=2).expand(4, 3, dim)
    future = rotation[30:31]
    found = expected_attention_scores(rotated(q, rotation[27:30]), k, v, rotation[27:30], future, n_sinks=2)
    scores = rotated(q[:, 0], future[0]).view(2, 2, dim) @ k.transpose(1, 2)
    expected = torch.softmax(scores, -1).mean(1) * v.norm(dim=-1)
    assert torch.allclose(found[:, 2:], expected[:, 2:], atol=1e-5)
    assert (found[:, :2].amin() > found[:, 2:].amax()).all()
    with pytest.raises(ValueError, match="q: got 1 queries"):
        expected_attention_scores(q[:, :1], k, v, rotation[:1], future)


def test_rope_sensitivity_golden_and_bound():
    """The example of quantities A10: slope -0.8155 at a distance of 5 under a bound of 0.8970."""
    rng = np.random.default_rng(1)
    q, k = rng.standard_normal(8), rng.standard_normal(8)
    _, theta = angles(1, 8)
    found = float(
        rope_sensitivity_scores(torch.tensor(q)[None, None].float(), torch.tensor(k)[None, None].float(), theta)
    )
    assert found == pytest.approx(rotary_sensitivity(q, k), rel=1e-6)
    slopes = [abs(rotary_score_slope(q, k, distance)) for distance in np.linspace(0, 200, 801)]
    assert max(slopes) <= found


def test_rope_sensitivity_bounds_the_derivative_by_autograd():
    dim = 16
    _, theta = angles(1, dim)
    q, k = randn(3, 1, dim), randn(3, 7, dim, seed=1)
    bound = rope_sensitivity_scores(q, k, theta)
    for distance in (0.0, 3.0, 77.7):
        at = torch.tensor(distance, requires_grad=True)
        turned = torch.view_as_complex(k.unflatten(-1, (-1, 2))) * torch.exp(1j * theta * at)
        pairs = torch.view_as_complex(q.unflatten(-1, (-1, 2)).contiguous())
        scores = (pairs.conj() * turned).real.sum(-1)
        slopes = torch.stack([torch.autograd.grad(s, at, retain_graph=True)[0] for s in scores.flatten()])
        assert (slopes.abs() <= bound.flatten() + 1e-5).all()


@pytest.mark.parametrize("pieces", [[100], [1] * 100, [63, 2, 30, 5]])
def test_page_bound_is_no_less_than_any_score_in_its_page(pieces):
    q, k = randn(2, 6, 16), randn(2, 100, 16, seed=1)
    bounds = PageBounds(2, 130, 16, page_tokens=32)
    start = 0
    for n in pieces:
        bounds.append(k[:, start : start + n])
        start += n
    found = bounds.page_scores(q)
    assert found.shape == (2, 4)
    assert torch.equal(bounds.scores(q), found[:, torch.arange(100) // 32])
    scores = (q @ k.transpose(1, 2)).amax(1)
    for page in range(4):
        assert (scores[:, 32 * page : 32 * page + 32].amax(1) <= found[:, page] + 1e-5).all()
    alone = PageBounds(2, 1, 16, 1)
    alone.append(k[:, :1])
    assert torch.allclose(alone.page_scores(q)[:, 0], scores[:, 0], atol=1e-5)  # a page of one token: the score itself


@pytest.mark.parametrize("pieces", [[50], [1] * 50, [20, 30]])
def test_what_is_scored_at_insertion_equals_scoring_all_at_once(pieces):
    q, k = randn(4, 3, 16), randn(2, 50, 16, seed=1)
    _, theta = angles(1, 16)
    norms = KeyNorms(2, 50)
    magnitude = pair_magnitudes(q).mean(1).view(2, 2, 8).sum(1)
    sensitivity = RopeSensitivity(2, 60, theta, magnitude)
    for piece in k.split(pieces, 1):
        norms.append(piece)
        sensitivity.append(piece)
    assert torch.allclose(norms.scores(q), key_norm_scores(k))
    assert torch.allclose(sensitivity.scores(q), rope_sensitivity_scores(q, k, theta), rtol=1e-5)


def test_entropy_limits_of_probabilities():
    k = torch.zeros(1, 64, 8)
    even = probabilities(randn(1, 1, 8), k)[0, 0, 0]
    assert float(-(even * even.log()).sum()) == pytest.approx(math.log(64), rel=1e-6)
    k[0, 10] = 1e4
    one = probabilities(torch.ones(1, 1, 8), k)[0, 0, 0]
    assert float(torch.special.entr(one).sum()) == pytest.approx(0, abs=1e-6)


WEIGHTS = [(0.5, 0.25, 0.25, 0.0), (0.4, 0.3, 0.2, 0.1), (0.0, 0.0, 0.0, 1.0), (0.25, 0.25, 0.25, 0.25)]


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_composite_score_is_the_formula_of_the_core(weights):
    q, k, theta = randn(4, 8, 16), randn(2, 60, 16, seed=1), angles(1, 16)[1]
    found = composite_scores(q, k, theta, weights)
    mass, norm = attention_mass_scores(q, k), torch.linalg.vector_norm(k, dim=-1)
    phase = rope_sensitivity_scores(q, k, theta)
    for head in range(2):
        signs = [each[head].double().numpy() for each in (mass, norm, phase)]
        expected = importance(*signs, ScoreWeights(*weights))
        assert found[head].numpy() == pytest.approx(expected, abs=1e-6)
        apart = 1e-4 * np.arange(60)  # of equal scores the more recent token stays
        kept = kept_tokens(expected + apart, 20, n_sinks=4, n_recent=5)
        assert select(found[head] + torch.from_numpy(apart), 20).tolist() == kept.tolist()


def test_equal_values_share_the_mean_of_their_ranks():
    assert ranks(torch.tensor([[3.0, 1.0, 3.0, 3.0, 0.0]])).tolist() == [[0.75, 0.25, 0.75, 0.75, 0.0]]
    assert ranks(torch.ones(2, 1)).tolist() == [[1.0], [1.0]]


def test_a_composite_of_one_sign_keeps_what_its_policy_keeps():
    q, k, theta = randn(4, 8, 16), randn(2, 60, 16, seed=1), angles(1, 16)[1]
    for weights, alone in (
        ((1, 0, 0, 0), attention_mass_scores(q, k)),
        ((0, 1, 0, 0), key_norm_scores(k)),
        ((0, 0, 0, 1), rope_sensitivity_scores(q, k, theta)),
    ):
        assert torch.equal(select(composite_scores(q, k, theta, weights), 20), select(alone, 20))
    recency = composite_scores(q, k, theta, (0, 0, 1, 0))
    assert recency[0].tolist() == pytest.approx([i / 59 for i in range(60)])
