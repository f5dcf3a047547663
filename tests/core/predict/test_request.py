from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.predict.explain import explain, margin_frac, margins
from core.predict.request import Z99, p99_s, request_p99_s
from core.predict.scenario import initial_posterior, predict
from core.predict.sweep import largest_context
from core.spec import Absent, Estimate, OperatingPoint, Provenance
from core.units import Z90

CATALOGUE = load_catalogue()
POINT = OperatingPoint(
    board="jetson_orin_nano_8gb_super", runtime="llamacpp_gpu", model="llama-3.2-3b", weights="q4_k_m"
)


def log_normal(median, log_sd, provenance=Provenance.MEASURED):
    factor = np.exp(Z90 * log_sd)
    return Estimate(median, median / factor, median * factor, provenance)


def test_the_quantile_is_that_of_a_log_normal():
    drawn = 0.1 * np.exp(0.2 * np.random.default_rng(1).standard_normal(400_000))
    assert p99_s(log_normal(0.1, 0.2)) == pytest.approx(np.quantile(drawn, 0.99), rel=0.01)
    assert p99_s(log_normal(0.1, 0.2)) == pytest.approx(0.1 * np.exp(0.2 * Z99))


def test_a_request_is_its_prompt_and_the_other_tokens():
    ttft, each = log_normal(0.5, 0.0), log_normal(0.02, 0.0, Provenance.PREDICTED)
    assert request_p99_s(ttft, each, 1).median == 0.5
    made = request_p99_s(ttft, each, 101)
    assert (made.median, made.provenance) == (pytest.approx(2.5), Provenance.PREDICTED)
    assert made.q05 == made.median == made.q95
    assert request_p99_s(ttft, log_normal(0.02, 0.1), 101).median > made.median
    assert request_p99_s(Absent("no prompt"), each, 1) == Absent("no prompt")
    assert request_p99_s(ttft, Absent("no kernel"), 1) == Absent("no kernel")
    for tokens in (0, -1, np.nan):
        with pytest.raises(ValueError, match="answer_tokens"):
            request_p99_s(ttft, each, tokens)


def test_the_tail_breaks_a_limit_that_the_median_keeps():
    here = predict(POINT, CATALOGUE)
    known = initial_posterior(CATALOGUE.resolve(POINT), CATALOGUE)
    median = float(here.ttft_s.median) + 127 * float(here.decode_s.median)
    tail = float(request_p99_s(here.ttft_s, here.decode_s).median)
    between = (median + tail) / 2
    (missed,) = explain(POINT, CATALOGUE, known, request_s=between).missed
    assert (missed.output, missed.value) == ("request_p99_s", pytest.approx(tail))
    assert margins(here, request_s=between)["request P99"].median == pytest.approx(1 - tail / between)
    assert explain(POINT, CATALOGUE, known, request_s=between, answer_tokens=1).missed == ()


def test_a_sustained_speed_has_a_lower_limit():
    here, known = predict(POINT, CATALOGUE), initial_posterior(CATALOGUE.resolve(POINT), CATALOGUE)
    slow = Estimate(8.0, 6.0, 10.0, Provenance.PREDICTED)
    (missed,) = explain(POINT, CATALOGUE, known, sustained_tokens_s=10.0, sustained=slow).missed
    assert (missed.output, missed.limit, missed.value) == ("sustained_tokens_s", 10.0, 8.0)
    assert explain(POINT, CATALOGUE, known, sustained_tokens_s=8.0, sustained=slow).missed == ()
    margin = margins(here, sustained_tokens_s=8.0, sustained=slow)["sustained speed"]
    assert (margin.median, margin.low, margin.high) == (0.0, pytest.approx(-1 / 3), pytest.approx(0.2))
    assert isinstance(margins(here, sustained_tokens_s=8.0)["sustained speed"], Absent)
    with pytest.raises(ValueError, match="sustained_tokens_s"):
        margins(here, sustained_tokens_s=0.0, sustained=slow)


def test_margins_are_1_at_the_ideal_and_0_at_the_limit():
    for output in ("decode_s", "power_w", "request_p99_s", "top1_agreement", "sustained_tokens_s"):
        assert margin_frac(output, 0.5, 0.5) == 0.0
    assert margin_frac("decode_s", 0.5, 1e-9) == pytest.approx(1.0)
    assert margin_frac("top1_agreement", 0.5, 1.0) == 1.0
    assert margin_frac("sustained_tokens_s", 0.5, 1e9) == pytest.approx(1.0)


def test_the_largest_context_keeps_the_p99_of_a_request():
    def request_s(n):
        found = predict(replace(POINT, context_tokens=float(n)), CATALOGUE)
        return float(request_p99_s(found.ttft_s, found.decode_s, 64).median)

    limit = request_s(1500)
    n = largest_context(POINT, CATALOGUE, request_s=limit * (1 + 1e-9), answer_tokens=64)
    assert n == 1500
    assert request_s(n + 1) > limit
    assert largest_context(POINT, CATALOGUE, request_s=limit, answer_tokens=65) < n
    assert isinstance(largest_context(POINT, CATALOGUE, request_s=1e-6), Absent)
