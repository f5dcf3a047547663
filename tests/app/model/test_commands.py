"""Undo and redo of everything the user sets."""

import pytest

from app.model.commands import SetPoint, SetValue, undo_stack
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint


@pytest.fixture
def store(qapp):
    return Store(load_catalogue())


@pytest.fixture
def stack(qapp):
    return undo_stack()


def test_the_steps_of_one_drag_are_one_command(store, stack):
    for alpha in (0.1, 0.2, 0.3):
        stack.push(SetValue(store, "point.alpha", alpha, drag=1))
    stack.push(SetValue(store, "point.alpha", 0.6, drag=2))
    assert stack.count() == 2
    stack.undo()
    assert store.point.alpha == 0.3
    stack.undo()
    assert store.point.alpha == 0.0
    stack.redo()
    assert store.point.alpha == 0.3


def test_drags_of_two_sliders_do_not_merge(store, stack):
    stack.push(SetValue(store, "point.alpha", 0.1, drag=1))
    stack.push(SetValue(store, "point.beta", 2.0, drag=1))
    assert stack.count() == 2


def test_typed_values_do_not_merge(store, stack):
    stack.push(SetValue(store, "point.alpha", 0.1))
    stack.push(SetValue(store, "point.alpha", 0.2))
    assert stack.count() == 2


def test_a_refused_value_makes_no_command(store, stack):
    with pytest.raises(ValueError, match="0 <= alpha < 1"):
        stack.push(SetValue(store, "point.alpha", 1.0))
    assert stack.count() == 0


def test_undo_brings_back_the_axis_and_what_a_model_took_along(store, stack):
    store.set("point.context", 8192)
    shorter = next(m.key for m in store.catalogue.models.values() if m.max_context_tokens < 8192)
    before = store.point
    stack.push(SetValue(store, "point.model", shorter))
    stack.push(SetValue(store, "point.alpha", 0.5))
    assert store.axis == "point.alpha"
    stack.undo()
    assert store.axis == "point.context"
    stack.undo()
    assert store.point == before


def test_a_whole_point_is_one_step(store, stack):
    stack.push(SetPoint(store, "Open preset", OperatingPoint(board="rk3588", alpha=0.5), {"limits.latency": 0.01}))
    assert (store.point.board, store.limits.latency_s) == ("rk3588", 0.01)
    stack.undo()
    assert (store.point.board, store.limits.latency_s) == ("this", None)


def test_a_point_that_does_not_hold_makes_no_command(store, stack):
    with pytest.raises(ValueError, match="expected one of"):
        stack.push(SetPoint(store, "Open preset", OperatingPoint(board="nowhere")))
    assert store.point.board == "this"


def test_two_hundred_steps_are_kept(store, stack):
    for i in range(250):
        stack.push(SetValue(store, "point.alpha", i / 1000))
    assert stack.count() == 200
