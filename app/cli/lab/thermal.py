"""``trilemma lab thermal FILE``: the heat path of a board, fitted to its temperature after a step of power."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.shared.output import UserError, print_json, print_table
from app.client.recorder import RecordingError
from app.library.power_step import PowerStep, Trace, power_step, read_trace
from app.text.format import counted, estimate_text, parse_quantity, quantity_text
from core.calibrate.fit import IDENTIFIED_SHRINKAGE
from core.physics.thermal import PRIOR_RESISTANCE_LOG_SD, PRIOR_TAU_LOG_SD, FosterFit, fit_foster, ladder_from_foster
from core.units import Z90

LATER_S = 1e9  # every pole is in steady state by then
LEAST_NOISE_K = 0.01

EXAMPLES = """examples:
  trilemma lab thermal burn-in.trilemma                           a recording with a minute of rest and three of load
  trilemma lab thermal log.csv --power power_w --temperature temp_c --at 15W
  trilemma lab thermal log.csv --idle 2.5W --poles 1 --json       the log begins with the load"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the file, its columns and the fit."""
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="a recording, or a CSV with columns such as time_s, power_w, temp_c"
    )
    columns = parser.add_argument_group("columns or channels, by default the first of their unit")
    columns.add_argument("--power", metavar="NAME", help="power (of a recording: that of the whole board)")
    columns.add_argument("--temperature", metavar="NAME", help="temperature of the die or case")
    columns.add_argument("--time", metavar="NAME", help="time, of a CSV")
    fit = parser.add_argument_group("fit")
    fit.add_argument("--idle", metavar="W", help="power before the file begins, where it begins with the load")
    fit.add_argument("--since", metavar="TIME", help="ignore readings before this time, such as 30s")
    fit.add_argument("--until", metavar="TIME", help="ignore readings after this time, such as 4min")
    fit.add_argument("--poles", type=int, default=2, metavar="N", help="exponentials, 1 to 3 (2)")
    fit.add_argument("--at", metavar="W", help="power to predict the steady-state temperature at (that of the load)")


def run(args: argparse.Namespace) -> int:
    """Fit and print."""
    try:
        if not 1 <= args.poles <= 3:
            raise ValueError(f"poles: got {args.poles}, expected 1, 2 or 3")
        idle, at = (
            None if text is None else parse_quantity(text, "W", name=name, low=0.0, high=1e4)
            for name, text in (("idle", args.idle), ("at", args.at))
        )
        since, until = (
            otherwise if text is None else parse_quantity(text, "h", name=name, low=0.0, bare=None)
            for name, text, otherwise in (("since", args.since, 0.0), ("until", args.until, math.inf))
        )
        trace = read_trace(args.file, args.power, args.temperature, args.time)
        step = power_step(trace, idle, since, until)
    except (ValueError, RecordingError) as error:
        raise UserError(str(error)) from error
    found = document(trace, step, args.poles, step.load_w if at is None else at)
    if args.json:
        print_json({"file": str(args.file), **found})
    else:
        _print(found)
    return 0


def document(trace: Trace, step: PowerStep, n_poles: int, at_w: float) -> dict[str, Any]:
    """Return the fit of a step with its ladder, errors and open questions as JSON values."""
    quantum_k = resolution_k(trace.temp_c)
    fit = fitted(step, n_poles, quantum_k)
    error_k = fit.temp_c(step.time_s, step.height_w) - step.temp_c
    rise_w = at_w - step.idle_w
    steady_c = float(fit.start_temp_c + rise_w * sum(fit.resistance_k_w))
    steady_sd_k = float(fit.sd_k([LATER_S], rise_w)[0])
    ladder = ladder_from_foster(fit.resistance_k_w, fit.tau_s)
    return {
        "columns": dict(trace.names),
        "n_readings": step.time_s.size,
        "load_s": float(step.time_s[-1]),
        "step": {"at_s": step.at_s, "idle_w": step.idle_w, "load_w": step.load_w},
        "start_temp_c": fit.start_temp_c,
        "poles": _poles(fit),
        "ladder": asdict(ladder),
        "rmse_k": float(np.sqrt(np.mean(error_k**2))),
        "resolution_k": quantum_k,
        "steady_state": {
            "power_w": at_w,
            "temp_c": {
                "median": steady_c,
                "q05": steady_c - Z90 * steady_sd_k,
                "q95": steady_c + Z90 * steady_sd_k,
            },
        },
        "not_identified": _not_identified(fit, step),
    }


