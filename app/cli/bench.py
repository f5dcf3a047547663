"""``trilemma bench SUBJECT``: time Trilemma itself."""

from __future__ import annotations

import argparse
import importlib

from app.cli.output import print_json, print_table

SUBJECTS = ("engine", "start", "slider", "simulate", "agent", "beta", "alpha")
HELP = (
    "engine: predictions and calibrations; start: the dashboard; slider: from a move to the painted picture; "
    "simulate: an hour of power, heat and battery; agent: what the agent costs its board and loses; "
    "beta: the same points under each instruction set; "
    "alpha: what pruning really saves by policy and layout"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subject."""
    parser.add_argument("subject", choices=SUBJECTS, help=HELP)


def run(args: argparse.Namespace) -> int:
    """Time the subject and print what was found."""
    module = importlib.import_module(f"app.cli.bench_{args.subject}")
    found = getattr(module, f"measure_{args.subject}")()
    if args.json:
        print_json(found)
        return 0
    show = getattr(module, f"show_{args.subject}", None)
    if show is not None:
        show(found)
        return 0
    rows: list[tuple[str, ...]] = [("", "MEDIAN", "LOWEST", "HIGHEST", "RUNS")]
    for name, value in found.items():
        if isinstance(value, dict):
            rows.append((name, *(f"{value[key]:.4g}" for key in ("median", "min", "max")), str(value["n"])))
        else:
            rows.append((name, ", ".join(value) or "none", "", "", ""))
    print_table(rows)
    return 0
