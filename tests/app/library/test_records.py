"""Points in files: every field is kept, and what an older program wrote means the same point."""

import json
from dataclasses import replace

import msgspec
import pytest

from app.cli.shared.measured_grid import Work, differing, journal_file
from app.cli.shared.measured_table import table_row
from app.library import schema
from app.library.axes import canonical, checked, exists
from app.library.files import FileError
from app.library.measurements import Measurement, append_measurement, load_measurements
from app.library.records import PointRecord, point_record
from app.model.measured_points import Measured, point_key
from core.catalogue.load import load_catalogue
from core.spec import FIELDS, OperatingPoint

CATALOGUE = load_catalogue()
PLAIN = OperatingPoint(
    board="jetson_orin_nano_8gb_super", runtime="qnn_npu", model="llama-3.2-1b", alpha=0.25, context_tokens=512.0,
    policy="composite", weight_sparsity=0.25, on_chip_frac=0.25, adapter_rank=8.0,
)  # fmt: skip
"""Pruned, on a board with power modes, of a runtime with compiled graphs: no field of it is without effect."""
OTHER = {
    "board": "rk3588", "power_mode": "15W", "model": "qwen2.5-1.5b", "runtime": "builtin", "alpha": 0.5,
    "bandwidth_byte_s": 3e10, "beta": 2.0, "context_tokens": 2048.0, "weights": "int8", "kv": "int8",
    "policy": "key_norm", "layout": "paged", "reselect_tokens": 64.0, "head": "fp16", "graph_tokens": 2048.0,
    "power_limit_w": 12.0, "compensation": "both", "score_weights": "0.4/0.3/0.2/0.1", "activation_keep": 0.5,
    "kv_layout": "blocked", "weight_sparsity": 0.5,
    "sparsity_pattern": "rows", "on_chip_frac": 0.5, "on_chip_byte_s": 1e12,
    "adapter_rank": 16.0, "adapter_matrices": "all",
}  # fmt: skip
BODY = {"decode_s": {"median": 0.009, "q05": 0.0088, "q95": 0.0093, "n": 21, "provenance": "measured"}}
FIELD = pytest.mark.parametrize("name", [field.name for field in FIELDS])


def changed(name):
    return replace(PLAIN, **{name: OTHER[name]})


def measurement(point):
    return Measurement(point, BODY, "2026-01-01T00:00:00+00:00", "m")


def test_both_points_exist_whichever_field_differs():
    assert OTHER.keys() == {field.name for field in FIELDS}
    assert exists(PLAIN, CATALOGUE)
    assert all(exists(changed(name), CATALOGUE) for name in OTHER)


@FIELD
def test_points_that_differ_in_a_field_differ_in_files(name, tmp_path):
    point, path = changed(name), tmp_path / "measurements.jsonl"
    assert point_record(point) != point_record(PLAIN)
    assert msgspec.convert(point_record(point), PointRecord).point() == point
    for one in (PLAIN, point):
        append_measurement(path, measurement(one))
    assert [m.point for m in load_measurements(path, "m")[0]] == [PLAIN, point]


@FIELD
def test_points_that_differ_in_a_field_have_keys_journals_and_rows_of_their_own(name):
    point = changed(name)
    assert point_key(point, CATALOGUE) != point_key(PLAIN, CATALOGUE)
    assert journal_file(Work((point,), ("decode",))) != journal_file(Work((PLAIN,), ("decode",)))
    assert differing([point, PLAIN]) == [name]
    rows = [table_row(measurement(one), CATALOGUE) for one in (point, PLAIN)]
    column = next(field.column or field.name for field in FIELDS if field.name == name)
    assert rows[0].keys() == rows[1].keys()
    assert rows[0][column] != rows[1][column]


