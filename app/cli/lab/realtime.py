"""``trilemma lab realtime FILE``: worst-case responses of tasks on one processor, by analysis and simulation.

``--measure`` measures how late a cyclic timer wakes up on this machine, idle and under load, beside the analysis.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app.agent.lateness import (
    LEAST_PERIOD_S,
    MOST_PERIOD_S,
    MOST_SECONDS,
    QUANTILES,
    Lateness,
    measured,
    n_processors,
)
from app.cli.shared.output import UserError, print_json, print_table
from app.text.format import DASH, counted, parse_quantity, quantity_text
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
MOST_LOAD = 64

EXAMPLES = """examples:
  trilemma lab realtime resources/examples/realtime.toml
  trilemma lab realtime resources/examples/realtime.toml --kernel 41.6ms --busy 60%
  trilemma lab realtime --measure --period 1ms --seconds 5s    lateness of a timer here, with and without load"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file and the kernel ahead of a request."""
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="tasks in TOML; resources/examples/realtime.toml documents the form"
    )
    words = "measure the lateness of a cyclic timer on this machine, with and without load"
    parser.add_argument("--measure", action="store_true", help=words)
    parser.add_argument("--period", metavar="TIME", help="its period (the shortest of the file, or 1 ms)")
    parser.add_argument("--seconds", default="5s", metavar="TIME", help="length of each run, up to 60 s (5s)")
    words = "processes that copy memory in the second run (one a processor)"
    parser.add_argument("--load", type=int, metavar="N", help=words)
    parser.add_argument(
        "--kernel", metavar="TIME", help="add the P99 wait of a request behind non-preemptible kernels of this length"
    )
    parser.add_argument("--busy", default="100%", metavar="SHARE", help="share of time such kernels run (100%%)")


def run(args: argparse.Namespace) -> int:
    """Analyse, simulate and print."""
    try:
        if args.file is None and not args.measure:
            raise ValueError("got no file, expected one, or --measure")
        given = None if args.file is None else read_tasks(Path(args.file))
        document: dict[str, Any] = {} if given is None else analysis(given)
        if args.measure:
            document["lateness"] = _lateness(args, given)
        if args.kernel is not None:
            kernel = parse_quantity(args.kernel, "s", name="kernel", low=1e-9, high=1e4, bare=None)
            busy = parse_quantity(args.busy, "frac", name="busy", low=0.0, high=1.0)
            document["p99_kernel_wait_s"] = kernel_wait_quantile_s([kernel], [busy], 0.99)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(document)
    else:
        if given is not None:
            _print(document)
        if "lateness" in document:
            _print_lateness(document["lateness"])
        if "p99_kernel_wait_s" in document:
            print(f"P99 wait behind the kernel: {quantity_text(document['p99_kernel_wait_s'], 's')}.")
    return 0 if document.get("all_meet", True) else 1


def _lateness(args: argparse.Namespace, given: TaskSet | None) -> dict[str, Any]:
    """Measure the timer without and with load, and set the file's jitter beside it."""
    shortest = 1e-3 if given is None else min(task.period_ns for task in given.tasks) / 1e9
    usual_s = min(max(shortest, LEAST_PERIOD_S), MOST_PERIOD_S)
    period_s = usual_s if args.period is None else _time(args.period, "period", LEAST_PERIOD_S, MOST_PERIOD_S)
    seconds = _time(args.seconds, "seconds", 2.0 * period_s, MOST_SECONDS)
    n_load = n_processors() if args.load is None else args.load
    if not 1 <= n_load <= MOST_LOAD:
        raise ValueError(f"load: got {n_load}, expected a whole number from 1 to {MOST_LOAD}")
    runs = {"unloaded": measured(period_s, seconds), "loaded": measured(period_s, seconds, n_load)}
    p99_s = runs["loaded"].quantile_s(0.99)
    worst_s = runs["loaded"].late_s[-1] if p99_s is None else p99_s
    return {
        "period_s": period_s,
        "seconds": seconds,
        "provenance": "measured",
        **{name: _run_document(run) for name, run in runs.items()},
        "jitter": [
            {"task": task.name, "assumed_s": task.jitter_ns / 1e9, "covers_p99": task.jitter_ns / 1e9 >= worst_s}
            for task in (given.tasks if given is not None else ())
        ],
    }


def _time(text: str, name: str, low: float, high: float) -> float:
    return parse_quantity(text, "s", name=name, low=low, high=high, bare=None)


def _run_document(run: Lateness) -> dict[str, Any]:
    quantiles: dict[str, Any] = {}
    for share in QUANTILES:
        value = run.quantile_s(share)
        absent = {"absent": f"it needs {1.0 / (1.0 - share):.0f} wake-ups"}
        quantiles[f"p{100 * share:g}".replace(".", "_") + "_s"] = absent if value is None else value
    return {
        "n": len(run.late_s),
        "n_missed": run.n_missed,
        "n_load": run.n_load,
        **quantiles,
        "most_s": run.late_s[-1],
    }


def _print_lateness(found: dict[str, Any]) -> None:
    period = quantity_text(found["period_s"], "s")
    print(f"\nLateness of a timer of {period} on this machine, measured for {found['seconds']:g} s each:\n")
    head, rows = [("", "WAKE-UPS", "MISSED", "P50", "P90", "P99", "P99.9", "MOST")], []
    for name in ("unloaded", "loaded"):
        run = found[name]
        label = f"load on {counted(run['n_load'], 'processor')}" if run["n_load"] else "no load"
        times = [
            DASH if isinstance(run[key], dict) else quantity_text(run[key], "s")
            for key in ("p50_s", "p90_s", "p99_s", "p99_9_s", "most_s")
        ]
        rows.append((label, str(run["n"]), str(run["n_missed"]), *times))
    print_table([*head, *rows])
    short = [row["task"] for row in found["jitter"] if not row["covers_p99"]]
    if found["jitter"]:
        below = f"is below the measured P99 under load for {', '.join(short)}"
        words = below if short else "covers the measured P99 under load for every task"
        print(f"\nThe release jitter of the file {words}.")


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


def _text(value: Any) -> str:
    return value["absent"] if isinstance(value, dict) else quantity_text(value, "s")
