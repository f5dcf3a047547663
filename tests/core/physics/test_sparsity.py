"""Sizes of matrices with zero weights: values, limits, and agreement with the article's bit mask."""

import numpy as np
import pytest

from core.articles.compression import bitmap_break_even_keep, bitmap_byte_ratio
from core.physics.sparsity import left_out, skipped_down_params, sparse_byte_ratio

SPARSITY = np.linspace(0.0, 0.95, 39)


@pytest.mark.parametrize(
    ("pattern", "bits", "ratio"),
    [
        ("2:4", 16.0, 0.5625),
        ("2:4", 8.0, 0.625),
        ("2:4", 4.0, 0.75),
        ("rows", 8.0, 0.5),
        ("unstructured", 16.0, 0.5625),
    ],
)
def test_half_of_the_weights(pattern, bits, ratio):
    assert sparse_byte_ratio(0.5, pattern, bits) == ratio


def test_two_of_four_saves_nothing_below_half_and_no_more_above():
    assert sparse_byte_ratio(np.array([0.0, 0.49, 0.5, 0.9]), "2:4", 8.0).tolist() == [1.0, 1.0, 0.625, 0.625]


def test_an_unstructured_mask_pays_from_the_article_s_break_even_on():
    for bits in (4.0, 8.0, 16.0):
        found = sparse_byte_ratio(SPARSITY, "unstructured", bits)
        assert found == pytest.approx(np.minimum(bitmap_byte_ratio(1.0 - SPARSITY, bits), 1.0))
        assert np.array_equal(found < 1.0, bitmap_break_even_keep(bits) - 1e-12 > 1.0 - SPARSITY)


@pytest.mark.parametrize("pattern", ["2:4", "rows", "unstructured"])
def test_more_zeros_are_never_more_bytes(pattern):
    found = sparse_byte_ratio(SPARSITY, pattern, 8.0)
    assert np.all(np.diff(found) <= 0.0)
    assert found[0] == 1.0
    assert np.all(left_out(SPARSITY, pattern) <= SPARSITY + 1e-15)


@pytest.mark.parametrize(
    ("sparsity", "pattern", "bits"),
    [(1.0, "rows", 8.0), (-0.1, "rows", 8.0), (0.5, "4:8", 8.0), (0.5, "rows", 0.0), (np.nan, "rows", 8.0)],
)
def test_nonsense_is_refused(sparsity, pattern, bits):
    with pytest.raises(ValueError, match=r"sparsity|pattern|value_bit"):
        sparse_byte_ratio(sparsity, pattern, bits)


def test_skipped_columns_of_the_down_projection():
    assert skipped_down_params(30, 576, 1536, 1.0) == 0.0
    assert float(skipped_down_params(30, 576, 1536, 0.85)) == pytest.approx(0.15 * 30 * 576 * 1536)
    with pytest.raises(ValueError, match="keep"):
        skipped_down_params(30, 576, 1536, 1.1)