def test_a_record_of_an_older_program_is_the_point_with_defaults_and_counts_for_it(tmp_path):
    older = {
        "board": "this", "power_mode": "", "model": "smollm2-135m", "runtime": "builtin", "alpha": 0.5,
        "bandwidth_byte_s": None, "beta": 1.0, "context_tokens": 512.0, "weights": "int4", "kv": "bf16",
        "policy": "attention_mass", "layout": "compacted", "reselect_tokens": 0.0,
    }  # fmt: skip
    path = tmp_path / "measurements.jsonl"
    line = {"machine": "m", "time_utc": "2026-01-01T00:00:00+00:00", "point": older, "body": BODY}
    path.write_text(json.dumps(line) + "\n")
    found, notes = load_measurements(path, "m")
    here = OperatingPoint(alpha=0.5, context_tokens=512.0)
    assert (found[0].point, notes) == (here, [])
    assert Measured(found, CATALOGUE).at(here, CATALOGUE) == found
    assert Measured(found, CATALOGUE).at(replace(here, head="fp16"), CATALOGUE) == []
    assert list(point_record(here).items()) == list(older.items())  # so do journals that are named after it go on


@pytest.mark.parametrize("missing", ["board", "model", "weights", "context_tokens"])
def test_a_file_states_board_model_weights_and_context(missing):
    record = {name: value for name, value in point_record(PLAIN).items() if name != missing}
    with pytest.raises(FileError, match=f"missing required field {missing}"):
        schema.convert(record, PointRecord, "edge.json")


def test_what_a_file_leaves_out_is_the_default():
    record = {"board": "this", "model": "smollm2-135m", "weights": "int4", "context_tokens": 1024.0}
    assert msgspec.convert(record, PointRecord).point() == OperatingPoint()


def test_a_compiled_context_counts_only_where_graphs_are_compiled():
    usual = CATALOGUE.runtimes["qnn_npu"].graph_tokens
    assert canonical(replace(PLAIN, graph_tokens=2048.0), CATALOGUE).graph_tokens == 2048.0
    assert canonical(replace(PLAIN, graph_tokens=usual), CATALOGUE).graph_tokens == 0.0
    assert canonical(OperatingPoint(graph_tokens=2048.0), CATALOGUE) == OperatingPoint()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("score_weights", {"policy": "key_norm"}), ("score_weights", {"alpha": 0.0}),
        ("sparsity_pattern", {"weight_sparsity": 0.0}), ("on_chip_byte_s", {"on_chip_frac": 0.0}),
        ("adapter_matrices", {"adapter_rank": 0.0}),
    ],
)  # fmt: skip
def test_an_option_without_effect_does_not_tell_points_apart(name, what):
    same = [canonical(replace(one, **what), CATALOGUE) for one in (PLAIN, changed(name))]
    assert same[0] == same[1]
    assert canonical(changed(name), CATALOGUE) == changed(name)


@pytest.mark.parametrize("text", ["0.4,0.3,0.2,0.1", "0.4/0.3/0.2/0.1", "0.40 0.30 0.20 0.10"])
def test_score_weights_are_one_point_however_they_are_typed(text):
    assert checked("point.score_weights", text, PLAIN, CATALOGUE) == "0.4/0.3/0.2/0.1"


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (
            "point.score_weights",
            "1,1,0,0",
            "score_weights: got '1,1,0,0', expected four shares of 0 to 1 that sum to 1",
        ),
        ("point.activation_keep", 0.0, "point.activation_keep is 0: expected 0.01 to 1"),
        ("point.kv_layout", "rows", "point.kv_layout is 'rows': "),
        ("point.weight_sparsity", 1.0, "point.weight_sparsity is 1: expected 0 <= weight_sparsity < 1"),
        ("point.on_chip", 1.5, "point.on_chip is 1.5: expected 0 to 1"),
        ("point.adapter_rank", 2.5, "point.adapter_rank is 2.5: expected a whole number"),
        ("point.head", "int7", "point.head is 'int7': expected one of"),
        ("point.head", "int3", "point.head is 'int3': expected one of"),  # it has no speed
        ("point.graph", 0.5, "point.graph is 0.5: expected a whole number of tokens"),
        ("point.graph", -1.0, "point.graph is -1: expected a whole number of tokens"),
        ("point.graph", "4k", "point.graph is '4k': expected a number"),
    ],
)
def test_rare_fields_are_checked(path, value, sentence):
    with pytest.raises(ValueError, match=sentence):
        checked(path, value, PLAIN, CATALOGUE)
    assert checked("point.head", "", PLAIN, CATALOGUE) == ""
    assert checked("point.graph", 4096, PLAIN, CATALOGUE) == 4096.0
