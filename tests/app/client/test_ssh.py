"""Boards over ssh: real ssh clients, a real server on the loopback, and every habit of a board that was met."""

import contextlib
import math
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from app import LAUNCHER, VERSION
from app.client import link, session, ssh
from app.client.agent_file import agent_hash
from app.client.askpass import Desk, Questions, is_secret
from app.client.events import Catalogue, Connected, Disconnected, Failed, Progress, Samples
from app.client.session import Session
from app.client.ssh import STUB, SshTarget, SshTransport, check_destination
from app.client.target import open_target
from tests.processes import running
from tests.waiting import PATIENCE_S, wait_until

ROOT = LAUNCHER.parent


class Board:
    """A session over a target, whose events are waited for; keeps the transports it opened."""

    def __init__(self, target):
        self.events = queue.Queue()
        self.transports = []
        self._target = target
        self.session = Session(self, self.events.put, target.reachable)

    def __call__(self):
        self.transports.append(self._target())
        return self.transports[-1]

    @property
    def attended(self):
        return self._target.attended

    def wait(self, kind, check=lambda event: True):
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            event = self.events.get(timeout=max(0.01, deadline_s - time.monotonic()))
            if isinstance(event, kind) and check(event):
                return event

    def ready(self):
        self.channels = self.wait(Catalogue).channels
        self.wait(Samples)
        return self


@contextlib.contextmanager
def attached(target):
    board = Board(target)
    board.session.start()
    try:
        yield board
    finally:
        board.session.stop()


@pytest.fixture(autouse=True)
def log_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def at(ssh_server):
    return lambda host, **options: open_target(host, ssh_config=ssh_server.config, **options)


def agents(ssh_server):
    """Return the processes that run the agent which this program sends, in a session of the tests' own server."""
    session = f" {ssh_server.port}\0".encode()  # the end of SSH_CONNECTION: other servers on this machine have others
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            ours = session in (folder / "environ").read_bytes()
            sent = any(agent_hash().encode() in word for word in words)
            if ours and sent and b"-S" in words and b"ssh" not in words[0]:
                found.append(int(folder.name))
    return found


@pytest.mark.parametrize("host", ["board", "noisy", "jumped"])
def test_samples_arrive_from_a_board_with_python_and_ssh_only(at, host):
    with attached(at(host)) as board:
        hello = board.wait(Connected).hello
        assert hello["agent"] == VERSION
        board.ready()
        index = [channel.key for channel in board.channels].index("memory.available_byte")
        _, y = board.session.rings.window(index, 0, math.inf)
        assert y[-1] > 1e6


def test_nothing_stays_on_the_board(at, ssh_server):
    assert agents(ssh_server) == []
    with attached(at("bare")) as board:
        board.ready()
        assert len(agents(ssh_server)) == 1
    wait_until(lambda: not agents(ssh_server))
    assert {path.name for path in ssh_server.bare.rglob("*")} == {"home", "tmp"}


