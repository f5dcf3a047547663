"""An agent behind a socket: who may come in, who is turned away, and what a stranger can cost it."""

import contextlib
import json
import os
import random
import signal
import socket
import ssl
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from app import LAUNCHER
from app.agent.serving import auth_limits, serve
from app.agent.serving.auth_limits import AuthLimits, Locks
from app.agent.serving.listen import is_loopback, split_address
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.pairing import load_pairing, make_certificate
from app.client.sockets import open_tcp, open_tls, open_unix, split_host
from app.client.target import open_target
from app.client.transport import OpenError
from app.protocol import CONTROL, MAGIC, SAMPLES, VERSION, Decoder, decode_control, encode_control, encode_frame
from app.secure import SecurityError, fingerprint, new_nonce, new_token, proof, read_private, write_private
from tests.waiting import PATIENCE_S, wait_until


class Served:
    """A real `agent serve` as a process, with a folder for settings of its own."""

    def __init__(self, config, *words, python=sys.executable, program=(str(LAUNCHER), "agent")):
        env = {**os.environ, "XDG_CONFIG_HOME": str(config), "XDG_RUNTIME_DIR": str(config / "run")}
        argv = [python, *program, "serve", *words]
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.target = line.removeprefix("trilemma agent: serving at ").strip()
        self._listener = threading.Thread(target=self.process.stderr.read)
        self._listener.start()
        if self.target == line.strip():
            self.kill()
            pytest.fail(f"it does not serve: {line}")

    @property
    def port(self):
        return int(self.target.rpartition(":")[2])

    def memory_byte(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    def connect(self):
        if self.target.startswith("unix:"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.target.removeprefix("unix:"))
        else:
            connection = socket.create_connection(("127.0.0.1", self.port))
        connection.settimeout(PATIENCE_S)
        return connection

    def close(self):
        self.process.terminate()
        try:
            assert self.process.wait(PATIENCE_S) == 0
        finally:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._forget()

    def _forget(self):
        self._listener.join(PATIENCE_S)
        self.process.stderr.close()


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return tmp_path_factory.mktemp("config")


@pytest.fixture(autouse=True)
def places(config, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(config / "run"))
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(config / "data"))


def hang_up(link):
    link.close()
    while link.read():
        pass


@contextlib.contextmanager
def serving(config, *words, **more):
    served = Served(config, *words, **more)
    try:
        yield served
    finally:
        served.close()


@pytest.fixture(scope="module")
def unix(config):
    with serving(config) as served:
        yield served


@pytest.fixture(scope="module")
def tcp(config):
    with serving(config, "--bind", "127.0.0.1:0") as served:
        yield served


