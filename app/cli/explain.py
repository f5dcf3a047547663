"""``trilemma explain``: bottleneck of an operating point, remedies, margins to limits, and evidence."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import numpy as np

from app.cli.shared import sobol
from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from, with_described
from app.cli.shared.verdict import mark_of, verdict_of
from app.library.attention import nearest
from app.library.board_library import BoardLibrary
from app.library.endurance import Around, sustained_speed
from app.library.limits import MOST_ANSWER_TOKENS
from app.library.prediction_curves import DROPPED_MASS
from app.library.records import point_record
from app.text.explain import document as verdict_document
from app.text.format import at_most_text, counted, estimate_text, parse_quantity, quantity_text
from app.text.r_max import UNMEASURED, bounds_text
from core.catalogue.memory_reserve import usable_memory
from core.predict.explain import Margin, margins, roofline_s
from core.predict.parameters import extended, physical_parameters, ratio_names
from core.predict.request import ANSWER_TOKENS
from core.predict.scenario import initial_posterior, predict
from core.predict.sensitivity import elasticities
from core.predict.sweep import largest_context
from core.spec import Absent, Catalogue, OperatingPoint, Posterior
from core.units import Z90

LIMITS = {
    "max-latency": ("latency_s", "s", "longest time per token, such as 100ms or 10tok/s"),
    "max-power": ("power_w", "W", "most power, such as 15W"),
    "min-accuracy": ("accuracy_frac", "frac", "lowest agreement with the reference, such as 95%%"),
    "max-request-p99": (
        "request_s",
        "s",
        "longest P99 of a whole request: prompt of the context, and answer; such as 5s",
    ),
    "min-sustained": (
        "sustained_tokens_s",
        "tokens/s",
        "lowest speed at the end of an hour of decoding, as `simulate` has it, such as 8tok/s",
    ),
}
"""Option -> argument of `core.predict.explain.margins`, unit and help."""

EXAMPLES = """examples:
  trilemma explain --weights int8 --context 4096 --max-latency 15ms --min-accuracy 95%
  trilemma explain --board raspberry_pi_5 --runtime llamacpp_cpu --weights q4_k_m --max-power 10W --json
  trilemma explain --context 4096 --sobol context=512:8192 alpha=0:0.3"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the operating point and the limits."""
    add_point_arguments(parser)
    group = parser.add_argument_group("limits")
    for option, (_, _, words) in LIMITS.items():
        group.add_argument(f"--{option}", metavar="VALUE", help=words)
    group.add_argument(
        "--answer", metavar="TOKENS", help=f"tokens of the answer of a request, such as 256 ({ANSWER_TOKENS:g})"
    )
    sobol.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Explain the point."""
    library = open_library()
    catalogue = with_described(args, library.catalogue())
    point = point_from(args, catalogue)
    limits = _limits(args)
    known = library.posterior(point, catalogue) or initial_posterior(catalogue.resolve(point), catalogue)
    try:
        found = document(point, catalogue, known, limits, library)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.sobol is not None:
        alpha_max = mark_of(point, catalogue, known, library, limits.get("accuracy_frac")).alpha
        found["sobol_of_decode_s"] = sobol.document(args, point, catalogue, known, alpha_max)
    if args.json:
        print_json(found)
    else:
        _print(found)
        if args.sobol is not None:
            sobol.print_document(found["sobol_of_decode_s"], point, catalogue)
    return 0


def _limits(args: argparse.Namespace) -> dict[str, float]:
    limits = {}
    for option, (name, unit, _) in LIMITS.items():
        given = getattr(args, option.replace("-", "_"))
        if given is not None:
            try:
                bare = None if unit == "s" else ""
                limits[name] = parse_quantity(given, unit, name=option, bare=bare, per_token=name == "latency_s")
            except ValueError as error:
                raise UserError(str(error)) from error
            top = 1.0 if unit == "frac" else float("inf")
            if not 0.0 < limits[name] < top:
                raise UserError(
                    f"{option}: got {given}, expected more than 0{' and under 100 %' if top == 1.0 else ''}"
                )
    if args.answer is not None:
        limits["answer_tokens"] = _answer_tokens(args.answer)
    return limits


def _answer_tokens(given: str) -> float:
    try:
        tokens = parse_quantity(given, "tokens", name="answer", low=1.0, high=MOST_ANSWER_TOKENS)
    except ValueError as error:
        raise UserError(str(error)) from error
    if tokens != round(tokens):
        raise UserError(f"answer: got {given}, expected a whole number of tokens")
    return tokens


def document(
    point: OperatingPoint, catalogue: Catalogue, known: Posterior, limits: dict[str, float], library: BoardLibrary
) -> dict[str, Any]:
    """Return the explanation of a point (scalars only) as JSON values."""
    prediction = predict(point, catalogue, known)
    sustained = sustained_speed(point, catalogue, known, Around()) if "sustained_tokens_s" in limits else None
    verdict = verdict_document(verdict_of(point, catalogue, known, library, limits, sustained))
    slopes = elasticities(point, catalogue, known)
    had = usable_memory(catalogue.resolve(point).board)
    found = margins(prediction, **limits, sustained=sustained)
    longest = largest_context(
        point,
        catalogue,
        known,
        latency_s=limits.get("latency_s"),
        memory_byte=had.usable_byte if had else None,
        request_s=limits.get("request_s"),
        answer_tokens=limits.get("answer_tokens", ANSWER_TOKENS),
    )
    return {
        "point": point_record(point),
        **verdict,
        "roofline": _roofline(roofline_s(point, catalogue, known)),
        "elasticity_of_decode_s": {"absent": slopes.reason} if isinstance(slopes, Absent) else slopes,
        "margins": {name: _margin(margin) for name, margin in found.items()},
        "largest_context_tokens": {"absent": longest.reason} if isinstance(longest, Absent) else longest,
        "r_max": _r_max(point, catalogue, known, limits, library),
        "evidence": _evidence(point, catalogue, known),
    }


def _r_max(
    point: OperatingPoint, catalogue: Catalogue, known: Posterior, limits: dict[str, float], library: BoardLibrary
) -> dict[str, Any]:
    """Return the largest prune rate, and beside it the bounds by measured sparsity and entropy."""
    mark = mark_of(point, catalogue, known, library, limits.get("accuracy_frac"))
    measured = nearest(library.evidence(catalogue), point)
    bounds = None if measured is None else measured.bounds(DROPPED_MASS)
    return {
        "alpha": mark.alpha,
        "rule": mark.text,
        "bounds": {"absent": UNMEASURED} if bounds is None else asdict(bounds),
        "beside": bounds_text(measured),
    }


def _roofline(found: tuple[float, float] | Absent) -> dict[str, Any]:
    if isinstance(found, Absent):
        return {"absent": found.reason}
    return {"memory_s": found[0], "compute_s": found[1], "memory_over_compute": found[0] / found[1]}


def _margin(margin: Margin | Absent) -> dict[str, Any]:
    return {"absent": margin.reason} if isinstance(margin, Absent) else asdict(margin)


def _evidence(point: OperatingPoint, catalogue: Catalogue, known: Posterior) -> dict[str, Any]:
    """Return the evidence for the numbers of the point: data-sheet sources, and parameters with their intervals."""
    at = catalogue.resolve(point)
    known = extended(known, ratio_names(at))
    origin = known.basis or (f"{counted(known.n_decode, 'measurement')} on this board" if known.n_decode else "")
    sources = at.board.sources
    return {
        "bandwidth_byte_s": {
            "value": float(point.bandwidth_byte_s or known.bandwidth_byte_s),
            "source": "as requested" if point.bandwidth_byte_s else sources.get(f"{at.mode.key}.bandwidth_byte_s", ""),
        },
        "weight_byte_source": at.model.sources.get("weight_byte_by_format", "")
        if at.weights.key in at.model.weight_byte_by_format
        else f"parameters x bits ({at.weights.source})",
        "calibrated_on": origin or {"absent": "nothing measured on this board; the runtime's priors"},
        "parameters": {
            one.key: {
                "value": one.median(known),
                "unit": one.unit,
                "log_sd": one.log_sd(known),
                "meaning": one.meaning,
                "source": f"calibrated on {origin}" if origin else at.runtime.sources.get(one.names[0], ""),
            }
            for one in ([] if at.weights.accuracy_only else physical_parameters([point], with_ttft=True))
        },
    }


def _print(found: dict[str, Any]) -> None:
    print(found["limits"])
    roof = found["roofline"]
    if "absent" not in roof:
        memory, compute = (quantity_text(roof[name], "s") for name in ("memory_s", "compute_s"))
        ratio = roof["memory_over_compute"]
        binds, times = ("former", ratio) if ratio >= 1.0 else ("latter", 1.0 / ratio)
        print(f"Reading and unpacking take {memory}, arithmetic {compute}: the {binds} binds, by {times:.3g} times.")
    if found["changes"]:
        print("\nWhat would make it faster, by prediction:")
        print_table([("CHANGE", "DECODE", "ENERGY", "TOP-1"), *map(_change_row, found["changes"])])
    if found["margins"]:
        print("\nMargins to the limits (1: nothing used, below 0: exceeded):")
        print_table([(name, *_margin_row(margin)) for name, margin in found["margins"].items()])
    longest = found["largest_context_tokens"]
    text = longest["absent"] if isinstance(longest, dict) else quantity_text(float(longest), "tokens")
    print(f"\nLargest context: {text}{_in_memory(found['memory'])}.")
    mark = found["r_max"]
    at = "" if mark["alpha"] is None else f" (α {at_most_text(mark['alpha'], 2)})"
    print(f"\n{mark['rule']}{at}.")
    print(mark["beside"])
    evidence = found["evidence"]
    bandwidth = evidence["bandwidth_byte_s"]
    print(f"\nBandwidth {quantity_text(bandwidth['value'], 'byte/s')}: {bandwidth['source'] or 'no source'}")
    print(f"Bytes of weights: {evidence['weight_byte_source']}")
    origin = evidence["calibrated_on"]
    if isinstance(origin, str):
        print(f"Calibrated on {origin}.")
    for one in evidence["parameters"].values():
        value, factor = one["value"], float(np.exp(Z90 * one["log_sd"]))
        text = estimate_text(value, value / factor, value * factor, one["unit"] or "1")
        print(f"{one['meaning']}: {text}, {_brief(one['source'])}")
    if isinstance(found["interval"], str) and found["interval"] not in found["limits"]:
        print(found["interval"])


def _in_memory(fit: dict[str, Any]) -> str:
    """Return which memory the largest context is of; "" where no source states it."""
    if "absent" in fit:
        return ""
    had, of = (quantity_text(fit[name], "byte") for name in ("available_byte", "memory_byte"))
    largest = ", the most that a version of it has" if fit["of_largest_version"] else ""
    prior = "" if isinstance(fit["source"], dict) else ", a prior"
    return f", in {had} of {of}{largest} ({fit['basis']}{prior})"


def _brief(source: str) -> str:
    """Return a parameter's source without the part that the line above the table gives."""
    return "calibrated" if source.startswith("calibrated on ") else source


def _change_row(change: dict[str, Any]) -> tuple[str, ...]:
    def percent(value: Any) -> str:
        return "–" if isinstance(value, dict) else f"{100 * value:+z.1f} %"

    difference = change["top1_agreement_difference"]
    return (
        change["change"],
        percent(change["decode_s_frac"]),
        percent(change["energy_j_per_token_frac"]),
        percent(difference).replace(" %", " points"),
    )


def _margin_row(margin: dict[str, Any]) -> tuple[str, ...]:
    if "absent" in margin:
        return (f"– ({margin['absent']})",)
    return (f"{margin['median']:+z.2f} [{margin['low']:+z.2f}, {margin['high']:+z.2f}]",)
