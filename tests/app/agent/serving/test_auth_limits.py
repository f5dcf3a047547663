"""Limits on those who have not proved the token."""

import time
from pathlib import Path

import pytest

from app.agent.serving import auth_limits
from app.agent.serving.auth_limits import AuthLimits, Locks
from app.client.sockets import open_tcp, open_unix
from app.client.transport import OpenError
from app.secure import new_token
from tests.app.agent.serving.served import greet, hang_up, serving
from tests.waiting import PATIENCE_S


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


def test_one_address_cannot_keep_the_others_out():
    waiting = AuthLimits()
    assert [waiting.enter("attacker") for _ in range(100)].count(True) == auth_limits.MAX_UNAUTHENTICATED_EACH
    assert waiting.enter("friend")
    assert [waiting.enter(f"attacker {i}") for i in range(100)].count(True) < auth_limits.MAX_UNAUTHENTICATED
    assert not waiting.enter("friend")
    waiting.leave("attacker")
    assert waiting.enter("friend")
