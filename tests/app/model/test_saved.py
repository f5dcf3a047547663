"""What was saved of a machine, and what cannot be."""

import os

import pytest

from app.client.events import Connected
from app.library.board_library import BoardLibrary
from app.library.machine import machine_key
from app.library.measurements import Measurement, append_measurement, load_measurements
from core.calibrate.fit import N_PLAN
from core.spec import OperatingPoint
from tests.app.model.conducted import CATALOGUE, HELLO, N_ATTACH, Board, value


def test_a_saved_bench_of_the_kernels_is_what_predictions_start_from(board, path):
    board.attach()
    before = board.store.prediction_of(OperatingPoint(weights="int8")).decode_s
    row = {"name": "linear int8", "dtype": "int8", "shape": [4096, 4096], "read_share": 0.35}
    BoardLibrary(path.parent, pytest.fail).set_bench(machine_key(HELLO), [row])
    again = Board(path)
    again.attach()
    runtime = again.store.catalogue.resolve(OperatingPoint()).runtime
    assert runtime.priors["eta"].median == pytest.approx(0.35)
    assert runtime.sources["eta"].startswith("measured")
    assert again.store.prediction_of(OperatingPoint(weights="int8")).decode_s.median > before.median
    again.hear(Connected({**HELLO, "board": {**HELLO["board"], "cpu": "another"}}))
    assert again.store.catalogue.resolve(OperatingPoint()).runtime == CATALOGUE.runtimes["builtin"]


def test_a_bench_that_cannot_be_read_is_said_and_changes_nothing(board, path):
    path.with_name("bench.json").write_text("nonsense", encoding="utf-8")
    board.attach()
    assert board.store.catalogue is CATALOGUE
    assert "bench.json" in board.store.log[0].text


def test_saved_measurements_of_this_machine_are_not_measured_again(board, path):
    board.attach()
    board.answer_all()
    saved, notes = load_measurements(path, machine_key(HELLO))
    assert notes == []
    assert len(saved) == len(board.store.measurements) > N_PLAN
    again = Board(path)
    again.attach()
    assert again.asked() == []
    assert again.store.position("point.bandwidth") == 20e9
    assert again.store.calibration is not None
    assert again.store.measured("decode_s").median > 0


@pytest.mark.parametrize(
    "other",
    [
        {"board": {"cpu": "another", "n_threads": 2}},
        {"board": {"cpu": "test cpu", "n_threads": 4}},
        {"can": {**HELLO["can"], "torch": "2.14.0"}},
        {"models": [{"file": "m.gguf", "byte": 99}]},
    ],
)
def test_measurements_of_another_machine_or_version_do_not_count(board, path, other):
    board.attach()
    board.answer_all()
    again = Board(path)
    again.hear(Connected({**HELLO, **other}))
    assert list(again.store.measurements) == []
    assert len(again.asked()) == N_ATTACH


def test_a_saved_point_of_a_model_that_is_gone_is_left_out(board, path):
    gone = Measurement(
        OperatingPoint(model="gone"), {"decode_s": value(0.1)}, "2026-01-01T00:00:00+00:00", machine_key(HELLO)
    )
    append_measurement(path, gone)
    board.attach()
    assert list(board.store.measurements) == []


def test_a_disk_that_is_full_is_said_and_the_measurement_is_shown(board, monkeypatch):
    board.attach()
    board.session.answer(1)
    board.drain()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    board.session.answer(2)
    board.drain()
    assert len(board.store.measurements) == 1
    assert "no space left on device" in board.store.log[-1].text
