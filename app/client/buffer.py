"""Record after the fact: write what the rings still hold as a recording."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.client.recorder import Recorder, RecordingError
from app.protocol import MAX_BODY_BYTE, SAMPLES, Frame

if TYPE_CHECKING:
    from app.client.session import Session


def save_buffer(path: Path, session: Session, seconds: float, measured: Iterable[Mapping[str, Any]] = ()) -> int:
    """Write the last seconds of a session's rings to a new file, and measurements made in them.

    Parameters
    ----------
    path
        A new file.
    session
        Its rings are in our clock, so that is what the samples carry here.
    seconds
        How far back, at most as far as the rings hold.
    measured
        Messages behind those of the beginning: ``measured``, ``markers``.

    Returns
    -------
    int
        How many records were written.

    Raises
    ------
    RecordingError
        If there is nothing to save, or the file cannot be written; then nothing is left of it.
    """
    now_s, now_utc = time.monotonic(), datetime.now(UTC)
    t_s, y = session.rings.records(now_s - seconds, now_s)
    if not len(t_s) or "catalogue" not in session.beginning:
        raise RecordingError(f"{path}: nothing to save: no sample arrived in the last {seconds:g} s")
    began_s = float(t_s[0])
    recorder = Recorder(path, (round(began_s * 1e9), now_utc - timedelta(seconds=now_s - began_s)))
    for message in _beginning(session, t_s[0]):
        recorder.note(message)
    for message in measured:
        recorder.note(message)
    n_records = _samples(recorder, t_s, y)
    recorder.close()
    if recorder.failure:
        with contextlib.suppress(OSError):
            path.unlink()
        raise RecordingError(recorder.failure)
    return n_records


def _beginning(session: Session, began_s: float) -> Iterable[Mapping[str, Any]]:
    said = session.beginning
    clock = {"op": "clock", "t_ns": round(began_s * 1e9), "offset_s": 0.0, "drift": 0.0}
    if "bound_s" in said["clock"]:
        clock["bound_s"] = said["clock"]["bound_s"]
    return said["hello"], clock, said["catalogue"]


def _samples(recorder: Recorder, t_s: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> int:
    """Write the records; where the rings have a mark of a gap, records are missing here too."""
    layout = np.dtype([("t_ns", "<i8"), ("y", "<f4", (y.shape[1],))])
    marks = np.flatnonzero(np.isnan(y).all(axis=1) & (np.diff(t_s, prepend=-np.inf) < 1e-9))
    n_most = MAX_BODY_BYTE[SAMPLES] // layout.itemsize // 8
    n_written = 0
    for begin, end in zip([0, *(marks + 1)], [*marks, len(t_s)], strict=True):
        if n_written and begin < end:
            gap = {"op": "gap", "t_ns": round(t_s[begin] * 1e9), "reason": "records are missing"}
            recorder.note(gap)
        for first in range(begin, end, n_most):
            last = min(first + n_most, end)
            records = np.empty(last - first, layout)
            records["t_ns"], records["y"] = np.round(t_s[first:last] * 1e9), y[first:last]
            recorder.take(Frame(SAMPLES, n_written, records.tobytes()))
            n_written += last - first
    return n_written
