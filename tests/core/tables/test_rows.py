import pytest

from core.tables.rows import COLUMNS, read_table

HEADING = "board_key,compute,runtime,model,quant,decode_tok_s,decode_ms_per_tok,params_b,wind"
GOOD = "rk3588,npu,rkllm,Qwen2.5 1.5B,w8a8,20,50,1.54,north"


def written(tmp_path, *lines):
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_numbers_become_si_and_other_columns_are_kept(tmp_path):
    table = read_table(written(tmp_path, HEADING, GOOD))
    (row,) = table.rows
    assert row.line == 2
    assert row.decode_s == 0.05
    assert row.number["params_b"] == 1.54e9
    assert row.extra == {"wind": "north"}
    assert table.extra_columns == ("wind",)
    assert row.ttft_s is None
    assert row.energy_j_per_token is None


def test_speed_alone_gives_the_time(tmp_path):
    (row,) = read_table(written(tmp_path, HEADING, "a,cpu,r,m,q,4,,,")).rows
    assert row.decode_s == 0.25


@pytest.mark.parametrize(
    ("line", "column", "part"),
    [
        (GOOD.replace("20,50", "20,51x"), "decode_ms_per_tok", "'51x'"),
        (GOOD.replace("20,50", "-3,"), "decode_tok_s", "a number from"),
        (GOOD.replace("20,50", "inf,"), "decode_tok_s", "'inf'"),
        (GOOD.replace("20,50", "2_0,"), "decode_tok_s", "'2_0'"),
        (GOOD.replace("20,50", '"2,000",'), "decode_tok_s", "'2,000'"),
        (GOOD.replace("npu", "tpu"), "compute", "cpu, gpu or npu"),
        (GOOD.replace("rkllm", ""), "runtime", "nothing"),
        (GOOD.replace("20,50", "20,80"), "decode_ms_per_tok", "1000 / decode_tok_s"),
        (GOOD + ",more", "row", "10 cells"),
    ],
)
def test_bad_rows_are_listed_by_line_and_column(tmp_path, line, column, part):
    table = read_table(written(tmp_path, HEADING, GOOD, line, GOOD))
    assert [row.line for row in table.rows] == [2, 4]
    (problem,) = table.problems
    assert (problem.line, problem.column) == (3, column)
    assert part in str(problem)


@pytest.mark.parametrize(("between", "mark"), [(";", "\ufeff"), ("\t", ""), (",", "\ufeff")])
def test_semicolons_and_tabs_part_cells_too(tmp_path, between, mark):
    path = tmp_path / "table.csv"
    lines = (mark + HEADING, GOOD)
    path.write_bytes("\r\n".join(line.replace(",", between) for line in lines).encode())
    assert read_table(path).rows == read_table(written(tmp_path, HEADING, GOOD)).rows


@pytest.mark.parametrize(
    ("heading", "line"),
    [
        (HEADING.title().replace("_", " "), GOOD),
        (HEADING.replace(",", " , "), GOOD.replace(",", " , ")),
        ("\n,,\n" + HEADING, GOOD + ",,"),
        (HEADING.replace(",", ";"), GOOD.replace(",", ";").replace("1.54", "1,54")),
        (HEADING, GOOD.replace("npu", "NPU")),
        (HEADING + ",ttft_ms,power_mode", GOOD + ",NaN,n/a"),
    ],
)
def test_spelling_of_headings_and_numbers_is_free(tmp_path, heading, line):
    (row,) = read_table(written(tmp_path, heading, "", line)).rows
    (plain,) = read_table(written(tmp_path, HEADING, GOOD)).rows
    assert (row.text, row.number) == (plain.text, plain.number)


def test_what_could_be_misread_is_refused(tmp_path):
    with pytest.raises(ValueError, match="decode_tok_s alone: its unit is the one that it names"):
        read_table(written(tmp_path, HEADING.replace("decode_tok_s", "decode_tok_s [tok/min]"), GOOD))
    thousands = read_table(
        written(tmp_path, HEADING.replace(",", ";"), "a;cpu;r;m;q;2,000;;1,000;", "a;cpu;r;m;q;4;;;")
    )
    assert [problem.line for problem in thousands.problems] == [2, 2]
    both = read_table(written(tmp_path, HEADING.replace(",", ";"), "a;cpu;r;m;q;2,5;;;", "a;cpu;r;m;q;4.5;;;"))
    assert [str(problem)[:31] for problem in both.problems] == ["line 2: decode_tok_s: got '2,5'"]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ('"a,cpu,r,m,q,22,,', "a quote that is not closed where its cell ends"),
        ('a,cpu,"r"x,m,q,22,,', "a quote that is not closed where its cell ends"),
        ("a,cpu,r,m,q,22," + "x" * 200_000 + ",", "a cell without end"),
    ],
)
def test_a_broken_quote_costs_its_own_line_only(tmp_path, broken, why):
    table = read_table(written(tmp_path, HEADING, GOOD, broken, GOOD, "a,cpu", GOOD))
    assert [row.line for row in table.rows] == [2, 4, 6]
    assert [problem.line for problem in table.problems] == [3, 5]
    assert why in table.problems[0].got


