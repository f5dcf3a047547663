"""What llama-bench prints is read in each of its forms and versions, whatever stands around it, and however it ends."""

import csv
import io
import json

import numpy as np
import pytest

from app.library.files import FileError
from app.library.imported import read_import
from app.library.imports.llama_bench import read

COMMON = {
    "build_commit": "a1b2c3d4",
    "build_number": 7651,
    "cpu_info": "Cortex-A76",
    "gpu_info": "",
    "backends": "CPU",
    "model_filename": "models/Qwen3-1.7B-Q4_K_M.gguf",
    "model_type": "qwen3 1.7B Q4_K - Medium",
    "model_size": 1107409408,
    "model_n_params": 2031739904,
    "n_threads": 4,
    "type_k": "f16",
    "type_v": "f16",
    "n_gpu_layers": -1,
    "flash_attn": False,
}
TESTS = [
    {**COMMON, "n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ns": 6050000000, "stddev_ns": 50000000},
    {**COMMON, "n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ns": 9150000000, "stddev_ns": 50000000},
    {**COMMON, "n_prompt": 0, "n_gen": 128, "n_depth": 4096, "avg_ns": 12100000000, "stddev_ns": 50000000},
]
SAMPLED = [{**test, "samples_ns": [test["avg_ns"] + d for d in (-50000000, 0, 50000000)]} for test in TESTS]
LOG = (
    "ggml_cuda_init: GGML_CUDA_FORCE_MMQ:    no\nggml_cuda_init: found 1 CUDA devices:\n"
    "  Device 0: Orin, compute capability 8.7, VMM: yes {not json}\nload_backend: loaded [CUDA] backend\n"
)
TAIL = "~llama_context: {CUDA0} compute buffer size [42]\n"


def as_json(tests):
    return json.dumps(tests, indent=2)


def as_jsonl(tests):
    return "".join(json.dumps(test) + "\n" for test in tests)


