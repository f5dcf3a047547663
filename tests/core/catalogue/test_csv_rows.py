"""CSV files that somebody else wrote: separators, quotes that are never closed, empty rows."""

import pytest

from core.catalogue.csv_rows import read_rows


def written(path, text):
    file = path / "x.csv"
    file.write_bytes(text.encode())
    return file


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_heading_tells_the_separator(tmp_path, separator):
    heading, rows = read_rows(
        written(tmp_path, f"\ufeff\n\na{separator}b\n1{separator}2\n\n{separator}\n3{separator}4\n")
    )
    assert heading == ["a", "b"]
    assert [(row.line, row.cells, row.broken) for row in rows] == [(4, ["1", "2"], ""), (7, ["3", "4"], "")]


def test_a_cell_in_quotes_holds_separators_and_lines(tmp_path):
    _, rows = read_rows(written(tmp_path, 'a,b\n"x,\ny",2\n3,4\n'))
    assert [(row.line, row.cells) for row in rows] == [(3, ["x,\ny", "2"]), (4, ["3", "4"])]


def test_a_quote_that_is_never_closed_takes_no_other_row_with_it(tmp_path):
    _, rows = read_rows(written(tmp_path, 'a,b\n1,"2\n3,4\n5,6\n'))
    assert [(row.line, row.cells) for row in rows if not row.broken] == [(3, ["3", "4"]), (4, ["5", "6"])]
    assert [row.line for row in rows if row.broken] == [2]
    assert next(row for row in rows if row.broken).broken == "a quote that is not closed where its cell ends"


def test_a_cell_without_end_is_one_broken_row(tmp_path):
    _, rows = read_rows(written(tmp_path, f"a,b\n{'x' * 200_000},2\n3,4\n"))
    assert [row.broken for row in rows] == ["a cell without end", ""]


def test_what_is_not_text_is_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"a,b\n\0\xff\xfe\0,2\n")
    with pytest.raises(ValueError, match="got bytes that are no text"):
        read_rows(tmp_path / "x.csv")
    with pytest.raises(OSError, match="none"):
        read_rows(tmp_path / "none.csv")


def test_an_empty_file_has_neither_heading_nor_rows(tmp_path):
    assert read_rows(written(tmp_path, "")) == ([], [])
