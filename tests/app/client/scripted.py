"""A link whose agent says what a test has written down."""

import queue
import time

from app.protocol import (
    SAMPLES,
    Decoder,
    decode_control,
    encode_control,
    encode_frame,
    record_struct,
)
from tests.waiting import PATIENCE_S


class ScriptedTransport:
    """A link whose far end the test plays: bytes put are read, messages written are kept."""

    def __init__(self, *script):
        self._incoming = queue.Queue()
        self.sent = queue.Queue()
        self._decoder = Decoder()
        for data in script:
            self.put(data)

    def put(self, data):
        self._incoming.put(encode_control(data, 0) if isinstance(data, dict) else data)

    def read(self):
        data = self._incoming.get()
        if data == b"":
            self._incoming.put(b"")
        return data

    def write(self, data):
        for frame in self._decoder.feed(data):
            self.sent.put(decode_control(frame.body))

    def asked(self):
        """Return the next message that is no ping."""
        while (message := self.sent.get(timeout=PATIENCE_S))["op"] == "ping":
            pass
        return message

    def close(self):
        self._incoming.put(b"")


def hello(**more):
    return {
        "op": "hello",
        "protocol": 1,
        "agent": "9.9",
        "t_ns": time.monotonic_ns(),
        "board": {},
        "can": {"measure": True},
        "models": [],
        **more,
    }


def channel(key, absent=""):
    return {"key": key, "unit": "W", "source": "x", "native_period_s": None, "absent": absent}


def value(median, **more):
    return {"median": median, "q05": median, "q95": median, "n": 1, "provenance": "measured", **more}


BANDWIDTH = {"read_byte_s": value(1e10)}
CATALOGUE = {"op": "catalogue", "channels": [channel("a"), channel("b"), channel("c", "not here")], "rate_hz": 10}
RECORD = record_struct(2)


def samples(first, count, t0_s=0.0):
    body = b"".join(RECORD.pack(int((t0_s + i) * 1e9), i, -i) for i in range(first, first + count))
    return encode_frame(SAMPLES, first, body)
