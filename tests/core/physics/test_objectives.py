import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.physics import objectives as ob
from tests.places import GOLDEN

Q = json.loads((GOLDEN / "quantities.json").read_text())
M = json.loads((GOLDEN / "models.json").read_text())
INDUSTRIAL = ob.Scenario("industrial", "Industrial", 0.923, 0.120, 85e-3, 0.8)


def test_margins_and_score_golden():
    found = ob.judge(INDUSTRIAL, 0.95, 0.100, 60e-3)
    margins = [found.accuracy_margin, found.latency_margin, found.energy_margin]
    np.testing.assert_allclose(margins, Q["B13.phy.margins(industrial,acc=.95,t=100,e=60)"], rtol=1e-10)
    assert found.score == pytest.approx(Q["B13.phy.score(industrial,alpha_s=.8 on energy)"], rel=1e-12)
    stricter = ob.Scenario("x", "x", 0.923, 0.120, 85e-3, 1.2)
    assert ob.judge(stricter, 0.95, 0.1, 0.06).score == pytest.approx(
        Q["B13.phy.score(alpha_s=1.2 on energy)"], rel=1e-12
    )
    assert (
        bool(ob.judge(INDUSTRIAL, 0.93, 0.110, 0.080).feasible) is Q["B13.phy.feasible(acc=.93,t=110,e=80,industrial)"]
    )
    assert str(found.tightest) == "latency"


def test_implied_power_golden():
    limits = {"industrial": (0.120, 85e-3), "v2x": (0.035, 142e-3), "wearable": (0.210, 18e-3)}
    for key, (t, e) in limits.items():
        power = ob.Scenario(key, key, 0.5, t, e, 1.0).power_at_limits_w
        assert power == pytest.approx(Q[f"B13.implied_avg_W_at_limit.{key}"], rel=1e-12)


def test_infeasible_points_score_nothing_and_say_why():
    found = ob.judge(INDUSTRIAL, np.array([0.95, 0.90, 0.95]), np.array([0.1, 0.1, 0.15]), 0.06)
    assert found.feasible.tolist() == [True, False, False]
    assert found.score[0] > 0
    assert found.score[1:].tolist() == [0, 0]
    assert found.tightest.tolist() == ["latency", "accuracy", "latency"]
    assert "latency by 25 %" in ob.sentence(INDUSTRIAL, ob.judge(INDUSTRIAL, 0.95, 0.15, 0.06))
    assert "tightest limit is latency, with 17 % left" in ob.sentence(INDUSTRIAL, ob.judge(INDUSTRIAL, 0.95, 0.1, 0.06))


def test_a_common_factor_does_not_change_the_ranking():
    rng = np.random.default_rng(0)
    points = rng.uniform(0.93, 0.99, 50), rng.uniform(0.01, 0.11, 50), rng.uniform(0.01, 0.08, 50)
    score = ob.judge(INDUSTRIAL, *points).score
    assert (np.argsort(score) == np.argsort(1.2 * score)).all()
    heavier = ob.judge(ob.Scenario("x", "x", 0.923, 0.120, 85e-3, 3.0), *points).score
    assert (np.argsort(score) != np.argsort(heavier)).any()


def test_front_golden():
    assert ob.nondominated([(1, 3), (2, 2), (3, 1), (3, 3)]).tolist() == Q["B13.phy.nondominated"]
    assert ob.hypervolume([(1, 3), (2, 2), (3, 1)], (4, 4)) == Q["B13.phy.hv2d([(1,3),(2,2),(3,1)],ref=(4,4))"]
    assert ob.hypervolume([(1, 1, 1)], (2, 3, 4)) == M["M14.hv3d_box(p=(1,1,1),ref=(2,3,4))"]


def brute(p):
    return [not any((q <= r).all() and (q < r).any() for q in p) for r in p]


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 2**31))
def test_front_equals_brute_force(n, d, seed):
    points = np.random.default_rng(seed).integers(0, 6, (n, d)).astype(float)  # many ties
    assert ob.nondominated(points).tolist() == brute(points)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(2, 3), st.integers(0, 2**31))
def test_hypervolume_equals_counting_cells(n, d, seed):
    points = np.random.default_rng(seed).integers(0, 6, (n, d))
    cells = np.stack(np.meshgrid(*[np.arange(5)] * d, indexing="ij"), -1).reshape(-1, 1, d)
    count = (points[None] <= cells).all(-1).any(1).sum()
    assert ob.hypervolume(points, [5] * d) == pytest.approx(count)


@pytest.mark.parametrize("d", [2, 3])
def test_hypervolume_is_the_share_of_random_points_that_are_dominated(d):
    rng = np.random.default_rng(d)
    front, tried = rng.random((30, d)) ** 0.5, rng.random((200_000, d))
    below = np.zeros(len(tried), bool)
    for point in front:
        below |= (point <= tried).all(axis=1)
    share = below.mean()
    assert ob.hypervolume(front, np.ones(d)) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / len(tried)))


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_front_of_nothing_is_nothing(d):
    assert ob.nondominated(np.empty((0, d))).size == 0


def test_hypervolume_ignores_what_the_reference_excludes():
    assert ob.hypervolume([(5, 0), (0, 5)], (5, 5)) == 0
    assert ob.hypervolume(np.empty((0, 2)), (1, 1)) == 0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ob.judge(INDUSTRIAL, 1.2, 0.1, 0.1), "accuracy_frac = 1.2"),
        (lambda: ob.judge(INDUSTRIAL, 0.9, -1, 0.1), "latency_s = -1"),
        (lambda: ob.Scenario("x", "x", 1.0, 1, 1, 1), "min_accuracy_frac = 1"),
        (lambda: ob.Scenario("x", "x", 0.5, 0, 1, 1), "max_latency_s = 0"),
        (lambda: ob.nondominated([1, 2]), "shape"),
        (lambda: ob.nondominated([[np.nan, 1]]), "not finite"),
        (lambda: ob.hypervolume([[1, 2, 3, 4]], [5] * 4), "expected"),
        (lambda: ob.hypervolume([[1, 2]], [np.nan, 3]), "reference holds a value that is not finite"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
