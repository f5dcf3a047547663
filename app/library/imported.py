"""Measurements of others as rows of one table, in the columns of `core.tables.rows`: llama-bench output, and CSV.

Three columns are added: `provenance` (measured, where the tool itself wrote the file; published, where it is a table),
`source` (the file's name, and the build) and `more` (what no column holds, as JSON).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.agent.runtimes.llama_bench import parse, samples_s, weights_of
from app.library.files import FileError, read_whole, reason, write_whole
from core.catalogue.load import load_catalogue
from core.catalogue.names.formats import format_name
from core.tables.rows import COLUMNS, problems_of, read_table

if TYPE_CHECKING:
    import pandas as pd

MAX_BYTE = 64 << 20
_USED = (
    *("n_prompt", "n_gen", "n_depth", "n_threads", "type_k", "type_v", "model_filename", "model_type", "model_size"),
    *("model_n_params", "test_time", "avg_ns", "avg_ts", "stddev_ns", "stddev_ts", "samples_ns", "samples_ts"),
    *("cpu_info", "gpu_info", "backends"),
)
_OFF_GPU = {"", "CPU", "BLAS"}


def read_import(path: Path, *, board: str = "", provenance: str = "") -> tuple[list[dict[str, str]], list[str]]:
    """Read a file of measurements.

    Parameters
    ----------
    path
        llama-bench's JSON or JSONL, or CSV with the needed columns of `COLUMNS`.
    board
        Key of the board that llama-bench ran on; what it says of the processor where empty.
    provenance
        In place of what the kind of file means.

    Returns
    -------
    rows : list of dict
        A text for each column.
    notes : list of str
        What was left out, in sentences.

    Raises
    ------
    FileError
        It cannot be read, or holds neither.
    """
    text = read_whole(path, MAX_BYTE).decode("utf-8-sig", errors="replace")
    if text.lstrip()[:1] in ("[", "{"):
        return _llama_bench(path, text, board, provenance or "measured")
    return _csv(path, provenance or "published")


def _llama_bench(path: Path, text: str, board: str, provenance: str) -> tuple[list[dict[str, str]], list[str]]:
    objects, rest = _objects(text)
    try:
        tests = parse(json.dumps(objects))
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    rows, notes = [], []
    if rest:
        notes.append(f"{path.name}: it ends, or is damaged, behind {len(objects)} tests: those were taken.")
    for i, test in enumerate(tests, 1):
        if _count(test, "n_prompt") and _count(test, "n_gen"):
            notes.append(
                f"{path.name}: test {i}: a prompt and its answer timed together tell neither; it was left out."
            )
            continue
        if _count(test, "n_prompt") and _count(test, "n_depth"):
            notes.append(
                f"{path.name}: test {i}: a prompt behind a context is no time to first token; it was left out."
            )
            continue
        row = _bench_row(test, board)
        wrong = problems_of(row)
        if wrong:
            _, column, got, expected = wrong[0]
            notes.append(f"{path.name}: test {i}: {column}: got {got}, expected {expected}; it was left out.")
            continue
        rows.append({**row, "provenance": provenance, "source": _source(path, test)})
    return rows, notes


def _objects(text: str) -> tuple[list[Any], str]:
    """Return the JSON values in a list, one a line, or one behind the other, and what could not be read."""
    decoder, found = json.JSONDecoder(), list[Any]()
    rest = text.strip()
    if rest.startswith("["):
        rest = rest[1:].lstrip()
    while rest.lstrip(", \n\r\t") not in ("", "]"):
        rest = rest.lstrip(", \n\r\t")
        try:
            value, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):
            return found, rest
        found.append(value)
        rest = rest[end:]
    return found, "" if rest or text.strip()[:1] != "[" else "]"


def _bench_row(test: Mapping[str, Any], board: str) -> dict[str, str]:
    """Return a test as a row: speed of a prompt, or of tokens behind a context."""
    times = np.array(samples_s(test))
    n_prompt, n_gen, n_depth = (_count(test, name) for name in ("n_prompt", "n_gen", "n_depth"))
    on_gpu = not set(str(test.get("backends", "")).replace(" ", "").split(",")) <= _OFF_GPU
    on_gpu = on_gpu and test.get("n_gpu_layers", -1) != 0
    chip = str(test.get("gpu_info" if on_gpu else "cpu_info") or "").strip()
    name = str(test.get("model_filename") or "").removesuffix(".gguf") or str(test.get("model_type") or "model")
    words = weights_of(test)
    quant = format_name(words, load_catalogue().weight_formats).key or words
    if quant and name.lower().endswith(quant):
        name = name[: -len(quant)].rstrip(".-_ ")
    row = {
        "board_key": board or chip or "unknown board",
        "board": chip,
        "compute": "gpu" if on_gpu else "cpu",
        "runtime": "llama.cpp",
        "model": name,
        "quant": quant.upper() or "unknown",
        "params_b": _text(_number(test, "model_n_params") / 1e9),
        "weight_bytes": _text(_number(test, "model_size")),
        "kv_quant": str(test.get("type_k", "")),
        "threads": _text(_number(test, "n_threads")),
        "batch": "1",
        "time_utc": str(test.get("test_time", "")),
        "n_repeats": str(len(times)),
        "more": json.dumps({key: value for key, value in test.items() if key not in _USED}, sort_keys=True),
    }
    if n_gen:
        per_token = np.quantile(times / n_gen, (0.5, 0.05, 0.95)) * 1e3
        names = ("decode_ms_per_tok", "decode_ms_per_tok_q05", "decode_ms_per_tok_q95")
        row |= {column: _text(value) for column, value in zip(names, per_token.tolist(), strict=True)}
        row |= {"gen_tokens": str(n_gen), "context_tokens": _text(n_depth + n_gen / 2)}
    else:
        prompt = np.quantile(times, (0.5, 0.05, 0.95)) * 1e3
        names = ("ttft_ms", "ttft_ms_q05", "ttft_ms_q95")
        row |= {column: _text(value) for column, value in zip(names, prompt.tolist(), strict=True)}
        row |= {"prompt_tokens": str(n_prompt), "context_tokens": _text(n_depth + n_prompt / 2)}
    return row


def _source(path: Path, test: Mapping[str, Any]) -> str:
    build = f", build {test['build_number']} ({test.get('build_commit', '?')})" if test.get("build_number") else ""
    return f"llama-bench{build}, {path.name}"


def _csv(path: Path, provenance: str) -> tuple[list[dict[str, str]], list[str]]:
    try:
        table = read_table(path)
    except (OSError, ValueError) as error:
        raise FileError(f"{error}: expected llama-bench's JSON, or CSV with the columns of data validate") from error
    told = {"provenance": provenance, "source": path.name, "more": "{}"}
    rows = [{**told, **row.cells()} for row in table.rows]
    return rows, [f"{path.name}: {problem}; the row was left out." for problem in table.problems]


def add_rows(path: Path, rows: Sequence[Mapping[str, str]]) -> int:
    """Add rows to a table, which is made where there is none; rows that it has already are not added again.

    Returns
    -------
    int
        How many were new.

    Raises
    ------
    FileError
        It cannot be read or written; it is as it was.
    """
    import pandas as pd

    have = _read_texts(path) if path.exists() else pd.DataFrame()
    both = pd.concat([have, pd.DataFrame(rows, dtype=str)], ignore_index=True).fillna("")
    measurement = [name for name in both if name != "source"]  # the file that it came in tells no two apart
    both = both[~both.duplicated(measurement) | (both.index < len(have))]
    if len(both) > len(have) or not path.exists():
        columns = [name for name in COLUMNS if name in both] + [name for name in both if name not in COLUMNS]
        write_whole(path, both[columns].to_csv(index=False, lineterminator="\n").encode())
    return len(both) - len(have)


def _read_texts(path: Path) -> pd.DataFrame:
    """Read a table cell by cell as it is written, whatever its columns are."""
    import pandas as pd

    try:
        frame = pd.read_csv(path, dtype=str, na_filter=False, encoding="utf-8-sig")
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except (OSError, ValueError) as error:
        said = reason(error) if isinstance(error, OSError) else str(error).strip()
        raise FileError(f"{path}: cannot be read as a table: {said}") from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise FileError(f"{path}: cannot be read as a table: its rows have more cells than its heading")
    return frame


def _count(test: Mapping[str, Any], name: str) -> int:
    return int(_number(test, name))


def _number(test: Mapping[str, Any], name: str) -> float:
    value = test.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _text(value: float) -> str:
    return f"{value:.9g}" if value else ""
