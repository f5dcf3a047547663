"""``trilemma data validate TABLE.csv``: predictions against published measurements, on held-out data."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from app.cli.data.learn import without_board
from app.cli.data.perplexity_bands import report_bands
from app.cli.data.published_table import compared_table
from app.cli.shared.output import print_json, print_table
from app.text.format import counted
from core.catalogue.load import load_catalogue
from core.tables.as_points import Comparison
from core.tables.hierarchical_priors import Learner
from core.tables.power_left_out import ClassCheck, left_out
from core.tables.rows import COLUMNS, PublishedTable
from core.tables.validation import FEW_MODELS, METHODS, QUANTITIES, GroupReport, Report, validate

_COLUMNS = "columns (* needed; others are kept and named, optional ones may be missing):\n" + "\n".join(
    f"  {'*' if about.needed else ' '} {name:<20} {about.meaning}" for name, about in COLUMNS.items()
)
EXAMPLES = (
    """examples:
  trilemma data validate resources/measurements/llm_decode.csv --groups
  trilemma data validate resources/measurements/llm_decode.csv --leave-board-out --json
  trilemma data validate resources/measurements/precision_ppl.csv --perplexity"""
    + f"\n\n{_COLUMNS}"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the table and the splits."""
    parser.add_argument("table", metavar="TABLE.csv", help="published measurements, one a row")
    parser.add_argument(
        "--leave-board-out",
        action="store_true",
        help="learn the priors from the table without the rows of the board, and use no shipped fit",
    )
    parser.add_argument(
        "--perplexity",
        action="store_true",
        help="the table is of perplexities by weight format (model, quant, ppl, ...): count the rows in the 90 %% band "
        "that other models give, such as trilemma data validate precision_ppl.csv --perplexity",
    )
    parser.add_argument("--groups", action="store_true", help="print every group, not only the summary")


def run(args: argparse.Namespace) -> int:
    """Compare the table with the predictions and report."""
    if args.perplexity:
        return report_bands(args.table, json=args.json)
    catalogue = load_catalogue()
    if args.leave_board_out:
        catalogue = replace(catalogue, board_posteriors={})
    table, compared = compared_table(args.table, catalogue)
    learner = Learner(compared.rows, compared.catalogue) if args.leave_board_out else None
    report = validate(compared, without_board(compared, learner) if learner else None)
    if args.json:
        print_json(document(args.table, table, compared, report, leave_board_out=args.leave_board_out))
    else:
        _print(table, compared, report, every_group=args.groups)
    return 0


def document(
    name: str, table: PublishedTable, compared: Comparison, report: Report, *, leave_board_out: bool
) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "table": name,
        "leave_board_out": leave_board_out,
        "n_rows": table.n_valid + table.n_invalid,
        "n_sampled": len(table.rows),
        "n_compared": len(compared.rows),
        "n_problems": table.n_problems,
        "problems": [problem._asdict() for problem in table.problems],
        "left_out": [{"line": line, "reason": reason} for line, reason in compared.left_out],
        "outside": [{"line": row.row.line, "reason": row.outside} for row in compared.rows if row.outside],
        "without_ttft": [{"line": line, "reason": reason} for line, reason in compared.without_ttft],
        "extra_columns": list(table.extra_columns),
        "summary": {
            quantity: {
                "all_groups": _summaries(report, quantity, 1),
                f"groups_of_{FEW_MODELS}_models": _summaries(report, quantity, FEW_MODELS),
            }
            for quantity in QUANTITIES
        },
        "groups": [_group(group) for group in report.groups],
        "power_of_boards_left_out": [_power_class(check) for check in left_out(table.rows)],
    }


def _power_class(check: ClassCheck) -> dict[str, Any]:
    boards = zip(check.boards, check.energy_j_byte.tolist(), check.predicted_j_byte.tolist(), strict=True)
    return {
        "class": check.words,
        "n_boards": len(check.boards),
        "rms_log_error": check.rms_log_error,
        "median_error_frac": check.median_error_frac,
        "coverage_frac": check.coverage_frac,
        "boards": [{"board": name, "energy_j_byte": own, "predicted_j_byte": others} for name, own, others in boards],
    }


def _summaries(report: Report, quantity: str, fewest: int) -> dict[str, Any]:
    found = {method: report.summary(quantity, method, fewest) for method in METHODS}
    same = {method: report.summary(quantity, method, fewest, by_shipped=True) for method in METHODS}
    return {
        method: {
            **_without_none(asdict(summary)),
            "shipped_on_the_same_rows": {"absent": "predicts none of them"}
            if (by_shipped := same[method]) is None
            else _without_none(asdict(by_shipped)),
        }
        for method, summary in found.items()
        if summary is not None
    }


def _group(group: GroupReport) -> dict[str, Any]:
    return {
        "board": group.board,
        "unit": group.unit,
        "runtime": group.runtime,
        "power_mode": group.power_mode,
        "weights": group.weights,
        "outside": group.outside or None,
        "bandwidth_stated": group.bandwidth_known,
        "n_models": group.n_models,
        **{
            quantity: {
                "n_rows": group.n_rows[quantity],
                **{method: _without_none(asdict(score)) for method, score in group.scores[quantity].items()},
            }
            for quantity in QUANTITIES
            if group.n_rows[quantity]
        },
    }


