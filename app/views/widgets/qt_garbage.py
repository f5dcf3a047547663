"""Garbage is looked for in Qt's thread only: another one that finds Qt's objects in it would destroy them there.

That can hang: a destructor holds a lock of Qt and waits for Python's,
which Qt's thread holds while it waits for that lock.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

LOOK_MS = 500


def collect_in_this_thread(parent: QObject) -> None:
    """Switch Python's own looking for garbage off, and do it here as often as it would, while `parent` lives."""
    gc.disable()
    timer = QTimer(parent)
    timer.timeout.connect(collect_when_due)
    timer.start(LOOK_MS)


def collect_when_due() -> None:
    """Collect the oldest generation that Python would collect now."""
    counts, thresholds = gc.get_count(), gc.get_threshold()
    due = [i for i, least in enumerate(thresholds) if least and counts[i] > least]
    if 0 in due:
        gc.collect(due[-1])
