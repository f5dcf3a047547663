"""Pairings and certificates."""

import ssl

import pytest

from app.client.blocking_session import LinkError
from app.client.pairing import load_pairing, make_certificate
from app.secure import SecurityError, fingerprint
from tests.app.agent.serving.served import attach


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
