"""The sensors' past, by channel key."""

import time
from types import SimpleNamespace

import numpy as np

from app.client.events import Channel
from app.client.rings import Rings
from app.model.history import History

CHANNELS = (
    Channel("cpu0.clock_hz", "Hz", "cpufreq", None, "no cpufreq on this machine"),
    Channel("cpu.busy_frac", "frac", "/proc/stat", 0.1),
    Channel("package.temp_c", "degC", "thermal_zone0", 1.0),
)


def history(t_s, columns):
    rings = Rings(len(columns), capacity=1000)
    rings.append(np.asarray(t_s), np.asarray(columns, np.float32).T)
    return History(SimpleNamespace(rings=rings, now_s=time.monotonic))


def test_a_series_is_the_channel_s_own_column_and_ends_now():
    now = 1000.0
    past = history([now - 20, now - 2, now - 1], [[0.1, 0.2, 0.3], [40, 41, 42]])
    t_s, y = past.series(CHANNELS, "package.temp_c", 10.0, now)
    np.testing.assert_allclose(t_s, [-2, -1])
    np.testing.assert_allclose(y, [41, 42])
    np.testing.assert_allclose(past.series(CHANNELS, "cpu.busy_frac", 30.0, now)[1], [0.1, 0.2, 0.3])


def test_an_absent_or_unknown_channel_has_no_series():
    past = history([1.0], [[0.1], [40]])
    for key in ("cpu0.clock_hz", "gpu.power_w"):
        t_s, y = past.series(CHANNELS, key, 10.0, 2.0)
        assert t_s.size == y.size == 0


def test_latest_passes_over_what_could_not_be_read_and_over_what_is_old():
    now = time.monotonic()
    past = history([now - 60, now - 2, now - 1], [[0.1, 0.2, np.nan], [40, np.nan, np.nan]])
    assert np.isclose(past.latest(CHANNELS, "cpu.busy_frac"), 0.2)
    assert past.latest(CHANNELS, "package.temp_c") is None


def test_channels_that_the_board_has_changed_by_now_are_empty_until_it_is_known():
    past = history([0.0], [[1.0], [2.0]])
    past._session.rings.reset(2, ("package.temp_c", "new"))
    past._session.rings.append(np.array([1.0]), np.array([[50.0, 3.0]], np.float32))
    assert past.series(CHANNELS, "cpu.busy_frac", 10.0, 2.0)[1].size == 0
    past._session.rings.reset(0)
    assert past.latest(CHANNELS, "package.temp_c") is None
