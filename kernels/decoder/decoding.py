"""Decoding at an operating point: the same step again and again, whole or stage by stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.cache.contiguous import KvCache
from kernels.cache.prepared import Step
from kernels.decoder.stages import LAYER_STAGES, StageTimes
from kernels.decoder.transformer import Decoder
from kernels.machine.timing import Stopwatch

WARM_UP_STEPS, MIN_STEPS, MAX_STEPS, MIN_DECODE_S = 3, 32, 200, 0.6
ENOUGH_QUIET_STEPS, MAX_DECODE_S = 32, 2.0
"""Decoding goes on until so many steps were undisturbed, but not for longer than that."""


@dataclass(slots=True)
class Decoding:
    """A decoder with a cache; every step is the one that makes the context as long as it is."""

    decoder: Decoder
    cache: KvCache
    n_cached: int
    position: int
    token: int

    def step(self, stages: StageTimes | None = None) -> None:
        """Generate one token."""
        self.cache.length = self.n_cached - 1
        self.token = int(self.decoder.decode(self.token, self.position, self.cache, stages).argmax())


@dataclass(frozen=True, slots=True)
class Timed:
    """Steps that were timed, and when."""

    watch: Stopwatch
    start_s: float
    end_s: float
    read_byte_s: list[float]  # of each probe between the steps


def time_steps(decoding: Decoding, step: Step, probe: Callable[[], float] | None = None) -> Timed:
    """Generate tokens until enough steps were undisturbed.

    Parameters
    ----------
    decoding : Decoding
    step : callable
        Reports progress; may raise to stop.
    probe : callable, optional
        Called behind every other step, returns the read bandwidth of that moment [byte/s].
    """
    watch, start_s, read_byte_s = Stopwatch(), time.perf_counter(), list[float]()
    for count in range(WARM_UP_STEPS + MAX_STEPS):
        if count == WARM_UP_STEPS:
            watch, start_s = Stopwatch(), time.perf_counter()
        elapsed_s = time.perf_counter() - start_s
        enough = sum(watch.quiet) >= ENOUGH_QUIET_STEPS or elapsed_s >= MAX_DECODE_S
        if count >= WARM_UP_STEPS + MIN_STEPS and elapsed_s >= MIN_DECODE_S and enough:
            break
        step(0.7 + 0.3 * min(1, elapsed_s / MIN_DECODE_S), "generating tokens")
        watch.time(decoding.step)
        if probe is not None and count >= WARM_UP_STEPS and count % 2:
            read_byte_s.append(probe())
    return Timed(watch, start_s, time.perf_counter(), read_byte_s)


def time_stages(decoding: Decoding, step: Step, n_steps: int = MIN_STEPS) -> dict[str, Any]:
    """Generate tokens and time the stages of each.

    Returns
    -------
    dict
        ``stages_s``: by stage a measured record; the last one, ``rest_s``, is what a step takes beyond them (choosing
        the token, Python). ``layer_s``: seconds of each layer. ``step_s``: the whole step. All are means over the
        middle half of the steps by their time, with the least and the largest as interval: so the stages add up to
        the step, which medians would not.
    """
    n_layers = decoding.decoder.shape.n_layers
    for _ in range(WARM_UP_STEPS):
        decoding.step(StageTimes(n_layers))
    found = []
    for count in range(n_steps):
        step(0.7 + 0.3 * count / n_steps, "timing the stages of a token")
        stages, start_s = StageTimes(n_layers), time.perf_counter()
        decoding.step(stages)
        found.append((time.perf_counter() - start_s, stages))
    found.sort(key=lambda timed: timed[0])
    middle = found[len(found) // 4 : -(-3 * len(found) // 4)]
    layers = np.array([stages.layer_s for _, stages in middle])
    by_stage = {"embedding": [stages.embedding_s for _, stages in middle]}
    by_stage |= {name: layers[:, :, i].sum(1).tolist() for i, name in enumerate(LAYER_STAGES)}
    by_stage["head"] = [stages.head_s for _, stages in middle]
    by_stage["rest"] = [total_s - stages.total_s for total_s, stages in middle]
    return {
        "stages_s": {f"{name}_s": _mean_record(seconds) for name, seconds in by_stage.items()},
        "layer_s": layers.sum(2).mean(0).tolist(),
        "step_s": _mean_record([total_s for total_s, _ in middle]),
    }


def _mean_record(seconds: Sequence[float]) -> dict[str, Any]:
    mean = sum(seconds) / len(seconds)
    return {"median": mean, "q05": min(seconds), "q95": max(seconds), "n": len(seconds), "provenance": "measured"}
