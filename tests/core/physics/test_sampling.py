"""What samples can show: folded periods, and rhythms."""

import numpy as np
import pytest

from core.physics.sampling import seen_period_s, strongest_rhythm


def test_the_periods_of_the_article_are_folded_to_its_golden_values():
    assert seen_period_s(0.128, 0.2) == pytest.approx(0.457, abs=5e-4)
    assert seen_period_s(0.217, 0.2) == pytest.approx(2.553, abs=5e-4)


def test_a_period_of_two_samples_or_more_is_seen_as_it_is():
    periods = np.geomspace(0.4, 100.0, 50)
    np.testing.assert_allclose(seen_period_s(periods, 0.2), periods)
    assert all(seen_period_s(np.linspace(0.01, 0.399, 200), 0.2) > 0.3999)
    assert seen_period_s(0.1, 0.2) == np.inf
    np.testing.assert_array_equal(seen_period_s(periods, 0.2)[3], seen_period_s(periods[3], 0.2))


@pytest.mark.parametrize("period_s", [0.128, 0.217])
def test_samples_of_a_fast_load_show_the_folded_rhythm(period_s):
    t = 0.2 * np.arange(2000)
    found = strongest_rhythm(60.0 + np.sin(2 * np.pi * t / period_s), 0.2)
    assert found.period_s == pytest.approx(float(seen_period_s(period_s, 0.2)), rel=0.01)
    assert found.false_alarm < 1e-9


def test_noise_and_a_trend_have_no_rhythm():
    rng = np.random.default_rng(0)
    alarms = [strongest_rhythm(rng.normal(size=256), 0.1).false_alarm for _ in range(200)]
    assert np.mean(np.array(alarms) < 0.1) == pytest.approx(0.1, abs=0.06)
    flat = strongest_rhythm(np.full(64, 5.0), 0.1)
    assert (flat.period_s, flat.amplitude, flat.false_alarm) == (np.inf, 0.0, 1.0)
    assert strongest_rhythm(np.linspace(0.0, 9.0, 64), 0.1).amplitude == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("bad", [(0.0, 0.2), (-1.0, 0.2), (np.nan, 0.2), (0.1, 0.0)])
def test_periods_and_intervals_are_above_zero(bad):
    with pytest.raises(ValueError, match="is outside"):
        seen_period_s(*bad)


@pytest.mark.parametrize("values", [[1.0] * 15, [np.nan] * 20, np.ones((20, 2))])
def test_too_few_or_unknown_samples_are_refused(values):
    with pytest.raises(ValueError, match="expected 16 finite samples"):
        strongest_rhythm(values, 0.1)
