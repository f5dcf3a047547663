"""``trilemma bench agent``: load of the agent on its board, and lost records."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app import LAUNCHER
from app.cli.shared.output import UserError, print_table
from app.protocol import CONTROL, Decoder, decode_control, encode_control, record_struct

SECONDS = 20.0
WARM_S = 3.0
START_S = 60.0  # for its first record, on a machine however busy
FAST_HZ, N_FAST = 1000.0, 16
LIMITS = {"core_frac_10_hz": 0.01, "core_frac_1_khz_16": 0.03, "growth_byte": 5 * 2**20}
_MIB = 2**20


def measure_agent(seconds: float = SECONDS, warm_s: float = WARM_S) -> dict[str, Any]:
    """Measure a running agent from outside: this machine at 10 Hz, and 16 made-up sensors at 1 kHz each.

    The sixteen sensors are files of a made-up board that its kernel could renew at any time, so the agent reads each of
    them every time.

    Parameters
    ----------
    seconds, warm_s
        Measured time of each case, and warm-up time from its first record on.

    Returns
    -------
    dict
        ``this_machine_10_hz`` and ``made_up_1_khz_16``, each with ``core_frac`` (processor time over time, of one
        core), ``rate_hz``, ``n_records``, ``n_lost``, ``rss_byte``, ``growth_byte``, ``seconds``; and ``limits``.
    """
    if not Path("/proc/self/task").exists():
        raise UserError("this system has no /proc: expected Linux, where the agent's own cost can be read")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        _make_board(root)
        return {
            "this_machine_10_hz": _watch(Path("/"), 10.0, seconds, warm_s),
            "made_up_1_khz_16": _watch(root, FAST_HZ, seconds, warm_s),
            "limits": LIMITS,
        }


def show_agent(found: dict[str, Any]) -> None:
    """Print the results as a table."""
    rows: list[tuple[str, ...]] = [("", "CORE", "RATE", "RECORDS", "LOST", "MEMORY", "GROWTH")]
    for name, case in found.items():
        if name != "limits":
            sizes = (f"{case['rss_byte'] / _MIB:.1f} MiB", f"{case['growth_byte'] / _MIB:+.2f} MiB")
            share, rate = f"{case['core_frac']:.2%}", f"{case['rate_hz']:.1f} Hz"
            rows.append((name, share, rate, str(case["n_records"]), str(case["n_lost"]), *sizes))
    print_table(rows)


def _make_board(root: Path) -> None:
    for i in range(N_FAST):
        folder = root / f"sys/class/hwmon/hwmon{i}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"rail{i}\n")
        (folder / "power1_input").write_text(f"{1_000_000 + i}\n")


@contextmanager
def _agent(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, str(LAUNCHER), "agent", "--root", str(root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _watch(root: Path, rate_hz: float, seconds: float, warm_s: float) -> dict[str, Any]:
    with _agent(root) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        count = _Count()
        reader = threading.Thread(target=count.read, args=(os.dup(process.stdout.fileno()),), daemon=True)
        reader.start()
        process.stdin.write(encode_control({"op": "subscribe", "rate_hz": rate_hz}, 0))
        if not count.begun.wait(START_S):
            raise UserError(f"the agent has sent no record within {START_S:g} s")
        time.sleep(warm_s)  # what its start took is over, and does not count
        began_s, cpu_s, rss, n = time.monotonic(), _cpu_s(process.pid), _rss_byte(process.pid), count.n_records
        time.sleep(seconds)
        took_s = time.monotonic() - began_s
        found = {
            "core_frac": (_cpu_s(process.pid) - cpu_s) / took_s,
            "rate_hz": (count.n_records - n) / took_s,
            "n_records": count.n_records,
            "n_lost": count.n_lost,
            "rss_byte": _rss_byte(process.pid),
            "growth_byte": _rss_byte(process.pid) - rss,
            "seconds": took_s,
        }
    reader.join()
    return found


class _Count:
    """Counter of received and lost records of a link."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.n_records = 0
        self.n_lost = 0

    def read(self, fd: int) -> None:
        """Read until the agent ends, and close."""
        decoder, size, expected = Decoder(), 0, 0
        while data := os.read(fd, 65536):
            for frame in decoder.feed(data):
                if frame.kind == CONTROL:
                    message = decode_control(frame.body)
                    if message["op"] == "catalogue":
                        size = record_struct(sum(not c["absent"] for c in message["channels"])).size
                    continue
                n = len(frame.body) // size
                self.n_lost += frame.seq - expected
                self.n_records += n
                expected = frame.seq + n
                self.begun.set()
        os.close(fd)


def _cpu_s(pid: int) -> float:
    """Return the processor time of all threads of a process."""
    total_ns = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total_ns += int(path.read_text().split()[0])
    return total_ns * 1e-9


def _rss_byte(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
