"""Published rows of the shipped table beside the operating point they fit."""

from dataclasses import replace

import pytest

from app.library.measurements import Measurement
from app.library.prediction_curves import Dots
from app.library.table_points import shipped_rows
from app.model.published import Published
from app.model.store import Store
from core.catalogue.load import load_catalogue
from core.spec import OperatingPoint, Provenance

CATALOGUE = load_catalogue()
POINT = OperatingPoint(
    board="rk3588", model="qwen2-1.5b", runtime="rkllm_npu", weights="w8a8", kv="fp16", context_tokens=192.0
)


@pytest.fixture(scope="module")
def rows():
    return shipped_rows(CATALOGUE)


def dots(store, output="decode_s", axis=""):
    return store.dots_elsewhere(output, axis).get(Provenance.PUBLISHED, Dots(*[()] * 4))


def store_of(rows, point=POINT):
    store = Store(CATALOGUE, point)
    store.published = Published(rows)
    return store


def test_the_row_of_an_rk3588_is_drawn_with_its_source(rows):
    found = dots(store_of(rows))
    assert found.median[0] == pytest.approx(0.0607533)
    assert found.x[0] == 0.0
    assert found.sources[0] == "airockchip/rknn-llm README.md"
    assert len(set(zip(found.median.tolist(), found.sources, strict=True))) == len(found.x)  # each once


@pytest.mark.parametrize(
    "other",
    [
        {"board": "rk3576"},
        {"model": "qwen2.5-1.5b"},
        {"weights": "w4a16"},
        {"kv": "int8"},
        {"alpha": 0.3},
        {"context_tokens": 4096.0},
    ],
)
def test_a_row_of_another_point_is_not(rows, other):
    assert 0.0607533 not in [
        round(t, 7) for t in dots(store_of(rows, replace(POINT, **other)), axis="point.beta").median
    ]


def test_a_context_near_enough_to_cost_the_same_counts_as_the_same(rows):
    assert len(dots(store_of(rows, replace(POINT, context_tokens=256.0))).x)


@pytest.mark.parametrize("weights", ["w8a8", "w4a16", "q4_k_m"])  # of the runtime; not of its board; of another one
def test_on_the_axis_of_contexts_and_formats_rows_stand_where_they_are(rows, weights):
    store = store_of(rows, replace(POINT, weights=weights))
    by_weights = dots(store, axis="point.weights")
    names = [key for key, _ in store.axis_range("point.weights").options]
    at = {names[int(x)]: t for x, t in zip(by_weights.x, by_weights.median, strict=True)}
    assert at["w8a8"] == pytest.approx(0.0607533)
    assert 192.0 in dots(store_of(rows), axis="point.context").x
    assert 64.0 in dots(store_of(rows), "ttft_s", "point.context").x


def test_they_join_rows_that_the_user_imported(rows):
    store = store_of(rows)
    value = {"median": 0.07, "q05": 0.07, "q95": 0.07, "n": 1, "provenance": "published"}
    store.set_machine("", [], elsewhere=[Measurement(POINT, {"decode_s": value, "source": "mine.csv"}, "", "")])
    found = dots(store)
    assert {"mine.csv", "airockchip/rknn-llm README.md"} <= set(found.sources)
    assert {0.07} < set(found.median.tolist())
