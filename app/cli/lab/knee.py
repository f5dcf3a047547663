"""``trilemma lab knee``: the most efficient clock, by four knees of a table or a board, and its power modes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from, with_described
from app.library.board_library import BoardLibrary
from app.library.endurance import board_speeds
from app.library.records import output_record
from app.text.energy_data import KNEE_WORDS as WORDS
from app.text.energy_data import knee_text
from app.text.format import parse_quantity, quantity_text
from core.catalogue.energy import DvfsTable, load_dvfs
from core.catalogue.inputs import read_dvfs
from core.physics.dvfs import KNEES, Knee, knees
from core.physics.objectives import nondominated
from core.predict.scenario import predict
from core.spec import Absent, Catalogue, OperatingPoint

EXAMPLES = """examples:
  trilemma lab knee --table mlu370 --price 20
  trilemma lab knee --board jetson_orin_nano_8gb_super --runtime llamacpp_gpu --model llama-3.2-1b --weights q4_k_m"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the table, the price and the point."""
    measured = [key for key, table in load_dvfs().items() if table.power_w.size]
    parser.add_argument(
        "--table",
        metavar="TABLE",
        help=f"{', '.join(measured)}, or a TOML file of that form with power_w and throughput (the board of the point)",
    )
    parser.add_argument(
        "--price", metavar="N", help="least gain in throughput (tokens/s, images/s) worth one more watt"
    )
    parser.add_argument("--spread", default="3%", metavar="SHARE", help="relative error of power and throughput (3%%)")
    parser.add_argument("--power", metavar="W", help="decoding power of the board in place of the predicted one")
    parser.add_argument("--idle", metavar="W", help="power of the idle board on the same rail")
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Find the knees and print them."""
    try:
        price = None if args.price is None else parse_quantity(args.price, "1", name="price", low=0.0, high=1e9)
        spread = parse_quantity(args.spread, "frac", name="spread", low=0.0, high=1.0)
        table, modes, notes = _table(args.table) if args.table is not None else _of_board(args)
        found = knees(table.clock_hz, table.power_w, table.throughput, log_sd=spread, price_per_w=price)
    except ValueError as error:
        raise UserError(str(error)) from error
    document = {
        "table": table.name,
        "throughput_unit": table.throughput_unit,
        "rows": [
            {"clock_hz": f, "power_w": p, "throughput": x, "per_watt": x / p}
            for f, p, x in zip(table.clock_hz.tolist(), table.power_w.tolist(), table.throughput.tolist(), strict=True)
        ],
        "knees": {k: {"absent": v.reason} if isinstance(v, Absent) else asdict(v) for k, v in found.items()},
        "spread_frac": spread,
        "power_modes": modes,
        "notes": notes,
    }
    if args.json:
        print_json(document)
    else:
        _print(document, found)
    return 0


def _table(name: str) -> tuple[DvfsTable, list[dict[str, Any]], list[str]]:
    tables = load_dvfs()
    if name not in tables and not os.path.exists(name):
        raise ValueError(f"table: got {name!r}, expected one of {', '.join(tables)}, or a file")
    table = tables[name] if name in tables else read_dvfs(Path(name))
    if not table.power_w.size:
        raise ValueError(f"table: {name} has voltages but no power and throughput, expected both; try --board")
    return table, [], [f"published: {table.sources['power_w']}"]


def _of_board(args: argparse.Namespace) -> tuple[DvfsTable, list[dict[str, Any]], list[str]]:
    library = open_library()
    catalogue = with_described(args, library.catalogue())
    point = point_from(args, catalogue)
    board = catalogue.boards[point.board]
    watts, idle = (
        None if text is None else parse_quantity(text, "W", name=name, low=low, high=1e4)
        for text, name, low in ((args.power, "power", 1e-3), (args.idle, "idle", 0.0))
    )
    speeds = board_speeds(point, catalogue, library.posterior(point, catalogue), idle_w=idle, power_w=watts)
    levels = speeds.levels
    table = DvfsTable(
        key=board.key,
        name=f"{board.name}, predicted",
        board=board.key,
        unit=board.unit,
        clock_hz=levels.clock_hz,
        voltage_v=np.empty(0),
        power_w=speeds.idle_w + levels.core_w + levels.dram_w,
        throughput=levels.tokens_s,
        throughput_unit="tokens/s",
        sources={},
    )
    return table, _modes(point, catalogue, library), list(speeds.notes)


def _modes(point: OperatingPoint, catalogue: Catalogue, library: BoardLibrary) -> list[dict[str, Any]]:
    """Return each power mode of the board with its predicted time, power, energy and membership of the Pareto front."""
    rows, losses = [], []
    for key in catalogue.boards[point.board].power_modes:
        there = replace(point, power_mode=key)
        made = predict(there, catalogue, library.posterior(there, catalogue))
        outputs = {name: getattr(made, name) for name in ("decode_s", "power_w", "energy_j_per_token")}
        rows.append({"power_mode": key, **{name: output_record(output) for name, output in outputs.items()}})
        losses.append([np.nan if isinstance(o, Absent) else float(o.median) for o in outputs.values()][:2])
    if not np.isfinite(losses).all():
        return [row | {"on_front": {"absent": "power is not known"}} for row in rows]
    front = nondominated(losses)
    return [row | {"on_front": bool(on)} for row, on in zip(rows, front, strict=True)]


def _print(document: dict[str, Any], found: Mapping[str, Knee | Absent]) -> None:
    unit = document["throughput_unit"]
    print(f"{document['table']}\n")
    rows = [("CLOCK", "POWER", unit.upper(), f"{unit.upper()} PER WATT")]
    for row in document["rows"]:
        rows.append(
            (
                quantity_text(row["clock_hz"], "Hz"),
                quantity_text(row["power_w"], "W"),
                f"{row['throughput']:.4g}",
                f"{row['per_watt']:.4g}",
            )
        )
    print_table(rows)
    print()
    print_table([(WORDS[key], knee_text(found[key])) for key in KNEES])
    if len(document["power_modes"]) > 1:
        print("\nPower modes")
        print_table([_mode_row(row) for row in document["power_modes"]])
    print()
    for note in document["notes"]:
        print(f"- {note}")


def _mode_row(row: dict[str, Any]) -> tuple[str, ...]:
    def text(name: str, unit: str) -> str:
        value = row[name]
        return value["absent"] if "absent" in value else quantity_text(value["median"], unit)

    on_front = "on the front" if row["on_front"] is True else ""
    return (
        row["power_mode"],
        text("decode_s", "s"),
        text("power_w", "W"),
        text("energy_j_per_token", "J/token"),
        on_front,
    )
