"""``trilemma lab A03 [--latency 40ns ...]``: an item of the articles with one's own numbers; ``lab items``: which."""

from __future__ import annotations

import argparse
from typing import Any

from app.cli.shared.output import UserError, print_json, print_table
from app.text.lab.item import Input, Lab, Sweep, sweep
from app.text.lab.table import LABS, lab
from app.text.quantities import WORDS
from core.spec import Provenance

EXAMPLES = """examples:
  trilemma lab items                                    the items that take numbers
  trilemma lab A04 --hit-rate 0.6 --fast 200GB/s --slow 34GB/s
  trilemma lab A03 --latency 100ns --sweep open-misses=1..64 --json
  trilemma lab B16 --mean 83ms --p95 110ms --hops 5 --nodes 7"""
_ROWS_PRINTED = 13


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: the list takes no arguments."""


def run(args: argparse.Namespace) -> int:
    """List the items."""
    if args.json:
        print_json([{"item": one.key, "title": one.title, "inputs": _inputs(one)} for one in LABS.values()])
    else:
        rows = [(one.key, one.title, " ".join(f"--{i.option}" for i in one.inputs)) for one in LABS.values()]
        print_table([("ITEM", "TITLE", "INPUTS"), *rows])
    return 0


class Item:
    """The command of one item, with one option for each of its inputs."""

    def __init__(self, key: str) -> None:
        try:
            self.lab = lab(key)
        except ValueError as error:
            raise UserError(str(error)) from error
        first = self.lab.inputs[0]
        self.title = self.lab.title
        self.EXAMPLES = (
            f"examples:\n  trilemma lab {self.lab.key}   with the printed values\n"
            f"  trilemma lab {self.lab.key} --{first.option} {_typed(first)} --sweep {self._example_sweep()} --json"
        )

    def _example_sweep(self) -> str:
        swept = next(one for one in self.lab.inputs if one.name == self.lab.swept)
        low, high = (swept.text(end).replace(" ", "").replace("\u2009", "") for end in swept.span)
        return f"{swept.option}={low}..{high}"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the inputs."""
        for one in self.lab.inputs:
            source = "printed" if one.source == "published" else "assumed"
            text = f"{one.label}: {one.expected} ({source}: {one.text(one.default)})"
            parser.add_argument(f"--{one.option}", metavar="VALUE", help=text.replace("%", "%%"))
        parser.add_argument("--sweep", metavar="INPUT[=LO..HI]", help="evaluate along an input")

    def run(self, args: argparse.Namespace) -> int:
        """Evaluate the item and print it."""
        try:
            typed = {one.name: getattr(args, one.option.replace("-", "_")) for one in self.lab.inputs}
            values = {
                one.name: one.default if typed[one.name] is None else one.read(typed[one.name])
                for one in self.lab.inputs
            }
            found = self.lab.evaluate(values)
            swept = None if args.sweep is None else self._sweep(args.sweep, values)
        except ValueError as error:
            raise UserError(str(error)) from error
        document = {
            "item": self.lab.key,
            "title": self.lab.title,
            "inputs": values,
            "sources": {one.name: "user" if typed[one.name] is not None else one.source for one in self.lab.inputs},
            "outputs": found,
            "provenance": {one.name: one.provenance.value for one in self.lab.outputs},
            "sentence": self.lab.sentence(values, found),
            "check": self.lab.check,
        }
        if swept is not None:
            document["sweep"] = self._swept_document(swept)
        if args.json:
            print_json(document)
        else:
            self._print(document, swept)
        return 0

    def _sweep(self, text: str, values: dict[str, float]) -> Sweep:
        option, equals, ends = text.partition("=")
        one = self.lab.input(option)
        if not equals:
            return sweep(self.lab, values, option)
        low, dots, high = ends.partition("..")
        if not dots:
            raise ValueError(f"sweep: got {text[:80]!r}, expected INPUT=LO..HI, such as {self._example_sweep()}")
        return sweep(self.lab, values, option, one.read(low), one.read(high))

    def _swept_document(self, swept: Sweep) -> dict[str, Any]:
        columns = {
            one.name: [
                {"absent": reason} if found is None else found[one.name]
                for found, reason in zip(swept.found, swept.reasons, strict=True)
            ]
            for one in self.lab.outputs
        }
        return {swept.input.name: swept.x.tolist(), **columns}

    def _print(self, document: dict[str, Any], swept: Sweep | None) -> None:
        print(f"{self.lab.key}  {self.lab.title}\n{document['sentence']}\n")
        words = {"published": "printed", "assumed": "assumed", "user": "given"}
        inputs = [
            (one.label, one.text(document["inputs"][one.name]), words[document["sources"][one.name]])
            for one in self.lab.inputs
        ]
        outputs = [
            (one.label, one.text(document["outputs"][one.name]), WORDS[one.provenance]) for one in self.lab.outputs
        ]
        print_table([("INPUT", "VALUE", "SOURCE"), *inputs, ("RESULT", "", ""), *outputs])
        if swept is not None:
            print()
            print_table(self._swept_rows(swept))
        print(f"\nThe article: {document['check']}")

    def _swept_rows(self, swept: Sweep) -> list[tuple[str, ...]]:
        drawn = [one for one in self.lab.outputs if one.name in self.lab.drawn]
        head = [f"{one.label}{', as published' if one.provenance is Provenance.AS_PUBLISHED else ''}" for one in drawn]
        every = max(1, -(-len(swept.x) // _ROWS_PRINTED))
        rows = []
        for i in range(0, len(swept.x), every):
            found = swept.found[i]
            cells = ["–"] * len(drawn) if found is None else [one.text(found[one.name]) for one in drawn]
            rows.append((swept.input.text(float(swept.x[i])), *cells))
        return [(swept.input.label, *head), *rows]


def _typed(one: Input) -> str:
    return one.text(one.default).replace(" ", "").replace("\u2009", "")


def _inputs(one: Lab) -> dict[str, dict[str, Any]]:
    return {
        i.name: {"option": i.option, "default": i.default, "source": i.source, "low": i.low, "high": i.high}
        for i in one.inputs
    }
