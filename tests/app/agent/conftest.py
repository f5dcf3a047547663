"""A board by name or by its tree."""

import pytest

from tests.app.agent.board_trees import BOARDS, build
from tests.app.agent.sensed import Sensed, deny


@pytest.fixture
def board(tmp_path, monkeypatch):
    opened = []

    def make(name):
        contents = BOARDS[name] if isinstance(name, str) else name
        build(tmp_path, contents)
        deny(contents, tmp_path, monkeypatch)
        opened.append(Sensed(tmp_path))
        return opened[-1]

    make.root = tmp_path
    yield make
    for sensed in opened:
        sensed.__exit__()
