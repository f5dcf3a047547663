"""Measurements of others as rows of one table, in the columns of `core.tables.rows`: llama-bench output, and tables.

Three columns are added: `provenance` (measured, where the tool itself wrote the file; published, where it is a table),
`source` (the file's name, and the build) and `more` (what no column holds, as JSON).
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.agent.runtimes.llama_bench import parse, samples_s
from app.library.files import FileError, alone, read_whole, reason, write_whole
from app.library.imports import llama_bench
from app.library.imports.llama_bench import Benched, mean_and_sd_s
from app.library.imports.other_tools import kind_of_bytes, kind_of_text
from core.catalogue.load import load_catalogue
from core.catalogue.names.formats import format_name
from core.catalogue.text_files import printable, text_of
from core.tables.rows import COLUMNS, problems_of, table_of
from core.units import Z90

if TYPE_CHECKING:
    import pandas as pd

MAX_BYTE = 64 << 20
MAX_TABLE_BYTE = 1 << 30
_NO_TEST = "holds no test of llama-bench: expected objects with n_prompt or n_gen, and samples_ns or avg_ns"
_LONGEST_HEADING = 1 << 16
_USED = (
    *("n_prompt", "n_gen", "n_depth", "n_threads", "type_k", "type_v", "model_filename", "model_type", "model_size"),
    *("model_n_params", "test_time", "avg_ns", "avg_ts", "stddev_ns", "stddev_ts", "samples_ns", "samples_ts"),
    *("cpu_info", "gpu_info", "backends"),
)
_COUNTS = ("n_prompt", "n_gen", "n_depth")
_OFF_GPU = {"", "CPU", "BLAS", "AMX", "ZenDNN"}
_ONCE_BACKENDS = ("cuda", "opencl", "vulkan", "kompute", "metal", "sycl", "gpu_blas")  # members of builds before 3500
_MODEL_TYPE = re.compile(r"(.*?(?<![\w.])[\dEx.?]+[BMK](?:\.A[\d.]+B|x\d+E(?: \(\w+\))?)?)(?: (.*))?")
"""What llama-bench calls a model: architecture and size, then the weight format."""


def read_import(path: Path, *, board: str = "", provenance: str = "") -> tuple[list[dict[str, str]], list[str]]:
    """Read a file of measurements.

    Parameters
    ----------
    path
        What llama-bench printed, in any of its forms, or CSV with the needed columns of `COLUMNS`.
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
    content = read_whole(path, MAX_BYTE, pipes=True)
    if kind := kind_of_bytes(content):
        raise FileError(f"{path}: {kind}")
    try:
        text = text_of(content)
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    found = None if "board_key" in text[:_LONGEST_HEADING] else llama_bench.read(text)
    if found is None:
        return _table(path, text, provenance or "published")
    if not found.tests:
        raise FileError(f"{path}: llama-bench's output is cut off or damaged before its first whole test: run it again")
    return _llama_bench(path, found, board, provenance or "measured")


def _llama_bench(path: Path, found: Benched, board: str, provenance: str) -> tuple[list[dict[str, str]], list[str]]:
    try:
        tests = parse(json.dumps(found.tests))
    except ValueError as error:
        raise FileError(f"{path}: {error}") from error
    rows, notes = [], []
    if found.damaged:
        notes.append(f"{path.name}: a test is cut off or damaged: the {len(found.tests)} whole ones were taken.")
    for i, test in enumerate(tests, 1):
        if unknown := [name for name in _COUNTS if name in test and not _is_count(test[name])]:
            notes.append(f"{path.name}: test {i}: {unknown[0]}: got no number of tokens; it was left out.")
            continue
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
        rows.append({**row, "provenance": provenance, "source": printable(_source(path, test))})
    return rows, notes


