"""Sustained speed of the store's point while it has a limit: simulated in the background, for the verdicts."""

from __future__ import annotations

from dataclasses import fields
from functools import partial

from PySide6.QtCore import QObject, QTimer

from app.library.endurance import Around, sustained_speed
from app.model.background import Background
from app.model.store import Store
from core.spec import Absent, Output

_PACE_MS = 150  # the simulation follows a drag at this pace
_LIMIT = "limits.sustained"


def around(store: Store) -> Around:
    """Return the surroundings of the board that the energy view has."""
    return Around(**{field.name: store.get(f"energy.{field.name}") for field in fields(Around)})


class SustainedSpeed(QObject):
    """Keeps ``store.sustained`` and emits ``sustained`` when it changes."""

    def __init__(self, store: Store, parent: QObject) -> None:
        super().__init__(parent)
        self._store = store
        self._work = Background(self)
        self._later = QTimer(self, singleShot=True, interval=_PACE_MS)
        self._later.timeout.connect(self._ask)
        store.changed.connect(self._on_changed)
        self._on_changed(_LIMIT)

    def _on_changed(self, path: str) -> None:
        if path not in (_LIMIT, "prediction") and not path.startswith("energy."):
            return
        if self._store.get(_LIMIT) is not None and not self._later.isActive():
            self._later.start()

    def _ask(self) -> None:
        store = self._store
        if store.get(_LIMIT) is not None:
            work = partial(sustained_speed, store.point, store.catalogue, store.posterior, around(store))
            self._work.run(work, self._show)

    def _show(self, found: Output | ValueError) -> None:
        self._store.sustained = Absent(str(found)) if isinstance(found, ValueError) else found
        self._store.changed.emit("sustained")
