from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.physics.stages import STAGES, binding_parts_s, stages_s, weight_shares
from core.predict.scenario import predict
from core.spec import OperatingPoint


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue()


def predicted(catalogue, **changes):
    point = replace(OperatingPoint(), **changes)
    at = catalogue.resolve(point)
    prediction = predict(point, catalogue)
    return prediction, stages_s(prediction.parts_s, at.model, at.weights)


@pytest.mark.parametrize("weights", ["fp32", "int4"])
def test_stages_add_up_to_the_token(catalogue, weights):
    prediction, stages = predicted(catalogue, weights=weights)
    assert tuple(stages) == STAGES
    assert sum(stages.values()) == pytest.approx(prediction.decode_s.median, rel=1e-12)
    assert all(value >= 0 for value in stages.values())


def test_shares_are_of_the_bytes_that_a_token_reads(catalogue):
    shape = catalogue.models["smollm2-135m"]
    shares = weight_shares(shape, catalogue.weight_formats["fp32"])
    assert sum(shares.values()) == pytest.approx(1.0)
    whole = shape.body_params + shape.head_params
    assert shares["mlp"] == pytest.approx(30 * 3 * 576 * 1536 / whole, rel=1e-3)  # norms are no matrix
    assert shares["qkv"] / shares["out"] == pytest.approx((576 + 2 * 192) / 576)
    assert weight_shares(shape, catalogue.weight_formats["int4"])["head"] > shares["head"]  # the head stays in 8 bits


def test_only_attention_grows_with_the_context(catalogue):
    (_, short), (_, long) = (predicted(catalogue, context_tokens=n) for n in (256.0, 4096.0))
    for name in STAGES:
        if name == "attention":
            assert long[name] > 2 * short[name]
        else:
            assert long[name] == pytest.approx(short[name])


def test_a_sweep_gives_arrays(catalogue):
    alpha = np.linspace(0, 0.9, 5)
    prediction, stages = predicted(catalogue, alpha=alpha)
    assert np.allclose(
        sum(np.broadcast_to(value, alpha.shape) for value in stages.values()), prediction.decode_s.median
    )


def test_the_side_that_binds_takes_all_of_what_overlaps(catalogue):
    bound, _ = predicted(catalogue, model="llama-3-8b", bandwidth_byte_s=1e13)
    assert bound.binding == "compute"
    parts = binding_parts_s(bound)
    assert sum(parts.values()) == pytest.approx(bound.decode_s.median, rel=1e-12)
    assert parts["weights"] == parts["kv"] == parts["unpack"] == 0.0
    assert parts["compute"] > bound.parts_s["compute"] > 0.0
    free, _ = predicted(catalogue, model="llama-3-8b")
    assert free.binding == "memory"
    assert binding_parts_s(free) == free.parts_s
