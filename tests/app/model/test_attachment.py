"""One board after another: what is known of each stays its own."""

import threading
from dataclasses import replace
from typing import ClassVar

import pytest

from app.client.events import BoardState, Catalogue, Channel, Connected, Disconnected, Log, Result
from app.library.board_library import BoardLibrary
from app.library.machine import machine_key
from app.library.measurements import Measurement, append_measurement
from app.model.attachment import Attachment
from app.model.conductor import Conductor
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.spec import Absent, OperatingPoint
from tests.waiting import PATIENCE_S

CATALOGUE = load_catalogue()


def hello(cpu, board_id=""):
    board = {"cpu": cpu, "n_threads": 4, "name": cpu, **({"id": board_id} if board_id else {})}
    can = {"measure": True, "bandwidth": True, "torch": "2.13.0"}
    return {"board": board, "can": can, "models": [{"file": "m.gguf", "byte": 98}]}


def value(median):
    return {"median": median, "q05": median / 1.02, "q95": median * 1.02, "n": 9, "provenance": "measured"}


class Scripted:
    """A session that says what the test tells it to say, and takes its time to end."""

    made: ClassVar = []

    def __init__(self, on_event):
        self.say, self.log = on_event, []
        self.stopped = threading.Event()
        self.may_stop = threading.Event()
        self.may_stop.set()
        self.asked = 0
        Scripted.made.append(self)

    def start(self):
        self.log.append("start")

    def stop(self):
        self.may_stop.wait(PATIENCE_S)
        self.stopped.set()

    def reconnect_now(self):
        self.log.append("reconnect")

    def bandwidth(self):
        self.asked += 1
        return self.asked

    def measure(self, point, what, *, queue=False):
        return self.bandwidth()

    def cancel(self, request_id):
        self.log.append(f"cancel {request_id}")


@pytest.fixture(autouse=True)
def forget():
    Scripted.made.clear()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "measurements.jsonl"


@pytest.fixture
def conductor(qapp, path):
    store = Store(CATALOGUE)
    store.set("auto_measure", False)
    made = Conductor(store, Scripted, BoardLibrary(path.parent, pytest.fail))
    made.store = store
    yield made
    made.stop()


def drain(conductor):
    conductor._drain()
    while conductor.fitting.running:
        conductor.fitting.join()
        conductor._drain()


def hear(conductor, *events, session=None):
    for event in events:
        (session or conductor._session).say(event)
    drain(conductor)


def keep(path, cpu, decode_s, board_id=""):
    machine = machine_key(hello(cpu, board_id))
    append_measurement(
        path, Measurement(OperatingPoint(), {"decode_s": value(decode_s)}, "2026-01-01T00:00:00+00:00", machine)
    )


def test_measurements_bandwidth_and_calibration_of_one_board_are_not_another_s(conductor, path):
    store = conductor.store
    keep(path, "fast", 0.010)
    conductor.start()
    hear(conductor, Connected(hello("fast")))
    bandwidth = {"read_byte_s": {**value(90e9)}}
    conductor._measure_bandwidth()
    hear(conductor, Result(conductor._session.asked, bandwidth))
    assert store.measured("decode_s").median == 0.010
    assert store.calibration is not None
    assert store.position("point.bandwidth") == 90e9
    conductor.attach(Scripted, "orin", "pi@orin")
    hear(conductor, Connected(hello("slow")))
    assert store.link.target == "pi@orin"
    assert list(store.measurements) == []
    assert store.calibration is None
    assert store.position("point.bandwidth") == CATALOGUE.boards["this"].power_modes["default"].bandwidth_byte_s
    assert store.catalogue.boards["this"].name == "orin"
    conductor.attach(Scripted, "this machine")
    hear(conductor, Connected(hello("fast")))
    assert store.link.target == ""
    assert store.measured("decode_s").median == 0.010
    assert store.position("point.bandwidth") == 90e9
    assert store.calibration is not None
    assert store.catalogue.boards["this"].name == CATALOGUE.boards["this"].name


def test_an_attached_board_has_the_memory_that_it_tells(conductor):
    conductor.start()
    told = hello("fast")
    hear(conductor, Connected({**told, "board": {**told["board"], "memory_byte": 2_000_000_000}}))
    store = conductor.store
    assert store.catalogue.boards["this"].memory_byte == 2e9
    assert store.prediction.outside == ()
    store.set("point.model", "llama-3.2-3b")
    assert store.prediction.outside[0].startswith("Llama-3.2-3B in ")
    assert " does not fit in the memory of " in store.prediction.outside[0]
    conductor.attach(Scripted, "orin")
    hear(conductor, Connected(hello("slow")))
    assert store.catalogue.boards["this"].memory_byte is None


def test_two_boards_of_one_kind_are_two_and_a_simulated_one_is_none_of_them(conductor, path):
    keep(path, "orin", 0.010, board_id="a1")
    conductor.start()
    hear(conductor, Connected(hello("orin", "a1")))
    assert len(conductor.store.measurements) == 1
    conductor.attach(Scripted, "second")
    hear(conductor, Connected(hello("orin", "b2")))
    assert list(conductor.store.measurements) == []
    conductor.attach(Scripted, "third")
    hear(conductor, Connected({**hello("orin", "a1"), "simulated": True}))
    assert list(conductor.store.measurements) == []


