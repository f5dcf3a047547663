"""A conducted board, before and after its calibration."""

import pytest

from app.model import conductor as module
from tests.app.model.conducted import Board


@pytest.fixture
def path(tmp_path):
    return tmp_path / "measurements.jsonl"


@pytest.fixture
def board(qapp, path, monkeypatch):
    """A store, its conductor and the scripted session, drained by hand."""
    monkeypatch.setattr(module, "REST_MS", 0)
    return Board(path)


@pytest.fixture
def calibrated(board):
    board.attach()
    board.answer_all()
    return board
