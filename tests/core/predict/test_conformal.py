import numpy as np
import pytest

from core.predict import conformal
from core.spec.interval_scale import HeldOut, IntervalScale
from core.units import Z90

NOMINAL = np.array(conformal.NOMINAL)


def test_a_model_that_knows_itself_needs_no_guard():
    assert conformal.factor(NOMINAL, np.zeros(0)) == 1.0
    rng = np.random.default_rng(1)
    own = np.abs(rng.normal(size=2000))
    assert conformal.factor(NOMINAL, own) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("scale", [0.4, 2.5])
def test_many_own_points_decide(scale):
    own = scale * np.abs(np.random.default_rng(2).normal(size=3000))
    assert conformal.factor(NOMINAL, own) == pytest.approx(scale, rel=0.06)


def test_few_own_points_only_widen():
    assert conformal.factor(NOMINAL, np.full(8, 0.1)) == 1.0
    assert conformal.factor(NOMINAL, np.full(9, 0.1)) < 1.0
    assert conformal.factor(NOMINAL, np.full(3, 5.0)) > 1.5
    one_bad_of_ten = np.array([5.0, *np.full(9, 0.5)])
    assert conformal.factor(NOMINAL, one_bad_of_ten) < 1.1


def test_order_does_not_matter_and_worse_scores_never_narrow():
    own = np.array([0.3, 2.0, 1.1, 0.2, 4.0, 0.9, 1.5, 0.1, 0.7, 1.2])
    assert conformal.factor(NOMINAL, own) == conformal.factor(NOMINAL, own[::-1])
    factors = [conformal.factor(NOMINAL, own + worse) for worse in (0.0, 0.5, 1.0, 3.0)]
    assert factors == sorted(factors)


def test_quantiles_of_weighted_scores():
    scores = np.abs(np.random.default_rng(3).normal(size=4000))
    found = np.array(conformal.quantiles(scores, np.ones(4000)))
    np.testing.assert_allclose(found, NOMINAL, atol=0.1)
    repeated = conformal.quantiles(np.repeat(scores, 3), np.full(12000, 1 / 3))
    np.testing.assert_allclose(repeated, found, atol=0.01)
    assert conformal.quantiles(np.zeros(0), np.zeros(0)) == conformal.NOMINAL


def test_few_boards_narrow_little_and_many_do():
    half = 0.5 * NOMINAL
    narrowed = [
        conformal.factor(np.array(conformal.quantiles(half, np.full(len(half), n / len(half)))), np.zeros(0))
        for n in (1, 2, 6, 30, 1000)
    ]
    assert narrowed == sorted(narrowed, reverse=True)
    assert narrowed[0] > 0.85
    assert narrowed[2] > 0.6
    assert narrowed[-1] == pytest.approx(0.5, abs=0.01)


def test_few_boards_widen_as_they_are():
    twice = 2.0 * NOMINAL
    np.testing.assert_allclose(conformal.quantiles(twice, np.full(len(twice), 1 / len(twice))), twice)


def test_intervals_cover_where_the_model_is_too_sure_or_too_humble():
    rng = np.random.default_rng(4)
    for scale in (0.5, 1.0, 3.0):
        inside = []
        for _ in range(60):
            own, new = scale * np.abs(rng.normal(size=30)), scale * np.abs(rng.normal(size=50))
            inside.append(np.mean(new <= Z90 * conformal.factor(scale * NOMINAL, own)))
        assert np.mean(inside) == pytest.approx(0.90, abs=0.05)


def test_each_point_is_judged_by_the_others():
    own = np.concatenate([np.full(20, 0.5), [6.0]])
    inside = conformal.inside_others(NOMINAL, own)
    assert inside[:20].all()
    assert not inside[20]


def test_the_runtime_of_no_table_keeps_its_own_intervals():
    held_out = HeldOut({"decode_s": {"0": tuple(2 * x for x in conformal.NOMINAL)}})
    for runtime in ("mlc_gpu", "other-mnn_gpu"):
        assert conformal.factor(conformal.population(held_out, runtime, "decode_s", "0"), np.zeros(0)) == 2.0
    for of in ((held_out, "builtin", "decode_s", "0"), (held_out, "mlc_gpu", "ttft_s", "0"), (None, "x", "y", "0")):
        np.testing.assert_array_equal(conformal.population(*of), NOMINAL)


def test_buckets():
    assert [conformal.bucket(n) for n in (0, 1, 2, 3, 4, 5, 7, 8, 40)] == list("011335588")[:9]


def test_the_sentence_has_its_evidence():
    busy = conformal.sentence(IntervalScale(decode=2.1), [3.0, 2.5, 0.4, 0.3, 2.0])
    assert "2.1 times as wide" in busy
    assert "2 of 5 points" in busy
    assert "busy" in busy
    calm = conformal.sentence(IntervalScale(decode=0.6), [0.2] * 12)
    assert "0.60 times" in calm
    assert "busy" not in calm
    few = conformal.sentence(IntervalScale(decode=1.4), [0.4, 0.2, 1.0])
    assert "3 of 3 points" in few
    assert "only" not in few
    assert conformal.sentence(IntervalScale(decode=1.05), [1.0] * 9) == ""
    assert conformal.sentence(IntervalScale(decode=3.0), [9.0]) == ""
