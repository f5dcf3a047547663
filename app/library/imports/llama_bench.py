"""Tests of llama-bench in each of its forms: ``-o json``, ``jsonl``, ``csv``, ``sql`` and ``md``, of any version.

A test is a mapping with the members of its JSON; CSV and SQL have the same ones as texts. Markdown has few of them, and
speeds in place of times. Lines of other programs before, between and behind the tests are passed over; of a text that
ends too early, what is whole counts.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from core.catalogue.text_files import one_line_end

Test = dict[str, Any]

_MOST_DIGITS = 18  # of a whole number; an int64 has no more
_TOKENS, _TIMES = {"n_prompt", "n_gen"}, {"avg_ns", "samples_ns"}
_WHOLE, _NUMBER = re.compile(r"-?\d+"), re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_JSON_ROW = re.compile(r'\{\s*"build_(?:commit|number)"')
_CSV_ROW = re.compile(r'"|[0-9a-f]{7,12}[,;\t]')
_CSV_HEADING = re.compile(r'^[^\S\n]*"?build_commit"?[,;\t].*n_gen.*$', re.MULTILINE)
_INSERT = re.compile(r"INSERT INTO \w+ \((?P<names>[^()]*)\) VALUES \((?P<values>(?:'(?:[^']|'')*'|[^'()])*)\);?")
_SQL_VALUE = re.compile(r"'((?:[^']|'')*)'|([^\s,']+)")
_MD_HEADING = re.compile(
    r"^[>\s]*\|(?:.*\|)?\s*model(?:_filename)?\s*\|(?:.*\|)?\s*test\s*\|(?:.*\|)?\s*t/s\s*\|", re.M | re.I
)
_MD_TEST = re.compile(r"(?:pp ?(\d+))?\+?(?:tg ?(\d+))?(?: ?@ ?d ?(\d+))?")
_SPEED = re.compile(r"(\d+(?:\.\d+)?)(?:[^\d.]+(\d+(?:\.\d+)?))?")
_SIZE = re.compile(r"([\d.]+) ?([KMGT])iB")
_PARAMS = re.compile(r"([\d.]+) ?([KMBT])")
_BUILD = re.compile(r"build: (\w+) \((\d+)\)")
_GPU = re.compile(r"Device 0: ([^,\n]+), compute|ggml_vulkan: 0 = ([^(|\n]+)|GPU name:[^\S\n]+([^\n]+)")
_MD_COLUMNS = {"threads": "n_threads", "ngl": "n_gpu_layers", "fa": "flash_attn", "backend": "backends"}
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "B": 3, "T": 4}


@dataclass(frozen=True, slots=True)
class Benched:
    """Tests of a text, in its order, and whether another one is cut off or damaged."""

    tests: list[Test]
    damaged: bool = False


def read(text: str) -> Benched | None:
    """Return the tests of llama-bench in a text; None where it is another program's."""
    text = one_line_end(text)
    if _INSERT.search(text) or "CREATE TABLE IF NOT EXISTS llama_bench" in text:
        return _sql(text)
    if _MD_HEADING.search(text):
        return _markdown(text)
    if _CSV_HEADING.search(text):
        return _csv(text)
    found = _json(text)
    return found if found.tests or found.damaged else None


