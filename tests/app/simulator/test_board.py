"""Simulated boards: the heat of the engine, the protocol of an agent, and never a number without its mark."""

import json
import math
import queue
import sys
import time

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
from app.library.machine import machine_key, why_not_measurable
from app.simulator.board import SimulatedBoard
from app.simulator.heat import DRAIN_S, STEP_S, Charge, Heat
from app.simulator.runs import bandwidth, measure
from core.catalogue.load import load_catalogue
from core.physics.discharge import discharge
from core.predict.cosim import simulate
from core.predict.scenario import predict
from core.spec import OperatingPoint
from tests.waiting import PATIENCE_S

KEY = "raspberry_pi_5"
POINT = {"context_tokens": 512.0, "weights": "int4"}


def argv(key, *more):
    return (sys.executable, str(LAUNCHER), "simulate-board", key, "--stdio", *more)


def finish(board, run):
    """Carry a run out and return its result."""
    try:
        while True:
            board.step(next(run).load_frac)
    except StopIteration as end:
        return end.value


def measured(seed, point=POINT, key=KEY, what=("ttft", "decode", "quality")):
    board = SimulatedBoard(key, seed=seed)
    return finish(board, measure(board, {"point": point, "what": list(what)}, np.random.default_rng(seed)))


@pytest.mark.parametrize(("key", "told"), [(KEY, False), ("jetson_orin_nano_8gb", True)])
def test_a_board_with_a_single_power_mode_tells_none(key, told):
    board = SimulatedBoard(key, seed=1)
    assert ("power_mode" in board.facts()) == told
    assert set(board.power_mode_state()) == ({"value"} if told else {"absent"})


def test_a_simulated_board_is_known_by_what_it_is_and_its_seed():
    keys = [machine_key({"simulated": True, "board": SimulatedBoard(KEY, seed=seed).facts()}) for seed in (1, 2)]
    assert keys == [f"simulated cpu of Raspberry Pi 5, seed {seed}, simulated" for seed in (1, 2)]


# --- heat and battery -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "ambient_c"), [("raspberry_pi_5", 40.0), ("rk3588", 40.0), ("jetson_orin_nx_16gb", 60.0)]
)
def test_step_by_step_is_the_same_as_the_engine_s_run(key, ambient_c):
    board = SimulatedBoard(key, seed=2, cooling="bare")
    device = board._device(board._work)
    load = np.tile(np.r_[np.ones(4000), np.full(1000, 0.3)], 3)
    run = simulate(device, load, STEP_S, ambient_c)
    assert run.level.min() < run.level.max()  # it throttles, or this says little
    heat = Heat(device, ambient_c)
    moments = [heat.step(busy) for busy in load[: run.level.size]]
    np.testing.assert_array_equal([moment.level for moment in moments], run.level)
    np.testing.assert_allclose([moment.temp_c for moment in moments], run.temp_c, rtol=1e-9)
    np.testing.assert_allclose([moment.power_w for moment in moments], run.power_w, rtol=1e-9)


def test_a_battery_step_by_step_ends_as_the_engine_s():
    board = SimulatedBoard(KEY, battery_j=3600.0)
    cell = board.charge.cell
    whole = discharge(cell, np.full(200, 8.0), DRAIN_S)
    charge = Charge(cell)
    n = 0
    while not charge.end and n < 1e5:
        charge.step(8.0)
        n += 1
    assert charge.end == whole.end
    assert n * STEP_S == pytest.approx(whole.duration_s, abs=DRAIN_S)
    assert charge.soc == pytest.approx(whole.soc[-1], abs=0.02)


def test_every_board_of_the_catalogue_can_be_simulated():
    for key in load_catalogue().boards:
        if key == "this":
            continue
        board = SimulatedBoard(key, seed=1)
        for _ in range(5):
            board.step(1.0)
        values = board.read()
        assert len(values) == len(board.channels())
        assert np.all(np.isfinite(values))
        assert 0.3 < values[0] < 500
        assert board.work(POINT).decode_s(board.level) > 0


def test_what_nothing_states_about_a_board_is_said_in_its_channel():
    sources = {key: SimulatedBoard(key).channels()[0]["source"] for key in (KEY, "rk3588")}
    assert "assumed" not in sources[KEY]
    assert "[assumed] 8 W while decoding" in sources["rk3588"]


# --- what it measures -------------------------------------------------------------------------------------------------


