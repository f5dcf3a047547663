"""Addresses, and where nothing is served without a certificate."""

import pytest

from app.agent.serving.listen import is_loopback, split_address
from app.client.pairing import make_certificate
from app.client.sockets import split_host
from app.secure import write_private
from tests.app.agent.serving.served import refused


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7417"])
def test_beyond_the_loopback_nothing_serves_without_certificate_and_token(tmp_path, bind):
    assert "takes a certificate and a token" in refused(tmp_path, "--bind", bind)
    pem, _ = make_certificate()
    write_private(tmp_path / "trilemma" / "agent" / "tls.pem", pem)
    assert "takes a certificate and a token" in refused(tmp_path, "--bind", bind)


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
