from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.physics.traffic import weight_byte
from core.predict.parameters import same_model
from core.tables.as_points import compare
from core.tables.models import model_facts, models_of
from core.tables.rows import PublishedRow, read_table
from tests.core.tables.test_as_points import row

CATALOGUE = load_catalogue()
TABLE = "resources/measurements/llm_decode.csv"
BOARD = "jetson_orin_nano_8gb_super"


def models(*rows):
    return models_of([replace(one, line=i) for i, one in enumerate(rows)], CATALOGUE.models)


def test_rows_of_one_name_are_one_model_of_one_shape():
    first, second = models(
        row(model="Hal 9B", params_b=9e9),
        row(model="org/hal-9b-instruct-q4_K_M", params_streamed_b=8.1e9, kv_bytes_per_token=131072.0),
    )
    assert first is second
    assert first.key == "hal-9b"
    assert first.total_params == 9e9
    assert first.body_params + first.head_params == pytest.approx(8.1e9)


def test_a_key_counts_before_a_name_but_not_for_models_of_other_sizes():
    one, other = models(row(model_key="x", model="Hal", params_b=9e9), row(model_key="x", model="Hall", params_b=9.1e9))
    assert one is other
    small, large = models(row(model_key="x", model="A", params_b=1e9), row(model_key="x", model="B", params_b=9e9))
    assert small.n_layers < large.n_layers
    assert small.key != large.key


def test_a_name_of_another_size_is_another_model():
    (known,) = models(row(model="Phi-3", params_b=3.8e9))
    (other,) = models(row(model="Phi-3", params_b=14e9))
    assert known.key == "phi-3-mini"
    assert other.key not in CATALOGUE.models
    assert other.total_params == 14e9


@pytest.mark.parametrize(
    ("changes", "total", "read"),
    [
        ({"model": "DeepSeekOCR-3B(A570M)"}, 3e9, 0.57e9),
        ({"model": "New-30B-A3B"}, 30e9, 3e9),
        ({"model": "NewMoE-1B-7B"}, 7e9, 1e9),
        ({"model": "New-7B"}, 7e9, None),
        ({"model": "New-7B", "params_b": 7.2e9}, 7.2e9, None),
        ({"model": "New", "params_streamed_b": 1e9}, None, 1e9),
    ],
)
def test_what_is_stated_of_a_model(changes, total, read):
    found = model_facts([row(**changes)])
    assert (found.total_params, found.read_params) == (total, read)


@pytest.mark.parametrize(
    ("changes", "missing"),
    [({"model": "Hal"}, "params_b"), ({"model": "Hal", "params_b": 9e9, "moe_or_sparse": "true"}, "params_streamed_b")],
)
def test_what_is_missing_is_named(changes, missing):
    assert missing in models(row(**changes))[0]


def renamed(one):
    """Return a row whose model the catalogue does not know."""
    key = one.text["model_key"]
    return PublishedRow(
        one.line, {**one.text, "model": f"X {one.text['model']}", "model_key": key and f"x_{key}"}, one.number
    )


def test_a_table_of_unknown_models_is_compared_like_one_of_known_models():
    rows = [one for one in read_table(TABLE).rows if one.text["board_key"] == BOARD]
    known, unknown = compare(rows, CATALOGUE), compare([renamed(one) for one in rows], CATALOGUE)
    by_line = {one.row.line: one for one in unknown.rows}
    assert set(by_line) == {one.row.line for one in known.rows}
    n_models = [len({same_model(one.decode.model) for one in of.rows}) for of in (known, unknown)]
    assert n_models[0] == n_models[1]
    ratio = []
    for one in known.rows:
        byte = [
            weight_byte(of.catalogue.models[at.model], of.catalogue.weight_formats[at.weights])
            for of, at in ((known, one.decode), (unknown, by_line[one.row.line].decode))
        ]
        ratio.append(byte[1] / byte[0])
        guess = unknown.catalogue.models[by_line[one.row.line].decode.model]
        assert guess.depth_log_sd > 0.0
    assert np.exp(np.mean(np.abs(np.log(ratio)))) < 1.1
    assert max(ratio) < 1.35
    assert min(ratio) > 0.7
