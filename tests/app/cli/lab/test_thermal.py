"""`trilemma lab thermal`: boards whose heat path is known, a simulated board's recording, and input that is no step."""

import json
from datetime import UTC, datetime

import numpy as np
import pytest

from app.cli import main
from app.client.recorder import Recorder
from app.protocol import SAMPLES, Frame, record_struct
from app.simulator.board import SimulatedBoard
from app.simulator.heat import STEP_S
from core.physics.thermal import ladder_from_foster, respond

GAIN, TAU = (1.2, 3.0), (15.0, 180.0)
IDLE_W, LOAD_W, AMBIENT_C = 2.5, 9.5, 30.0
T0_NS = 10**12


def trace(seconds=180.0, rest_s=60.0, noise_k=0.3, step_k=0.5, seed=0):
    """Seconds, watts and degrees of a board at rest that gets a load, read at 10 Hz."""
    rng, ladder = np.random.default_rng(seed), ladder_from_foster(GAIN, TAU)
    power_w = np.r_[np.full(round(10 * rest_s), IDLE_W), np.full(round(10 * seconds), LOAD_W)]
    settled_k = IDLE_W * np.cumsum(ladder.resistance_k_w[::-1])[::-1]
    temp_c = AMBIENT_C + respond(ladder, power_w, 0.1, settled_k)[:, 0] + rng.normal(0, noise_k, power_w.size)
    return 0.1 * np.arange(power_w.size), power_w, np.round(temp_c / step_k) * step_k


def table(path, columns, heading="time_s,power_w,temp_c"):
    rows = (",".join(f"{cell:.6g}" for cell in row) for row in zip(*columns, strict=True))
    path.write_text("\n".join([heading, *rows]))
    return path


@pytest.fixture
def log(tmp_path):
    return table(tmp_path / "log.csv", trace())


def fitted(capsys, *words):
    assert main(["lab", "thermal", "--json", *map(str, words)]) == 0
    return json.loads(capsys.readouterr().out)


def covers(interval, value):
    return interval["q05"] <= value <= interval["q95"]


def test_a_known_board_is_found_with_its_steady_state(log, capsys):
    found = fitted(capsys, log, "--at", "15W")
    assert found["step"]["at_s"] == pytest.approx(60.0, abs=0.2)
    assert (found["step"]["idle_w"], found["step"]["load_w"]) == (pytest.approx(IDLE_W), pytest.approx(LOAD_W))
    for pole, gain, tau in zip(found["poles"], GAIN, TAU, strict=True):
        assert pole["resistance_k_w"]["median"] == pytest.approx(gain, rel=0.1)
        assert pole["tau_s"]["median"] == pytest.approx(tau, rel=0.15)
        assert pole["resistance_identified"]
        assert pole["tau_identified"]
    ladder = ladder_from_foster(GAIN, TAU)
    assert found["ladder"]["resistance_k_w"] == pytest.approx(list(ladder.resistance_k_w), rel=0.15)
    assert found["rmse_k"] == pytest.approx(np.hypot(0.3, 0.5 / np.sqrt(12)), rel=0.1)
    assert found["resolution_k"] == pytest.approx(0.5)
    assert covers(found["steady_state"]["temp_c"], AMBIENT_C + 15.0 * sum(GAIN))


def test_nine_in_ten_intervals_hold_its_steady_state(tmp_path, capsys):
    held = [
        covers(
            fitted(capsys, table(tmp_path / f"{seed}.csv", trace(seed=seed)), "--at", "15W")["steady_state"]["temp_c"],
            AMBIENT_C + 15.0 * sum(GAIN),
        )
        for seed in range(30)
    ]
    assert np.mean(held) >= 0.7


def test_a_short_load_leaves_the_slow_pole_to_its_prior(tmp_path, capsys):
    found = fitted(capsys, table(tmp_path / "short.csv", trace(seconds=40.0)))
    assert not found["poles"][1]["tau_identified"]
    assert any("Pole 2 rests on its prior" in text and "the load lasts 0." in text for text in found["not_identified"])
    assert covers(found["steady_state"]["temp_c"], AMBIENT_C + LOAD_W * sum(GAIN))


