"""Tables for other programs: digits, empty cells and what is said of columns."""

import csv
import io

import numpy as np
import pandas as pd

from app.library.tables import Column, Table


def cells(table):
    return list(csv.reader(io.StringIO(table.csv())))


def test_floats_of_64_bits_keep_all_digits_and_those_of_32_bits_nine():
    rng = np.random.default_rng(0)
    wide = np.concatenate([10.0 ** rng.uniform(-300, 300, 200), [0.1, 1 / 3, 5e-324, 1e16, 123456789.0, 0.0]])
    narrow = np.concatenate([10.0 ** rng.uniform(-30, 30, 200), [0.1, 1 / 3, 16777217, 1e10, 5.0, 0.0]]).astype("f4")
    heading, *rows = cells(Table(pd.DataFrame({"wide": wide, "narrow": narrow})))
    assert heading == ["wide", "narrow"]
    assert [row[0] for row in rows] == [repr(x) for x in wide.tolist()]
    assert [row[1] for row in rows] == [f"{x:.9g}" for x in narrow]
    assert np.array([row[1] for row in rows], dtype="f4").tolist() == narrow.tolist()


def test_a_cell_without_a_value_is_empty():
    frame = pd.DataFrame({"a": [1.5, np.nan], "b": np.array([np.nan, 2], "f4"), "c": ["", "x"], "d": [None, 3.0]})
    assert cells(Table(frame))[1:] == [["1.5", "", "", ""], ["", "2", "x", "3.0"]]


def test_a_heading_says_unit_and_provenance():
    columns = {"power_w": Column("W", "measured", "INA3221"), "time_s": Column("s")}
    frame = pd.DataFrame({"time_s": [0.0], "power_w": [5.0], "note": ["a, b"]})
    assert cells(Table(frame, columns))[0] == ["time_s [s]", "power_w [W, measured]", "note"]
    assert frame.columns.tolist() == ["time_s", "power_w", "note"]


def test_a_table_may_say_how_many_digits_its_numbers_have():
    frame = pd.DataFrame({"a": [1 / 3, 2e6], "n": [4, 5], "t": ["1.23456789", "x"]})
    assert cells(Table(frame, number="%.6g"))[1:] == [["0.333333", "4", "1.23456789"], ["2e+06", "5", "x"]]
