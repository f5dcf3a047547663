"""``trilemma lab sampling``: whether the samples of a recording can show a rhythm, and the rhythms that they show."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.shared.output import UserError, print_json, print_table
from app.client.recorder import RecordingError
from app.client.recording import Recording
from app.text.format import DASH, counted, parse_quantity, quantity_text
from core.physics.sampling import FEWEST_SAMPLES, seen_period_s, strongest_rhythm

FALSE_ALARM = 0.01
"""Probability of a rhythm by chance, up to which one is reported."""
UNEVEN_FRAC = 0.5  # of the interval, by which the 95 % quantile of intervals may differ from the median

EXAMPLES = """examples:
  trilemma lab sampling night.trilemma                             rhythms of each channel
  trilemma lab sampling night.trilemma --period 128ms              as what would a load of this period appear?
  trilemma lab sampling --interval 200ms --period 128ms"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the recording, or the interval, and the period."""
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="a recording")
    parser.add_argument("--interval", metavar="TIME", help="interval of the samples, in place of a recording")
    parser.add_argument("--period", metavar="TIME", help="period of a load, such as that of one inference")


def run(args: argparse.Namespace) -> int:
    """Check and print."""
    try:
        interval_s, period_s = (
            None if text is None else parse_quantity(text, "s", name=name, low=1e-6, high=1e6, bare=None)
            for name, text in (("interval", args.interval), ("period", args.period))
        )
        if (args.file is None) == (interval_s is None):
            raise ValueError("expected either a recording or --interval")
        if interval_s is not None and period_s is None:
            raise ValueError("period: got nothing, expected one to compare with --interval")
        found = {} if args.file is None else _of_recording(args.file)
        if interval_s is None:
            interval_s = found["interval_s"]
    except (ValueError, RecordingError) as error:
        raise UserError(str(error)) from error
    found |= {"interval_s": interval_s, "shortest_period_s": 2.0 * interval_s}
    if period_s is not None:
        seen_s = float(seen_period_s(period_s, interval_s))
        found |= {"period_s": period_s, "seen_period_s": seen_s if math.isfinite(seen_s) else {"absent": "constant"}}
    if args.json:
        print_json(found)
    else:
        _print(found)
    return 0


def _of_recording(path: Path) -> dict[str, Any]:
    from app.library.tables import recorded_samples

    with Recording(path) as recording:
        units = {channel.key: channel.unit for channel in recording.channels if not channel.absent}
        frame = recorded_samples(recording, set(units)).frame
    time_s = frame["time_s"].to_numpy(dtype=float)
    if time_s.size < FEWEST_SAMPLES:
        raise ValueError(f"{path.name}: got {counted(time_s.size, 'sample')}, expected {FEWEST_SAMPLES} or more")
    steps = np.diff(time_s)
    interval_s = float(np.median(steps))
    even = np.arange(time_s[0], time_s[-1], interval_s)
    channels = {}
    for key, unit in units.items():
        values = frame[key].to_numpy(dtype=float)
        known = np.isfinite(values)
        if known.sum() < FEWEST_SAMPLES:
            channels[key] = {"absent": f"{counted(int(known.sum()), 'reading')}"}
            continue
        rhythm = strongest_rhythm(np.interp(even, time_s[known], values[known]), interval_s)
        record = {"unit": unit, **rhythm._asdict()}
        if rhythm.false_alarm > FALSE_ALARM:
            record = {"unit": unit, "absent": "no rhythm above the noise"}
        channels[key] = record
    return {
        "n": int(time_s.size),
        "interval_s": interval_s,
        "interval_p95_s": float(np.quantile(steps, 0.95)),
        "channels": channels,
    }


def _print(found: dict[str, Any]) -> None:
    interval_s = found["interval_s"]
    least = quantity_text(found["shortest_period_s"], "s")
    print(f"Samples every {quantity_text(interval_s, 's')} show no period below {least}.")
    if "interval_p95_s" in found and found["interval_p95_s"] > (1.0 + UNEVEN_FRAC) * interval_s:
        print(f"They are uneven: 5 % of the intervals are above {quantity_text(found['interval_p95_s'], 's')}.")
    if "period_s" in found:
        period, seen = quantity_text(found["period_s"], "s"), found["seen_period_s"]
        if isinstance(seen, dict):
            print(f"A load of period {period} looks constant in them.")
        elif seen > found["period_s"] * (1.0 + 1e-9):
            print(f"A load of period {period} appears as one of {quantity_text(seen, 's')}: sample faster to see it.")
        else:
            print(f"A load of period {period} appears as it is.")
    if "channels" in found:
        rows = [("CHANNEL", "RHYTHM", "AMPLITUDE", "OF VARIANCE")]
        rows += [_row(key, one) for key, one in found["channels"].items()]
        print_table(rows)
        print(f"A rhythm near {least} may be a faster one, folded.")


def _row(key: str, one: dict[str, Any]) -> tuple[str, str, str, str]:
    if "absent" in one:
        return key, one["absent"], DASH, DASH
    amplitude = quantity_text(one["amplitude"], one["unit"])
    return key, quantity_text(one["period_s"], "s"), amplitude, f"{100 * one['share']:.0f} %"
