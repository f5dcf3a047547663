"""`trilemma compensate` and `parameters`: sets made, saved, installed, live for points that ask for them, undone."""

import json
import subprocess
import sys

import pytest

from app import LAUNCHER
from app.cli import main
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.transport import LocalTransport
from app.library.measurements import load_measurements
from app.library.records import point_record
from app.parameter_set import ParameterSet, install
from core.spec import OperatingPoint
from tests.tiny_gguf import WIDE_HEADS, write_tiny_gguf

POINT = point_record(OperatingPoint(context_tokens=32.0, weights="int8"))
WORDS = ["compensate", "--weights", "int8", "--context", "32", "--windows", "2"]


@pytest.fixture(autouse=True)
def data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--windows", "1"), "windows: got 1, expected 2 to 32"),
        (("--windows", "99"), "windows: got 99, expected 2 to 32"),
        (("--compensation", "none"), "compensation: got none, expected offsets, feedback or both"),
        (("--compensation", "twice"), "compensation is 'twice'"),
        (("--weights", "fp32"), "weights: got fp32, expected a quantised format"),
        (("--weights", "q4_k_m"), "own decoder runs weights in"),
        (("--board", "rk3588"), "is not attached"),
    ],
)
def test_what_cannot_be_compensated_is_one_sentence(capsys, words, says):
    assert main(["compensate", *words]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_a_set_is_made_and_read_by_points_that_ask_for_it_until_it_is_rolled_back(capsys, tmp_path, data_dir):
    file = str(write_tiny_gguf(tmp_path / "wide.gguf", sizes=WIDE_HEADS))
    assert main([*WORDS, "--compensation", "offsets", "--model-file", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["point"]["compensation"], found["live"]["epoch"]) == ("offsets", "offsets", 1)
    assert found["live"]["crc"] == found["installed"]["crc"] == found["conditions"]["parameters"]["crc"]
    assert found["live"]["context"]["weights"] == "int8"
    assert found["change"]["decode_ratio"]["median"] > 0
    (saved,), notes = load_measurements(data_dir / "measurements.jsonl", None)
    assert (saved.point.compensation, saved.body["compensation"]["kind"], notes) == ("offsets", "offsets", [])

    with AttachedBoard(LocalTransport) as board:
        assert board.hello["parameters"]["epoch"] == 1

        def kl(compensation, **changes):
            point = {**POINT, "compensation": compensation, **changes}
            body = board.measure(point, ("quality",), lambda done, text: None, model_file=file)
            return body["mean_kl"]["median"]

        plain, live = kl("none"), kl("offsets")
        assert live != plain
        with pytest.raises(LinkError, match="the live set is for weights int8, this point has int4"):
            kl("offsets", weights="int4")
        assert (kl("none"), kl("offsets")) == (plain, live)
        board.parameters("rollback", {})
        assert kl("none") == plain
        with pytest.raises(LinkError, match="parameters: no set is live on this board, compensation offsets needs one"):
            kl("offsets")


# --- trilemma parameters

MADE_FOR = {"chip": "A chip", "version": "1.0", "model": "m 1f", "weights": "int4", "compensation": "both"}
NEW = ParameterSet(MADE_FOR, 0.5, (0.25,) * 700)  # a message and a half


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
    said = command("--save", copy).stdout
    assert "Live: 700 channels for int4 weights of m 1f (compensation both), made on A chip" in said
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
