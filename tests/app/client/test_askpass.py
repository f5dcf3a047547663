"""Questions of ssh: passphrases, codes and host keys."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from app import LAUNCHER
from app.client.askpass import Desk, Questions, is_secret
from app.client.events import Connected, Disconnected
from app.client.ssh import SshTransport
from tests.app.client.ssh_boards import agents, attached
from tests.processes import running
from tests.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("log_folder")

ROOT = LAUNCHER.parent


def test_a_passphrase_is_asked_for_at_the_desk_and_hidden(at, tmp_path, ssh_server):
    asked = []

    def ask(prompt, secret):
        asked.append((prompt, secret))
        return "open sesame"

    with attached(at("locked", ask=ask)) as board:
        board.ready()
        for pid in [board.transports[0].pid, *agents(ssh_server)]:
            assert b"open sesame" not in Path(f"/proc/{pid}/cmdline").read_bytes()
            assert b"open sesame" not in Path(f"/proc/{pid}/environ").read_bytes()
    ((prompt, secret),) = asked
    assert prompt.startswith("Enter passphrase for key")
    assert secret


def test_a_passphrase_is_asked_for_once_however_often_the_link_breaks(at, ssh_server, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked = []

    def ask(prompt, secret):
        asked.append(prompt)
        return "open sesame"

    with attached(at("locked", ask=ask)) as board:
        board.ready()
        assert not list(tmp_path.glob("trilemma-*"))  # where ssh asks is gone as soon as it need not
        for _ in range(2):
            ssh_server.cut()
            assert board.wait(Disconnected).retry_in_s is not None
            board.wait(Connected)
        assert len(asked) == 1


def test_a_passphrase_that_is_no_longer_right_ends_in_a_sentence_until_a_person_reconnects(at, ssh_server):
    asked, right = [], ["open sesame"]

    def ask(prompt, secret):
        asked.append(prompt)
        return right[0]

    def rephrase(old, new):
        key = str(ssh_server.folder / "locked.key")
        subprocess.run(["ssh-keygen", "-q", "-p", "-f", key, "-P", old, "-N", new], check=True)

    with attached(at("locked", ask=ask)) as board:
        board.ready()
        rephrase("open sesame", "open barley")
        try:
            ssh_server.cut()
            board.wait(Disconnected)
            ended = board.wait(Disconnected)
            assert ended.retry_in_s is None
            assert ended.reason.startswith('locked asks again "Enter passphrase for key')
            assert ended.reason.endswith(": reconnect to answer")
            assert len(asked) == 1
            right[0] = "open barley"
            board.session.reconnect_now()
            board.wait(Connected)
            assert len(asked) == 2
        finally:
            rephrase("open barley", "open sesame")


def test_a_question_that_nobody_answers_is_not_asked_for_ever(at, monkeypatch):
    leave, asked = threading.Event(), []

    def ask(prompt, secret):
        asked.append(prompt)
        leave.wait(PATIENCE_S)

    with attached(at("locked", ask=ask)) as board:
        wait_until(lambda: asked)
        board.session._link._person.function()  # the time is over
        ended = board.wait(Disconnected)
    leave.set()
    assert (ended.reason, ended.retry_in_s) == ("nobody answered ssh within 150 s", None)
    assert len(asked) == 1


def test_the_time_for_a_person_runs_from_the_start(at, monkeypatch):
    monkeypatch.setattr(SshTransport, "patience_s", 0.05)
    given_up = threading.Event()
    with attached(at("locked", ask=lambda prompt, secret: given_up.wait(PATIENCE_S) and None)) as board:
        assert board.wait(Disconnected).reason.endswith(" 0.05 s")
        given_up.set()


def test_a_code_of_the_moment_is_not_kept():
    asked = []
    questions = Questions(lambda prompt, secret: asked.append(prompt) or "123456")
    questions.begin()
    assert questions.answer("Verification code: ", True) == "123456"
    questions.accepted()
    questions.begin()
    assert questions.answer("Verification code: ", True) is None
    assert questions.refused == "Verification code: "
    questions.person_is_here()
    questions.begin()
    assert questions.answer("Verification code: ", True) == "123456"
    assert len(asked) == 2


def test_on_a_terminal_ssh_asks_for_the_first_login_only(at, ssh_server):
    with attached(at("board")) as board:
        board.ready()
        assert "BatchMode=no" in board.transports[0]._process.args
        ssh_server.cut()
        board.wait(Disconnected)
        board.wait(Connected)
        assert "BatchMode=yes" in board.transports[1]._process.args


def test_a_program_that_is_killed_while_ssh_asks_leaves_nothing(ssh_server, tmp_path):
    program = (
        "import sys, time; from pathlib import Path; from app.client.target import open_target;"
        "link = open_target('locked', ssh_config=Path(sys.argv[1]), ask=lambda p, s: print('asked', flush=True)"
        " or time.sleep(99))(); time.sleep(99)"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path), "TRILEMMA_DATA_DIR": str(tmp_path / "data")}
    argv = [sys.executable, "-c", program, str(ssh_server.config)]
    with running(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"asked\n"
        assert list(tmp_path.glob("trilemma-*"))
    wait_until(lambda: not list(tmp_path.glob("trilemma-*")))


def test_the_question_about_a_host_key_is_asked_in_the_open_and_no_means_no(at, ssh_server):
    asked = []

    def ask(prompt, secret):
        asked.append((prompt, secret))
        return "no"

    with attached(at("unknown", ask=ask)) as board:
        assert board.wait(Disconnected).reason.startswith("unknown is not known to ssh yet")
    ((prompt, secret),) = asked
    assert "fingerprint is SHA256:" in prompt
    assert not secret
    assert not (ssh_server.folder / "empty").exists()


def test_a_question_that_is_cancelled_ends_the_attempt(at):
    threads = []

    def ask(prompt, secret):
        threads.append(threading.current_thread())

    with attached(at("locked", ask=ask)) as board:
        assert "refused the login" in board.wait(Disconnected).reason
    assert threads[0] is not threading.main_thread()


def test_leaving_while_a_question_is_open_ends_ssh_at_once(at):
    asked, leave, answered = threading.Event(), threading.Event(), []

    def ask(prompt, secret):
        asked.set()
        answered.append(leave.wait(PATIENCE_S))

    with attached(at("locked", ask=ask)) as board:
        assert asked.wait(PATIENCE_S)
    assert answered == []
    leave.set()
    assert board.transports[0]._process.returncode not in (None, -signal.SIGKILL)  # it was told to, and did


def test_a_question_that_comes_while_the_desk_closes_is_put_to_nobody():
    asked = []
    desk = Desk(lambda prompt, secret: asked.append(prompt))
    desk.close()
    near, far = socket.socketpair()
    near.sendall(b"\nPassword: ")

    def accept():
        desk._open = False  # as `close` does, which did not see this question
        return far, ""

    desk._open, desk._socket = True, SimpleNamespace(accept=accept)
    desk._serve()
    assert asked == []
    assert far.fileno() == -1
    near.close()


@pytest.mark.parametrize(
    ("prompt", "kind", "hidden"),
    [
        ("root@orin's password: ", "", True),
        ("Are you sure you want to continue connecting (yes/no/[fingerprint])? ", "", False),
        ("Allow use of key?", "confirm", False),
    ],
)
def test_only_secrets_are_hidden(prompt, kind, hidden):
    assert is_secret(prompt, kind) is hidden
