"""The agent as one zipapp: the bytes that ssh carries to a board, and the file that `trilemma agent --save` writes.

A wheel holds it ready-made (`EMBEDDED`); a checkout builds it from its sources. Equal sources give equal bytes: the
archive is stored, not compressed, in a fixed order and with a fixed date, so that its SHA-256 names the agent.
"""

from __future__ import annotations

import functools
import hashlib
import io
import zipfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EMBEDDED = ROOT / "resources" / "trilemma-agent.pyz"
SOURCES = (
    "app/__init__.py",
    "app/parameter_set.py",
    "app/protocol.py",
    "app/secure.py",
    "app/stopping.py",
    "app/agent/**/*.py",
    "kernels/**/*.py",
    "kernels/**/*.[ch]",
)
BOOTSTRAP = "app/agent/bootstrap.py"
_DATE = (1980, 1, 1, 0, 0, 0)


def build_agent(root: Path = ROOT) -> bytes:
    """Return the zipapp of the sources under `root`."""
    paths = sorted({path for pattern in SOURCES for path in root.glob(pattern)})
    inside = {path.relative_to(root).as_posix(): path for path in paths}
    inside["__main__.py"] = root / BOOTSTRAP
    buffer = io.BytesIO()
    buffer.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_STORED) as archive:
        for name in sorted(inside):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            archive.writestr(entry, inside[name].read_bytes())
    return buffer.getvalue()


@functools.cache
def agent_bytes() -> bytes:
    """Return the agent's zipapp: the embedded one, or one built from the sources."""
    return EMBEDDED.read_bytes() if EMBEDDED.is_file() else build_agent()


@functools.cache
def packed_agent() -> bytes:
    """Return the zipapp as it travels: compressed with zlib."""
    return zlib.compress(agent_bytes(), 9)


def agent_hash() -> str:
    """Return the SHA-256 of the zipapp, in hexadecimal."""
    return hashlib.sha256(agent_bytes()).hexdigest()
