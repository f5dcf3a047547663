"""What a file is that holds no rows: by the words of the tool that wrote it, and what to do instead."""

from __future__ import annotations

import re

_MEASURE = "measure it here with `trilemma measure --runtime`, or write its numbers into the columns of data validate"
_MANY = f"speeds of many requests at once are not those of one; {_MEASURE}"
_BENCH = "run llama-bench -o json and keep what it prints"

_BEGINNINGS = (
    (b"PK\x03\x04", "a workbook or an archive: save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "a workbook of an old Excel: save the sheet as CSV"),
    (b"\x1f\x8b", "a gzip archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive: unpack it first"),
    (b"GGUF", "a model, not a measurement of it: give it with --gguf"),
    (b"%PDF", "a PDF: copy its table into a CSV file"),
    (b"SQLite format 3", "an SQLite database: export llama-bench's table with `sqlite3 -csv -header`"),
)
_WORDS = (
    (("(?i)\\A\\s*<(?:!doctype )?html",), "a web page: save its raw text, or its table as CSV"),
    (('"lm_eval_version"|"higher_is_better"',), "lm-eval's results: scores, neither times nor powers"),
    (('"mean_ttft_ms"|"request_throughput"',), f"a result of the serving benchmark of vLLM or SGLang: {_MANY}"),
    (('"avg_latency"', '"latencies"'), f"a result of vllm bench latency, times of whole requests: {_MEASURE}"),
    (('"tokens_per_second"', '"elapsed_time"'), f"a result of vllm bench throughput: {_MANY}"),
    (('"time_to_first_token"', '"inter_token_latency"'), f"a report of GenAI-Perf or AIPerf: {_MANY}"),
    (
        ('"predicted_per_second"|"predicted_ms"',),
        f"an answer of llama-server, which names neither board nor format: {_MEASURE}",
    ),
    (("(?i)rkllm.*Stage +Total Time",), f"RKLLM's own timing, which names neither board nor format: {_MEASURE}"),
    (("\\A\\s*\\Z",), "an empty file: run the tool again and keep what it prints on its standard output"),
    (('"guidellm|"request_loader"',), f"a report of GuideLLM: {_MANY}"),
    (('"eval_duration"|^eval rate:',), f"Ollama's own timing, which names neither board nor format: {_MEASURE}"),
    (("prompt_tps=|^Generation: \\d+ tokens, ",), f"the output of mlx_lm, which names no board: {_MEASURE}"),
    (("perf_context_print|llama_print_timings|common_perf_print",), f"llama.cpp's timing of one run: {_BENCH}"),
    (('"speed_tg"|S_TG t/s',), f"the output of llama-batched-bench: {_MANY}"),
    (("^Final estimate: PPL|^perplexity: ",), "the output of llama-perplexity: accuracy, no times"),
    (("^usage: .*llama-bench|^error: (?:invalid parameter|failed to)",), f"an error of llama-bench: {_BENCH}"),
    (("ggml_\\w+:|llama_model_load|load_backend:",), f"llama.cpp's log without a result: {_BENCH}"),
)
"""What must all be found in a text -> what it is, and what to do."""


def kind_of_bytes(content: bytes) -> str:
    """Return what a file is that is no text, and what to do; "" where that is not known."""
    return next((f"this is {words}" for beginning, words in _BEGINNINGS if content.startswith(beginning)), "")


def kind_of_text(text: str) -> str:
    """Return which tool wrote a text, and what to do; "" where that is not known."""
    return next((f"this is {words}" for all_of, words in _WORDS if all(re.search(p, text, re.M) for p in all_of)), "")
