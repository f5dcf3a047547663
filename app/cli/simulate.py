"""``trilemma simulate``: sustained speed, power, heat and battery life of an operating point."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from, with_described
from app.library.endurance import STEP_S, board_speeds, load_of_workload, pack, workload_of, workloads
from app.library.records import output_record, point_record
from app.text.energy_data import sentence
from app.text.format import output_text, parse_quantity, quantity_text
from core.catalogue.energy import load_cells, load_cooling, load_throttle_rules
from core.physics.battery import Cell
from core.predict.cosim import Device, Run, load_of_phases
from core.predict.endurance import Speeds, device_of, given_speeds, simulate_with_interval
from core.spec import Absent, Estimate, OperatingPoint, Output

UNITS = {
    "throttled_after_s": "s",
    "sustained_tokens_s": "tokens/s",
    "sustained_w": "W",
    "peak_temp_c": "degC",
    "tokens": "tokens",
    "hours_per_charge": "h",
}
"""The results in the order they are printed, each with its unit."""

MOST_HOURS = 72.0
N_SERIES_POINTS = 720

EXAMPLES = """examples:
  trilemma simulate --board rk3588 --runtime rkllm_npu --weights w8a8 --power 8W --hours 2 --battery 56Wh
  trilemma simulate --board raspberry_pi_5 --runtime llamacpp_cpu --weights q4_k_m --ambient 35 --cooling bare
  trilemma simulate --profile resources/workloads/chat.toml --hours 90min --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the run, the surroundings of the board, and the point."""
    group = parser.add_argument_group("run")
    group.add_argument("--hours", default="1", metavar="H", help="duration in hours, or with a unit such as 90min (1)")
    group.add_argument("--ambient", default="25", metavar="TEMP", help="ambient temperature in deg C (25)")
    group.add_argument(
        "--profile",
        metavar="NAME or FILE",
        help=f"workload: {', '.join(workloads())}, TOML with [[phase]] tables, or CSV with time_s and load_frac or "
        "power_w; examples in resources/workloads (always busy)",
    )
    board = parser.add_argument_group("board")
    board.add_argument("--cooling", metavar="KEY", default="heatsink", help="bare, heatsink or fan (heatsink)")
    board.add_argument("--max-temp", metavar="TEMP", help="junction limit in deg C, such as 85 (the board's rule)")
    board.add_argument("--battery", metavar="ENERGY", help="energy of the full pack, such as 56Wh (mains)")
    board.add_argument("--cell", metavar="KEY", help="cell of the pack: " + ", ".join(load_cells()))
    board.add_argument("--series", default="3", metavar="N", help="cells in series (3)")
    board.add_argument("--charge", default="100%", metavar="SHARE", help="charge at the start (100%%)")
    board.add_argument("--power", metavar="W", help="decoding power in place of the predicted one")
    board.add_argument("--speed", metavar="N", help="tokens per second in place of the predicted ones; needs --power")
    board.add_argument("--idle", metavar="W", help="power of the idle board on the same rail")
    board.add_argument("--rest", default="0", metavar="W", help="power of all loads outside the board's power rail (0)")
    board.add_argument("--converter", default="100%", metavar="SHARE", help="efficiency from battery to board (100%%)")
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Simulate and print."""
    try:
        point, speeds = _speeds(args)
        device = _device(args, point, speeds)
        load, profile = _load(args, device)
        ambient = parse_quantity(args.ambient, "degC", name="ambient", low=-40.0, high=85.0)
        charge = parse_quantity(args.charge, "frac", name="charge", low=0.01, high=1.0)
        made, results = simulate_with_interval(device, speeds, load, STEP_S, ambient, charge)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(_document(args, point, speeds, device, made, results, profile))
    else:
        _print(speeds, device, made, results, profile)
    return 0


def _speeds(args: argparse.Namespace) -> tuple[OperatingPoint, Speeds]:
    library = open_library()
    catalogue = with_described(args, library.catalogue())
    point = point_from(args, catalogue)
    watts = _optional(args.power, "W", "power")
    idle = _optional(args.idle, "W", "idle")
    if args.speed is not None:
        if watts is None:
            raise ValueError("speed: got no --power, expected both")
        return point, given_speeds(watts, _plain(args.speed, "speed", 1e-6, 1e6), idle or 0.0)
    return point, board_speeds(point, catalogue, library.posterior(point, catalogue), idle_w=idle, power_w=watts)


