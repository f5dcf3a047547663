"""The session of a program that waits."""

import threading

import pytest

from app.client.blocking_session import AttachedBoard, LinkError
from app.client.transport import LocalTransport
from tests.app.client.attached import POINT
from tests.app.client.scripted import BANDWIDTH, CATALOGUE, ScriptedTransport, hello
from tests.waiting import PATIENCE_S


def refusing():
    raise OSError(2, "No such file or directory")


def test_a_blocking_board_says_why_it_cannot_be_attached():
    with pytest.raises(LinkError, match="cannot start"), AttachedBoard(refusing):
        pass
    with pytest.raises(LinkError, match="before it said hello"), AttachedBoard(lambda: LocalTransport(["/bin/true"])):
        pass


def test_a_blocking_board_returns_bodies_and_raises_failures():
    script = ScriptedTransport(hello(), CATALOGUE)
    answers = iter(
        (
            ({"op": "progress", "id": 1, "done_frac": 0.5, "text": ""}, {"op": "result", "id": 1, "body": BANDWIDTH}),
            ({"op": "failed", "id": 2, "kind": "failed", "reason": "no"},),
            (b"",),
        )
    )

    def answer():
        for said in answers:
            script.asked()
            for data in said:
                script.put(data)

    thread = threading.Thread(target=answer)
    thread.start()
    with AttachedBoard(lambda: script) as board:
        shown = []
        assert board.bandwidth(lambda done, text: shown.append((done, text))) == BANDWIDTH
        assert shown == [(0.5, "")]
        with pytest.raises(LinkError, match="no") as caught:
            board.measure(POINT, ["decode"], lambda done, text: None)
        assert caught.value.kind == "failed"
        with pytest.raises(LinkError, match="lost"):
            board.bandwidth(lambda done, text: None)
    thread.join(PATIENCE_S)


def test_ctrl_c_cancels_on_the_board_and_comes_through(monkeypatch):
    script = ScriptedTransport(hello(), CATALOGUE)
    with AttachedBoard(lambda: script) as board:

        def interrupted(done, text):
            raise KeyboardInterrupt

        def answer():
            while (message := script.sent.get(timeout=PATIENCE_S))["op"] != "cancel":
                if message["op"] == "bandwidth":
                    script.put({"op": "progress", "id": message["id"], "done_frac": 0.5, "text": "half"})
            script.put({"op": "failed", "id": message["id"], "kind": "cancelled", "reason": "cancelled"})

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            board.bandwidth(interrupted)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
