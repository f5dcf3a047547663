"""The session of a program that waits."""

import contextlib
import queue
import threading

import pytest

from app.client import blocking_session
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.transport import LocalTransport
from tests.app.client.attached import POINT
from tests.app.client.scripted import BANDWIDTH, CATALOGUE, ScriptedTransport, hello, samples
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


class Chatty(ScriptedTransport):
    """A board that sends samples all the time, and progress of each request, and never an answer."""

    def __init__(self):
        super().__init__(hello(), CATALOGUE)
        self._begun = 0
        self._asked = []

    def read(self):
        if self._incoming.empty():
            self._begun += 1
            with contextlib.suppress(queue.Empty):
                self._asked.append(self.sent.get_nowait())
            for message in self._asked:
                if message["op"] == "measure":
                    self.put({"op": "progress", "id": message["id"], "done_frac": 0.5, "text": ""})
            self.put(samples(self._begun, 1, t0_s=float(self._begun)))
        return super().read()


@pytest.mark.parametrize("quiet_s", [0.2, 60.0])
def test_a_board_that_sends_all_but_an_answer_is_given_up(monkeypatch, quiet_s):
    monkeypatch.setattr(blocking_session, "ANSWER_S", 0.2)
    monkeypatch.setattr(blocking_session, "RUN_S", 0.4)
    monkeypatch.setattr(blocking_session, "QUIET_S", quiet_s)
    with AttachedBoard(Chatty) as board:
        for ask in (
            lambda: board.parameters("status", {}),
            lambda: board.bandwidth(lambda done, text: None),
            lambda: board.measure(POINT, ["decode"], lambda done, text: None),
        ):
            with pytest.raises(LinkError, match="does not answer") as caught:
                ask()
            assert caught.value.kind == "link"


def test_one_ctrl_c_ends_a_run_on_a_board_that_never_answers(monkeypatch):
    monkeypatch.setattr(blocking_session, "CANCEL_S", 0.2)

    shown = []

    def interrupted(done, text):
        shown.append(done)
        if len(shown) == 1:
            raise KeyboardInterrupt

    with AttachedBoard(Chatty) as board, pytest.raises(KeyboardInterrupt):
        board.measure(POINT, ["decode"], interrupted)
    assert len(shown) > 1  # the board went on


def test_progress_extends_the_wait_for_a_run(monkeypatch):
    monkeypatch.setattr(blocking_session, "QUIET_S", PATIENCE_S)
    script = ScriptedTransport(hello(), CATALOGUE)
    now_s = [0.0]
    monkeypatch.setattr(blocking_session.time, "monotonic", lambda: now_s[0])

    def progress(done, text):
        now_s[0] += 0.9 * PATIENCE_S  # twice is more than the board may be silent
        if done == 0.75:
            script.put({"op": "result", "id": 1, "body": BANDWIDTH})

    with AttachedBoard(lambda: script) as board:
        for done_frac in (0.25, 0.5, 0.75):
            script.put({"op": "progress", "id": 1, "done_frac": done_frac, "text": ""})
        assert board.bandwidth(progress) == BANDWIDTH


def test_a_lost_link_says_the_last_error_of_the_board():
    script = ScriptedTransport(hello(), CATALOGUE)

    def switched_off(done, text):
        script.put({"op": "log", "level": "error", "text": "the board switched off at 115 deg C"})
        script.put(b"")

    with AttachedBoard(lambda: script) as board:
        script.put({"op": "progress", "id": 1, "done_frac": 0.25, "text": ""})
        with pytest.raises(LinkError, match=r"lost before this was finished.*: the board switched off at 115 deg C$"):
            board.bandwidth(switched_off)
