"""A simulated board behind the protocol."""

import json
import math
import queue
import sys
import time
import zlib

import numpy as np
import pytest

from app import LAUNCHER
from app.cli import main
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.events import Catalogue, Connected, Disconnected, Failed, Log, Progress, Result, Samples
from app.client.recorder import Recorder
from app.client.recording import Recording
from app.client.session import Session
from app.client.target import open_target
from app.client.transport import LocalTransport
from app.library.machine import why_not_measurable
from app.parameter_set import CONTEXT, ParameterSet, install
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint
from tests.app.simulator.simulated import KEY, POINT
from tests.waiting import PATIENCE_S


def argv(key, *more):
    return (sys.executable, str(LAUNCHER), "simulate-board", key, "--stdio", *more)


# --- behind the protocol ----------------------------------------------------------------------------------------------
class Attached:
    """A session with a simulated board as a child process."""

    def __init__(self, *more):
        self.events = queue.Queue()
        self.session = Session(lambda: LocalTransport(argv(KEY, "--accelerate", "20", *more)), self.events.put)

    def __enter__(self):
        self.session.start()
        return self

    def __exit__(self, *_):
        self.session.stop()

    def wait(self, kind, check=lambda event: True):
        deadline_s = time.monotonic() + PATIENCE_S
        while not (
            isinstance(event := self.events.get(timeout=max(0.01, deadline_s - time.monotonic())), kind)
            and check(event)
        ):
            pass
        return event

    def ended(self, request_id):
        return self.wait((Result, Failed), lambda event: event.request_id == request_id)


@pytest.fixture(scope="module")
def board():
    with Attached() as made:
        made.hello = made.wait(Connected).hello
        made.channels = made.wait(Catalogue).channels
        yield made


def test_it_says_that_it_is_simulated_and_how_much_faster_its_time_passes(board):
    assert board.hello["simulated"] is True
    assert board.hello["board"]["key"] == KEY
    assert board.hello["board"]["name"].endswith("(simulated, its time passes 20 times as fast)")
    assert [channel.key for channel in board.channels] == [
        "board.power_w",
        "package.temp_c",
        "decoder.clock_hz",
        "decoder.busy_frac",
    ]


def test_its_sensors_follow_the_load():
    with Attached("--accelerate", "2") as board:  # the run takes longer than a busy machine stands still
        board.session.subscribe(200.0)
        board.wait(Catalogue)
        board.wait(Samples)
        request_id = board.session.measure({**POINT, "context_tokens": 4096.0}, ["decode"])
        assert isinstance(board.ended(request_id), Result)
        power, load = (board.session.rings.window(i, 0, math.inf)[1] for i in (0, 3))
        assert np.nanmax(load) == 1.0
        assert np.nanmean(power[load > 0.9]) > 1.5 * np.nanmin(power)
        t_s, _ = board.session.rings.window(0, 0, math.inf)
        assert np.all(np.diff(t_s) >= 0)
        assert board.session.n_lost == 0


def test_results_say_that_time_was_accelerated(board):
    body = board.ended(board.session.measure(POINT, ["decode"], queue=True)).body
    assert body["decode_s"]["provenance"] == "simulated"
    assert body["notes"][-1] == "Time was accelerated: 20 s of the board passed in each second."


def test_requests_are_superseded_queued_and_cancelled_as_a_real_board_does(board):
    old = board.session.measure(POINT, ["quality", "decode", "ttft"])
    board.wait(Progress, lambda event: event.request_id == old)
    new = board.session.measure(POINT, ["decode"])
    assert board.ended(old).kind == "superseded"
    assert isinstance(board.ended(new), Result)
    first = board.session.bandwidth()
    second = board.session.measure(POINT, ["quality"], queue=True)
    board.session.cancel(second)
    assert board.ended(second).kind == "cancelled"
    assert board.ended(first).body["read_byte_s"]["median"] > 1e9
    running = board.session.measure(POINT, ["quality"], queue=True)
    board.wait(Progress, lambda event: event.request_id == running)
    board.session.cancel(running)
    assert board.ended(running).kind == "cancelled"
    failed = board.ended(board.session.measure({"weights": "nonsense"}, ["decode"]))
    assert "nonsense" in failed.reason
    assert "not simulated" in board.ended(board.session.measure(POINT, ["stages"])).reason


def test_a_result_is_recorded_with_its_request_and_its_mark(board, tmp_path):
    board.session.recorder = recorder = Recorder(tmp_path / "x.trilemma")
    result = board.ended(board.session.measure(POINT, ["decode"]))
    board.session.recorder = None
    recorder.close()
    with Recording(recorder.path) as recording:
        (note,) = recording.notes["measured"]
    assert note.message["body"] == result.body
    assert note.message["body"]["decode_s"]["provenance"] == "simulated"
    assert note.message["request"]["point"] == POINT
    assert note.message["request"]["what"] == ["decode"]


def test_what_it_does_not_know_is_a_line_in_the_log(board):
    board.session.subscribe(5000.0)
    assert "rate_hz: got 5000" in board.wait(Log).text
    board.session.subscribe(10.0)


