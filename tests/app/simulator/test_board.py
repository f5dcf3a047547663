"""Simulated boards: heat, battery, speed and its scatter."""

import numpy as np
import pytest

from app.library.machine import machine_key
from app.simulator.board import SimulatedBoard
from app.simulator.heat import DRAIN_S, STEP_S, Charge, Heat
from app.simulator.runs import bandwidth, measure
from core.catalogue.load import load_catalogue
from core.physics.discharge import discharge
from core.predict.cosim import simulate
from core.predict.scenario import predict
from tests.app.simulator.simulated import KEY, POINT, finish, measured


def test_head_and_compiled_context_are_simulated():
    board = SimulatedBoard(KEY)
    point = {**POINT, "runtime": "llamacpp_cpu", "weights": "q4_k_m"}
    wide = board.work({**point, "head": "fp16"})
    assert wide.point.head == "fp16"
    assert wide.decode_s(0) > board.work(point).decode_s(0)
    assert board.work({**point, "graph_tokens": 4096.0}).point.graph_tokens == 4096.0
    with pytest.raises(ValueError, match="graph_tokens: got '4k', expected a number"):
        board.work({**point, "graph_tokens": "4k"})


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
    assert "[assumed] by its class" in sources["rk3588"]


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