def mean_and_sd_s(test: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return mean and standard deviation of the time of a test without samples [s]; None where it has no such pair."""
    mean, sd = (test.get(name) for name in ("avg_ns", "stddev_ns"))
    if isinstance(mean, (int, float)) and isinstance(sd, (int, float)) and mean > 0 and not test.get("samples_ns"):
        return mean * 1e-9, sd * 1e-9
    return None


# ---- JSON


def _json(text: str) -> Benched:
    """Return the objects that are tests, in a list, one a line, or inside of others, among any other lines."""
    decoder = json.JSONDecoder(parse_constant=lambda _: None, parse_float=_finite, parse_int=_whole)
    tests, at, damaged = list[Test](), text.find("{"), False
    while at >= 0:
        end = at + 1
        try:
            value, end = decoder.raw_decode(text, at)
        except RecursionError:
            return Benched(tests, damaged=True)
        except ValueError:
            damaged = damaged or _JSON_ROW.match(text, at) is not None
        else:
            tests += _tests_in(value)
        at = text.find("{", end)
    endless = bool(tests) and text.lstrip().startswith("[") and "]" not in text[text.rfind("}") :]
    return Benched(tests, damaged or endless)


def _finite(digits: str) -> float | None:
    value = float(digits)
    return value if math.isfinite(value) else None


def _whole(digits: str) -> int | None:
    return int(digits) if len(digits) <= _MOST_DIGITS else None


def _tests_in(value: Any) -> Iterator[Test]:
    """Yield a value that is a test, or those inside it, as scripts that run llama-bench keep them."""
    if isinstance(value, dict) and _TOKENS & value.keys() and _TIMES & value.keys():
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _tests_in(inner)


# ---- CSV and SQL


def _csv(text: str) -> Benched:
    tests, damaged, names, delimiter = list[Test](), False, list[str](), ","
    for line in text.splitlines():
        if _CSV_HEADING.match(line):
            delimiter = max(",;\t", key=line.count)
            names = next(csv.reader([line], delimiter=delimiter))
            continue
        if not names or not _CSV_ROW.match(line):
            continue
        cells = next(csv.reader([line], delimiter=delimiter))
        if len(cells) == len(names) and line.count('"') % 2 == 0:
            tests.append(_typed(dict(zip(names, cells, strict=True))))
        else:
            damaged = True
    return Benched(tests, damaged)


def _sql(text: str) -> Benched:
    tests = []
    for found in _INSERT.finditer(text):
        names = [name.strip() for name in found["names"].split(",")]
        values = [quoted.replace("''", "'") or bare for quoted, bare in _SQL_VALUE.findall(found["values"])]
        if len(names) == len(values) and set(names) >= _TOKENS:
            tests.append(_typed(dict(zip(names, values, strict=True))))
    return Benched(tests, not tests or text.count("INSERT INTO") > len(tests))


def _typed(cells: Mapping[str, str]) -> Test:
    """Return texts as JSON has them: numbers where they are, but for names."""
    texts = {"build_commit", "cpu_info", "gpu_info", "model_filename", "model_type", "test_time"}
    return {name: cell if name in texts else _value(cell) for name, cell in cells.items()}


def _value(cell: str) -> Any:
    if _WHOLE.fullmatch(cell):
        return _whole(cell)
    return _finite(cell) if _NUMBER.fullmatch(cell) else cell


# ---- Markdown


def _markdown(text: str) -> Benched:
    """Return the rows of all of its tables; a line with the build is of the rows since the line before."""
    tests, names, above, damaged, n_built = list[Test](), list[str](), dict[str, str](), False, 0
    gpu = next((next(filter(None, found.groups())).strip() for found in _GPU.finditer(text)), "")
    for line in text.splitlines():
        build, in_table = _BUILD.search(line), line.lstrip("> \t").startswith("|")
        if build:
            for test in tests[n_built:]:
                test |= {"build_commit": build[1], "build_number": int(build[2])}
            n_built = len(tests)
        if _MD_HEADING.match(line) or not in_table:
            names, above = [name.lower() for name in _cells(line)] if in_table else [], {}
        elif names and not set(line) <= set("|-: >\t"):
            above = _row(names, line, above)
            read_row = _md_test(above)
            tests += [] if read_row is None else [{"gpu_info": gpu, **read_row} if gpu else read_row]
            damaged = damaged or read_row is None
    return Benched(tests, damaged)


def _cells(line: str) -> Iterator[str]:
    for cell in line.strip().strip(">").strip().strip("|").split("|"):
        yield cell.strip().strip("*`").strip()


def _row(names: list[str], line: str, above: Mapping[str, str]) -> dict[str, str]:
    """Return a row by column. An empty cell is as the one above; patterns of overridden tensors have bars in them."""
    cells = list(_cells(line))
    n_more = len(cells) - len(names)
    if n_more > 0 and "ot" in names:
        at = names.index("ot")
        cells[at : at + n_more + 1] = ["|".join(cells[at : at + n_more + 1])]
    given = dict(zip(names, cells, strict=False))
    return {name: cell or (above.get(name, "") if name not in ("test", "t/s") else "") for name, cell in given.items()}


def _md_test(row: Mapping[str, str]) -> Test | None:
    """Return a row of a table as a test, its time from its speed; None where one of the two is not there."""
    kind, speed = _MD_TEST.fullmatch(row.get("test", "")), _SPEED.search(row.get("t/s", ""))
    n_prompt, n_gen, n_depth = (int(n or 0) for n in kind.groups()) if kind else (0, 0, 0)
    if not speed or not n_prompt + n_gen or not (mean := _value(speed[1])) > 0:
        return None
    sd = _value(speed[2]) if speed[2] else 0.0
    avg_ns = 1e9 * (n_prompt + n_gen) / mean
    test: Test = {_MD_COLUMNS.get(name, name): _value(cell) for name, cell in row.items()}
    for name in ("model", "size", "params", "test", "t/s"):
        test.pop(name, None)
    return test | {
        "model_type": row.get("model", ""),
        "model_size": _scaled(_SIZE.fullmatch(row.get("size", "")), 1024),
        "model_n_params": _scaled(_PARAMS.fullmatch(row.get("params", "")), 1000),
        "type_k": row.get("type_k", "f16"),
        "n_prompt": n_prompt,
        "n_gen": n_gen,
        "n_depth": n_depth,
        "avg_ns": avg_ns,
        "stddev_ns": avg_ns * sd / mean,
    }


def _scaled(found: re.Match[str] | None, base: int) -> float:
    return float(found[1]) * base ** _POWER[found[2]] if found else 0.0