def fitted(step: PowerStep, n_poles: int, quantum_k: float) -> FosterFit:
    """Return the fit of a step; the residuals of a first fit give the noise of the sensor."""
    arguments = step.time_s, step.temp_c, step.height_w
    first = fit_foster(*arguments, n_poles=n_poles, quantum_k=quantum_k)
    left_k = float(np.std(first.temp_c(step.time_s, step.height_w) - step.temp_c))
    return fit_foster(*arguments, n_poles=n_poles, noise_k=max(left_k, LEAST_NOISE_K))


def resolution_k(temp_c: np.ndarray) -> float:
    """Return the resolution of a sensor, the smallest difference of two readings [K]."""
    return float(np.diff(np.unique(temp_c)).min(initial=np.inf))


def _poles(fit: FosterFit) -> list[dict[str, Any]]:
    n = len(fit.tau_s)
    sds = np.sqrt(np.diag(fit.covariance))
    return [
        {
            "resistance_k_w": _interval(fit.resistance_k_w[i], sds[1 + i]),
            "tau_s": _interval(fit.tau_s[i], sds[1 + n + i]),
            "resistance_identified": _narrowed(sds[1 + i], PRIOR_RESISTANCE_LOG_SD),
            "tau_identified": _narrowed(sds[1 + n + i], PRIOR_TAU_LOG_SD),
        }
        for i in range(n)
    ]


def _narrowed(log_sd: float, prior_log_sd: float) -> bool:
    return bool(1.0 - log_sd / prior_log_sd >= IDENTIFIED_SHRINKAGE)


def _interval(median: float, log_sd: float) -> dict[str, float]:
    factor = float(np.exp(Z90 * log_sd))
    return {"median": median, "q05": median / factor, "q95": median * factor}


def _not_identified(fit: FosterFit, step: PowerStep) -> list[str]:
    """Return sentences on the quantities that the recording does not identify."""
    found, load_s = list[str](), float(step.time_s[-1])
    apart_s = float(np.median(np.diff(step.time_s)))
    for i, (pole, tau_s) in enumerate(zip(_poles(fit), fit.tau_s, strict=True)):
        if not (pole["resistance_identified"] and pole["tau_identified"]):
            fast = tau_s < 3.0 * apart_s or load_s > 10.0 * tau_s
            why = f"readings are {apart_s / tau_s:.2g}" if fast else f"the load lasts {load_s / tau_s:.2g}"
            end = "of its time constant apart" if fast else "of its time constants"
            found.append(f"Pole {i + 1} rests on its prior where that is marked: {why} {end}.")
    if not step.rest_s:
        found.append("Whether the board was at rest before the load is not recorded; the fit assumes it was.")
    elif abs(step.rest_change_k) > 0.05 * np.ptp(step.temp_c):
        found.append(
            f"The board was not at rest: its temperature changed by {step.rest_change_k:+.2g} K in the "
            f"{step.rest_s:.3g} s before the step; the fit takes that for a part of the rise."
        )
    return [*found, "Leakage that grows with temperature is a part of the resistances; the surroundings are not known."]


def _print(found: Mapping[str, Any]) -> None:
    step, names = found["step"], found["columns"]
    rise = f"{names['power']} rose from {step['idle_w']:.3g} to {step['load_w']:.3g} W"
    count = f"{counted(found['n_readings'], 'reading')} in {found['load_s']:.3g} s"
    print(f"{names['temperature']} after {rise} at {quantity_text(step['at_s'], 's')}: {count}.\n")
    rows: list[tuple[str, ...]] = [("POLE", "RESISTANCE", "TIME CONSTANT")]
    for i, pole in enumerate(found["poles"]):
        cells = (
            _text(pole[key], unit) + ("" if pole[told] else " (prior)")
            for key, unit, told in (
                ("resistance_k_w", "K/W", "resistance_identified"),
                ("tau_s", "s", "tau_identified"),
            )
        )
        rows.append((str(i + 1), *cells))
    print_table(rows)
    print("\nThe same as a ladder from the die to the surroundings (Cauer):")
    ladder = found["ladder"]
    pairs = zip(ladder["capacity_j_k"], ladder["resistance_k_w"], strict=True)
    rows = [("NODE", "CAPACITY", "RESISTANCE BEHIND")]
    rows += [(str(i + 1), f"{c:.3g} J/K", f"{r:.3g} K/W") for i, (c, r) in enumerate(pairs)]
    print_table(rows)
    print(
        f"\nThe fit is off by {found['rmse_k']:.2g} K (root mean square); the sensor reads in steps of "
        f"{found['resolution_k']:.2g} K."
    )
    steady = found["steady_state"]
    print(f"Steady state at {steady['power_w']:.3g} W: {_text(steady['temp_c'], 'degC')}.")
    for sentence in found["not_identified"]:
        print(f"- {sentence}")


def _text(value: Mapping[str, float], unit: str) -> str:
    return str(estimate_text(value["median"], value["q05"], value["q95"], unit))
