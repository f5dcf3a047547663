"""``trilemma bench beta``: points under each instruction set of this processor, compared with published factors."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from app.cli.bench.instruction_sets import InstructionSet, instruction_sets
from app.cli.shared.library import open_library
from app.cli.shared.model_file import check_measurable
from app.cli.shared.output import UserError, print_table
from app.cli.shared.progress import ProgressLine
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.transport import AGENT_ARGV, LocalTransport
from app.library.files import FileError
from app.library.machine import machine_key
from app.library.records import point_record
from app.text.format import quantity_text
from core.articles.as_printed import article_a
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint

WEIGHTS = ("fp32", "bf16", "int8", "int4")
CONTEXT_TOKENS = 512.0
ROUNDS = 3
MEANING = {"decode_s": "time per token", "ttft_s": "prompt"}
OWN = {"decode_s": "decode", "ttft_s": "ttft"}

Times = dict[tuple[str, str, str], list[float]]
"""By instruction set, weight format and output."""


def measure_beta(rounds: int = ROUNDS, weights: tuple[str, ...] = WEIGHTS) -> dict[str, Any]:
    """Measure points under each instruction set, interleaved, in one worker process for each.

    Prefill is nearly all computing, so the ratio of its times is the factor beta itself; decoding also reads memory and
    gains less. Factors are relative to the set that this machine uses by default, its last.

    Returns
    -------
    dict
        ``rows`` of ``{instruction_set, weights, output, seconds, beta}``, ``beta`` by instruction set (median over the
        formats of prefill), ``published``.

    Raises
    ------
    UserError
        This machine cannot measure, or supports only one instruction set.
    """
    sets = instruction_sets()
    if len(sets) < 2:
        raise UserError(f"nothing to compare: this CPU supports only {sets[0].name}")
    try:
        times, machine = _measured(sets, rounds, weights)
    except LinkError as error:
        raise UserError(str(error)) from error
    own = sets[-1].name
    rows = [
        {
            "instruction_set": each.name,
            "weights": w,
            "output": output,
            "seconds": _record(times[each.name, w, output]),
            "beta": _ratio(times[own, w, output], times[each.name, w, output]),
        }
        for each in sets
        for w in weights
        for output in MEANING
    ]
    beta = {each.name: _over_formats(rows, each.name) for each in sets}
    try:
        open_library().set_betas(machine, beta)
    except FileError as error:
        raise UserError(str(error)) from error
    return {
        "rows": rows,
        "beta": beta,
        "relative_to": own,
        "published": {"factors": dict(article_a.BETA), "relative_to": "SVE2", "provenance": "published"},
    }


def _measured(sets: list[InstructionSet], rounds: int, weights: tuple[str, ...]) -> tuple[Times, str]:
    catalogue = load_catalogue()
    first = replace(OperatingPoint(), weights=weights[0], context_tokens=CONTEXT_TOKENS)
    times: Times = {}
    with ExitStack() as stack:
        boards = {each.name: stack.enter_context(AttachedBoard(partial(_limited, each))) for each in sets}
        line = stack.enter_context(ProgressLine())
        hello: Mapping[str, Any] = boards[sets[-1].name].hello
        check_measurable(first, catalogue, hello, None)
        n_all = rounds * len(weights) * len(sets)
        for done, (number, w, name) in enumerate(product(range(rounds), weights, boards)):
            # a prompt of the same length would not be processed again
            point = replace(first, weights=w, context_tokens=CONTEXT_TOKENS + number)
            body = boards[name].measure(
                point_record(point), tuple(OWN.values()), partial(_show, line, done, n_all, name)
            )
            used = body["conditions"]["instruction_set"]
            if used != name:
                raise UserError(f"the worker reports {used} although {name} was requested")
            for output in MEANING:
                times.setdefault((name, w, output), []).append(body[output]["median"])
    return times, machine_key(hello)


def _limited(limit: InstructionSet) -> LocalTransport:
    return LocalTransport(("env", *(f"{key}={value}" for key, value in limit.environment.items()), *AGENT_ARGV))


def _show(line: ProgressLine, done: int, n_all: int, name: str, done_frac: float, text: str) -> None:
    line.show((done + done_frac) / n_all, f"{name}, run {done + 1} of {n_all}: {text}")


def _record(seconds: list[float]) -> dict[str, Any]:
    return {
        "median": statistics.median(seconds),
        "q05": min(seconds),
        "q95": max(seconds),
        "n": len(seconds),
        "provenance": "measured",
    }


def _ratio(own: list[float], other: list[float]) -> dict[str, Any]:
    """Return the speed of a set relative to the machine's own; only times of the same round are compared."""
    return _record([a / b for a, b in zip(own, other, strict=True)])


def _over_formats(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    found = [row["beta"]["median"] for row in rows if row["instruction_set"] == name and row["output"] == "ttft_s"]
    return _record(found)


def show_beta(found: dict[str, Any]) -> None:
    """Print the measured and the published factors."""
    table: list[tuple[str, ...]] = [("INSTRUCTION SET", "WEIGHTS", "OF", "TIME", "BETA", "RANGE")]
    for row in found["rows"]:
        beta = row["beta"]
        table.append(
            (
                row["instruction_set"],
                row["weights"],
                MEANING[row["output"]],
                quantity_text(row["seconds"]["median"], "s"),
                f"{beta['median']:.3f}",
                f"{beta['q05']:.3f} – {beta['q95']:.3f}",
            )
        )
    print_table(table)
    print(f"\nBeta of computing, {found['relative_to']} being 1 (median over formats of the prompt's):")
    print_table([(name, f"{beta['median']:.3f}") for name, beta in found["beta"].items()])
    printed = ", ".join(f"{name} {factor:g}" for name, factor in found["published"]["factors"].items())
    print(f"\nPublished factors, of other processors, relative to {found['published']['relative_to']}: {printed}.")
