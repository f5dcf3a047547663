"""``trilemma runtimes``: the runtimes configured on a board, and a check of their file."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from app.agent.runtimes.entry import entries_file
from app.cli.shared.output import UserError, print_json, print_table
from app.cli.shared.target import add_target_options, target_from
from app.client.blocking_session import AttachedBoard, LinkError
from core.catalogue.load import load_catalogue
from core.catalogue.names.formats import format_key
from core.spec import Catalogue

EXAMPLES = """examples:
  trilemma runtimes                                         those of this machine
  trilemma runtimes --attach user@orin --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the board."""
    add_target_options(parser)


def run(args: argparse.Namespace) -> int:
    """Ask the board and print."""
    try:
        with AttachedBoard(target_from(args.attach, args.ssh_config)) as board:
            hello = board.hello
    except LinkError as error:
        raise UserError(str(error)) from error
    catalogue = load_catalogue()
    entries = [{**entry, "unknown": unknown(entry, catalogue)} for entry in hello.get("runtimes", [])]
    wrong = str(hello.get("runtimes_wrong", ""))
    if args.json:
        print_json({"runtimes": entries, "wrong": wrong})
    else:
        _print(entries, wrong)
    return 1 if wrong or any(entry["unknown"] for entry in entries) else 0


def unknown(entry: Mapping[str, Any], catalogue: Catalogue) -> str:
    """Return a sentence on the key of an entry that is missing from the catalogue; "" if none is."""
    key_of = {
        "runtime": (str(entry.get("runtime") or ""), catalogue.runtimes),
        "model": (str(entry.get("model") or ""), catalogue.models),
        "weights": (format_key(str(entry.get("weights") or ""), catalogue.weight_formats), catalogue.weight_formats),
        "kv": (format_key(str(entry.get("kv") or ""), catalogue.kv_formats, of_weights=False), catalogue.kv_formats),
    }
    for name, (key, keys) in key_of.items():
        if entry.get(name) and key not in keys:
            return f"{name} {entry[name]} is not in the catalogue, so it has no prediction"
    return ""


def _print(entries: list[dict[str, Any]], wrong: str) -> None:
    if wrong:
        print(f"The file of runtimes is invalid, none is used: {wrong}.")
    elif not entries:
        print(
            f"No runtime is configured on this board besides Trilemma's own: its file would be {entries_file()} there."
        )
    print_table(
        [(e["runtime"], e["model"], e["where"], e["weights"] or "–", e["kv"] or "–", e["unknown"]) for e in entries]
    )
