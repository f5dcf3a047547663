"""The newest samples of every channel, in memory of fixed size."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

HOUR_AT_10_HZ = 36_000


class Rings:
    """Ring buffers of all channels over one time axis. One thread appends, any reads.

    Each record is written twice, one capacity apart, so that the newest `capacity` records always lie in one piece.

    Parameters
    ----------
    n_channels
        Columns of a record.
    capacity
        Records kept; older ones are overwritten.
    """

    def __init__(self, n_channels: int = 0, capacity: int = HOUR_AT_10_HZ) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._keys: tuple[str, ...] = ()
        self._allocate(n_channels)

    def _allocate(self, n_channels: int) -> None:
        self._t = np.empty(2 * self._capacity)
        self._y = np.empty((n_channels, 2 * self._capacity), np.float32)
        self._n = 0  # records ever appended

    @property
    def n_channels(self) -> int:
        """Number of channels with a ring."""
        return len(self._y)

    def reset(self, n_channels: int, keys: tuple[str, ...] = ()) -> None:
        """Forget everything and start with other channels, known by their keys where these are given."""
        with self._lock:
            self._keys = keys
            self._allocate(n_channels)

    def clear(self) -> None:
        """Forget the records."""
        with self._lock:
            self._n = 0

    def append(self, t_s: NDArray[np.float64], y: NDArray[np.float32]) -> None:
        """Append records.

        Parameters
        ----------
        t_s : ndarray (n,)
            Times in seconds. One that lies before its predecessor, as a correction of the clock can make it, takes the
            predecessor's.
        y : ndarray (n, n_channels)
            Values.
        """
        t_s, y = t_s[-self._capacity :], y[-self._capacity :]
        with self._lock:
            newest_s = self._t[(self._n - 1) % self._capacity] if self._n else -np.inf
            t_s = np.maximum.accumulate(np.maximum(t_s, newest_s))
            at = (self._n + np.arange(len(t_s))) % self._capacity
            for rows in (at, at + self._capacity):
                self._t[rows] = t_s
                self._y[:, rows] = y.T
            self._n += len(t_s)

    def mark_gap(self) -> None:
        """Append a record of NaN right after the newest one, so that no line is drawn across what is missing."""
        if self._n:
            t_s = np.nextafter(self._t[(self._n - 1) % self._capacity], np.inf)
            self.append(np.array([t_s]), np.full((1, self.n_channels), np.nan, np.float32))

    def end_at(self, t_s: float) -> None:
        """Let no record lie later than a time: those that do, by a clock that has jumped, take it."""
        with self._lock:
            n = min(self._n, self._capacity)
            for times in (self._t[:n], self._t[self._capacity : self._capacity + n]):
                np.minimum(times, t_s, out=times)

    def records(self, t0_s: float, t1_s: float) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        """Return all channels of the samples with t0_s <= t <= t1_s: times (n,), values (n, n_channels)."""
        with self._lock:
            part = self._between(t0_s, t1_s)
            return self._t[part].copy(), self._y[:, part].T.copy()

    def window(
        self, channel_index: int, t0_s: float, t1_s: float, key: str = ""
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the samples of a channel with t0_s <= t <= t1_s.

        `key` is the channel's, where another thread may have started with other channels.

        Returns
        -------
        t_s : ndarray (n,)
            Seconds of this machine's monotonic clock, rising.
        y : ndarray (n,)
            SI; NaN where the sensor could not be read and once in each gap of the link.

        Raises
        ------
        IndexError
            If there is no such channel, or another one by now.
        """
        with self._lock:
            if not 0 <= channel_index < len(self._y):
                raise IndexError(f"channel_index: got {channel_index}, expected 0 to {len(self._y) - 1}")
            if key and self._keys and self._keys[channel_index] != key:
                raise IndexError(
                    f"channel_index: {channel_index} is {self._keys[channel_index]} by now, expected {key}"
                )
            part = self._between(t0_s, t1_s)
            return self._t[part].copy(), self._y[channel_index, part].astype(np.float64)

    def _between(self, t0_s: float, t1_s: float) -> slice:
        count = min(self._n, self._capacity)
        first = (self._n - count) % self._capacity
        t_s = self._t[first : first + count]
        low, high = np.searchsorted(t_s, t0_s, "left"), np.searchsorted(t_s, t1_s, "right")
        return slice(first + int(low), first + int(high))
