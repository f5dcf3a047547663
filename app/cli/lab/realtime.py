"""``trilemma lab realtime FILE``: worst-case responses of tasks on one processor, by analysis and simulation."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app.cli.shared.output import UserError, print_json, print_table
from app.text.format import parse_quantity, quantity_text
from core.catalogue.inputs import TaskSet, read_tasks
from core.physics.realtime import (
    hyperbolic_product,
    kernel_wait_quantile_s,
    liu_layland_bound,
    responses,
    simulate,
    utilisation,
)

MOST_EVENTS = 1e6

EXAMPLES = """examples:
  trilemma lab realtime resources/examples/realtime.toml
  trilemma lab realtime resources/examples/realtime.toml --kernel 41.6ms --busy 60%"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file and the kernel ahead of a request."""
    parser.add_argument(
        "file", metavar="FILE", help="tasks in TOML; resources/examples/realtime.toml documents the form"
    )
    parser.add_argument(
        "--kernel", metavar="TIME", help="add the P99 wait of a request behind non-preemptible kernels of this length"
    )
    parser.add_argument("--busy", default="100%", metavar="SHARE", help="share of time such kernels run (100%%)")


def run(args: argparse.Namespace) -> int:
    """Analyse, simulate and print."""
    try:
        given = read_tasks(Path(args.file))
        document = analysis(given)
        if args.kernel is not None:
            kernel = parse_quantity(args.kernel, "s", name="kernel", low=1e-9, high=1e4, bare=None)
            busy = parse_quantity(args.busy, "frac", name="busy", low=0.0, high=1.0)
            document["p99_kernel_wait_s"] = kernel_wait_quantile_s([kernel], [busy], 0.99)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(document)
    else:
        _print(document)
    return 0 if document["all_meet"] else 1


def analysis(given: TaskSet) -> dict[str, Any]:
    """Return the analysis of a task set as JSON values."""
    tasks, rows = given.tasks, []
    for i, (task, found) in enumerate(zip(tasks, responses(given.tasks, given.switch_ns), strict=True)):
        n_events = (found.worst_ns or 0) * sum(1 / t.period_ns for t in tasks[: i + 1])
        too_long = {"absent": f"its busy period holds about {n_events:.2g} jobs, too many to simulate"}
        simulated = too_long if n_events > MOST_EVENTS else _seconds(simulate(tasks, i, given.switch_ns))
        rows.append(
            {
                "name": task.name,
                "worst_s": _seconds(found.worst_ns),
                "simulated_worst_s": simulated,
                "deadline_s": task.due_ns / 1e9,
                "blocking_s": found.blocking_ns / 1e9,
                "meets_deadline": found.meets_deadline,
            }
        )
    return {
        "name": given.name,
        "tasks": rows,
        "all_meet": all(row["meets_deadline"] for row in rows),
        "utilisation": utilisation(tasks),
        "liu_layland_bound": liu_layland_bound(len(tasks)),
        "hyperbolic_product": hyperbolic_product(tasks),
    }


def _seconds(ns: int | None) -> float | dict[str, str]:
    return {"absent": "the processor is overloaded at this priority"} if ns is None else ns / 1e9


def _print(document: dict[str, Any]) -> None:
    print(f"{document['name']}: utilisation {100 * document['utilisation']:.1f} %\n")
    rows = [("TASK", "WORST", "SIMULATED", "DEADLINE", "BLOCKED BY", "")]
    for row in document["tasks"]:
        times = [_text(row[key]) for key in ("worst_s", "simulated_worst_s", "deadline_s", "blocking_s")]
        rows.append((row["name"], *times, "meets it" if row["meets_deadline"] else "MISSES IT"))
    print_table(rows)
    late = [row["name"] for row in document["tasks"] if not row["meets_deadline"]]
    print(f"\n{'Every deadline is met' if not late else 'Deadlines are missed by ' + ', '.join(late)}.")
    if "p99_kernel_wait_s" in document:
        print(f"P99 wait behind the kernel: {quantity_text(document['p99_kernel_wait_s'], 's')}.")


def _text(value: Any) -> str:
    return value["absent"] if isinstance(value, dict) else quantity_text(value, "s")
