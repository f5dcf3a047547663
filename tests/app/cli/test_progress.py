"""The line that shows what runs: rewritten on a terminal with the time that is left, one line a step elsewhere."""

import io

import pytest

from app.cli.shared.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("app.cli.shared.progress.time.monotonic", lambda: now[0])
    return now


def shown(monkeypatch, clock, *steps, out=None):
    out = out or Terminal()
    monkeypatch.setattr("sys.stderr", out)
    with ProgressLine() as line:
        for at_s, done_frac, text in steps:
            clock[0] = 1000.0 + at_s
            line.show(done_frac, text)
    return out.getvalue()


def test_what_is_left_follows_the_pace_since_the_start(monkeypatch, clock):
    lines = shown(
        monkeypatch, clock, (0, 0.5, "a"), (10, 0.52, "b"), (60, 0.6, "c"), (240, 0.9, "d"), (270, 0.95, "e")
    ).split("\r")
    assert [line.rstrip() for line in lines[1:6]] == [
        " 50%  a", " 52%  b", " 60%  c, 4 min left", " 90%  d, 60 s left", " 95%  e, 30 s left"
    ]  # fmt: skip
    assert not lines[6].strip()  # cleared


def test_elsewhere_each_text_is_a_line_of_its_own(monkeypatch, clock):
    assert shown(monkeypatch, clock, (0, 0.0, "a"), (60, 0.5, "a"), (90, 0.6, "b"), out=io.StringIO()) == "a\nb\n"
