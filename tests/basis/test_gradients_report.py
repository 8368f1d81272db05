"""What conjugate gradients say of several targets: the worst of them decides."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from onefold import KernelRidge
from onefold.approximations import ConjugateGradients


def test_one_target_that_has_not_converged_is_told():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    Y = np.column_stack([np.zeros(80), rng.normal(size=80)])
    settings = ConjugateGradients(n_components=2, max_iterations=1, tolerance=1e-10)
    with pytest.warns(ConvergenceWarning, match="stopped after"):
        model = KernelRidge(gamma=5.0, alpha=1e-3, approximation=settings).fit(X, Y)
    told = model.approximation_["solves"][0]
    assert not told["converged"]
    assert told["residual"] > 1e-10
    np.testing.assert_array_equal(model.predict(X)[:, 0], 0.0)
