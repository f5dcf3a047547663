"""Boards that can be attached: hosts, those attached before, probes, questions."""

import threading

import pytest

from app.model import boards as boards_module
from app.model.boards import ssh_hosts
from tests.app.model.boards_offered import offered
from tests.waiting import PATIENCE_S


@pytest.fixture
def boards(qapp, tmp_path):
    made = offered(tmp_path)
    yield made
    made.close()


def test_hosts_of_ssh_s_configuration_are_offered(boards, tmp_path):
    assert boards.hosts() == ["orin", "rpi5", "rk3588"]
    assert ssh_hosts(tmp_path / "none") == []


def test_what_was_attached_is_remembered_newest_first(boards):
    for text in ("pi@orin", "sim:rk3588", "this", "pi@orin"):
        assert boards.attach(text) == ""
    assert boards._conductor.log == ["orin", "rk3588 (simulated)", "this machine", "orin"]
    assert boards.recent == []  # an attempt is not "recent"
    for text in ("pi@orin", "sim:rk3588", "", "pi@orin", "pi@orin"):
        boards.remember(text)
    assert boards.recent == ["pi@orin", "sim:rk3588"]
    for i in range(20):
        boards.remember(f"board{i}")
    assert len(boards.recent) == boards_module.N_RECENT


@pytest.mark.parametrize("text", ["-oProxyCommand=x", "a b", "/no/such/file", "tcp://far:1", "tls://h:x", "sim:$(id)"])
def test_what_is_no_board_is_said_and_not_remembered(boards, text):
    assert "expected" in boards.attach(text)
    assert "expected" in boards.probe(text)
    assert boards.recent == []
    assert boards._conductor.log == []


def test_a_probe_tells_in_a_sentence(boards, qtbot, ssh_server, tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    boards._ssh_config = ssh_server.config
    with qtbot.waitSignal(boards.probed) as heard:
        assert boards.probe("board") == ""
    words, can = heard.args
    assert can
    assert " answers: " in words
    with qtbot.waitSignal(boards.probed) as heard:
        boards.probe("nopython")
    assert heard.args == ["there is no python3 on nopython: expected Python 3.8 or newer.", False]


def test_a_question_of_ssh_reaches_the_screen_and_its_answer_ssh(boards, qtbot, ssh_server, tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    boards._ssh_config = ssh_server.config
    asked = []

    def answer(prompt, secret):
        asked.append((prompt, secret))
        boards.answer("open sesame")

    boards.asked.connect(answer)
    with qtbot.waitSignal(boards.probed) as heard:
        boards.probe("locked")
    assert heard.args[1], heard.args
    ((prompt, secret),) = asked
    assert "passphrase" in prompt
    assert secret


def test_a_question_that_nobody_answers_ends_when_the_program_does(boards):
    got = []
    thread = threading.Thread(target=lambda: got.append(boards._ask("password: ", True)))
    thread.start()
    boards.close()
    thread.join(PATIENCE_S)
    assert got == [None]
    assert boards._ask("password: ", True) is None