def test_a_broken_quote_in_the_heading_names_its_line(tmp_path):
    with pytest.raises(ValueError, match=r"line 2: got a quote that is not closed .*, expected the names of columns"):
        read_table(written(tmp_path, "", '"' + HEADING, GOOD))


def test_a_quote_that_takes_in_whole_rows_is_one_that_was_not_closed(tmp_path):
    two = GOOD.replace("npu,", '"npu,'), GOOD.replace("rkllm,", 'rkllm",')
    table = read_table(written(tmp_path, HEADING, GOOD, two[0], GOOD, two[1], GOOD))
    assert [row.line for row in table.rows][:2] == [2, 4]
    assert table.problems[0].line == 3
    cell = GOOD.split(",")
    cell[2] = '"two\nlines"'
    table = read_table(written(tmp_path, HEADING, ",".join(cell), GOOD))
    assert [row.text["runtime"] for row in table.rows] == ["two\nlines", GOOD.split(",")[2]]


def test_a_sparse_model_is_true_or_false(tmp_path):
    heading = "board_key,compute,runtime,model,quant,decode_tok_s,moe_or_sparse"
    table = read_table(written(tmp_path, heading, "a,gpu,r,m,q,22,TRUE", "a,gpu,r,m,q,22,yes"))
    assert [row.text["moe_or_sparse"] for row in table.rows] == ["TRUE"]
    assert [str(problem) for problem in table.problems] == ["line 3: moe_or_sparse: got 'yes', expected true or false"]


def test_missing_needed_column_and_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"table\.csv: got no column quant in its first line, expected one: weight"):
        read_table(written(tmp_path, HEADING.replace(",quant", ""), "a,cpu,r,m,4,,,"))
    with pytest.raises(ValueError, match="twice"):
        read_table(written(tmp_path, HEADING + ",wind", GOOD + ",x"))
    binary = tmp_path / "b.csv"
    binary.write_bytes(b"GGUF\x03\x00\x00\x00")
    with pytest.raises(ValueError, match=r"^b\.csv: got bytes that are no text"):
        read_table(binary)
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="got no column"):
        read_table(tmp_path / "empty.csv")


def test_first_token_from_the_speed_of_the_prompt_and_energy_from_power(tmp_path):
    heading = "board_key,compute,runtime,model,quant,decode_ms_per_tok,prefill_tok_s,prompt_tokens,power_w"
    (row,) = read_table(written(tmp_path, heading, "a,cpu,r,m,q,100,64,128,5")).rows
    assert row.ttft_s == 2.0
    assert row.energy_j_per_token == pytest.approx(0.5)


def test_every_column_says_what_it_holds():
    assert all(about.meaning for about in COLUMNS.values())
    assert {name for name, about in COLUMNS.items() if about.needed} == {
        "board_key", "compute", "runtime", "model", "quant",
    }  # fmt: skip


def many(n):
    """Yield lines of three models, the third in one of a thousand rows, with an error in each of another thousand."""
    for i in range(n):
        model = "rare" if i % 1000 == 7 else f"m{i % 2}"
        yield f"b,cpu,r,{model},q,{'x' if i % 1000 == 9 else 20 + i % 7},,,north"


def test_a_large_table_is_checked_whole_and_kept_in_part(tmp_path):
    path = written(tmp_path, HEADING, *many(5000))
    table, whole = read_table(path, 100), read_table(path)
    assert (table.n_valid, table.n_invalid, table.n_problems) == (4995, 5, 5)
    assert table.problems == whole.problems
    assert len(whole.rows) == whole.n_valid == 4995
    assert 25 <= len(table.rows) <= 100
    assert all(row in whole.rows for row in table.rows)
    assert [row.line for row in table.rows if row.text["model"] == "rare"] == [9 + 1000 * i for i in range(5)]


def test_of_very_many_errors_the_first_are_kept_and_all_counted(tmp_path):
    table = read_table(written(tmp_path, HEADING, GOOD, *["a,cpu,r,m,q,x,y,,"] * 2000))
    assert (len(table.problems), table.n_problems, table.n_invalid) == (1000, 4000, 2000)


def test_a_file_larger_than_memory_may_hold_is_read_alike(tmp_path, monkeypatch):
    lines = [
        HEADING,
        GOOD,
        *many(50),
        GOOD.replace("north", "Nürnberg"),
        'a,cpu,r,m,q,"4',
        GOOD,
        'a,cpu,"r\n2",m,q,4,,,',
    ]
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        (tmp_path / "t.csv").write_text("\n".join(lines), encoding=encoding)
        at_once = read_table(tmp_path / "t.csv")
        with monkeypatch.context() as small:
            small.setattr("core.catalogue.text_files.MOST_BYTE", 16)
            assert read_table(tmp_path / "t.csv") == at_once
            small.setattr("core.catalogue.text_files.MOST_STREAMED_BYTE", 1 << 10)
            with pytest.raises(ValueError, match="got more than 1 KiB, expected a smaller file"):
                read_table(tmp_path / "t.csv")
        assert "Nürnberg" in {row.extra["wind"] for row in at_once.rows if row.extra}
