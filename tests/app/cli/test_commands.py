"""The command line's own behaviour: what it says when its output or its user goes away."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import trilemma
from app import LAUNCHER
from app.cli import COMMANDS, GROUPS, MOVED, _module, _parsed, known, main
from app.cli.shared.output import print_json, print_table, printable_output

FULL = Path("/dev/full")


def command(*words, stdout=subprocess.PIPE, **environment):
    return subprocess.run(
        [sys.executable, str(LAUNCHER), *words],
        env={**os.environ, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")
@pytest.mark.parametrize("command_name", ["predict", "boards"])
def test_output_to_a_full_disk_is_one_sentence(command_name):
    with FULL.open("wb") as full:
        done = command(command_name, stdout=full)
    assert done.returncode == 1
    assert done.stderr.decode() == f"trilemma {command_name}: no space left on device for the output\n"


def test_a_terminal_without_our_characters_is_still_told_the_numbers():
    done = command("predict", "--context", "2048", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"2?048 tokens of context" in done.stdout


def test_json_keeps_all_characters_in_any_encoding(monkeypatch):
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, encoding="ascii"))
    print_json({"board": "Gerät 派"})
    sys.stdout.flush()
    assert held.getvalue().isascii()
    assert json.loads(held.getvalue()) == {"board": "Gerät 派"}


def test_control_c_before_the_command_began_is_no_traceback(monkeypatch, capsys):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("app.cli.main", interrupted)
    monkeypatch.setattr("app.stopping.SIGNALS", ())  # those of the tests stay as they are
    assert trilemma.main() == 130
    assert capsys.readouterr().err == "trilemma: stopped\n"


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes descriptors")
@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors_neither_end_a_command_nor_take_a_file(closed, tmp_path):
    words = [sys.executable, str(LAUNCHER), "parameters", "--attach", "sim:rk3588", "--json"]
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(tmp_path)}
    argv = ["/bin/sh", "-c", f"exec {shlex.join(words)} {closed}"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1 if ">&- " in closed else 0, "")  # without an output it is a failure
    assert done.stdout == "" if " >&-" in f" {closed}" else json.loads(done.stdout)["live"]["state"] == "idle"


NAMES = [(name,) for name in (*COMMANDS, "bench")] + [(group, name) for group in GROUPS for name in GROUPS[group][1]]


@pytest.mark.parametrize("name", NAMES, ids=" ".join)
def test_every_example_in_the_help_of_a_command_can_be_typed(name):
    lines = re.findall(r"^  trilemma (.*?)(?: {3,}.*| > .*)?$", _module(name).EXAMPLES, re.M)
    assert any(line.startswith(" ".join(name)) for line in lines)
    for line in lines:
        words = shlex.split(line)
        named = known(words)
        assert named[0] == words[0]
        assert _parsed(named, words).command == " ".join(named)


@pytest.mark.parametrize("name", MOVED)
def test_the_old_name_of_a_command_works_and_names_the_new_one(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    out, err = capsys.readouterr()
    assert err == f"trilemma {name} is now trilemma {MOVED[name]} {name}\n"
    with pytest.raises(SystemExit):
        main([MOVED[name], name, "--help"])
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("words", [["lab"], ["data", "toaster"], ["lab", "predict"]])
def test_a_group_without_one_of_its_commands_is_a_usage_error(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_output_that_is_closed_is_one_sentence():
    words = [sys.executable, str(LAUNCHER), "sweep", "--over", "alpha=0,0.5"]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], stderr=subprocess.PIPE, timeout=120, check=False)
    sentence = b"trilemma sweep: standard output is closed: expected a terminal, a file or a pipe\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_errors_do_not_reach_the_output_where_standard_error_is_closed():
    words = [sys.executable, str(LAUNCHER), "predict", "--board", "toaster"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *words], stdout=subprocess.PIPE, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")


HOSTILE = "a\x1b[2J\x9b31m\u202eb\u2028\ud800\r"


def test_no_character_of_a_name_steers_the_terminal(capsys):
    with printable_output():
        print(HOSTILE)
        print(HOSTILE, file=sys.stderr)
        print_table([("BOARD", "N"), (HOSTILE + "\nforged", "1")])
    out, err = capsys.readouterr()
    escaped = r"a\x1b[2J\x9b31m\u202eb\u2028\ud800\r"
    assert err == escaped + "\n"
    assert out.splitlines()[0] == escaped
    assert len(out.splitlines()) == 3  # a name with an end of line is one row


def test_json_of_any_name_and_number_can_be_read_by_others(capsys):
    with printable_output():
        print_json({HOSTILE: HOSTILE + "\U000e0041", "margin": float("-inf"), "all": [float("nan"), 1.0]})
    out = capsys.readouterr().out

    def refuse(token):
        raise AssertionError(token)

    document = json.loads(out, parse_constant=refuse)
    assert document[HOSTILE] == HOSTILE + "\U000e0041"
    assert out.replace("\n", "").isprintable()
    assert document["margin"] == {"absent": "not a finite number (-inf)"}
    assert document["all"][1] == 1.0


@pytest.mark.parametrize("word", ["a\0b", "a\ud800b"])
def test_an_argument_that_is_no_text_is_one_sentence(word, capsys):
    for words in (
        ["record", "this", word],
        ["agent", "--save", word],
        ["gui", "--preset", word],
        ["gui", f"--screenshot={word}"],
        ["data", "import", word],
        ["predict", "--board", f"{word}.toml"],
    ):
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert "expected text without NUL" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["predict", "--beta", "1e-320"], "beta is 9.99989e-321: expected 0.001 to 1000"),
        (["sweep", "--over", "beta=1e308"], "beta = 1e+308 is outside [0.001, 1000]"),
        (["sweep", "--over", "alpha=0,0.5", "--pareto", ""], "objective '' is none of latency"),
        (["data", "validate", ""], "table: got '', expected the name of a file"),
        (["models", "toaster"], "such as"),
    ],
)
def test_what_cannot_be_is_one_sentence(words, said, capsys):
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_a_table_without_a_row_is_said_by_its_own_name(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    table = tmp_path / "t.csv"
    table.write_text("board_key,compute,runtime,model,quant,decode_tok_s\n")
    assert main(["data", "import", str(table)]) == 2
    assert capsys.readouterr().err == f"trilemma data import: {table}: got no row that can be used (it has none)\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    "words",
    [("lab", "schedule"), ("lab", "clock"), ("simulate",), ("data", "learn"), ("data", "validate")],
)
def test_the_example_files_that_the_help_names_are_there_from_any_folder(words, tmp_path, monkeypatch, capsys):
    for folder in (LAUNCHER.parent, tmp_path):
        monkeypatch.chdir(folder)
        with pytest.raises(SystemExit):
            main([*words, "--help"])
        named = re.findall(r"\S*resources/[a-z]+/[a-z_]+\.(?:toml|csv)", capsys.readouterr().out)
        assert named
        assert all(Path(name).is_file() for name in named)
