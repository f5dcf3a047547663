"""Content of the energy view and its commands: the answer in a sentence, power by term, knees, and the charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.library.endurance import STEP_S, Endurance
from app.text.bar import Bar
from app.text.chart import Chart, Floats, Points, Rule, Series
from app.text.format import DASH, quantity_text
from core.physics.dvfs import Knee
from core.physics.throttle import PowerAllocator, TripCaps
from core.predict.cosim import Device, Run
from core.spec import Absent, Output, Provenance

KNEE_WORDS = {
    "performance_per_watt": "most work per watt",
    "energy_delay": "least energy × delay",
    "envelope_bend": "bend of the concave envelope (Kneedle)",
    "price": "where one more watt stops being worth its price",
}
TERM_WORDS = {
    "idle": "idle",
    "core": "compute units",
    "dram": "DRAM",
    "periphery": "periphery",
}
LEAKAGE = "leakage above reference"
_N_DRAWN = 720  # points of a curve over time


def sentence(made: Run, results: Mapping[str, Output], device: Device) -> str:
    """Return the answer: does it hold the speed, down to what, and how long the battery lasts."""
    top = float(device.levels.tokens_s[-1])
    throttled = made.throttled_after_s
    if made.end in ("thermal shutdown", "thermal runaway"):
        words = f"It switches off by {made.end} after {duration_text(float(made.time_s[-1]))}"
    elif not made.tokens_s.any():
        words = f"Nothing is decoded in this run, at most {made.temp_c.max():.0f} °C"
    elif isinstance(throttled, Absent):
        words = f"It holds {top:.3g} tokens/s for the whole run, at most {made.temp_c.max():.0f} °C"
    else:
        words = (
            f"It throttles after {duration_text(throttled)}, from {top:.3g} to {made.sustained_tokens_s:.3g} tokens/s "
            f"on average in the last quarter of the run"
        )
    hours = results["hours_per_charge"]
    if not isinstance(hours, Absent):
        words += f"; the battery lasts {float(hours.median):.3g} h"
        words += f" and ended the run by {made.end}" if made.end in ("cut-off", "brown-out", "empty") else ""
    return words + "."


ACTS_BELOW_K = 10.0  # below the temperature it holds, a throttle does not act yet
AT_LIMIT_FRAC = 0.9  # of a power limit, from which on the limit counts as reached


def limit_sentence(found: Endurance) -> str:
    """Return the limit of the run with its probability: power, heat, the battery, or none within its length."""
    made, throttled = found.run, found.results["throttled_after_s"]
    limit_w, die_w = found.speeds.power_limit_w, float(made.power_w.max()) - found.device.periphery_w
    cool = float(made.temp_c.max()) < _held_temp_c(found.device) - ACTS_BELOW_K
    if cool and not made.end and die_w >= AT_LIMIT_FRAC * limit_w:
        return f"The power limit of {quantity_text(limit_w, 'W')} limits it, not heat."
    if made.end in ("thermal shutdown", "thermal runaway") or not isinstance(made.throttled_after_s, Absent):
        words = "Heat limits it: better cooling or a cooler place would hold the speed longer."
        held = _held_temp_c(found.device)
        if float(made.temp_c[-1]) > held + 1:
            words += f" Even the lowest clock does not hold {held:.0f} °C."
    else:
        words = "The battery limits it, not heat." if made.end else "Nothing limits it within this time."
    if not isinstance(throttled, Absent) and throttled.q95 > 1.02 * throttled.q05:
        low, high = duration_text(float(throttled.q05)), duration_text(float(throttled.q95))
        late = "never in this run" if float(throttled.q95) >= STEP_S * made.time_s.size else high
        words += f" By the 90 % interval of its power it throttles between {low} and {late}."
    return words


def duration_text(seconds: float) -> str:
    """Return a time as one would say it: seconds, whole minutes, or hours."""
    if seconds < 60:
        return quantity_text(seconds, "s")
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 120 and not math.isclose(minutes, 0) else f"{minutes / 60:.2g} h"


def term_text(term: str, device: Device) -> str:
    """Return the name of a power term; leakage counts from the reference temperature of the other terms."""
    return f"leakage vs {device.leakage_temp_c:.0f} °C" if term == LEAKAGE else TERM_WORDS[term]


def note_text(note: str) -> str:
    """Return a note of the model in words: what it marks as a prior is assumed."""
    assumed = note.startswith("[prior] ")
    words = note.removeprefix("[prior] ").replace("~ clock^", "∝ clock^")
    return f"assumed: {words.replace(': ', ', ', 1)}" if assumed else words


def knee_text(knee: Knee | Absent) -> str:
    """Return a knee's clock with its interval, and a warning where it is the end of the table."""
    if isinstance(knee, Absent):
        return knee.reason
    clock, low, high = (quantity_text(value, "Hz") for value in (knee.clock_hz, knee.q05_hz, knee.q95_hz))
    edge = ", at the end of the table: the optimum may lie beyond it" if knee.edge else ""
    return f"{clock} ({low} to {high}){edge}"


