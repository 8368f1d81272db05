"""The constant that a classifier must beat: the mean of the rows trained on, for any splits."""

import numpy as np
import pytest
from sklearn.model_selection import LeaveOneOut, RepeatedKFold

from onefold.approximations import Problem
from onefold.criteria import Task, resolve_criterion
from onefold.heldout import make_splits
from onefold.search.choice import constant_predictions


@pytest.mark.parametrize(
    "cv", ["loo", LeaveOneOut(), 5, RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_is_the_mean_of_the_rows_that_each_split_trains_on(cv, weighted):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(10) < 3, 1.0, -1.0)
    v = rng.uniform(0.5, 2.0, 10) if weighted else np.ones(10)
    root = np.sqrt(v) if weighted else None
    problem, task = Problem(rng.normal(size=(10, 2)), y[:, None], root, True), Task(None, y, None)
    splits = make_splits(cv, np.zeros((10, 1)), y, n=10)
    found = constant_predictions(resolve_criterion("mse", classifier=False).start(problem, task, splits))
    splitter = LeaveOneOut() if isinstance(cv, str) else cv
    pairs = make_splits(splitter, np.zeros((10, 1)), y, n=10)
    literal: list[list[float]] = [[] for _ in y]
    for test, left in zip(pairs.tests, pairs.left_out):
        train = np.setdiff1d(np.arange(10), left)
        for row in test:
            literal[row].append(np.average(y[train], weights=v[train]))
    np.testing.assert_allclose(found[:, 0], [np.mean(one) for one in literal], rtol=1e-13)
