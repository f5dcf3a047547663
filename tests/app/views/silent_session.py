"""A session that sends nothing, and a board attached to a store."""

import time
from itertools import count

import numpy as np

from app.client.events import Channel


class SilentSession:
    """A session that takes requests and never answers; its rings hold a rising power."""

    def __init__(self, on_event):
        self.asked, self._ids, self.rings = [], count(1), self

    silent_s = 0.0

    def start(self): ...

    def stop(self): ...

    def now_s(self):
        return time.monotonic()

    def reconnect_now(self):
        self.asked.append("reconnect")

    def bandwidth(self):
        return self._take("bandwidth")

    def measure(self, point, what, *, queue=False):
        return self._take("measure")

    def cancel(self, request_id):
        self.asked.append(("cancel", request_id))

    def _take(self, what):
        self.asked.append(what)
        return next(self._ids)

    def window(self, index, t0_s, t1_s, key=""):
        t = np.linspace(t0_s, t1_s, 50)
        return t, np.linspace(4.0, 6.0, 50)


def attach(store):
    channels = (
        Channel("package.power_w", "W", "/sys/class/powercap", 0.1),
        Channel("package.temp_c", "degC", "hwmon", None, absent="no such sensor"),
    )
    hello = {"board": {"name": "test board", "cpu": "test cpu", "n_threads": 2}, "can": {}, "models": []}
    store.set_link(state="attached", text="Attached.", hello=hello, channels=channels)
    store.set_machine("this test", [], "")
