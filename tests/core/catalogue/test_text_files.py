"""A text is read whatever wrote it: encodings with and without marks, cut ends, and what is no text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.catalogue.csv_rows import read_columns, rows_of
from core.catalogue.text_files import one_line_end, text_of

TEXT = "board_key;notes\r\nRaspberry Pi 5;gemessen bei 21 °C, ± 3 %\r\n"
BOM = "\ufeff"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_mark_decides(encoding):
    assert text_of((BOM + TEXT).encode(encoding)) == TEXT


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "cp1252"])
def test_without_a_mark_the_content_tells(encoding):
    assert text_of(TEXT.encode(encoding)) == TEXT


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff")), st.booleans())
def test_any_text_comes_back(text, marked):
    assert text_of((BOM * marked + text).encode()) == text
    assert text_of((BOM + text).encode("utf-16-le")) == text


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_an_end_cut_inside_a_character_loses_that_one_only(encoding):
    assert text_of((BOM + "3 °").encode(encoding)[:-1]) == "3 "
    assert text_of("3 °".encode()[:-1]) == "3 "


@pytest.mark.parametrize("content", [b"\x7fELF\2\1\1\0", b"GGUF\3\0\0\0\1\0\0\0", bytes(64), b"a\0\0\0\0\xff" * 9])
def test_what_is_no_text_is_refused(content):
    with pytest.raises(ValueError, match=r"^got bytes that are no text \(it begins with [0-9a-f ]+\), expected text$"):
        text_of(content)


def test_line_ends_of_every_system():
    assert one_line_end("a\r\nb\rc\nd") == "a\nb\nc\nd"


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", "sep=;;;", "\r\nsep=;"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_line_of_excel_tells_what_parts_cells(first, end):
    heading, rows = rows_of(end.join([first, "a;b, c", "1;2,5", ""]))
    assert heading == ["a", "b, c"]
    assert [row.cells for row in rows] == [["1", "2,5"]]
    assert [list(column) for column in read_columns("x.csv", f"{first}{end}t;v{end}1;2,5", ("t", "v"))] == [
        [1.0],
        [2.5],
    ]


def test_a_table_of_one_line_of_excel_has_no_columns():
    assert rows_of("sep=;\r\n") == ([], [])
    assert rows_of("") == ([], [])
