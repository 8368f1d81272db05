"""Every approximation predicts a fold with a model that was fitted without it, kernel and all."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

from onefold import LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import ConjugateGradients, Nystroem
from onefold.search.loop import Search

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")

RNG = np.random.default_rng(2)
X = RNG.standard_normal((60, 3))
Y = np.column_stack([np.sin(2 * X[:, 0]) + 0.1 * RNG.standard_normal(60), X[:, 1] * X[:, 2]])
WEIGHTS = RNG.uniform(0.2, 3.0, 60)
SETTINGS = {"gammas": [0.3, 1.0], "alphas": [0.01, 0.1], "max_rounds": 2}
APPROXIMATIONS = [
    "exact",
    Nystroem(15),
    Nystroem(15, random_state=3),
    ConjugateGradients(tolerance=1e-12),
]


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=str)
@pytest.mark.parametrize(("tuned", "fixed"), [(LSSVRCV, LSSVR), (KernelRidgeCV, KernelRidge)])
def test_leaders_are_refits_of_the_fixed_machine(approximation, tuned, fixed) -> None:
    cv = KFold(3, shuffle=True, random_state=0)
    model = tuned("auto", metric="auto", cv=cv, approximation=approximation, **SETTINGS)
    setup = model.set_up(X, Y, WEIGHTS)
    found = setup.strategy.run(Search(setup))
    learned = [one for one in found.leaders if one.candidate.params["round"]]
    assert learned
    for leader in learned:
        candidate, alpha = leader.candidate, leader.alpha
        assert candidate.parts is not None
        values = np.full(Y.shape, np.nan)
        for (train, test), kernel in zip(cv.split(X), candidate.part_kernels, strict=True):
            alone = fixed(kernel, alpha=alpha, approximation=approximation)
            values[test] = alone.fit(X[train], Y[train], WEIGHTS[train]).predict(X[test])
        assert_allclose(leader.heldout, values, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=str)
def test_no_kernel_of_a_fold_has_seen_its_targets(approximation) -> None:
    """With other targets in one fold, its kernel stays what it was, and the others do not."""
    cv = KFold(3)
    other = Y.copy()
    other[:20] = RNG.standard_normal((20, 2))
    settings = {**SETTINGS, "gammas": [1.0], "alphas": [0.1], "max_rounds": 1}
    found = []
    for y in (Y, other):
        model = LSSVRCV("rbf", metric="full", cv=cv, approximation=approximation, **settings)
        setup = model.set_up(X, y)
        leaders = setup.strategy.run(Search(setup)).leaders
        found.append(next(one.candidate for one in leaders if one.candidate.params["round"]))
    first, second = ([part.metric.values for part in one.part_kernels] for one in found)
    assert_allclose(first[0], second[0], rtol=1e-9, atol=1e-12)
    for one, two in zip(first[1:], second[1:]):
        assert np.abs(one - two).max() > 1e-3
    assert np.abs(found[0].kernel.metric.values - found[1].kernel.metric.values).max() > 1e-3


@pytest.mark.parametrize("rows", [None, 40], ids=["crossfitted", "subsample"])
@pytest.mark.parametrize("metric", ["full", "diagonal"])
def test_landmarks_follow_the_metric(rows, metric) -> None:
    """The final model's are chosen in the space that was learned."""
    few = Nystroem(10)
    model = LSSVRCV(
        "rbf", metric=metric, cv=3, approximation=few, refit="same", metric_rows=rows, **SETTINGS
    ).fit(X, Y[:, 0])
    assert model.best_params_["round"] > 0
    alone = LSSVR(model.expansion_.kernel, alpha=model.alpha_, approximation=few).fit(X, Y[:, 0])
    found = {tuple(row) for row in model.expansion_.centres}
    assert found == {tuple(row) for row in alone.expansion_.centres}
