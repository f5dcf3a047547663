"""A log of tegrastats becomes a recording, whose heat path and rhythms can be told."""

import json

import numpy as np
import pytest

from app.cli import main
from app.library.imports.tegrastats_log import read_log

LINE = (
    "{date}RAM 2145/7433MB (lfb 2x4MB) SWAP 0/3716MB (cached 0MB) CPU [14%@1510,10%@1510] EMC_FREQ 0%@2133 "
    "GR3D_FREQ {load}%@[1020] CPU@43C TJ@{temp:.2f}C VDD_IN {power}mW/5980mW VDD_SOC 1437mW/1317mW"
)


def log(n=600, step_s=0.2, dated=True, rest=200, period=5.0):
    lines = []
    for i in range(n):
        s = int(i * step_s)
        date = f"04-19-2026 05:{12 + s // 60:02d}:{s % 60:02d} " if dated else ""
        t = (i - rest) * step_s
        rise = 7.0 * 3.0 * (1.0 - np.exp(-t / 20.0)) if t > 0 else 0.0
        load = round(50 + 40 * np.sin(2 * np.pi * i * step_s / period))
        lines.append(LINE.format(date=date, load=load, temp=40.0 + rise, power=9500 if t > 0 else 2500))
    return lines


@pytest.fixture
def recording(tmp_path, capsys):
    lines = log()
    lines.insert(5, "NvMap: a message of the kernel")
    (tmp_path / "t.log").write_text("\n".join(lines))
    into = tmp_path / "t.trilemma"
    assert main(["data", "import", str(tmp_path / "t.log"), "--into", str(into)]) == 0
    assert "line 6: got no fields of tegrastats; left out" in capsys.readouterr().err
    return into


def test_it_is_replayed_with_its_dates_and_rails(recording, capsys):
    assert main(["replay", str(recording), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_records"] == 600
    assert "2026-04-19T05:12:00" in json.dumps(found)


def test_its_heat_path_is_fitted_to_the_power_of_the_whole_board(recording, capsys):
    words = ["lab", "thermal", str(recording), "--temperature", "tegrastats.tj.temp_c", "--poles", "1", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"]["power"] == "tegrastats.vdd_in.power_w"
    assert found["poles"][0]["resistance_k_w"]["median"] == pytest.approx(3.0, rel=0.1)
    assert found["poles"][0]["tau_s"]["median"] == pytest.approx(20.0, rel=0.1)


def test_its_rhythm_is_told_and_a_faster_load_folded(recording, capsys):
    assert main(["lab", "sampling", str(recording), "--period", "217ms", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["interval_s"] == pytest.approx(0.2, rel=0.01)
    assert found["channels"]["tegrastats.gpu.busy_frac"]["period_s"] == pytest.approx(5.0, rel=0.05)
    assert found["channels"]["tegrastats.gpu.busy_frac"]["amplitude"] == pytest.approx(0.4, rel=0.1)
    assert found["seen_period_s"] == pytest.approx(2.553, rel=0.1)
    assert main(["lab", "sampling", str(recording), "--period", "128ms"]) == 0
    assert "sample faster to see it" in capsys.readouterr().out


def test_times_follow_the_dates_over_a_gap_and_the_interval_without_dates():
    lines = log(100)
    del lines[50:75]
    found = read_log("\n".join(lines), 0.2)
    assert found.time_s[49] == pytest.approx(9.8)
    assert found.time_s[50] == pytest.approx(15.0)
    assert np.all(np.diff(found.time_s) > 0.0)
    bare = read_log("\n".join(log(10, dated=False)))
    assert (bare.interval_s, bare.began) == (1.0, None)
    assert read_log("\n".join(log(10, dated=False)), 0.1).time_s[-1] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (LINE.format(date="", load=1, temp=1.0, power=1), ["--into", "x.trilemma"], "got 1 lines of it"),
        ("", ["--interval", "1s", "--into", "x.trilemma"], "got 0 lines of it"),
        ("\n".join(log(5)), [], "--into: got nothing, expected a new file *.trilemma"),
        ("\n".join(log(5)), ["--into", "x.csv"], "--into: got x.csv"),
        ("\n".join(log(5)), ["--into", "x.trilemma", "--interval", "0s"], "interval"),
        ("\n".join(log(5)), ["--into", "x.trilemma", "--interval", "nan"], "interval"),
        ("\n".join(log(5)), ["--into", "x.trilemma", "--board", "orin"], "apply to tables"),
    ],
)
def test_what_cannot_be_taken_is_one_sentence(tmp_path, monkeypatch, capsys, content, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.log").write_text(content)
    assert main(["data", "import", "t.log", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("x.*"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected either a recording or --interval"),
        (["--interval", "200ms"], "period: got nothing"),
        (["--interval", "0s", "--period", "1s"], "interval"),
        (["--interval", "200", "--period", "1s"], "interval"),
        (["missing.trilemma"], "missing.trilemma"),
    ],
)
def test_lab_sampling_says_what_it_needs(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "sampling", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
