"""A simulated board, run step by step in this process."""

import numpy as np

from app.simulator.board import SimulatedBoard
from app.simulator.runs import measure

KEY = "raspberry_pi_5"


POINT = {"context_tokens": 512.0, "weights": "int4"}


def finish(board, run):
    """Carry a run out and return its result."""
    try:
        while True:
            board.step(next(run).load_frac)
    except StopIteration as end:
        return end.value


def measured(seed, point=POINT, key=KEY, what=("ttft", "decode", "quality")):
    board = SimulatedBoard(key, seed=seed)
    return finish(board, measure(board, {"point": point, "what": list(what)}, np.random.default_rng(seed)))
