"""A served board, and clients of every kind."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from app import LAUNCHER
from app.client.blocking_session import AttachedBoard
from app.client.target import open_target
from app.protocol import CONTROL, Decoder, decode_control, encode_control
from app.secure import new_nonce, proof
from tests.waiting import PATIENCE_S


class Served:
    """A real `agent serve` as a process, with a folder for settings of its own."""

    def __init__(self, config, *words, python=sys.executable, program=(str(LAUNCHER), "agent")):
        env = {**os.environ, "XDG_CONFIG_HOME": str(config), "XDG_RUNTIME_DIR": str(config / "run")}
        argv = [python, *program, "serve", *words]
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        self.target = line.removeprefix("trilemma agent: serving at ").strip()
        self.metrics = self.process.stderr.readline() if "--metrics-port" in words else ""
        self._listener = threading.Thread(target=self.process.stderr.read)
        self._listener.start()
        if self.target == line.strip():
            self.kill()
            pytest.fail(f"it does not serve: {line}")

    @property
    def port(self):
        return int(self.target.rpartition(":")[2])

    def metrics_port(self):
        return int(self.metrics.rpartition("/")[0].rpartition(":")[2])

    def memory_byte(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    def connect(self):
        if self.target.startswith("unix:"):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(self.target.removeprefix("unix:"))
        else:
            connection = socket.create_connection(("127.0.0.1", self.port))
        connection.settimeout(PATIENCE_S)
        return connection

    def close(self):
        self.process.terminate()
        try:
            assert self.process.wait(PATIENCE_S) == 0
        finally:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._forget()

    def _forget(self):
        self._listener.join(PATIENCE_S)
        self.process.stderr.close()


def hang_up(link):
    link.close()
    while link.read():
        pass


@contextlib.contextmanager
def serving(config, *words, **more):
    served = Served(config, *words, **more)
    try:
        yield served
    finally:
        served.close()


def pair(config, ssh_server):
    env = {**os.environ, "TRILEMMA_DATA_DIR": str(config / "data")}
    argv = [sys.executable, str(LAUNCHER), "pair", "desk", "--ssh-config", str(ssh_server.config), "--json"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def next_message(connection, decoder):
    """Return the next control message; what came with it in one piece waits for the next call."""
    waiting = decoder.__dict__.setdefault("waiting", [])
    while not waiting:
        data = connection.recv(65536)
        if not data:
            return None
        waiting += [decode_control(frame.body) for frame in decoder.feed(data) if frame.kind == CONTROL]
    return waiting.pop(0)


def greet(connection, token="", certificate="", control=True, change=lambda text: text):
    """Prove a token as a client does; return the agent's answer."""
    decoder = Decoder()
    challenge = next_message(connection, decoder)
    if challenge is None or challenge["op"] == "refused":
        return challenge
    nonce = new_nonce()
    mine = change(proof(token, "client", challenge["nonce"], nonce, certificate))
    connection.sendall(encode_control({"op": "answer", "nonce": nonce, "proof": mine, "control": control}, 0))
    return next_message(connection, decoder)


def attach(text):
    with AttachedBoard(open_target(text)) as board:
        return board.hello


def refused(config, *words):
    env = {**os.environ, "XDG_CONFIG_HOME": str(config)}
    argv = [sys.executable, str(LAUNCHER), "agent", "serve", *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    return done.stderr
