"""``trilemma lab schedule FILE``: a graph of operations with slack, spans and bounds, or a chain of stages.

``--from-model`` takes the layers of a model at an operating point instead of a file.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from, with_described
from app.library.timelines import model_plan
from app.text.format import counted, parse_quantity, quantity_text
from core.catalogue.inputs import Plan, read_plan
from core.physics.pipeline import chain_makespan, chain_starts, initiation_interval, stage_utilisation
from core.physics.schedule import list_schedule, slack
from core.predict.scenario import initial_posterior, predict

EXAMPLES = """examples:
  trilemma lab schedule resources/examples/schedule.toml --workers 2
  trilemma lab schedule resources/examples/pipeline.toml --json
  trilemma lab schedule --from-model --model qwen2.5-1.5b --board raspberry_pi_5 --runtime llamacpp_cpu --weights q4_k_m
  trilemma lab schedule --from-model --layers all --budget 20ms"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file and the number of workers."""
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="TOML; resources/examples/schedule.toml (a graph) and pipeline.toml (a chain) document the form",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="number of workers in place of the file's")
    parser.add_argument("--budget", metavar="TIME", help="deadline of the graph in place of the file's, such as 20ms")
    parser.add_argument("--from-model", action="store_true", help="the layers of --model with their predicted times")
    parser.add_argument("--layers", metavar="N", help="layers of the model, a number or all (1)")
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Schedule and print."""
    try:
        plan = _plan(args)
        if args.workers is not None and not 1 <= args.workers <= 1024:
            raise ValueError(f"workers: got {args.workers}, expected a whole number from 1 to 1024")
        if args.workers is not None and plan.stages:
            raise ValueError("workers: got a number for a chain, whose stages have an engine each; expected none")
        document = chain(plan) if plan.stages else graph(plan, args.workers or plan.n_workers)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(document)
    elif plan.stages:
        _print_chain(document)
    else:
        _print_graph(document)
    return 1 if document.get("meets_deadline") is False else 0


def _plan(args: argparse.Namespace) -> Plan:
    """Return the plan of the file or of the model, with the budget in place of its deadline."""
    if (args.file is None) != args.from_model:
        got = "neither" if args.file is None else "both"
        raise ValueError(f"got {got} of a file and --from-model, expected one of them")
    if args.layers is not None and not args.from_model:
        raise ValueError("layers: got a number for a file, expected --from-model beside it")
    plan = _model_plan(args) if args.from_model else read_plan(Path(args.file))
    if args.budget is None:
        return plan
    if plan.stages:
        raise ValueError("budget: got a time for a chain, expected a graph")
    return replace(plan, deadline_s=parse_quantity(args.budget, "s", name="budget", low=0.0, high=1e9, bare=None))


def _model_plan(args: argparse.Namespace) -> Plan:
    library = open_library()
    catalogue = with_described(args, library.catalogue())
    point = point_from(args, catalogue)
    known = library.posterior(point, catalogue) or initial_posterior(catalogue.resolve(point), catalogue)
    text = args.layers or "1"
    if text != "all" and not (text.isascii() and text.isdigit()):
        raise ValueError(f"layers: got {text[:40]!r}, expected a number or all")
    n_layers = None if text == "all" else int(text)
    return model_plan(point, catalogue, predict(point, catalogue, known), n_layers)


def graph(plan: Plan, n_workers: int) -> dict[str, Any]:
    """Return a graph's slack, list schedule and bounds as JSON values."""
    has_deadline = math.isfinite(plan.deadline_s)
    found = slack(plan.operations, plan.deadline_s if has_deadline else None)
    made = list_schedule(plan.operations, n_workers)
    alone = list_schedule(plan.operations, n_workers, share_bandwidth=False)
    in_order = list_schedule(plan.operations, n_workers, rank=dict.fromkeys((op.name for op in plan.operations), 0.0))
    memory = {operation.name: operation.memory for operation in plan.operations}
    return {
        "name": plan.name,
        "n_workers": n_workers,
        "makespan_s": made.makespan_s,
        "stretch_by_shared_bandwidth": made.stretch,
        "makespan_without_sharing_s": alone.makespan_s,
        "makespan_in_file_order_s": in_order.makespan_s,
        "lower_bound_s": made.lower_s,
        "graham_bound_s": made.upper_s,
        "critical_path": list(found.critical_path),
        "critical_path_s": found.critical_s,
        "deadline_s": plan.deadline_s if has_deadline else {"absent": "none is given"},
        "meets_deadline": made.makespan_s <= plan.deadline_s if has_deadline else None,
        "operations": [
            {
                "name": span.name,
                "worker": span.worker,
                "memory": memory[span.name],
                "start_s": span.start_s,
                "end_s": span.end_s,
                "earliest_s": found.earliest_s[span.name],
                "latest_s": found.latest_s[span.name],
                "slack_s": found.slack_s[span.name],
            }
            for span in sorted(made.spans, key=lambda s: (s.start_s, s.worker))
        ],
    }


