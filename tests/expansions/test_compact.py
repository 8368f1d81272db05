"""Centres that are mostly indicators become CSR, once for all that share them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from onefold.expansions import Blend, Expansion, FoldModels
from onefold.expansions.compact import with_sparse_centres
from onefold.kernels import RBF, CallableKernel, Laplacian, Linear

RNG = np.random.default_rng(0)
COLUMNS = 80


def indicators(n: int, columns: int = COLUMNS) -> np.ndarray:
    rows = np.zeros((n, columns))
    rows[:, 0] = RNG.standard_normal(n)
    rows[np.arange(n), RNG.integers(1, columns, n)] = 1.0
    return rows


def expansion(kernel, centres, targets=1) -> Expansion:
    coef = RNG.standard_normal((len(centres), targets))
    return Expansion(kernel, centres, coef, RNG.standard_normal(targets))


def test_blends_and_fold_models_share_their_centres_afterwards() -> None:
    Z = indicators(50)
    others = indicators(30)
    blend = Blend((expansion(RBF(0.3), Z), expansion(Laplacian(0.2), Z)), [0.4, 0.6])
    folds = FoldModels.from_expansions([expansion(RBF(0.3), Z), expansion(Linear(), others)])
    sparse_blend, sparse_folds, nothing = with_sparse_centres([blend, folds, None])
    assert nothing is None
    first, second = sparse_blend.members
    third, fourth = sparse_folds.terms
    assert sp.issparse(first.centres)
    assert first.centres is second.centres is third.centres is not fourth.centres
    X = indicators(40)
    for rows in (X, sp.csr_array(X)):
        assert_allclose(sparse_blend.predict(rows), blend.predict(X), rtol=1e-12)
        assert_allclose(sparse_folds.predict(rows), folds.predict(X), rtol=1e-12)
    assert sparse_blend.accepts_sparse
    for before, after in ((blend, sparse_blend), (folds, sparse_folds)):
        assert repr(before) == repr(after)


@pytest.mark.parametrize(
    "function",
    [
        expansion(RBF(), indicators(20, 40)),
        expansion(RBF(), RNG.standard_normal((20, COLUMNS))),
        expansion(CallableKernel(lambda A, B: A @ B.T), indicators(20)),
        expansion(RBF() + CallableKernel(lambda A, B: A @ B.T), indicators(20)),
    ],
    ids=["few columns", "few zeros", "a function", "a sum with a function"],
)
def test_functions_that_stay_as_they_are(function) -> None:
    fine = expansion(RBF(), indicators(20, function.n_features))
    unchanged, beside = with_sparse_centres([function, fine])
    assert unchanged is function
    assert beside is fine
