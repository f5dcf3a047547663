"""A sample of the rows of a large table: each sort of rows keeps a number of them, evenly spaced over the table.

More rows of one sort add no information to fits (`core.tables.hierarchical_priors.MOST_ROWS`) and little to scores, so
a table of a million rows is scored on a sample. The sample of a table that is within the limit is the table.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class RowSample(Generic[T]):
    """Rows of a table that is read once, in bounded memory.

    Parameters
    ----------
    most : int or None
        Largest number of rows; None for all of them.

    Attributes
    ----------
    n_seen : int
        Rows that were added.

    Examples
    --------
    >>> sample = RowSample[int](8)
    >>> for i in range(100):
    ...     sample.add(i, "even" if i % 2 == 0 else "odd")
    >>> sample.rows()
    [0, 1, 32, 33, 64, 65, 96, 97]
    """

    def __init__(self, most: int | None) -> None:
        self.n_seen = 0
        self._most = most
        self._share = most or 0  # rows of a sort
        self._sorts = dict[Hashable, _Sort[T]]()
        self._n_kept = 0

    def add(self, row: T, sort: Hashable) -> None:
        """Add the next row, which is of a sort."""
        self.n_seen += 1
        of_sort = self._sorts.get(sort)
        if of_sort is None:
            if self._most is not None and len(self._sorts) >= self._most:
                return  # more sorts than rows that may be kept
            of_sort = self._sorts[sort] = _Sort()
        if of_sort.n_seen % of_sort.stride == 0:
            of_sort.rows.append((self.n_seen, row))
            self._n_kept += 1
            if self._most is not None:
                self._thin(of_sort)
        of_sort.n_seen += 1

    def rows(self) -> list[T]:
        """Return the rows that were kept, in the order of the table."""
        kept = [numbered for of_sort in self._sorts.values() for numbered in of_sort.rows]
        return [row for _, row in sorted(kept, key=lambda numbered: numbered[0])]

    def _thin(self, of_sort: _Sort[T]) -> None:
        self._n_kept -= of_sort.thin(self._share)
        while self._n_kept > (self._most or 0) and self._share > 1:
            self._share //= 2
            self._n_kept -= sum(one.thin(self._share) for one in self._sorts.values())


class _Sort(Generic[T]):
    """Every `stride`-th row of a sort, with its number in the table."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, T]] = []
        self.n_seen, self.stride = 0, 1

    def thin(self, most: int) -> int:
        """Keep at most that many rows, by halves; return how many were dropped."""
        n_before = len(self.rows)
        while len(self.rows) > most:
            self.rows = self.rows[::2]
            self.stride *= 2
        return n_before - len(self.rows)
