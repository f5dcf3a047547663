"""The loop in words: alarm, cause from the conditions, next measurement."""

from dataclasses import replace

import numpy as np
import pytest

from app.campaign.campaign import Campaign
from app.campaign.plan import SPEED, Round
from app.campaign.recipe import undisturbed
from app.library.calibration import fit, plan
from app.library.loop import likely_cause, seconds
from app.library.measurements import Measurement
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
HERE = OperatingPoint()
COOL = {"temp_c": 50.0, "clock_hz": 2.4e9, "throttle": "none", "mode": "A"}


def measured(point, slow, minute, **conditions):
    value = predict(point, CATALOGUE).decode_s.median * slow * np.exp(0.004 * np.sin(7.0 * minute))
    record = {"median": value, "q05": value * 0.99, "q95": value * 1.01, "n": 40, "provenance": "measured"}
    time_utc = f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00+00:00"
    return Measurement(point, {"decode_s": record, "conditions": {**COOL, **conditions}}, time_utc, "m")


def series(*after, **conditions):
    found = [measured(point, 1.0, i) for i, point in enumerate(plan(HERE, CATALOGUE) * 2)]
    return found + [measured(HERE, slow, 30 + i, **(conditions if slow > 1.1 else {})) for i, slow in enumerate(after)]


def fitted(measurements):
    return fit(measurements, CATALOGUE, HERE, now_s=seconds(measurements[-1].time_utc))


def test_a_board_that_throttles_raises_an_alarm_with_its_cause():
    found = fitted(series(1.0, 1.0, 1.2, 1.2, 1.2, temp_c=85.0, clock_hz=1.8e9, throttle="throttled"))
    alarm = found.loop.alarm
    assert "% slower than calibrated since 00:32 UTC" in alarm
    assert alarm.endswith(
        "likely cause: throttling (throttled), heat (85 °C, 50 °C before), the clock (1.80 GHz, 2.40 GHz before)."
    )
    assert found.proposal is not None
    now = predict(HERE, CATALOGUE, found.calibration.posterior).decode_s.median
    assert now == pytest.approx(1.2 * predict(HERE, CATALOGUE).decode_s.median, rel=0.03)


def test_one_deviating_measurement_is_to_be_repeated():
    found = fitted(series(1.0, 1.0, 1.3))
    assert "measure it again to tell a drift from a disturbance" in found.loop.alarm
    assert found.proposal[0] == HERE
    assert fitted(series(1.0, 1.0, 1.3, 1.0, 1.0)).loop.alarm == ""


def test_a_steady_board_says_nothing():
    found = fitted(series(*[1.0] * 10))
    assert (found.loop.alarm, found.loop.cause, found.loop.shift_log) == ("", "", 0.0)


def test_known_disturbance_is_no_drift():
    assert fitted(series(1.0, 2.0, 2.0, 2.0, quiet_share=0.0)).loop.alarm == ""


@pytest.mark.parametrize(
    ("after", "cause"),
    [
        ({}, ""),
        ({"mode": "B"}, "the power mode changed from A to B"),
        ({"others_frac": 0.4}, "other programs (40 % of the processors)"),
        ({"temp_c": 55.0}, ""),
        ({"temp_c": float("nan")}, ""),
        ({"throttle": "throttled (earlier)"}, ""),
        ({"clock_hz": 1.2e9}, "the clock (1.20 GHz, 2.40 GHz before)"),
    ],
)
def test_the_cause_is_what_changed(after, cause):
    assert likely_cause([COOL] * 5, [{**COOL, **after}] * 2) == cause


def test_a_sensor_that_stands_still_explains_nothing():
    stuck = {"temp_c": 85.0}
    assert likely_cause([stuck] * 5, [stuck] * 3) == ""


def test_disturbed_measurements_of_a_plan_are_made_again():
    points = tuple(plan(HERE, CATALOGUE)[:2])
    known = [measured(points[0], 1.0, 0, quiet_share=0.0), measured(points[1], 1.0, 1)]
    campaign = Campaign([Round(points, SPEED)], CATALOGUE, undisturbed(known))
    assert campaign.begin_round()
    assert campaign.next().point == points[0]
    assert campaign.next() is None


def test_a_watched_point_does_not_displace_the_others():
    many = series(*[1.0] * 29) * 1 + [replace(measured(HERE, 1.0, 59), time_utc="") for _ in range(450)]
    assert len(fit(many, CATALOGUE, HERE, now_s=0.0).calibration.points) > 5
