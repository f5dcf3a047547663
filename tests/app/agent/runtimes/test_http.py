"""Exchanges with a server."""

import threading

import pytest

from app.agent.runtimes.http import Exchange
from app.agent.runtimes.outcome import Failed
from tests.app.agent.runtimes.stand import entry, run_of
from tests.waiting import PATIENCE_S


def test_a_silent_server_times_out(stand):
    hold = threading.Event()

    def answer(path, message):
        hold.wait(PATIENCE_S)
        return 200, []

    server = stand(answer)
    with pytest.raises(Failed, match=r"was silent for 0.2 s"):
        Exchange(entry(url=server.url, timeout_s=0.2), run_of(), "/")
    hold.set()