def test_a_log_that_begins_with_the_load_takes_its_idle_power(tmp_path, capsys):
    time_s, power_w, temp_c = (column[600:] for column in trace())
    path = table(tmp_path / "load.csv", (time_s, power_w, temp_c))
    found = fitted(capsys, path, "--idle", "2.5W")
    assert found["step"]["idle_w"] == IDLE_W
    assert found["poles"][1]["resistance_k_w"]["median"] == pytest.approx(GAIN[1], rel=0.1)
    assert any("at rest before the load is not recorded" in text for text in found["not_identified"])


def test_a_board_that_still_warms_up_is_named(tmp_path, capsys):
    time_s, power_w, temp_c = trace(seconds=120.0)
    temp_c = temp_c - 8.0 * np.exp(-time_s / 60.0)
    found = fitted(capsys, table(tmp_path / "warm.csv", (time_s, power_w, temp_c)))
    assert any("The board was not at rest" in text for text in found["not_identified"])


def test_columns_are_chosen_by_unit_or_by_name(tmp_path, capsys):
    time_s, power_w, temp_c = trace()
    columns = (time_s / 60.0, 0.5 * power_w, 1e3 * power_w, temp_c - 5.0, temp_c)
    heading = 't [min],gpu [W],board [mW],"case [degC, measured]",die [degC]'
    path = table(tmp_path / "many.csv", columns, heading)
    first = fitted(capsys, path)
    assert first["columns"] == {"time": "t", "power": "gpu", "temperature": "case"}
    assert first["step"]["load_w"] == pytest.approx(0.5 * LOAD_W)
    found = fitted(capsys, path, "--power", "board", "--temperature", "die")
    assert found["columns"]["power"] == "board"
    assert found["step"]["load_w"] == pytest.approx(LOAD_W)
    assert found["poles"][0]["resistance_k_w"]["median"] == pytest.approx(GAIN[0], rel=0.1)


def test_since_and_until_cut_the_trace(tmp_path, capsys):
    time_s, power_w, temp_c = trace(seconds=240.0)
    power_w[2400:] = 7.5  # throttled at 240 s
    path = table(tmp_path / "throttled.csv", (time_s, power_w, temp_c))
    assert main(["lab", "thermal", str(path)]) == 2
    assert "falls by" in capsys.readouterr().err
    found = fitted(capsys, path, "--since", "20s", "--until", "4min")
    assert found["load_s"] == pytest.approx(180.0, abs=0.3)


def test_text_has_ladder_error_and_what_is_open(tmp_path, capsys):
    short = table(tmp_path / "short.csv", trace(seconds=40.0))
    assert main(["lab", "thermal", str(short), "--at", "15W"]) == 0
    out = capsys.readouterr().out
    assert "temp_c after power_w rose from 2.5 to 9.5 W at 60 s" in out.replace("60.0", "60")
    assert "Cauer" in out
    assert "K (root mean square)" in out
    assert "Steady state at 15 W: " in out
    assert "Pole 2 rests on its prior" in out
    assert "(prior)" in out


# ---- a simulated board


def recorded(path, board, rest_s, load_s):
    """Record a simulated board at 10 Hz in its own time: at rest, then under load."""
    made = Recorder(path, (T0_NS, datetime(2026, 1, 1, tzinfo=UTC)))
    hello = {"op": "hello", "protocol": 1, "agent": "9.9", "t_ns": T0_NS, "board": board.facts(), "simulated": True}
    made.note({**hello, "can": {"measure": True}, "models": []})
    made.note({"op": "catalogue", "channels": board.channels(), "rate_hz": 10})
    pack = record_struct(len(board.channels())).pack
    for i in range(round((rest_s + load_s) / STEP_S)):
        board.step(float(i * STEP_S >= rest_s))
        made.take(Frame(SAMPLES, i, pack(T0_NS + round(i * STEP_S * 1e9), *board.read())))
    made.close()
    assert not made.failure
    return path


def test_three_minutes_of_a_simulated_board_predict_its_steady_state(tmp_path, capsys):
    board = SimulatedBoard("raspberry_pi_5", seed=2, cooling="fan")
    for _ in range(20000):
        board.step(0.0)  # at rest
    path = recorded(tmp_path / "sim.trilemma", board, rest_s=60.0, load_s=180.0)
    found = fitted(capsys, path)
    assert found["columns"]["power"] == "board.power_w"
    assert found["columns"]["temperature"] == "package.temp_c"
    for _ in range(20000):
        board.step(1.0)
    steady_c = np.mean([board.read()[1] for _ in range(100)])
    assert not board.off
    assert found["steady_state"]["temp_c"]["median"] == pytest.approx(steady_c, abs=2.5)
    assert found["rmse_k"] < 1.0


