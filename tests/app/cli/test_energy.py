import json

import pytest

from app.cli import main
from tests.places import RESOURCES

PI = [
    "--board",
    "raspberry_pi_5",
    "--model",
    "llama-3.2-1b",
    "--runtime",
    "llamacpp_cpu",
    "--weights",
    "q4_k_m",
    "--kv",
    "fp16",
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))


def document(capsys, *words, status=0):
    assert main([*words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def refused(capsys, *words):
    assert main(list(words)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


# --- simulate ---------------------------------------------------------------------------------------------------------


def test_simulate_answers_how_long(capsys):
    made = document(capsys, "simulate", "--hours", "0.5", "--ambient", "35", "--battery", "56Wh", *PI)
    for name in ("throttled_after_s", "sustained_tokens_s", "sustained_w", "peak_temp_c", "tokens", "hours_per_charge"):
        assert made[name]["q05"] <= made[name]["median"] <= made[name]["q95"]
        assert made[name]["provenance"] == "predicted"
    assert abs(made["energy_error_frac"]["heat"]) < 1e-9
    assert abs(made["energy_error_frac"]["battery"]) < 1e-9
    assert made["series"]["time_s"][-1] == pytest.approx(1800)
    assert len(made["series"]["time_s"]) <= 722
    assert made["battery_series"]["soc"][0] > made["battery_series"]["soc"][-1]
    assert sum(made["power_by_term_w"].values()) == pytest.approx(made["energy_j"] / 1800)


def test_simulate_says_how_long_a_charge_lasts_in_hours(capsys):
    words = ("simulate", "--power", "15W", "--speed", "20", "--battery", "56Wh", "--hours", "0.1")
    hours = document(capsys, *words)["hours_per_charge"]["median"]
    assert main(list(words)) == 0
    out = capsys.readouterr().out
    assert f"the battery lasts {hours:.3g} h" in out
    assert f"hours_per_charge    {hours:.2f} h predicted" in out


def test_simulate_on_the_articles_figures(capsys):
    made = document(capsys, "simulate", "--power", "15W", "--speed", "20", "--battery", "56Wh", "--cooling", "fan")
    assert made["hours_per_charge"]["median"] == pytest.approx(56 / 15, rel=0.02)  # without losses 3.733 h
    assert made["throttled_after_s"] == {"absent": "it never throttles in this run"}


def test_simulate_knows_the_shipped_workloads_by_name(capsys):
    by_file = document(capsys, "simulate", "--profile", str(RESOURCES / "workloads" / "video_enc.toml"), *PI)
    assert document(capsys, "simulate", "--profile", "video_enc", *PI) == by_file
    assert "no_such: cannot be read" in refused(capsys, "simulate", "--profile", "no_such", *PI)


def test_simulate_takes_a_profile_and_a_recorded_power(capsys, tmp_path):
    chat = document(capsys, "simulate", "--profile", str(RESOURCES / "workloads" / "chat.toml"), *PI)
    busy = document(capsys, "simulate", *PI)
    assert chat["tokens"]["median"] == pytest.approx(busy["tokens"]["median"] * 12 / 37, rel=0.1)
    file = tmp_path / "p.csv"
    file.write_text("time_s,power_w\n0,3\n10,9\n20,0\n")
    known = ["--power", "9W", "--speed", "10", "--idle", "3W"]
    made = document(capsys, "simulate", "--profile", str(file), "--hours", "0.1", *known)
    assert made["power_by_term_w"]["core"] == pytest.approx(3.0, rel=1e-6)
    assert "expected 4 (idle) to 9" in refused(capsys, "simulate", "--profile", str(file), *known[:5], "4W")


def test_simulate_takes_minutes_and_says_when_nothing_is_decoded(capsys, tmp_path):
    made = document(capsys, "simulate", "--hours", "3 min", *PI)
    assert made["ended_after_s"] == pytest.approx(180.0)
    rest = tmp_path / "rest.toml"
    rest.write_text("[[phase]]\nseconds = 1\nload_frac = 0", encoding="utf-8")
    assert main(["simulate", "--hours", "0.05", "--profile", str(rest), *PI]) == 0
    assert capsys.readouterr().out.startswith("Nothing is decoded in this run, at most ")


def test_simulate_prints_one_sentence_first(capsys):
    assert main(["simulate", "--hours", "1", "--ambient", "45", *PI]) == 0
    said = capsys.readouterr().out
    assert said.startswith("It throttles after ")
    assert "power covers: wall" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--hours", "0"], "hours: got 0"),
        (["--hours", "many"], "hours: got 'many'"),
        (["--ambient", "200"], "ambient: got 200"),
        (["--cooling", "water"], "expected one of bare, heatsink, fan"),
        (["--battery", "lots"], "battery: got 'lots'"),
        (["--battery", "0.005"], "battery: got 0.005, expected 0.01 Wh to"),
        (["--battery", "56Wh", "--cell", "x"], "cell: got 'x', expected one of molicel-p42a"),
        (["--cell", "molicel-p42a"], "cell: got no --battery"),
        (["--battery", "56Wh", "--series", "2.5"], "a whole number of cells"),
        (["--speed", "10"], "speed: got no --power"),
        (["--power", "0", "--speed", "10"], "power: got 0"),
        (["--power", "5W", "--speed", "10", "--idle", "6W"], "idle power: got 6 W, expected less"),
        (["--hours", "1000"], "hours: got 1000, expected 0.001 h to 72 h"),
        (["--hours=--"], "hours: got '--', expected a value"),
        (["--converter", "0"], "converter: got 0"),
        (["--profile", "gone.toml"], "gone.toml: cannot be read"),
        (["--board", "nope"], "board"),
        (["--max-temp", "300"], "max-temp: got 300"),
        (["--power-limit", "abc"], "power-limit: got 'abc'"),
        (["--power-limit=-5W"], "power_limit"),
        (["--power-limit", "nan"], "power-limit"),
    ],
)
def test_simulate_refuses_in_one_sentence(capsys, words, says):
    assert says in refused(capsys, "simulate", *words)


def test_a_junction_limit_and_a_power_limit_lower_the_sustained_speed(capsys):
    words = ["simulate", "--board", "raspberry_pi_5", "--runtime", "llamacpp_cpu", "--weights", "q4_k_m"]
    free, cool, held = (document(capsys, *words, *more) for more in ([], ["--max-temp", "60"], ["--power-limit", "5W"]))
    assert cool["peak_temp_c"]["median"] < 61.0 < free["peak_temp_c"]["median"]
    assert held["sustained_w"]["q95"] <= 5.0
    for limited in (cool, held):
        assert limited["sustained_tokens_s"]["median"] < free["sustained_tokens_s"]["median"]


# --- knee -------------------------------------------------------------------------------------------------------------


def test_knee_of_the_published_table(capsys):
    made = document(capsys, "lab", "knee", "--table", "mlu370", "--price", "2")
    clocks = {name: knee["clock_hz"] for name, knee in made["knees"].items()}
    assert clocks == {"performance_per_watt": 8e8, "energy_delay": 1.2e9, "envelope_bend": 1.2e9, "price": 1.2e9}
    assert made["knees"]["performance_per_watt"]["edge"] is True
    assert made["knees"]["energy_delay"]["edge"] is False


def test_knee_of_a_board_with_its_modes(capsys):
    words = ["--board", "jetson_orin_nano_8gb_super", "--model", "llama-3.2-3b", "--runtime", "llamacpp_gpu"]
    made = document(capsys, "lab", "knee", *words, "--weights", "q4_k_m", "--kv", "fp16")
    assert [row["power_mode"] for row in made["power_modes"]][:2] == ["MAXN", "25W"]
    assert any(row["on_front"] for row in made["power_modes"])
    assert made["knees"]["price"] == {"absent": "no price per watt was given"}
    knee = made["knees"]["energy_delay"]
    assert knee["q05_hz"] <= knee["clock_hz"] <= knee["q95_hz"]
    assert main(["lab", "knee", *words, "--weights", "q4_k_m", "--kv", "fp16"]) == 0
    assert "most work per watt" in capsys.readouterr().out


def test_knee_reads_a_file_and_refuses_what_has_no_power(capsys, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'name="m"\nclock_hz=[1e9,2e9,3e9]\npower_w=[1,2,9]\nthroughput=[1,1.9,2.4]\n[sources]\ndefault="me"\n'
    )
    assert document(capsys, "lab", "knee", "--table", str(file))["knees"]["envelope_bend"]["clock_hz"] == 2e9
    assert "voltages but no power" in refused(capsys, "lab", "knee", "--table", "rk3588_npu")
    assert "expected one of" in refused(capsys, "lab", "knee", "--table", "none")
    assert "spread: got" in refused(capsys, "lab", "knee", "--table", "mlu370", "--spread", "200%")


# --- schedule, realtime -----------------------------------------------------------------------------------------------


def test_schedule_of_the_model_of_a_point(capsys):
    one = document(capsys, "lab", "schedule", "--from-model", "--context", "512")
    assert [row["name"] for row in one["operations"]].count("attention") == 1
    assert one["makespan_s"] <= one["makespan_in_file_order_s"] * (1 + 1e-9)
    every = document(capsys, "lab", "schedule", "--from-model", "--layers", "all", "--budget", "10s", "--workers", "1")
    assert every["meets_deadline"] is True
    assert every["n_workers"] == 1
    decode = document(capsys, "predict")["decode_s"]["median"]
    assert every["makespan_s"] == pytest.approx(decode, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "got neither of a file and --from-model"),
        (["x.toml", "--from-model"], "got both"),
        (["--from-model", "--layers", "-1"], "expected a number or all"),
        (["--from-model", "--layers", "999"], "expected 1 to 30"),
        (["--from-model", "--budget", "3"], "expected a number and its unit"),
        ([str(RESOURCES / "examples" / "pipeline.toml"), "--budget", "3s"], "expected a graph"),
        ([str(RESOURCES / "examples" / "schedule.toml"), "--layers", "3"], "expected --from-model"),
    ],
)
def test_a_mistake_about_the_model_s_graph_is_one_sentence(words, said, capsys):
    assert main(["lab", "schedule", *words]) == 2
    assert said in capsys.readouterr().err


