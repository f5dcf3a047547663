"""`trilemma quality --texts`: what is refused, each in one sentence."""

import json

import pytest

from app.cli import main

SERVED = ("--runtime", "llamacpp_cpu", "--model", "smollm2-135m", "--weights", "q4_1")


def refused(capsys, *words):
    assert main(["quality", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


@pytest.fixture
def texts(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
    path = tmp_path / "texts.csv"
    path.write_text("prompt,reference\nSay hello., Hello.\n")
    return str(path)


def test_mistakes_are_refused_before_a_board_is_asked(texts, tmp_path, capsys):
    assert "give --runtime" in refused(capsys, "--texts", texts)
    assert "no such file" in refused(capsys, "--texts", str(tmp_path / "none.csv"), *SERVED)
    assert "is a directory" in refused(capsys, "--texts", str(tmp_path), *SERVED)
    assert "tokens: got 0" in refused(capsys, "--texts", texts, "--tokens", "0", *SERVED)
    assert "tokens: got -3" in refused(capsys, "--texts", texts, "--tokens=-3", *SERVED)
    assert "tokens: got 100000" in refused(capsys, "--texts", texts, "--tokens", "100000", *SERVED)
    assert "give that file too" in refused(capsys, "--reference", texts)
    assert "one column prompt" in refused(capsys, "--texts", _file(tmp_path, "x.csv", "a,b\n1,2\n"), *SERVED)


def test_another_document_is_no_reference_run(texts, tmp_path, capsys):
    token = {"token": "a", "log_probability": -1.0, "listed": True, "first": True, "top": {"a": -1.0}}
    answer = {"prompt": "Say hello.", "reference": " Hello.", "text": "x", "tokens": [token]}
    for whole, says in (
        ("{}", "another document"),
        ("[", "another document"),
        (json.dumps({"answers": [{**answer, "prompt": "other"}]}), "a run of other texts"),
        (json.dumps({"answers": [{**answer, "tokens": [{**token, "top": {"a": 3.0}}]}]}), "without probabilities"),
    ):
        path = _file(tmp_path, "reference.json", whole)
        assert says in refused(capsys, "--texts", texts, "--reference", path, *SERVED)


def test_a_simulated_board_and_a_board_without_the_runtime_say_so(texts, capsys, monkeypatch, tmp_path):
    sim = ("--attach", "sim:rk3588", "--runtime", "rkllm_npu", "--weights", "w8a8")
    assert "texts is not simulated" in refused(capsys, "--texts", texts, *sim)
    monkeypatch.setenv("TRILEMMA_RUNTIMES", str(tmp_path / "none.json"))
    assert "not configured on this board" in refused(capsys, "--texts", texts, *SERVED)


def _file(folder, name, whole):
    path = folder / name
    path.write_text(whole)
    return str(path)
