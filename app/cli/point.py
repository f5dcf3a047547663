"""The options that name an operating point, shared by the commands that take one."""

from __future__ import annotations

import argparse
from typing import Any

from app.cli.output import UserError
from app.model.axes import check_point
from app.views.format import parse_quantity
from core.model_names import KnownNames
from core.spec import LAYOUTS, POLICIES, Catalogue, OperatingPoint

_PLAIN = OperatingPoint()

_KEYS = {
    "board": ("board", "KEY", f"board, see `trilemma boards` ({_PLAIN.board})"),
    "mode": ("power_mode", "KEY", "power mode of the board (its first)"),
    "runtime": ("runtime", "KEY", f"runtime ({_PLAIN.runtime}, Trilemma's own decoder)"),
    "model": ("model", "KEY", f"model, see `trilemma models`, or its name, such as llama3.2:3b ({_PLAIN.model})"),
    "weights": ("weights", "FORMAT", f"weight format: fp32, bf16, int8, int4, q4_k_m... ({_PLAIN.weights})"),
    "head": ("head", "FORMAT", "weight format of the output head, such as fp16 (that of the weight format)"),
    "kv": ("kv", "FORMAT", f"format of the KV cache: bf16, int8... ({_PLAIN.kv})"),
    "policy": ("policy", "NAME", f"which cached tokens pruning keeps: {', '.join(POLICIES)} ({_PLAIN.policy})"),
    "layout": ("layout", "NAME", f"how the kept tokens lie in memory: {', '.join(LAYOUTS)} ({_PLAIN.layout})"),
}
"""Option -> field, placeholder and help of the options that name something."""

_NUMBERS = {
    "context": ("context_tokens", "tokens", f"tokens in the KV cache, such as 2048 or 2k ({_PLAIN.context_tokens:g})"),
    "alpha": ("alpha", "1", "share of cached tokens pruned, such as 0.3 or 30%% (0)"),
    "reselect": (
        "reselect_tokens",
        "tokens",
        "choose anew which tokens are kept every so many generated ones, such as 64 (0: once, behind the prompt)",
    ),
    "beta": ("beta", "1", "speed-up of computing and unpacking by the instruction set (1)"),
    "bandwidth": ("bandwidth_byte_s", "byte/s", "peak memory bandwidth, such as 51.2GB/s (the board's own)"),
}
"""Option -> field, unit and help of the options that are numbers."""


def add_point_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare an option for each part of an operating point; what is not given is the default."""
    group = parser.add_argument_group("operating point")
    for option, (_, placeholder, words) in _KEYS.items():
        group.add_argument(f"--{option}", metavar=placeholder, help=words)
    for option, (_, _, words) in _NUMBERS.items():
        group.add_argument(f"--{option}", metavar="VALUE", help=words)


def point_from(args: argparse.Namespace, catalogue: Catalogue) -> OperatingPoint:
    """Return the operating point that the options name.

    Raises
    ------
    UserError
        One sentence: which option, what was given and what was expected.
    """
    fields: dict[str, Any] = {}
    for option, (field, _, _) in _KEYS.items():
        given = getattr(args, option)
        if given is not None:
            fields[field] = given
    if fields.get("model", _PLAIN.model) not in catalogue.models:  # as its authors call it
        fields["model"] = KnownNames(catalogue.models).key(fields["model"]) or fields["model"]
    try:
        for option, (field, unit, _) in _NUMBERS.items():
            given = getattr(args, option)
            if given is not None:
                bare = None if option == "bandwidth" else ""
                fields[field] = parse_quantity(given, unit, name=option, bare=bare)
        point = OperatingPoint(**fields)
        check_point(point, catalogue)
    except ValueError as error:
        raise UserError(str(error).removeprefix("point.")) from error
    return point
