import numpy as np
import pytest

from core.articles.importance import (
    ScoreWeights,
    age_decay,
    importance,
    kept_tokens,
    rotary_frequencies,
    rotary_score_slope,
    rotary_sensitivity,
)

RNG = np.random.default_rng(9)


def rotated_score(q: np.ndarray, k: np.ndarray, distance: float) -> float:
    theta = rotary_frequencies(q.size) * distance
    even, odd = k[0::2], k[1::2]
    turned = np.empty_like(k)
    turned[0::2], turned[1::2] = even * np.cos(theta) - odd * np.sin(theta), even * np.sin(theta) + odd * np.cos(theta)
    return float(q @ turned)


def test_rotary_slope_is_the_derivative_and_within_its_bound():
    for _ in range(50):
        q, k, d = RNG.normal(size=16), RNG.normal(size=16), float(RNG.uniform(0, 100))
        h = 1e-5
        numeric = (rotated_score(q, k, d + h) - rotated_score(q, k, d - h)) / (2 * h)
        slope = rotary_score_slope(q, k, d)
        assert slope == pytest.approx(numeric, abs=1e-7)
        assert abs(slope) <= rotary_sensitivity(q, k)


def test_each_sign_points_its_way():
    mass, norm = np.array([0.1, 0.7, 0.2, 0.0]), np.array([3.0, 1.0, 2.0, 4.0])
    assert np.argmax(importance(mass, norm, weights=ScoreWeights(1, 0, 0, 0))) == 1
    assert np.argmax(importance(mass, norm, weights=ScoreWeights(0, 1, 0, 0))) == 1
    assert np.argmax(importance(mass, norm, weights=ScoreWeights(0, 0, 1, 0))) == 3
    assert np.argmax(importance(mass, norm, np.array([9.0, 1, 1, 1]), ScoreWeights(0, 0, 0, 1))) == 0


def test_scores_do_not_depend_on_units():
    mass, norm = RNG.random(30), RNG.random(30)
    np.testing.assert_array_equal(importance(mass, norm), importance(1000 * mass, norm**3))
    assert np.all((importance(mass, norm) >= 0) & (importance(mass, norm) <= 1))


def test_sinks_and_recent_tokens_stay():
    score = RNG.random(200)
    kept = kept_tokens(score, 60, n_sinks=4, n_recent=16)
    assert kept.size == 60
    assert np.all(np.diff(kept) > 0)
    assert set(range(4)) | set(range(184, 200)) <= set(kept.tolist())
    middle = np.setdiff1d(np.arange(4, 184), kept)
    inside = np.intersect1d(np.arange(4, 184), kept)
    assert score[inside].min() >= score[middle].max()


def test_few_places_go_to_the_sinks_first():
    assert kept_tokens(np.ones(50), 2, n_sinks=4, n_recent=16).tolist() == [0, 1]
    assert kept_tokens(np.ones(50), 6, n_sinks=4, n_recent=16).tolist() == [0, 1, 2, 3, 48, 49]
    assert kept_tokens(np.ones(5), 5).tolist() == [0, 1, 2, 3, 4]
    assert kept_tokens(np.ones(5), 2, n_sinks=0, n_recent=0).tolist() == [3, 4]


def test_age_decay_favours_the_newest():
    decay = age_decay(10, 4.0)
    assert decay[-1] == 1.0
    assert np.all(np.diff(decay) > 0)


def test_refusals():
    with pytest.raises(ValueError, match=r"sum of weights = 1\.5"):
        ScoreWeights(1.0, 0.5, 0.0, 0.0)
    with pytest.raises(ValueError, match="phase is not given"):
        importance([0.5, 0.5], [1, 1], weights=ScoreWeights(0, 0, 0, 1))
    for mass, norm, phase, message in (
        ([0.1, np.nan], [1, 1], None, "mass = nan"),
        ([0.1, 0.2], [1, -1], None, "key_norm = -1"),
        ([0.1, 0.2], [1, 1], [1, 2, 3], r"phase \(3,\) and mass \(2,\)"),
        ([0.1, 0.2], [1, 1], [1, -2], "phase = -2"),
    ):
        weights = ScoreWeights(0.5, 0.25, 0.0, 0.25) if phase else None
        with pytest.raises(ValueError, match=message):
            importance(mass, norm, phase, weights)
    with pytest.raises(ValueError, match="score = nan"):
        kept_tokens([1.0, np.nan, 2.0], 2, 0, 0)
    with pytest.raises(ValueError, match=r"score has shape \(1, 2\)"):
        kept_tokens([[1.0, 2.0]], 1)
    with pytest.raises(ValueError, match="head_dim = 7"):
        rotary_frequencies(7)
    with pytest.raises(ValueError, match="n_keep = 0"):
        kept_tokens([1.0], 0)
