"""The r-th smallest of shifted lists against laying all elements side by side."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.calibration.order_statistics import SortedLists, quantile_ranks, upper_rank


def brute_force(values, list_of, shift, stretch, rank):
    elements = values[None, :] if stretch is None else stretch[:, list_of] * values
    return np.sort(shift[:, list_of] + elements, axis=1)[:, rank - 1]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 7),
    size=st.integers(1, 60),
    ties=st.booleans(),
    stretched=st.booleans(),
    shift_scale=st.sampled_from([0.0, 1e-12, 1.0, 1e12]),
    value_scale=st.sampled_from([0.0, 1e-12, 1.0, 1e12]),
)
def test_both_ways_give_the_element_itself(seed, count, size, ties, stretched, shift_scale, value_scale):
    generator = np.random.default_rng(seed)
    values = generator.integers(-3, 4, size) * 1.0 if ties else generator.standard_normal(size)
    values = value_scale * values
    list_of = generator.integers(0, count, size)  # some lists may be empty
    shift = shift_scale * (
        generator.integers(-2, 3, (9, count)) if ties else generator.standard_normal((9, count))
    )
    stretch = np.exp(3 * generator.standard_normal((9, count))) if stretched else None
    lists = SortedLists.of(values, list_of, count)
    for rank in {1, size, int(generator.integers(1, size + 1)), max(1, size // 2)}:
        expected = brute_force(values, list_of, shift, stretch, rank)
        for way in (lists.smallest, lists._by_bisection, lists._by_partition):
            np.testing.assert_array_equal(way(rank, shift, stretch), expected)


@pytest.mark.parametrize("size", [300, 4000])
def test_long_lists_and_many_rows(size):
    generator = np.random.default_rng(size)
    values, list_of = np.round(generator.standard_normal(size), 2), generator.integers(0, 5, size)
    shift = np.round(generator.standard_normal((700, 5)), 1)
    lists = SortedLists.of(values, list_of, 5)
    for rank in (1, 17, size // 2, size):
        expected = brute_force(values, list_of, shift, None, rank)
        np.testing.assert_array_equal(lists.smallest(rank, shift), expected)


def test_one_list_is_the_element_of_its_rank():
    lists = SortedLists.of(np.array([3.0, 1.0, 2.0]), np.zeros(3, dtype=int), 1)
    assert lists.smallest(2, np.zeros((1, 1)))[0] == 2.0
    with pytest.raises(ValueError, match="rank 4 is not among 1 to 3"):
        lists.smallest(4, np.zeros((1, 1)))


def test_scratch_follows_the_working_memory():
    generator = np.random.default_rng(0)
    values, list_of = generator.standard_normal(500), np.arange(500)
    shift = generator.standard_normal((40, 500))
    lists = SortedLists.of(values, list_of, 500)
    expected = brute_force(values, list_of, shift, None, 450)
    with sklearn.config_context(working_memory=0.01):  # two rows at a time
        np.testing.assert_array_equal(lists.smallest(450, shift), expected)


def test_ranks_are_those_of_exact_arithmetic():
    assert upper_rank(0.9, 99) == 90
    assert upper_rank(0.95, 19) == 19
    assert upper_rank(0.9, 8) == 9
    assert upper_rank(0.9, 9) == 9
    assert quantile_ranks([0.05, 0.1, 0.5, 0.9, 0.95], 19) == [1, 2, 10, 18, 19]
    assert quantile_ranks([0.01, 0.99], 19) == [0, 20]
    for count in range(1, 60):
        shares = np.linspace(0.01, 0.99, 99)
        ranks = quantile_ranks(shares.tolist(), count)
        assert np.all(np.diff(ranks) >= 0)
        assert [count + 1 - rank for rank in ranks[:49]] == ranks[:49:-1]
