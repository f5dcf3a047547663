"""Who is refused: wrong tokens, other protocols, old TLS, other certificates, junk."""

import contextlib
import random
import socket
import ssl
import struct
import threading

import pytest

from app.agent.serving import serve
from app.client.blocking_session import LinkError
from app.client.pairing import make_certificate
from app.client.sockets import open_tcp, open_tls
from app.client.target import open_target
from app.client.transport import OpenError
from app.protocol import CONTROL, MAGIC, SAMPLES, VERSION, Decoder, encode_control, encode_frame
from app.secure import new_nonce, new_token, write_private
from tests.app.agent.serving.served import attach, greet, next_message, refused
from tests.waiting import PATIENCE_S


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
    thread = threading.Thread(target=server._serve, args=(near, server._places.enter(near, "")))
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


def test_tcp_without_tls_stays_on_the_loopback():
    with pytest.raises(ValueError, match="expected localhost"):
        open_target("tcp://192.168.1.2:7417")


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
