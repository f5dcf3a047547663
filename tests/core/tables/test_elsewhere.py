"""The table that nothing learns from: boards, models and runtimes beside those of llm_decode.csv."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from core.tables.rows import read_table

FOLDER = Path("resources/measurements")


@pytest.fixture(scope="module")
def elsewhere():
    return read_table(FOLDER / "elsewhere.csv")


def figures(row):
    """Return what a row measured and on what, whatever its board and model are called there."""
    text = row.text
    return text["board_key"], text["runtime"], text["quant"], row.decode_s, row.ttft_s


def test_every_row_is_read(elsewhere):
    assert elsewhere.problems == ()
    assert len(elsewhere.rows) == 993
    assert all(row.number["batch"] == 1.0 for row in elsewhere.rows)


def test_every_row_names_its_source():
    with (FOLDER / "elsewhere.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert row["source_repo"], row["row_id"]
            assert row["source_path_or_thread"], row["row_id"]
            assert row["source_ref"] or row["source_date"], row["row_id"]


def test_no_row_is_of_the_table_that_priors_are_learned_from(elsewhere):
    learned = {figures(row) for row in read_table(FOLDER / "llm_decode.csv").rows}
    assert not learned & {figures(row) for row in elsewhere.rows}


def test_a_board_is_of_one_half(elsewhere):
    half = Counter(row.extra["half"] for row in elsewhere.rows)
    assert half == {"mending": 672, "reserved": 321}
    boards = {(row.text["board_key"], row.extra["half"]) for row in elsewhere.rows}
    assert len(boards) == len({board for board, _ in boards}) == 51
