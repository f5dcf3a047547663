import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.eviction.policies import (
    PAGE_TOKENS,
    n_kept,
    select,
    select_pages,
    sinks_recent_scores,
)


@pytest.mark.parametrize(
    ("n", "alpha", "kept"), [(10, 0.3, 7), (10, 0.9, 1), (2048, 0.623, 773), (2048, 0.6, 820), (1, 0.99, 1), (7, 0, 7)]
)
def test_keep_count_golden(n, alpha, kept):
    assert n_kept(n, alpha) == kept


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_keep_count_is_the_smallest_that_removes_no_more_than_alpha(n, alpha):
    kept = n_kept(n, alpha)
    assert 1 <= kept <= n
    assert kept >= n - alpha * n - 1e-6
    assert kept == 1 or kept - 1 < n - alpha * n


@pytest.mark.parametrize(
    ("n", "alpha", "name"), [(0, 0.5, "n_tokens"), (5, 1.0, "alpha"), (5, -0.1, "alpha"), (5, float("nan"), "alpha")]
)
def test_keep_count_range(n, alpha, name):
    with pytest.raises(ValueError, match=name):
        n_kept(n, alpha)


def test_sinks_and_recent_window():
    assert select(sinks_recent_scores(20), 8).tolist() == [0, 1, 2, 3, 16, 17, 18, 19]


@pytest.mark.parametrize("keep", range(1, 41))
def test_selection_is_sorted_unique_and_holds_sinks_and_the_last_token(keep):
    scores = torch.randn(2, 3, 40, generator=torch.Generator().manual_seed(keep))
    chosen = select(scores, keep)
    assert chosen.shape == (2, 3, keep)
    assert (chosen.diff(dim=-1) > 0).all()
    assert (chosen[..., -1] == 39).all()
    if keep >= 6:
        assert (chosen[..., :4] == torch.arange(4)).all()
    if keep == 40:
        assert torch.equal(chosen[0, 0], torch.arange(40))


def test_selection_keeps_the_highest_scores_between_sinks_and_window():
    scores = torch.zeros(100)
    scores[[30, 50, 70]] = torch.tensor([1.0, 3.0, 2.0])
    assert select(scores, 10, recent_share=0.4)[4:6].tolist() == [50, 70]


@pytest.mark.parametrize("n_tokens", [64, 100, 640, 650])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9, 0.99])
def test_pages_are_whole_enough_and_no_more(n_tokens, alpha):
    keep = n_kept(n_tokens, alpha)
    chosen = select_pages(torch.randn(2, n_tokens, generator=torch.Generator().manual_seed(0)), keep)
    assert (chosen.diff(dim=-1) > 0).all()
    assert chosen[0, -1] == n_tokens - 1
    assert keep <= chosen.shape[-1] < keep + 2 * PAGE_TOKENS
    for row in chosen:
        pages, counts = (row // PAGE_TOKENS).unique(return_counts=True)
        sizes = torch.minimum(torch.tensor(PAGE_TOKENS), n_tokens - pages * PAGE_TOKENS)
        assert torch.equal(counts, sizes)


@pytest.mark.parametrize("choose", [select, select_pages])
def test_keep_out_of_range_raises(choose):
    for keep in (0, 11):
        with pytest.raises(ValueError, match=f"keep: got {keep}, expected 1..10"):
            choose(torch.zeros(10), keep)
