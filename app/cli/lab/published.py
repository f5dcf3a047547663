"""`trilemma lab published [ITEM]`: items of the articles as printed, as written and by physics, with the verdict."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict

from app.cli.shared.output import UserError, print_json, print_table
from core.articles.item import Item, Value
from core.articles.items import ITEMS, item

_PARTS = {
    "printed": "as printed",
    "as_written": "the formula as written",
    "physical": "physics",
    "checks": "checks",
}

EXAMPLES = """examples:
  trilemma lab published                                        every item with its verdict
  trilemma lab published A01                                    as printed, as written, by physics
  trilemma lab published B12 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the one optional item."""
    parser.add_argument("item", nargs="?", help="show the values of this item, A01 to A17 or B01 to B16")


def run(args: argparse.Namespace) -> int:
    """Print the items, or the values of one."""
    if args.item is not None and args.item.upper() not in ITEMS:
        raise UserError(f"item: got {args.item!r}, expected one of {', '.join(ITEMS)}")
    chosen = [item(key) for key in (ITEMS if args.item is None else [args.item])]
    if args.json:
        print_json([asdict(one) for one in chosen])
    elif args.item is None:
        print_table([("ITEM", "TITLE", "VERDICT"), *((one.key, one.title, one.verdict) for one in chosen)])
    else:
        _print_one(chosen[0])
    return 0


def _print_one(one: Item) -> None:
    print(f"{one.key}  {one.title}\n{one.verdict}")
    for name, heading in _PARTS.items():
        values: Mapping[str, Value] = getattr(one, name)
        if values:
            print(f"\n{heading}")
            print_table([(f"  {key}", _text(value)) for key, value in values.items()])


def _text(value: Value) -> str:
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else value
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(inner)}" for key, inner in value.items())
    if isinstance(value, int | float):
        return f"{value:.10g}"
    return "[" + ", ".join(_text(inner) for inner in value) + "]"
