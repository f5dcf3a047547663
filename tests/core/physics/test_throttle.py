import pytest

from core.physics import throttle as tr

POWERS, CLOCKS = [2.0, 4.0, 7.0, 11.0], [0.4e9, 0.8e9, 1.2e9, 1.6e9]
IPA = tr.PowerAllocator.estimated(6.0, 70.0, 85.0)


def test_constants_are_the_kernels_estimates():
    assert (IPA.over_w_k, IPA.under_w_k, IPA.integral_w_k) == pytest.approx((0.4, 0.8, 0.08))


def test_allocator_does_nothing_below_switch_on():
    allowed = IPA.controller(POWERS, CLOCKS)
    assert [allowed(t) for t in (20.0, 60.0, 69.9)] == [3, 3, 3]


def test_budget_falls_to_what_is_sustainable_at_the_target():
    allowed = IPA.controller(POWERS, CLOCKS)
    assert allowed(72.0) == 3  # 6 + 0.8 * 13 = 16.4 W
    assert allowed(80.0) == 2  # 6 + 0.8 * 5 = 10 W
    assert allowed(85.0) == 1  # 6 W
    assert allowed(92.0) == 1 - 1 + (6 - 0.4 * 7 - 0.08 * 7 >= 4)  # 2.64 W
    assert allowed(150.0) == 0  # never off


def test_integral_builds_up_while_hot_stays_bounded_and_is_forgotten():
    allowed = IPA.controller(POWERS, CLOCKS)
    first = [allowed(86.0) for _ in range(40)]
    assert first[0] == 1
    assert first[-1] == 0  # 40 * 0.08 W less
    for _ in range(10_000):
        allowed(95.0)
    assert allowed(60.0) == 3
    assert allowed(85.0) == 1  # as if fresh


def test_integral_grows_only_below_the_cutoff():
    eager = tr.PowerAllocator(6.0, 70.0, 85.0, 0.4, 0.8, 0.08, integral_cutoff_k=20.0)
    allowed = eager.controller(POWERS, CLOCKS)
    for _ in range(50):
        allowed(84.0)  # still too cold: the integral rises
    assert allowed(85.0) == 2
    lazy = IPA.controller(POWERS, CLOCKS)
    for _ in range(50):
        lazy(84.0)
    assert lazy(85.0) == 1


def test_derivative_brakes_a_rise():
    braking = tr.PowerAllocator(6.0, 70.0, 85.0, 0.4, 0.8, 0.0, derivative_w_k=1.0)
    allowed = braking.controller(POWERS, CLOCKS)
    allowed(80.0)
    assert allowed(84.0) == 0  # 6 + 0.8 - 4 W


def test_caps_trip_hold_and_release():
    caps = tr.TripCaps((tr.Trip(85.0, 0.8e9, 5.0),))
    allowed = caps.controller(POWERS, CLOCKS)
    assert [allowed(t) for t in (84.9, 85.0, 81.0, 80.0, 84.0)] == [3, 1, 1, 3, 3]


def test_the_lowest_of_tripped_caps_holds():
    caps = tr.TripCaps((tr.Trip(80.0, 1.3e9), tr.Trip(85.0, 0.1e9)))
    allowed = caps.controller(POWERS, CLOCKS)
    assert [allowed(t) for t in (79.0, 82.0, 86.0)] == [3, 2, 0]


def test_unthrottled_never_asks():
    assert tr.Unthrottled().controller(POWERS, CLOCKS)(500.0) == 3


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tr.PowerAllocator.estimated(6, 85, 85), "target_temp_c = 85"),
        (lambda: tr.PowerAllocator.estimated(0, 70, 85), "sustainable_w = 0"),
        (lambda: tr.PowerAllocator(6, 70, 85, -1, 1, 1), "over_w_k = -1"),
        (lambda: tr.Trip(80, 0), "max_clock_hz = 0"),
        (lambda: tr.Trip(80, 1e9, -1), "hysteresis_k = -1"),
    ],
)
def test_out_of_range_is_refused_by_name(call, says):
    with pytest.raises(ValueError, match=says):
        call()
