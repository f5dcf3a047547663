"""Bandwidth from the output of STREAM and of lmbench's bw_mem, and one sentence for a damaged line."""

import json

import pytest

from app.cli import main
from app.library.imports.bandwidth_tools import read

STREAM = """-------------------------------------------------------------
STREAM version $Revision: 5.10 $
-------------------------------------------------------------
Array size = 80000000 (elements), Offset = 0 (elements)
Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           20000.0     0.080000     0.064000     0.128000
Scale:          11000.5     0.117000     0.116000     0.119000
Add:            12000.5     0.160000     0.159000     0.162000
Triad:          12100.5     0.159000     0.158000     0.161000
-------------------------------------------------------------
Solution Validates: avg error less than 1.000000e-13 on all three arrays
"""


def test_the_copy_line_of_stream_has_its_median_from_the_mean_time():
    found = read(STREAM)
    assert (found.median, found.q05, found.q95) == pytest.approx((16e9, 10e9, 20e9))
    assert found.tool == "STREAM Copy"


def test_bw_mem_takes_the_buffers_that_no_cache_holds():
    found = read("4.19 90000.0\n536.87 10000.0\n536.87 12000.0\n536.87 11000.0\n")
    assert (found.median, found.q05, found.q95, found.n) == (11e9, 10e9, 12e9, 3)
    assert any("1 of 4 sizes" in note for note in found.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (STREAM.replace("20000.0", "fast"), "line 6: got"),
        (STREAM.replace("20000.0", "-1"), "line 6: got"),
        (STREAM.replace("20000.0", "nan"), "line 6: got"),
        (STREAM.replace("20000.0", "1e30"), "line 6: got"),
        (STREAM.replace("0.128000", "0.010000"), "in this order"),
        (STREAM.replace("0.128000", ""), "expected Copy"),
        (STREAM.replace("Copy:", "Cpoy:"), "no line Copy"),
        ("536.87 10000.0\n536.87 x\n", "line 2: got"),
        ("536.87 nan\n", "line 1: got"),
        ("0 10000.0\n", "line 1: got"),
        ("4.19 90000.0\n", "fit into caches"),
    ],
)
def test_a_damaged_line_is_one_sentence(text, words):
    with pytest.raises(ValueError, match=words) as refused:
        read(text)
    assert "expected" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "model,size\nllama,1\n", "[]", "hello world again\n"])
def test_another_file_is_none_of_them(text):
    assert read(text) is None


def test_an_import_is_the_bandwidth_of_this_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRILEMMA_DATA_DIR", str(tmp_path / "data"))
    path = tmp_path / "stream.txt"
    path.write_text(STREAM)
    assert main(["data", "import", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["before"] is None
    assert found["read_byte_s"]["median"] == pytest.approx(16e9)
    assert main(["boards", "this", "--json"]) == 0
    assert "16000000000.0" in capsys.readouterr().out
    assert main(["data", "import", str(path), "--board", "nobody"]) == 2
    assert "expected a board attached before, one of this" in capsys.readouterr().err
    path.write_text(STREAM.replace("20000.0", "fast"))
    assert main(["data", "import", str(path)]) == 2
    assert "line 6" in capsys.readouterr().err
