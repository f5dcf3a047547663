"""Compensation at an operating point: the decoder that a point asks for, a set of offsets made for it, its effect.

Offsets come from the set that is live on the board; error feedback happens when the weights are packed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from kernels.accuracy.evaluation import AccuracyEvaluator, part
from kernels.accuracy.metrics import Window, mean_and_error, pooled
from kernels.cache.byte_lru import Memo
from kernels.cache.prepared import Prompts, Step
from kernels.decoder.compensation import (
    OUTPUTS,
    Made,
    calibration_text,
    fed_back,
    has_feedback,
    has_offsets,
    in_chunks,
    make_offsets,
)
from kernels.decoder.decoding import Decoding
from kernels.decoder.linear import GRID_BITS
from kernels.decoder.transformer import Decoder
from kernels.machine.timing import Stopwatch
from kernels.native.build import cpu_model
from kernels.point import Point

MIN_PAIRS, MAX_PAIRS, WARM_UP_PAIRS = 64, 200, 3
N_RESAMPLED, _SEED = 2000, 20_26
_DECODER_BYTE = 1 << 30


@dataclass(frozen=True, slots=True)
class OffsetSet:
    """Offsets as the board keeps them, with what they are for and where they were made.

    `offsets` has one for each channel: layer by layer, in each the outputs of `kernels.decoder.compensation.OUTPUTS`.
    """

    offsets: Sequence[float]
    gain: float
    weights: str
    compensation: str
    model: str
    chip: str
    epoch: int = 0
    crc: int = 0


class ParameterStore(Protocol):
    """The parameter sets of the board."""

    def live(self) -> OffsetSet | None:
        """Return the set that is live, None where there is none."""

    def install(self, made: OffsetSet) -> dict[str, Any]:
        """Install a set and return how that went."""

    def rollback(self) -> None:
        """Return to what was live before."""


class Compensator:
    """Makes the decoders of compensated points of one model file.

    Parameters
    ----------
    prompts : Prompts
        Of the file; asks here for its compensated decoders.
    store : ParameterStore, optional
        Where sets live; without one no set is live.
    """

    def __init__(self, prompts: Prompts, store: ParameterStore | None) -> None:
        self._prompts, self._store = prompts, store
        self._live: OffsetSet | None = None
        self._fed_back: Memo[str, Decoder] = Memo(_DECODER_BYTE, lambda decoder: decoder.weight_byte)
        self._with_offsets: dict[str, Decoder] = {}
        prompts.compensated = self.decoder

    @functools.cached_property
    def _chunks(self) -> list[Tensor]:
        tokens = torch.tensor(self._prompts.tokenizer.encode(calibration_text()), dtype=torch.int64)
        return in_chunks(tokens, self._prompts.file.shape.max_context_tokens)

    def prepare(self, point: Point) -> tuple[dict[str, Any], list[str]]:
        """Take the set that is live now for a point whose compensation has offsets; return conditions and notes.

        It serves until the next call.

        Raises
        ------
        ValueError
            No set is live, or it is for something else; in one sentence.
        """
        self._live = None
        if not has_offsets(point.compensation):
            return {}, []
        live = self._store.live() if self._store is not None else None
        if live is None:
            raise ValueError(
                f"parameters: no set is live on this board, compensation {point.compensation} needs one: "
                f"make it (trilemma compensate --weights {point.weights})"
            )
        self._check(live, point)
        self._live = live
        notes = [] if live.chip == cpu_model() else [f"The live parameter set was made on another chip, {live.chip}."]
        return {"parameters": {"epoch": live.epoch, "crc": live.crc}}, notes

    def _check(self, live: OffsetSet, point: Point) -> None:
        file = self._prompts.file
        wanted = {"model": file.identity, "weights": point.weights, "compensation": point.compensation}
        for name, value in wanted.items():
            if getattr(live, name) != value:
                raise ValueError(
                    f"parameters: the live set is for {name} {getattr(live, name)}, this point has {value}: "
                    "make a set for it (trilemma compensate) or roll the live one back (trilemma parameters --rollback)"
                )
        n_channels = file.shape.n_layers * len(OUTPUTS) * file.shape.hidden_size
        if len(live.offsets) != n_channels:
            raise ValueError(f"parameters: the live set has {len(live.offsets)} channels, expected {n_channels}")

    def decoder(self, weights: str, compensation: str, step: Step) -> Decoder:
        """Return the decoder of a compensated point, after `prepare`."""
        base = self._base(weights, compensation, step)
        if not has_offsets(compensation) or self._live is None:
            return base
        key = f"{base.key} offsets {self._live.epoch} {self._live.crc:08x}"
        if key not in self._with_offsets:
            self._with_offsets = {key: base.with_offsets(self._shaped(self._live.offsets), key)}
        return self._with_offsets[key]

    def _shaped(self, offsets: Sequence[float]) -> Tensor:
        shape = self._prompts.file.shape
        return torch.tensor(offsets, dtype=torch.float32).view(shape.n_layers, len(OUTPUTS), shape.hidden_size)

    def _base(self, weights: str, compensation: str, step: Step) -> Decoder:
        """Return the decoder without offsets."""
        if not has_feedback(compensation):
            return self._prompts.decoder(weights, step)
        found = self._fed_back.get(weights)
        if found is None:
            reference = self._prompts.decoder("fp32", step)
            found = fed_back(self._prompts.file, weights, reference, self._chunks, step)
            self._fed_back.put(weights, found)
        return found

    def measured(
        self,
        point: Point,
        n_windows: int,
        judge: AccuracyEvaluator,
        decoding: Callable[[Point, Step], tuple[Decoding, Any]],
        step: Step,
    ) -> dict[str, Any]:
        """Make a point's parameter set, install it and measure its effect; a run that ends early rolls it back.

        Parameters
        ----------
        point : Point
            With a compensation.
        n_windows : int
            Windows of text for the accuracy.
        judge : AccuracyEvaluator
        decoding : callable
            Returns a point ready to decode.
        step : callable
            Reports progress; may raise to stop.

        Returns
        -------
        dict
            Members of the result's body: ``compensation``, ``conditions``, ``notes``.
        """
        if point.compensation == "none":
            raise ValueError("compensation: got none, expected offsets, feedback or both to measure its effect")
        drifts, installed = list[float](), None
        if has_offsets(point.compensation):
            made = self._make(point, part(step, 0.0, 0.5))
            drifts, installed = made.drifts, self._install(point, made)
        try:
            conditions, notes = self.prepare(point)
            pair = None
            if point.weights not in GRID_BITS:
                own = part(step, 0.5, 0.1)
                pair = decoding(replace(point, compensation="none"), own)[0], decoding(point, own)[0]
            record, more = effect(judge, point, n_windows, pair, part(step, 0.6, 0.4))
        except BaseException:
            if installed is not None and self._store is not None:
                self._store.rollback()
            raise
        record |= {"kind": point.compensation, "drift_sd": drifts, "installed": installed}
        return {"compensation": record, "conditions": conditions | more, "notes": notes}

    def _make(self, point: Point, step: Step) -> Made:
        run = self._base(point.weights, point.compensation, part(step, 0.0, 0.3))
        reference = self._prompts.decoder("fp32", step)
        return make_offsets(run, reference, self._chunks, part(step, 0.3, 0.7))

    def _install(self, point: Point, made: Made) -> dict[str, Any]:
        if self._store is None:
            raise ValueError("parameters: this machine keeps no parameter sets")
        identity, chip = self._prompts.file.identity, cpu_model()
        offsets = made.offsets.reshape(-1).tolist()
        return self._store.install(OffsetSet(offsets, made.gain, point.weights, point.compensation, identity, chip))


def effect(
    judge: AccuracyEvaluator, point: Point, n_windows: int, pair: tuple[Decoding, Decoding] | None, step: Step
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Measure accuracy and decode time of a point without its compensation and with it.

    Both run over the same windows of text, and their tokens are timed in alternation, so the changes are paired.

    Parameters
    ----------
    judge : AccuracyEvaluator
    point : Point
        With its compensation.
    n_windows : int
        Windows of text.
    pair : tuple of Decoding, optional
        Without and with; None where the format's speed is not known.
    step : callable
        Reports progress; may raise to stop.

    Returns
    -------
    record, conditions : dict
    """
    plain = replace(point, compensation="none")
    runs = judge.windows([plain, point], n_windows, lambda done, text: step(0.9 * done, text))
    without, compensated = (_accuracy(windows) for windows in runs)
    change = {
        "mean_kl": _paired(runs, "divergence"),
        "top1_agreement": _paired(runs, "agrees"),
        "top1_loss": _paired(runs, "lost"),
        "perplexity_ratio": _exponential(_paired(runs, "loss")),
    }
    conditions: dict[str, Any] = {"quality_windows": n_windows}
    if pair is None:
        absent = {"absent": f"{point.weights} is held in 32 bits here, for its accuracy only: its speed is not known"}
        without["decode_s"], compensated["decode_s"], change["decode_ratio"] = absent, absent, absent
    else:
        watches = _timed_in_turn(pair, lambda done, text: step(0.9 + 0.1 * done, text))
        without["decode_s"], compensated["decode_s"] = (watch.record() for watch in watches)
        change["decode_ratio"] = _ratio(*watches)
        conditions["quiet_share"] = min(watch.quiet_share for watch in watches)
    return {"without": without, "with": compensated, "change": change}, conditions