def pair(config, ssh_server):
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(config / "data")}
    argv = [sys.executable, str(LAUNCHER), "pair", "desk", "--ssh-config", str(ssh_server.config), "--json"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def tls(config, ssh_server):
    """A board that the real command paired through real ssh, and that serves with what it was sent."""
    report = pair(config, ssh_server)
    board = ssh_server.folder / "desk" / ".config"
    archive = board / "trilemma" / "agent" / "trilemma-agent.pyz"
    assert report["serve"] == f"python3 {archive} serve --bind 0.0.0.0:7417"
    with serving(board, "--bind", "0.0.0.0:0", program=(str(archive),)) as served:
        served.report, served.board = report, board / "trilemma" / "agent"
        yield served


def next_message(connection, decoder):
    """Return the next control message; what came with it in one piece waits for the next call."""
    waiting = decoder.__dict__.setdefault("waiting", [])
    while not waiting:
        data = connection.recv(65536)
        if not data:
            return None
        waiting += [decode_control(frame.body) for frame in decoder.feed(data) if frame.kind == CONTROL]
    return waiting.pop(0)


def greet(connection, token="", certificate="", control=True, change=lambda text: text):
    """Prove a token as a client does; return the agent's answer."""
    decoder = Decoder()
    challenge = next_message(connection, decoder)
    if challenge is None or challenge["op"] == "refused":
        return challenge
    nonce = new_nonce()
    mine = change(proof(token, "client", challenge["nonce"], nonce, certificate))
    connection.sendall(encode_control({"op": "answer", "nonce": nonce, "proof": mine, "control": control}, 0))
    return next_message(connection, decoder)


def attach(text):
    with AttachedBoard(open_target(text)) as board:
        return board.hello


# ---- who comes in


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


# ---- who does not


def test_a_wrong_token_an_absent_one_and_a_reused_proof_are_refused(tcp, config):
    token = (config / "trilemma" / "agent" / "loopback-token").read_text().strip()
    seen = []
    with tcp.connect() as first:
        assert greet(first, token, change=lambda text: seen.append(text) or text)["op"] == "welcome"
    for name, change in (
        ("wrong", lambda text: new_token()),
        ("absent", lambda text: ""),
        ("reused", lambda _: seen[0]),
    ):
        with tcp.connect() as connection:
            answer = greet(connection, token, change=change)
            assert answer == {"op": "refused", "reason": "the token is not that of this board"}, name
            assert connection.recv(1) == b""  # closed
    with tcp.connect() as connection:
        assert greet(connection, token)["op"] == "welcome"


def test_five_failures_lock_the_address_even_for_the_right_token(config):
    with serving(config, "--bind", "127.0.0.1:0") as served:
        for _ in range(5):
            with served.connect() as connection:
                assert greet(connection, new_token())["op"] == "refused"
        with pytest.raises(OpenError, match=r"locked for \d+ s more") as caught:
            open_tcp("127.0.0.1", served.port)
        assert not caught.value.final  # it may be tried again


def test_a_lock_ends_and_is_of_its_address_only(monkeypatch):
    locks, now = Locks(), [1000.0]
    monkeypatch.setattr(auth_limits.time, "monotonic", lambda: now[0])
    for _ in range(4):
        locks.failed("10.0.0.1")
    assert locks.locked_s("10.0.0.1") == 0
    locks.failed("10.0.0.1")
    assert locks.locked_s("10.0.0.1") == 30
    assert locks.locked_s("10.0.0.2") == 0
    now[0] += 30
    assert locks.locked_s("10.0.0.1") == 0
    locks.failed("10.0.0.1")
    assert locks.locked_s("10.0.0.1") == 0  # five more before the next lock
    for i in range(5000):
        locks.failed(str(i))
    assert len(locks._failures) == auth_limits.MAX_ADDRESSES


def test_an_agent_that_does_not_know_the_token_is_not_believed(config):
    """A stranger that took the port: it gets a proof that serves nowhere else, and is refused itself."""
    (config / "trilemma" / "agent").mkdir(parents=True, exist_ok=True)
    write_private(config / "trilemma" / "agent" / "loopback-token", new_token())

    def impostor():
        connection, _ = listener.accept()
        with connection:
            connection.sendall(encode_control({"op": "challenge", "nonce": new_nonce()}, 0))
            next_message(connection, Decoder())
            connection.sendall(encode_control({"op": "welcome", "proof": "0" * 64}, 0))
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=impostor)
        thread.start()
        with pytest.raises(OpenError, match="is not the agent") as caught:
            open_tcp("127.0.0.1", listener.getsockname()[1])
        assert caught.value.final
        thread.join(PATIENCE_S)


VERBS = [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST /x HTTP/1.0\r\n\r\n", b"OPTIONS * "]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_an_http_verb_closes_the_socket(kind, verb, request):
    served = request.getfixturevalue(kind)
    with served.connect() as connection:
        decoder = Decoder()
        assert next_message(connection, decoder)["op"] == "challenge"
        connection.sendall(verb)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(65536) == b""


@contextlib.contextmanager
def peer(server):
    """Be connected to a server without having proved anything."""
    near, far = socket.socketpair()
    far.settimeout(PATIENCE_S)
    assert server._auth_limits.enter("")
    thread = threading.Thread(target=server._serve, args=(near, ""))
    thread.start()
    with near, far:
        assert next_message(far, Decoder())["op"] == "challenge"
        yield far
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "said",
    [
        *VERBS,
        encode_control({"op": "bandwidth", "id": 1}, 0),
        encode_control({"op": "parameters", "id": 1, "step": "status"}, 0),
        encode_control({"op": "ping", "t1_ns": 1}, 0),
    ],
)
def test_a_stranger_that_says_anything_but_the_answer_is_put_out_at_once(monkeypatch, said):
    monkeypatch.setattr(serve, "GREET_S", 100 * PATIENCE_S)  # not because its time is over
    with peer(serve.Server(None, "")) as far, contextlib.suppress(ConnectionResetError):
        far.sendall(said)
        assert far.recv(65536) == b""


