"""The sample of a large table: bounded, evenly spaced, of every sort, and the table itself where that is small."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from core.tables.row_sample import RowSample


def sampled(sorts, most):
    sample = RowSample(most)
    for i, sort in enumerate(sorts):
        sample.add(i, sort)
    return sample


@given(st.lists(st.integers(0, 5), max_size=60))
def test_within_the_limit_it_is_the_table(sorts):
    for most in (None, max(len(sorts), 1)):
        assert sampled(sorts, most).rows() == list(range(len(sorts)))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=300), st.integers(1, 40))
def test_it_is_bounded_and_each_sort_is_in_it_where_there_is_place(sorts, most):
    sample = sampled(sorts, most)
    rows = sample.rows()
    assert rows == sorted(set(rows))
    assert len(rows) <= most
    assert sample.n_seen == len(sorts)
    if len(set(sorts)) <= most:
        assert {sorts[i] for i in rows} == set(sorts)


def test_a_rare_sort_is_kept_whole_among_many_rows_of_another():
    sorts = ["rare" if i % 1000 == 7 else "usual" for i in range(20_000)]
    rows = sampled(sorts, 100).rows()
    assert [i for i in rows if sorts[i] == "rare"] == [i for i in range(20_000) if sorts[i] == "rare"]
    usual = [i for i in rows if sorts[i] == "usual"]
    gaps = {b - a for a, b in pairwise(usual)}
    assert max(gaps) - min(gaps) <= 2  # evenly spaced
