"""The sensors of a tree, as the agent finds and reads them."""

import errno
import os
import time

from app.agent.power import total_power
from app.agent.sensors import arrange, discover
from app.agent.sensors.tools import ToolSensor
from tests.app.agent.board_trees import Denied
from tests.waiting import PATIENCE_S


def deny(contents, root, patch):
    """Refuse to open what is marked so: the tests may run as root, who may read everything."""
    denied = {str(root / name) for name, content in contents.items() if isinstance(content, Denied)}
    real_open = os.open

    def refuse(path, *args, **more):
        if str(path) in denied:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_open(path, *args, **more)

    patch.setattr(os, "open", refuse)
    patch.setattr(os, "geteuid", lambda: 1000)


class Sensed:
    """A board's sensors after its tools have answered; ends the tools."""

    def __init__(self, root):
        self.root = root
        self.sensors, self.absent = discover(root)
        self.tools = [sensor for sensor in self.sensors if isinstance(sensor, ToolSensor)]
        for tool in self.tools:
            assert tool.feed.answered.wait(PATIENCE_S)
            tool.refresh()
        arrange(root, self.sensors, self.absent)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for tool in self.tools:
            tool.close()

    @property
    def channels(self):
        return [channel for sensor in self.sensors for channel in sensor.channels]

    def read(self, t_ns=None):
        """Return all values, at a time or now."""
        return [v for sensor in self.sensors for v in sensor.read(time.monotonic_ns() if t_ns is None else t_ns)]

    def catalogue(self):
        """Return the whole catalogue as text, without the path of the tree."""
        lines = [
            f"{c.key} | {c.unit} | {value:.6g} | {c.total or (c.part_of and 'part of ' + c.part_of)} | "
            f"{'' if c.error is None else f'{c.error:.3g}'} | {c.note}".rstrip(" |")
            for c, value in zip(self.channels, self.read(), strict=True)
        ]
        missing = [*self.absent, *(channel for tool in self.tools for channel in tool.absent)]
        lines += [f"{channel.key} | {channel.unit} | absent: {channel.absent}" for channel in missing]
        columns, words = total_power([*self.channels, *self.absent])
        total = " + ".join(self.channels[i].key for i in columns) if columns else "none"
        return "\n".join([*lines, f"total: {total} | {words}", ""]).replace(str(self.root), "")
