from dataclasses import replace

import numpy as np
import pytest

from core.calibrate.fit import calibrate, next_measurement
from core.calibrate.next_point import choose
from core.catalogue.load import load_catalogue
from core.predict.parameters import prior
from core.predict.scenario import predict
from core.spec import OperatingPoint
from tests.core.calibrate.simulated_board import exactly_predicted

CATALOGUE = load_catalogue()
BASE = OperatingPoint(weights="int8")


def only_eta(sd):
    """A posterior in which nothing but eta is uncertain, of a point whose time is all weights."""
    known = prior(CATALOGUE.resolve(BASE))
    cov = np.diag([sd**2 if name == "eta" else 1e-18 for name in known.names])
    mean = np.array(
        [m if name in ("eta", "eta_compute") else -40.0 for name, m in zip(known.names, known.log_mean, strict=True)]
    )
    names = (*known.names, "eta.int8", "kappa.bf16", "eta_compute.int8", "model.smollm2-135m")
    sure = np.diag([*np.diag(cov), *[1e-18] * 4])
    return replace(known, names=names, log_mean=np.append(mean, np.zeros(4)), log_cov=sure, decode_log_sd=0.06)


@pytest.mark.parametrize(("n", "expected"), [(1, 0.05816), (3, 0.03428), (10, 0.01891)])
def test_one_unknown_narrows_as_the_conjugate_case(n, expected):
    """Golden values of models M10: sd 0.237 in ln eta, measurements with a scatter of 0.06."""
    points = [replace(BASE, context_tokens=float(k)) for k in range(1, n + 1)]
    chosen = choose(only_eta(0.237), points, CATALOGUE, n=n)
    known = chosen[-1].after
    eta = known.names.index("eta")
    assert np.sqrt(known.log_cov[eta, eta]) == pytest.approx(expected, abs=2e-5)


def test_choices_are_different_and_worth_less_and_less():
    points = [replace(BASE, context_tokens=n, alpha=a) for n in (64.0, 512.0, 4096.0) for a in (0.0, 0.5, 0.9)]
    chosen = choose(prior(CATALOGUE.resolve(BASE)), points, CATALOGUE, n=5)
    assert len({c.point for c in chosen}) == 5
    assert all(0 <= c.narrowing_frac < 1 for c in chosen)
    assert chosen[0].narrowing_frac == max(c.narrowing_frac for c in chosen)


def test_what_matters_decides():
    short = [replace(BASE, context_tokens=16.0), replace(BASE, context_tokens=16.0, weights="fp32")]
    for target in short:
        chosen = choose(prior(CATALOGUE.resolve(BASE)), short, CATALOGUE, n=1, matters=[target])
        assert chosen[0].point == target


def test_no_candidates_no_choice():
    assert choose(prior(CATALOGUE.resolve(BASE)), [], CATALOGUE, n=3) == []


def test_next_measurement_is_where_least_is_known():
    # Only short contexts were measured, so the cost of the KV cache is what is missing.
    calibration = calibrate(
        exactly_predicted(*[replace(BASE, context_tokens=n) for n in (16.0, 32.0, 64.0)]), CATALOGUE
    )
    candidates = [replace(BASE, context_tokens=n, alpha=a) for n in (64.0, 512.0, 4096.0) for a in (0.0, 0.9)]
    point, sentence = next_measurement(calibration, candidates, CATALOGUE)
    assert (point.context_tokens, point.alpha) == (4096.0, 0.0)
    assert "context 4096 narrows the cost of a KV byte in bf16 by" in sentence


def test_measuring_it_narrows_the_predictions_as_announced():
    candidates = [replace(BASE, context_tokens=n) for n in (64.0, 512.0, 4096.0)]
    before = calibrate(exactly_predicted(replace(BASE, context_tokens=16.0)), CATALOGUE)
    point, _ = next_measurement(before, candidates, CATALOGUE)
    after = calibrate(exactly_predicted(replace(BASE, context_tokens=16.0), point), CATALOGUE)
    spread = [predict(point, CATALOGUE, c.posterior).decode_s for c in (before, after)]
    assert spread[1].q95 / spread[1].q05 < 0.8 * spread[0].q95 / spread[0].q05


@pytest.mark.parametrize("candidates", [[], [BASE]])
def test_nothing_is_proposed_where_nothing_is_new(candidates):
    assert next_measurement(calibrate(exactly_predicted(BASE), CATALOGUE), candidates, CATALOGUE) is None


def test_what_measuring_again_would_not_tell_is_not_proposed():
    many = [replace(BASE, context_tokens=float(n), alpha=a) for n in range(64, 4096, 200) for a in (0.0, 0.5)]
    calibration = calibrate(exactly_predicted(*many), CATALOGUE)
    assert next_measurement(calibration, [replace(BASE, context_tokens=1000.0)], CATALOGUE) is None