def test_the_same_seed_is_the_same_board_and_another_is_another():
    one, again, other = measured(1), measured(1), measured(2)
    assert one == again
    assert one["decode_s"]["median"] != other["decode_s"]["median"]


def test_boards_of_many_seeds_lie_where_the_prior_says():
    board = SimulatedBoard("rk3588")
    point = {**POINT, "runtime": "rkllm_npu", "weights": "int8"}
    asked = board._point(point)
    predicted = predict(asked, board.catalogue).decode_s
    times = []
    for seed in range(30):
        board.seed = seed
        times.append(float(predict(asked, board.catalogue, board._truth(asked)).decode_s.median))
    inside = np.mean([(predicted.q05 <= t <= predicted.q95) for t in times])
    assert inside > 0.6
    assert np.log(np.median(times) / predicted.median) == pytest.approx(0, abs=0.1)
    assert np.std(np.log(times)) > 0.02


def test_every_value_is_marked_simulated_or_absent_with_a_reason():
    body = measured(3)
    for name in (
        "decode_s",
        "ttft_s",
        "tokens_per_s",
        "power_w",
        "energy_j_per_token",
        "memory_byte",
        "top1_agreement",
        "idle_power_w",
    ):
        record = body[name]
        assert record.get("provenance") == "simulated" or record["absent"], name
        if "median" in record:
            assert record["q05"] <= record["median"] <= record["q95"]
    assert body["conditions"]["simulated"] is True
    assert "nothing was measured" in body["notes"][0]
    assert body["energy_j_per_token"]["median"] == pytest.approx(
        body["power_w"]["median"] * body["decode_s"]["median"], rel=0.03
    )
    board = SimulatedBoard(KEY)
    assert finish(board, bandwidth(board, np.random.default_rng(0)))["read_byte_s"]["provenance"] == "simulated"


def test_agreement_is_a_share_of_as_many_tokens_as_the_calibration_is_told():
    record = finish(
        SimulatedBoard(KEY),
        measure(SimulatedBoard(KEY), {"point": POINT, "what": ["quality"]}, np.random.default_rng(0)),
    )["top1_agreement"]
    assert record["n"] >= 256
    assert (record["median"] * record["n"]).is_integer()


def test_a_hot_board_is_slower_and_draws_less():
    def run(ambient_c):
        board = SimulatedBoard(KEY, seed=1, cooling="bare", ambient_temp_c=ambient_c)
        for _ in range(12_000):
            board.step(1.0)
        return finish(board, measure(board, {"point": POINT, "what": ["decode"]}, np.random.default_rng(0)))

    cool, hot = run(0.0), run(35.0)
    assert hot["decode_s"]["median"] > 1.03 * cool["decode_s"]["median"]
    assert hot["power_w"]["median"] < cool["power_w"]["median"]


def test_a_board_that_heats_faster_than_it_cools_switches_off():
    board = SimulatedBoard(KEY, seed=1, cooling="bare", ambient_temp_c=55.0)
    for _ in range(12_000):
        board.step(1.0)
        if board.off:
            break
    assert "switched off at 115 deg C" in board.off
    for _ in range(12_000):  # whoever goes on
        board.step(1.0)
    assert np.isfinite(board.read()).all()


@pytest.mark.parametrize(
    ("point", "says"),
    [
        ({"board": "rk3588"}, "board: got 'rk3588', expected this board, raspberry_pi_5"),
        ({"weights": "nonsense"}, "weight format 'nonsense' is unknown"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": "much"}, "alpha: got 'much', expected a number"),
        ({"weights": 4}, "weights: got 4, expected a text"),
    ],
)
def test_a_point_that_cannot_be_run_is_refused_in_one_sentence(point, says):
    board = SimulatedBoard(KEY)
    with pytest.raises(ValueError, match=says):
        finish(board, measure(board, {"point": {**POINT, **point}, "what": ["decode"]}, np.random.default_rng(0)))


def test_a_model_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="does not fit in the memory of NVIDIA Jetson Orin NX"):
        SimulatedBoard("jetson_orin_nx_16gb").work({"model": "llama-2-70b", "weights": "fp16"})


def test_unknown_boards_and_coolings_are_named():
    with pytest.raises(ValueError, match=r"board: got 'toaster', expected one of .* such as"):
        SimulatedBoard("toaster")
    with pytest.raises(ValueError, match="board: got 'this'"):
        SimulatedBoard("this")
    with pytest.raises(ValueError, match="cooling: got 'water', expected one of bare"):
        SimulatedBoard(KEY, cooling="water")


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
