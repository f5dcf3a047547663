"""What a writer of settings returns, and sentences on the fields of a point that settings cannot express."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.physics.pruning import keep_count
from core.spec import Catalogue, OperatingPoint

N_SINKS = 4
"""First tokens that pruning by sinks and recency always keeps, as Trilemma's own decoder does."""


@dataclass(frozen=True, slots=True)
class Written:
    """The text of a settings file, the reason of each field that it leaves out, and the fields it has beyond formats.

    `missing` has reasons by field of the point; `expressed` fields that few runtimes can have, such as alpha.
    """

    text: str
    missing: Mapping[str, str] = field(default_factory=dict)
    expressed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Writer:
    """A writer of settings: for which runtimes of the catalogue, the name of the file, the source of its keys."""

    key: str
    name: str
    runtimes: tuple[str, ...]
    file: str
    comment: str  # how a line of comment begins; "" where the format has none
    reference: str
    write: Callable[[OperatingPoint, Catalogue], Written]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a point for a runtime: their text, and a sentence for each value that they cannot express."""

    writer: Writer
    text: str
    not_expressed: tuple[str, ...]

    @property
    def content(self) -> str:
        """The text of the file, below comments on what it cannot express where the format has comments."""
        above = (f"{self.writer.comment} not expressed: {one}\n" for one in self.not_expressed if self.writer.comment)
        return f"{''.join(above)}{self.text}\n"


def settings(writer: Writer, point: OperatingPoint, catalogue: Catalogue) -> Settings:
    """Return the settings of a point (scalars only) by a writer."""
    made = writer.write(point, catalogue)
    return Settings(writer, made.text, tuple(_sentences(writer, made, point, catalogue)))


def _sentences(writer: Writer, made: Written, point: OperatingPoint, catalogue: Catalogue) -> list[str]:
    """Return one sentence for each field of the point that is not in the settings, in the order of the fields."""
    name, board = writer.name, catalogue.boards[point.board]
    known = [catalogue.runtimes[key] for key in writer.runtimes]
    reselected = f", re-selected every {float(point.reselect_tokens):g} tokens" if point.reselect_tokens else ""
    outside = "the board is set to it outside the runtime"
    said = {
        "weights": (f"Weight format {catalogue.weight_formats[point.weights].name}", ""),
        "kv": (f"KV format {catalogue.kv_formats[point.kv].name}", ""),
        "context_tokens": (f"Context of {float(point.context_tokens):g} tokens", ""),
        "alpha": (
            f"KV prune rate {float(point.alpha):g} with policy {point.policy} and layout {point.layout}{reselected}",
            f"{name} keeps the whole cache; its latency is that of rate 0",
        ),
        "beta": (f"Instruction set factor {float(point.beta):g}", f"the build of {name} decides it"),
        "head": (
            f"Output head in {catalogue.weight_formats[point.head].name if point.head else ''}",
            "the model file decides it",
        ),
        "bandwidth_byte_s": (
            f"Memory bandwidth {point.bandwidth_byte_s or 0.0:g} byte/s",
            "the memory of the board decides it",
        ),
        "power_mode": (f"Power mode {point.power_mode}", outside),
        "power_limit_w": (f"Power limit {point.power_limit_w or 0.0:g} W", outside),
        "graph_tokens": (f"Compiled context of {point.graph_tokens:g} tokens", "the compiled model decides it"),
    }
    plain = OperatingPoint()
    found = [f"{what}: {made.missing[key]}." for key, (what, _) in said.items() if key in made.missing]
    for key, (what, reason) in said.items():
        if reason and key not in made.missing and key not in made.expressed:
            own = key == "bandwidth_byte_s" and point.bandwidth_byte_s == _own_bandwidth(point, catalogue)
            if getattr(point, key) != getattr(plain, key) and not own:
                found.append(f"{what}: {reason}.")
    if not any((one.on_cpu and board.unit != "npu") or one.runs_on_unit(board) for one in known):
        found.append(f"{board.name}: {name} does not run on its {board.unit.upper()}.")
    return found


def _own_bandwidth(point: OperatingPoint, catalogue: Catalogue) -> float:
    return catalogue.resolve(point).mode.bandwidth_byte_s


def window_tokens(point: OperatingPoint) -> int | None:
    """Return the cached tokens that pruning by sinks and recency keeps; None for any other pruning, or none.

    Runtimes with attention sinks and a window keep exactly these.
    """
    once = not point.reselect_tokens
    if point.policy != "sinks_recent" or point.alpha <= 0 or not once:
        return None
    kept = int(keep_count(float(point.context_tokens), float(point.alpha)))
    return kept if kept > N_SINKS else None


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document as JSON with two spaces of indentation."""
    return json.dumps(document, indent=2)


def yaml_text(document: Mapping[str, Any], indent: str = "") -> str:
    """Return mappings of numbers, plain words and lists of numbers as YAML."""
    lines = []
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines += [f"{indent}{key}:", yaml_text(value, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}")
    return "\n".join(lines)