def test_http_at_the_tls_port_gets_nothing(tls):
    with tls.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(65536):
                received += data
        assert not received.startswith(b"HTTP")
        assert MAGIC not in received


def test_old_tls_is_refused(tls):
    """A ClientHello of TLS 1.0, as bytes: today's libraries do not even send one."""
    hello = b"\x03\x01" + bytes(32) + b"\0" + b"\0\x02\0\x2f" + b"\x01\0"
    handshake = b"\x01" + len(hello).to_bytes(3, "big") + hello
    with tls.connect() as connection:
        connection.sendall(b"\x16\x03\x01" + len(handshake).to_bytes(2, "big") + handshake)
        answer = connection.recv(4096)
    assert answer[:1] == b"\x15"  # an alert
    assert answer[-1] == 70  # protocol_version


def test_another_certificate_is_refused_before_anything_is_said(tls, config):
    """As behind a machine in the middle, which has a certificate of its own and passes the token on."""
    pem, _ = make_certificate()
    file = config / "other.pem"
    write_private(file, pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    heard = []

    def middle():
        connection, _ = listener.accept()
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as other:
            other.sendall(encode_control({"op": "challenge", "nonce": new_nonce()}, 0))
            heard.append(other.recv(4096))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=middle)
        thread.start()
        with pytest.raises(OpenError, match="shows another certificate") as caught:
            open_tls("desk", listener.getsockname()[1])
        thread.join(PATIENCE_S)
    assert caught.value.final
    assert heard in ([], [b""])


def test_a_proof_through_one_certificate_is_worth_nothing_through_another():
    token, nonces = new_token(), ("a", "b")
    assert proof(token, "client", *nonces, "x") != proof(token, "client", *nonces, "y")
    assert proof(token, "client", *nonces) != proof(token, "agent", *nonces)


