from dataclasses import replace

import numpy as np
import pytest

from core.catalogue.load import load_catalogue
from core.catalogue.shape_regression import Line, ModelFacts, TypicalShapes
from core.physics.traffic import kv_byte_per_token, prefill_weight_byte, weight_byte
from core.units import Z90

CATALOGUE = load_catalogue()
MODELS = {
    key: model
    for key, model in CATALOGUE.models.items()
    if model.n_attention_layers is None and model.total_params < 1.6 * (model.body_params + model.head_params)
}
TYPICAL = TypicalShapes.of(CATALOGUE.models.values())
FP16 = CATALOGUE.kv_formats["fp16"]


def shape(**stated):
    return TYPICAL.shape("m", "m", ModelFacts(**stated))


def stated(model):
    return ModelFacts(
        model.total_params, model.body_params + model.head_params, kv_byte_per_token(model, FP16), weighed=True
    )


def guessed_without(family):
    """Guess the models of a family from the others."""
    others = TypicalShapes.of(model for key, model in CATALOGUE.models.items() if not key.startswith(family))
    return {k: others.shape(k, k, stated(m)) for k, m in MODELS.items() if k.startswith(family)}


def test_shapes_grow_with_their_parameters():
    sizes = (2e8, 1e9, 7e9, 70e9)
    shapes = [shape(read_params=size) for size in sizes]
    assert [one.body_params + one.head_params for one in shapes] == pytest.approx(sizes)
    for quantity in ("n_layers", "hidden_size", "head_params"):
        assert np.all(np.diff([getattr(one, quantity) for one in shapes]) > 0)
    assert 25 <= shapes[2].n_layers <= 40
    assert 3000 <= shapes[2].hidden_size <= 5000


def test_what_is_stated_is_kept():
    made = shape(total_params=8.03e9, read_params=7.5047e9, kv_byte_per_token=131072.0)  # as Llama 3 8B
    assert kv_byte_per_token(made, FP16) == pytest.approx(131072.0, rel=0.01)
    assert made.n_layers == 32
    assert made.head_params == pytest.approx(0.5253e9)
    assert not made.tied_embeddings
    assert made.total_params == 8.03e9
    assert (made.cache_log_sd, made.body_log_sd) == (0.0, 0.0)


def test_less_is_stated_less_is_certain():
    most = shape(total_params=8.03e9, read_params=7.5047e9, kv_byte_per_token=131072.0, weighed=True)
    bare, named = shape(total_params=8.0312e9), shape(total_params=8.0e9)
    assert most.read_log_sd == 0.0
    assert 0.0 < bare.read_log_sd < named.read_log_sd
    assert bare.cache_log_sd > 0.5
    assert bare.body_log_sd > 0.0
    assert shape(total_params=5e8).body_log_sd > shape(total_params=7e10).body_log_sd


def test_experts_rest_and_make_it_deeper():
    dense, sparse = shape(read_params=3e9), shape(read_params=3e9, total_params=30e9)
    assert sparse.n_layers > dense.n_layers
    assert weight_byte(sparse, CATALOGUE.weight_formats["fp16"]) == pytest.approx(6e9)
    assert prefill_weight_byte(sparse, CATALOGUE.weight_formats["fp16"], 1e4) > 40e9


def test_nothing_stated_is_refused():
    with pytest.raises(ValueError, match="expected at least one"):
        shape(kv_byte_per_token=1e5)


@pytest.mark.parametrize("family", ["llama", "qwen", "gemma", "pythia", "falcon", "olmo"])
def test_families_are_guessed_from_the_others(family):
    guesses = guessed_without(family)
    off = [abs(np.log(guesses[k].n_layers / MODELS[k].n_layers)) for k in guesses]
    assert np.median(off) < 0.1


def test_intervals_of_guesses_hold():
    inside, layers = [], []
    for family in {key.partition("-")[0] for key in MODELS}:
        for key, guess in guessed_without(family).items():
            off = abs(np.log(guess.n_layers / MODELS[key].n_layers))
            inside.append(off <= Z90 * max(guess.depth_log_sd, 1e-9))
            layers.append(off == 0.0)
    assert 0.85 <= np.mean(inside) <= 0.99
    assert np.mean(layers) > 0.75  # the width of the cache nearly tells


def test_models_of_one_shape_count_once():
    models = list(CATALOGUE.models.values())
    again = TypicalShapes.of([*models, *(replace(models[0], key=f"copy{i}") for i in range(50))])
    assert np.array_equal(again.depth.slope, TYPICAL.depth.slope)


def test_a_line_is_robust():
    x = np.column_stack([np.ones(20), np.arange(20.0)])
    y = 3.0 + 0.5 * x[:, 1]
    y[3] += 50.0
    line = Line.through(x, y)
    assert line.slope == pytest.approx([3.0, 0.5], abs=0.05)
    assert line.at(4.0) == pytest.approx(5.0, abs=0.1)
    assert line.log_sd > 5.0
