"""The circulant approximation behind the six estimators, against literal computations."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from circulant_twin import dense_fit, dense_matrix, dense_row, refit_without
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold, ShuffleSplit

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Circulant, Problem, Workload
from onefold.approximations.circulant import choose_shape
from onefold.kernels import RBF, Laplacian, Matern

RNG = np.random.default_rng(11)
N = 36
X = RNG.standard_normal((N, 2))
NUMBERS = np.sin(2 * X[:, 0]) + 3 + 0.1 * RNG.standard_normal(N)
LABELS = np.where(X[:, 0] + 0.3 * RNG.standard_normal(N) > 0, "yes", "no")
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
GIVEN = Circulant(spacing=(1.0, 1.4), order="given")


def twin(structure, kernel, rows=None):
    """U of the given rows in their own order, from the definition."""
    problem = Problem(X, X, None, True)
    layout = structure.layout(problem, rows)
    n = N if rows is None else len(rows)
    U = dense_matrix(dense_row(kernel, layout.shape, layout.spacing))[:n, :n]
    place = np.argsort(layout.order)
    return U[np.ix_(place, place)]


@pytest.mark.parametrize("order", ["given", "random", "principal"])
@pytest.mark.parametrize(("estimator", "intercept"), [(LSSVR, True), (KernelRidge, False)])
@pytest.mark.parametrize(
    "kernel", [RBF(0.8), Matern(0.5), Laplacian(1.0)], ids=lambda k: type(k).__name__
)
def test_coefficients_come_from_the_matrix_and_predictions_from_the_kernel(
    kernel, estimator, intercept, order
) -> None:
    structure = Circulant(spacing=(1.0, 1.4), order=order)
    Y = np.column_stack([NUMBERS, X[:, 1]])
    model = estimator(kernel, alpha=[0.2, 1.5], approximation=structure).fit(X, Y)
    U = twin(structure, kernel)
    new = RNG.standard_normal((5, 2))
    for t, alpha in enumerate((0.2, 1.5)):
        coef, b = dense_fit(U, Y[:, [t]], alpha, intercept)
        assert_allclose(model.predict(new)[:, [t]], kernel(new, X) @ coef + b, atol=1e-9)
    report = model.approximation_
    assert report["shape"] == [6, 6]
    assert report["order"] == order


@pytest.mark.parametrize("n", [2, 3, 31, 37])
def test_primes_and_tiny_sizes(n) -> None:
    x, y = RNG.standard_normal((n, 2)), RNG.standard_normal(n)
    model = LSSVR(RBF(3.0), alpha=0.5, approximation=Circulant(spacing=1.0, order="given")).fit(x, y)
    shape = choose_shape(n, 2)
    U = dense_matrix(dense_row(RBF(3.0), shape, (1.0, 1.0)))[:n, :n]
    coef, b = dense_fit(U, y[:, None], 0.5, True)
    assert_allclose(model.expansion_.coef, coef, atol=1e-9)
    assert_allclose(model.expansion_.intercept, b, atol=1e-9)
    assert model.approximation_["empty_cells"] == shape[0] * shape[1] - n


@pytest.mark.parametrize("cv", [KFold(4), KFold(6), ShuffleSplit(3, random_state=0), "loo"], ids=str)
@pytest.mark.parametrize("order", ["given", "principal"])
@pytest.mark.parametrize(("estimator", "intercept"), [(LSSVRCV, True), (KernelRidgeCV, False)])
def test_validation_by_the_matrix_is_a_refit_of_the_matrix(estimator, intercept, order, cv) -> None:
    structure = Circulant(spacing=(1.0, 1.4), order=order, validate="matrix")
    found = estimator(gammas=[1.5], alphas=[0.3], approximation=structure, cv=cv).fit(X, NUMBERS)
    folds = [[i] for i in range(N)] if cv == "loo" else [test for _, test in cv.split(X)]
    shape = tuple(found.approximation_["selected_with"]["shape"])
    U = twin(Circulant(shape=shape, spacing=(1.0, 1.4), order=order), RBF(1.5))
    total, count = np.zeros(N), np.zeros(N)
    for rows in folds:
        total[rows] += refit_without(U, NUMBERS[:, None], rows, 0.3, intercept)[:, 0]
        count[rows] += 1
    seen = count > 0
    assert_allclose(found.heldout_prediction_[seen], (total / np.maximum(count, 1))[seen], atol=1e-8)


def test_consecutive_folds_are_solved_as_circulant_blocks() -> None:
    structure = Circulant(spacing=1.0, order="given", validate="matrix")
    found = LSSVRCV(gammas=[1.5], alphas=[0.3, 1.0], approximation=structure, cv=4, refit="same")
    report = found.fit(X, NUMBERS).approximation_["selected_with"]
    assert report["shape"] == [4, 9]
    assert report["solves"] == {"circulant_blocks": 4}
    assert found.approximation_["fitted_with"]["shape"] == [4, 9]


@pytest.mark.parametrize("cv", [KFold(4), KFold(5, shuffle=True, random_state=0), "loo"], ids=str)
@pytest.mark.parametrize("order", ["given", "random", "principal"])
@pytest.mark.parametrize(
    ("chosen", "fixed"), [(LSSVRCV, LSSVR), (KernelRidgeCV, KernelRidge)], ids=["LSSVR", "ridge"]
)
def test_validation_by_the_kernel_is_a_refit_of_each_training_part(chosen, fixed, order, cv) -> None:
    structure = Circulant(spacing=(1.0, 1.4), order=order)
    Y = np.column_stack([NUMBERS, X[:, 1]])
    found = chosen(gammas=[1.5], alphas=[0.3], approximation=structure, cv=cv).fit(X, Y)
    folds = [np.array([i]) for i in range(N)] if cv == "loo" else [test for _, test in cv.split(X)]
    for rows in folds:
        train = np.setdiff1d(np.arange(N), rows)
        part = fixed(gamma=1.5, alpha=0.3, approximation=structure).fit(X[train], Y[train])
        assert_allclose(found.heldout_prediction_[rows], part.predict(X[rows]), atol=1e-9)


def test_ding2011_on_banana() -> None:
    """Selecting with the circulant matrix and training exactly: the paper has 11.3 % on this set."""
    folder = Path(os.environ.get("ONEFOLD_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (folder / "ida_banana.npz").exists():
        pytest.skip("the benchmark data are not in $ONEFOLD_DATA")
    with np.load(folder / "ida_banana.npz") as stored:
        x, y = stored["X"], stored["y"]
        train, test = stored["train_idx"][0], stored["test_idx"][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = LSSVCCV(approximation=Circulant(spacing="data")).fit(x[train], y[train])
    assert 1 - model.score(x[test], y[test]) < 0.14


def test_leave_one_out_stays_within_eight_arrays() -> None:
    import tracemalloc

    n = 2**17
    problem = Problem(np.zeros((n, 1)), RNG.standard_normal((n, 1)), None, True)
    structure = Circulant(spacing=1.0, order="given", validate="matrix")
    tracemalloc.start()
    model = structure.start(problem, [RBF(2.0)], Workload(folds=5)).model(RBF(2.0))
    model.leave_one_out([0.5])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 8 * n


@pytest.mark.parametrize("cv", [4, "loo"])
@pytest.mark.parametrize("weights", [None, RNG.uniform(0.5, 2, N)], ids=["equal", "weighted"])
def test_cov_and_mape(cv, weights) -> None:
    Y = np.column_stack([NUMBERS, NUMBERS**2])
    for criterion in ("cov", "mape"):
        found = LSSVRCV(gammas=[1.0], alphas=[0.3], criterion=criterion, cv=cv).fit(X, Y, weights)
        f, expected = found.heldout_prediction_, []
        for rows in [np.arange(N)] if cv == "loo" else [test for _, test in KFold(4).split(X)]:
            w = np.ones(len(rows)) if weights is None else weights[rows]
            if criterion == "cov":
                rmse = np.sqrt(np.average((Y[rows] - f[rows]) ** 2, axis=0, weights=w))
                expected.append(-np.mean(rmse / np.average(Y[rows], axis=0, weights=w)))
            else:
                share = np.abs(Y[rows] - f[rows]) / np.abs(Y[rows])
                expected.append(-np.average(share.mean(axis=1), weights=w))
        assert found.best_score_ == pytest.approx(np.mean(expected), rel=1e-10)
    with pytest.raises(ValueError, match="mean of y"):
        LSSVRCV(gammas=[1.0], criterion="cov", cv="loo").fit(X, np.tile([1.0, -1.0], N // 2))


@pytest.mark.parametrize("criterion", ["press", "gcv", "evidence", "cost"])
@pytest.mark.parametrize(("estimator", "intercept"), [(LSSVRCV, True), (KernelRidgeCV, False)])
def test_criteria_of_the_whole_smoother_are_those_of_the_exact_one_on_its_matrix(
    estimator, intercept, criterion
) -> None:
    """What they are on a kernel matrix is tested there; `cost` looks at the rows, so is written out."""
    structure = Circulant(spacing=(1.0, 1.4), order="given", validate="matrix")
    grid, U, key = (
        {"alphas": [0.3, 2.0], "criterion": criterion},
        twin(GIVEN, RBF(1.5)),
        "mean_test_score",
    )
    found = estimator(gammas=[1.5], approximation=structure, **grid).fit(X, NUMBERS).cv_results_[key]
    if criterion != "cost":
        same = estimator("precomputed", **grid).fit(U, NUMBERS).cv_results_[key]
        assert_allclose(found, same, rtol=1e-8)
        return
    for K, scores in ((U, found), (RBF(1.5)(X, X), None)):
        if scores is None:
            scores = estimator(gammas=[1.5], **grid).fit(X, NUMBERS).cv_results_[key]
        distances = ((X[:, None] - X[None]) ** 2).sum(-1) + np.diag(np.full(N, np.inf))
        noise = np.mean((NUMBERS - NUMBERS[distances.argmin(1)]) ** 2) / 2
        for score, alpha in zip(scores, grid["alphas"]):
            R = alpha * dense_fit(K, np.eye(N), alpha, intercept)[0]
            expected = -(NUMBERS @ R @ NUMBERS + noise * np.trace(R)) / N
            assert score == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("validate", ["kernel", "matrix"])
@pytest.mark.parametrize("library", ["sparse", "single", "torch", "array_api_strict"])
def test_rows_of_other_kinds(library, validate) -> None:
    structure = Circulant(spacing="data", validate=validate)
    grid = {"gammas": [1.0], "alphas": [0.5, 2.0], "approximation": structure, "cv": 3, "refit": "same"}
    build = {"sparse": scipy.sparse.csr_matrix, "single": np.float32}.get(library)
    build = build or pytest.importorskip(library).asarray
    y = NUMBERS if library in ("sparse", "single") else build(NUMBERS)
    wanted, found = LSSVRCV(**grid).fit(X, NUMBERS), LSSVRCV(**grid).fit(build(X), y)
    tolerance = 1e-4 if library == "single" else 1e-8
    assert_allclose(found.heldout_prediction_, wanted.heldout_prediction_, atol=tolerance)
    assert_allclose(np.asarray(found.predict(build(X))), wanted.predict(X), atol=tolerance)


def test_candidates_that_cannot_be_solved_have_no_score() -> None:
    model = LSSVRCV(gammas=[1e-3, 2.0], alphas=[1e-4, 20.0], approximation=GIVEN, cv=3)
    with pytest.warns(UserWarning, match="1 of 4 combinations"):
        model.fit(X, NUMBERS)
    assert set(model.best_params_) == {"alpha", "gamma"}
    scores = model.cv_results_["mean_test_score"].reshape(2, 2)
    assert np.isnan(scores[0, 0])
    assert np.isfinite(scores.ravel()[1:]).all()
    assert sorted(entry["unsolved"] for entry in model.history_) == [0, 1]
    nothing = {"approximation": GIVEN}
    for refused in (LSSVRCV(gammas=[1e-3], alphas=[1e-4], cv=3), LSSVR(gamma=1e-3, alpha=1e-4)):
        with pytest.raises(ValueError, match=r'negative="clip"'):
            refused.set_params(**nothing).fit(X, NUMBERS)


@pytest.mark.parametrize("validate", ["kernel", "matrix"])
def test_clipping_is_recorded(validate) -> None:
    structure = Circulant(spacing=1.0, order="given", negative="clip", validate=validate)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = LSSVRCV(gammas=[1e-3], alphas=[1e-2], approximation=structure, cv=3).fit(X, NUMBERS)
    report = found.approximation_["selected_with"]
    assert report["negative_eigenvalues"] > 0
    assert report["negative"] == "set to 0"


@pytest.mark.parametrize(
    ("model", "y", "weight"),
    [
        (LSSVR(approximation="circulant"), NUMBERS, np.arange(N) + 1.0),
        (LSSVRCV(approximation="circulant"), NUMBERS, np.arange(N) + 1.0),
        (LSSVC(approximation="circulant", class_weight="balanced"), LABELS, None),
    ],
)
def test_weights_are_refused_before_any_work(model, y, weight) -> None:
    with pytest.raises(ValueError, match='"exact"'):
        model.fit(X, y, weight)