def refused(config, *words):
    env = {**os.environ, "XDG_CONFIG_HOME": str(config)}
    argv = [sys.executable, str(LAUNCHER), "agent", "serve", *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7417"])
def test_beyond_the_loopback_nothing_serves_without_certificate_and_token(tmp_path, bind):
    assert "takes a certificate and a token" in refused(tmp_path, "--bind", bind)
    pem, _ = make_certificate()
    write_private(tmp_path / "trilemma" / "agent" / "tls.pem", pem)
    assert "takes a certificate and a token" in refused(tmp_path, "--bind", bind)


@pytest.mark.parametrize("name", ["tls.pem", "token"])
def test_secrets_that_others_can_read_are_refused(tmp_path, name):
    pem, _ = make_certificate()
    for file, content in (("tls.pem", pem), ("token", new_token())):
        write_private(tmp_path / "trilemma" / "agent" / file, content)
    (tmp_path / "trilemma" / "agent" / name).chmod(0o644)
    assert f"{name} can be read by others: expected it private" in refused(tmp_path, "--bind", "0.0.0.0:0")


def test_a_token_that_is_too_short_is_refused(tmp_path):
    pem, _ = make_certificate()
    for file, content in (("tls.pem", pem), ("token", "12345")):
        write_private(tmp_path / "trilemma" / "agent" / file, content)
    assert "holds no token of 256 bits" in refused(tmp_path, "--bind", "0.0.0.0:0")


def test_a_pairing_that_others_can_read_is_refused(tls, config):
    file = config / "data" / "pairings" / "desk.json"
    file.chmod(0o640)
    try:
        with pytest.raises(LinkError, match="can be read by others"):
            attach(f"tls://desk:{tls.port}")
    finally:
        file.chmod(0o600)


@pytest.mark.parametrize("name", ["../desk", "a/b", "", "-x", "a b"])
def test_a_pairing_is_not_looked_for_elsewhere(name):
    with pytest.raises(SecurityError, match="no name of a board"):
        load_pairing(name)


def test_what_was_not_paired_says_how_to_pair():
    with pytest.raises(LinkError, match=r"expected trilemma pair \[user@\]stranger"):
        attach("tls://stranger")


def test_tcp_without_tls_stays_on_the_loopback():
    with pytest.raises(ValueError, match="expected localhost"):
        open_target("tcp://192.168.1.2:7417")


# ---- control


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


# ---- what a stranger, or a client gone mad, can cost


def junk(kind):
    if kind == "random":
        return random.Random(7).randbytes(1 << 20)
    if kind == "4 GiB":
        return struct.pack("<3sBBIQ", MAGIC, VERSION, SAMPLES, 0xFFFFFFFF, 0) + bytes(1 << 20)
    if kind == "deep":
        return encode_frame(CONTROL, 0, b"[" * 60_000)
    return b"x" * (1 << 20)


@pytest.mark.parametrize("greeted", [False, True])
@pytest.mark.parametrize("kind", ["random", "4 GiB", "deep", "text"])
def test_junk_closes_the_link_and_costs_no_memory(unix, kind, greeted):
    def attack():
        with unix.connect() as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if greeted:
                assert greet(connection)["op"] == "welcome"
            connection.sendall(junk(kind))
            while connection.recv(65536):
                pass

    attack()
    before_byte = unix.memory_byte()
    for _ in range(5):
        attack()
    assert unix.memory_byte() - before_byte <= 2 << 20
    assert attach(unix.target)["board"]  # and it serves on


def test_a_stranger_that_says_nothing_is_put_out(monkeypatch):
    monkeypatch.setattr(serve, "GREET_S", 0.2)
    with peer(serve.Server(None, "")) as far:
        assert far.recv(1) == b""


def test_many_strangers_do_not_keep_a_client_out_for_long(unix):
    held = [unix.connect() for _ in range(auth_limits.MAX_UNAUTHENTICATED_EACH + 3)]
    turned_away = [connection.recv(1) for connection in held[-3:]]
    assert turned_away == [b""] * 3
    for connection in held:
        connection.close()
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            link = open_unix(Path(unix.target.removeprefix("unix:")))
            break
        except OpenError:
            assert time.monotonic() < deadline_s
    hang_up(link)


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


def test_one_address_cannot_keep_the_others_out():
    waiting = AuthLimits()
    assert [waiting.enter("attacker") for _ in range(100)].count(True) == auth_limits.MAX_UNAUTHENTICATED_EACH
    assert waiting.enter("friend")
    assert [waiting.enter(f"attacker {i}") for i in range(100)].count(True) < auth_limits.MAX_UNAUTHENTICATED
    assert not waiting.enter("friend")
    waiting.leave("attacker")
    assert waiting.enter("friend")


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.2.3.4:80", ("1.2.3.4", 80)), ("board", ("board", 7417)), ("[::1]:9", ("::1", 9)), ("[::1]", ("::1", 7417))],
)
def test_addresses(text, expected):
    assert split_address(text) == split_host(f"//{text}") == expected


@pytest.mark.parametrize("text", [":80", "a:b", "a:70000", "a:-1", "a:", "[::1", "[::1:80", "::1]:80"])
def test_bad_addresses_are_refused(text):
    with pytest.raises(ValueError, match="expected"):
        split_address(text)
    with pytest.raises(ValueError, match="expected"):
        split_host(text)


def test_only_numbers_and_localhost_are_the_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "localhost.evil", "")))


def test_a_private_file_is_written_whole_and_read_back(tmp_path):
    path = tmp_path / "deep" / "file"
    write_private(path, "secret")
    assert read_private(path) == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*path.parent.iterdir()] == [path]
    with pytest.raises(SecurityError, match="cannot be read"):
        read_private(tmp_path / "none")


def test_a_certificate_is_made_without_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pem, known = make_certificate()
    der = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE") :])
    assert fingerprint(der) == known
    assert "PRIVATE KEY" in pem
    assert [*tmp_path.iterdir()] == []
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SecurityError, match="takes the openssl program"):
        make_certificate()


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
