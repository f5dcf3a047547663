"""What measured choices of cached tokens teach: the terms of a simulated machine come back, with honest intervals."""

from dataclasses import replace

import numpy as np
import pytest

from core.calibrate.fit import calibrate
from core.calibrate.observations import MeasuredPoint
from core.calibrate.reselection import MeasuredReselection, check, fitted_cost, measured_reselections
from core.catalogue.load import load_catalogue
from core.physics.traffic import reselection_byte
from core.predict.scenario import predict
from core.spec import POLICIES, OperatingPoint, ReselectionCost

CATALOGUE = load_catalogue()
RESOLVED = CATALOGUE.resolve(OperatingPoint())
KNOWN = RESOLVED.runtime.reselection
BANDWIDTH_BYTE_S = RESOLVED.mode.bandwidth_byte_s
TRUE = ReselectionCost(
    {policy: 1.7 * layer_s for policy, layer_s in KNOWN.layer_s.items()},
    {kv: 0.4 * cost * (1.6 if kv == "int4" else 1.0) for kv, cost in KNOWN.copy.items()},
    {kv: 0.7 * cost for kv, cost in KNOWN.read.items()},
    {policy: 0.6 * score for policy, score in KNOWN.score.items()},
    0.0,
)
POINTS = [
    OperatingPoint(kv=kv, context_tokens=n, alpha=alpha, policy=POLICIES[(i + j + k) % len(POLICIES)])
    for i, kv in enumerate(("bf16", "int8", "int4"))
    for j, n in enumerate((256.0, 1024.0, 2048.0, 4096.0))
    for k, alpha in enumerate((0.3, 0.6, 0.9))
]


def timed(point, noise=0.0, g=None):
    moved = tuple(map(float, reselection_byte(RESOLVED.model, point.context_tokens, point.alpha, point.layout)))
    made = MeasuredReselection(point.policy, point.kv, moved, RESOLVED.model.n_caching_layers, BANDWIDTH_BYTE_S, 1.0)
    log_noise = noise * g.normal() if noise else 0.0
    return replace(made, duration_s=sum(made.parts_s(TRUE)) * float(np.exp(log_noise)))


def test_the_terms_of_a_machine_are_found():
    found = fitted_cost(KNOWN, [timed(point) for point in POINTS])
    assert found.layer_s["key_norm"] == pytest.approx(TRUE.layer_s["key_norm"], rel=0.1)
    for kv in ("bf16", "int8", "int4"):
        assert found.copy[kv] == pytest.approx(TRUE.copy[kv], rel=0.1)
    for point in POINTS:
        exact = timed(point)
        assert sum(exact.parts_s(found)) == pytest.approx(exact.duration_s, rel=0.05)


def test_measured_policies_tell_of_those_that_were_not_measured():
    reading = [p for p in POINTS if p.policy in ("attention_mass", "key_norm")]
    found = fitted_cost(KNOWN, [timed(point) for point in reading])
    assert found.score["snapkv"] == pytest.approx(TRUE.score["snapkv"], rel=0.35)
    assert found.score["snapkv"] < 0.8 * KNOWN.score["snapkv"]


def test_nothing_measured_leaves_what_is_known():
    assert fitted_cost(KNOWN, []) is KNOWN
    assert check(KNOWN, [timed(POINTS[0])]) is None


def test_each_choice_is_predicted_from_the_others_within_its_interval():
    g = np.random.default_rng(4)
    found = check(KNOWN, [timed(point, 0.05, g) for point in POINTS])
    assert found.n == len(POINTS)
    assert found.median_error_frac < 0.06
    assert 0.8 <= found.coverage_frac <= 1.0
    assert found.r2 > 0.98


def test_a_calibration_predicts_points_that_choose_anew_as_they_were_measured():
    points = [MeasuredPoint(p, 0.008, 0.01, reselection_s=timed(p).duration_s) for p in POINTS]
    assert len(measured_reselections(points, CATALOGUE, BANDWIDTH_BYTE_S)) == len(POINTS)
    calibration = calibrate(points, CATALOGUE)
    assert calibration.reselection_check.median_error_frac < 0.05
    often = OperatingPoint(alpha=0.6, context_tokens=2048.0, policy="attention_mass", reselect_tokens=16.0)
    once = replace(often, reselect_tokens=0.0)
    added_s = [
        predict(often, CATALOGUE, of).decode_s.median - predict(once, CATALOGUE, of).decode_s.median
        for of in (None, calibration.posterior)
    ]
    wanted_s = timed(often).duration_s / 16
    assert added_s[1] == pytest.approx(wanted_s, rel=0.1)
    assert abs(added_s[0] / wanted_s - 1.0) > 0.3  # what the prior says


def test_a_board_whose_choices_were_not_measured_keeps_the_prior():
    calibration = calibrate([MeasuredPoint(OperatingPoint(), 0.008)], CATALOGUE)
    assert calibration.reselection_check is None
    assert calibration.posterior.reselection is None
