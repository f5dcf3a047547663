"""Who is served and who has control; how a server ends."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from app import LAUNCHER
from app.agent.serving import serve
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.pairing import load_pairing
from app.client.sockets import open_unix
from app.client.target import open_target
from app.client.transport import OpenError
from app.protocol import Decoder, encode_control
from tests.app.agent.serving.served import Served, attach, greet, hang_up, next_message, serving
from tests.waiting import PATIENCE_S, wait_until


def test_the_unix_socket_is_private_and_serves(unix):
    path = Path(unix.target.removeprefix("unix:"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert attach(unix.target)["board"]


def test_a_second_server_at_the_same_socket_is_refused_and_a_dead_one_is_replaced(unix, config, tmp_path):
    argv = [sys.executable, str(LAUNCHER), "agent", "serve"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "an agent serves at" in done.stderr
    Served(tmp_path).kill()
    with serving(tmp_path) as served, served.connect() as connection:
        assert next_message(connection, Decoder())["op"] == "challenge"
    assert not Path(served.target.removeprefix("unix:")).exists()  # gone with its server


def test_the_loopback_takes_the_token_of_its_file(tcp, config):
    token = config / "trilemma" / "agent" / "loopback-token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert len(token.read_text().strip()) == 64
    assert attach(tcp.target)["board"]


def test_a_paired_board_is_attached_over_tls(tls, config):
    assert attach(f"tls://desk:{tls.port}")["agent"]
    for file in (tls.board / "tls.pem", tls.board / "token", config / "data" / "pairings" / "desk.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert tls.report["fingerprint"] == load_pairing("desk").fingerprint
    assert tls.report["target"] == "tls://desk:7417"


def test_the_link_through_tls_carries_a_thousand_samples_a_second(tls):
    with AttachedBoard(open_target(f"tls://desk:{tls.port}")) as board:
        session = board._session
        session.subscribe(1000.0)
        wait_until(lambda: len(session.rings.window(0, 0, float("inf"))[0]) > 1000)
        assert session.n_lost == 0


def test_secrets_are_in_no_command_line_and_no_environment(tls):
    token = load_pairing("desk").token
    with AttachedBoard(open_target(f"tls://desk:{tls.port}")):
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                assert token.encode() not in (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()


def test_one_client_controls_and_the_others_watch(unix):
    with AttachedBoard(open_target(unix.target)) as first:
        with AttachedBoard(open_target(unix.target)) as second:
            assert second.hello["can"]["measure"] == {"absent": serve.WATCHING}
            with pytest.raises(LinkError, match="may only watch"):
                second.bandwidth(lambda done, text: None)
            assert second.channels == first.channels
        assert first.hello["can"]["measure"] is True
    for _ in range(3):  # whoever comes back at once has control again
        with AttachedBoard(open_target(unix.target)) as third:
            assert third.hello["can"]["measure"] is True


def test_a_client_has_left_though_its_last_words_are_not_read():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"last words")
        assert not serve._has_left(ours)
        theirs.close()
        assert serve._has_left(ours)
    assert serve._has_left(ours)


def test_control_of_a_client_that_left_is_waited_for_as_long_as_its_run_takes_to_end(monkeypatch):
    server, now = serve.Server(None, ""), [0.0]
    ours, theirs = socket.socketpair()
    assert server._take_control(ours)

    def sleep(seconds):
        now[0] += seconds
        if now[0] > 15.0 and server._controller.locked():
            server._controller.release()

    monkeypatch.setattr(serve, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    with ours, theirs:
        assert not server._take_control(ours)  # it is still there
        assert now[0] == 0.0
        theirs.close()
        assert server._take_control(ours)


def test_control_that_was_lost_over_tls_is_free_at_once(tls):
    for _ in range(3):
        with AttachedBoard(open_target(f"tls://desk:{tls.port}")) as board:
            assert serve.WATCHING not in str(board.hello["can"]["measure"])


@pytest.mark.parametrize(("words", "locked"), [((), True), (("--allow-control",), False)])
def test_what_stays_on_the_board_is_changed_only_with_leave(tmp_path, words, locked):
    with serving(tmp_path, *words) as served, served.connect() as connection:
        assert greet(connection)["op"] == "welcome"
        decoder, answers = Decoder(), []
        for number, step in enumerate(("status", "verify")):
            connection.sendall(encode_control({"op": "parameters", "id": number, "step": step}, number))
        while len(answers) < 2:
            message = next_message(connection, decoder)
            answers += [message] if message["op"] in ("result", "failed") else []
        assert answers[0]["op"] == "result"
        assert (answers[1].get("reason") == serve.LOCKED) is locked
        if locked:  # a set that is made on the board is installed too
            asked = {"op": "measure", "id": 2, "point": {}, "what": ["decode", "compensation"]}
            connection.sendall(encode_control(asked, 2))
            while (message := next_message(connection, decoder))["op"] != "failed":
                pass
            assert (message["id"], message["reason"]) == (2, serve.LOCKED)


def test_one_client_too_many_is_told_so_and_leaves_nothing_open(unix):
    def n_open():
        return len(os.listdir(f"/proc/{unix.process.pid}/fd"))

    path = Path(unix.target.removeprefix("unix:"))
    hang_up(open_unix(path))
    wait_until(lambda: n_open() <= 8)
    before = n_open()
    links = []

    def attached():  # the first client's place may not be free yet
        with contextlib.suppress(OpenError):
            links.append(open_unix(path))
            return True
        return False

    for _ in range(serve.MAX_CLIENTS):
        wait_until(attached)
    with pytest.raises(OpenError, match=f"refused: too many clients: {serve.MAX_CLIENTS} are attached") as caught:
        open_unix(path)
    assert not caught.value.final
    for link in links:
        hang_up(link)
    wait_until(lambda: n_open() <= before)


def test_a_client_that_leaves_before_it_is_accepted_does_not_end_the_server(monkeypatch):
    class Listener:
        """Fails as the system may, then is closed."""

        failures: ClassVar = [ConnectionAbortedError(), OSError(24, "too many open files")]
        closed = False

        def accept(self):
            if self.failures:
                raise self.failures.pop()
            self.closed = True
            raise OSError(9, "closed")

        def fileno(self):
            return -1 if self.closed else 5

    monkeypatch.setattr(serve, "BUSY_S", 0.0)
    serve.Server(Listener(), "").run()
    assert not Listener.failures


def test_a_server_that_is_told_to_stop_ends_with_its_clients(config, tmp_path):
    with serving(tmp_path) as served, served.connect() as connection:
        assert greet(connection)["op"] == "welcome"
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE_S) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="signals of a single thread, as Linux has them")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_that_another_thread_takes_ends_the_server(tmp_path, number):
    """The main thread waits for a client meanwhile, and nothing wakes it."""
    with serving(tmp_path, "--metrics-port", "0") as served:
        others = {int(name) for name in os.listdir(f"/proc/{served.process.pid}/task")} - {served.process.pid}
        os.kill(max(others), number)
        assert served.process.wait(PATIENCE_S) == 0
