"""The calibration fitted in a thread, again when something was measured meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.model.followed import warning
from app.model.store import Store

if TYPE_CHECKING:
    from app.library.calibration import Fit


@dataclass(frozen=True)
class Calibrated:
    """Result of the thread: a fit, none where nothing was measured, or the reason of a failure."""

    fit: Fit | None
    reason: str = ""


class Fitting:
    """Fits the store's measurements of its point's board, runtime and power mode.

    Parameters
    ----------
    store : Store
    hand_back : callable
        Takes a `Calibrated` in the thread; `take` is given it later, in the thread of the store.
    """

    def __init__(self, store: Store, hand_back: Callable[[Calibrated], object]) -> None:
        self._store, self._hand_back = store, hand_back
        self._thread: threading.Thread | None = None
        self.running = self.again = False

    def start(self) -> None:
        """Begin; a call while it runs makes it run once more."""
        if self.running:
            self.again = True
            return
        self.running, self.again = True, False
        store = self._store
        measurements, catalogue, at = [*store.elsewhere, *store.measurements], store.catalogue, store.point

        def work() -> None:
            from app.library.calibration import fit

            done = Calibrated(None, "Calibration failed; the traceback is on stderr.")
            try:
                done = Calibrated(fit(measurements, catalogue, at))
            except ValueError as error:
                done = Calibrated(None, f"Calibration failed: {error}.")
            finally:
                self._hand_back(done)

        self._thread = threading.Thread(target=work, name="calibrate", daemon=True)
        self._thread.start()

    def take(self, done: Calibrated) -> None:
        """Put what was found into the store, unless it is of an older set."""
        self.running = False
        if self.again:
            self.start()
        elif done.reason:
            self._store.say("warning", done.reason)
        elif done.fit is None:
            self._store.set_calibration(None)
        else:
            before = warning(self._store)
            self._store.set_calibration(done.fit.calibration, done.fit.proposal, done.fit.loop)
            if (now := warning(self._store)) and not before:  # once, when it begins
                self._store.say("warning", now)

    def join(self) -> None:
        """Wait for the thread."""
        if self._thread is not None:
            self._thread.join()