def test_the_next_board_is_never_called_attached_before_it_is(conductor):
    conductor.start()
    hear(conductor, Connected(hello("fast")))
    seen = set()
    conductor.store.changed.connect(lambda _path: seen.add((conductor.store.link.target, conductor.store.link.state)))
    conductor.attach(Scripted, "orin", "pi@orin")
    assert ("pi@orin", "connecting") in seen
    assert ("pi@orin", "attached") not in seen


def test_what_the_old_board_still_says_is_not_taken(conductor):
    conductor.start()
    old = conductor._session
    old.say(Log("error", "waiting in the queue"))
    conductor.attach(Scripted, "orin")
    hear(conductor, Connected(hello("old")), Log("error", "late"), session=old)
    assert conductor.store.link.state == "connecting"
    assert conductor.store.link.text == "Attaching orin."
    assert [line.text for line in conductor.store.log] == []
    assert conductor.history._session is conductor._session is not old


def test_a_board_that_takes_long_to_go_does_not_hold_the_screen_up(conductor):
    conductor.start()
    old = conductor._session
    old.may_stop.clear()
    conductor.attach(Scripted, "orin")
    assert not old.stopped.is_set()
    old.may_stop.set()
    conductor.stop()
    assert old.stopped.is_set()


def test_detach_leaves_nothing_shown_and_reconnect_attaches_again(conductor):
    store = conductor.store
    conductor.start()
    channel = Channel("a.power_w", "W", "x", None)
    hear(conductor, Connected(hello("one")), Catalogue((channel,)))
    conductor.measure_now()
    conductor.detach()
    assert store.link.state == "detached"
    assert (store.link.hello, store.link.channels) == ({}, ())
    assert store.activity.kind == "idle"
    assert store.not_measurable == "No board is attached."
    assert conductor.measure_now() == "No board is attached."
    assert len(Scripted.made) == 2
    assert Scripted.made[1].log == []
    conductor.reconnect_now()
    assert Scripted.made[2].log == ["start"]
    hear(conductor, Connected(hello("one")))
    assert store.link.state == "attached"


def test_a_login_that_was_refused_is_not_tried_again_and_says_so(conductor):
    conductor.start()
    hear(conductor, Disconnected("orin refused the login", None))
    link = conductor.store.link
    assert (link.state, link.text, link.retry_at_s) == ("lost", "orin refused the login", None)
    conductor.reconnect_now()
    assert conductor._session.log == ["start", "reconnect"]


def test_an_event_that_is_on_its_way_while_the_board_changes_gets_lost():
    heard, inside, go = [], threading.Event(), threading.Event()

    def hand_over(event):
        inside.set()
        go.wait(PATIENCE_S)
        heard.append(event)

    attachment = Attachment(hand_over, Scripted)
    thread = threading.Thread(target=attachment.session.say, args=("on its way",))
    thread.start()
    inside.wait(PATIENCE_S)
    replaced = threading.Thread(target=attachment.replace, args=(Scripted,))
    replaced.start()
    go.set()
    replaced.join(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert heard == ["on its way"]  # before the change, so that the caller finds it in its queue
    Scripted.made[0].say("late")
    assert heard == ["on its way"]
    attachment.stop()


def nano(mode):
    told = hello("x")
    name = "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super"
    return {**told, "board": {**told["board"], "name": name}, "state": {"power_mode": {"value": mode}}}


def test_a_board_without_the_modes_of_the_last_one_can_follow_it(conductor):
    conductor.start()
    hear(conductor, Connected(nano("nvpmodel 15W")))
    store = conductor.store
    (mode, *_) = store.catalogue.boards["this"].power_modes
    assert mode == "15W"
    at = replace(store.point, board="this", power_mode=mode, bandwidth_byte_s=20e9)
    store.add_measurement(Measurement(at, {"decode_s": value(0.01)}, "2026-01-01T00:00:00+00:00", store.machine))
    conductor.attach(Scripted, "pi", "pi@pi")
    hear(conductor, Connected(hello("other")))
    assert store.link.state == "attached"
    assert "15W" not in store.catalogue.boards["this"].power_modes
    assert list(store.measurements) == []


def test_an_attached_board_is_what_its_data_sheet_says_in_the_mode_that_it_is_in(conductor, path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(path.parent))
    store = conductor.store
    conductor.attach(Scripted, "orin", "user@orin")
    hear(conductor, Connected(nano("nvpmodel 15W")))
    board = store.catalogue.boards["this"]
    assert (board.name, board.data_sheet) == ("orin", "jetson_orin_nano_8gb_super")
    assert store.position("point.bandwidth") == 68.3e9
    assert any("Described by the data sheet of NVIDIA Jetson Orin Nano Super 8GB" in line.text for line in store.log)
    (known,) = BoardLibrary(path.parent, pytest.fail).boards().values()
    assert (known.key, known.sheet.key) == ("user@orin", board.data_sheet)
    store.set("point.power_mode", "25W")
    assert "This board is in power mode 15W" in store.not_measurable
    hear(conductor, BoardState({"power_mode": {"value": "nvpmodel MAXN_SUPER"}}))
    assert next(iter(store.catalogue.boards["this"].power_modes)) == "MAXN"
    conductor.choose_sheet("raspberry_pi_5")
    assert store.catalogue.boards["this"].data_sheet == "raspberry_pi_5"
    assert store.point.power_mode == ""  # a Pi has no 25W
    conductor.choose_sheet("this")
    assert isinstance(conductor.sheet, Absent)
    assert store.catalogue.boards["this"].data_sheet == ""
    conductor.choose_sheet("")
    assert store.catalogue.boards["this"].data_sheet == "jetson_orin_nano_8gb_super"
