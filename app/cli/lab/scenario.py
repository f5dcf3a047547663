"""``trilemma lab scenario``: an operating point, figures or a table against the limits of an application."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from, with_described
from app.text.format import counted, parse_quantity, quantity_text
from core.catalogue.csv_rows import read_columns
from core.catalogue.energy import load_scenarios
from core.catalogue.inputs import read_scenario, read_text
from core.physics.objectives import MOST, Scenario, Verdict, hypervolume, judge, nondominated, sentence
from core.predict.scenario import predict
from core.spec import Absent

EXAMPLES = """examples:
  trilemma lab scenario                                         list the scenarios
  trilemma lab scenario v2x --accuracy 0.95 --latency 20ms --energy 60mJ
  trilemma lab scenario industrial --board jetson_orin_nano_8gb_super --runtime llamacpp_gpu --weights q4_k_m
  trilemma lab scenario resources/examples/scenario.toml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the scenario, the figures, the table and the point."""
    parser.add_argument(
        "name",
        nargs="?",
        metavar="SCENARIO",
        help=f"{', '.join(load_scenarios())}, or a TOML file as resources/examples/scenario.toml (lists them)",
    )
    parser.add_argument(
        "--accuracy", metavar="SHARE", help="accuracy, such as 0.95; all three figures replace the point"
    )
    parser.add_argument("--latency", metavar="TIME", help="latency, such as 100ms")
    parser.add_argument("--energy", metavar="ENERGY", help="energy of one inference, such as 60mJ")
    parser.add_argument(
        "--front", metavar="FILE", help="CSV with accuracy_frac, latency_s and energy_j: judge every row"
    )
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Judge and print; exit status 1 if nothing meets the scenario."""
    try:
        if args.front is not None and _figures(args):
            raise ValueError("front: got a table and figures, expected one of the two")
        if args.name is None:
            return _list(args)
        scenario = _scenario(args.name)
        document = _point(args, scenario) if args.front is None else _front(scenario, Path(args.front))
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        print_json(document)
    else:
        _print(scenario, document)
    return 0 if document["feasible"] else 1


def _figures(args: argparse.Namespace) -> list[str]:
    return [text for text in (args.accuracy, args.latency, args.energy) if text is not None]


def _list(args: argparse.Namespace) -> int:
    if args.front is not None or _figures(args):
        raise ValueError("scenario: got none, expected one before the options")
    scenarios = load_scenarios().values()
    if args.json:
        print_json([asdict(s) | {"power_at_limits_w": s.power_at_limits_w} for s in scenarios])
        return 0
    rows = [("SCENARIO", "ACCURACY", "LATENCY", "ENERGY", "WEIGHT", "MEAN POWER AT THE LIMITS")]
    for s in scenarios:
        limits = (
            quantity_text(s.min_accuracy_frac, "frac"),
            quantity_text(s.max_latency_s, "s"),
            quantity_text(s.max_energy_j, "J"),
        )
        rows.append((s.key, *limits, f"{s.energy_weight:g}", quantity_text(s.power_at_limits_w, "W")))
    print_table(rows)
    return 0


def _scenario(name: str) -> Scenario:
    known = load_scenarios()
    if name in known:
        return known[name]
    if not os.path.exists(name):
        raise ValueError(f"scenario: got {name!r}, expected one of {', '.join(known)}, or a file")
    return read_scenario(Path(name))


def _point(args: argparse.Namespace, scenario: Scenario) -> dict[str, Any]:
    given = _figures(args)
    if not given:
        a, t, e, basis = _predicted(args)
    elif len(given) < 3:
        raise ValueError("accuracy, latency, energy: got only some of them, expected all three or none")
    else:
        a = parse_quantity(args.accuracy, "frac", name="accuracy", low=0.0, high=1.0)
        t = parse_quantity(args.latency, "s", name="latency", low=0.0, high=MOST, bare=None)
        e = parse_quantity(args.energy, "J", name="energy", low=0.0, high=MOST)
        basis = "figures as given"
    verdict = judge(scenario, a, t, e)
    return {
        "scenario": asdict(scenario),
        "basis": basis,
        "accuracy_frac": a,
        "latency_s": t,
        "energy_j": e,
        **_record(verdict, ()),
        "sentence": sentence(scenario, verdict),
    }


def _predicted(args: argparse.Namespace) -> tuple[float, float, float, str]:
    library = open_library()
    catalogue = with_described(args, library.catalogue())
    point = point_from(args, catalogue)
    made = predict(point, catalogue, library.posterior(point, catalogue))
    values = []
    for name in ("top1_agreement", "decode_s", "energy_j_per_token"):
        output = getattr(made, name)
        if isinstance(output, Absent):
            raise ValueError(f"{name}: got nothing ({output.reason}), expected --accuracy, --latency and --energy")
        values.append(float(output.median))
    basis = "of the operating point: agreement with the reference model as accuracy, time and energy of one token"
    return values[0], values[1], values[2], basis


def _front(scenario: Scenario, path: Path) -> dict[str, Any]:
    a, t, e = read_columns(path.name, read_text(path), ("accuracy_frac", "latency_s", "energy_j"))
    if not a.size:
        raise ValueError(f"{path.name}: got no rows, expected at least one")
    verdict = judge(scenario, a, t, e)
    losses = np.stack([1 - a, t, e], axis=1)
    front = nondominated(losses)
    limits = (1 - scenario.min_accuracy_frac, scenario.max_latency_s, scenario.max_energy_j)
    rows = [{"row": i + 1, **_record(verdict, i), "on_front": bool(front[i])} for i in range(a.size)]
    best = int(np.argmax(verdict.score))
    return {
        "scenario": asdict(scenario),
        "rows": rows,
        "n_feasible": int(verdict.feasible.sum()),
        "feasible": bool(verdict.feasible.any()),
        "best_row": best + 1 if verdict.feasible.any() else {"absent": "no row meets the scenario"},
        "hypervolume_frac": hypervolume(losses, limits) / float(np.prod(limits)),
    }


def _record(verdict: Verdict, at: int | tuple[()]) -> dict[str, Any]:
    return {
        "margins": {
            "accuracy": float(verdict.accuracy_margin[at]),
            "latency": float(verdict.latency_margin[at]),
            "energy": float(verdict.energy_margin[at]),
        },
        "feasible": bool(verdict.feasible[at]),
        "score": float(verdict.score[at]),
        "tightest": str(verdict.tightest[at]),
    }


def _print(scenario: Scenario, document: dict[str, Any]) -> None:
    if "rows" not in document:
        print(document["sentence"])
        print(f"Score {document['score']:.3f}; {document['basis']}.\n")
        print_table([(name, f"{100 * margin:.1f} % left") for name, margin in document["margins"].items()])
        return
    of = counted(len(document["rows"]), "row")
    print(f"{document['n_feasible']} of {of} {'meets' if document['n_feasible'] == 1 else 'meet'} {scenario.name}.\n")
    rows = [("ROW", "SCORE", "TIGHTEST", "FRONT")]
    for row in document["rows"]:
        score = f"{row['score']:.3f}" if row["feasible"] else "fails"
        rows.append((str(row["row"]), score, row["tightest"], "yes" if row["on_front"] else ""))
    print_table(rows)
    print(f"\nThe front covers {100 * document['hypervolume_frac']:.1f} % of the volume inside the limits.")
