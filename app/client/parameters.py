"""Compensation parameters sent to a board: in pieces, verified, committed on trial, verified live, else rolled back."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.parameter_set import MAX_FRAGMENT_BYTE, ParameterSet, decode
from core.physics.compensation import compensated

MAX_PROBE = 256
_SEED = 20_26


@dataclass(frozen=True, slots=True)
class Installed:
    """Installation of a set: durations of the steps [s], and its live epoch."""

    epoch: int
    n_message: int
    payload_byte: int
    set_s: float
    verify_s: float
    commit_s: float
    verify_live_s: float

    @property
    def total_s(self) -> float:
        """All steps together."""
        return self.set_s + self.verify_s + self.commit_s + self.verify_live_s


def install(step: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], wanted: ParameterSet) -> Installed:
    """Put a set live on a board, and see that its dual loop then does what the engine's formula does.

    Parameters
    ----------
    step
        ``step(name, members)`` does one step on the board and returns its answer; what it raises ends this.
    wanted
        The set; its numbers are rounded to float32, as they travel.

    Notes
    -----
    When a step after the commit fails, the board returns to its old set by itself; so it does when nothing comes in
    time.
    """
    data = wanted.encode()
    sent = decode(data)
    began_s = time.perf_counter()
    offsets = range(0, len(data), MAX_FRAGMENT_BYTE)
    for offset in offsets:
        piece = data[offset : offset + MAX_FRAGMENT_BYTE]
        step("set", {"offset": offset, "total": len(data), "data": piece.hex()})
    set_s = time.perf_counter()
    step("verify", {"crc": zlib.crc32(data)})
    verified_s = time.perf_counter()
    epoch = int(step("commit", {})["epoch"])
    committed_s = time.perf_counter()
    probe, expected = live_probe(sent)
    step("verify_live", {"epoch": epoch, "first": 0, "probe": probe, "expected": expected})
    ended_s = time.perf_counter()
    times = (set_s - began_s, verified_s - set_s, committed_s - verified_s, ended_s - committed_s)
    return Installed(epoch, len(offsets), len(data), *times)


def live_probe(wanted: ParameterSet) -> tuple[list[float], list[float]]:
    """Return probe values for the first channels, within a few steps of each grid, and their compensated values."""
    scale, zero = np.array(wanted.channels[:MAX_PROBE]).T
    probe = zero + scale * np.random.default_rng(_SEED).uniform(-8.0, 8.0, scale.size)
    return probe.tolist(), compensated(probe, wanted.target_mean, wanted.gain, scale, zero).tolist()
