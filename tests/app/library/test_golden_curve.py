"""The golden formula along an axis: its shape as printed, its constant fitted, its check said."""

from dataclasses import replace

import numpy as np
import pytest

from app.library.axes import axis_of
from app.library.prediction_curves import golden_curve
from core.articles.as_printed.article_a import GOLDEN_CHECK, golden_latency_ms
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint(board="rk3588", bandwidth_byte_s=20e9, beta=1.83, alpha=0.3)
NOTHING = np.empty(0), np.empty(0)


def along(path, x, measured=NOTHING, predicted_s=0.06, point=POINT):
    return golden_curve(axis_of(path, point, CATALOGUE), x, point, CATALOGUE, measured, predicted_s)


def test_it_meets_the_prediction_where_nothing_is_measured():
    x = np.array([0.0, 0.3, 0.65])
    found = along("point.alpha", x)
    assert np.allclose(found.decode_s, 0.06 * (1 - x) / 0.7)
    assert "set by the prediction of this point" in found.sentence


def test_its_constant_is_the_median_ratio_of_the_measured_points():
    at = np.array([0.0, 0.5, 0.6])
    printed_s = golden_latency_ms(20.0, at, 1.83) / 1e3
    found = along("point.alpha", at, (at, printed_s * [70.0, 75.0, 500.0]))
    assert np.allclose(found.decode_s, 75.0 * printed_s)
    assert "fitted to 3 measured points" in found.sentence


@pytest.mark.parametrize(
    ("path", "x", "shape"),
    [("point.bandwidth", [10e9, 40e9], [2.0, 0.5]), ("point.beta", [1.0, 1.83], [1 / 1.83, 1.0])],
)
def test_it_follows_the_sliders_as_printed(path, x, shape):
    assert np.allclose(along(path, np.array(x)).decode_s, 0.06 * np.array(shape))


def test_context_and_formats_do_not_enter():
    assert np.ptp(along("point.context", np.array([128.0, 4096.0])).decode_s) == 0.0
    assert np.ptp(along("point.weights", np.arange(3.0)).decode_s) == 0.0


def test_it_says_the_check_it_fails_and_its_printed_value():
    found = along("point.alpha", np.array([0.3]))
    assert found.sentence.startswith(GOLDEN_CHECK)
    assert f"{golden_latency_ms(20.0, 0.3, 1.83):.3g} ms here" in found.sentence


def test_without_a_measurement_or_a_prediction_there_is_no_curve():
    assert along("point.alpha", np.array([0.0]), predicted_s=None) is None
    assert along("point.alpha", np.array([0.0]), point=replace(POINT, alpha=1.0)) is None
