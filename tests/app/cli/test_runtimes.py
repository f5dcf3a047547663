"""`trilemma runtimes`."""

import json
import subprocess
import sys

import pytest

from app import LAUNCHER
from app.cli.runtimes import unknown
from core.catalogue.load import load_catalogue


def runtimes_command(monkeypatch, path, *words):
    monkeypatch.setenv("TRILEMMA_RUNTIMES", str(path))
    done = subprocess.run(
        [sys.executable, str(LAUNCHER), "runtimes", *words], capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_command_lists_what_is_configured_and_what_the_catalogue_lacks(monkeypatch, tmp_path):
    path = tmp_path / "runtimes.json"
    path.write_text(
        '[{"runtime": "rkllm_npu", "kind": "rkllm", "model": "a-model", "argv": ["demo"]}]', encoding="utf-8"
    )
    done = runtimes_command(monkeypatch, path, "--json")
    (found,) = json.loads(done.stdout)["runtimes"]
    assert found["where"] == "rkllm (demo)"
    assert found["unknown"] == "model a-model is not in the catalogue, so it has no prediction"
    assert done.returncode == 1


def test_a_wrong_file_on_the_board_is_told_and_an_absent_one_is_none(monkeypatch, tmp_path):
    assert "No runtime is configured" in runtimes_command(monkeypatch, tmp_path / "none.json").stdout
    path = tmp_path / "runtimes.json"
    path.write_text("[", encoding="utf-8")
    done = runtimes_command(monkeypatch, path)
    assert "The file of runtimes is invalid, none is used: " in done.stdout
    assert "is not JSON: expected a list of runtimes" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(("weights", "known"), [("F16", True), ("Q4_K - Medium", True), ("awq", True), ("zz9", False)])
def test_formats_of_an_entry_are_written_as_people_write_them(weights, known):
    entry = {"runtime": "vllm_gpu", "model": "llama-3.2-1b", "weights": weights, "kv": "f16"}
    assert bool(unknown(entry, load_catalogue())) != known
