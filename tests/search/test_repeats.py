"""Rows that repeat: whole sets of equal rows are sampled, merged, and what they share is found."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Exact, Workload, auto
from onefold.approximations.problem import Problem
from onefold.kernels import RBF
from onefold.search.repeats import RepeatedRows

RNG = np.random.default_rng(0)
GROUP = RNG.permutation(np.repeat(np.arange(30), RNG.integers(1, 6, 30)))
X = RNG.standard_normal((30, 3))[GROUP]
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1]]) + RNG.standard_normal((GROUP.size, 2))
WEIGHT = RNG.uniform(0.1, 2.0, GROUP.size)


def problem(weighted=True, loss="sum"):
    weight = WEIGHT / WEIGHT.mean() if weighted else None
    whole = Problem(X, Y, None if weight is None else np.sqrt(weight), True)
    return whole if loss == "sum" else whole.of_mean()


def test_sets_are_those_of_equal_rows():
    repeats = RepeatedRows.of(problem())
    same = GROUP[:, None] == GROUP[None, :]
    assert_array_equal(repeats.set_of[:, None] == repeats.set_of[None, :], same)
    assert RepeatedRows.of(Problem(RNG.standard_normal((50, 2)), np.ones((50, 1)), None, True)) is None


@pytest.mark.parametrize("labelled", [False, True])
def test_a_sample_has_sets_with_all_of_their_rows(labelled):
    repeats = RepeatedRows.of(problem())
    rows = RNG.permutation(GROUP.size)
    training = np.sort(rows[: GROUP.size // 2])
    validation = np.sort(rows[GROUP.size // 2 : -10])
    labels = (X[:, 0] > 0.8) if labelled else None
    some = repeats.sampled(training, validation, 12, np.random.default_rng(1), labels)
    drawn = np.unique(GROUP[np.concatenate(some)])
    assert 12 <= drawn.size <= 13  # the share of each class is rounded up
    for part, sample in zip((training, validation), some):
        assert_array_equal(sample, part[np.isin(GROUP[part], drawn)])
    if labelled:
        assert labels[np.concatenate(some)].any()
    everything = repeats.sampled(training, validation, 30, np.random.default_rng(1), labels)
    assert_array_equal(everything[0], training)
    assert_array_equal(everything[1], validation)


def test_a_sample_without_validation_rows_has_all_of_them():
    """Folds may keep equal rows together, and test few of them."""
    repeats = RepeatedRows.of(problem())
    validation = np.flatnonzero(GROUP == 29)
    training = np.flatnonzero(GROUP != 29)
    for seed in range(10):
        some, others = repeats.sampled(training, validation, 1, np.random.default_rng(seed), None)
        assert some.size
        assert_array_equal(others, validation)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["sum", "mean"])
def test_merged_rows_make_the_same_function(weighted, loss):
    whole = problem(weighted, loss)
    training = np.arange(0, GROUP.size, 2)
    others = np.arange(1, GROUP.size, 4)
    repeats = RepeatedRows.of(whole)
    merged, rows = repeats.merged(whole, training, others)
    distinct = np.unique(GROUP[training]).size
    assert merged.n == rows.size == distinct + others.size
    assert_array_equal(merged.X, X[rows])
    assert_array_equal(np.sort(GROUP[rows[:distinct]]), np.unique(GROUP[training]))
    assert_array_equal(rows[distinct:], others)
    values = []
    for part in (whole.rows(training), merged.rows(np.arange(distinct))):
        model = Exact().start(part, [RBF(0.5)], Workload()).model(RBF(0.5))
        values.append(part.restore(model.expansion(part.ridge(0.3))).predict(X))
    assert_allclose(*values, rtol=1e-9, atol=1e-9)


def table(seed, *, labels):
    """300 sets of 2 to 10 equal rows, targets, and what no row tells: the effects of these sets."""
    generator = np.random.default_rng(3)
    columns = generator.standard_normal((300, 2))
    effect = generator.standard_normal(300)
    generator = np.random.default_rng(seed)
    sets = generator.permutation(np.repeat(np.arange(300), generator.integers(2, 11, 300)))
    y = 2 * columns[sets, 0] + effect[sets] + generator.standard_normal(sets.size)
    return columns[sets], (y > 0) if labels else y, effect[sets]


def score(values, y):
    """R², or accuracy."""
    return np.mean((values > 0) == y) if y.dtype == bool else 1 - np.mean((y - values) ** 2) / np.var(y)


@pytest.mark.parametrize("metric_rows", [None, 150])
@pytest.mark.parametrize("labels", [False, True])
def test_what_equal_rows_share_is_found(metric_rows, labels, monkeypatch):
    """Of rows drawn one by one few are equal, and wide kernels looked best: R² 0.67, 0.80 now."""
    monkeypatch.setattr(auto, "FIRST_ROWS", 60)
    features, y, _ = table(4, labels=labels)
    new, new_y, effect = table(5, labels=labels)
    grid = {"kernel": ["rbf", "laplacian"], "alphas": 2.0 ** np.arange(-7, 8, 2), "random_state": 0}
    estimator = LSSVCCV if labels else LSSVRCV
    model = estimator(**grid, metric="auto", blend=True, metric_rows=metric_rows).fit(features, y)
    smooth = score(2 * new[:, 0], new_y)
    best = score(2 * new[:, 0] + effect, new_y)
    assert model.score(new, new_y) > smooth + 0.5 * (best - smooth)
