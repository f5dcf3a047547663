"""Undoable user commands. A command calls the store and nothing else."""

from __future__ import annotations

from typing import Any

from PySide6.QtGui import QUndoCommand, QUndoStack

from app.library.axes import with_mode_of
from app.model.store import Store
from core.spec import BY_PATH, OperatingPoint

UNDO_LIMIT = 200


def _restored(store: Store, value: Any) -> Any:
    """Return a value of before as it can be now: another board may be attached, which has other power modes."""
    return with_mode_of(value, store.catalogue.boards[value.board]) if isinstance(value, OperatingPoint) else value


class SetValue(QUndoCommand):
    """Set one path of the store. The steps of one drag of one slider merge into one command.

    Parameters
    ----------
    store : Store
    path : str
        As `Store.set`.
    value : Any
        Checked here: the command is not made at all for a value the store would refuse.
    drag : int or None
        A number that is the same for all steps of one drag and differs between drags. None never merges.

    Raises
    ------
    ValueError
        One sentence; nothing was changed.
    """

    def __init__(self, store: Store, path: str, value: Any, drag: int | None = None) -> None:
        super().__init__(f"Set {path.removeprefix('point.').replace('_', ' ')}")
        self._store, self.path, self.drag = store, path, drag
        self._value = store.checked(path, value)
        # a board or a model can take other fields with it, so the whole point comes back on undo
        self._whole = "point" if path in BY_PATH else path
        self._before, self._axis = store.get(self._whole), store.axis

    def id(self) -> int:
        """Return the kind of command: only commands of one kind are asked to merge."""
        return 1 if self.drag is not None else -1

    def mergeWith(self, other: QUndoCommand) -> bool:
        """Take over the value of a later step of the same drag."""
        if not isinstance(other, SetValue) or (other.path, other.drag) != (self.path, self.drag):
            return False
        self._value = other._value
        return True

    def redo(self) -> None:
        """Set the value."""
        self._store.set(self.path, self._value)

    def undo(self) -> None:
        """Put back what was there, the axis included."""
        self._store.set(self._whole, _restored(self._store, self._before))
        self._store.set("axis", self._axis)


class SetPoint(QUndoCommand):
    """Replace the whole operating point, with limits and axis where given: a preset opened, a dot clicked."""

    def __init__(self, store: Store, text: str, point: OperatingPoint, others: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self._store = store
        after = {"point": point, **(others or {})}
        self._after = {path: store.checked(path, value) for path, value in after.items()}
        self._before = {path: store.get(path) for path in self._after}

    def redo(self) -> None:
        """Set everything."""
        for path, value in self._after.items():
            self._store.set(path, _restored(self._store, value))

    def undo(self) -> None:
        """Put everything back."""
        for path, value in self._before.items():
            self._store.set(path, _restored(self._store, value))


def undo_stack() -> QUndoStack:
    """Return an empty stack that keeps the last 200 commands. ``stack.push(SetValue(...))`` runs a command."""
    stack = QUndoStack()
    stack.setUndoLimit(UNDO_LIMIT)
    return stack
