"""Warnings name the line of the user's that led to them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from onefold import LSSVRCV
from onefold.approximations import Grid


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_warning_names_the_line_of_the_fit(n_jobs) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    y = np.sin(4 * X[:, 0])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        LSSVRCV(approximation=Grid(points=8), gammas=[30.0, 40.0], n_jobs=n_jobs).fit(X, y)
    these = [warning for warning in found if "the grid is too coarse" in str(warning.message)]
    assert these
    assert {warning.filename for warning in these} == {__file__}
