"""Limits on those who have not proved the token."""

import contextlib
import os
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from app.agent.serving import auth_limits
from app.agent.serving.auth_limits import KEPT, MAX_PROVED, SOON_S, Locks, Places
from app.agent.serving.auth_limits import MAX_UNAUTHENTICATED as MAX
from app.agent.serving.auth_limits import MAX_UNAUTHENTICATED_EACH as MAX_EACH
from app.client.sockets import open_tcp, open_unix
from app.client.transport import OpenError
from app.secure import new_token
from tests.app.agent.serving.served import greet, hang_up, serving
from tests.waiting import PATIENCE_S, wait_until


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


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(auth_limits.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def connect():
    """Make connected sockets: the near end is served, the far end sees whether it was put out."""
    with contextlib.ExitStack() as open_:

        def make():
            near, far = map(open_.enter_context, socket.socketpair())
            far.setblocking(False)
            return near, far

        yield make


def is_open(far):
    try:
        return far.recv(1) != b""
    except BlockingIOError:
        return True


def test_one_address_cannot_keep_the_others_out(connect, clock):
    places, near = Places(), connect()[0]
    first = places.enter(near, "attacker")
    assert [places.enter(near, "attacker") for _ in range(100)].count(None) == 101 - MAX_EACH
    assert places.enter(near, "friend")
    assert [places.enter(near, f"attacker {i}") for i in range(100)].count(None) == 100 - (MAX - MAX_EACH - 1)
    assert places.enter(near, "friend") is None
    places.leave(first)
    assert places.enter(near, "friend")


def test_places_are_kept_for_an_address_that_has_proved_itself(connect, clock):
    places, near = Places(), connect()[0]
    places.proved("friend")
    for i in range(100):
        places.enter(near, f"attacker {i}")
    assert [places.enter(near, "friend") is not None for _ in range(KEPT + 1)] == [True] * KEPT + [False]
    for i in range(MAX_PROVED):
        places.proved(f"attacker {i}")  # the oldest is forgotten
    assert places.enter(near, "friend") is None


def test_the_oldest_gives_its_place_up_when_all_are_taken(connect, clock):
    places, ends = Places(), []
    for i in range(MAX):
        near, far = connect()
        assert places.enter(near, f"slow {i}")
        ends.append(far)
        clock[0] += 0.01
    clock[0] = 1000.0 + SOON_S - 0.001
    assert places.enter(connect()[0], "friend") is None
    assert all(map(is_open, ends))
    clock[0] = 1000.0 + SOON_S
    assert places.enter(connect()[0], "friend")
    assert [is_open(far) for far in ends] == [False] + [True] * (MAX - 1)


def test_an_address_with_all_its_places_gives_up_one_of_its_own(connect, clock):
    places = Places()
    other_near, other = connect()
    places.enter(other_near, "other")
    ends = []
    for _ in range(MAX_EACH):
        near, far = connect()
        places.enter(near, "slow")
        ends.append(far)
    clock[0] += SOON_S
    assert places.enter(connect()[0], "slow")
    assert [is_open(far) for far in ends] == [False] + [True] * (MAX_EACH - 1)
    assert is_open(other)


def test_what_takes_too_long_is_put_out(connect, clock):
    places = Places()
    (near, far), (later_near, later) = connect(), connect()
    places.enter(near, "slow")
    clock[0] += 3.0
    places.enter(later_near, "slow")
    clock[0] += 2.5
    places.put_out_older(5.0)
    assert [is_open(far), is_open(later)] == [False, True]


def slow_connections(port, n, hosts=("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5")):
    """Open connections that say nothing, from a few addresses; keep open those that the server keeps."""
    made = []
    for i in range(n):
        connection = socket.socket()
        connection.bind((hosts[i % len(hosts)], 0))
        connection.settimeout(PATIENCE_S)
        connection.connect(("127.0.0.1", port))
        connection.setblocking(False)
        made.append(connection)
    return [connection for connection in made if is_open(connection) or connection.close()]


def test_slow_connections_keep_no_known_client_and_no_scraper_out(config):
    """325 at each port, four times, while a client that proved itself before comes back and a scraper scrapes."""
    words = ("--bind", "127.0.0.1:0", "--metrics-port", "0")
    with serving(config, *words) as served, contextlib.ExitStack() as open_:
        token = (config / "trilemma" / "agent" / "loopback-token").read_text().strip()
        with served.connect() as connection:
            assert greet(connection, token)["op"] == "welcome"
        for _ in range(4):
            for port in (served.port, served.metrics_port()):
                for connection in slow_connections(port, 325):
                    open_.enter_context(connection)
            with served.connect() as connection:
                assert greet(connection, token)["op"] == "welcome"
            assert wait_until(lambda: scraped(served.metrics_port()))
        assert len(os.listdir(f"/proc/{served.process.pid}/fd")) < 200


def scraped(port):
    """Return True if a scrape succeeds; one may be turned away while all places are taken."""
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.status == 200
    return False
