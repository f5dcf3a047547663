"""``trilemma predict``: latency, power and accuracy of an operating point, with intervals and provenance."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from app.cli.shared.library import open_library
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.point import add_point_arguments, point_from, with_described
from app.cli.shared.verdict import verdict_of
from app.library.data_sheet import DataSheet, sheet_sentence
from app.library.records import output_record, point_record
from app.text.explain import plain
from app.text.format import output_text, quantity_text
from core.predict.accuracy import mean_kl, retrieval
from core.predict.explain import Verdict
from core.predict.scenario import initial_posterior, predict
from core.spec import Absent, Catalogue, OperatingPoint, Output, Posterior, Prediction

UNITS = {
    "decode_s": "s",
    "ttft_s": "s",
    "power_w": "W",
    "energy_j_per_token": "J/token",
    "perplexity_ratio": "1",
    "top1_agreement": "frac",
    "memory_byte": "byte",
}
"""The outputs in the order they are printed, each with its unit."""
FURTHER = {"mean_kl": "nat", "retrieval_after_pruning": "frac"}
"""Further accuracy outputs: divergence from the reference, and retrieval score relative to the full cache."""

EXAMPLES = """examples:
  trilemma predict --weights int8 --context 2048 --alpha 0.3
  trilemma predict --board raspberry_pi_5 --runtime llamacpp_cpu --model llama-3.2-1b --weights q4_k_m
  trilemma predict --board jetson_orin_nano_8gb_super --mode 15W --runtime llamacpp_gpu --weights q4_k_m --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the operating point."""
    add_point_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the prediction."""
    library = open_library()
    catalogue = with_described(args, library.catalogue())
    point = point_from(args, catalogue)
    try:
        known = library.posterior(point, catalogue) or initial_posterior(catalogue.resolve(point), catalogue)
        prediction, verdict = predict(point, catalogue, known), verdict_of(point, catalogue, known, library)
        further = further_outputs(point, catalogue, known)
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        board = catalogue.boards[point.board]
        sheet = {"key": board.data_sheet, "by": board.sources["data_sheet"]} if board.data_sheet else None
        print_json({**document(point, prediction, further, verdict), "basis": known.basis or None, "data_sheet": sheet})
    else:
        _print(point, prediction, further, catalogue, known)
        print(f"\n{plain(verdict)}")
    return 0


def further_outputs(point: OperatingPoint, catalogue: Catalogue, known: Posterior) -> dict[str, Output]:
    """Return the additional accuracy outputs of a point, in the order of `FURTHER`."""
    return {"mean_kl": mean_kl(point, catalogue.resolve(point), known), "retrieval_after_pruning": retrieval(point)}


def document(
    point: OperatingPoint, prediction: Prediction, further: Mapping[str, Output], verdict: Verdict
) -> dict[str, Any]:
    """Return a prediction (scalars only) as JSON values."""
    return {
        "point": point_record(point),
        **{name: output_record(getattr(prediction, name)) for name in UNITS},
        **{name: output_record(output) for name, output in further.items()},
        "parts_s": {name: float(part) for name, part in prediction.parts_s.items()},
        "binding": str(prediction.binding) or output_record(prediction.decode_s),
        "limits": plain(verdict),
        "outside": list(prediction.outside),
    }


def _print(
    point: OperatingPoint,
    prediction: Prediction,
    further: Mapping[str, Output],
    catalogue: Catalogue,
    known: Posterior,
) -> None:
    at = catalogue.resolve(point)
    print(f"{at.model.name}, {at.weights.name} weights, {at.kv.name} KV cache")
    print(f"{at.board.name} ({at.mode.key}), {at.runtime.name}")
    pruned = f", {quantity_text(float(point.alpha), 'frac')} pruned by {point.policy}, {point.layout}"
    if point.reselect_tokens:
        pruned += f", re-selected every {float(point.reselect_tokens):g} tokens"
    print(f"{quantity_text(float(point.context_tokens), 'tokens')} of context{pruned if point.alpha else ''}")
    print()
    rows = [(name, output_text(getattr(prediction, name), unit)) for name, unit in UNITS.items()]
    print_table([*rows, *((name, output_text(further[name], unit)) for name, unit in FURTHER.items())])
    if known.basis:
        print(f"\nCalibrated on {known.basis}.")
    elif at.board.data_sheet:
        sheet = DataSheet(at.board.data_sheet, at.board.sources["data_sheet"])
        print(f"\n{sheet_sentence(sheet, '--board-as of trilemma attach')}")
    if not isinstance(prediction.power_w, Absent):
        print(f"\nPower covers: {(known.n_energy and known.power_covers) or at.board.power_rail}.")
