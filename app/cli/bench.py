"""``trilemma bench SUBJECT``: time Trilemma itself."""

from __future__ import annotations

import argparse

from app.cli.output import print_json, print_table

SUBJECTS = ("engine", "start", "simulate")
HELP = "engine: predictions and calibrations; start: the dashboard; simulate: an hour of power, heat and battery"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subject."""
    parser.add_argument("subject", choices=SUBJECTS, help=HELP)


def run(args: argparse.Namespace) -> int:
    """Time the subject and print what was found."""
    if args.subject == "engine":
        from app.cli.bench_engine import measure_engine as measure
    elif args.subject == "simulate":
        from app.cli.bench_simulate import measure_simulate as measure
    else:
        from app.cli.bench_start import measure_start as measure
    found = measure()
    if args.json:
        print_json(found)
        return 0
    rows: list[tuple[str, ...]] = [("", "MEDIAN", "LOWEST", "HIGHEST", "RUNS")]
    for name, value in found.items():
        if isinstance(value, dict):
            rows.append((name, *(f"{value[key]:.4g}" for key in ("median", "min", "max")), str(value["n"])))
        else:
            rows.append((name, ", ".join(value) or "none", "", "", ""))
    print_table(rows)
    return 0
