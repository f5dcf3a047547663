"""Boards reached through ssh: what arrives, what goes wrong, what a cut link does."""

import math
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from app import LAUNCHER, VERSION
from app.client import link, session, ssh
from app.client.events import Connected, Disconnected, Failed, Progress, Samples
from app.client.ssh import STUB, SshTarget, check_destination
from app.client.target import open_target
from tests.app.client.ssh_boards import agents, attached
from tests.processes import running
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("log_folder")


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
    "cmd": ("cmd is a Windows machine (its login shell is cmd.exe)", True),
    "powershell": ("the login shell of powershell is PowerShell", True),
    "pwsh": ("the login shell of pwsh is PowerShell", True),
    "norights": ("no login shell: expected one that has (This account is currently not available.)", True),
    "sftponly": ("for file transfer only: expected one with a login shell (This service allows sftp", True),
    "sftpserver": ("the account on sftpserver is for file transfer (sftp) only: expected one with a login shell", True),
    "nologin": (" (ForceCommand, or a login shell such as nologin): This machine is for backups", True),
    "quiet": ("quiet runs a command of its own in place of the agent", False),
    "echoing": ("such as nologin): it sends back what it gets", True),
    "otheruser": ("otheruser is to be attached as the user ubuntu: ubuntu@otheruser (Please login as", True),
    "forced": ("such as nologin): Backup of 3 files done.", True),
    "gitonly": ("the account on gitonly runs no commands", True),
    "rbash": ("the login shell of rbash is restricted and starts no python3", True),
    "expired": ("the password on expired has expired: type ssh expired once and set a new one", True),
    "booting": ("booting lets nobody in now (System is booting up.", False),
    "false": ("it ended with status 1 and printed nothing, as the login shell /bin/false does", True),
    "homeless": ("the agent does not start on homeless: python3: error while loading shared libraries: libz", True),
    "french": ("there is no python3 on french", True),
    "chatty": ("the agent does not start on chatty: ValueError: bad things", True),
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


def test_a_command_that_waits_in_place_of_the_agent_is_said_with_what_it_printed(at, monkeypatch):
    monkeypatch.setattr(link, "SILENCE_S", 1.0)
    with attached(at("menu")) as board:
        assert board.wait(Disconnected).reason.endswith(" s; it printed: Press 1 for backup")


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
    target, looks = at("board"), []
    watched = replace(target, reachable=lambda: looks.append(target.reachable()) or looks[-1])
    with attached(watched) as board:
        board.ready()
        ssh_server.stop()
        while board.wait(Disconnected).retry_in_s < 300:
            pass
        looks.clear()
        wait_until(lambda: looks and not looks[-1])
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
