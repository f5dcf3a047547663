"""Measuring where a slider rests."""

import pytest

from app.client.events import Failed


def settle(qtbot, board, until):
    qtbot.waitUntil(lambda: bool(board.drain() or until()))


def test_a_slider_at_rest_is_measured_speed_first_then_accuracy(calibrated, qtbot):
    board = calibrated
    board.store.set("point.alpha", 0.5)
    settle(qtbot, board, board.asked)
    ((_, point, what, queued),) = board.asked()
    assert (point.alpha, what, queued) == (0.5, ("decode",), False)
    board.session.answer(next(iter(board.session.asked)))
    board.drain()
    ((_, point, what, _),) = board.asked()
    assert (point.alpha, what) == (0.5, ("ttft", "quality"))


def test_accuracy_of_a_point_that_was_left_is_not_asked_for(calibrated, qtbot):
    board = calibrated
    board.store.set("point.alpha", 0.5)
    settle(qtbot, board, board.asked)
    first = next(iter(board.session.asked))
    board.store.set("auto_measure", False)
    board.store.set("point.alpha", 0.6)
    board.session.answer(first)
    board.drain()
    assert board.asked() == []


def test_a_newer_point_is_asked_for_at_once_and_the_older_may_end_superseded(calibrated, qtbot):
    board = calibrated
    board.store.set("point.alpha", 0.5)
    settle(qtbot, board, lambda: len(board.asked()) == 1)
    board.store.set("point.alpha", 0.6)
    settle(qtbot, board, lambda: len(board.asked()) == 2)
    older, newer = board.session.asked
    board.hear(Failed(older, "superseded", "a newer request took its place"))
    assert board.store.activity.kind == "measure"
    assert all(line.level != "error" for line in board.store.log)
    board.session.answer(newer)
    board.drain()
    assert board.store.measured("decode_s").median > 0


def test_a_point_measured_before_is_not_measured_again_by_itself_but_is_by_hand(calibrated, qtbot):
    board = calibrated
    board.store.set("point.alpha", 0.5)
    settle(qtbot, board, board.asked)
    board.answer_all()
    board.store.set("point.alpha", 0.4)
    settle(qtbot, board, board.asked)
    board.answer_all()
    board.store.set("point.alpha", 0.5)
    qtbot.wait(50)
    assert board.asked() == []
    assert board.conductor.measure_now() == ""
    assert len(board.asked()) == 1


def test_with_auto_measure_off_nothing_is_measured(calibrated, qtbot):
    board = calibrated
    board.store.set("auto_measure", False)
    board.store.set("point.alpha", 0.5)
    qtbot.wait(50)
    assert board.asked() == []


@pytest.mark.parametrize(
    ("slider", "value", "words"),
    [("point.board", "rk3588", "is not attached"), ("point.weights", "q4_k_m", "runs weights in")],
)
def test_a_point_that_cannot_be_measured_says_why(calibrated, qtbot, slider, value, words):
    board = calibrated
    board.store.set(slider, value)
    qtbot.wait(50)
    assert board.asked() == []
    assert words in board.conductor.measure_now()
    assert board.asked() == []
