"""The agent's command line in its zipapp: nothing, ``serve``, ``install`` or ``worker``."""

from __future__ import annotations

from typing import Sequence


def main(argv: Sequence[str]) -> int:
    """Do what the words ask: serve standard input and output by default. Return the exit status."""
    mode = argv[0] if argv else ""
    if mode == "worker":
        from app.agent.worker import main as run_worker

        return run_worker()
    from app.agent.launch import see_site_packages

    see_site_packages()
    from app.agent.main import main as run_agent

    return run_agent()
