"""A table of published measurements named on the command line."""

from __future__ import annotations

from app.cli.shared.output import UserError
from core.spec import Catalogue
from core.tables.as_points import Comparison, compare
from core.tables.rows import PublishedTable, read_table

MOST_ROWS = 5_000
"""Rows of a table that are compared; of more, a sample."""


def compared_table(path: str, catalogue: Catalogue) -> tuple[PublishedTable, Comparison]:
    """Read a table and compare its rows with the catalogue.

    Raises
    ------
    UserError
        One sentence: the file cannot be read, is no such table, or has no comparable row.
    """
    if not path.isprintable() or not path:
        raise UserError(f"table: got {path!r}, expected the name of a file")
    try:
        table = read_table(path, MOST_ROWS)
    except OSError as error:
        raise UserError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise UserError(str(error)) from error
    compared = compare(table.rows, catalogue)
    if not compared.rows:
        first = str(table.problems[0]) if table.problems else next((why for _, why in compared.left_out), "no rows")
        raise UserError(f"{path}: got no row that can be compared ({first}), expected at least one")
    return table, compared
