"""What `onefold.plan` takes besides an estimator, and how it says no."""

from __future__ import annotations

import numpy as np
import pytest

from onefold import LSSVRCV, plan


@pytest.mark.parametrize("given", [np.zeros((50, 3)), [[0.0] * 3] * 50, (50, 3), (np.int64(50), 3.0)])
def test_rows_or_their_shape(given):
    found = plan(LSSVRCV(), given)
    assert (found.rows, found.features) == (50, 3)


@pytest.mark.parametrize(
    "given",
    [
        5,
        None,
        "rows",
        (5,),
        [5, 3],
        (5, "x"),
        (10, 2, 3),
        (1 + 2j, 3),
        {},
        np.zeros(5),
        np.zeros((3, 2, 1)),
    ],
)
def test_anything_else_is_refused_in_a_sentence(given):
    with pytest.raises(
        ValueError, match=r"plan takes an array of rows, or a shape such as \(1000, 20\)"
    ):
        plan(LSSVRCV(), given)