# ---- charts


def _time_unit(duration_s: float) -> str:
    return "s" if duration_s < 300 else "min" if duration_s <= 3 * 3600 else "h"


def _over_time(runs: Sequence[Run], values: Sequence[Floats], after: float = np.nan) -> Series:
    """Return the means of stretches of each run as one curve with its band, so that bursts do not blur it.

    `after` is the value of a run that has ended before the others.
    """
    size = max(run.time_s.size for run in runs)
    every = max(1, size // _N_DRAWN)
    drawn = np.full((len(runs), max(1, size // every)), after)
    for row, value in zip(drawn, values, strict=True):
        mean = value[: value.size // every * every].reshape(-1, every).mean(axis=1)
        row[: mean.size] = mean
    longest = max(runs, key=lambda run: run.time_s.size).time_s
    time = longest[: drawn.shape[1] * every].reshape(-1, every)[:, -1]
    low, high = (np.fmin.reduce(drawn), np.fmax.reduce(drawn)) if len(runs) > 1 else (None, None)
    return Series(time, drawn[0], Provenance.PREDICTED, low=low, high=high)


def temperature_chart(found: Endurance) -> Chart:
    """Return the die temperature over time, with what throttles and what switches off."""
    made, runs = found.run, found.runs
    rules = [Rule("y", temp, name, "bad") for temp, name in _throttle_rules(found.device)]
    if not isinstance(made.throttled_after_s, Absent):
        rules.append(Rule("x", made.throttled_after_s, "throttles", "bad"))
    low, high = float(made.temp_c.min()), float(made.temp_c.max())
    highest = max(float(run.temp_c.max()) for run in runs)
    top = max([highest, *(rule.at for rule in rules if rule.across == "y" and rule.at < highest + 30)])
    return Chart(
        "Die temperature",
        ("time", _time_unit(float(made.time_s[-1]))),
        ("temperature", "degC"),
        series=(_over_time(runs, [run.temp_c for run in runs]),),
        rules=tuple(rules),
        x_range=(0.0, float(made.time_s[-1])),
        y_range=_around(low, top),
        description=f"The die warms from {low:.0f} to at most {high:.0f} °C.",
    )


def _held_temp_c(device: Device) -> float:
    """Return the temperature that throttling is meant to hold; infinity where nothing throttles."""
    throttle = device.throttle
    if isinstance(throttle, PowerAllocator):
        return throttle.target_temp_c
    return throttle.trips[-1].temp_c if isinstance(throttle, TripCaps) else math.inf


def _throttle_rules(device: Device) -> list[tuple[float, str]]:
    throttle = device.throttle
    rules = list[tuple[float, str]]()
    if isinstance(throttle, PowerAllocator):
        rules.append((throttle.target_temp_c, f"held at {throttle.target_temp_c:.0f} °C"))
    if isinstance(throttle, TripCaps):
        first = throttle.trips[0].temp_c
        rules.append((first, f"throttles at {first:.0f} °C"))
    return rules


def speed_chart(found: Endurance) -> Chart:
    """Return the decode speed that the clock allows, over time; pauses of the workload are left out."""
    made, runs, speed = found.run, found.runs, found.device.levels.tokens_s
    top = float(speed[-1])
    return Chart(
        "Speed while it decodes",
        ("time", _time_unit(float(made.time_s[-1]))),
        ("speed", "tokens/s"),
        series=(_over_time(runs, [speed[run.level] for run in runs], after=0.0),),
        rules=(Rule("y", top, "top clock", "dim"),),
        x_range=(0.0, float(made.time_s[-1])),
        y_range=(0.0, 1.12 * top),
        description=f"{top:.3g} tokens/s at first, {float(speed[made.level[-1]]):.3g} at the end.",
    )


def battery_chart(found: Endurance) -> Chart:
    """Return the state of charge over time; without a battery, the words that there is none."""
    made, battery = found.run, found.run.battery
    axes = ("time", _time_unit(float(made.time_s[-1]))), ("charge", "frac")
    if battery is None or not battery.time_s.size:
        message = "No battery: give its energy above, such as 56 Wh." if battery is None else f"It ends by {made.end}."
        return Chart("Battery", *axes, message=message)
    time, soc = np.r_[0.0, battery.time_s], np.r_[1.0, battery.soc]
    hours = found.results["hours_per_charge"]
    rules = (Rule("x", battery.duration_s, made.end, "bad"),) if battery.end else ()
    said = "" if isinstance(hours, Absent) else f" One charge lasts {float(hours.median):.3g} h."
    return Chart(
        "Battery",
        *axes,
        series=(Series(time, soc, Provenance.PREDICTED),),
        rules=rules,
        x_range=(0.0, float(made.time_s[-1])),
        y_range=(0.0, 1.05),
        description=f"The charge falls to {100 * soc[-1]:.0f} %.{said}",
    )


def dvfs_chart(found: Endurance) -> Chart:
    """Return speed against power of the board's levels, with the knees."""
    levels = found.speeds.levels
    watts = found.speeds.idle_w + levels.core_w + levels.dram_w
    marks = tuple(
        Rule("x", float(watts[knee.index]), _SHORT_KNEE[key] + (" (edge)" if knee.edge else ""), "text")
        for key, knee in found.knees.items()
        if isinstance(knee, Knee)
    )
    return Chart(
        "Clocks",
        ("power", "W"),
        ("speed", "tokens/s"),
        series=(Series(watts, levels.tokens_s, Provenance.PREDICTED),),
        points=(Points(watts, levels.tokens_s, "accent"),),
        rules=_merged(marks),
        x_range=_around(float(watts[0]), float(watts[-1])),
        y_range=_around(float(levels.tokens_s[0]), float(levels.tokens_s[-1])),
        description="Knees: " + "; ".join(f"{KNEE_WORDS[k]} {knee_text(v)}" for k, v in found.knees.items()) + ".",
    )


_SHORT_KNEE = {
    "performance_per_watt": "work/W",
    "energy_delay": "E×T",
    "envelope_bend": "bend",
    "price": "price",
}


def _merged(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return the rules with those at one place put together, their names joined."""
    by_place: dict[float, list[Rule]] = {}
    for rule in rules:
        by_place.setdefault(rule.at, []).append(rule)
    return tuple(
        Rule(rs[0].across, at, ", ".join(dict.fromkeys(r.name for r in rs)), rs[0].role) for at, rs in by_place.items()
    )


def _around(low: float, high: float) -> tuple[float, float]:
    margin = max(0.1 * (high - low), 0.02 * abs(high), 1e-9)
    return low - margin, high + margin


def rail_rows(rails: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """Return a row for each measured part of the board: name, power, energy of a token and of a prompt."""

    def text(rail: Mapping[str, Any], name: str, unit: str) -> str:
        record = rail.get(name, {})
        return quantity_text(float(record["median"]), unit) if "median" in record else DASH

    return [
        (
            str(rail.get("covers") or key),
            text(rail, "power_w", "W"),
            text(rail, "energy_j_per_token", "J"),
            text(rail, "prefill_energy_j", "J"),
        )
        for key, rail in rails.items()
    ]


def rail_bars(rails: Mapping[str, Mapping[str, Any]]) -> list[Bar]:
    """Return the measured parts of the board as bars of power, with the energy of a token; the others are left out."""
    named = zip(rail_rows(rails), rails.values(), strict=True)
    return [
        Bar(name, float(rail["power_w"]["median"]), f"{power} · {token} a token", Provenance.MEASURED)
        for (name, power, token, _), rail in named
        if "median" in rail.get("power_w", {})
    ]
