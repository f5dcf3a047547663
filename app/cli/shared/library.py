"""The board library of the user's data folder, for commands."""

from __future__ import annotations

import sys

from app.library.board_library import BoardLibrary
from app.library.files import data_dir


def open_library() -> BoardLibrary:
    """Return the library; unreadable parts are reported on standard error."""
    return BoardLibrary(data_dir(), lambda sentence: print(f"trilemma: {sentence}", file=sys.stderr))