def _device(args: argparse.Namespace, point: OperatingPoint, speeds: Speeds) -> Device:
    coolings, rules = load_cooling(), load_throttle_rules()
    if args.cooling not in coolings:
        raise ValueError(f"cooling: got {args.cooling!r}, expected one of {', '.join(coolings)}")
    rule = rules.get(point.board, rules["default"])
    if args.max_temp is not None:
        rule = rule.with_limit(parse_quantity(args.max_temp, "degC", name="max-temp", low=30.0, high=125.0))
    return device_of(
        speeds,
        coolings[args.cooling],
        rule,
        battery=_battery(args),
        rest_w=parse_quantity(args.rest, "W", name="rest", low=0.0, high=1e4),
        converter_frac=parse_quantity(args.converter, "frac", name="converter", low=0.1, high=1.0),
    )


def _battery(args: argparse.Namespace) -> Cell | None:
    if args.battery is None:
        if args.cell is not None:
            raise ValueError("cell: got no --battery, expected both")
        return None
    energy = parse_quantity(args.battery, "Wh", name="battery", low=36.0, high=3.6e8, bare="Wh")
    series = _plain(args.series, "series", 1, 100)
    if series != round(series):
        raise ValueError(f"series: got {args.series}, expected a whole number of cells")
    temp = parse_quantity(args.ambient, "degC", name="ambient", low=-20.0, high=60.0)
    return pack(energy, temp, args.cell or "", round(series))


def _load(args: argparse.Namespace, device: Device) -> tuple[NDArray[np.float64], str]:
    duration = parse_quantity(args.hours, "h", name="hours", low=3.6, high=3600 * MOST_HOURS, bare="h")
    if args.profile is None:
        return load_of_phases([duration], [1.0], duration, STEP_S), "always busy"
    workload = workload_of(args.profile)
    return load_of_workload(workload, device, duration), workload.name


def _optional(text: str | None, unit: str, name: str) -> float | None:
    return (
        None if text is None else parse_quantity(text, unit, name=name, low=0.0 if name == "idle" else 1e-3, high=1e4)
    )


def _plain(text: str, name: str, low: float, high: float) -> float:
    return parse_quantity(text, "1", name=name, low=low, high=high)


def _document(
    args: argparse.Namespace,
    point: OperatingPoint,
    speeds: Speeds,
    device: Device,
    made: Run,
    results: Any,
    profile: str,
) -> dict[str, Any]:
    document = {
        "point": point_record(point),
        "profile": profile,
        "cooling": args.cooling,
        "battery": None if device.battery is None else device.battery.key,
        **{name: output_record(results[name]) for name in UNITS},
        "end": made.end,
        "ended_after_s": float(made.time_s[-1]),
        "power_by_term_w": made.terms_w,
        "energy_j": made.energy_j,
        "energy_error_frac": {
            "heat": made.thermal_error_j / made.energy_j,
            "battery": {"absent": made.battery_error_j.reason}
            if isinstance(made.battery_error_j, Absent)
            else made.battery_error_j / made.energy_j,
        },
        "series": _series(made, device),
        "notes": list(speeds.notes),
    }
    battery = made.battery
    if battery is not None and battery.time_s.size:
        every = max(1, battery.time_s.size // N_SERIES_POINTS)
        names = ("time_s", "soc", "voltage_v", "current_a")
        document["battery_series"] = {name: getattr(battery, name)[::every].tolist() for name in names}
    return document


def _series(made: Run, device: Device) -> dict[str, list[float]]:
    every = max(1, made.time_s.size // N_SERIES_POINTS)
    at = np.unique(np.r_[np.arange(every - 1, made.time_s.size, every), made.time_s.size - 1])
    return {
        "time_s": made.time_s[at].tolist(),
        "temp_c": made.temp_c[at].tolist(),
        "power_w": made.power_w[at].tolist(),
        "tokens_s": made.tokens_s[at].tolist(),
        "clock_hz": device.levels.clock_hz[made.level[at]].tolist(),
    }


def _print(speeds: Speeds, device: Device, made: Run, results: Any, profile: str) -> None:
    print(f"{sentence(made, results, device)}\n")
    print_table([(name, _text(results[name], unit)) for name, unit in UNITS.items()])
    print(f"\nMean power over the run ({profile}):")
    print_table([(f"  {name}", quantity_text(value, "W")) for name, value in made.terms_w.items()])
    print()
    for note in speeds.notes:
        print(f"- {note}")


def _text(output: Output, unit: str) -> str:
    if unit == "h" and isinstance(output, Estimate):  # the only result that is not in SI
        output = replace(output, **{end: 3600.0 * getattr(output, end) for end in ("median", "q05", "q95")})
    return output_text(output, unit)
