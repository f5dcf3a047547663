"""A text is read whatever wrote it: encodings with and without marks, cut ends, and what is no text."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.catalogue.csv_rows import read_columns, rows_of
from core.catalogue.text_files import one_line_end, printable, read_bytes_of, text_of

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


def test_hidden_characters_leave_a_text_and_letters_stay():
    assert printable("\x1b[31mJet\x9bson\u202e N\ud800ano\0\u2066") == "[31mJetson Nano"
    for kept in ("Gerät 派 ✓ 21\u202f°C\n\t", "مرحبا", "👩\u200d💻"):
        assert printable(kept) == kept


def test_a_file_is_read_up_to_its_limit(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(bytes(1024))
    assert read_bytes_of(file, 1024) == bytes(1024)
    file.write_bytes(bytes(1025))
    with pytest.raises(ValueError, match="got more than 1 KiB, expected a smaller file"):
        read_bytes_of(file, 1024)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no device without an end")
def test_a_device_without_an_end_is_read_up_to_the_limit():
    with pytest.raises(ValueError, match="got more than 3 MiB"):
        read_bytes_of(Path("/dev/zero"), 3 << 20)


def test_a_name_that_no_file_can_have_is_an_error_of_the_system():
    for name in ("a\0b", "a\ud800"):
        with pytest.raises(OSError, match="no file can have this name"):
            read_bytes_of(Path(name))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_a_pipe_that_nobody_opens_or_closes_is_given_up(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"nothing more for 0.05 s, expected a file or a pipe that ends"):
        read_bytes_of(pipe, silence_s=0.05)
    held = os.open(pipe, os.O_RDWR)
    os.write(held, b"begun")
    with pytest.raises(ValueError, match=r"nothing more for 0.05 s"):
        read_bytes_of(pipe, silence_s=0.05)
    os.close(held)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes in folders")
def test_all_that_comes_through_a_pipe_is_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = os.urandom(300_000)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    assert read_bytes_of(pipe) == content
    writer.join()
    with subprocess.Popen(["printf", "21 W"], stdout=subprocess.PIPE) as printing:
        assert read_bytes_of(Path(f"/dev/fd/{printing.stdout.fileno()}")) == b"21 W"


def test_a_cell_too_many_is_named_with_its_line():
    with pytest.raises(ValueError, match=r"f\.csv: line 3: got 3 cells, expected 2, as the heading has"):
        read_columns("f.csv", "time_s,power_w\n0,1,\n1,2,3\n", ("time_s", "power_w"))
