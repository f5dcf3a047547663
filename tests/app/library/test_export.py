"""What a runtime gets of an operating point, and what it cannot take."""

import json
import shlex
from dataclasses import replace

import pytest

from app.model.export import json_export, llama_server_export, save_export
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

CATALOGUE = load_catalogue()
POINT = OperatingPoint(runtime="llamacpp_cpu", weights="q4_k_m", kv="q8_0", context_tokens=4096.0)


def words(point, **kwargs):
    return shlex.split(llama_server_export(point, CATALOGUE, **kwargs).text)


def test_the_command_line_of_a_point_that_llama_cpp_can_run():
    expected = "llama-server -m smollm2-135m-Q4_K_M.gguf -c 4096 -ctk q8_0 -ctv q8_0 -fa on -t 4 -np 1"
    assert words(POINT, n_threads=4) == expected.split()


@pytest.mark.parametrize(
    ("kv", "flags"),
    [
        ("bf16", "-ctk bf16 -ctv bf16"),
        ("fp16", "-ctk f16 -ctv f16"),
        ("fp32", "-ctk f32 -ctv f32"),
        ("int8", "-ctk q8_0 -ctv q8_0 -fa on"),
        ("q4_0", "-ctk q4_0 -ctv q4_0 -fa on"),
    ],
)
def test_kv_formats_have_llama_cpp_s_names(kv, flags):
    assert flags in llama_server_export(replace(POINT, kv=kv), CATALOGUE).text


def test_every_kv_format_of_the_catalogue_has_a_type():
    for kv in CATALOGUE.kv_formats:
        assert "-ctk" in words(replace(POINT, kv=kv))


@pytest.mark.parametrize("weights", sorted(CATALOGUE.weight_formats))
def test_the_weight_format_is_said_to_be_the_file_s(weights):
    export = llama_server_export(replace(POINT, weights=weights), CATALOGUE)
    sentence = export.not_taken[0]
    name = CATALOGUE.weight_formats[weights].name
    assert sentence.startswith(f"Weight format {name}: ")
    if weights in ("w8a8", "w4a16", "w4a16_g128", "q4f16", "fp8", "nf4"):
        assert "no GGUF type" in sentence
    elif weights == "nvfp4":
        assert sentence.endswith("one of type NVFP4, which convert_hf_to_gguf.py makes of a checkpoint in it.")
    else:
        assert "llama-quantize" in sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": 0.5}, "KV prune rate 0.5"),
        ({"beta": 2.0}, "Instruction set factor 2"),
        ({"head": "bf16"}, "Output head in "),
        ({"bandwidth_byte_s": 20e9}, "Memory bandwidth 2e+10 byte/s"),
        ({"board": "rk3588"}, "does not run on its NPU"),
    ],
)
def test_what_cannot_be_taken_is_a_sentence_each(change, words):
    plain = llama_server_export(POINT, CATALOGUE).not_taken
    added = [s for s in llama_server_export(replace(POINT, **change), CATALOGUE).not_taken if s not in plain]
    assert len(added) == 1
    assert words in added[0]


def test_json_takes_everything(qapp):
    store = Store(CATALOGUE)
    store.set("point.alpha", 0.5)
    export = json_export(store)
    document = json.loads(export.text)
    assert document["format"] == "trilemma-export"
    assert document["point"]["alpha"] == 0.5
    assert export.not_taken == ()


def test_a_saved_command_line_says_above_it_what_is_not_taken(tmp_path):
    export = llama_server_export(replace(POINT, alpha=0.5), CATALOGUE)
    save_export(tmp_path / "run.sh", export)
    lines = (tmp_path / "run.sh").read_text().splitlines()
    assert lines[-1] == export.text
    assert [line.removeprefix("# not supported: ") for line in lines[:-1]] == list(export.not_taken)
