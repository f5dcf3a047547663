from dataclasses import replace

import pytest

from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.predict.shape_uncertainty import shape_log_sd
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint(
    board="jetson_orin_nano_8gb_super", runtime="llamacpp_gpu", model="qwen2.5-1.5b", weights="q4_k_m"
)
AT = CATALOGUE.resolve(POINT)


def widened(**log_sd):
    return shape_log_sd(replace(AT, model=replace(AT.model, **log_sd)))


def test_known_shapes_add_nothing():
    assert shape_log_sd(AT) == (0.0, 0.0)


def test_parts_take_their_share():
    for name in ("depth_log_sd", "cache_log_sd", "read_log_sd"):
        assert 0.0 < widened(**{name: 0.2})[0] < 0.2
        assert widened(**{name: 0.4})[0] == pytest.approx(2.0 * widened(**{name: 0.2})[0])
    assert widened(body_log_sd=0.2)[0] == 0.0
    assert 0.0 < widened(body_log_sd=0.2)[1] < 0.2
    assert widened(cache_log_sd=0.2)[1] == 0.0
    both = widened(depth_log_sd=0.2, read_log_sd=0.2)[0]
    assert both**2 == pytest.approx(widened(depth_log_sd=0.2)[0] ** 2 + widened(read_log_sd=0.2)[0] ** 2)


def test_small_models_depend_more_on_their_depth():
    large = CATALOGUE.resolve(replace(POINT, model="llama-3.1-8b"))
    of_large = shape_log_sd(replace(large, model=replace(large.model, depth_log_sd=0.2)))[0]
    assert of_large < 0.7 * widened(depth_log_sd=0.2)[0]


def test_predictions_widen():
    guess = replace(AT.model, key="guess", depth_log_sd=0.25, read_log_sd=0.1, body_log_sd=0.1)
    catalogue = replace(CATALOGUE, models={**CATALOGUE.models, "guess": guess})
    known, guessed = (predict(replace(POINT, model=key), catalogue) for key in ("qwen2.5-1.5b", "guess"))
    for output in ("decode_s", "ttft_s"):
        one, other = getattr(known, output), getattr(guessed, output)
        assert other.q95 / other.q05 > 1.02 * one.q95 / one.q05
