"""Private files and proofs."""

import stat

import pytest

from app.secure import SecurityError, new_token, proof, read_private, write_private


def test_a_proof_through_one_certificate_is_worth_nothing_through_another():
    token, nonces = new_token(), ("a", "b")
    assert proof(token, "client", *nonces, "x") != proof(token, "client", *nonces, "y")
    assert proof(token, "client", *nonces) != proof(token, "agent", *nonces)


def test_a_private_file_is_written_whole_and_read_back(tmp_path):
    path = tmp_path / "deep" / "file"
    write_private(path, "secret")
    assert read_private(path) == "secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*path.parent.iterdir()] == [path]
    with pytest.raises(SecurityError, match="cannot be read"):
        read_private(tmp_path / "none")