def test_channels_of_a_recording_can_be_chosen(tmp_path, capsys):
    board = SimulatedBoard("raspberry_pi_5", seed=2, cooling="fan")
    path = recorded(tmp_path / "sim.trilemma", board, rest_s=10.0, load_s=60.0)
    for words, message in (
        (["--power", "gpu.power_w"], "power: got 'gpu.power_w', expected one of board.power_w"),
        (["--power", "package.temp_c"], "got 'package.temp_c', which has no unit of it"),
        (["--time", "x"], "a recording has its own clock"),
    ):
        assert main(["lab", "thermal", str(path), *words]) == 2
        assert message in capsys.readouterr().err


# ---- what is no step


def alter(**changes):
    columns = dict(zip(("time_s", "power_w", "temp_c"), trace(), strict=True))
    return tuple((columns | changes).values())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "got an empty file, expected columns such as time_s, power_w, temp_c"),
        ("time_s,power_w,temp_c\n", "got 0 readings in 0 s, expected at least 20 in 30 s"),
        ("time_s,power_w,temp_c\n0,1,20\n1,1,x\n", "line 3: temp_c: got 'x', expected a number"),
        ("time_s,power_w,temp_c\n0,1,20\n1,nan,20\n", "line 3: power_w: got 'nan', expected a number"),
        ("time_s,power_w,temp_c\n0,1,20\n1,,20\n", "line 3: power_w: got '', expected a number"),
        ("time_s,power_w,temp_c\n5,1,20\n5,1,20\n", "time_s: got 5 s after 5 s, expected times that rise"),
        (
            "time_s,power,temp_c\n0,1,20\n",
            "power: got time_s, power, temp_c, expected a name with a unit, such as power_w",
        ),
        ("time,power_w,temp_c\n0,1,20\n", "time: got time, power_w, temp_c, expected a name with a unit"),
        ("time_s,power_w,temp_k\n0,1,20\n", "temperature: got time_s, power_w, temp_k, expected a name with a unit"),
    ],
)
def test_a_file_that_is_no_trace_is_one_sentence(tmp_path, capsys, content, message):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    assert main(["lab", "thermal", str(path)]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (alter(power_w=np.full(2400, 5.0)), "power_w: constant at 5 W, expected a step, or --idle"),
        (alter(temp_c=np.full(2400, 45.0)), "temp_c: constant at 45 deg C"),
        (alter(power_w=trace()[1][::-1]), "power_w: falls and never rises"),
        (alter(power_w=trace()[0] / 10.0), "under load, expected constant power"),
        (trace(seconds=15.0), "the load from 60 s has 150 readings in 14.9 s, expected at least 20 in 30 s"),
        (trace(seconds=15.0, rest_s=5.0), "got 200 readings in 19.9 s"),
    ],
)
def test_a_trace_without_a_usable_step_is_one_sentence(tmp_path, capsys, columns, message):
    assert main(["lab", "thermal", str(table(tmp_path / "bad.csv", columns))]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--poles", "4"], "poles: got 4, expected 1, 2 or 3"),
        (["--at", "x"], "at: got 'x', expected a number and its unit, such as 15 W"),
        (["--since", "30"], "since: got '30', expected a number and its unit"),
        (["--idle", "9W", "--since", "70s"], "power_w: rises from 9 to 9.5 W, expected a larger step"),
        (["--temperature", "case"], "temperature: got 'case', expected one of time_s, power_w, temp_c"),
    ],
)
def test_mistakes_are_one_sentence(log, capsys, words, message):
    assert main(["lab", "thermal", str(log), *words]) == 2
    assert message in capsys.readouterr().err


def test_what_is_no_recording_is_one_sentence(tmp_path, capsys):
    assert main(["lab", "thermal", str(tmp_path / "none.trilemma")]) == 2
    assert "cannot be read: no such file" in capsys.readouterr().err
    (tmp_path / "text.trilemma").write_text("hello")
    assert main(["lab", "thermal", str(tmp_path / "text.trilemma")]) == 2
    assert "holds no recording" in capsys.readouterr().err
