"""The pruning view: curves, r_max, names, the mark."""

from itertools import combinations

import numpy as np
import pytest

from app.library.measurements import Measurement
from app.model.commands import undo_stack
from app.model.store import Store
from app.views.panels.pruning import Pruning
from app.views.widgets.label_place import overlap
from app.views.widgets.theme import Theme
from core.physics.pruning import r_max_zipf
from core.physics.quality import retrieval_score
from tests.app.views.parts import CATALOGUE, shown


@pytest.fixture
def store(qapp):
    return Store(CATALOGUE)


def test_pruning_curves_are_the_predictions_and_end_at_r_max(qtbot, store):
    view = shown(qtbot, Pruning(store, undo_stack(), Theme("dark")))
    chart = view.time.chart
    masked = next(line for line in chart.series if line.name == "masked")
    compacted = next(line for line in chart.series if "compacted" in line.name)
    assert np.ptp(masked.y) == pytest.approx(0)
    assert compacted.y[-1] < compacted.y[0]
    mark = next(rule for rule in chart.rules if rule.name == "r_max")
    assert mark.at == chart.wash_from == pytest.approx(r_max_zipf(1024))
    mass = view.mass.chart.series[0]
    assert mass.y[0] == pytest.approx(1)
    assert np.interp(mark.at, mass.x, mass.y) == pytest.approx(0.98, abs=0.002)
    names = ", ".join(line.name for line in view.agreement.chart.series)
    assert "attention mass" in names
    assert "key norm" in names
    found = view.retrieval.chart
    own = next(line for line in found.series if line.low is not None)
    assert own.name == "attention mass"
    band = retrieval_score(own.x, "attention_mass")
    np.testing.assert_allclose(np.stack([own.low, own.y, own.high]), np.stack([band.q05, band.median, band.q95]))
    assert "expected attention 97 %" in found.description
    store.set("point.policy", "page_bounds")
    qtbot.waitUntil(lambda: "No published table has" in view.retrieval.chart.description)


def test_the_mass_that_was_measured_stands_beside_the_assumed_one(qtbot, store):
    view = shown(qtbot, Pruning(store, undo_stack(), Theme("dark")))
    assert not view.mass.chart.points
    store.set_machine("here", [])
    record = {"n_tokens": 512, "keep_shares": [0.25, 0.5, 1.0], "retained_mass": [0.9, 0.97, 1.0]}
    store.add_measurement(Measurement(store.point, {"attention": record}, "2026-01-01T00:00:00+00:00", "here"))
    view.refresh()
    (dots,) = view.mass.chart.points
    np.testing.assert_allclose((dots.x, dots.y), ([0.75, 0.5, 0.0], [0.9, 0.97, 1.0]))
    assert view.mass.chart.description.endswith("dots: measured on this model at 512 tokens.")
    assert store.r_max.alpha == pytest.approx(1 / 3)  # where the dots say: from 0.5 at 97 % to 0 at 100 %
    assert "no entropy of attention" in view.bounds.text()
    record |= {"sparse_share": 0.608, "entropy_nat": 3.402}
    store.add_measurement(Measurement(store.point, {"attention": record}, "2026-01-02T00:00:00+00:00", "here"))
    view.refresh()
    assert "as published: 0.28" in view.bounds.text()
    assert [rule.name for rule in view.mass.chart.rules][-1] == "as published"
    store.set("point.board", "raspberry_pi_5")
    view.refresh()
    assert not view.mass.chart.points


@pytest.mark.parametrize("size", [(900, 700), (560, 1200)])
def test_no_name_of_a_curve_is_cut_or_written_over_another(qtbot, qapp, store, size):
    view = shown(qtbot, Pruning(store, undo_stack(), Theme("dark")), size)
    cards = (view.mass, view.time, view.agreement, view.retrieval)
    qtbot.waitUntil(lambda: all(card.plot is not None and card.plot._names.shown for card in cards))
    view.resize(size[0] + 40, size[1])  # they are placed anew
    qapp.processEvents()
    view.grab()  # painted, whenever Qt would do it: where items lie in the scene is known only then
    for card in cards:
        plot = card.plot
        assert [name.toPlainText() for name in plot._names.shown] == [line.name for line in card.chart.series]
        room = plot.box.sceneBoundingRect().adjusted(-1, -1, 1, 1)
        boxes = [name.sceneBoundingRect() for name in plot._names.shown]
        assert all(room.contains(box) for box in boxes)
        boxes += [line.label.sceneBoundingRect() for line in plot._rules["x"].shown if line.label.format]
        edges = [box.adjusted(1, 1, -1, -1).getCoords() for box in boxes]
        assert not any(overlap(a, b) for a, b in combinations(edges, 2))


def test_the_mark_follows_the_accuracy_limit(qtbot, store):
    view = shown(qtbot, Pruning(store, undo_stack(), Theme("dark")))
    before = view.time.chart.wash_from
    store.set("limits.accuracy", 0.97)
    qtbot.waitUntil(lambda: view.time.chart.wash_from != before)
    assert "97.0 %" in view.sentence.text()
