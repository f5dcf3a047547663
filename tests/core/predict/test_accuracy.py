from dataclasses import replace

import numpy as np
import pytest

from core.calibrate.fit import calibrate
from core.calibrate.observations import MeasuredPoint, measured_point
from core.catalogue.load import load_catalogue
from core.predict import accuracy
from core.predict.parameters import extended, prior
from core.predict.scenario import predict
from core.spec import Absent, Estimate, OperatingPoint, Provenance

CATALOGUE = load_catalogue()
BASE = OperatingPoint(weights="int8", context_tokens=1024.0)


def posterior(point, **theta):
    at = CATALOGUE.resolve(point)
    known = extended(prior(at), accuracy.ratios(point, at))
    for name, value in theta.items():
        known.log_mean[known.names.index(name)] = value
    return known


def test_reference_itself_is_exact():
    point = replace(BASE, weights="fp32", kv="fp32")
    for output, value in zip(
        accuracy.estimates(point, accuracy.causes(point, CATALOGUE.resolve(point)), posterior(point)),
        (1, 1),
        strict=True,
    ):
        assert (output.median, output.q05, output.q95) == (value, value, value)


def test_formats_that_hold_the_file_only_round():
    for weights in ("bf16", "int8", "int4"):
        point = replace(BASE, weights=weights)
        weights_degradation, _ = accuracy.format_degradations(CATALOGUE.resolve(point))
        assert weights_degradation == accuracy.WEIGHTS_ROUNDING
    fewer = replace(BASE, weights="q4_0")
    assert accuracy.format_degradations(CATALOGUE.resolve(fewer))[0].median > accuracy.WEIGHTS_ROUNDING.median
    trained_so = replace(BASE, model="gpt-oss-20b", weights="mxfp4")
    assert accuracy.format_degradations(CATALOGUE.resolve(trained_so))[0] == accuracy.WEIGHTS_ROUNDING
    published = replace(BASE, model="llama-3-8b", weights="fp16", kv="fp16")
    assert [d.median for d in accuracy.format_degradations(CATALOGUE.resolve(published))] == [0.0, 0.0]


def test_gradient_equals_differences():
    medians, log_mass, theta = (1e-3, 5e-4, 2e-2), -1.3, np.array([0.3, -0.2, 0.5, 0.4, 0.0])
    _, gradient = accuracy.log_degradation(medians, log_mass, theta)
    for i in range(4):
        step = np.zeros(5)
        step[i] = 1e-6
        up, down = (accuracy.log_degradation(medians, log_mass, theta + s)[0] for s in (step, -step))
        assert gradient[i] == pytest.approx((up - down) / 2e-6, rel=1e-6)


def test_degradations_add():
    theta = np.zeros(5)
    both, _ = accuracy.log_degradation((1e-3, 0.0, 2e-2), 0.0, theta)
    assert np.exp(both) == pytest.approx(2.1e-2)
    none, gradient = accuracy.log_degradation((0.0, 0.0, 0.0), 0.0, theta)
    assert none == -np.inf
    assert gradient == (0.0, 0.0, 0.0, 0.0)


def simulated(point, seed, scatter, **truth):
    """A measured accuracy as the model gives it, with scatter."""
    rng = np.random.default_rng(seed)
    causes = accuracy.causes(point, CATALOGUE.resolve(point))
    theta = np.array([truth.get(name, 0.0) for name in accuracy.names(point)])
    log_d, _ = accuracy.log_degradation(causes.medians, causes.log_mass, theta)
    top1 = np.exp(-np.exp(accuracy.log_disagreement(log_d) + theta[4]))
    n = 4096
    agreeing = rng.binomial(n, top1) / n
    return MeasuredPoint(
        point, None, mean_kl=float(1.01 * np.exp(log_d + rng.normal(0, scatter))), kl_log_sd=0.02,
        top1_agreement=float(agreeing), n_scored=n,
    )  # fmt: skip


TRUTH = {"degradation.attention_mass": 1.2, "steepness.attention_mass": 0.4, "degradation.int8": 0.8, "top1": 0.2}
GRID = [replace(BASE, alpha=a, context_tokens=n) for a in (0.0, 0.3, 0.6, 0.9) for n in (512.0, 2048.0)]


def test_calibrated_accuracy_goes_through_the_measured_points():
    points = [simulated(p, i, 0.05, **TRUTH) for i, p in enumerate(GRID)]
    calibration = calibrate(points, CATALOGUE)
    assert calibration.posterior.n_quality == 2 * len(points)
    for measured in points:
        said = predict(measured.point, CATALOGUE, calibration.posterior)
        assert said.top1_agreement.provenance is Provenance.CALIBRATED
        assert said.decode_s.provenance is Provenance.PREDICTED
        assert 1 - said.top1_agreement.median == pytest.approx(1 - measured.top1_agreement, rel=0.2)
        before = predict(measured.point, CATALOGUE).top1_agreement
        width, width_before = (e.q95 - e.q05 for e in (said.top1_agreement, before))
        assert width < width_before
    found = dict(zip(calibration.posterior.names, calibration.posterior.log_mean, strict=True))
    for name, value in TRUTH.items():
        assert found[name] == pytest.approx(value, abs=0.35)
    assert any(p.key == "degradation.attention_mass" and p.identified for p in calibration.parameters)


