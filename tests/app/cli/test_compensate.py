"""`trilemma compensate`, and compensated points of the real agent: refused, live, rolled back."""

import json

import pytest

from app.cli import main
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.transport import LocalTransport
from app.library.measurements import load_measurements
from app.library.records import point_record
from core.spec import OperatingPoint
from tests.tiny_gguf import WIDE_HEADS, write_tiny_gguf

POINT = point_record(OperatingPoint(context_tokens=32.0, weights="int8"))
WORDS = ["compensate", "--weights", "int8", "--context", "32", "--windows", "2"]


@pytest.fixture(autouse=True)
def data_dir(monkeypatch, tmp_path):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
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
