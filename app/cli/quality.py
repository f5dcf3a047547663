"""``trilemma quality``: measured accuracy cost of pruning and small formats on this model."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from app.cli.shared.measured_grid import (
    Outcome,
    Work,
    add_journal_arguments,
    differing,
    grid,
    measure_all,
    point_text,
    stopped,
)
from app.cli.shared.model_file import add_model_file_argument, check_measurable, with_model_file
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from
from app.cli.shared.progress import ProgressLine
from app.cli.shared.target import add_target_options, target_from
from app.cli.shared.texts import add_text_arguments, report
from app.cli.sweep import axes_from, by_keys
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.target import Target
from app.library.attention import nearest
from app.library.axes import canonical, formats_of
from app.library.files import FileError, write_whole
from app.library.measurements import Measurement
from app.library.records import point_record
from app.text.format import estimate_text
from app.text.r_max import bounds_text, knee_text
from core.catalogue.load import load_catalogue
from core.spec import POLICIES, Catalogue, Estimate, OperatingPoint
from core.spec.runtime import OWN_RUNTIME

ALPHAS = (0.0, 0.3, 0.6, 0.8, 0.9)
MOST_SAMPLES = 32
"""Limits on windows and haystacks, equal to those of the agent."""
COLUMNS = {
    "perplexity_ratio": ("PERPLEXITY", "1"),
    "mean_kl": ("KL", "nat"),
    "top1_agreement": ("TOP-1", "frac"),
    "retrieval_accuracy": ("NEEDLES", "frac"),
    "retrieval_greedy": ("WRITTEN", "frac"),
}
"""Output -> heading and unit."""

EXAMPLES = """examples:
  trilemma quality
  trilemma quality --over policy=attention_mass,key_norm --over alpha=0:0.9:0.1 --weights int8 --context 2048
  trilemma quality --over weights=fp16,int8,int4 --model-file model-f16.gguf --json
  trilemma quality --texts prompts.csv --runtime llamacpp_cpu --weights q4_k_m --reference fp16.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the axes, the amount of text, and the operating point."""
    parser.add_argument(
        "--over",
        action="append",
        metavar="AXIS=VALUES",
        help="as in `sweep`, such as alpha=0:0.9:0.1 or weights=int8,int4; without it every policy at five alphas, "
        "every weight format and every KV format, one after the other",
    )
    parser.add_argument(
        "--windows", type=int, default=6, metavar="N", help="windows of text, 256 scored tokens each (6)"
    )
    parser.add_argument(
        "--haystacks", type=int, default=4, metavar="N", help="texts with ten needles each, 0 for none (4)"
    )
    parser.add_argument(
        "--attention", type=Path, metavar="FILE", help="write attention statistics of each head to a JSON file"
    )
    parser.add_argument("--text", type=Path, metavar="FILE", help="a UTF-8 text file (Python's documentation)")
    add_text_arguments(parser)
    add_model_file_argument(parser)
    add_journal_arguments(parser)
    add_target_options(parser)
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Measure and report."""
    catalogue = with_model_file(args, load_catalogue())
    point = point_from(args, catalogue)
    if args.texts is not None:
        return report(args, point)
    if args.reference is not None:
        raise UserError("--reference compares runs of --texts: give that file too")
    axes = by_keys(axes_from(args.over), args, catalogue) if args.over else {}
    points = grid(point, axes, catalogue) if axes else star(point, catalogue)
    target = target_from(args.attach, args.ssh_config)
    if args.attention is not None:
        _write_attention(args, point, target, catalogue)
    work = Work(
        points=tuple(points),
        what=("quality", "retrieval") if args.haystacks else ("quality",),
        options=_options(args),
        model_file=args.model_file,
        keep=args.text is None,
    )
    outcome = measure_all(work, catalogue, target, args.journal, fresh=args.fresh)
    if outcome.status:
        print(f"trilemma quality: {stopped(outcome, work)}", file=sys.stderr)
        return outcome.status
    if args.json:
        print_json(document(point, work, outcome))
    else:
        _print(outcome)
    return 0 if outcome.measured else 1


def _options(args: argparse.Namespace) -> dict[str, Any]:
    for name, given, least in (("windows", args.windows, 1), ("haystacks", args.haystacks, 0)):
        if not least <= given <= MOST_SAMPLES:
            raise UserError(f"{name}: got {given}, expected {least} to {MOST_SAMPLES}")
    options: dict[str, Any] = {"n_windows": args.windows}
    if args.haystacks:
        options["n_haystacks"] = args.haystacks
    if args.text is not None:
        if not args.text.is_file():
            raise UserError(f"text: got {args.text}, expected a UTF-8 text file")
        options["text_file"] = str(args.text.resolve())
    return options