_ABSENT = dict.fromkeys(("median_q05_frac", "median_q95_frac"), "one board says nothing of others")


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"absent": _ABSENT.get(name, "this way to predict gives no interval")} if value is None else value
        for name, value in values.items()
    }


# --- text -------------------------------------------------------------------------------------------------------------


_OVER_GROUPS = "their median over groups (90 % range: of resampled boards; of means the mean)"
_SUMMARY = (
    "",
    "BOARDS",
    "GROUPS",
    "ROWS",
    "MEDIAN",
    "90 % RANGE",
    "MEAN",
    "90 % UNDER",
    "IN 90 %",
    "q95/q05",
    "SHIPPED, SAME ROWS",
    "MEAN",
)


def _print(table: PublishedTable, compared: Comparison, report: Report, *, every_group: bool) -> None:
    _print_rows(table, compared)
    if not any(report.summary(quantity, method) for quantity in QUANTITIES for method in METHODS):
        print("No errors: they take rows in the model's range, of a board whose bandwidth is stated or of two models.")
    for quantity in QUANTITIES:
        for fewest, of in ((1, "all groups"), (FEW_MODELS, f"groups of {FEW_MODELS} models or more")):
            rows = [row for method in METHODS if (row := _summary_row(report, quantity, method, fewest))]
            if rows:
                print(f"\n{quantity}, {of}: errors of a group, {_OVER_GROUPS}")
                print_table([_SUMMARY, *rows])
    _print_power(left_out(table.rows))
    if every_group:
        _print_groups(report)


def _print_rows(table: PublishedTable, compared: Comparison) -> None:
    """Print the compared rows and the reasons of the others."""
    problems = counted(table.n_problems, "problem")
    if len(table.rows) < table.n_valid:
        print(
            f"{table.n_valid} valid rows, of which {len(table.rows)} are compared, evenly spaced over each sort of rows"
        )
    print(f"{counted(len(compared.rows), 'row')} compared, {len(compared.left_out)} left out, {problems}")
    for problem in table.problems[:20]:
        print(f"  {problem}")
    if table.extra_columns:
        print(f"{counted(len(table.extra_columns), 'column')} not used: {', '.join(table.extra_columns)}")
    _print_reasons([reason for _, reason in compared.left_out])
    outside = [row.outside for row in compared.rows if row.outside]
    if outside:
        print(f"{len(outside)} of them outside the model's range, in no summary")
        _print_reasons(outside)
    if compared.without_ttft:
        print(f"{len(compared.without_ttft)} of them without their time to first token")
        for line, reason in compared.without_ttft[:10]:
            print(f"  line {line}: {reason}")


def _print_reasons(reasons: Sequence[str]) -> None:
    for reason, n in Counter(reasons).most_common(10):
        print(f"  {n} x {reason}")


def _summary_row(report: Report, quantity: str, method: str, fewest: int) -> tuple[str, ...] | None:
    found = report.summary(quantity, method, fewest)
    if found is None:
        return None
    median, mean, p90 = (
        f"{100 * share:.1f} %"
        for share in (found.median_of_medians_frac, found.mean_of_means_frac, found.median_of_p90_frac)
    )
    low, high = found.median_q05_frac, found.median_q95_frac
    sure = "–" if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"
    coverage = "–" if found.coverage_frac is None else f"{100 * found.coverage_frac:.0f} %"
    ratio = "–" if found.interval_ratio is None else f"{found.interval_ratio:.2f}"
    same = report.summary(quantity, method, fewest, by_shipped=True)
    by_shipped = (same.median_of_medians_frac, same.mean_of_means_frac) if same else ()
    same_percents = [f"{100 * share:.1f} %" for share in by_shipped] or ["–", "–"]
    counts = (str(n) for n in (found.n_boards, found.n_groups, found.n_rows))
    return (method, *counts, median, sure, mean, p90, coverage, ratio, *same_percents)


def _print_power(checks: Sequence[ClassCheck]) -> None:
    if not checks:
        return
    print("\nenergy per byte of whole boards: each board left out, predicted by the others of its class (or its prior)")
    rows = [
        (
            check.words,
            str(len(check.boards)),
            f"{100 * check.median_error_frac:.0f} %",
            f"{check.rms_log_error:.2f}",
            f"{100 * check.coverage_frac:.0f} %",
        )
        for check in checks
    ]
    print_table([("CLASS", "BOARDS", "MEDIAN", "RMS OF LN", "IN 90 %"), *rows])


def _print_groups(report: Report) -> None:
    for quantity in QUANTITIES:
        rows: list[tuple[str, ...]] = []
        for group in report.groups:
            scores = group.scores[quantity]
            if scores:
                name = " / ".join((group.board, group.unit, group.runtime, group.power_mode or "-", group.weights))
                cells = (f"{100 * scores[m].median_error_frac:.1f}" if m in scores else "" for m in METHODS)
                rows.append((name, str(group.n_rows[quantity]), str(group.n_models), *cells, group.outside))
        if rows:
            print(f"\n{quantity}: median error in % by group")
            print_table([("GROUP", "ROWS", "MODELS", *METHODS, "OUTSIDE"), *rows])
