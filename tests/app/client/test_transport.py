"""The agent's process and its log."""

import signal

from app.client import transport
from app.client.events import Connected, Disconnected
from app.client.transport import LocalTransport
from tests.app.client.attached import attached
from tests.app.client.scripted import ScriptedTransport, hello


def test_stop_kills_an_agent_that_does_not_end(monkeypatch):
    monkeypatch.setattr(transport, "GRACE_S", 0.05)
    opened = LocalTransport(["/bin/sleep", "1000"])
    with attached(lambda: opened):
        pass
    assert opened._process.returncode == -signal.SIGKILL


def test_a_stream_that_is_no_agent_is_named():
    with attached(lambda: ScriptedTransport(b"x" * (2 << 20))) as board:
        assert "no Trilemma frame" in board.wait(Disconnected).reason
    with attached(lambda: LocalTransport(["/bin/echo", "command not found"])) as board:
        assert board.wait(Disconnected).reason == "the agent ended before it said hello"


def test_a_login_banner_before_the_first_frame_is_skipped():
    with attached(lambda: ScriptedTransport(b"Welcome to Ubuntu\r\n$ ", hello())) as board:
        board.wait(Connected)


def test_the_log_keeps_the_last_words_of_earlier_runs_and_is_bounded(tmp_path):
    log = tmp_path / "folder" / "agent.log"
    say = ["/bin/sh", "-c", "echo words >&2"]
    for _ in range(2):
        ended = LocalTransport(say, log)
        assert ended.read() == b""
        ended.close()
    assert log.read_text() == "words\nwords\n"
    log.write_bytes(bytes((1 << 20) + 1))
    ended = LocalTransport(say, log)
    assert ended.read() == b""
    ended.close()
    assert log.read_text() == "words\n"


def test_without_a_place_for_the_log_the_agent_runs_all_the_same(tmp_path):
    (tmp_path / "file").write_text("")
    ended = LocalTransport(["/bin/echo", "hello"], tmp_path / "file" / "agent.log")
    assert ended.read() == b"hello\n"
    assert ended.read() == b""
    ended.close()