def _write_attention(args: argparse.Namespace, point: OperatingPoint, target: Target, catalogue: Catalogue) -> None:
    """Measure the attention statistics of the unpruned point and write them."""
    if not args.attention.parent.is_dir():
        raise UserError(f"attention: got {args.attention}, expected a file in an existing folder")
    plain = replace(point, alpha=0.0)
    text = {key: value for key, value in _options(args).items() if key == "text_file"}
    try:
        with AttachedBoard(target) as board, ProgressLine() as line:
            check_measurable(plain, catalogue, board.hello, args.model_file)
            path = None if args.model_file is None else str(args.model_file.resolve())
            asked = point_record(plain)
            body = board.measure(asked, ("attention",), line.show, model_file=path, options=text)
        document = {"point": asked, **body["attention_by_head"], "conditions": body.get("conditions", {})}
        write_whole(args.attention, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    except (LinkError, FileError) as error:
        raise UserError(str(error)) from error


def star(point: OperatingPoint, catalogue: Catalogue) -> list[OperatingPoint]:
    """Return the reference, each policy at several prune rates, and each weight and KV format unpruned."""
    plain = replace(point, alpha=0.0)
    found = [replace(plain, weights="fp32", kv="fp32")]
    found += [replace(plain, weights=weights) for weights in formats_of("weights", OWN_RUNTIME, catalogue)]
    found += [replace(plain, kv=kv) for kv in formats_of("kv", OWN_RUNTIME, catalogue)]
    found += [replace(point, policy=policy, alpha=alpha) for policy in POLICIES for alpha in ALPHAS]
    return list(dict.fromkeys(canonical(one, catalogue) for one in found))


def document(point: OperatingPoint, work: Work, outcome: Outcome) -> dict[str, Any]:
    """Return the measurements as JSON values."""
    return {
        "point": point_record(point),
        "reference": "the model file in fp32 without pruning",
        "options": dict(work.options),
        "n_from_journal": outcome.n_from_journal,
        "rows": [_row(measurement) for measurement in outcome.measured],
        "knee_over_alpha": knees(outcome.measured),
        "failed": [{"point": point_record(one), "reason": reason} for one, reason in outcome.failed],
    }


def knees(measured: Sequence[Measurement]) -> dict[str, str]:
    """Return the knee over alpha in words, by the rest of the point, of sweeps of two prune rates or more."""
    sweeps: dict[str, list[tuple[float, float]]] = {}
    for one in measured:
        output = one.output("perplexity_ratio")
        if isinstance(output, Estimate):
            rest = point_text(replace(one.point, alpha=0.0)).replace("alpha 0, ", "")
            sweeps.setdefault(rest, []).append((float(one.point.alpha), float(output.median)))
    found = {}
    for rest, pairs in sweeps.items():
        alpha, ratio = np.array(pairs).T
        if len(np.unique(alpha)) > 1:
            found[rest] = knee_text(alpha, ratio)
    return found


def _row(measurement: Measurement) -> dict[str, Any]:
    body = measurement.body
    outputs = {name: body[name] for name in (*COLUMNS, "perplexity", "attention") if name in body}
    return {
        "point": point_record(measurement.point),
        **outputs,
        "conditions": body.get("conditions", {}),
        "notes": body.get("notes", []),
        "time_utc": measurement.time_utc,
    }


def _print(outcome: Outcome) -> None:
    names = differing([m.point for m in outcome.measured])
    shown = [name for name in COLUMNS if any(name in m.body for m in outcome.measured)]
    rows = [(*(name.upper() for name in names), *(COLUMNS[name][0] for name in shown))]
    rows += [(*_named(m, names), *(_cell(m, name) for name in shown)) for m in outcome.measured]
    print_table(rows)
    known = nearest(outcome.measured, outcome.measured[0].point) if outcome.measured else None
    if known is not None:
        print(bounds_text(known))
    found = knees(outcome.measured)
    for rest, words in found.items():
        print(f"{rest}: {words}" if len(found) > 1 else words)
    for note in dict.fromkeys(note for m in outcome.measured for note in m.body.get("notes", [])):
        print(note)
    for point, reason in outcome.failed:
        print(f"trilemma quality: failed at {point_text(point)}: {reason}", file=sys.stderr)


def _named(measurement: Measurement, names: Sequence[str]) -> list[str]:
    record = point_record(measurement.point)
    return [f"{record[name]:g}" if isinstance(record[name], float) else str(record[name]) for name in names]


def _cell(measurement: Measurement, name: str) -> str:
    output = measurement.output(name)
    if not isinstance(output, Estimate):
        return output.reason
    return str(estimate_text(float(output.median), float(output.q05), float(output.q95), COLUMNS[name][1]))
