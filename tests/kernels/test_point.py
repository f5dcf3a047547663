"""What the measured run refuses of a point agrees with the table of fields, which a board does not have."""

import math
from dataclasses import fields

import numpy as np
import pytest

from core.spec import BY_NAME, KV_LAYOUTS, LAYOUTS, POLICIES, OperatingPoint
from core.spec.score_weights import score_weights
from kernels.cache import laid_out
from kernels.eviction import policies, prune
from kernels.point import Point

PLAIN = {"weights": "int4", "kv": "bf16", "policy": "attention_mass", "layout": "compacted"}
PLAIN |= {"context_tokens": 256.0, "alpha": 0.5, "bandwidth_byte_s": None, "reselect_tokens": 0.0}
MOST_TOKENS = 2**20
NUMBERS = [field.name for field in fields(Point) if field.name in BY_NAME and BY_NAME[field.name].is_number]


def taken(name, value):
    return getattr(Point.checked(PLAIN | {name: value}, MOST_TOKENS), name) == value


def refused(name, value):
    with pytest.raises(ValueError, match=f"^{name}: got "):
        Point.checked(PLAIN | {name: value}, MOST_TOKENS)
    return True


def test_the_run_has_fields_of_the_operating_point_and_threads_only():
    assert {field.name for field in fields(Point)} - BY_NAME.keys() == {"threads"}
    assert NUMBERS == ["context_tokens", "alpha", "bandwidth_byte_s", "reselect_tokens", "activation_keep"]


@pytest.mark.parametrize("name", NUMBERS)
def test_ranges_are_those_of_the_table(name):
    field = BY_NAME[name]
    step = 1.0 if field.whole else 0.0
    low = 2.0 if name == "context_tokens" else field.low  # a prompt and one token more
    high = MOST_TOKENS if name == "context_tokens" else field.high
    below = low - 1.0 if step else np.nextafter(low, -math.inf)
    assert taken(name, float(low))
    assert refused(name, float(below))
    if math.isfinite(high):
        last = np.nextafter(high, -math.inf) if field.open_high else high
        after = high if field.open_high else high + 1.0 if step else np.nextafter(high, math.inf)
        assert taken(name, float(last))
        assert refused(name, float(after))
    if field.whole:
        assert refused(name, low + 0.5)


def test_names_are_those_of_the_table():
    assert set(policies.POLICIES) == set(POLICIES)
    assert set(prune.LAYOUTS) == set(LAYOUTS)
    assert set(laid_out.LAYOUTS) == set(KV_LAYOUTS)


def test_score_weights_are_read_as_in_the_table():
    usual = BY_NAME["score_weights"]
    assert Point.checked(PLAIN, MOST_TOKENS).score_weights == score_weights(usual.default)
    for text in (*usual.options, "0.1,0.2,0.3,0.4", "0.333333/0.333333/0.333333/0"):
        found = Point.checked(PLAIN | {"score_weights": text}, MOST_TOKENS).score_weights
        assert found == score_weights(text)
        assert sum(found) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("text", ["", "1", "0.5/0.5/0.5/0", "-1/1/1/0", "nan/0/0/1", "a/b/c/d", "0/0/0/0", 0.5, ["1"]])
def test_bad_score_weights_are_refused(text):
    assert refused("score_weights", text)
    with pytest.raises(ValueError, match=r"^score_weights: got "):
        score_weights(text)


@pytest.mark.parametrize("name", ["weight_sparsity", "on_chip_frac", "adapter_rank"])
def test_what_no_run_can_set_is_refused_rather_than_measured_as_another_point(name):
    assert Point.checked(PLAIN | {name: 0.0}, MOST_TOKENS)
    assert refused(name, 0.5)


@pytest.mark.parametrize(("layout", "kv"), [("rows", "bf16"), ("blocked", "int8"), ("token_major", "int4")])
def test_layouts_that_a_run_cannot_hold_are_refused(layout, kv):
    with pytest.raises(ValueError, match=f"^kv_layout: got '{layout}'"):
        Point.checked(PLAIN | {"kv_layout": layout, "kv": kv}, MOST_TOKENS)


def test_a_head_of_another_format_is_refused_rather_than_measured_as_another_point():
    assert Point.checked(PLAIN | {"head": OperatingPoint().head}, MOST_TOKENS).weights == "int4"
    with pytest.raises(ValueError, match="head: got 'fp16', expected none"):
        Point.checked(PLAIN | {"head": "fp16"}, MOST_TOKENS)
