"""The catalogue: all records that an operating point can name, and the lookup of a point's keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from core.spec.board import Board, PowerMode
from core.spec.formats import KvFormat, WeightFormat
from core.spec.interval_scale import HeldOut
from core.spec.model import ModelShape
from core.spec.point import OperatingPoint
from core.spec.posterior import Posterior
from core.spec.runtime import OWN_RUNTIME, Runtime
from core.spec.suggestions import suggestion


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The records that an operating point can name, by key."""

    boards: Mapping[str, Board]
    models: Mapping[str, ModelShape]
    runtimes: Mapping[str, Runtime]
    weight_formats: Mapping[str, WeightFormat]
    kv_formats: Mapping[str, KvFormat]
    board_posteriors: Mapping[tuple[str, str, str], Posterior] = field(default_factory=dict)
    """Posteriors fitted to published rows, by board, runtime and power mode."""
    held_out: HeldOut | None = None
    bench_runtimes: Mapping[tuple[str, str], Runtime] = field(default_factory=dict)
    """Runtimes with priors from a bench of a board's kernels, by board and runtime. Each is valid on its board only."""

    @property
    def head_formats(self) -> Mapping[str, WeightFormat]:
        """The weight formats of an output head: those that some runtime has a kernel for."""
        return {key: each for key, each in self.weight_formats.items() if not each.accuracy_only}

    def default_runtime(self, board: Board) -> str:
        """Return the key of the runtime of a point that names none: the first on the unit of its board that decodes.

        On CPUs and on attached machines it is Trilemma's own decoder, which an agent runs. Runtimes that stand for any
        other one come last.
        """
        if board.unit == "cpu" or board.data_sheet:
            return OWN_RUNTIME
        there = [one for one in self.runtimes.values() if one.runs_on_unit(board)]
        return min(there, key=lambda one: not one.called).key

    def with_usual(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields of a point with the usual runtime of its board, and weights that this takes, where missing."""
        plain, found = OperatingPoint(), dict(fields)
        board = self.boards.get(found.get("board", plain.board))
        if board is not None and "runtime" not in found:
            found["runtime"] = self.default_runtime(board)
        runtime = self.runtimes.get(found.get("runtime", plain.runtime))
        if runtime is not None and "weights" not in found:
            found["weights"] = runtime.usual_weights(plain.weights, board)
        return found

    def resolve(self, point: OperatingPoint) -> ResolvedPoint:
        """Look up the keys of a point.

        Raises
        ------
        ValueError
            An unknown key; the message names it and suggests known ones.
        """
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
    """The records that the keys of an operating point name."""

    board: Board
    mode: PowerMode
    runtime: Runtime
    model: ModelShape
    weights: WeightFormat
    kv: KvFormat
    reference: WeightFormat | None  # reference of accuracy where the model comes from a file
    head: WeightFormat | None = None  # of the output head; None for the one that `weights` implies


def _of_cores(mode: PowerMode) -> PowerMode:
    """Return a power mode with the rates of the CPU, for a CPU runtime on a board whose GPU or NPU decodes."""
    rate = mode.cpu_vector_op_s
    bandwidth = mode.cpu_bandwidth_byte_s or mode.bandwidth_byte_s
    return replace(mode, bandwidth_byte_s=bandwidth, compute_op_s=rate, vector_op_s=rate, clock_hz=None)


_Described = TypeVar("_Described")


def _named(kind: str, key: str, known: Mapping[str, _Described]) -> _Described:
    try:
        return known[key]
    except KeyError:
        raise ValueError(f"{kind} {key!r} is unknown; {suggestion(kind, key, known)}") from None