def test_a_program_that_is_killed_takes_its_agent_along(ssh_server):
    code = """if True:
        import sys, time
        sys.path.insert(0, sys.argv[1])
        from pathlib import Path
        from app.client.blocking_session import AttachedBoard
        from app.client.target import open_target
        with AttachedBoard(open_target("board", ssh_config=Path(sys.argv[2]))):
            print("attached", flush=True)
            time.sleep(99)
    """
    argv = [sys.executable, "-c", code, str(LAUNCHER.parent), str(ssh_server.config)]
    with running(argv, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "attached\n"
        assert len(agents(ssh_server)) == 1
    wait_until(lambda: not agents(ssh_server))


def test_the_measuring_process_runs_from_memory_too(at, ssh_server):
    with attached(at("ours")) as board:
        hello = board.wait(Connected).hello
        if hello["can"]["measure"] is not True:
            pytest.fail(str(hello["can"]))
        request_id = board.session.bandwidth()
        assert board.wait((Progress, Failed), lambda event: event.request_id == request_id).text
        board.session.cancel(request_id)
        assert board.wait(Failed).kind == "cancelled"
    wait_until(lambda: not agents(ssh_server))


def test_a_board_without_torch_says_what_it_lacks(at):
    with attached(at("board")) as board:
        can = board.wait(Connected).hello["can"]["measure"]
        if can is True:
            pytest.fail("the system's own python3 has torch: this test needs one without")
        assert "torch is not installed" in can["absent"]
        request_id = board.session.bandwidth()
        assert "torch" in board.wait(Failed, lambda event: event.request_id == request_id).reason


SENTENCES = {
    "nowhere": ("there is no host nowhere", True),
    "closed": ("closed refuses connections on port", False),
    "stranger": ("stranger refused the login", True),
    "changed": ("find out which, and only then remove the old key from line 1 of ", True),
    "unknown": ("unknown is not known to ssh yet", True),
    "nopython": ("there is no python3 on nopython: expected Python 3.8 or newer", True),
    "oldpython": ("oldpython: Python is 3.6.9 here: expected 3.8 or newer", True),
    "broken": ("the agent does not start on broken: the disk is gone", True),
}


@pytest.mark.parametrize("host", SENTENCES)
def test_what_goes_wrong_is_said_in_a_sentence(at, host, monkeypatch):
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")  # nobody is there to answer
    words, final = SENTENCES[host]
    with attached(at(host)) as board:
        down = board.wait(Disconnected)
        assert words in down.reason
        assert "\n" not in down.reason
        assert (down.retry_in_s is None) is final
        if final:
            assert len(board.transports) == 1
            board.session.reconnect_now()
            assert board.wait(Disconnected).reason == down.reason


@pytest.mark.parametrize("setting", ["SessionType none", "StdinNull yes", "ForkAfterAuthentication yes"])
def test_a_host_that_is_set_up_for_tunnels_is_attached_all_the_same(ssh_server, tmp_path, setting):
    config = tmp_path / "config"
    ignored = f"IgnoreUnknown {setting.split()[0]}"  # by an ssh before 8.7, which must not be given it by us either
    config.write_text(f"{ignored}\nHost board\n{setting}\n{ssh_server.config.read_text()}")
    with attached(open_target("board", ssh_config=config)) as board:
        board.ready()


def test_a_host_that_accepts_and_is_silent_is_given_up(ssh_server, tmp_path, monkeypatch):
    monkeypatch.setattr(ssh, "CONNECT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = tmp_path / "config"
        config.write_text(f"Host mute\nHostName 127.0.0.1\nPort {silent.getsockname()[1]}\n")
        with attached(open_target("mute", ssh_config=config)) as board:
            assert board.wait(Disconnected).reason.startswith("mute does not answer")


def cut_at(board, server, how):
    """Cut the link as the test asks; return the time."""
    now_s = time.monotonic()
    if how == "reboot":
        server.cut()
    else:
        os.kill(board.transports[-1].pid, signal.SIGKILL)
    return now_s


@pytest.mark.parametrize("how", ["reboot", "ssh killed"])
def test_a_link_that_is_cut_comes_back_with_a_gap_in_the_same_rings(at, ssh_server, how):
    with attached(at("board")) as board:
        board.ready()
        index = [channel.key for channel in board.channels].index("memory.available_byte")
        while board.session.rings.window(index, 0, math.inf)[0][-1] > time.monotonic():
            board.wait(Samples)  # before the first pong they may lie too late by what the hello took
        cut_s = cut_at(board, ssh_server, how)
        down = board.wait(Disconnected)
        assert down.reason == "the link to board was lost"
        board.wait(Connected)
        board.ready()
        t_s, y = board.session.rings.window(index, 0, math.inf)
        (gap,) = np.flatnonzero(np.isnan(y))
        assert 0 < gap < len(y) - 1
        assert t_s[gap] <= cut_s < t_s[gap + 1]
    wait_until(lambda: not agents(ssh_server))


def test_a_board_that_was_away_is_attached_as_soon_as_it_is_back(at, ssh_server, monkeypatch):
    monkeypatch.setattr(session, "BACKOFF_S", (0.2, 600.0))
    with attached(at("board")) as board:
        board.ready()
        ssh_server.stop()
        while board.wait(Disconnected).retry_in_s < 300:
            pass
        ssh_server.start()
        board.wait(Connected)  # long before the next try was due


def test_a_silent_link_is_noticed_and_replaced(at, ssh_server, monkeypatch):
    monkeypatch.setattr(link, "SILENCE_S", 1.5)
    with attached(at("board")) as board:
        board.ready()
        stopped = agents(ssh_server)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert "silent" in board.wait(Disconnected).reason
            board.wait(Connected)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not agents(ssh_server))


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


EVIL = [
    *("-oProxyCommand=touch /tmp/x", "-F/etc/passwd", "user@-oProxyCommand", "-u@host", "ssh://-oX", "ssh://a b"),
    *("a;b", "a b", "a&b", "a|b", "$(id)", "`id`", "a\nb", "a\0b", "a>b", "'a'", '"a"', "a\\b", "a*", "~"),
    *("", "ü", "ssh://h:port", "ssh://h:99999", "ssh://h:0", "h:22", "me@h:22"),
]


@pytest.mark.parametrize("host", EVIL)
def test_a_destination_that_is_an_option_or_shell_text_is_refused(host):
    with pytest.raises(ValueError, match="expected"):
        SshTarget(host)


@pytest.mark.parametrize(
    "host",
    ["orin", "me@orin", "me@192.168.1.2", "fe80::1%eth0", "ssh://me@orin:2222", "ssh://[::1]:22", "a.b-c_d", "u.s+e@h"],
)
def test_plain_destinations_are_taken(host):
    check_destination(host)


def test_the_stub_survives_every_login_shell():
    stub = STUB.format(n=12345, sha256="0" * 64)
    assert not set(stub) & set("'!\\\n`$")
    assert len(stub) < 450


def test_first_hop_is_the_jump_host_and_unknown_behind_a_command(ssh_server, tmp_path):
    assert SshTarget("jumped", ssh_server.config).first_hop() == ("127.0.0.1", ssh_server.port)
    config = tmp_path / "config"
    config.write_text("Host far\nProxyCommand nc %h %p\n")
    assert SshTarget("far", config).first_hop() is None
    assert ssh_server.config  # no process is left of either


def test_the_command_never_weakens_ssh():
    command = SshTarget("orin").command(1000)
    assert command[command.index("--") + 1] == "orin"
    assert "-T" in command
    assert not any("StrictHostKeyChecking" in word or "UserKnownHosts" in word for word in command)
