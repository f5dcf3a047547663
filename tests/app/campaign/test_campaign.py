"""Which run of a campaign is next, and what a result becomes."""

from dataclasses import replace
from datetime import datetime

import pytest

from app.campaign.campaign import Campaign, counted
from app.campaign.plan import ACCURACY, SPEED, Round, Run, calibration_rounds
from app.campaign.recipe import measured, undisturbed
from app.library.calibration import plan
from app.library.files import FileError
from core.calibrate.fit import PLAN_ROUNDS
from core.spec import OperatingPoint
from tests.app.campaign.fakes import CATALOGUE, MACHINE, SPEEDS, A, B, C, body_of


def taken(run, **more):
    return measured(run, body_of(run.what, **more), CATALOGUE, MACHINE)


def asked_now(campaign):
    """Return the runs that are asked for until results are needed, as an event driver asks for them."""
    found = []
    while campaign.begin_round():
        while (run := campaign.next()) is not None:
            found.append(run)
    return found


def played(campaign):
    """Answer every run; return the runs and their measurements, in order."""
    runs, found = [], []
    while now := asked_now(campaign):
        for run in now:
            runs.append(run)
            found.append(taken(run))
            assert campaign.took(run, found[-1])
    return runs, found


def test_runs_come_round_by_round_and_a_round_waits_for_the_one_before():
    campaign = Campaign(SPEEDS, CATALOGUE)
    for n in range(3):
        runs = asked_now(campaign)
        assert [run.point for run in runs] == [A, B, C]
        assert [run.number for run in runs] == [3 * n, 3 * n + 1, 3 * n + 2]
        for ended, run in enumerate(runs):
            assert campaign.waiting
            assert not campaign.begin_round()
            assert (campaign.n_ended, campaign.n_asked, campaign.what) == (ended, 3, SPEED)
            campaign.took(run, taken(run))
    assert asked_now(campaign) == []
    assert not campaign.waiting
    assert (campaign.n_runs, campaign.failure) == (9, "")


def test_results_may_come_in_any_order():
    campaign = Campaign(SPEEDS[:2], CATALOGUE)
    for run in reversed(asked_now(campaign)):
        campaign.took(run, taken(run))
    assert [run.point for run in asked_now(campaign)] == [A, B, C]


def test_a_point_that_is_there_twice_is_measured_twice_a_round():
    runs, _ = played(Campaign([Round((A, B, A), SPEED)] * 2, CATALOGUE))
    assert [run.point for run in runs] == [A, B, A] * 2


def test_points_are_sent_as_the_board_runs_them():
    spelled = replace(A, policy="key_norm", layout="masked", reselect_tokens=64.0)  # mean nothing without pruning
    (run,) = asked_now(Campaign([Round((spelled,), SPEED)], CATALOGUE))
    assert run.point == A
    assert OperatingPoint(**run.record) == A


def test_known_measurements_count_however_their_points_are_spelled():
    run = Run(A, SPEED)
    known = replace(taken(run), point=replace(A, policy="key_norm"))
    runs, _ = played(Campaign(SPEEDS, CATALOGUE, [known, known]))
    assert [run.point for run in runs] == [B, C, B, C, A, B, C]


@pytest.mark.parametrize("at_once", [False, True])
def test_a_killed_campaign_goes_on_where_it_was_at_every_step(at_once):
    rounds = calibration_rounds(OperatingPoint(), CATALOGUE, at_once=at_once)
    runs, found = played(Campaign(rounds, CATALOGUE))
    for n in range(len(runs) + 1):
        left, _ = played(Campaign(rounds, CATALOGUE, found[:n]))
        assert [(run.number, run.point, run.what) for run in left] == [
            (run.number, run.point, run.what) for run in runs[n:]
        ]


