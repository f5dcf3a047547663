"""``--model-file``: another model of the Llama family, from a GGUF file, in place of the default one."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.cli.shared.output import UserError
from app.library.machine import why_not_measurable
from core.catalogue.gguf_model import model_from_gguf
from core.spec import Catalogue, OperatingPoint


def add_model_file_argument(parser: argparse._ActionsContainer) -> None:
    """Declare the option."""
    parser.add_argument(
        "--model-file", type=Path, metavar="PATH", help="run this GGUF file of the Llama family instead"
    )


def with_model_file(args: argparse.Namespace, catalogue: Catalogue) -> Catalogue:
    """Return the catalogue with the model of the file that was named, if one was, and make it the model asked for.

    Raises
    ------
    UserError
        The file cannot be read, or another model was named too.
    """
    if args.model_file is None:
        return catalogue
    if args.model is not None:
        raise UserError("--model and --model-file cannot be combined")
    try:
        shape = model_from_gguf(args.model_file)
    except ValueError as error:
        raise UserError(str(error)) from error
    args.model = shape.key
    return replace(catalogue, models={**catalogue.models, shape.key: shape})


def offered(hello: Mapping[str, Any], model_file: Path | None) -> Mapping[str, Any]:
    """Return what the board offers, with the file as its model."""
    if model_file is None:
        return hello
    return {**hello, "models": [{"file": model_file.name, "byte": model_file.stat().st_size}]}


def check_measurable(
    point: OperatingPoint, catalogue: Catalogue, hello: Mapping[str, Any], model_file: Path | None
) -> None:
    """Raise UserError unless the board that said hello can measure a point.

    The file is on it, whatever its model, so the model is not asked about then.
    """
    asked = point if model_file is None else replace(point, model=OperatingPoint().model)
    hello = offered(hello, model_file)
    if reason := why_not_measurable(asked, catalogue, hello):
        raise UserError(reason.rstrip("."))
