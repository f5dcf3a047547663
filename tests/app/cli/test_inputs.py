"""Inputs without an end, and outputs without room: one sentence with the reason, and nothing half written."""

import json
import os
import threading
from pathlib import Path

import pytest

from app.cli import main

TEST = {"n_prompt": 0, "n_gen": 128, "samples_ns": [1e9, 1.1e9], "cpu_info": "Pi 5", "model_type": "llama 1B Q4_0"}
TABLE = "board_key,compute,runtime,model,quant,decode_ms_per_tok\nrk3588,npu,rkllm,qwen2-1.5b,w8a8,60\n"
READERS = [
    *(["data", "import"], ["data", "validate"], ["data", "validate", "--perplexity"], ["data", "learn"]),
    *(["lab", "schedule"], ["lab", "realtime"], ["lab", "thermal"], ["lab", "scenario", "industrial", "--front"]),
    *(["lab", "scenario"], ["replay"], ["simulate", "--profile"], ["quality", "--alpha", "0.5", "--text"]),
    *(["data", "export"], ["gui", "--preset"], ["measure", "--model-file"], ["models"]),
]


def refused(capsys, words):
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device without an end")
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_device_without_an_end_is_refused(words, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("core.catalogue.text_files.MOST_BYTE", 1 << 20)
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    more = [tmp_path / "x.csv"] if words == ["data", "export"] else []
    refused(capsys, [*words, "/dev/zero", *more])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_all_that_a_command_prints_is_imported_through_a_pipe(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    content = json.dumps([TEST] * 2000)  # more than a pipe holds
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(content,))
    writer.start()
    assert main(["data", "import", str(tmp_path / "pipe"), "--into", str(tmp_path / "t.csv"), "--json"]) == 0
    writer.join()
    assert json.loads(capsys.readouterr().out)["n_read"] == 2000


@pytest.mark.parametrize(
    "words",
    [
        ["data", "import", "table.csv", "--into"],
        ["data", "learn", "table.csv", "--into"],
        ["agent", "--save"],
        ["record", "this"],
    ],
    ids=" ".join,
)
def test_an_output_that_cannot_be_written_names_the_reason(words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text(TABLE, encoding="utf-8")
    Path("file").touch()
    said = refused(capsys, [*words, Path("file") / "out"])
    assert "not a directory" in said or "file exists" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "table.csv"]


def test_a_table_larger_than_the_sample_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("app.cli.data.published_table.MOST_ROWS", 8)
    heading, row = TABLE.splitlines()
    (tmp_path / "t.csv").write_text("\n".join([heading, *[row] * 30, row + "x"]), encoding="utf-8")
    assert main(["data", "validate", str(tmp_path / "t.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_rows"], found["n_problems"], len(found["problems"])) == (31, 1, 1)
    assert found["n_compared"] == found["n_sampled"] <= 8
    assert main(["data", "validate", str(tmp_path / "t.csv")]) == 0
    assert capsys.readouterr().out.startswith("30 valid rows, of which ")
