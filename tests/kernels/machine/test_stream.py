from types import SimpleNamespace

import pytest
import torch

from kernels.bench import harness
from kernels.machine import stream


def test_buffers_exceed_the_cache_where_memory_allows():
    byte = stream.buffer_byte()
    assert byte % 64 == 0
    cache = stream.last_level_cache_byte()
    assert cache is None or byte > cache


def test_rates_are_bytes_over_seconds(monkeypatch):
    monkeypatch.setattr(stream, "buffer_byte", lambda: 1 << 20)
    seen = []
    result = stream.measure(lambda done, text: seen.append((done, text)))
    for name in ("copy_byte_s", "triad_byte_s", "read_byte_s"):
        rate = result[name]
        assert 1e8 < rate["q05"] <= rate["median"] <= rate["q95"] < 1e13
        assert rate["provenance"] == "measured"
    assert 0 <= result["quiet_share"] <= 1
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_a_rate_turns_the_quantiles_around():
    rate = stream._as_rate({"median": 2.0, "q05": 1.0, "q95": 4.0, "n": 3, "provenance": "measured"}, 8)
    assert (rate["q05"], rate["median"], rate["q95"]) == (2, 4, 8)


def test_stops_when_the_callback_raises(monkeypatch):
    monkeypatch.setattr(stream, "buffer_byte", lambda: 1 << 16)
    with pytest.raises(KeyboardInterrupt):
        stream.measure(lambda done, text: (_ for _ in ()).throw(KeyboardInterrupt))


class Event:
    """Of a device whose calls return at once: it notes the stream that it was recorded on."""

    def __init__(self, enable_timing):
        assert enable_timing
        self.noted = []

    def record(self, on):
        self.noted.append(on)

    def synchronize(self):
        assert self.noted == ["stream of cuda:1"]

    def elapsed_time(self, end):
        assert self.noted == end.noted == ["stream of cuda:1"]
        return 12.0


def test_calls_on_a_device_are_timed_by_events_on_its_own_stream(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: f"stream of {device}")
    calls = []
    assert stream.clock_of("cuda:1")(lambda: calls.append(1), 3) == 0.012
    assert len(calls) == 3
    assert stream.clock_of("cpu") is stream.cpu_clock


def test_a_device_has_a_cache_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=96 << 20))
    monkeypatch.setattr(stream, "_available_byte", lambda: 1 << 40)
    assert stream.buffer_byte(device="cuda") == 512 << 20  # at the most; 8 times the cache would be more
    assert harness.n_copies(32 << 20, "cuda") == 9
