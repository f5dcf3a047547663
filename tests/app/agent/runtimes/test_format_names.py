"""Sixty names of formats, as each runtime says them, measured and kept: a name costs a note, never the measurement."""

import json
import subprocess
import sys
import threading

import pytest

from app import LAUNCHER
from app.agent.runtimes.drivers import Drivers
from app.agent.runtimes.entry import parse_entries
from app.campaign.plan import SPEED, Run
from app.campaign.recipe import measured
from app.cli.shared.measured_table import table_row
from app.library.axes import exists
from app.library.board_library import BoardLibrary
from app.library.calibration import measured_points
from app.library.measurements import Measurement, append_measurement, load_measurements
from app.model.attached_board import AttachedBoard
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.usefixtures("quick")
CATALOGUE = load_catalogue()
KNOWN = {
    **{"all F32": "fp32", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "(guessed) F16": "fp16"},
    **{"all F32 (guessed)": "fp32", "(guessed) all F32": "fp32", "(guessed) Q8_0": "q8_0", "Q8_0 (guessed)": "q8_0"},
    **{"Q4_0": "q4_0", "Q4_1": "q4_1", "Q5_0": "q5_0", "Q5_1": "q5_1", "Q8_0": "q8_0", "Q6_K": "q6_k"},
    **{"mostly Q4_0": "q4_0", "mostly Q4_1, some F16": "q4_1", "Q4_0_4_4": "q4_0", "Q4_0_8_8": "q4_0"},
    **{"MXFP4 MoE": "mxfp4", "MXFP4": "mxfp4", "mxfp4": "mxfp4", "NVFP4": "nvfp4", "nvfp4": "nvfp4"},
    **{"Q2_K - Medium": "q2_k", "Q2_K": "q2_k", "Q3_K - Small": "q3_k_s", "Q3_K - Medium": "q3_k_m"},
    **{"Q3_K - Large": "q3_k_l", "Q3_K_L": "q3_k_l", "Q4_K - Small": "q4_k_s", "Q4_K - Medium": "q4_k_m"},
    **{"Q4_K_M": "q4_k_m", "Q5_K - Small": "q5_k_s", "Q5_K - Medium": "q5_k_m", "Q5_K_M": "q5_k_m"},
    **{
        "Q1_0": "q1_0",
        "TQ1_0 - 1.69 bpw ternary": "tq1_0",
        "TQ2_0 - 2.06 bpw ternary": "tq2_0",
        "IQ1_S - 1.5625 bpw": "iq1_s",
    },
    **{"IQ1_M - 1.75 bpw": "iq1_m", "IQ2_XXS - 2.0625 bpw": "iq2_xxs", "IQ2_XS - 2.3125 bpw": "iq2_xs"},
    **{"IQ2_S - 2.5 bpw": "iq2_s", "IQ2_M - 2.7 bpw": "iq2_m", "IQ3_XXS - 3.0625 bpw": "iq3_xxs"},
    **{"IQ3_XS - 3.3 bpw": "iq3_xs", "IQ3_S - 3.4375 bpw": "iq3_s", "IQ3_S mix - 3.66 bpw": "iq3_m"},
    **{"IQ4_NL - 4.5 bpw": "iq4_nl", "IQ4_XS - 4.25 bpw": "iq4_xs", "IQ4_XS": "iq4_xs"},
    **{"awq": "w4a16_g128", "gptq_marlin": "w4a16_g128", "fp8": "fp8", "w8a8": "w8a8", "W4A16_G128": "w4a16_g128"},
    **{"int4 awq block-128": "w4a16_g128", "q4f16": "q4f16", "UD-Q4_K_XL": "q4_k_m"},
}
UNKNOWN = {
    **{"IQ4_KSS - 4.0 bpw": "iq4_kss", "IQ2_KT - 2.125 bpw": "iq2_kt", "mxfp8": "mxfp8"},
    **{"4bit": "4bit", "8-bit g64": "8_bit_g64", "compressed-tensors": "compressed_tensors"},
    **{"unknown, may not work": "unknown_may_not_work", "ZZ9 plural": "zz9_plural"},
}
ASKED = "q6_k"
NAMES = [*KNOWN.items(), *UNKNOWN.items()]
LLAMA_BENCH = """
import json, sys
given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
n_prompt, n_gen, n_depth = (int(given.get(name, 0)) for name in ("-p", "-n", "-d"))
kind = "deepseek2 16B " + given["--says"]
test = {"model_type": kind, "n_prompt": n_prompt, "n_gen": n_gen, "n_depth": n_depth, "samples_ns": [9e7] * 5}
print("[ggml] a line before\\nload_backend: loaded {CPU}", json.dumps([test], indent=2), "done", sep="\\n")
"""


def n_words(message):
    return len(message["prompt"].split())


def ollama(name):
    def answer(path, message):
        if path == "/api/version":
            return 200, [{"version": "0.40.12"}]
        if path == "/api/show":
            return 200, [{"details": {"quantization_level": name}}]
        n = message["options"]["num_predict"]
        last = {"done": True, "prompt_eval_count": n_words(message), "eval_count": n}
        return 200, [*({"response": "a", "done": False} for _ in range(n)), last]

    return answer