def test_a_campaign_with_more_rounds_continues_one_with_fewer():
    _, found = played(Campaign(SPEEDS[:1], CATALOGUE))
    runs, _ = played(Campaign(SPEEDS, CATALOGUE, found))
    assert [run.number for run in runs] == [3, 4, 5, 6, 7, 8]


def test_speed_is_known_of_a_run_that_measured_more_but_not_the_other_way_round():
    both = (*SPEED, *ACCURACY)
    runs, _ = played(Campaign([Round((A,), SPEED)], CATALOGUE, [taken(Run(A, both))]))
    assert runs == []
    runs, _ = played(Campaign([Round((A,), both)], CATALOGUE, [taken(Run(A, SPEED))]))
    assert [run.what for run in runs] == [both]


def test_what_is_measured_beside_a_campaign_counts():
    campaign = Campaign(SPEEDS[:2], CATALOGUE)
    first = asked_now(campaign)
    campaign.count(taken(Run(A, SPEED)))
    for run in first:
        campaign.took(run, taken(run))
    assert [run.point for run in asked_now(campaign)] == [B, C]


def test_what_failed_is_not_tried_again_but_the_rest_of_its_point_is():
    rounds = [Round((A, B), SPEED), Round((A, B), ACCURACY), Round((A, B), SPEED)]
    campaign = Campaign(rounds, CATALOGUE)
    a, b = asked_now(campaign)
    campaign.failed(a, "it does not fit")
    campaign.took(b, taken(b))
    assert campaign.n_ended == 2
    runs, _ = played(campaign)
    assert [(run.point, run.what) for run in runs] == [(A, ACCURACY), (B, ACCURACY), (B, SPEED)]
    assert campaign.failures == {(A, SPEED): "it does not fit"}
    assert campaign.failure == "it does not fit"


def test_the_first_failure_ends_a_strict_campaign():
    campaign = Campaign(SPEEDS, CATALOGUE, strict=True)
    campaign.begin_round()
    campaign.failed(campaign.next(), "it does not fit")
    assert campaign.next() is None
    assert not campaign.begin_round()
    assert campaign.failure == "it does not fit"


def test_a_cancelled_campaign_asks_for_nothing_more_and_takes_what_still_comes():
    campaign = Campaign(SPEEDS, CATALOGUE)
    campaign.begin_round()
    first, second = campaign.next(), campaign.next()
    campaign.cancel()
    assert campaign.next() is None
    assert campaign.took(first, taken(first))
    campaign.failed(second, "cancelled")
    assert not campaign.waiting
    assert not campaign.begin_round()


def test_a_second_result_of_a_run_does_not_count():
    campaign = Campaign([Round((A,), SPEED)] * 2, CATALOGUE)
    (run,) = asked_now(campaign)
    assert campaign.took(run, taken(run))
    assert not campaign.took(run, taken(run))
    campaign.failed(run, "too late")
    assert campaign.failures == {}
    assert [run.n_th for run in asked_now(campaign)] == [2]


def test_a_run_of_another_campaign_is_not_taken_for_one_of_this():
    older, newer = Campaign(SPEEDS, CATALOGUE), Campaign(SPEEDS, CATALOGUE)
    stale, *_ = asked_now(older)
    asked_now(newer)
    assert not newer.took(stale, taken(stale))
    newer.failed(stale, "cancelled")
    assert (newer.n_ended, newer.failures) == (0, {})


def test_another_point_than_asked_is_filed_where_it_ran_and_is_not_asked_for_again():
    campaign = Campaign([Round((B,), SPEED)], CATALOGUE)
    (run,) = asked_now(campaign)
    found = taken(run, applied={"alpha": 0.0, "weights": "int8"})
    assert found.point == replace(B, alpha=0.0, weights="int8")
    assert campaign.took(run, found)
    assert asked_now(campaign) == []