def test_two_processes_of_one_seed_measure_the_same_speed():
    found = []
    for _ in range(2):
        with AttachedBoard(lambda: LocalTransport(argv(KEY, "--seed", "7", "--accelerate", "100"))) as attached:
            found.append(attached.measure(POINT, ["decode", "quality"], lambda done, text: None))
    assert found[0]["decode_s"] == found[1]["decode_s"]
    assert found[0]["top1_agreement"] == found[1]["top1_agreement"]


def test_its_time_is_ours_unless_accelerated():
    with AttachedBoard(open_target(f"sim:{KEY}")) as attached:
        began_s = time.monotonic()
        body = attached.bandwidth(lambda done, text: None)
        assert time.monotonic() - began_s > 1.4  # of 1.5 s nothing is left out
        assert attached.clock().bound_s < 0.1
    assert "conditions" in body


def test_a_target_carries_options_and_refuses_others():
    with AttachedBoard(open_target(f"sim:{KEY}, seed=7,accelerate=50")) as attached:
        assert attached.hello["board"]["cpu"].endswith("seed 7")
        assert "50 times as fast" in attached.hello["board"]["name"]
    for text in (f"sim:{KEY},colour=red", f"sim:{KEY},seed"):
        with pytest.raises(ValueError, match="expected seed, ambient, cooling, battery, accelerate and a value"):
            open_target(text)


def test_an_attached_simulated_board_can_run_any_model_of_the_catalogue():
    catalogue, hello = load_catalogue(), {"simulated": True, "board": {"key": KEY}, "can": {"measure": True}}
    for board, model in (("this", "llama-3.2-1b"), (KEY, "smollm2-135m")):
        assert why_not_measurable(OperatingPoint(board=board, model=model), catalogue, hello) == ""
    assert "not attached" in why_not_measurable(OperatingPoint(board="rk3588"), catalogue, hello)


def test_an_empty_battery_switches_it_off():
    with Attached("--accelerate", "1000", "--battery", "0.05Wh") as board:
        board.wait(Connected)
        assert "switched off: its battery ended" in board.wait(Log).text
        assert board.wait(Disconnected).reason == "the agent ended"


def test_the_command_describes_a_board_and_refuses_what_it_does_not_know(capsys):
    assert main(["simulate-board", KEY, "--json", "--seed", "3"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["simulated"] is True
    assert report["default_point"]["decoding_w"] > report["default_point"]["idle_w"]
    for words, says in (
        (["toaster"], "board: got 'toaster'"),
        ([KEY, "--seed", "-1"], "seed: got -1"),
        ([KEY, "--ambient", "200"], "ambient"),
        ([KEY, "--accelerate", "0"], "accelerate"),
    ):
        assert main(["simulate-board", *words]) == 2
        assert says in capsys.readouterr().err
    assert main(["simulate-board", KEY]) == 0
    assert f"trilemma attach sim:{KEY}" in capsys.readouterr().out


def test_a_simulated_board_that_is_not_there_cannot_be_attached():
    for target, says in (
        ("sim:toaster", "^board: got .toaster., expected one of"),
        ("sim:rk3588,seed=x", "^argument --seed: invalid int value: 'x'$"),
    ):
        with pytest.raises(LinkError, match=says), AttachedBoard(open_target(target)):
            pass


def test_a_simulated_board_takes_parameters_as_a_real_one_does(tmp_path, capsys):
    file = tmp_path / "four.set"
    file.write_bytes(ParameterSet(dict.fromkeys(CONTEXT, "x"), 0.5, (1.0, 2.0, 3.0, 4.0)).encode())
    assert main(["parameters", "--attach", f"sim:{KEY}", "--install", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["live"]["state"] == "idle"
    assert (found["live"]["n_channels"], found["installed"]["epoch"]) == (4, 1)
    assert found["installed"]["provenance"] == "simulated"


def test_a_simulated_board_goes_back_to_the_older_set():
    first, second = (ParameterSet(dict.fromkeys(CONTEXT, "x"), 0.5, (offset,)) for offset in (1.0, 2.0))
    with AttachedBoard(lambda: LocalTransport(argv(KEY))) as board:
        assert board.parameters("status", {})["n_channels"] is None
        with pytest.raises(LinkError, match="verify belongs to the state receiving"):
            board.parameters("verify", {"crc": 0})
        for wanted in (first, second):
            install(board.parameters, wanted)
        live = board.parameters("status", {})
        back = board.parameters("rollback", {})
        assert (live["epoch"], live["crc"]) == (2, zlib.crc32(second.encode()))
        assert (back["epoch"], back["crc"]) == (1, zlib.crc32(first.encode()))
        assert board.parameters("rollback", {})["n_channels"] is None


def test_compensation_is_not_simulated():
    words = "compensation is not simulated: expected some of ttft, decode, quality"
    with AttachedBoard(lambda: LocalTransport(argv(KEY))) as board, pytest.raises(LinkError, match=words):
        board.measure(POINT, ("compensation",), lambda done, text: None)
