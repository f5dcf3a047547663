"""The dashboard's events and the command line's blocking calls measure the same on the same simulated board."""

from contextlib import contextmanager

import pytest

from app.campaign.blocking import carry_out
from app.campaign.campaign import Campaign
from app.campaign.plan import calibration_rounds
from app.cli import main
from app.cli.shared.library import open_library
from app.client.blocking_session import AttachedBoard
from app.client.session import Session
from app.client.target import open_target
from app.library.bandwidth import read_record
from app.library.machine import machine_key
from app.library.measurements import load_measurements, measurements_file
from app.model.conductor import Conductor
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

TARGET = "sim:raspberry_pi_5,seed=3,accelerate=500"
AT = OperatingPoint()


def by_blocking_calls(monkeypatch, folder):
    """Measure the rounds of a calibration as a command does; return what is on disk."""
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(folder))
    with AttachedBoard(open_target(TARGET)) as board:
        machine, library = machine_key(board.hello), open_library()
        library.set_bandwidth(machine, read_record(board.bandwidth(lambda done_frac, text: None)))
        sheet, catalogue = library.data_sheet_catalogue(board.hello), library.catalogue(board.hello)
        campaign = Campaign(calibration_rounds(AT, sheet), sheet)
        carry_out(
            board,
            campaign,
            catalogue,
            machine,
            lambda run, measurement: library.add(measurement),
            lambda run, done_frac, text: None,
        )
    assert campaign.failures == {}
    return load_measurements(measurements_file(), machine)


@contextmanager
def dashboard(monkeypatch, folder, qtbot, *, auto_measure):
    """A conductor that has attached the board, its measurements in a folder."""
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(folder))
    store = Store(load_catalogue(), AT)
    store.set("auto_measure", auto_measure)
    target = open_target(TARGET)
    conductor = Conductor(store, lambda on_event: Session(target, on_event), open_library(), "a simulated board")
    conductor.start()
    try:
        qtbot.waitUntil(lambda: store.link.state == "attached", timeout=60_000)
        yield store, conductor
    finally:
        conductor.stop()
    assert [line.text for line in store.log if line.level == "error"] == []


def by_events(monkeypatch, folder, qtbot):
    """Measure them as the dashboard does."""
    with dashboard(monkeypatch, folder, qtbot, auto_measure=False) as (store, conductor):
        assert conductor.calibrate_now() == ""
        qtbot.waitUntil(lambda: store.activity.kind == "idle", timeout=120_000)
    return load_measurements(measurements_file(), store.machine)


@pytest.fixture
def both(monkeypatch, tmp_path, qapp, qtbot):
    return by_blocking_calls(monkeypatch, tmp_path / "calls"), by_events(monkeypatch, tmp_path / "events", qtbot)


def test_both_drivers_measure_the_same_points_in_the_same_order_with_the_same_outputs(both):
    (by_call, call_notes), (by_event, event_notes) = both
    assert call_notes == event_notes == []
    assert len(by_call) == len(by_event) == 5 * len({m.point for m in by_call})
    for one, other in zip(by_call, by_event, strict=True):
        assert (one.point, one.machine) == (other.point, other.machine)
        assert one.body.keys() == other.body.keys()
        assert one.body["conditions"].get("options") == other.body["conditions"].get("options")
        if "decode_s" in one.body:  # within what a warmer board makes of it
            assert one.body["decode_s"]["median"] == pytest.approx(other.body["decode_s"]["median"], rel=0.1)
    for found in (by_call, by_event):
        times = [m.time_utc for m in found]
        assert times == sorted(times)
        assert all(len(time.partition(".")[2]) == len("123+00:00") for time in times)


def test_what_the_command_has_calibrated_the_dashboard_does_not_measure_again(
    monkeypatch, tmp_path, qapp, qtbot, capsys
):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    assert main(["calibrate", "--attach", TARGET, "--json"]) == 0
    n = len(load_measurements(measurements_file(), None)[0])
    with dashboard(monkeypatch, tmp_path, qtbot, auto_measure=True) as (store, _):
        qtbot.waitUntil(lambda: store.has_measured("top1_agreement"), timeout=60_000)
        qtbot.waitUntil(lambda: store.activity.kind == "idle", timeout=60_000)
    new = load_measurements(measurements_file(), None)[0][n:]
    assert [m.point for m in new] == [AT, AT]  # speed and accuracy of the point on the screen
