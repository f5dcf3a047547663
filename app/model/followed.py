"""The loop of the store's board: its warning, and the prediction with and without the newest measurements."""

from __future__ import annotations

from dataclasses import replace

from app.model.store import Store
from core.predict.scenario import predict
from core.spec import Output


def warning(store: Store) -> str:
    """Return the alarm of the loop, or that the board was calibrated while busy, in one sentence; "" otherwise.

    Nothing is said of a point of another board.
    """
    calibration, loop = store.calibration, store.loop
    if calibration is None or store.not_measured_here:
        return ""
    return (loop.alarm if loop is not None else "") or calibration.busy


def brief_warning(store: Store) -> str:
    """Return the head of the warning: the view has the rest."""
    said = warning(store)
    return f"{said.partition(': ')[0]}." if said and store.loop is not None and said == store.loop.alarm else said


def before_and_after(store: Store) -> tuple[Output, Output]:
    """Return the decode time of the point as calibrated, and corrected by the newest measurements."""
    posterior = store.posterior
    if posterior is not None:
        posterior = replace(posterior, correction=None)
    return predict(store.point, store.catalogue, posterior).decode_s, store.prediction.decode_s
