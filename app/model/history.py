"""The sensors' past, for the board panel: a series by channel key, read from the session's rings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.client.events import Channel

if TYPE_CHECKING:
    from app.client.session import Session


class History:
    """Reads the rings of one session. Times are seconds of the samples' clock: this machine's monotonic one, or that of
    the machine which recorded them.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def now_s(self) -> float:
        """Return the time at the newest samples: now, or where the player of a recording stands."""
        return self._session.now_s()

    def series(
        self, channels: tuple[Channel, ...], key: str, span_s: float, until_s: float | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the last `span_s` seconds of a channel before `until_s` (default: now); empty where it is absent.

        Returns
        -------
        t_s : ndarray (n,)
            Seconds before `until_s`, negative.
        y : ndarray (n,)
            In the channel's unit; NaN where the sensor could not be read.
        """
        end_s = self.now_s() if until_s is None else until_s
        present = [channel.key for channel in channels if not channel.absent]
        if key not in present:
            return np.empty(0), np.empty(0)
        try:
            t_s, y = self._session.rings.window(present.index(key), end_s - span_s, end_s, key)
        except IndexError:  # the board has other channels by now: their event is on its way
            return np.empty(0), np.empty(0)
        return t_s - end_s, y

    def latest(self, channels: tuple[Channel, ...], key: str) -> float | None:
        """Return the newest value of a channel, or None where there is none in the last 10 seconds."""
        _, y = self.series(channels, key, 10.0)
        finite = y[np.isfinite(y)]
        return float(finite[-1]) if finite.size else None
