"""`trilemma parameters` over the link of a real agent: installed, saved, rolled back, and files that are none."""

import json
import subprocess
import sys

import pytest

from app import LAUNCHER
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.transport import LocalTransport
from app.parameter_set import ParameterSet, install

MADE_FOR = {"chip": "A chip", "version": "1.0", "model": "m 1f", "weights": "int4", "compensation": "both"}
NEW = ParameterSet(MADE_FOR, 0.5, (0.25,) * 700)  # a message and a half


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    return tmp_path


def command(*words):
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), "parameters", *map(str, words)], capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    return done


def test_a_set_is_installed_over_the_link_saved_and_rolled_back(data_dir):
    file, copy = data_dir / "a.set", data_dir / "b.set"
    file.write_bytes(NEW.encode())
    assert "No parameter set is live" in command().stdout
    assert "no set is live on this board" in command("--save", copy).stderr
    for epoch in (1, 2):
        found = json.loads(command("--install", file, "--json").stdout)
        assert (found["live"]["epoch"], found["live"]["n_channels"], found["live"]["state"]) == (epoch, 700, "idle")
        assert found["live"]["context"] == MADE_FOR
        assert found["installed"]["n_message"] == 2
        assert 0 < found["installed"]["set_s"] < found["installed"]["total_s"]
    assert "Live: 700 channels for int4 weights of m 1f, made on A chip" in command("--save", copy).stdout
    assert copy.read_bytes() == file.read_bytes()
    assert json.loads(command("--rollback", "--json").stdout)["live"]["epoch"] == 1
    assert json.loads(command("--rollback", "--json").stdout)["live"]["n_channels"] is None
    refused = command("--rollback")
    assert (refused.returncode, "there is nothing to roll back" in refused.stderr) == (2, True)


def test_the_article_s_3072_channels_go_over_the_link(data_dir):
    wanted = ParameterSet(MADE_FOR, 0.05, tuple(0.01 * (i + 1) for i in range(3072)))
    with AttachedBoard(LocalTransport) as board:
        found = install(board.parameters, wanted)
        assert board.parameters("status", {})["n_channels"] == 3072
        with pytest.raises(LinkError, match="verify belongs to the state receiving"):
            board.parameters("verify", {"crc": 1})
    assert (found.n_message, found.payload_byte) == (7, len(wanted.encode()))  # 12288 bytes of them channels


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"gain = 0.5", "the set of 10 bytes does not begin with b'TLP2'"),
        (NEW.encode()[:-1], "the set says 700 channels in"),
        (NEW._replace(gain=3.0).encode(), "the set has the gain 3, expected 0 < gain < 2"),
    ],
)
def test_a_wrong_file_is_refused_before_a_board_is_asked(data_dir, content, words):
    path = data_dir / "wrong.set"
    path.write_bytes(content)
    done = command("--install", path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "expected a file that trilemma parameters --save has written" in done.stderr
    missing = command("--install", data_dir / "none.set").stderr
    assert missing.endswith("none.set: cannot be read: no such file or directory, expected a file of --save\n")
    assert "not a file" in command("--install", data_dir).stderr
