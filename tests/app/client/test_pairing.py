"""Pairings and certificates."""

import contextlib
import socket
import ssl
import threading

import pytest

from app.client import pairing, sockets
from app.client.blocking_session import LinkError
from app.client.pairing import load_pairing, make_certificate
from app.client.ssh import SshTarget
from app.client.transport import OpenError
from app.protocol import MAGIC
from app.secure import SecurityError, fingerprint
from tests.app.agent.serving.served import attach
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("name", ["../desk", "a/b", "", "-x", "a b"])
def test_a_pairing_is_not_looked_for_elsewhere(name):
    with pytest.raises(SecurityError, match="no name of a board"):
        load_pairing(name)


def test_what_was_not_paired_says_how_to_pair():
    with pytest.raises(LinkError, match=r"expected trilemma pair \[user@\]stranger"):
        attach("tls://stranger")


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


def test_a_board_that_waits_in_place_of_taking_the_pairing_is_given_up(ssh_server, monkeypatch):
    monkeypatch.setattr(pairing, "PERSON_S", 1.0)
    with pytest.raises(OpenError, match="menu did not take the pairing within 1 s"):
        pairing.pair(SshTarget("menu", ssh_server.config))


def test_an_agent_whose_challenge_trickles_in_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "GREET_S", 0.3)
    over = threading.Event()

    def trickle():
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            while not over.wait(0.05):
                connection.sendall(MAGIC[:1])

    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=trickle)
        thread.start()
        with pytest.raises(OpenError, match="does not answer as an agent does: timed out"):
            sockets.open_unix(path)
        over.set()
        thread.join(PATIENCE_S)


def test_a_unix_socket_whose_queue_is_full_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(sockets, "GREET_S", 0.2)
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener, contextlib.ExitStack() as open_:
        listener.bind(str(path))
        listener.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting = open_.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(path))
        with pytest.raises(OpenError, match="no agent serves at"):
            sockets.open_unix(path)
