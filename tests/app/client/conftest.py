"""Boards behind the tests' own ssh server, and a recording to read."""

import pytest

from app.client.target import open_target
from tests.app.client.recordings import OPEN, record


@pytest.fixture
def log_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def at(ssh_server):
    return lambda host, **options: open_target(host, ssh_config=ssh_server.config, **options)


@pytest.fixture(autouse=True)
def close_recordings():
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def made(tmp_path):
    return record(tmp_path / "made.trilemma")
