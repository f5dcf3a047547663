import pytest

from kernels import stream


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
