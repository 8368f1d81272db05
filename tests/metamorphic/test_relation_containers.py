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
from metamorphic_fits import Data, agree, every, explore, fit, inputs, outcome, spread, unfitted
from numpy.testing import assert_allclose


def refitted(case: Case, data: Data, found: Any, X: Any, y: Any, Z: Any) -> Any:
    """The outcome of the same settings on other containers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = unfitted(found.model).fit(X, y)
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


@every()
def test_single_precision_rows(case: Case) -> None:
    """Rows that float32 holds exactly: the fit is that of float64, to the digits of float32 tiles."""

    def relation(case: Case, data: Data) -> None:
        if case.kernel.name == "precomputed":
            return  # a matrix in float32 is another matrix
        found = fit(case, data)
        X, Z = (A.astype(np.float32) for A in (data.X, data.Z))
        data32 = replace(data, anchor=data.anchor.astype(np.float32))
        model = fit(case, replace(data32, X=X, Z=data.Z)).model
        values = model.decision_function(Z) if case.machine.classifies else model.predict(Z)
        assert values.dtype == np.float64
        bound = found.slack + 2e-3 if case.way.same_digits > 10 else found.slack
        assert_allclose(values, found.values, rtol=0, atol=(bound + 1e-4) * spread(case, data.y))

    explore(case, relation, examples=1)
