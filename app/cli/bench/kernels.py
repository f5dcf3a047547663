"""``trilemma bench kernels [--quick] [--device cuda] [NAME...]``: each kernel as a fraction of read bandwidth."""

from __future__ import annotations

from typing import Any

from app.cli.bench.own_process import in_own_process
from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_table
from app.cli.shared.progress import ProgressLine
from app.library.files import FileError
from app.library.machine import this_machine


def measure_kernels(names: list[str], quick: bool, device: str | None = None) -> list[dict[str, Any]]:
    """Check and time the kernels in their own process; results of the CPU are kept as priors of calibrations.

    Parameters
    ----------
    names : list of str
        Subjects such as "linear", or SUBJECT/WORD; all when empty.
    quick : bool
        Fewer shapes, under 50 s in total.
    device : str, optional
        "cpu", the default, "cuda" or "cuda:N".

    Returns
    -------
    list of dict
        As `kernels.bench.harness.run` says.
    """
    device = "cpu" if device is None else device

    def measure() -> Any:
        from kernels.bench import harness

        with ProgressLine() as line:
            return harness.run(names, quick, device, line.show)

    options = ["--device", device, *(["--quick"] if quick else [])]
    found: list[dict[str, Any]] = in_own_process(["bench", "kernels", *names, *options], measure)
    if device != "cpu":
        return found
    try:
        open_library().set_bench(this_machine(), found)
    except FileError as error:
        raise UserError(str(error)) from error
    return found


def show_kernels(found: list[dict[str, Any]]) -> None:
    """Print the cases, and the reasons of missing numbers."""
    rows = [("KERNEL", "VARIANT", "SHAPE", "US", "GB/S", "OF READ", "QUIET", "GOAL", "")]
    reasons = []
    for row in found:
        numbers = (_number(row["us"], ".1f"), _number(row["gb_s"], ".1f"), _number(row["read_share"], ".0%"))
        shape = "x".join(map(str, row["shape"]))
        quiet = _number(row["quiet"], ".0%")
        rows.append((row["name"], row["variant"], shape, *numbers, quiet, _goal(row), _verdict(row)))
        if isinstance(row["us"], dict):
            reasons.append(f"{row['name']}, {row['variant']}, {shape}: {row['us']['absent']}.")
    print_table(rows)
    if reasons:
        print("\n" + "\n".join(reasons))


def _number(value: Any, spec: str) -> str:
    return "absent" if isinstance(value, dict) else format(value, spec)


def _goal(row: dict[str, Any]) -> str:
    if row["goal"] is None:
        return ""
    return f"{row['goal']:.2f}x, is {row['speedup']:.2f}x" if "speedup" in row else f"{row['goal']:.0%}"


def _verdict(row: dict[str, Any]) -> str:
    if row.get("trap"):
        return "trap"
    return {True: "holds", False: "missed", None: ""}[row["holds"]]