def llama_server(name):
    def answer(path, message):
        if path in ("/health", "/props"):
            return 200, [{"model_ftype": name, "total_slots": 1}]
        if path == "/tokenize":
            return 200, [{"tokens": list(range(len(message["content"]) // 4))}]
        n = message["n_predict"]
        pieces = [{"content": "a", "tokens_predicted": i + 1} for i in range(n)]
        last = {"stop": True, "tokens_predicted": n, "timings": {"cache_n": 0, "prompt_n": len(message["prompt"])}}
        return 200, [b"data: " + json.dumps(piece).encode() + b"\n\n" for piece in [*pieces, last]]

    return answer


SERVERS = {"ollama": ollama, "llama-server": llama_server}


def entry_of(kind, name, stand):
    record = {"runtime": "llamacpp_cpu", "kind": kind, "model": "llama-3.1-8b", "kv": "f16", "name": "m"}
    if kind in SERVERS:
        return record | {"url": stand(SERVERS[kind](name)).url}
    return record | {"argv": [sys.executable, "-S", "-c", LLAMA_BENCH, "--says", name]}


def answer_of(record, point):
    """Carry out a measurement as the agent of a board does, and return the result."""
    answers, done = [], threading.Event()

    def take(message):
        if message["op"] != "progress":
            answers.append(message)
            done.set()

    drivers = Drivers(parse_entries(json.dumps([record]), "runtimes"), take, 1)
    drivers.send({"op": "measure", "id": 1, "point": Run(point, SPEED).record, "what": list(SPEED)})
    assert done.wait(PATIENCE_S)
    assert answers[0]["op"] == "result", answers
    return answers[0]["body"]


def test_there_are_sixty_names():
    assert len(NAMES) >= 60


@pytest.mark.parametrize("kind", ["llama-bench", "llama-server", "ollama"])
@pytest.mark.parametrize(("name", "key"), NAMES)
def test_no_name_of_a_format_loses_a_measurement(kind, name, key, stand, tmp_path):
    point = OperatingPoint(runtime="llamacpp_cpu", model="llama-3.1-8b", weights=ASKED, kv="fp16", context_tokens=64.0)
    body = answer_of(entry_of(kind, name, stand), point)
    found = measured(Run(point, SPEED), json.loads(json.dumps(body)), CATALOGUE, "a machine")
    append_measurement(tmp_path / "m", found)
    (kept,), notes = load_measurements(tmp_path / "m", None)
    assert notes == []
    assert kept == found
    assert kept.body["decode_s"]["median"] > 0
    assert (kept.point.weights, kept.point.kv) == (key, "fp16")
    assert exists(kept.point, CATALOGUE) == bool(measured_points([kept], CATALOGUE)) == (name in KNOWN)
    said = [note for note in kept.body["notes"] if name in note]
    assert len(said) == (key != ASKED)
    assert not said or ("no calibration takes it" in said[0]) == (name in UNKNOWN)


def test_what_nobody_knows_is_a_row_of_a_table_and_no_point_of_the_dashboard(qapp, tmp_path, monkeypatch):
    point = OperatingPoint(runtime="llamacpp_cpu", model="llama-3.1-8b", weights="zz9_plural", kv="fp16")
    body = {"decode_s": {"median": 0.1, "q05": 0.1, "q95": 0.1, "n": 5, "provenance": "measured"}}
    found = Measurement(point, body, "2026-11-01T00:00:00+00:00", "a machine")
    assert table_row(found, CATALOGUE)["quant"] == "zz9_plural"
    store, library = Store(CATALOGUE), BoardLibrary(tmp_path, pytest.fail)
    assert AttachedBoard(store, library).take_measurement(found)
    assert store.measurements == []
    assert load_measurements(tmp_path / "measurements.jsonl", None) == ([found], [])


@pytest.mark.parametrize("name", ["unknown", "", None])
def test_a_runtime_that_knows_no_name_is_taken_for_one_that_says_none(name, stand):
    point = OperatingPoint(runtime="llamacpp_cpu", model="llama-3.1-8b", weights=ASKED, kv="fp16", context_tokens=64.0)
    silent = entry_of("ollama", name, stand)
    told = silent | {"weights": "Q4_K_M"}
    first, second = (
        measured(Run(point, SPEED), answer_of(record, point), CATALOGUE, "a machine") for record in (silent, told)
    )
    assert second.point.weights == "q4_k_m"
    assert "ollama says Q4_K_M, q4_k_m." in " ".join(second.body["notes"])
    if name != "unknown":
        assert first.point.weights == ASKED
        assert "ollama does not tell its weights format" in " ".join(first.body["notes"])


@pytest.mark.parametrize(
    ("kind", "says", "weights", "ran"),
    [
        ("llama-bench", "F16", "fp16", "fp16"),
        ("ollama", "F16", "fp16", "fp16"),
        ("llama-server", "IQ4_XS - 4.25 bpw", "iq4_xs", "iq4_xs"),
        ("ollama", "ZZ9 plural", "q4_0", "zz9_plural"),
    ],
)
def test_the_command_prints_and_saves_what_a_runtime_measured(kind, says, weights, ran, stand, tmp_path, monkeypatch):
    runtimes = tmp_path / "runtimes.json"
    runtimes.write_text(json.dumps([entry_of(kind, says, stand)]), encoding="utf-8")
    monkeypatch.setenv("TRILEMMA_RUNTIMES", str(runtimes))
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
    options = ("--runtime", "llamacpp_cpu", "--model", "llama-3.1-8b", "--weights", weights, "--kv", "fp16")
    done = subprocess.run(
        [sys.executable, LAUNCHER, "measure", *options, "--context", "64"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "tokens_per_s" in done.stdout
    (kept,), _ = load_measurements(tmp_path / "data" / "measurements.jsonl", None)
    assert kept.point.weights == ran
    assert (says in done.stdout) == (ran != weights)