def chain(plan: Plan) -> dict[str, Any]:
    """Return a chain's timelines, with true dependencies and with the file's overlaps, as JSON values."""
    overlap = plan.overlaps[1:]

    def timeline(overlaps: tuple[float, ...]) -> dict[str, Any]:
        starts = chain_starts(plan.lengths, overlaps)
        return {
            "starts": starts.tolist(),
            "ends": (starts + plan.lengths).tolist(),
            "makespan": chain_makespan(plan.lengths, plan.n_items, overlaps),
        }

    return {
        "name": plan.name,
        "unit": plan.unit,
        "stages": list(plan.stages),
        "n_items": plan.n_items,
        "strict": timeline((0.0,) * len(overlap)),
        "as_printed": timeline(overlap),
        "initiation_interval": initiation_interval(plan.lengths),
        "utilisation": stage_utilisation(plan.lengths).tolist(),
        "check": "a stage starts before the one it waits for has ended" if any(overlap) else "",
    }


def _print_graph(document: dict[str, Any]) -> None:
    workers = counted(document["n_workers"], "worker")
    print(f"{document['name']}: {quantity_text(document['makespan_s'], 's')} on {workers}\n")
    rows = [("OPERATION", "WORKER", "START", "END", "SLACK")]
    for row in document["operations"]:
        times = [quantity_text(row[key], "s") for key in ("start_s", "end_s", "slack_s")]
        rows.append((row["name"], str(row["worker"]), *times))
    print_table(rows)
    low, high = (quantity_text(document[key], "s") for key in ("lower_bound_s", "graham_bound_s"))
    print(f"\nCritical path: {' > '.join(document['critical_path'])}.")
    print(f"Without sharing the memory, no order can be below {low} and no list schedule above {high}.")
    print(f"Sharing it stretches this one by {document['stretch_by_shared_bandwidth']:.3g}.")
    first, ours = document["makespan_in_file_order_s"], document["makespan_s"]
    saved = f"; this order saves {100 * (1 - ours / first):.1f} %" if ours < first else ", no more than this order"
    print(f"First in, first out (ready operations in the order of the file): {quantity_text(first, 's')}{saved}.")
    if document["meets_deadline"] is not None:
        verdict = "Meets" if document["meets_deadline"] else "Misses"
        print(f"{verdict} the deadline of {quantity_text(document['deadline_s'], 's')}.")


def _print_chain(document: dict[str, Any]) -> None:
    print(f"{document['name']}: times in {document['unit']}\n")
    rows = [("STAGE", "STARTS", "ENDS", "STARTS AS PRINTED", "BUSY")]
    strict, printed = document["strict"], document["as_printed"]
    for i, stage in enumerate(document["stages"]):
        times = [f"{values[i]:g}" for values in (strict["starts"], strict["ends"], printed["starts"])]
        rows.append((stage, *times, f"{100 * document['utilisation'][i]:.0f} %"))
    print_table(rows)
    n = document["n_items"]
    print(f"\n{counted(n, 'item')}: {strict['makespan']:g}, one every {document['initiation_interval']:g}.", end=" ")
    print(f"As printed: {printed['makespan']:g}{', but ' + document['check'] if document['check'] else ''}.")
