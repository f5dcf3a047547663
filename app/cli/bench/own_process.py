"""Benches of the kernels in a process of their own: torch, its threads and its allocator as the worker has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import app
from app.agent import board
from app.agent.runs import worker_environment
from app.cli.shared.output import UserError

_CHILD = "TRILEMMA_BENCH_CHILD"


def in_own_process(words: Sequence[str], measure: Callable[[], Any]) -> Any:
    """Return what `measure` does, called in a process with the environment of a measuring one.

    Parameters
    ----------
    words : sequence of str
        The command that led here; the child is started with it, comes here again, and measures.
    measure : callable
        Imports the kernels and returns a JSON document; a ValueError of it is the user's to mend.

    Raises
    ------
    UserError
        When packages are missing or `measure` raised ValueError.
    SystemExit
        When the child failed, with its status; what went wrong it has said itself.
    """
    if os.environ.get(_CHILD) == "1":
        try:
            return measure()
        except ValueError as error:
            raise UserError(str(error)) from error
    if reason := board.why_no_measuring():
        raise UserError(reason)
    environment = {**worker_environment(board.n_big_cores(Path("/"))), _CHILD: "1"}
    argv = [sys.executable, str(app.LAUNCHER), *words, "--json"]
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)
    return json.loads(done.stdout)
