"""An OpenSSH server of the tests' own, on a port of the loopback, with a host for every habit that boards have."""

import contextlib
import itertools
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from tests.waiting import PATIENCE_S, wait_until

PATIENCE_MS = int(1000 * PATIENCE_S)
ROOT = Path(__file__).resolve().parents[2]

OLD_PYTHON = """#!/bin/sh
shift 3
exec {python} -I -S -c "import sys; sys.version_info = (3, 6, 9, 'final', 0); exec(sys.argv.pop(1))" "$@"
"""
"""A python3 that takes itself for one of JetPack 4."""


def says(*lines, status=1, end="\\n"):
    """Return a login shell that prints these lines on standard error and does nothing else."""
    return f"printf {shlex.quote(end.join(lines) + end)} >&2; exit {status}"


RUN = 'exec {shell} -c "$SSH_ORIGINAL_COMMAND"'
HABITS = {
    "board": RUN.format(shell="sh"),
    "noisy": "echo Welcome; echo 'last login: never' >&2; head -c 3000 /proc/cpuinfo; " + RUN.format(shell="bash"),
    "ours": "export PATH=@venv:$PATH; " + RUN.format(shell="sh"),
    "bare": "export HOME=@bare/home TMPDIR=@bare/tmp; cd @bare/home; " + RUN.format(shell="sh"),
    "desk": "export HOME=@desk; unset XDG_CONFIG_HOME; " + RUN.format(shell="sh"),
    "oldpython": "export PATH=@old; " + RUN.format(shell="/bin/sh"),
    "nopython": "export PATH=@none; " + RUN.format(shell="/bin/sh"),
    "broken": "echo the disk is gone >&2; exit 5",
    "cmd": says(
        "'exec' is not recognized as an internal or external command,", "operable program or batch file.", end="\\r\\n"
    ),
    "powershell": says(
        "exec : The term 'exec' is not recognized as the name of a cmdlet, function, script file, or operable program.",
        "At line:1 char:1",
        "+ exec python3 -I -S -c",
        "    + CategoryInfo          : ObjectNotFound: (exec:String) [], CommandNotFoundException",
        "    + FullyQualifiedErrorId : CommandNotFoundException",
        end="\\r\\n",
    ),
    "pwsh": says("\\033[31;1mexec: \\033[31;1mThe term 'exec' is not recognized as a name of a cmdlet.\\033[0m"),
    "norights": "echo 'This account is currently not available.'; exit 1",
    "sftponly": "internal-sftp",  # a command of sshd itself
    "sftpserver": "exec $(ls /usr/lib*/*/sftp-server /usr/libexec/sftp-server 2>/dev/null)",
    "nologin": "echo 'This machine is for backups: write to ops@example.org.'; exit 1",
    "quiet": "exit 0",
    "echoing": "exec cat",
    "otheruser": """echo 'Please login as the user "ubuntu" rather than the user "root".'; echo; exit 142""",
    "forced": "echo Main menu; echo; echo 'Backup of 3 files done.'",
    "gitonly": "echo \"fatal: unrecognized command 'exec python3'\" >&2; exit 128",
    "rbash": 'exec bash -r -c "$SSH_ORIGINAL_COMMAND"',
    "expired": says("WARNING: Your password has expired.", "Password change required but no TTY available."),
    "booting": "echo 'System is booting up. For details, see pam_nologin(8).' >&2; exit 255",
    "false": "exit 1",
    "homeless": says("python3: error while loading shared libraries: libz.so.1: cannot open", "", status=127),
    "french": says("python3 : Commande introuvable."),  # csh, whose status is 1
    "chatty": says("bash: warning: setlocale: no", "ValueError: bad things", "Connection to board closed."),
    "menu": "echo 'Press 1 for backup'; cat >/dev/null; sleep 99",
}
"""Host of the client's configuration -> what its login shell does with a command."""


