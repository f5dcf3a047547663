"""Rows added to a table: what it holds stays as it is written, and what cannot be read is left as it is."""

import csv
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.library.files import FileError
from app.library.imported import add_rows, read_import

CELLS = st.text(st.characters(exclude_characters="\0\r", exclude_categories=["Cs"]), min_size=1, max_size=12) | (
    st.sampled_from(["NA", "nan", "1e5", "0012", "1.0", "None", "TRUE", " x ", 'a "b"', "a,b", "2\nlines", "a\r\nb"])
)
ROWS = st.lists(st.fixed_dictionaries({"board_key": CELLS, "colour": CELLS, "x y": CELLS}), min_size=1, max_size=6)


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, later=ROWS)
def test_every_cell_stays_as_it_is_written(tmp_path, rows, later):
    path = tmp_path / "t.csv"
    path.unlink(missing_ok=True)
    n_first = add_rows(path, rows)
    assert n_first == len({tuple(row.values()) for row in rows})
    n_later = add_rows(path, later)
    wanted = list({tuple(row.values()): row for row in [*rows, *later]}.values())
    assert read(path) == wanted
    assert n_first + n_later == len(wanted)
    before = path.read_bytes()
    assert add_rows(path, [*later, *rows]) == 0
    assert path.read_bytes() == before


def test_the_file_that_a_row_came_in_tells_no_two_apart(tmp_path):
    path = tmp_path / "t.csv"
    assert add_rows(path, [{"model": "a", "source": "x.csv"}]) == 1
    assert add_rows(path, [{"model": "a", "source": "y.csv"}, {"model": "a", "power_w": "3", "source": "y.csv"}]) == 1
    assert read(path) == [
        {"model": "a", "power_w": "", "source": "x.csv"},
        {"model": "a", "power_w": "3", "source": "y.csv"},
    ]


def test_known_columns_come_first_and_repeats_that_were_there_stay(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\ufeffcolour,model\nblue,a\nblue,a\nred\n", encoding="utf-8")
    assert add_rows(path, [{"board_key": "rk3588", "model": "b"}]) == 1
    assert path.read_text() == "board_key,model,colour\n,a,blue\n,a,blue\n,,red\nrk3588,b,\n"


def test_an_empty_file_is_a_table_without_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.touch()
    assert add_rows(path, [{"model": "b"}]) == 1
    assert path.read_text() == "model\nb\n"


@pytest.mark.parametrize(
    "content",
    ["a,b\n1,2,3\n", "a,b\n1,2\n1,2,3\n", 'a,b\n1,"2\n', "a,b\n" + "1,2\n" * 5 + "1,2,3,4\n"],
)
def test_a_table_that_would_lose_cells_is_refused_and_left(tmp_path, content):
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(FileError, match=r"t\.csv: cannot be read as a table: ") as caught:
        add_rows(path, [{"a": "9"}])
    assert "\n" not in str(caught.value)
    assert path.read_text() == content


def test_long_cells_are_kept(tmp_path):
    path = tmp_path / "t.csv"
    add_rows(path, [{"more": "x" * 200_000}])
    add_rows(path, [{"more": "y"}])
    assert path.read_text() == "more\n" + "x" * 200_000 + "\ny\n"


def bench(**told):
    return {"n_prompt": 0, "n_gen": 128, "samples_ns": [1e9, 1.1e9], "cpu_info": "Pi 5", "model_type": "x", **told}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "-1", '"128"'])
@pytest.mark.parametrize("name", ["n_prompt", "n_gen", "n_depth"])
def test_a_count_that_is_no_number_leaves_its_test_out(tmp_path, number, name):
    file = tmp_path / "bench.json"
    file.write_text(json.dumps([bench(**{name: "HERE"}), bench()]).replace('"HERE"', number), encoding="ascii")
    rows, notes = read_import(file)
    assert len(rows) == 1
    assert notes == [f"bench.json: test 1: {name}: got no number of tokens; it was left out."]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "9" * 400])
@pytest.mark.parametrize("name", ["model_size", "model_n_params", "n_threads", "build_number"])
def test_another_number_that_is_none_is_absent(tmp_path, number, name):
    file = tmp_path / "bench.json"
    file.write_text(json.dumps([bench(**{name: "HERE"})]).replace('"HERE"', number), encoding="ascii")
    (row,), _ = read_import(file)
    column = {"model_size": "weight_bytes", "model_n_params": "params_b", "n_threads": "threads"}.get(name, "compute")
    assert row[column] == {"compute": "cpu"}.get(column, "")


def test_names_come_without_hidden_characters(tmp_path):
    file = tmp_path / "bench.json"
    file.write_text(json.dumps([bench(cpu_info="\x1b[2JPi\u202e 5\udfff", model_type="\ud800x\x9b")]), encoding="ascii")
    (row,), _ = read_import(file)
    assert (row["board_key"], row["model"]) == ("[2JPi 5", "x")
    table = tmp_path / "table.csv"
    assert add_rows(table, [row]) == 1
    given = "board_key,compute,runtime,model,quant,decode_ms_per_tok\nb\x1b[2J,cpu,r\x9bt,m\u202e,Q4_0,10\n"
    table.write_text(given, encoding="utf-8")
    (row,), _ = read_import(table)
    assert [row[name] for name in ("board_key", "runtime", "model")] == ["b[2J", "rt", "m"]
