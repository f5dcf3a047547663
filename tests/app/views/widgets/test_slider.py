"""Arithmetic of the sliders."""

import pytest

from app.library.axes import axis_of
from app.views.widgets.slider import at_fraction, fraction, snapped, step_size, stepped
from core.spec import OperatingPoint
from tests.app.views.parts import CATALOGUE


def test_steps_are_one_two_or_five_and_powers_of_two_for_tokens():
    point = OperatingPoint()
    alpha, bandwidth, context = (axis_of(f"point.{n}", point, CATALOGUE) for n in ("alpha", "bandwidth", "context"))
    assert step_size(alpha, 0.5) == pytest.approx(0.005)
    leading = float(f"{step_size(bandwidth, bandwidth.high):e}".partition("e")[0])
    assert leading in (1.0, 2.0, 5.0)
    assert step_size(context, 2048.0) == 64.0
    assert stepped(context, 2048.0, 1) == 2112.0
    assert stepped(context, 2100.0, -1) == 2048.0
    assert stepped(alpha, alpha.high, 5) == alpha.high
    assert snapped(alpha, 0.3012) == pytest.approx(0.3)


def test_fraction_and_value_are_inverse_on_linear_and_logarithmic_axes():
    for name in ("alpha", "bandwidth", "beta", "context"):
        axis = axis_of(f"point.{name}", OperatingPoint(), CATALOGUE)
        for share in (0.0, 0.25, 1.0):
            assert fraction(axis, at_fraction(axis, share)) == pytest.approx(share)
