"""All that an operating point can name, by key, and the point with its names looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from core.spec.board import Board, PowerMode
from core.spec.formats import KvFormat, WeightFormat
from core.spec.interval_scale import HeldOut
from core.spec.model import ModelShape
from core.spec.point import OperatingPoint
from core.spec.posterior import Posterior
from core.spec.runtime import Runtime
from core.spec.suggestions import suggestion


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything that an operating point can name, by key."""

    boards: Mapping[str, Board]
    models: Mapping[str, ModelShape]
    runtimes: Mapping[str, Runtime]
    weight_formats: Mapping[str, WeightFormat]
    kv_formats: Mapping[str, KvFormat]
    board_posteriors: Mapping[tuple[str, str, str], Posterior] = field(default_factory=dict)
    """What published measurements teach, by board, runtime and power mode."""
    held_out: HeldOut | None = None
    bench_runtimes: Mapping[tuple[str, str], Runtime] = field(default_factory=dict)
    """A runtime as the bench of a board's kernels found it there, by board and runtime: it holds for no other board."""

    @property
    def head_formats(self) -> Mapping[str, WeightFormat]:
        """The weight formats that an output head can have: those that have a speed."""
        return {key: each for key, each in self.weight_formats.items() if not each.accuracy_only}

    def resolve(self, point: OperatingPoint) -> ResolvedPoint:
        """Look up what a point names; `ValueError` says which key is unknown and which ones exist."""
        board = _named("board", point.board, self.boards)
        mode = point.power_mode or next(iter(board.power_modes))
        described = _named(f"power mode of {board.key}", mode, board.power_modes)
        runtime = _named("runtime", point.runtime, self.runtimes)
        runtime = self.bench_runtimes.get((board.key, runtime.key), runtime)
        if runtime.on_cpu and board.unit != "cpu":
            board, described = replace(board, unit="cpu"), _of_cores(described)
        return ResolvedPoint(
            board,
            described,
            runtime,
            _named("model", point.model, self.models),
            _named("weight format", point.weights, self.weight_formats),
            _named("KV format", point.kv, self.kv_formats),
            self.weight_formats.get(self.models[point.model].reference_format),
            _named("weight format of the head", point.head, self.head_formats) if point.head else None,
        )


@dataclass(frozen=True, slots=True)
class ResolvedPoint:
    """What the keys of an operating point name."""

    board: Board
    mode: PowerMode
    runtime: Runtime
    model: ModelShape
    weights: WeightFormat
    kv: KvFormat
    reference: WeightFormat | None  # what accuracy is relative to when the model comes from a file
    head: WeightFormat | None = None  # of the output head, where it is not the one that `weights` gives it


def _of_cores(mode: PowerMode) -> PowerMode:
    """Return a mode of a board whose GPU or NPU decodes as a runtime on its CPU meets it: its rates are the cores'."""
    rate = mode.cpu_vector_op_s
    bandwidth = mode.cpu_bandwidth_byte_s or mode.bandwidth_byte_s
    return replace(mode, bandwidth_byte_s=bandwidth, compute_op_s=rate, vector_op_s=rate, clock_hz=None)


_Described = TypeVar("_Described")


def _named(kind: str, key: str, known: Mapping[str, _Described]) -> _Described:
    try:
        return known[key]
    except KeyError:
        raise ValueError(f"{kind} {key!r} is unknown; {suggestion(kind, key, known)}") from None