class SshServer:
    """sshd with a key for each of `HABITS`, and the client's configuration that knows them all."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.config = folder / "ssh_config"
        self.bare = folder / "bare"
        for name in ("bare/home", "bare/tmp", "desk", "old", "none"):
            (folder / name).mkdir(parents=True)
        shim = folder / "old" / "python3"
        shim.write_text(OLD_PYTHON.format(python=sys.executable))
        shim.chmod(0o755)
        for name in ("host", "other_host", "stranger", *HABITS):
            self.key(name)
        self.key("locked", "open sesame")
        self._authorize()
        self._configure()
        self._process = None

    def key(self, name, passphrase=""):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(self.folder / f"{name}.key")]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)

    def public(self, name):
        return " ".join((self.folder / f"{name}.key.pub").read_text().split()[:2])

    def _authorize(self):
        lines = [self.public("locked")]
        for name, script in HABITS.items():
            file = self.folder / f"shell-{name}"
            places = {
                "venv": Path(sys.executable).parent,
                **{name: self.folder / name for name in ("old", "none", "bare", "desk")},
            }
            for word, place in places.items():
                script = script.replace(f"@{word}", str(place))
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o755)
            command = script if script == "internal-sftp" else file
            lines.append(f'command="{command}" {self.public(name)}')
        (self.folder / "authorized").write_text("\n".join(lines) + "\n")

    def _configure(self):
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host.key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nStrictModes no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nMaxStartups 100\n"
        )
        address = f"[127.0.0.1]:{self.port}"
        (self.folder / "known").write_text(f"{address} {self.public('host')}\n")
        (self.folder / "changed").write_text(f"{address} {self.public('other_host')}\n")
        hosts = [(name, name, "known", "") for name in HABITS]
        hosts += [("jumped", "board", "known", "ProxyJump board"), ("stranger", "stranger", "known", "")]
        hosts += [
            ("unknown", "board", "empty", ""),
            ("changed", "board", "changed", ""),
            ("locked", "locked", "known", ""),
        ]
        hosts += [("closed", "board", "known", f"Port {free_port()}")]
        text = "".join(
            f"Host {host}\n{more}\nIdentityFile {self.folder}/{key}.key\nUserKnownHostsFile {self.folder}/{known}\n"
            for host, key, known, more in hosts
        )
        common = f"Host *\nHostName 127.0.0.1\nPort {self.port}\nIdentitiesOnly yes\nIdentityAgent none\n"
        self.config.write_text(
            text + "Host nowhere\nHostName nowhere.invalid\n" + common + "GlobalKnownHostsFile none\n"
        )

    def start(self):
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # where root's sshd confines itself
        sshd = shutil.which("sshd") or "/usr/sbin/sshd"
        argv = [sshd, "-D", "-e", "-f", str(self.folder / "sshd_config")]
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log)
        wait_until(lambda: answers(self.port))

    def sessions(self):
        """Return the process of sshd that serves each connection."""
        return children(self._process.pid)

    def cut(self):
        """Kill every connection, as a board that reboots does."""
        for pid in self.sessions():
            signal_tree(pid, signal.SIGKILL, by_name=b"sshd")

    def stop(self):
        if self._process is None:
            return
        self.cut()
        self._process.kill()
        self._process.wait()


def signal_tree(pid, number, by_name):
    """Send a signal to a process and its descendants of a name."""
    for child in children(pid):
        signal_tree(child, number, by_name)
    try:
        if by_name in Path(f"/proc/{pid}/comm").read_bytes():
            os.kill(pid, number)
    except (FileNotFoundError, ProcessLookupError):
        pass


def children(pid):
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


_ports = itertools.count(10_000 + 37 * os.getpid() % 20_000)


def free_port():
    """Return a port for a server, of this process alone: other workers have others, and the system gives out none."""
    for port in _ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class PatientBot(QtBot):
    """Waits for what must happen as long as a busy machine may take."""

    def waitUntil(self, callback, *, timeout=PATIENCE_MS):
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(self, signal, *, timeout=PATIENCE_MS):
        return super().waitSignal(signal, timeout=timeout)


@pytest.fixture
def qtbot(qapp, request):
    return PatientBot(request)


@pytest.fixture(autouse=True)
def closed_widgets_go():
    """Delete what a test has closed before the next one: thousands of widgets slow down whatever is styled later."""
    yield
    qt = sys.modules.get("PySide6.QtCore")
    if qt is not None and qt.QCoreApplication.instance() is not None:
        qt.QCoreApplication.sendPostedEvents(None, qt.QEvent.Type.DeferredDelete)


@pytest.fixture(scope="session")
def ssh_server(tmp_path_factory):
    server = SshServer(tmp_path_factory.mktemp("sshd"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
