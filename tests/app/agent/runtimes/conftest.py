"""A server in a thread."""

import pytest

from app.agent.runtimes import http, streams
from tests.app.agent.runtimes.stand import Stand


@pytest.fixture(autouse=True)
def patient(request, monkeypatch):
    """A busy test machine stalls a stand-in too: what that does to a measurement has a test of its own."""
    if "stand" in request.fixturenames:
        monkeypatch.setattr(streams, "MAX_STALL_S", 60.0)


@pytest.fixture
def quick(monkeypatch):
    """One run a measurement, and busy servers are asked again at once."""
    monkeypatch.setattr(streams, "ENOUGH_S", 1e-9)
    monkeypatch.setattr(http, "BUSY_PAUSE_S", 0.01)


@pytest.fixture
def stand():
    made = []

    def make(answer, context=None):
        made.append(Stand(answer, context))
        return made[-1]

    yield make
    for server in made:
        server.shutdown()
        server.server_close()