def _accuracy(windows: Sequence[Window]) -> dict[str, Any]:
    return {**pooled(windows), "top1_loss": _mean([window.lost for window in windows])}


def _mean(windows: Sequence[Tensor]) -> dict[str, Any]:
    mean, error = mean_and_error(windows)
    n = sum(map(len, windows))
    return {"median": mean, "q05": mean - error, "q95": mean + error, "n": n, "provenance": "measured"}


def _paired(runs: Sequence[Sequence[Window]], name: str) -> dict[str, Any]:
    """Return the mean change of a value from the first run to the second, token by token, with its 90 % interval."""
    return _mean([getattr(b, name) - getattr(a, name) for a, b in zip(*runs, strict=True)])


def _exponential(record: dict[str, Any]) -> dict[str, Any]:
    return record | {name: math.exp(record[name]) for name in ("median", "q05", "q95")}


def _timed_in_turn(pair: tuple[Decoding, Decoding], step: Step) -> tuple[Stopwatch, Stopwatch]:
    """Time tokens of two decoders in alternation, the first one first in every other pair."""
    watches = Stopwatch(), Stopwatch()
    for count in range(-WARM_UP_PAIRS, MAX_PAIRS):
        if count == 0:
            watches = Stopwatch(), Stopwatch()
        quiet = sum(a and b for a, b in zip(watches[0].quiet, watches[1].quiet, strict=True))
        if count >= MIN_PAIRS and quiet >= MIN_PAIRS // 2:
            break
        step(max(0, count) / MAX_PAIRS, "generating tokens without and with compensation in turn")
        for which in (0, 1) if count % 2 else (1, 0):
            watches[which].time(pair[which].step)
    return watches


def _ratio(without: Stopwatch, compensated: Stopwatch) -> dict[str, Any]:
    """Return the median ratio of the times of a pair, with its 90 % interval by the bootstrap over pairs.

    Pairs that something else disturbed are left out, while enough others remain.
    """
    rows = zip(without.durations_s, compensated.durations_s, without.quiet, compensated.quiet, strict=True)
    every = [(b / a, x and y) for a, b, x, y in rows]
    quiet = [ratio for ratio, ok in every if ok]
    ratios = np.array(quiet if len(quiet) >= MIN_PAIRS // 4 else [ratio for ratio, _ in every])
    drawn = np.random.default_rng(_SEED).choice(ratios, (N_RESAMPLED, len(ratios)))
    q05, q95 = np.quantile(np.median(drawn, axis=1), [0.05, 0.95])
    middle = float(np.median(ratios))
    return {
        "median": middle,
        "q05": min(middle, float(q05)),
        "q95": max(middle, float(q95)),
        "n": len(ratios),
        "provenance": "measured",
    }