def test_a_format_that_nobody_knows_is_kept_by_its_words_with_a_note():
    campaign = Campaign([Round((A,), SPEED)], CATALOGUE)
    (run,) = asked_now(campaign)
    found = taken(run, applied={"weights": "ZZ9 special"}, notes=["busy"])
    assert found.point == replace(A, weights="zz9_special")
    assert found.body["notes"][0] == "busy"
    assert "says ZZ9 special of its weights format, not int8" in found.body["notes"][1]
    campaign.count(found)
    assert campaign.took(run, found)
    assert asked_now(campaign) == []


def test_a_disturbed_run_counts_once_and_keeps_its_conditions():
    campaign = Campaign([Round((A,), SPEED)] * 2, CATALOGUE)
    (run,) = asked_now(campaign)
    found = taken(run, conditions={"quiet_share": 0.2})
    assert found.body["conditions"] == {"quiet_share": 0.2}
    campaign.took(run, found)
    assert len(asked_now(campaign)) == 1


def test_a_measurement_has_what_was_asked_for_its_options_and_milliseconds():
    run = Run(A, SPEED, {"probed": 1})
    found = taken(run, conditions={"threads": 2}, notes=["busy"])
    assert found.body["conditions"] == {"threads": 2, "options": {"probed": 1}}
    assert found.body["notes"] == ["busy"]
    assert "median" in found.body["decode_s"]
    assert not {"ttft_s", "top1_agreement", "retrieval_accuracy"} & found.body.keys()
    assert datetime.fromisoformat(found.time_utc).isoformat(timespec="milliseconds") == found.time_utc
    assert found.machine == MACHINE


def test_two_measurements_of_one_instant_are_two():
    run = Run(A, SPEED)
    first = taken(run)
    second = replace(taken(run), time_utc=first.time_utc)
    runs, _ = played(Campaign([Round((A,), SPEED)] * 3, CATALOGUE, [first, second]))
    assert [run.n_th for run in runs] == [3]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"decode_s": {"median": "fast"}}, "the result: decode_s.median: expected number, got text"),
        ({"applied": 5}, "applied: expected object"),
    ],
)
def test_a_result_that_cannot_be_read_is_named(more, says):
    with pytest.raises(FileError, match=says):
        taken(Run(A, SPEED), **more)


def test_a_calibration_is_speed_then_accuracy_then_speed_again():
    points = tuple(plan(OperatingPoint(), CATALOGUE))
    rounds = calibration_rounds(OperatingPoint(), CATALOGUE)
    assert {each.points for each in rounds} == {points}
    assert [each.what for each in rounds] == [SPEED, ACCURACY, *[SPEED] * (PLAN_ROUNDS - 1)]
    assert [each.options for each in rounds] == [None, None, *[{"probed": 1}] * (PLAN_ROUNDS - 1)]
    at_once = calibration_rounds(OperatingPoint(), CATALOGUE, at_once=True)
    assert at_once[0] == Round(points, ("decode", "ttft", "quality"))
    assert at_once[1:] == rounds[2:]


def test_another_runtime_is_not_probed_when_its_speed_comes_back():
    rounds = calibration_rounds(OperatingPoint(runtime="llamacpp_cpu"), CATALOGUE)
    assert {each.options for each in rounds} == {None}


def test_progress_counts_runs_and_shares():
    assert counted("point", 3, 8, 0.5, "generating tokens") == (3.5 / 8, "point 4 of 8: generating tokens")


def test_a_disturbed_time_is_not_known_and_its_accuracy_is():
    conditions = {"quiet_share": 0.0}
    quiet, disturbed = taken(Run(A, SPEED)), taken(Run(B, (*SPEED, "quality")), conditions=conditions)
    runs, _ = played(
        Campaign([Round((A, B), SPEED), Round((B,), ("quality",))], CATALOGUE, undisturbed([quiet, disturbed]))
    )
    assert [(run.point, run.what) for run in runs] == [(B, SPEED)]
    runs, _ = played(Campaign([Round((A, B), SPEED)], CATALOGUE, [quiet, disturbed]))  # as a journal counts them
    assert runs == []
