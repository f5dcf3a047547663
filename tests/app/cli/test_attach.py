"""`attach`, `pair` and the options that name a board, as a user types them."""

import json
import os
import subprocess
import sys

import pytest

from app import LAUNCHER, VERSION
from app.protocol import MINOR
from app.protocol import VERSION as PROTOCOL


def trilemma(tmp_path, *words):
    env = {
        **os.environ,
        "TRILEMMA_DATA_DIR": str(tmp_path),
        "SSH_ASKPASS": "/bin/false",
        "SSH_ASKPASS_REQUIRE": "force",
    }
    argv = [sys.executable, str(LAUNCHER), *words]
    return subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_probe_says_what_the_board_is_and_ends(tmp_path, ssh_server):
    done = trilemma(tmp_path, "attach", "jumped", "--ssh-config", str(ssh_server.config), "--probe", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["target"] == "jumped"
    assert report["agent"] == {"version": VERSION, "protocol": f"{PROTOCOL}.{MINOR}"}
    assert report["simulated"] is False
    assert report["board"]["n_threads"] == os.cpu_count()
    assert 0 < report["attach_s"] < 60
    assert abs(report["clock"]["offset_s"]) <= report["clock"]["bound_s"] < 1
    assert "memory.available_byte" in {channel["key"] for channel in report["channels"] if "absent" not in channel}
    assert all(channel.get("absent", "x") for channel in report["channels"])


def test_a_probe_prints_a_table_too(tmp_path):
    done = trilemma(tmp_path, "attach", "this", "--probe")
    assert done.returncode == 0, done.stderr
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert words[:3] == ["board", "attached", "agent"]
    assert "clock" in words
    assert "memory.available_byte" in words


@pytest.mark.parametrize(
    "command", [("attach", "{}", "--probe"), ("measure", "--attach", "{}"), ("calibrate", "--attach", "{}")]
)
def test_a_board_that_cannot_be_attached_ends_in_one_sentence(tmp_path, ssh_server, command):
    words = [word.format("nopython") for word in command]
    done = trilemma(tmp_path, *words, "--ssh-config", str(ssh_server.config))
    assert done.returncode == 2
    assert done.stderr == f"trilemma {words[0]}: there is no python3 on nopython: expected Python 3.8 or newer\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("attach", "a;b", "--probe"), "expected [user@]host"),
        (("attach", "this", "--json"), "--json requires --probe"),
        (("measure", "--attach", "/no/such/file"), "there is no such file"),
        (("attach", "https://orin", "--probe"), "https:// is no way to a board"),
        (("attach", "a" * 300 + ".trilemma", "--probe"), "its name cannot be resolved"),
        (("gui", "--attach", "tcp://far:1"), "expected localhost"),
        (("pair", "a b"), "expected [user@]host"),
        (("agent", "--bind", "127.0.0.1:1"), "expected trilemma agent serve --bind"),
        (("agent", "--allow-control"), "expected trilemma agent serve --allow-control"),
        (("attach", "orin", "--probe", "--ssh-config", "/no/such"), "expected a configuration file of ssh"),
    ],
)
def test_what_is_asked_for_wrongly_is_one_sentence(tmp_path, words, says):
    done = trilemma(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_pairing_that_fails_says_why_and_leaves_nothing(tmp_path, ssh_server):
    done = trilemma(tmp_path, "pair", "nopython", "--ssh-config", str(ssh_server.config))
    assert done.returncode == 2
    assert done.stderr == "trilemma pair: there is no python3 on nopython: expected Python 3.8 or newer\n"
    assert not (tmp_path / "pairings").exists()


def test_a_probe_is_printed_where_the_disk_takes_no_record(tmp_path):
    (tmp_path / "file").touch()
    done = trilemma(tmp_path / "file" / "data", "attach", "sim:rk3588", "--probe", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["simulated"] is True
    (sentence,) = done.stderr.splitlines()
    assert "cannot be written" in sentence
    assert sentence.endswith("predictions will not know this board")


def test_a_configuration_that_ssh_would_read_for_ever_is_refused(tmp_path):
    done = trilemma(tmp_path, "attach", "board", "--probe", "--ssh-config", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"trilemma attach: {tmp_path}: not a file (a folder, a pipe or a device): expected ssh's configuration\n"
    )
