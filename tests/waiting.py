"""Waiting for an event: as long as a busy machine takes, and no longer than that would be worth."""

import time

PATIENCE_S = 60.0


def attempts(patience_s=PATIENCE_S, pause_s=0.0):
    """Yield until the patience ends, then fail: the body looks for what it waits for, and leaves the loop."""
    deadline_s = time.monotonic() + patience_s
    while True:
        yield
        assert time.monotonic() < deadline_s, "did not happen in time"
        time.sleep(pause_s)


def wait_until(condition, patience_s=PATIENCE_S):
    """Return what the condition returns as soon as that is true."""
    for _ in attempts(patience_s, pause_s=0.01):
        if found := condition():
            return found
