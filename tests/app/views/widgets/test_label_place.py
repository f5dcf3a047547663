"""Names of curves stand on no curve and on no other name, and inside the plot."""

from itertools import combinations

import numpy as np
import pytest

from app.views.widgets.label_place import crosses, overlap, places

ROOM = (360.0, 160.0)
X = np.linspace(0.0, 350.0, 77)
FALLING = [(X, 20.0 + 120.0 * (X / 350.0) ** power) for power in (1.0, 2.0, 6.0)]
SIZES = [(90.0, 14.0), (60.0, 14.0), (75.0, 14.0)]


@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_names_of_curves_cross_nothing_and_lie_inside(flip):
    curves = [(x, y if flip > 0 else ROOM[1] - y) for x, y in FALLING]
    boxes = places(curves, SIZES, ROOM)
    assert not any(overlap(a, b) for a, b in combinations(boxes, 2))
    assert not any(crosses(box, curve) for box in boxes for curve in curves)
    for (left, top, right, bottom), (width, height) in zip(boxes, SIZES, strict=True):
        assert (right - left, bottom - top) == pytest.approx((width, height))
        assert left >= 0
        assert top >= 0
        assert right <= ROOM[0]
        assert bottom <= ROOM[1]


def test_a_curve_that_ends_at_the_foot_has_its_name_above_the_foot_and_near_it():
    curve = (X, 150.0 * X / 350.0)
    ((left, top, right, bottom),) = places([curve], [(70.0, 14.0)], ROOM)
    assert bottom <= ROOM[1]
    assert not crosses((left, top, right, bottom), curve)
    assert right > 200.0


def test_a_flat_curve_has_its_name_at_its_end_above_it():
    ((_, _, right, bottom),) = places([(X, np.full_like(X, 80.0))], [(70.0, 14.0)], ROOM)
    assert right == pytest.approx(350.0)
    assert 74.0 <= bottom < 80.0


def test_equal_curves_and_what_is_written_already_are_kept_apart():
    taken = (280.0, 60.0, 360.0, 78.0)  # where the first name would stand
    flat = (X, np.full_like(X, 80.0))
    boxes = places([flat, flat], [(70.0, 14.0), (70.0, 14.0)], ROOM, [taken])
    assert not any(overlap(a, b) for a, b in combinations([*boxes, taken], 2))
    (box,) = places([flat], [(70.0, 14.0)], ROOM, unnamed=[(X, np.full_like(X, 70.0))])
    assert box[1] > 80.0


def test_a_name_larger_than_the_plot_begins_at_its_edge():
    ((left, top, *_),) = places([FALLING[0]], [(500.0, 200.0)], ROOM)
    assert (left, top) == (0.0, 0.0)
