"""One damaged document of a data folder stops no command that does not need it, and ends none in a traceback."""

import os

import pytest

from app.library import board_library
from app.library.machine import hello_here, this_machine
from tests.app.library import damaged_documents

N_EXAMPLES = 60 if os.environ.get("TRILEMMA_EXAMPLES") == "new" else 8
N_SEEDS = 1_000_000


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(board_library, "hello_here", hello_here)
        patch.setattr(board_library, "this_machine", this_machine)
        patch.setenv("TRILEMMA_DATA_DIR", str(folder))
        damaged_documents.prepared(folder)
        yield folder


@pytest.mark.parametrize("number", range(N_EXAMPLES))
def test_the_rest_of_a_folder_works(whole, number, tmp_path, monkeypatch):
    new = int.from_bytes(os.urandom(4), "big") % N_SEEDS if N_EXAMPLES > 8 else 0
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "one"))
    damaged, wrong = damaged_documents.try_one(whole, new + number, tmp_path / "one")
    assert wrong == [], damaged
