from dataclasses import replace

import numpy as np
import pytest

from core.calibrate.next_point import choose
from core.catalogue.load import load_catalogue
from core.predict.parameters import prior
from core.spec import OperatingPoint

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
