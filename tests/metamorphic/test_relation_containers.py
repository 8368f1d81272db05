"""The same numbers in another container are the same problem."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from hypothesis import strategies as st
from metamorphic_cases import Case
from metamorphic_fits import Data, agree, every, explore, fit, inputs, outcome, spread
from numpy.testing import assert_allclose
from sklearn.base import clone


def refitted(case: Case, data: Data, found: Any, X: Any, y: Any, Z: Any) -> Any:
    """The outcome of the same settings on other containers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = clone(found.model).fit(X, y)
    return outcome(case, data, model, Z)


def _columns(A: Any) -> list[str]:
    return [f"x{i}" for i in range(A.shape[1])]


FRAMES = {
    "pandas": (lambda A: pd.DataFrame(A, columns=_columns(A)), pd.Series),
    "polars": (lambda A: pl.DataFrame(A, schema=_columns(A)), pl.Series),
    "fortran": (np.asfortranarray, list),
    "strided": (lambda A: np.repeat(A, 2, axis=0)[::2], np.asarray),
}


@every()
def test_frames_and_orders(case: Case) -> None:
    def relation(case: Case, data: Data, container: str) -> None:
        rows, column = FRAMES[container]
        found = fit(case, data)
        X, Z = inputs(case, data)
        same = refitted(case, data, found, rows(X), column(data.y), rows(Z))
        agree(found, same, size=spread(case, data.y))

    explore(case, relation, container=st.sampled_from(list(FRAMES)))


@every(lambda case: case.kernel.sparse_rows and case.way.sparse_rows and case.way.name != "kmeans")
def test_sparse_rows(case: Case) -> None:
    """Not with k-means, which gives way to pivoting for sparse rows."""

    def relation(case: Case, data: Data) -> None:
        data = data.features(lambda A: np.where(np.abs(A) < 0.4, 0.0, A))
        found = fit(case, data)
        X, Z = inputs(case, data)
        same = refitted(case, data, found, sp.csr_matrix(X), data.y, sp.csr_matrix(Z))
        agree(found, same, size=spread(case, data.y))

    explore(case, relation, examples=1)


@every(lambda case: case.kernel.name != "precomputed")
def test_single_precision_rows(case: Case) -> None:
    """Rows that float32 holds exactly: the same bits, but where features of landmarks are float32."""

    def relation(case: Case, data: Data) -> None:
        found = fit(case, data)
        single = replace(
            data, **{part: getattr(data, part).astype(np.float32) for part in ("X", "Z", "anchor")}
        )
        values = fit(case, single)
        assert values.values.dtype == np.float64
        assert values.choice == found.choice
        bound = 1e-4 * spread(case, data.y) if case.way.landmarks else 0.0
        assert_allclose(values.values, found.values, rtol=0, atol=bound)

    explore(case, relation, examples=1)
