"""Processes that tests start: whatever goes wrong, none outlives its test, and nothing waits for it."""

import contextlib
import subprocess


@contextlib.contextmanager
def running(argv, **more):
    """Start a process, and kill it at the end of the block if it has not ended by then."""
    with subprocess.Popen(argv, **more) as process:
        try:
            yield process
        finally:
            process.kill()
