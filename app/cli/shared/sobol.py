"""``trilemma explain --sobol``: Sobol indices of the decode time over ranges, with the elasticities."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from app.cli.shared.output import UserError, print_table
from app.library.axes import SLIDERS, axis_of, checked
from app.text.format import counted, exact_text, parse_quantity
from core.predict.sensitivity import KEPT, Sobol, elasticities, sobol_of
from core.spec import BY_NAME, BY_PATH, Absent, Catalogue, OperatingPoint, Posterior

NAMES = {path.removeprefix("point."): path for path in SLIDERS}
"""Name of an input -> its path."""

MOST_SAMPLES = 16384  # seconds on one core
REPLICATES = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the ranges and the number of samples."""
    group = parser.add_argument_group("sensitivity over ranges")
    group.add_argument(
        "--sobol",
        nargs="*",
        metavar="NAME=LOW:HIGH",
        help=f"Sobol indices of the decode time over ranges of {', '.join(NAMES)}, such as alpha=0:0.5 "
        "bandwidth=25GB/s:100GB/s; without any, from half to twice each value, and alpha from 0 to r_max",
    )
    group.add_argument(
        "--samples",
        type=int,
        default=1024,
        metavar="N",
        help="base samples, a power of 2; each costs eight evaluations (1024)",
    )


def document(
    args: argparse.Namespace, point: OperatingPoint, catalogue: Catalogue, known: Posterior, alpha_max: float | None
) -> dict[str, Any]:
    """Return the indices with their errors and ranges, and the elasticities, as JSON values.

    Raises
    ------
    UserError
        A range or the number of samples is invalid.
    """
    n = args.samples
    if not 1 < n <= MOST_SAMPLES or n & (n - 1):
        raise UserError(f"samples: got {n}, expected a power of 2 from 2 to {MOST_SAMPLES}")
    try:
        ranges = _given(args.sobol, point, catalogue) or _default(point, catalogue, known, alpha_max)
        found = sobol_of(point, ranges, catalogue, known, n=n)
    except ValueError as error:
        raise UserError(f"sobol: {str(error).removeprefix('sobol: ').replace('point.', '')}") from error
    if isinstance(found, Absent):
        return {"absent": found.reason}
    return _document(found, ranges, elasticities(point, catalogue, known))


def _document(
    found: Sobol, ranges: Mapping[str, tuple[float, float]], slopes: Mapping[str, float] | Absent
) -> dict[str, Any]:
    of = {} if isinstance(slopes, Absent) else {**slopes, "alpha": slopes[KEPT]}
    columns = (found.first_order, found.first_error, found.total_order, found.total_error)
    inputs = {
        name: {
            "range": list(ranges[name]),
            "elasticity": of[name],
            "first_order": {"value": first, "error": first_error},
            "total_order": {"value": total, "error": total_error},
        }
        for name, first, first_error, total, total_error in zip(
            found.names, *(column.tolist() for column in columns), strict=True
        )
    }
    return {"of": "ln decode_s", "n_predictions": found.n_evaluations, "n_replicates": REPLICATES, "inputs": inputs}


def _given(texts: Sequence[str], point: OperatingPoint, catalogue: Catalogue) -> dict[str, tuple[float, float]]:
    ranges = dict[str, tuple[float, float]]()
    for text in texts:
        name, equals, values = text.partition("=")
        low, colon, high = values.partition(":")
        if not equals or not colon or name not in NAMES:
            raise UserError(f"sobol: got {text!r}, expected NAME=LOW:HIGH with a name of {', '.join(NAMES)}")
        if BY_PATH[NAMES[name]].name in ranges:
            raise UserError(f"sobol: got {name} twice, expected each input once")
        axis = axis_of(NAMES[name], point, catalogue)
        bare = None if axis.unit == "byte/s" else ""
        ends = [parse_quantity(end, axis.unit, name=f"sobol: {name}", bare=bare) for end in (low, high)]
        for end in ends:
            checked(axis.path, end, point, catalogue)  # ValueError
        if not ends[0] < ends[1]:
            raise UserError(f"sobol: got {text!r}, expected LOW below HIGH")
        ranges[BY_PATH[axis.path].name] = (ends[0], ends[1])
    return ranges


def _default(
    point: OperatingPoint, catalogue: Catalogue, known: Posterior, alpha_max: float | None
) -> dict[str, tuple[float, float]]:
    """Return half to twice each value within its range, and prune rates up to r_max if the runtime prunes."""
    longest = axis_of("point.context", point, catalogue).high
    most = {name: BY_NAME[name].range for name in ("bandwidth_byte_s", "context_tokens", "beta")}
    most["context_tokens"] = most["context_tokens"][0], longest
    ranges = dict[str, tuple[float, float]]()
    for name, (lowest, highest) in most.items():
        here = float(getattr(point, name) or known.bandwidth_byte_s)
        ranges[name] = (max(here / 2.0, lowest), min(2.0 * here, highest))
    if "alpha" in catalogue.resolve(point).runtime.knobs and alpha_max:
        ranges["alpha"] = (0.0, alpha_max)
    return ranges


def print_document(found: Mapping[str, Any], point: OperatingPoint, catalogue: Catalogue) -> None:
    """Print the indices and the elasticities."""
    if "absent" in found:
        print(f"\nSobol indices: {found['absent']}.")
        return
    n = counted(found["n_predictions"], "prediction")
    print(f"\nSobol indices of ln(decode time), 90 % errors by {found['n_replicates']} replicates, {n}:")
    units = {BY_PATH[path].name: (name, axis_of(path, point, catalogue).unit) for name, path in NAMES.items()}
    rows: list[tuple[str, ...]] = [("INPUT", "RANGE", "ELASTICITY", "FIRST ORDER", "TOTAL")]
    for field, row in found["inputs"].items():
        name, unit = units[field]
        low, high = (exact_text(end, unit) for end in row["range"])
        indices = (f"{row[order]['value']:.3f} ± {row[order]['error']:.1g}" for order in ("first_order", "total_order"))
        rows.append((name, f"{low} to {high}", f"{row['elasticity']:+.2f}", *indices))
    print_table(rows)
    if "alpha" in found["inputs"]:
        print("The elasticity of alpha is in the share of the cache that pruning keeps.")
