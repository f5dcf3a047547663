"""Parameters of low-rank adapters, against those of single matrices."""

import pytest

from core.articles import compression
from core.catalogue.load import load_catalogue
from core.physics.adapters import adapter_params

LLAMA = load_catalogue().models["llama-3-8b"]


def test_the_sum_over_all_matrices_of_a_model():
    attention = [(4096, 4096), (4096, 1024), (4096, 1024), (4096, 4096)]
    feed_forward = [(4096, 14336), (4096, 14336), (14336, 4096)]
    for matrices, shapes in (("attention", attention), ("all", attention + feed_forward)):
        each = sum(compression.adapter_params(n_in, n_out, 16) for n_in, n_out in shapes)
        assert float(adapter_params(LLAMA, 16, matrices)) == 32 * each


def test_no_rank_is_no_adapter_and_a_wrong_one_is_refused():
    assert adapter_params(LLAMA, 0, "all") == 0.0
    with pytest.raises(ValueError, match="rank"):
        adapter_params(LLAMA, -1, "all")
    with pytest.raises(ValueError, match="matrices"):
        adapter_params(LLAMA, 4, "mlp")
