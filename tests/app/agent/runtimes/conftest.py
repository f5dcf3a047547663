"""A server in a thread."""

import pytest

from app.agent.runtimes import streams
from tests.app.agent.runtimes.stand import Stand


@pytest.fixture(autouse=True)
def patient(request, monkeypatch):
    """A busy test machine stalls a stand-in too: what that does to a measurement has a test of its own."""
    if "stand" in request.fixturenames:
        monkeypatch.setattr(streams, "MAX_STALL_S", 60.0)


@pytest.fixture
def stand():
    made = []

    def make(answer):
        made.append(Stand(answer))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()
        server.server_close()