def as_csv(tests):
    file = io.StringIO()
    cells = [{name: str(cell).lower() if cell is False else cell for name, cell in test.items()} for test in tests]
    file.write(",".join(cells[0]) + "\n")
    csv.DictWriter(file, list(cells[0]), quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(cells)
    return file.getvalue()


def as_sql(tests):
    columns = ", ".join(tests[0])
    made = "CREATE TABLE IF NOT EXISTS llama_bench (\n  build_commit TEXT\n);\n\n"
    rows = [", ".join("'{}'".format(str(cell).replace("'", "''")) for cell in test.values()) for test in tests]
    return made + "".join(f"INSERT INTO llama_bench ({columns}) VALUES ({row});\n" for row in rows)


MARKDOWN = """\
| model                    |     size | params | backend | threads |          test |          t/s |
| ------------------------ | -------: | -----: | ------- | ------: | ------------: | -----------: |
| qwen3 1.7B Q4_K - Medium | 1.03 GiB | 2.03 B | CPU     |       4 |         pp512 | 84.63 ± 0.70 |
| qwen3 1.7B Q4_K - Medium | 1.03 GiB | 2.03 B | CPU     |       4 |         tg128 | 13.99 ± 0.08 |
| qwen3 1.7B Q4_K - Medium | 1.03 GiB | 2.03 B | CPU     |       4 | tg128 @ d4096 | 10.58 ± 0.09 |

build: a1b2c3d4 (7651)
"""
FORMS = {"json": as_json, "jsonl": as_jsonl, "csv": as_csv, "sql": as_sql}


def imported(tmp_path, content, name="bench.txt", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_import(path, **options)


def times_ms(rows):
    return [float(row.get("decode_ms_per_tok") or row["ttft_ms"]) for row in rows]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("around", [("", ""), (LOG, TAIL)])
def test_every_form_is_read(tmp_path, form, encoding, end, around):
    text = (around[0] + FORMS[form](TESTS) + "\n" + around[1]).replace("\n", end)
    rows, notes = imported(tmp_path, text.encode(encoding), board="raspberry_pi_5")
    assert notes == []
    assert times_ms(rows) == pytest.approx([6050.0, 9150 / 128, 12100 / 128], rel=1e-8)
    assert [row["context_tokens"] for row in rows] == ["256", "64", "4160"]
    for row in rows:
        names = ("board_key", "compute", "model", "quant", "weight_bytes", "threads", "kv_quant", "provenance")
        wanted = ["raspberry_pi_5", "cpu", "Qwen3-1.7B", "Q4_K_M", "1.10740941e+09", "4", "f16", "measured"]
        assert [row[name] for name in names] == wanted
        assert row["source"] == "llama-bench, build 7651 (a1b2c3d4), bench.txt"


@pytest.mark.parametrize("form", FORMS)
def test_mean_and_deviation_make_the_interval_where_there_are_no_samples(tmp_path, form):
    (row, *_), _ = imported(tmp_path, FORMS[form](TESTS))
    half = 1.6448536 * 50.0
    assert [float(row[name]) for name in ("ttft_ms_q05", "ttft_ms_q95")] == pytest.approx([6050 - half, 6050 + half])
    assert row["n_repeats"] == ""


def test_samples_go_before_mean_and_deviation(tmp_path):
    (row, *_), _ = imported(tmp_path, as_json(SAMPLED))
    wanted = np.quantile([6000.0, 6050.0, 6100.0], (0.5, 0.05, 0.95))
    assert [float(row[name]) for name in ("ttft_ms", "ttft_ms_q05", "ttft_ms_q95")] == pytest.approx(wanted)
    assert row["n_repeats"] == "3"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize("quoted", ["", "> "])
def test_markdown_is_read_with_its_deviation(tmp_path, encoding, quoted):
    text = "".join(f"{quoted}{line}\n" for line in f"Some words.\n\n{MARKDOWN}".splitlines())
    rows, notes = imported(tmp_path, text.encode(encoding), board="raspberry_pi_5")
    assert notes == []
    assert times_ms(rows) == pytest.approx([512e3 / 84.63, 1e3 / 13.99, 1e3 / 10.58], rel=1e-8)
    assert float(rows[1]["decode_ms_per_tok_q95"]) == pytest.approx(1e3 / 13.99 * (1 + 1.6448536 * 0.08 / 13.99))
    assert [(row["model"], row["quant"], row["kv_quant"]) for row in rows] == [("qwen3 1.7B", "Q4_K_M", "f16")] * 3
    assert float(rows[0]["weight_bytes"]) == pytest.approx(1.03 * 1024**3)
    assert float(rows[0]["params_b"]) == pytest.approx(2.03)
    assert rows[2]["context_tokens"] == "4160"
    assert rows[0]["source"].startswith("llama-bench, build 7651 (a1b2c3d4)")


def test_markdown_of_other_versions_backends_and_tables(tmp_path):
    text = """ggml_cuda_init: found 1 CUDA devices:
  Device 0: Orin, compute capability 8.7, VMM: yes
| model | size | params | backend | ngl | type_k | fa | test | t/s |
| --- | ---: | ---: | --- | ---: | --- | ---: | ---: | ---: |
| **llama 7B mostly Q4_0** | 3.56 GiB | 6.74 B | CUDA | 99 | q8_0 | 1 | tg 128 | 40.1 ± 0.2 |
build: 1111111 (1000)

| model | size | params | backend | ngl | test | t/s |
|-------|-----:|-------:|---------|----:|-----:|----:|
| gpt-oss 20B MXFP4 MoE | 11.27 GiB | 20.91 B | CUDA | 0 | tg128 | 5.0 |
| qwen3moe 30B.A3B Q4_0 | 16.12 GiB | 30.53 B | CUDA | 99 | pp512+tg128 | 50.0 ± 1.0 |
build: 2222222 (2000)
"""
    rows, notes = imported(tmp_path, text)
    assert [(row["model"], row["quant"], row["compute"], row["kv_quant"]) for row in rows] == [
        ("llama 7B", "Q4_0", "gpu", "q8_0"),
        ("gpt-oss 20B", "MXFP4", "cpu", "f16"),
    ]
    assert rows[0]["board_key"] == "Orin"
    assert [row["source"].split(",")[1] for row in rows] == [" build 1000 (1111111)", " build 2000 (2222222)"]
    assert float(rows[1]["decode_ms_per_tok_q05"]) == float(rows[1]["decode_ms_per_tok"]) == 200.0
    assert len(notes) == 1
    assert "timed together" in notes[0]


OF_FORKS = {
    "ik_llama.cpp": (
        "| model | size | params | backend | ngl | ot | test | t/s |\n| - | - | - | - | - | - | - | - |\n"
        "| qwen3 8B IQ4_XS - 4.25 bpw | 4.2 GiB | 8.2 B | CUDA | 99 | (ffn_(up|down)_exps)=CPU | tg128 | 40.0 ± 1 |\n",
        [("qwen3 8B", "IQ4_XS", "gpu")],
    ),
    "repeated_values_skipped": (
        "| model | size | params | backend | test | t/s |\n| - | - | - | - | - | - |\n"
        "| llama 7B F16 | 12.55 GiB | 6.74 B | CUDA | tg64 | 40.0 ± 1.0 |\n|  |  |  |  | tg128 | 40.0 ± 1.0 |\n",
        [("llama 7B", "FP16", "gpu")] * 2,
    ),
    "llamafile": (
        "| cpu_info | model_filename | size | test | t/s |\n| - | - | - | - | - |\n"
        "| Ryzen (znver4) | TinyLlama-1.1B.Q5_K_M | 0.73 GiB | tg16 | 40.0 |\n",
        [("TinyLlama-1.1B", "Q5_K_M", "cpu")],
    ),
}


@pytest.mark.parametrize("name", OF_FORKS)
def test_tables_of_forks(tmp_path, name):
    text, wanted = OF_FORKS[name]
    rows, notes = imported(tmp_path, text)
    assert notes == []
    assert [(row["model"], row["quant"], row["compute"]) for row in rows] == wanted
    assert {row["decode_ms_per_tok"] for row in rows} == {"25"}


@pytest.mark.parametrize("form", FORMS)
def test_of_a_text_that_is_cut_anywhere_what_is_whole_counts(form):
    text, whole = FORMS[form](TESTS), [test["avg_ns"] for test in TESTS]
    ends = [len(FORMS[form](TESTS[:n]).rstrip("\n]")) for n in (1, 2, 3)]
    ends = [len(text.splitlines()[0]) if form == "csv" else 0, *ends]
    for end in range(ends[1] - 200, len(text) + 1, 7):
        found = read(text[:end])
        n = sum(end >= one for one in ends[1:])
        assert [test["avg_ns"] for test in found.tests] == whole[:n]
        assert found.damaged or end - ends[n] < 25


def test_of_markdown_that_is_cut_the_rows_with_a_speed_count():
    n_seen = [len(found.tests) for end in range(195, len(MARKDOWN)) if (found := read(MARKDOWN[:end]))]
    assert n_seen == sorted(n_seen)
    assert set(n_seen) == {0, 1, 2, 3}


@pytest.mark.parametrize("form", ["json", "csv", "sql"])
def test_a_cut_end_is_named(tmp_path, form):
    rows, notes = imported(tmp_path, FORMS[form](TESTS)[:-40])
    assert len(rows) == 2
    assert notes == ["bench.txt: a test is cut off or damaged: the 2 whole ones were taken."]


def test_tests_inside_of_what_a_script_kept_are_found(tmp_path):
    rows, notes = imported(tmp_path, json.dumps({"host": "orin", "runs": {"a": TESTS[:2], "b": [TESTS[2]]}}))
    assert (len(rows), notes) == (3, [])


def test_output_without_a_whole_test_says_so(tmp_path):
    with pytest.raises(FileError, match="llama-bench's output is cut off or damaged before its first whole test"):
        imported(tmp_path, as_csv(TESTS).splitlines()[0] + '\n"a1b2c3d4","7651","Cortex')


def test_members_of_old_builds_tell_the_backend(tmp_path):
    old = {name: cell for name, cell in TESTS[1].items() if name not in ("backends", "n_depth")}
    old |= {"cuda": True, "metal": False, "gpu_info": "Orin", "n_gpu_layers": 99}
    (row,), _ = imported(tmp_path, as_json([old]))
    assert (row["compute"], row["board_key"], row["context_tokens"]) == ("gpu", "Orin", "64")
    (row,), _ = imported(tmp_path, as_json([{**old, "cuda": False}]))
    assert (row["compute"], row["board_key"]) == ("cpu", "Cortex-A76")


@pytest.mark.parametrize(
    ("kind", "file", "quant"),
    [
        ("llama 1B Q3_K - Large", "m.gguf", "Q3_K_L"),
        ("llama 1B IQ4_XS - 4.25 bpw", "m.gguf", "IQ4_XS"),
        ("llama 1B IQ4_NL - 4.5 bpw", "m.gguf", "IQ4_NL"),
        ("llama 1B TQ1_0 - 1.69 bpw ternary", "m.gguf", "TQ1_0"),
        ("gpt-oss 20B MXFP4 MoE", "m.gguf", "MXFP4"),
        ("qwen3 1.7B (guessed) Q4_K - Medium", "m.gguf", "Q4_K_M"),
        ("qwen3moe 30B.A3B all F32 (guessed)", "m.gguf", "FP32"),
        ("llama 1B unknown, may not work", "llama-3.2-1b-q5_k_m.gguf", "Q5_K_M"),
        ("llama 1B unknown, may not work", "m.gguf", "unknown"),
    ],
)
def test_the_weight_format_is_the_one_that_the_model_type_means(tmp_path, kind, file, quant):
    (row,), _ = imported(tmp_path, as_json([{**TESTS[1], "model_type": kind, "model_filename": file}]))
    assert row["quant"] == quant


PRINTED = {
    "ollama": (
        "total duration: 2.1s\nprompt eval rate: 84.1 tokens/s\neval rate:            13.99 tokens/s\n",
        "Ollama",
    ),
    "ollama_api": ('{"model": "x", "eval_count": 5, "eval_duration": 4}', "Ollama"),
    "mlx": ("Averages: prompt_tps=1034.2, generation_tps=98.7, peak_memory=1.07\n", "mlx_lm"),
    "mlx_generate": ("Prompt: 7 tokens, 16.2 tokens-per-sec\nGeneration: 20 tokens, 98.7 tokens-per-sec\n", "mlx_lm"),
    "vllm_serve": ('{"backend": "vllm", "request_throughput": 3.1, "mean_ttft_ms": 12.0}', "vLLM"),
    "vllm_latency": ('{"avg_latency": 1.2, "latencies": [1.2], "percentiles": {}}', "vllm bench latency"),
    "vllm_throughput": ('{"elapsed_time": 1.2, "tokens_per_second": 3}', "vllm bench throughput"),
    "lm_eval": ('{"results": {"arc": {}}, "lm_eval_version": "0.4.9", "higher_is_better": {}}', "lm-eval"),
    "llama_cli": ("llama_perf_context_print:        eval time =  911.0 ms /    99 runs\n", "run llama-bench -o json"),
    "batched": ('{"n_kv_max": 2048, "pp": 128, "tg": 128, "speed_tg": 33.1}', "llama-batched-bench"),
    "usage": ("error: invalid parameter for argument: -ctk\nusage: llama-bench [options]\n", "llama-bench"),
    "log": (LOG, "llama.cpp's log"),
    "llama_server": ('{"choices": [], "timings": {"predicted_ms": 3, "predicted_per_second": 12.0}}', "llama-server"),
    "genai_perf": ('{"time_to_first_token": {"avg": 1}, "inter_token_latency": {"avg": 1}}', "GenAI-Perf"),
    "rkllm": ("I rkllm:  Stage         Total Time (ms)  Tokens    Time per Token (ms)\n", "RKLLM"),
    "empty": ("", "an empty file"),
    "html": ("<!DOCTYPE html><html><body>Sign in</body></html>", "a web page"),
    "xlsx": (b"PK\x03\x04\x14\0\6\0\x08\0", "save the sheet as CSV"),
    "gguf": (b"GGUF\3\0\0\0\1\0\0\0", "a model"),
    "gzip": (b"\x1f\x8b\x08\0\0\0\0\0", "gzip"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_output_of_other_tools_is_named_with_what_to_do(tmp_path, name):
    content, tool = PRINTED[name]
    with pytest.raises(FileError) as caught:
        imported(tmp_path, content)
    assert "this is " in str(caught.value)
    assert tool in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_nobody_knows_says_what_is_taken(tmp_path):
    with pytest.raises(FileError, match=r"got no column board_key.*: expected llama-bench's output, or CSV"):
        imported(tmp_path, "a,b\n1,2\n")


HEADING = "board_key;compute;runtime;model;quant;decode_tok_s;ttft_ms;prompt_tokens;context_tokens;power_w;notes"
EXCEL = (
    f"{HEADING}\r\n"
    "Raspberry Pi 5;cpu;llama.cpp;Llama 3.2 1B;Q4_K_M;13,99;6050,5;512;64;7,8;gemessen bei 21 °C, ± 3 %\r\n"
    "Raspberry Pi 5;cpu;llama.cpp;Qwen2.5 1.5B;Q4_K_M;10,58;9100,25;512;64;7,9;\r\n"
)


@pytest.mark.parametrize(
    "content",
    [
        EXCEL.encode("cp1252"),
        ("sep=;\r\n" + EXCEL).encode(),
        EXCEL.replace(";", "\t").encode("utf-16"),
        EXCEL.replace("\r\n", "\r").encode("utf-8-sig"),
    ],
    ids=["cp1252", "sep", "unicode_text", "cr_only"],
)
def test_tables_as_excel_saves_them(tmp_path, content):
    rows, notes = imported(tmp_path, content)
    assert notes == []
    assert [(row["decode_tok_s"], row["ttft_ms"], row["power_w"]) for row in rows] == [
        ("13.99", "6050.5", "7.8"),
        ("10.58", "9100.25", "7.9"),
    ]
    assert rows[0]["notes"] == "gemessen bei 21 °C, ± 3 %"
