"""r_max from the attention that was measured, and from an assumption where none was."""

from dataclasses import replace

import numpy as np
import pytest

from app.library.attention import RetainedMass, nearest
from app.library.measurements import Measurement
from app.library.prediction_curves import r_max
from app.model.store import Store
from app.text.r_max import bounds_text, knee_text
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

SHARES = [0.25, 0.5, 0.75, 1.0]


def measured(n_tokens, mass, **changes):
    record = {"n_tokens": n_tokens, "keep_shares": SHARES, "retained_mass": mass, "provenance": "measured"}
    point = replace(OperatingPoint(), context_tokens=float(n_tokens), **changes)
    return Measurement(point, {"attention": record}, "2026-01-01T00:00:00+00:00", "here")


def test_r_max_is_read_off_the_measured_mass():
    mass = RetainedMass(1024, tuple(SHARES), (0.9, 0.98, 0.995, 1.0))
    assert mass.r_max(0.02) == pytest.approx(0.5)
    assert mass.r_max(0.1) == pytest.approx(0.75)
    assert mass.r_max(0.06) == pytest.approx(1 - 0.375)  # halfway
    assert mass.r_max(0.0) == 0.0


def test_the_nearest_context_of_the_same_model_counts_and_of_those_the_newest():
    found = [
        measured(256, [0.5, 0.6, 0.7, 1.0]),
        measured(2048, [0.6, 0.7, 0.8, 1.0]),
        measured(2048, [0.7, 0.8, 0.9, 1.0]),
        measured(1024, [0.1, 0.2, 0.3, 1.0], model="llama-3.2-1b"),
        Measurement(OperatingPoint(), {"attention": {"n_tokens": "many"}}, "", "here"),
        Measurement(OperatingPoint(), {}, "", "here"),
    ]
    known = nearest(found, replace(OperatingPoint(), context_tokens=1500.0))
    assert known.n_tokens == 2048
    assert known.retained_mass[0] == 0.7
    assert nearest(found[3:], OperatingPoint()) is None


def test_the_mark_says_whether_it_was_measured():
    catalogue, point = load_catalogue(), OperatingPoint()
    assumed = r_max(point, catalogue, None, None)
    assert "assumed until accuracy is measured" in assumed.text
    mark = r_max(point, catalogue, None, None, RetainedMass(1024, tuple(SHARES), (0.9, 0.98, 0.995, 1.0)))
    assert mark.alpha == pytest.approx(0.5)
    assert "measured on this model at 1024 tokens" in mark.text
    limited = r_max(point, catalogue, None, 0.95, RetainedMass(1024, tuple(SHARES), (0.9, 0.98, 0.995, 1.0)))
    assert "predicted top-1 agreement" in limited.text  # an accuracy limit decides


def test_the_store_moves_the_mark_when_accuracy_is_measured(qapp):
    store = Store(load_catalogue())
    before = store.r_max
    store.set_machine("here", [])
    store.add_measurement(measured(1024, [0.99, 0.995, 0.999, 1.0]))
    assert store.r_max.alpha == pytest.approx(1 - 0.25 * 0.98 / 0.99)
    assert store.r_max != before
    store.set("point.board", "raspberry_pi_5")  # not the board it was measured on: the model says what it said
    assert "assumed" in store.r_max.text


def test_the_article_s_bound_stands_beside_that_of_the_mass():
    known = RetainedMass(512, (0.451, 1.0), (0.98, 1.0), sparse_share=0.608, entropy_nat=3.402)
    found = known.bounds(0.02)
    assert found.as_published == pytest.approx(0.277, abs=1e-3)
    assert known.r_max(0.02) == pytest.approx(0.549)
    assert found.entropy == 0.0  # H / eps = 170 nat > ln 512
    assert found.effective_support == pytest.approx(1 - np.exp(3.402) / 512)
    assert known.bounds(0.9).entropy == pytest.approx(1 - np.exp(3.402 / 0.9) / 512)
    words = bounds_text(known)
    assert "as published: 0.28" in words
    assert "by attention mass it is 0.54" in words
    assert "No base of the logarithm" in words
    assert RetainedMass(512, (1.0,), (1.0,)).bounds(0.02) is None
    assert bounds_text(None).startswith("Measure the accuracy")


def test_sparsity_and_entropy_are_read_where_they_were_measured():
    record = {"n_tokens": 512, "keep_shares": [1.0], "retained_mass": [1.0], "sparse_share": 0.6, "entropy_nat": 3.4}
    found = nearest([Measurement(OperatingPoint(), {"attention": record}, "", "here")], OperatingPoint())
    assert (found.sparse_share, found.entropy_nat) == (0.6, 3.4)


def test_the_knee_of_a_measured_sweep_stands_beside_the_published_recomputation():
    alpha = np.round(np.arange(0.0, 0.95, 0.1), 1)
    found = knee_text(alpha, 1.0 + 2.0 * np.maximum(alpha - 0.6, 0.0) + 1e-3 * (-1.0) ** np.arange(10))
    assert found.startswith("Knee of the measured perplexity at α 0.60 [")
    assert "layers 12, 18 and 24, 1.8 ms and 0.15 of perplexity a layer, as published" in found
    assert knee_text(alpha[:3], np.ones(3)).startswith("No knee of the perplexity over α: 3 points cannot show a knee")
