"""Arguments that nobody means, in every command: a sentence, an exit status, and a terminal that stays as it was."""

import os

import pytest

from tests.app.cli.bad_calls import NAMES, report

N_CALLS = int(os.environ.get("TRILEMMA_BAD_CALLS", 3 * len(NAMES)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no alarm that ends a call")
def test_no_call_ends_in_a_traceback_a_wait_or_two_sentences():
    wrong, counts = report(N_CALLS)
    assert not wrong
    assert sum(counts.values()) == N_CALLS
    assert {status for _, status in counts} <= {0, 1, 2}
