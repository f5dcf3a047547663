"""Boards served at a Unix socket, at the loopback and over TLS, with folders of their own."""

import pytest

from tests.app.agent.serving.served import pair, serving


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    return tmp_path_factory.mktemp("config")


@pytest.fixture(autouse=True)
def places(config, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(config / "run"))
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(config / "data"))


@pytest.fixture(scope="module")
def unix(config):
    with serving(config) as served:
        yield served


@pytest.fixture(scope="module")
def tcp(config):
    with serving(config, "--bind", "127.0.0.1:0") as served:
        yield served


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
