"""The same call, the same bits: again, with more threads, and from a file."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest
from metamorphic_cases import Case
from metamorphic_fits import Data, Outcome, estimator, every, explore, fit, inputs
from numpy.testing import assert_allclose, assert_array_equal

import onefold
from onefold import LSSVR, LSSVRCV
from onefold.approximations import ConjugateGradients, Grid, Nystroem
from onefold.machine.threads import limit_blas


def identical(one: Outcome, two: Outcome) -> None:
    """Equal to the last bit."""
    assert one.choice == two.choice
    assert_array_equal(two.values, one.values)
    if one.scores is not None:
        assert_array_equal(two.scores, one.scores)
    if one.heldout is not None:
        assert_array_equal(two.heldout, one.heldout)


@every(share=2)
def test_again(case: Case) -> None:
    """Also with the same object, after a fit to something else: nothing is left over."""

    def relation(case: Case, data: Data) -> None:
        first = fit(case, data)
        identical(first, fit(case, data))
        X, Z = inputs(case, data)
        other = np.roll(data.y, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            again = first.model.fit(X, other).fit(X, data.y)
        ask = again.decision_function if case.machine.classifies else again.predict
        assert_array_equal(ask(Z), first.values)

    explore(case, relation, examples=1)


@every()
def test_two_threads(case: Case) -> None:
    def relation(case: Case, data: Data) -> None:
        identical(fit(case, data), fit(case, data, n_jobs=2))

    explore(case, relation, examples=1)


@every(lambda case: case.kernel.saved)
def test_from_a_file(case: Case, tmp_path) -> None:
    def relation(case: Case, data: Data) -> None:
        found = fit(case, data)
        path = tmp_path / "model.onefold"
        found.model.save(path)
        loaded = onefold.load(path)
        _, Z = inputs(case, data)
        ask = loaded.decision_function if case.machine.classifies else loaded.predict
        assert_array_equal(ask(Z), found.values)
        assert_array_equal(loaded.predict(Z), found.model.predict(Z))

    explore(case, relation, examples=1)


@every(share=3)
def test_input_is_left_alone(case: Case) -> None:
    """Arrays that must not be written to are enough, and come out as they went in."""

    def relation(case: Case, data: Data) -> None:
        X, Z = (np.array(A) for A in inputs(case, data))
        y, weight = np.array(data.y), np.ones(len(data.y))
        for array in (X, Z, y, weight):
            array.setflags(write=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = estimator(case, data).fit(X, y, weight if case.way.weights else None)
        model.predict(Z)

    explore(case, relation, examples=1)


def one_blas_thread(approximation: object) -> AbstractContextManager[None]:
    """Factorisations of whole matrices use all threads of BLAS, whose number changes the rounding."""
    whole = approximation == "exact" or isinstance(approximation, Grid)
    return limit_blas(1) if whole else nullcontext()


def rounding(n: int, alpha: float) -> float:
    """Of (K + αI)⁻¹y: condition number × rounding, with |K| at most n and y of size 1."""
    return n / alpha * np.finfo(float).eps


@pytest.mark.parametrize("single", [False, True], ids=["float64", "float32"])
@pytest.mark.parametrize(
    "approximation",
    [Nystroem(40), Nystroem(40, "uniform"), Grid(), ConjugateGradients(60), "exact"],
    ids=lambda a: a if isinstance(a, str) else a.name,
)
def test_two_threads_on_many_rows(approximation, single) -> None:
    """Enough rows for several blocks: sums are in the order of the rows, not of the threads."""
    rng = np.random.default_rng(0)
    n = 1200 if approximation == "exact" else 6000
    X = rng.normal(size=(n, 2)).astype(np.float32 if single else np.float64)
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)

    def predicted(jobs: int) -> np.ndarray:
        machine = LSSVR(gamma=0.7, alpha=0.1, approximation=approximation, n_jobs=jobs)
        return machine.fit(X, y).predict(X[:50])

    with one_blas_thread(approximation):
        found = [predicted(jobs) for jobs in (1, 2, 2)]
    assert_array_equal(found[1], found[0])
    assert_array_equal(found[2], found[1])
    assert_allclose(predicted(2), found[0], rtol=0, atol=rounding(n, 0.1))


@pytest.mark.parametrize("approximation", [Nystroem(40), Nystroem(40, "rpcholesky"), Grid(points=20)])
def test_two_threads_in_a_search_on_many_rows(approximation) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=4000)
    grid = {"gammas": [0.1, 1.0, 3.0], "alphas": [0.01, 1.0], "cv": 3}

    def searched(jobs: int) -> LSSVRCV:
        return LSSVRCV(approximation=approximation, n_jobs=jobs, **grid).fit(X, y)

    with one_blas_thread(approximation):
        found = [searched(jobs) for jobs in (1, 2, 2)]
    for other in found[1:]:
        assert_array_equal(other.cv_results_["mean_test_score"], found[0].cv_results_["mean_test_score"])
        assert_array_equal(other.heldout_prediction_, found[0].heldout_prediction_)
        assert_array_equal(other.predict(X[:50]), found[0].predict(X[:50]))
    free = searched(2)
    assert free.best_params_ == found[0].best_params_
    assert_allclose(free.predict(X[:50]), found[0].predict(X[:50]), rtol=0, atol=rounding(4000, 0.01))
