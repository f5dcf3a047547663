"""Budgets of what one board may say: so much in a second, more in a burst; what is beyond is counted and said."""

from __future__ import annotations

import time
from collections.abc import Callable

from app.protocol import CONTROL, Frame

BUDGETS = {
    "lines of its log": (10.0, 100.0),
    "changes of its channels": (0.2, 3.0),
    "repeated catalogues": (2.0, 20.0),
    "changes of its state": (2.0, 10.0),
    "steps of progress": (100.0, 400.0),  # beyond it a later step tells as much: nothing is said
    "readings of its clock": (12.0, 60.0),
    "samples at impossible times": (0.0, 0.0),
    "samples that do not fit its catalogue": (0.0, 0.0),
}
"""What is counted -> how many in a second, and how many at once."""
LOG, CHANNELS, SAME, STATE, PROGRESS, PINGS, TIMES, UNFIT = BUDGETS
SAY_S = 5.0  # between lines about what is beyond

BYTE_S, BURST_BYTE = 4e6, 8e6
"""No board needs more: 1000 samples a second of 256 channels are a quarter of it."""
FRAMES_S, BURST_FRAMES = 1000.0, 2000.0
MESSAGE_BYTE_S, BURST_MESSAGE_BYTE = 0.25e6, 0.5e6
"""Of messages, which take more work than samples; the largest has 64 KiB."""
MAX_PAUSE_S = 0.25


class Bucket:
    """Holds up to `burst` units and gains `per_s` in a second."""

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._held, self._at_s = burst, clock()

    def take(self, n: float = 1.0) -> bool:
        """Take units, if it holds so many."""
        enough = self._filled() >= n
        if enough:
            self._held -= n
        return enough

    def owe(self, n: float) -> float:
        """Take units that it may not hold; return the time until it holds what is owed [s]."""
        self._held = self._filled() - n
        return max(0.0, -self._held / self._per_s)

    def _filled(self) -> float:
        now_s = self._clock()
        self._held = min(self._burst, self._held + self._per_s * (now_s - self._at_s))
        self._at_s = now_s
        return self._held


class Budgets:
    """The budgets of one link, and what went beyond them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets = {name: Bucket(*limits, clock) for name, limits in BUDGETS.items()}
        self._beyond: dict[str, int] = {}
        self._said_s = clock() - SAY_S

    def allows(self, name: str) -> bool:
        """Return True and count one of a kind; count it as beyond, where it is."""
        if self.takes(name):
            return True
        self.left_out(name)
        return False

    def takes(self, name: str) -> bool:
        """Return True and count one of a kind, where the budget has room for it."""
        return self._buckets[name].take()

    def left_out(self, name: str, n: int = 1) -> None:
        """Count what was left out."""
        self._beyond[name] = self._beyond.get(name, 0) + n

    def sentence(self) -> str:
        """Return one sentence about what was left out since the last one; "" where nothing was, or it is too soon."""
        now_s = self._clock()
        if not self._beyond or now_s - self._said_s < SAY_S:
            return ""
        parts = [f"{n} {name}" for name, n in self._beyond.items()]
        self._beyond, self._said_s = {}, now_s
        return f"left out of what the board sends: {', '.join(parts)}"


class Pace:
    """How fast frames of an agent are taken: beyond it, the agent waits, not the window."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._frames = Bucket(FRAMES_S, BURST_FRAMES, clock)
        self._samples = Bucket(BYTE_S, BURST_BYTE, clock)
        self._messages = Bucket(MESSAGE_BYTE_S, BURST_MESSAGE_BYTE, clock)

    def pause_s(self, frame: Frame) -> float:
        """Take one frame; return how long to wait before the next [s]."""
        of_kind = self._messages if frame.kind == CONTROL else self._samples
        return min(max(of_kind.owe(len(frame.body)), self._frames.owe(1.0)), MAX_PAUSE_S)
