"""A conductor over the real agent."""

import os
import signal

import pytest

from app.client.session import Session
from app.client.transport import LocalTransport
from app.library.board_library import BoardLibrary
from app.library.measurements import load_measurements
from app.model.conductor import Conductor
from app.model.store import Store
from core.spec import OperatingPoint, Provenance
from tests.app.model.conducted import CATALOGUE


def test_the_real_agent_attaches_and_the_program_survives_its_death(qapp, path, qtbot, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(path.parent))
    transports = []

    def open_transport():
        transports.append(LocalTransport())
        return transports[-1]

    store = Store(CATALOGUE)
    conductor = Conductor(
        store, lambda on_event: Session(open_transport, on_event), BoardLibrary(path.parent, pytest.fail)
    )
    conductor.start()
    try:
        qtbot.waitUntil(lambda: store.link.state == "attached" and bool(store.link.channels))
        qtbot.waitUntil(lambda: store.activity.kind == "bandwidth" or bool(store.not_measurable))
        os.kill(transports[0].pid, signal.SIGKILL)
        qtbot.waitUntil(lambda: store.link.state == "lost")
        assert store.activity.kind == "idle"
        assert store.log[-1].text == store.link.text
        conductor.reconnect_now()
        qtbot.waitUntil(lambda: store.link.state == "attached")
        conductor.cancel()
    finally:
        conductor.stop()
    assert OperatingPoint() == store.point


def test_the_real_board_runs_a_point_and_its_dot_lands(qapp, path, qtbot, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(path.parent))
    store = Store(CATALOGUE, OperatingPoint(weights="fp32", context_tokens=64.0, alpha=0.5))  # nothing to pack
    store.set("auto_measure", False)
    conductor = Conductor(
        store, lambda on_event: Session(LocalTransport, on_event), BoardLibrary(path.parent, pytest.fail)
    )
    conductor.start()
    try:
        qtbot.waitUntil(lambda: store.link.state == "attached")
        if store.not_measured_here:
            pytest.fail(store.not_measured_here)
        assert conductor.measure_now() == ""
        qtbot.waitUntil(
            lambda: store.has_measured("decode_s") or any(line.level == "error" for line in store.log), timeout=240_000
        )
        assert [line.text for line in store.log if line.level == "error"] == []
        conductor.cancel()
        measured = store.measured("decode_s")
        assert measured.provenance is Provenance.MEASURED
        assert 0 < measured.q05 <= measured.median <= measured.q95
        assert store.dots("decode_s", "point.alpha").x.tolist() == [0.5]
        qtbot.waitUntil(lambda: store.calibration is not None)
        assert store.prediction.decode_s.provenance is Provenance.CALIBRATED
    finally:
        conductor.stop()
    assert [m.point for m in load_measurements(path, store.machine)[0]] == [store.point]
