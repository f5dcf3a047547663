"""Prompts with references in a file of the user, and the scores of a runtime's answers to them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.catalogue.csv_rows import rows_in
from core.physics.text_scores import bleu, perplexity, rouge_l, top_kl

MOST_TEXTS = 200
MOST_CHAR = 12000
N_RESAMPLINGS, _SEED = 1000, 20250101


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt and the answer that it should have."""

    prompt: str
    reference: str


def texts_of(name: str, whole: str) -> list[Text]:
    """Return the prompts with references of a file: JSON lines, or CSV with the columns ``prompt`` and ``reference``.

    Raises
    ------
    ValueError
        ``name: line N: key: got X, expected Y``.
    """
    try:
        found = _json_lines(whole) if name.lower().endswith((".jsonl", ".ndjson", ".json")) else _csv(whole)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if not 1 <= len(found) <= MOST_TEXTS:
        raise ValueError(f"{name}: got {len(found)} texts, expected 1 to {MOST_TEXTS}")
    return found


def _json_lines(whole: str) -> list[Text]:
    found = []
    for number, line in enumerate(whole.splitlines(), 1):
        if line.strip():
            try:
                cells = json.loads(line)
            except (ValueError, RecursionError):
                cells = None
            if not isinstance(cells, dict):
                raise ValueError(f"line {number}: got {line.strip()!r:.40}, expected a JSON object")
            found.append(_text(number, cells))
    return found


def _csv(whole: str) -> list[Text]:
    heading, rows = rows_in(whole.splitlines(keepends=True))
    names = [cell.strip().lower() for cell in heading]
    for name in ("prompt", "reference"):
        if names.count(name) != 1:
            raise ValueError(f"heading: got {', '.join(names) or 'nothing'!r:.60}, expected one column {name}")
    found = []
    for row in rows:
        if row.broken:
            raise ValueError(f"line {row.line}: got {row.broken}, expected a prompt and a reference")
        found.append(_text(row.line, dict(zip(names, row.cells, strict=False))))
    return found


def _text(number: int, cells: Mapping[str, Any]) -> Text:
    for name in ("prompt", "reference"):
        value = cells.get(name)
        if not isinstance(value, str) or not value.strip() or len(value) > MOST_CHAR:
            got = f"{len(value)} characters" if isinstance(value, str) and value.strip() else repr(value)[:40]
            raise ValueError(f"line {number}: {name}: got {got}, expected a text of 1 to {MOST_CHAR} characters")
    return Text(cells["prompt"], cells["reference"])


def scores(texts: Sequence[Text], answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return BLEU, ROUGE-L, perplexity and top-1 agreement with the references, and the time of a request.

    Intervals are of 90 %, by a bootstrap over the texts; those of the time are its quantiles.
    """
    made, wanted = [str(answer["text"]) for answer in answers], [text.reference for text in texts]
    each = [rouge_l(*pair) for pair in zip(made, wanted, strict=True)]
    tokens = [answer["tokens"] for answer in answers]
    absent = next((one for one in tokens if isinstance(one, Mapping)), None)
    seconds = np.array([float(answer["request_s"]) for answer in answers])
    found: dict[str, Any] = {
        "bleu": _bootstrap(lambda i: bleu([made[k] for k in i], [wanted[k] for k in i]), len(made)),
        "rouge_l": _bootstrap(lambda i: float(np.mean([each[k] for k in i])), len(made)),
        "request_s": {
            "median": float(np.median(seconds)),
            "q05": float(np.quantile(seconds, 0.05)),
            "q95": float(np.quantile(seconds, 0.95)),
            "p99": float(np.quantile(seconds, 0.99)),
            "n": len(seconds),
            "provenance": "measured",
        },
    }
    if absent is not None:
        return {**found, "perplexity": dict(absent), "top1": dict(absent)}
    log_p = [[float(token["log_probability"]) for token in one] for one in tokens]
    first = [[bool(token["first"]) for token in one] for one in tokens]
    found["perplexity"] = _bootstrap(lambda i: perplexity(np.concatenate([log_p[k] for k in i])), len(made))
    found["top1"] = _bootstrap(lambda i: float(np.mean(np.concatenate([first[k] for k in i]))), len(made))
    found["n_tokens"] = sum(map(len, log_p))
    found["n_not_listed"] = sum(not token["listed"] for one in tokens for token in one)
    return found


def against(answers: Sequence[Mapping[str, Any]], reference: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return KL from a reference run and agreement with its first choices, at tokens that both runs scored alike.

    Both are ``{absent}`` where the runs have no token in common.
    """
    kl, same, n_other = [], [], 0
    for mine, theirs in zip(answers, reference, strict=True):
        pairs = [each["tokens"] for each in (theirs, mine)]
        if any(isinstance(each, Mapping) for each in pairs):
            continue
        for one, other in zip(*pairs, strict=False):
            if one["token"] != other["token"] or not one["top"].keys() & other["top"].keys():
                n_other += 1
                continue
            kl.append(top_kl(one["top"], other["top"]))
            same.append(max(one["top"], key=one["top"].get) == max(other["top"], key=other["top"].get))
    if not kl:
        no = {"absent": "the two runs scored no token alike"}
        return {"kl": no, "agreement": no, "n_tokens": 0, "n_other_tokens": n_other}
    return {
        "kl": _bootstrap(lambda i: float(np.mean([kl[k] for k in i])), len(kl)),
        "agreement": _bootstrap(lambda i: float(np.mean([same[k] for k in i])), len(kl)),
        "n_tokens": len(kl),
        "n_other_tokens": n_other,
    }


def _bootstrap(of: Callable[[Sequence[int]], float], n: int) -> dict[str, Any]:
    rng = np.random.default_rng(_SEED)
    value = of(range(n))
    drawn = [of(rng.integers(n, size=n).tolist()) for _ in range(N_RESAMPLINGS if n > 1 else 0)] or [value]
    low, high = np.quantile(drawn, [0.05, 0.95])
    return {
        "median": value,
        "q05": float(min(low, value)),
        "q95": float(max(high, value)),
        "n": n,
        "provenance": "measured",
    }