def _bench_row(test: Mapping[str, Any], board: str) -> dict[str, str]:
    """Return a test as a row: speed of a prompt, or of tokens behind a context."""
    n_prompt, n_gen, n_depth = (_count(test, name) for name in ("n_prompt", "n_gen", "n_depth"))
    on_gpu = _on_gpu(test)
    chip = printable(str(test.get("gpu_info" if on_gpu else "cpu_info") or "")).strip()
    name, quant = _names(test)
    seconds, n_repeats = _times_s(test)
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
        "n_repeats": n_repeats,
        "more": json.dumps({key: value for key, value in test.items() if key not in _USED}, sort_keys=True),
    }
    if n_gen:
        column, per, tokens, context = "decode_ms_per_tok", n_gen, "gen_tokens", n_depth + n_gen / 2
    else:
        column, per, tokens, context = "ttft_ms", 1, "prompt_tokens", n_depth + n_prompt / 2
    for suffix, value in zip(("", "_q05", "_q95"), seconds, strict=True):
        row[column + suffix] = _text(value / per * 1e3)
    row |= {tokens: str(n_gen or n_prompt), "context_tokens": _text(context)}
    return {name: printable(cell) for name, cell in row.items()}


def _times_s(test: Mapping[str, Any]) -> tuple[tuple[float, ...], str]:
    """Return the quantiles 0.5, 0.05 and 0.95 of the time of a test [s], and how many repeats they are of, if known."""
    told = mean_and_sd_s(test)
    if told is None:
        times = np.array(samples_s(test))
        return tuple(np.quantile(times, (0.5, 0.05, 0.95)).tolist()), str(len(times))
    mean, sd = told
    return (mean, max(mean - Z90 * sd, 0.0), mean + Z90 * sd), ""


def _on_gpu(test: Mapping[str, Any]) -> bool:
    once = ",".join(name for name in _ONCE_BACKENDS if test.get(name) in (True, 1, "true"))
    backends = set(str(test.get("backends", once)).replace(" ", "").split(","))
    return not backends <= _OFF_GPU and test.get("n_gpu_layers", -1) != 0


def _names(test: Mapping[str, Any]) -> tuple[str, str]:
    """Return model and weight format of a test: as its type names them, else as the name of its file does."""
    known = load_catalogue().weight_formats
    kind, file = (str(test.get(name) or "") for name in ("model_type", "model_filename"))
    named = _MODEL_TYPE.fullmatch(kind)
    quant = format_name(named[2] or "" if named else kind, known).key or format_name(file, known).key
    name = file.removesuffix(".gguf") or (named[1] if named else kind) or "model"
    if quant and name.lower().endswith(quant):
        name = name[: -len(quant)].rstrip(".-_ ")
    return name, quant


def _source(path: Path, test: Mapping[str, Any]) -> str:
    build = f", build {test['build_number']} ({test.get('build_commit', '?')})" if test.get("build_number") else ""
    return f"llama-bench{build}, {path.name}"


def _table(path: Path, text: str, provenance: str) -> tuple[list[dict[str, str]], list[str]]:
    try:
        table = table_of(path.name, text)
    except ValueError as error:
        known = kind_of_text(text) or (_NO_TEST if text.lstrip()[:1] in ("[", "{") else "")
        if known:
            raise FileError(f"{path}: {known}") from error
        raise FileError(f"{error}: expected llama-bench's output, or CSV with the columns of data validate") from error
    told = {"provenance": provenance, "source": printable(path.name), "more": "{}"}
    rows = [{**told, **row.cells()} for row in table.rows]
    return rows, [f"{path.name}: {problem}; the row was left out." for problem in table.problems]


def add_rows(path: Path, rows: Sequence[Mapping[str, str]]) -> int:
    """Add rows to a table, which is created if missing; rows already in the table are not added again.

    Returns
    -------
    int
        Number of new rows.

    Raises
    ------
    FileError
        The table cannot be read or written; it is unchanged.
    """
    import pandas as pd

    with alone(path.parent):
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
        text = text_of(read_whole(path, MAX_TABLE_BYTE))
        frame = pd.read_csv(io.StringIO(text, newline=""), dtype=str, na_filter=False)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except (OSError, ValueError) as error:
        said = reason(error) if isinstance(error, OSError) else str(error).strip()
        raise FileError(f"{path}: cannot be read as a table: {said}") from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise FileError(f"{path}: cannot be read as a table: its rows have more cells than its heading")
    return frame


def _is_count(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1 << 53


def _count(test: Mapping[str, Any], name: str) -> int:
    return int(_number(test, name))


def _number(test: Mapping[str, Any], name: str) -> float:
    value = test.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _text(value: float) -> str:
    return f"{value:.9g}" if value else ""
