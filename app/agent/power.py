"""The power of the whole board, from the channels that a board happens to have."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from app.agent.channel import TOTALS, Channel

_SINGLE = ("input", "estimate")
_MOST_RAILS = 24
MEANS = (".smoothed.power_w", ".mean.power_w")  # of a power that has a channel of its own


def wholes(channels: Sequence[Channel]) -> List[Tuple[List[int], str]]:
    """Return the columns whose sum is the whole board, for each of the `TOTALS` that it has, with what they cover.

    Disjoint parts are most of a machine only where the processor is among them.
    """
    found = []
    present = _present(channels)
    for way in TOTALS:
        columns = [i for i in present if channels[i].total == way]
        if not columns or (way == "disjoint" and not any(channels[i].key.startswith("package") for i in columns)):
            continue
        columns = columns[:1] if way in _SINGLE else columns
        words = " + ".join(channels[i].covers or channels[i].key for i in columns)
        found.append((columns, f"{words} (not the carrier board and what hangs on it)" if way == "sum" else words))
    return found


def total_power(channels: Sequence[Channel]) -> Tuple[List[int], str]:
    """Choose the columns whose sum comes closest to the whole board; `([], reason)` when no sensor does.

    Adding rails under a total would count twice: of the ways in `TOTALS` the first one that the board has and nobody
    doubts wins, and a channel takes part in one way only.

    Returns
    -------
    columns
        Their places among `channels`.
    words
        What they cover, or why there is no total.
    """
    doubts = []
    for columns, words in wholes(channels):
        doubt = next((channels[i].doubt for i in columns if channels[i].doubt), "")
        if not doubt:
            return columns, words
        doubts.append(doubt)
    if doubts:
        return [], doubts[0]
    present = _present(channels)
    if present:
        parts = ", ".join(channels[i].covers or channels[i].key for i in present)
        locked = [c.absent for c in channels if c.unit == "W" and c.absent.startswith("needs ")]
        return [], "; ".join([f"the power sensors of this machine cover parts of the board only: {parts}", *locked[:1]])
    reasons = [channel.absent for channel in channels if channel.key == "board.power_w"]
    return [], reasons[0] if reasons else "no power sensor on this machine"


def _present(channels: Sequence[Channel]) -> List[int]:
    return [i for i, channel in enumerate(channels) if channel.key.endswith("power_w") and not channel.absent]


def rails(channels: Sequence[Channel]) -> List[int]:
    """Return the columns whose energy is reported separately: parts of the board, each once.

    Not the channel that is the whole board alone, nor the flow of a battery, nor a rail that comes through a tool
    a second time, nor the mean of one that is there itself.
    """
    found = [
        i
        for i, channel in enumerate(channels)
        if channel.key.endswith("power_w") and not channel.absent and channel.covers
        if channel.total not in (*_SINGLE, "flow") and not channel.note.startswith("the same rail")
        if not (channel.part_of and channel.key.endswith(MEANS))
    ]
    return found[:_MOST_RAILS]
