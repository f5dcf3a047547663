"""The channels of the tools that a board has."""

from __future__ import annotations

import collections
import math
import os
import re
import shutil
from pathlib import Path
from typing import Collection, List, Optional, Sequence, Tuple

from app.agent.channel import Channel
from app.agent.sensors import feed as feeds
from app.agent.sensors.feed import Tool

_FOLDERS = (
    *("usr/bin", "bin", "usr/sbin", "sbin", "usr/local/bin", "usr/local/sbin"),
    *("usr/local/neuware/bin", "usr/local/Ascend/driver/tools", "opt/vc/bin", "usr/hobot/bin", "opt/hobot/bin"),
)


def left_out_words(keys: Collection[str]) -> str:
    """Return how many channels found no room, and of what kind most of them are."""
    kinds = collections.Counter(re.sub(r"\d+", "N", key) for key in keys)
    most = ", ".join(f"{n} of {kind}" if n > 1 else kind for kind, n in kinds.most_common(3))
    others = ", ..." if len(kinds) > 3 else ""
    values = "value is" if len(keys) == 1 else "values are"
    return f"{len(keys)} {values} left out, for a catalogue has no room for so many: {most}{others}"


def find_tool(name: str, root: Path) -> Optional[Path]:
    """Return the path of a program below `root` (``PATH`` counts on this machine itself), None when there is none."""
    for folder in _FOLDERS:
        path = root / folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    found = shutil.which(name) if root == Path("/") else None
    return Path(found) if found else None


class ToolSensor:
    """The channels of one tool; the tool itself is shared by all who read it.

    They are known when it has printed once, and more may come: `outdated` is true then until `refresh` is called. What
    it printed and nobody understood is the reason of an absent channel, so that it can be seen.
    """

    interval_ns = 10_000_000

    def __init__(self, tool: Tool, path: Path) -> None:
        self.channels: Tuple[Channel, ...] = ()
        self.absent: List[Channel] = []
        self.feed = feeds.open_feed(tool, path)
        self._tool = tool
        self._path = path
        self._source = " ".join(tool.argvs[0])
        self._stale_ns = int(max(feeds.HANG_S, 3 * tool.every_s) * 1e9)
        self._shown: Tuple[object, ...] = ()
        self._open = True
        self.refresh()

    @property
    def outdated(self) -> bool:
        """True if the tool has printed channels since that `channels` and `absent` lack."""
        return self._shown != self._seen()

    def _seen(self) -> Tuple[object, ...]:
        feed = self.feed
        return len(feed.columns), feed.failure, feed.unknown, len(feed.missing), len(feed.left_out)

    def refresh(self) -> None:
        """Bring `channels` and `absent` up to date: the columns only ever grow."""
        feed, name = self.feed, self._tool.name
        self._shown = self._seen()
        keys, failure, unknown = list(feed.columns), feed.failure, feed.unknown
        made = [self._channel(key, unit) for key, unit in zip(keys, feed.units)]
        self.channels = (*self.channels, *made[len(self.channels) :])
        self.absent = [Channel(name, "1", self._source, absent=failure)] if failure else []
        for key, (_, unit, raw) in feed.missing.items():
            if key not in feed.columns:
                channel = self._channel(key, unit)
                channel.absent = f"{self._tool.argvs[0][0]} says that this board has none: {raw}"
                self.absent.append(channel)
        if feed.left_out:
            self.absent.append(Channel(f"{name}.left_out", "1", self._source, absent=left_out_words(feed.left_out)))
        if unknown:
            reason = f"printed, but not understood: {'; '.join(unknown)}"
            self.absent.append(Channel(f"{name}.other", "1", self._source, absent=reason))

    def _channel(self, key: str, unit: str) -> Channel:
        subject, _, quantity = key.rpartition(".")
        return Channel(f"{self._tool.name}.{subject}.{quantity}", unit, self._source, subject.replace("_", " "))

    def close(self) -> None:
        """Give the tool back; it ends with its last user."""
        if self._open:
            self._open = False
            feeds.release(self._path, self.feed)

    def read(self, t_ns: int) -> Sequence[float]:
        """Return the values of the newest sample; NaN when that is old."""
        n, values = len(self.channels), self.feed.values
        fresh = len(values) >= n and t_ns - self.feed.seen_ns <= self._stale_ns
        return values[:n] if fresh else [math.nan] * n
