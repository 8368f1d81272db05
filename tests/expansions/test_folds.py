"""Fold models as columns of few expansions, and mixtures of them."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import LSSVR
from onefold.expansions import Expansion, FoldModels, mixed
from onefold.kernels import RBF, Laplacian, Precomputed

RNG = np.random.default_rng(2)
X, NEW = RNG.standard_normal((20, 3)), RNG.standard_normal((6, 3))


def columns(kernel, folds, targets, rows=X):
    coef = RNG.standard_normal((len(rows), folds * targets))
    return Expansion(kernel, rows, coef, RNG.standard_normal(folds * targets))


def grids(count):
    rows = RNG.uniform(size=(40, 2))
    fitted = [LSSVR(gamma=g + 1.0, approximation="grid").fit(rows, rows) for g in range(count)]
    return [one.expansion_ for one in fitted]


def test_terms_add_up_fold_by_fold():
    one, other = columns(RBF(0.3), 3, 2), columns(Laplacian(0.2), 2, 2)
    intercept = RNG.standard_normal((3, 2))
    models = FoldModels((one, other), (np.arange(3), np.array([2, 0])), intercept)
    found = models.predict(NEW)
    first, second = one.predict(NEW).reshape(6, 3, 2), other.predict(NEW).reshape(6, 2, 2)
    np.testing.assert_allclose(found[:, 0], first[:, 0] + second[:, 1] + intercept[0])
    np.testing.assert_allclose(found[:, 1], first[:, 1] + intercept[1])
    np.testing.assert_allclose(found[:, 2], first[:, 2] + second[:, 0] + intercept[2])
    assert (models.count, models.n_targets, models.n_features) == (3, 2, 3)
    offset = np.array([1.0, -2.0])
    np.testing.assert_allclose(models.plus(offset).predict(NEW), found + offset)
    assert models.finite
    assert not models.plus(np.array([np.inf, 0.0])).finite


def test_mixtures_are_the_weighted_sums():
    members = [
        FoldModels.of(columns(RBF(0.3), 4, 2), 4),
        FoldModels.each([columns(Laplacian(0.2), 1, 2) for _ in range(4)]).plus(np.array([3.0, 1.0])),
    ]
    weights = RNG.uniform(size=(4, 2))
    weights[1] = 0.0
    weights[2, 0] = 0.0
    intercept = RNG.standard_normal((4, 2))
    each = [member.predict(NEW) for member in members]
    for source in (np.arange(4), np.zeros(4, dtype=int), [3, 1, 1, 0]):
        found = mixed(members, weights, intercept, source).predict(NEW)
        expected = intercept[None] + sum(
            weights[None, :, g, None] * values[:, source] for g, values in enumerate(each)
        )
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    nothing = mixed(members, np.zeros((4, 2)), intercept, np.arange(4))
    np.testing.assert_allclose(nothing.predict(NEW), np.repeat(intercept[None], 6, axis=0))


def test_grids_mix_too():
    rows = RNG.uniform(-0.5, 1.5, size=(9, 2))  # inside the grid and outside
    own = grids(2)
    found = mixed([FoldModels.each(own)], [[0.5], [2.0]], np.zeros((2, 2)), [1, 0]).predict(rows)
    np.testing.assert_allclose(found[:, 0], 0.5 * own[1].predict(rows), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[:, 1], 2.0 * own[0].predict(rows), rtol=0, atol=1e-12)


def test_a_given_kernel_gets_columns_for_all_rows():
    coef = RNG.standard_normal((3, 2))
    models = FoldModels.of(Expansion(Precomputed(), None, coef, np.zeros(2)), 2)
    wide = models.with_columns(5, np.array([0, 2, 4]))
    K = RNG.standard_normal((4, 5))
    np.testing.assert_allclose(wide.predict(K), models.predict(K[:, [0, 2, 4]]))


def test_arrays_of_another_library_come_to_the_host_together():
    torch = pytest.importorskip("torch")
    rows = torch.tensor(X)
    terms = [
        Expansion(k, rows, torch.ones(20, 1).double(), torch.zeros(1).double())
        for k in (RBF(1.0), RBF(2.0))
    ]
    models = FoldModels.each(terms)
    there = models.on_host()
    assert there.terms[0].centres is there.terms[1].centres
    assert type(there.terms[0].coef) is np.ndarray
    np.testing.assert_allclose(there.predict(NEW), models.predict(NEW), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("terms", "folds", "shape"),
    [
        ((), (), (2, 1)),
        ((columns(RBF(1.0), 2, 1),), (np.arange(2),), (2,)),
        ((columns(RBF(1.0), 2, 1),), (), (2, 1)),
        ((columns(RBF(1.0), 2, 1),), (np.array([0, 2]),), (2, 1)),
        ((columns(RBF(1.0), 2, 1),), (np.array([-1, 1]),), (2, 1)),
        ((columns(RBF(1.0), 2, 1),), (np.array([1, 1]),), (2, 1)),
        ((columns(RBF(1.0), 2, 1),), (np.array([0.0, 1.0]),), (2, 1)),
        ((columns(RBF(1.0), 2, 1),), (np.array([0]),), (2, 1)),
        ((columns(RBF(1.0), 2, 1),), (np.empty(0, dtype=int),), (2, 1)),
        (("term",), (np.arange(2),), (2, 1)),
        ((columns(RBF(1.0), 1, 1), columns(RBF(1.0), 1, 1, X[:, :2])), ([0], [1]), (2, 1)),
    ],
)
def test_what_does_not_fit_is_refused(terms, folds, shape):
    with pytest.raises(ValueError, match="fold"):
        FoldModels(terms, folds, np.zeros(shape))
