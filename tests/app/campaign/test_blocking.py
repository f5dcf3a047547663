"""A campaign driven by blocking calls, with its journal: what is asked, kept, and goes on after a kill."""

import os
import signal
from collections import Counter
from dataclasses import replace

import pytest

from app.campaign.blocking import carry_out
from app.campaign.campaign import Campaign
from app.campaign.journal import Journal
from app.campaign.plan import SPEED, Round
from app.client.blocking_session import LinkError
from app.library.files import FileError
from app.library.measurements import Measurement, append_measurement, load_measurements
from tests.app.campaign.fakes import CATALOGUE, MACHINE, SPEEDS, A, B, C, FakeBoard, Killed, body_of, failure


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "sweeps" / "journal.jsonl")


def drive(board, campaign, keep, show=lambda run, done_frac, text: None):
    carry_out(board, campaign, CATALOGUE, MACHINE, keep, show)


def resumed(journal, board, rounds=SPEEDS, keep=None):
    """Go on with a campaign from its journal; return it."""
    campaign = Campaign(rounds, CATALOGUE, journal.read(rounds[0], MACHINE))
    drive(board, campaign, keep or journal.add)
    return campaign


def test_each_run_is_asked_for_kept_and_shown(tmp_path):
    board, kept, shown = FakeBoard(), [], []
    options = {"n_windows": 2}
    campaign = Campaign([Round((A, B), SPEED, options)], CATALOGUE, model_file=tmp_path / "m.gguf")
    drive(board, campaign, lambda run, found: kept.append((run.number, found)), lambda *words: shown.append(words))
    file = str((tmp_path / "m.gguf").resolve())
    assert board.asked == [(A, SPEED, options, file), (B, SPEED, options, file)]
    assert [(number, found.point) for number, found in kept] == [(0, A), (1, B)]
    assert [(run.point, done_frac, text) for run, done_frac, text in shown] == [
        (A, 0.5, "generating tokens"),
        (B, 0.5, "generating tokens"),
    ]


def test_a_point_that_fails_is_told_at_the_end_and_the_others_go_on(journal):
    board = FakeBoard({1: failure("it does not fit")})
    campaign = resumed(journal, board)
    assert [point for point, *_ in board.asked] == [A, B, C, A, C, A, C]
    assert campaign.failures == {(B, SPEED): "it does not fit"}


def test_an_answer_that_cannot_be_read_fails_its_point(journal):
    campaign = resumed(journal, FakeBoard({0: {"applied": {"alpha": "x"}}}), SPEEDS[:1])
    assert "alpha: expected number, got string" in campaign.failures[A, SPEED]
    assert [m.point for m in load_measurements(journal.path, MACHINE)[0]] == [B, C]


@pytest.mark.parametrize("kind", ["link", "cancelled", "superseded"])
def test_what_is_not_the_point_s_fault_ends_the_campaign(journal, kind):
    with pytest.raises(LinkError):
        resumed(journal, FakeBoard({1: LinkError(kind, "no more")}))
    assert [m.point for m in load_measurements(journal.path, MACHINE)[0]] == [A]


def test_a_strict_campaign_ends_with_the_reason(journal):
    board = FakeBoard({1: failure("it does not fit")})
    campaign = Campaign(SPEEDS, CATALOGUE, strict=True)
    drive(board, campaign, journal.add)
    assert campaign.failure == "it does not fit"
    assert len(board.asked) == 2


def test_another_point_than_asked_stands_in_the_journal_as_asked(journal):
    applied = {call: {"applied": {"alpha": 0.0}} for call in range(9)}
    kept = []

    def keep(run, measurement):
        kept.append(measurement.point)
        journal.add(run, measurement)

    resumed(journal, FakeBoard(applied), SPEEDS[:1], keep)
    assert kept == [A, replace(B, alpha=0.0), C]
    again = FakeBoard()
    resumed(journal, again, SPEEDS[:1])
    assert again.asked == []


@pytest.mark.parametrize(
    "where", ["measuring", "before the journal", "after the journal", "in the journal's last line"]
)
@pytest.mark.parametrize("step", range(9))
def test_killed_at_any_step_it_goes_on_there(journal, where, step):
    def keep(run, measurement):
        if where == "before the journal" and run.number == step:
            raise Killed
        journal.add(run, measurement)
        if where == "after the journal" and run.number == step:
            raise Killed
        if where == "in the journal's last line" and run.number == step:
            journal.path.write_bytes(journal.path.read_bytes()[:-40])
            raise Killed

    with pytest.raises(Killed):
        resumed(journal, FakeBoard({step: Killed()} if where == "measuring" else {}), keep=keep)
    n_kept = step + (where == "after the journal")
    before = load_measurements(journal.path, MACHINE)[0]
    assert len(before) == n_kept
    board = FakeBoard()
    resumed(journal, board)
    assert [point for point, *_ in board.asked] == [A, B, C, A, B, C, A, B, C][n_kept:]
    kept, _ = load_measurements(journal.path, MACHINE)
    assert kept[:n_kept] == before
    assert Counter(m.point for m in kept) == {A: 3, B: 3, C: 3}


def test_ctrl_c_while_measuring_keeps_what_was_measured(journal):
    with pytest.raises(KeyboardInterrupt):
        resumed(journal, FakeBoard({2: KeyboardInterrupt()}))
    assert [m.point for m in load_measurements(journal.path, MACHINE)[0]] == [A, B]


def test_ctrl_c_while_a_measurement_is_kept_lets_it_be_kept_everywhere(journal):
    everywhere = []

    def keep(run, measurement):
        journal.add(run, measurement)
        if run.number == 1:
            os.kill(os.getpid(), signal.SIGINT)
        everywhere.append(run.point)

    with pytest.raises(KeyboardInterrupt):
        resumed(journal, FakeBoard(), keep=keep)
    assert everywhere == [m.point for m in load_measurements(journal.path, MACHINE)[0]] == [A, B]


def test_a_full_disk_ends_the_campaign(journal):
    def full(run, measurement):
        raise FileError("no space left on device")

    board = FakeBoard()
    with pytest.raises(FileError, match="no space left"):
        resumed(journal, board, keep=full)
    assert len(board.asked) == 1


def test_a_journal_counts_only_complete_measurements_of_the_same_kind(journal):
    asked = Round((A, B), ("decode", "ttft"), {"n_windows": 2})
    options = {"conditions": {"options": {"n_windows": 2}}}

    def line(point, machine=MACHINE, what=asked.what, **more):
        body = {k: v for k, v in body_of(what, **more).items() if "absent" not in v}
        append_measurement(journal.path, Measurement(point, body, "2026-01-01T00:00:00+00:00", machine))

    line(A, **options)
    line(A, **options)  # within the same second
    line(B)  # with other options
    line(B, what=("decode",), **options)
    line(B, machine="another", **options)
    line(C, **options)
    assert [m.point for m in journal.read(asked, MACHINE)] == [A, A]


def test_a_journal_that_cannot_be_written_is_named_and_one_that_can_leaves_nothing(journal, tmp_path):
    journal.check()
    assert not journal.path.exists()
    journal.path.write_text("kept\n", encoding="utf-8")
    journal.check()
    assert journal.path.read_text(encoding="utf-8") == "kept\n"
    with pytest.raises(FileError, match=r"journal: got .*, expected a file that can be written"):
        Journal(journal.path / "below").check()
