"""``trilemma bench SUBJECT``: time Trilemma itself."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from app.cli.shared.measured_grid import add_journal_arguments
from app.cli.shared.output import UserError, print_json, print_table

SUBJECTS = ("engine", "start", "slider", "simulate", "agent", "beta", "alpha", "kernels", "decoder")
HELP = (
    "engine: predictions and calibrations; start: the dashboard; slider: from a move to the painted picture; "
    "simulate: an hour of power, heat and battery; agent: load of the agent and lost records; "
    "beta: the same points under each instruction set; "
    "alpha: saving of pruning by policy and layout; "
    "kernels: each as a fraction of concurrent read bandwidth; decoder: end-to-end decode"
)
TAKEN = {
    "kernels": ("names", "quick", "device"),
    "decoder": ("quick", "against_llama", "context"),
    "alpha": ("journal", "fresh"),
}
"""Subject -> its own options."""
EXAMPLES = """examples:
  trilemma bench engine --json
  trilemma bench kernels --quick linear/int4
  trilemma bench kernels --quick --device cuda:0            the same cases on a GPU, timed by its events
  trilemma bench decoder --against-llama --quick
  trilemma bench alpha --journal alpha.jsonl                resumes where it was stopped"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the subject and the options of single subjects."""
    parser.add_argument("subject", choices=SUBJECTS, help=HELP)
    parser.add_argument("names", nargs="*", default=[], metavar="NAME", help="kernels: a subject, or SUBJECT/WORD")
    parser.add_argument("--quick", action="store_true", help="kernels: fewer shapes; decoder: no long context")
    parser.add_argument("--device", metavar="DEVICE", help="kernels: cpu (the default), cuda or cuda:N")
    parser.add_argument("--against-llama", action="store_true", help="decoder: interleave with llama.cpp")
    parser.add_argument("--context", type=int, metavar="N", help="decoder: one context, in place of 256, 2048 and 8000")
    add_journal_arguments(parser.add_argument_group("alpha, about six minutes"))


def run(args: argparse.Namespace) -> int:
    """Time the subject and print the results."""
    module = importlib.import_module(f"app.cli.bench.{args.subject}")
    found = getattr(module, f"measure_{args.subject}")(**_options(args))
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


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the subject; refuse other options."""
    taken = TAKEN.get(args.subject, ())
    given = {name: getattr(args, name) for names in TAKEN.values() for name in names}
    for name, value in given.items():
        if value and name not in taken:
            word = " ".join(value) if isinstance(value, list) else f"--{name.replace('_', '-')}"
            raise UserError(f"{args.subject}: got {word}, expected no such option")
    return {name: given[name] for name in taken}