def test_schedule_of_the_example_graph(capsys):
    made = document(capsys, "lab", "schedule", str(RESOURCES / "examples" / "schedule.toml"))
    assert made["makespan_s"] <= made["makespan_in_file_order_s"] <= made["graham_bound_s"] * 2
    assert made["meets_deadline"] is True
    assert made["makespan_without_sharing_s"] <= made["graham_bound_s"]
    assert made["makespan_s"] >= made["lower_bound_s"]
    assert made["critical_path"][0] == "norm"
    one = document(capsys, "lab", "schedule", str(RESOURCES / "examples" / "schedule.toml"), "--workers", "1")
    assert one["makespan_s"] > made["makespan_s"]


def test_schedule_of_the_published_chain(capsys):
    made = document(capsys, "lab", "schedule", str(RESOURCES / "examples" / "pipeline.toml"))
    assert made["strict"] == {"starts": [0, 8, 20], "ends": [8, 20, 23], "makespan": 131}
    assert made["as_printed"] == {"starts": [0, 6, 18], "ends": [8, 18, 21], "makespan": 129}
    assert made["check"]


def test_a_chain_takes_no_workers_and_one_worker_is_not_many(capsys, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('[[stage]]\nname = "a"\nlength = 1', encoding="utf-8")
    assert "workers: got a number for a chain" in refused(capsys, "lab", "schedule", str(file), "--workers", "2")
    file.write_text('[[operation]]\nname = "a"\nlength_s = 1', encoding="utf-8")
    assert main(["lab", "schedule", str(file)]) == 0
    assert capsys.readouterr().out.startswith("s: 1.00 s on 1 worker\n")


def test_schedule_misses_a_deadline_with_status_1(capsys, tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('deadline_s = 1\n[[operation]]\nname="a"\nlength_s=2\n')
    assert document(capsys, "lab", "schedule", str(file), status=1)["operations"][0]["slack_s"] == -1
    assert "workers: got 0" in refused(capsys, "lab", "schedule", str(file), "--workers", "0")
    file.write_text('[[operation]]\nname="a"\nlength_s=2\nafter=["a"]\n')
    assert "cycle" in refused(capsys, "lab", "schedule", str(file))


def test_realtime_of_the_example(capsys):
    file = str(RESOURCES / "examples" / "realtime.toml")
    made = document(capsys, "lab", "realtime", file, "--kernel", "41.6ms", "--busy", "80%")
    assert made["all_meet"] is True
    assert all(row["worst_s"] == row["simulated_worst_s"] for row in made["tasks"])
    assert made["p99_kernel_wait_s"] == pytest.approx(41.6e-3 * (1 - 0.01 / 0.8))
    assert main(["lab", "realtime", file]) == 0
    assert "Every deadline is met" in capsys.readouterr().out


def test_realtime_says_what_is_late(capsys, tmp_path):
    file = tmp_path / "t.toml"
    file.write_text("[[task]]\nname='a'\ncost_s=5\nperiod_s=6\n[[task]]\nname='b'\ncost_s=5\nperiod_s=6\n")
    made = document(capsys, "lab", "realtime", str(file), status=1)
    assert made["tasks"][1]["worst_s"] == {"absent": "the processor is overloaded at this priority"}
    assert main(["lab", "realtime", str(file)]) == 1
    assert "missed by b" in capsys.readouterr().out
    assert "kernel: got" in refused(capsys, "lab", "realtime", str(file), "--kernel", "long")


def test_realtime_bounds_what_it_cannot_simulate(capsys, tmp_path):
    file = tmp_path / "t.toml"
    file.write_text("[[task]]\nname='a'\ncost_s=1e-9\nperiod_s=2e-9\n[[task]]\nname='b'\ncost_s=1\nperiod_s=3\n")
    made = document(capsys, "lab", "realtime", str(file))
    assert made["tasks"][1]["worst_s"] == pytest.approx(2.0)
    assert "too many to simulate" in made["tasks"][1]["simulated_worst_s"]["absent"]


# --- scenario ---------------------------------------------------------------------------------------------------------


def test_scenarios_are_listed_with_what_they_imply(capsys):
    made = document(capsys, "lab", "scenario")
    assert [row["key"] for row in made] == ["industrial", "v2x", "wearable"]
    assert made[0]["power_at_limits_w"] == pytest.approx(0.7083333333)


def test_scenario_judges_figures(capsys):
    figures = ["--accuracy", "0.95", "--latency", "100ms", "--energy", "60mJ"]
    made = document(capsys, "lab", "scenario", "industrial", *figures)
    assert made["score"] == pytest.approx(0.2556774209)
    assert made["feasible"] is True
    late = document(capsys, "lab", "scenario", "v2x", *figures, status=1)
    assert "latency by 186 %" in late["sentence"]


def test_scenario_judges_a_point_and_a_table(capsys, tmp_path):
    made = document(capsys, "lab", "scenario", str(RESOURCES / "examples" / "scenario.toml"))
    assert made["feasible"] is True
    file = tmp_path / "f.csv"
    file.write_text("accuracy_frac,latency_s,energy_j\n0.95,0.1,0.06\n0.93,0.11,0.08\n0.9,0.05,0.01\n")
    front = document(capsys, "lab", "scenario", "industrial", "--front", str(file))
    assert [row["feasible"] for row in front["rows"]] == [True, True, False]
    assert [row["on_front"] for row in front["rows"]] == [True, False, True]
    assert front["best_row"] == 1
    assert 0 < front["hypervolume_frac"] < 1
    assert main(["lab", "scenario", "industrial", "--front", str(file)]) == 0
    assert "2 of 3 rows meet" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["nope"], "expected one of industrial, v2x, wearable, or a file"),
        (["v2x", "--accuracy", "0.9"], "expected all three or none"),
        (["v2x", "--accuracy", "2000%", "--latency", "1s", "--energy", "1J"], "accuracy: got"),
        (["v2x", "--accuracy", "1", "--latency", "1e308s", "--energy", "1J"], "latency: got 1e308s"),
        (["v2x", "--front", "gone.csv"], "gone.csv: cannot be read"),
        (["v2x", "--front", ""], "cannot be read"),
        (["v2x", "--front", "gone.csv", "--accuracy", "0.9"], "expected one of the two"),
        (["--accuracy", "0.9"], "scenario: got none, expected one"),
        (["x" * 400], "expected one of industrial"),
    ],
)
def test_scenario_refuses_in_one_sentence(capsys, words, says):
    assert says in refused(capsys, "lab", "scenario", *words)