def test_accuracy_intervals_cover_what_they_should():
    inside = []
    for seed in range(120):
        rng = np.random.default_rng(1000 + seed)
        truth = {
            "degradation.attention_mass": rng.normal(0, 1.0), "steepness.attention_mass": rng.normal(0, 0.5),
            "degradation.int8": rng.normal(0, 1.2), "top1": rng.normal(0, 0.1),
        }  # fmt: skip
        points = [simulated(p, 50 * seed + i, 0.1, **truth) for i, p in enumerate(GRID[::3])]
        known = calibrate(points, CATALOGUE, check=False).posterior
        for i, point in enumerate((replace(BASE, alpha=0.45), replace(BASE, alpha=0.8))):
            said = predict(point, CATALOGUE, known).top1_agreement
            inside.append(said.q05 <= simulated(point, 50 * seed + 40 + i, 0.1, **truth).top1_agreement <= said.q95)
    assert 0.85 <= np.mean(inside) <= 0.99


def test_divergence_is_that_of_the_degradation_and_narrows_where_it_was_measured():
    point = replace(BASE, alpha=np.linspace(0.0, 0.9, 4))
    at = CATALOGUE.resolve(point)
    found, ratio = accuracy.mean_kl(point, at, prior(at)), predict(point, CATALOGUE).perplexity_ratio
    np.testing.assert_allclose(found.median, 1.01 * np.log(ratio.median), rtol=1e-12)
    assert found.median[2] == accuracy.mean_kl(replace(point, alpha=float(point.alpha[2])), at, prior(at)).median
    assert np.all((found.q05 < found.median) & (found.median < found.q95))
    known = calibrate([simulated(p, i, 0.05, **TRUTH) for i, p in enumerate(GRID)], CATALOGUE, check=False).posterior
    for measured in (simulated(p, i, 0.05, **TRUTH) for i, p in enumerate(GRID)):
        said = accuracy.mean_kl(measured.point, CATALOGUE.resolve(measured.point), known)
        assert said.provenance is Provenance.CALIBRATED
        assert said.q05 < measured.mean_kl < said.q95
        before = accuracy.mean_kl(measured.point, CATALOGUE.resolve(measured.point), prior(at))
        assert said.q95 / said.q05 < before.q95 / before.q05
    exact = replace(BASE, weights="fp32", kv="fp32")
    assert accuracy.mean_kl(exact, CATALOGUE.resolve(exact), prior(at)).q95 == 0.0


def test_retrieval_is_apart_and_absent_where_nothing_is_published():
    found = accuracy.retrieval(replace(BASE, alpha=np.array([0.0, 0.5]), policy="sinks_recent"))
    assert found.median[0] == found.q05[0] == 1.0
    assert found.median[1] == pytest.approx(0.619, abs=0.05)
    assert "page_bounds" in accuracy.retrieval(replace(BASE, policy="page_bounds")).reason
    assert isinstance(accuracy.retrieval(replace(BASE, alpha=0.75, policy="snapkv")), Estimate)
    assert "retrieval scores end at 75 %" in accuracy.retrieval(replace(BASE, alpha=0.76, policy="snapkv")).reason


def test_times_and_accuracy_do_not_touch_each_other():
    judged = [simulated(p, i, 0.05, **TRUTH) for i, p in enumerate(GRID)]
    timed = [replace(m, decode_s=0.01 + 1e-6 * i, log_sd=0.002) for i, m in enumerate(judged)]
    alone = [replace(m, mean_kl=None, top1_agreement=None) for m in timed]
    both, times = (calibrate(p, CATALOGUE, check=False).posterior for p in (timed, alone))
    for point in GRID:
        one, other = (predict(point, CATALOGUE, p) for p in (both, times))
        assert one.decode_s.median == pytest.approx(other.decode_s.median, rel=1e-9)
        assert other.top1_agreement.provenance is Provenance.PREDICTED


def test_a_run_equal_to_the_reference_teaches_nothing():
    same = MeasuredPoint(replace(BASE, weights="fp32", kv="fp32"), None, mean_kl=0.0, top1_agreement=1.0, n_scored=256)
    assert calibrate([same], CATALOGUE).posterior.n_quality == 0


def test_reads_the_record_of_a_run():
    body = {
        "mean_kl": {"median": 0.02, "q05": 0.015, "q95": 0.025, "n": 256, "provenance": "measured"},
        "top1_agreement": {"median": 0.95, "q05": 0.92, "q95": 0.97, "n": 256, "provenance": "measured"},
    }
    point = measured_point(BASE, body)
    assert (point.decode_s, point.mean_kl, point.top1_agreement, point.n_scored) == (None, 0.02, 0.95, 256)
    assert point.kl_log_sd == pytest.approx(0.25 / 1.645, rel=1e-3)


def test_a_calibration_that_was_stopped_before_a_policy_was_judged_leaves_that_policy_out():
    judged = [simulated(p, i, 0.05, **TRUTH) for i, p in enumerate(GRID)]
    timed = MeasuredPoint(replace(BASE, alpha=0.5, policy="snapkv"), 0.01, 0.002)
    calibration = calibrate([*judged, timed], CATALOGUE, check=False)
    keys = [parameter.key for parameter in calibration.parameters]
    assert "degradation.attention_mass" in keys
    assert "degradation.snapkv" not in keys


def test_the_accuracy_of_compensated_weights_is_measured_only_and_their_speed_that_of_the_format():
    plain = OperatingPoint(weights="int4")
    for kind in ("offsets", "feedback", "both"):
        found, same = predict(replace(plain, compensation=kind), CATALOGUE), predict(plain, CATALOGUE)
        assert isinstance(found.top1_agreement, Absent)
        assert isinstance(found.perplexity_ratio, Absent)
        assert "measure it" in found.top1_agreement.reason
        assert (found.decode_s, found.memory_byte) == (same.decode_s, same.memory_byte)
