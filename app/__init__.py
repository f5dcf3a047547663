"""The program around the engine: agent, client, state, screen and command line. Python 3.8 syntax in this file."""

from pathlib import Path

VERSION = "0.1.0"

_ROOT = Path(__file__).resolve().parents[1]
LAUNCHER = (_ROOT.parent if _ROOT.name == "trilemma_lib" else _ROOT) / "trilemma.py"
"""How a child process enters the program, from a checkout or a wheel: ``[sys.executable, str(LAUNCHER), command]``."""

CHECKOUT = (_ROOT / "Makefile").is_file()
"""True in a checkout, where users can type ``make run``; False for a wheel and for the agent's file."""

RESOURCES = _ROOT / "resources"
"""Folder of the files that the help names."""
