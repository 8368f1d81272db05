"""The same problem in another order or container, again, on more threads, or from a file."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from metamorphic_cases import Case
from metamorphic_fits import Data, Outcome, agree, fit, inputs, outcome, relation, spread, values_of
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import onefold
from onefold import LSSVR, LSSVRCV
from onefold.approximations import ConjugateGradients, Grid, Nystroem
from onefold.machine.threads import limit_blas


@relation(lambda case: not (case.way.ordered or case.way.picks), order=range(100))
def test_rows_permuted(case: Case, data: Data, order: int) -> None:
    index = np.random.default_rng(order).permutation(len(data.y))
    agree(fit(case, data), fit(case, data.rows(index)), size=spread(case, data.y), rows=index)


@relation(share=3)
def test_predictions_row_by_row(case: Case, data: Data) -> None:
    """What else is asked for changes no answer."""
    found = fit(case, data)
    _, Z = inputs(case, data)
    singly = np.concatenate([values_of(case, found.model, Z[i : i + 1]) for i in range(len(Z))])
    assert_allclose(singly, found.values, rtol=0, atol=found.slack * spread(case, data.y))


# -- containers -----------------------------------------------------------------------------------------


def refitted(case: Case, data: Data, found: Outcome, X: Any, y: Any, Z: Any) -> Outcome:
    """The outcome of the same settings on other containers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return outcome(case, data, clone(found.model).fit(X, y), Z)


def _columns(A: Any) -> list[str]:
    return [f"x{i}" for i in range(A.shape[1])]


FRAMES = [
    (lambda A: pd.DataFrame(A, columns=_columns(A)), pd.Series),
    (lambda A: pl.DataFrame(A, schema=_columns(A)), pl.Series),
    (np.asfortranarray, list),
    (lambda A: np.repeat(A, 2, axis=0)[::2], np.asarray),
]


@relation(container=FRAMES)
def test_frames_and_orders(case: Case, data: Data, container: Any) -> None:
    rows, column = container
    found = fit(case, data)
    X, Z = inputs(case, data)
    same = refitted(case, data, found, rows(X), column(data.y), rows(Z))
    agree(found, same, size=spread(case, data.y))


@relation(lambda case: case.kernel.sparse_rows and case.way.sparse_rows and case.way.name != "kmeans")
def test_sparse_rows(case: Case, data: Data) -> None:
    """Not with k-means, which gives way to pivoting for sparse rows."""
    data = data.features(lambda A: np.where(np.abs(A) < 0.4, 0.0, A))
    found = fit(case, data)
    X, Z = inputs(case, data)
    same = refitted(case, data, found, sp.csr_matrix(X), data.y, sp.csr_matrix(Z))
    agree(found, same, size=spread(case, data.y))


@relation(lambda case: case.kernel.name != "precomputed")
def test_single_precision_rows(case: Case, data: Data) -> None:
    """Rows that float32 holds exactly: the same bits, but where features of landmarks are float32."""
    found = fit(case, data)
    single = fit(case, data.features(lambda A: A.astype(np.float32)))
    assert single.values.dtype == np.float64
    assert single.choice == found.choice
    bound = 1e-4 * spread(case, data.y) if case.way.landmarks else 0.0
    assert_allclose(single.values, found.values, rtol=0, atol=bound)


# -- the same call, the same bits -----------------------------------------------------------------------


@relation()
def test_again_and_on_two_threads(case: Case, data: Data) -> None:
    """Also with the same object, after a fit to something else: nothing is left over."""
    one = fit(case, data)
    two = fit(case, data, n_jobs=2)
    assert one.choice == two.choice
    for name in ("values", "scores", "heldout"):
        if getattr(one, name) is not None:
            assert_array_equal(getattr(two, name), getattr(one, name))
    X, Z = inputs(case, data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        again = one.model.fit(X, np.roll(data.y, 5)).fit(X, data.y)
    assert_array_equal(values_of(case, again, Z), one.values)


@relation(lambda case: case.kernel.saved)
def test_from_a_file(case: Case, data: Data) -> None:
    found = fit(case, data)
    _, Z = inputs(case, data)
    with tempfile.TemporaryDirectory() as folder:
        found.model.save(Path(folder) / "model.onefold")
        loaded = onefold.load(Path(folder) / "model.onefold")
    assert_array_equal(values_of(case, loaded, Z), found.values)
    assert_array_equal(loaded.predict(Z), found.model.predict(Z))


def fitted_on(n: int, approximation: Any, search: bool, single: bool, jobs: int) -> list[Any]:
    """What is found on rows enough for several blocks: sums are in their order, not the threads'."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)).astype(np.float32 if single else float)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)
    if not search:
        machine = LSSVR(gamma=0.7, alpha=0.1, approximation=approximation, n_jobs=jobs)
        return [machine.fit(X, y).predict(X[:50])]
    grid = {"gammas": [0.1, 1.0, 3.0], "alphas": [0.01, 1.0], "cv": 3}
    model = LSSVRCV(approximation=approximation, n_jobs=jobs, **grid).fit(X, y)
    return [model.predict(X[:50]), model.heldout_prediction_, model.cv_results_["mean_test_score"]]


@pytest.mark.parametrize("single", [False, True], ids=["float64", "float32"])
@pytest.mark.parametrize(
    ("n", "approximation", "search"),
    [
        (6000, Nystroem(40), False),
        (6000, ConjugateGradients(60), False),
        (1200, "exact", False),
        (4000, Nystroem(40, "rpcholesky"), True),
        (4000, Grid(points=20), True),
    ],
)
def test_two_threads_on_many_rows(n, approximation, search, single) -> None:
    """To the last bit where BLAS has one thread: factorisations of whole matrices use all of them."""
    whole = approximation == "exact" or isinstance(approximation, Grid)
    with limit_blas(1) if whole else nullcontext():
        one, two = (fitted_on(n, approximation, search, single, jobs) for jobs in (1, 2))
    for first, second in zip(one, two):
        assert_array_equal(second, first)
    free = fitted_on(n, approximation, search, single, 2)[0]
    # Of (K + αI)⁻¹y: condition number × rounding, with |K| at most n and y of size 1.
    assert_allclose(free, one[0], rtol=0, atol=n / (0.01 if search else 0.1) * np.finfo(float).eps)
