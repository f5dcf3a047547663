"""Benches of the kernels in their own process, with the environment, threads and allocator of the worker."""

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
    """Return the result of `measure`, run in a process with the environment of the worker.

    Parameters
    ----------
    words : sequence of str
        Command line of the caller; the child process is started with it, calls this function again, and measures.
    measure : callable
        Imports the kernels and returns a JSON document; raises ValueError for a user's mistake.

    Raises
    ------
    UserError
        Packages are missing, or `measure` raised ValueError.
    SystemExit
        The child failed and has printed its error; its exit status.
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
