"""The circulant approximation: its settings, and the estimators with it against literal computations."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit

import onefold
from onefold import LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, plan, trust
from onefold.approximations import Circulant, Problem, Workload
from onefold.approximations.circulant import (
    choose_shape,
    data_spacing,
    factorise,
    fold_shape,
    row_order,
)
from onefold.kernels import RBF, CallableKernel, Laplacian, Linear, Matern
from onefold.plots import GridDisplay
from tests.smoothers.dense_twin import (
    circulant_matrix,
    circulant_row,
    refit,
    residual_operator,
    solve,
)

RNG = np.random.default_rng(11)
N = 36
X = RNG.standard_normal((N, 2))
NUMBERS = np.sin(2 * X[:, 0]) + 3 + 0.1 * RNG.standard_normal(N)
Y = np.column_stack([NUMBERS, X[:, 1]])
PROBLEM = Problem(X, Y, None, True)
GIVEN = Circulant(spacing=(1.0, 1.4), order="given")
ALL = np.arange(N)
CHOSEN = pytest.mark.parametrize(("chosen", "fixed"), [(LSSVRCV, LSSVR), (KernelRidgeCV, KernelRidge)])


def border_of(estimator, n=N):
    return np.ones(n) if estimator in (LSSVR, LSSVRCV) else None


def twin(structure, kernel):
    """U of the rows in their own order, from the definition."""
    layout = structure.layout(PROBLEM, None)
    place = np.argsort(layout.order)
    return circulant_matrix(circulant_row(kernel, layout.shape, structure.spacing))[:N, :N][
        np.ix_(place, place)
    ]


def parts_of(cv):
    return list(ALL[:, None]) if cv == "loo" else [test for _, test in cv.split(X)]


@pytest.mark.parametrize(
    ("kernel", "order"), [(RBF(0.8), "given"), (Matern(0.5), "random"), (Laplacian(1.0), "principal")]
)
@CHOSEN
def test_coefficients_come_from_the_matrix_and_predictions_from_the_kernel(chosen, fixed, kernel, order):
    structure = Circulant(spacing=(1.0, 1.4), order=order)
    model = fixed(kernel, alpha=[0.2, 1.5], approximation=structure).fit(X, Y)
    U = twin(structure, kernel)
    new = RNG.standard_normal((5, 2))
    for t, alpha in enumerate((0.2, 1.5)):
        coef, b = solve(U, Y[:, [t]], border_of(fixed), alpha, ALL)
        assert_allclose(model.predict(new)[:, [t]], kernel(new, X) @ coef + b, atol=1e-9)
    assert model.approximation_["shape"] == [6, 6]
    assert model.approximation_["order"] == order


@pytest.mark.parametrize("cv", [KFold(4), KFold(6), ShuffleSplit(3, random_state=0), "loo"], ids=str)
@pytest.mark.parametrize("order", ["given", "principal"])
@CHOSEN
def test_validation_by_the_matrix_is_a_refit_of_the_matrix(chosen, fixed, order, cv) -> None:
    structure = Circulant(spacing=(1.0, 1.4), order=order, validate="matrix")
    found = chosen(gammas=[1.5], alphas=[0.3], approximation=structure, cv=cv).fit(X, NUMBERS)
    shape = tuple(found.approximation_["selected_with"]["shape"])
    U = twin(Circulant(shape=shape, spacing=(1.0, 1.4), order=order), RBF(1.5))
    total = np.zeros(N)
    count = np.zeros(N)
    for rows in parts_of(cv):
        total[rows] += refit(U, NUMBERS[:, None], border_of(chosen), 0.3, rows)[:, 0]
        count[rows] += 1
    seen = count > 0
    assert_allclose(found.heldout_prediction_[seen], total[seen] / count[seen], atol=1e-8)


@pytest.mark.parametrize(
    ("cv", "order"),
    [(KFold(4), "given"), (KFold(5, shuffle=True, random_state=0), "random"), ("loo", "principal")],
)
@CHOSEN
def test_validation_by_the_kernel_is_a_refit_of_each_training_part(chosen, fixed, order, cv) -> None:
    structure = Circulant(spacing=(1.0, 1.4), order=order)
    found = chosen(gammas=[1.5], alphas=[0.3], approximation=structure, cv=cv).fit(X, Y)
    for rows in parts_of(cv):
        train = np.setdiff1d(ALL, rows)
        part = fixed(gamma=1.5, alpha=0.3, approximation=structure).fit(X[train], Y[train])
        assert_allclose(found.heldout_prediction_[rows], part.predict(X[rows]), atol=1e-9)


def test_consecutive_folds_are_solved_as_circulant_blocks() -> None:
    structure = Circulant(spacing=1.0, order="given", validate="matrix")
    found = LSSVRCV(gammas=[1.5], alphas=[0.3, 1.0], approximation=structure, cv=4, refit="same")
    report = found.fit(X, NUMBERS).approximation_
    assert report["selected_with"]["shape"] == report["fitted_with"]["shape"] == [4, 9]
    assert report["selected_with"]["solves"] == {"circulant_blocks": 4}
    sizes = ((400, 3, 5), (401, 2, 5), (12, 1, 12), (12, 1, 3))
    assert [fold_shape(*size) for size in sizes] == [(5, 8, 10), None, (12,), None]
    for scattered in (np.array_split(RNG.permutation(N), 3), ALL[:, None]):
        load = Workload(folds=5, parts=scattered)
        assert structure.start(PROBLEM, [RBF()], load).approximation.shape is None


@pytest.mark.parametrize("criterion", ["press", "gcv", "evidence"])
@CHOSEN
def test_criteria_are_those_of_the_exact_machine_on_the_matrix(chosen, fixed, criterion) -> None:
    structure = Circulant(spacing=(1.0, 1.4), order="given", validate="matrix")
    grid = {"alphas": [0.3, 2.0], "criterion": criterion}
    found = chosen(gammas=[1.5], approximation=structure, **grid).fit(X, NUMBERS)
    same = chosen("precomputed", **grid).fit(twin(GIVEN, RBF(1.5)), NUMBERS)
    assert_allclose(*(model.cv_results_["mean_test_score"] for model in (found, same)), rtol=1e-8)


@pytest.mark.parametrize("order", ["given", "principal"])
@pytest.mark.parametrize("shape", [(36,), (4, 9), (2, 3, 6), (5, 8), (6, 7), (40,)], ids=str)
@CHOSEN
def test_radius_margin_is_that_of_the_exact_machine_on_the_matrix(chosen, fixed, shape, order) -> None:
    """In closed form where every cell has a row; where some have none, from the rows' own block of U."""
    structure = Circulant(shape=shape, spacing=0.9, order=order)
    U = twin(structure, RBF(1.5))
    grid = {"alphas": [0.3, 2.0, 50.0], "criterion": "radius_margin"}
    found = chosen(gammas=[1.5], approximation=structure, **grid).fit(X, NUMBERS)
    same = chosen("precomputed", **grid).fit(U, NUMBERS)
    assert_allclose(*(model.cv_results_["mean_test_score"] for model in (found, same)), rtol=1e-7)
    run = structure.start(PROBLEM, [RBF(1.5)], Workload(alphas=1, smoother=True, matrix=True))
    model = run.model(RBF(1.5))
    assert_allclose(model.kernel_matrix(), U, atol=1e-12)
    radii = model.squared_radii([0.3])
    assert (radii is None) == (np.prod(shape) > N)
    if radii is not None:  # the mean of the rows is as far from all of them
        G = U + 0.3 * np.eye(N)
        assert_allclose(radii, [np.mean(np.diagonal(G)) - G.mean()], rtol=1e-12)
        assert_allclose(radii[0], np.diagonal(G) - 2 * G.mean(axis=1) + G.mean(), rtol=1e-12)


def test_the_radius_of_a_clipped_matrix_and_of_an_indefinite_one() -> None:
    shape = (6, 6)
    spacing = (0.2, 0.2)
    U = circulant_matrix(circulant_row(RBF(1.0), shape, spacing))
    values, vectors = np.linalg.eigh(U)
    assert values[0] < -0.1
    clipped = (vectors * np.maximum(values, 0.0)) @ vectors.T
    grid = {"alphas": [0.01, 10.0], "criterion": "radius_margin"}
    settings = {"shape": shape, "spacing": spacing, "order": "given"}
    found = LSSVRCV(gammas=[1.0], approximation=Circulant(**settings, negative="clip"), **grid)
    same = LSSVRCV("precomputed", **grid).fit(clipped, NUMBERS)
    scores = found.fit(X, NUMBERS).cv_results_["mean_test_score"]
    assert_allclose(scores, same.cv_results_["mean_test_score"], rtol=1e-7)
    refusing = LSSVRCV(gammas=[1.0], approximation=Circulant(**settings), **grid)
    with pytest.warns(UserWarning, match="have no score"):
        refusing.fit(X, NUMBERS)
    assert np.isnan(refusing.cv_results_["mean_test_score"]).tolist() == [True, False]


def test_cov_needs_a_mean() -> None:
    with pytest.raises(ValueError, match="mean of y"):
        LSSVRCV(gammas=[1.0], criterion="cov", cv="loo").fit(X, np.tile([1.0, -1.0], N // 2))


@pytest.mark.parametrize("validate", ["kernel", "matrix"])
@pytest.mark.parametrize("library", ["sparse", "single", "torch", "array_api_strict"])
def test_rows_of_other_kinds(library, validate) -> None:
    structure = Circulant(spacing="data", validate=validate)
    grid = {"gammas": [1.0], "alphas": [0.5, 2.0], "approximation": structure, "cv": 3, "refit": "same"}
    build = {"sparse": scipy.sparse.csr_matrix, "single": np.float32}.get(library)
    build = build or pytest.importorskip(library).asarray
    y = NUMBERS if library in ("sparse", "single") else build(NUMBERS)
    wanted = LSSVRCV(**grid).fit(X, NUMBERS)
    found = LSSVRCV(**grid).fit(build(X), y)
    tolerance = 1e-4 if library == "single" else 1e-8
    assert_allclose(found.heldout_prediction_, wanted.heldout_prediction_, atol=tolerance)
    assert_allclose(np.asarray(found.predict(build(X))), wanted.predict(X), atol=tolerance)


def test_rows_that_are_singular_to_rounding_have_no_score() -> None:
    """A factorisation that failed within a cell of the grid ended the search with a bare LinAlgError."""
    line = np.sort(np.random.default_rng(0).uniform(0, 10, 240))[:, None]
    structure = Circulant(levels=1, order="given", validate="matrix", negative="clip", spacing=0.2)
    model = LSSVRCV(approximation=structure, gammas=[0.1], alphas=[1e-15, 1.0], cv=3)
    with pytest.warns(UserWarning, match=r"1 of 2 .* numerically singular.*larger alpha"):
        model.fit(line, np.sin(line[:, 0]))
    assert np.isnan(model.cv_results_["mean_test_score"]).tolist() == [True, False]


@pytest.mark.parametrize("validate", ["kernel", "matrix"])
def test_an_indefinite_matrix_has_no_score_or_is_clipped(validate) -> None:
    structure = {"spacing": (1.0, 1.4), "order": "given", "validate": validate}
    model = LSSVRCV(gammas=[1e-3, 2.0], alphas=[1e-4, 100.0], approximation=Circulant(**structure), cv=3)
    with pytest.warns(UserWarning, match="1 of 4 combinations"):
        model.fit(X, NUMBERS)
    assert np.isnan(model.cv_results_["mean_test_score"]).tolist() == [True, False, False, False]
    assert sorted(entry["unsolved"] for entry in model.history_) == [0, 1]
    for refused in (LSSVRCV(gammas=[1e-3], alphas=[1e-4], cv=3), LSSVR(gamma=1e-3, alpha=1e-4)):
        with pytest.raises(ValueError, match=r'negative="clip"'):
            refused.set_params(approximation=Circulant(**structure)).fit(X, NUMBERS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clipped = Circulant(**structure, negative="clip")
        found = LSSVRCV(gammas=[1e-3], alphas=[1e-4], approximation=clipped, cv=3).fit(X, NUMBERS)
    report = found.approximation_["selected_with"]
    assert report["negative_eigenvalues"] > 0
    assert report["negative"] == "set to 0"


# -- indefinite systems, solved ------------------------------------------------------------------------

# U + 0.05 I has eigenvalues of both signs.
SOLVED = {"spacing": (0.3, 0.2), "order": "given", "negative": "solve"}


@pytest.mark.parametrize("cv", [KFold(4), KFold(5, shuffle=True, random_state=0), "loo"], ids=str)
@pytest.mark.parametrize("validate", ["matrix", "kernel"])
@CHOSEN
def test_an_indefinite_system_is_solved_in_every_fold(chosen, fixed, validate, cv) -> None:
    structure = Circulant(**SOLVED, validate=validate)
    settings = {"gammas": [1.5], "alphas": [0.05], "approximation": structure, "cv": cv}
    found = chosen(**settings, refit="same").fit(X, Y)
    selected, fitted = (found.approximation_[stage] for stage in ("selected_with", "fitted_with"))
    shape = tuple(selected["shape"])
    U = twin(Circulant(shape=shape, spacing=(0.3, 0.2), order="given"), RBF(1.5))
    values = np.linalg.eigvalsh(circulant_matrix(circulant_row(RBF(1.5), shape, (0.3, 0.2))))
    assert selected["negative"] == fitted["negative"] == "solved"
    assert selected["negative_eigenvalues"] == np.count_nonzero(values < 0)
    assert fitted["negative_with_alpha"] == np.count_nonzero(values + 0.05 < 0) > 0
    for rows in parts_of(cv):
        train = np.setdiff1d(ALL, rows)
        if validate == "matrix":
            literal = refit(U, Y, border_of(chosen), 0.05, rows)
        else:
            literal = fixed(gamma=1.5, alpha=0.05, approximation=structure).fit(X[train], Y[train])
            literal = literal.predict(X[rows])
        assert_allclose(found.heldout_prediction_[rows], literal, rtol=1e-6, atol=1e-7)
    coef, b = solve(U, Y, border_of(chosen), 0.05, ALL)
    assert_allclose(found.predict(X), RBF(1.5)(X, X) @ coef + b, rtol=1e-7, atol=1e-8)


@CHOSEN
def test_the_papers_criteria_of_an_indefinite_system(chosen, fixed) -> None:
    """PRESS and GCV are those of the dense operator; there is no likelihood and no cost."""
    structure = Circulant(**SOLVED, validate="matrix")
    names = ["press", "gcv", "evidence", "cost"]
    found = chosen(gammas=[1.5], alphas=[0.05, 50.0], approximation=structure, criterion=names)
    results = found.fit(X, NUMBERS).cv_results_
    U = twin(Circulant(spacing=(0.3, 0.2), order="given"), RBF(1.5))
    y = NUMBERS[:, None]
    R = residual_operator(U, border_of(chosen), 0.05)
    press = np.mean([(y[i] - refit(U, y, border_of(chosen), 0.05, [i])) ** 2 for i in range(N)])
    gcv = np.mean((R @ y) ** 2) / (np.trace(R) / N) ** 2
    assert_allclose(results["mean_test_score"][0], -press, rtol=1e-7)
    assert_allclose(results["mean_test_gcv"][0], -gcv, rtol=1e-7)
    assert np.isnan([results[f"mean_test_{name}"][0] for name in names[2:]]).all()
    assert np.isfinite([results[f"mean_test_{name}"][1] for name in names[2:]]).all()


# -- several spacings ----------------------------------------------------------------------------------

SPACINGS = [(1.0, 2.0), (1.5, 3.0), "data", 0.7]
GRID = {"gammas": [0.3, 1.5, 6.0], "alphas": [0.3, 2.0, 20.0]}


def separate(chosen, spacing, **settings):
    structure = Circulant(spacing=spacing, negative="solve", validate=settings.pop("validate"))
    return chosen(**GRID, approximation=structure, **settings)


@pytest.mark.parametrize("validate", ["matrix", "kernel"])
@pytest.mark.parametrize("cv", [KFold(4), "loo"], ids=str)
@CHOSEN
def test_a_list_of_spacings_is_the_best_of_separate_searches(chosen, fixed, validate, cv) -> None:
    found = separate(chosen, SPACINGS, validate=validate, cv=cv).fit(X, Y)
    alone = [separate(chosen, h, validate=validate, cv=cv).fit(X, Y) for h in SPACINGS]
    best = max(alone, key=lambda model: model.best_score_)
    assert found.best_score_ == best.best_score_
    named = found.best_params_["spacing"]
    assert {**best.best_params_, "spacing": named} == found.best_params_
    assert named == Circulant(spacing=SPACINGS).spacing[alone.index(best)]
    assert found.approximation_["selected_with"] == best.approximation_["selected_with"]
    assert_array_equal(found.heldout_prediction_, best.heldout_prediction_)
    assert_array_equal(found.predict(X), best.predict(X))
    results = found.cv_results_
    assert len(results["params"]) == 9 * len(SPACINGS)
    for spacing, model in zip(Circulant(spacing=SPACINGS).spacing, alone):
        of_it = [spacing == one for one in results["param_spacing"]]
        assert_array_equal(results["mean_test_score"][of_it], model.cv_results_["mean_test_score"])
        assert_array_equal(results["param_gamma"][of_it], model.cv_results_["param_gamma"])
        assert_array_equal(results["param_alpha"][of_it], model.cv_results_["param_alpha"])


def test_ties_go_to_the_largest_gamma_then_alpha_then_the_first_spacing() -> None:
    """Where γh² is large U is the identity, whatever the spacing: every score is that of the mean."""
    structure = Circulant(spacing=[(60.0, 70.0), (50.0, 60.0)], validate="matrix", order="given")
    model = LSSVRCV(approximation=structure, gammas=[1.0, 8.0, 2.0], alphas=[1.0, 3.0, 2.0], cv="loo")
    model.fit(X, NUMBERS)
    assert np.ptp(model.cv_results_["mean_test_score"]) < 1e-12
    assert model.best_params_ == {"alpha": 3.0, "gamma": 8.0, "spacing": (60.0, 70.0)}


def test_several_spacings_and_several_kernels() -> None:
    settings = {"kernel": ["rbf", "laplacian"], "validate": "kernel", "cv": 3}
    found = separate(LSSVRCV, SPACINGS[:2], **settings).fit(X, NUMBERS)
    alone = [separate(LSSVRCV, h, **settings).fit(X, NUMBERS) for h in SPACINGS[:2]]
    assert found.best_score_ == max(model.best_score_ for model in alone)
    assert set(found.best_params_) == {"kernel", "gamma", "alpha", "spacing"}


def test_a_search_over_spacings_is_resumed_cloned_saved_checked_and_drawn(tmp_path) -> None:
    journal = tmp_path / "journal"
    events = []
    estimator = separate(LSSVRCV, SPACINGS, validate="kernel", cv=3, checkpoint=journal)
    found = clone(estimator).fit(X, NUMBERS)
    again = clone(estimator).set_params(callback=events.append).fit(X, NUMBERS)
    assert not events
    assert again.best_params_ == found.best_params_
    assert_array_equal(again.predict(X), found.predict(X))
    other = clone(estimator).set_params(approximation=Circulant(spacing=[1.0], negative="solve"))
    with pytest.raises(ValueError, match="another search, which differs in approximation"):
        other.fit(X, NUMBERS)

    found.save(tmp_path / "model.onefold")
    loaded = onefold.load(tmp_path / "model.onefold")
    assert loaded.best_params_ == found.best_params_
    assert list(loaded.cv_results_["param_spacing"]) == list(found.cv_results_["param_spacing"])
    assert loaded.approximation.spacing == estimator.approximation.spacing
    assert_array_equal(loaded.predict(X), found.predict(X))

    chosen = GridDisplay.from_estimator(found)
    assert len(chosen.scores) == 9
    assert chosen.score == chosen.scores.max()
    assert plan(estimator, X).approximation == estimator.approximation
    checked = trust(estimator.set_params(checkpoint=None), X, NUMBERS, size=24, random_state=0)
    assert "spacing" in checked.approximate
    assert "spacing" in str(checked)


def test_halving_and_learned_metrics_refuse_several_spacings() -> None:
    for settings, words in (({"search": "halving"}, "halving"), ({"metric": "diagonal"}, "metric")):
        with pytest.raises(ValueError, match=words):
            LSSVRCV(approximation=Circulant(spacing=SPACINGS), **settings).fit(X, NUMBERS)


def test_a_report_names_the_spacing(tmp_path) -> None:
    model = separate(LSSVRCV, SPACINGS[:2], validate="kernel", cv=3).fit(X, NUMBERS)
    model.report(tmp_path / "report.html", X, NUMBERS)
    words = "1 × 2" if model.best_params_["spacing"] == (1.0, 2.0) else "1.5 × 3"
    assert words in (tmp_path / "report.html").read_text("utf-8")


@given(n=st.integers(1, 5000), levels=st.integers(1, 4))
def test_a_shape_holds_every_row_and_is_balanced(n, levels) -> None:
    shape = choose_shape(n, levels)
    found = factorise(n, levels)
    assert len(shape) == levels
    assert math.prod(shape) >= n
    assert max(shape) <= 4 * min(shape)
    assert math.prod(found) == n
    assert list(found) == sorted(found)
    if levels == 2:  # the most balanced one
        best = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
        assert found == (best, n // best)
        assert n < 1000 or math.prod(shape) - n <= 16  # few cells are added


def test_principal_order_finds_a_shuffled_grid_again() -> None:
    shape = (6, 8)
    grid = np.stack(np.meshgrid(np.arange(6) * 10.0, np.arange(8), indexing="ij"), -1).reshape(-1, 2)
    turned = grid @ np.array([[0.8, -0.6], [0.6, 0.8]])
    shuffle = RNG.permutation(48)
    order = row_order("principal", turned[shuffle], shape, seed=0)
    cells = shuffle[order].reshape(shape)
    assert (np.abs(np.diff(cells, axis=0)) == 8).all()  # up to the sign of each direction
    assert (np.abs(np.diff(cells, axis=1)) == 1).all()
    for rows in (turned[shuffle], scipy.sparse.csr_matrix(turned[shuffle])):
        assert_array_equal(row_order("principal", rows, shape, seed=0), order)
        assert_allclose(data_spacing(rows, order, shape), (10.0, 1.0))
    assert data_spacing(np.ones((6, 2)), np.arange(6), (2, 3)) == (1.0, 1.0)  # rows that are the same
    assert data_spacing(np.arange(5.0)[:, None], np.arange(5), (1, 5)) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("settings", "kernel", "words"),
    [
        ({"levels": 0}, RBF(), "levels must be"),
        ({"shape": (3, 0)}, RBF(), "shape must hold"),
        ({"spacing": "wide"}, RBF(), "spacing must be"),
        ({"spacing": (1.0, 2.0, 3.0)}, RBF(), "2 levels"),
        ({"spacing": -1.0}, RBF(), "positive"),
        ({"spacing": []}, RBF(), "empty list"),
        ({"spacing": [1.0, (1.0, 2.0, 3.0)]}, RBF(), "2 levels"),
        ({"spacing": [1.0, None]}, RBF(), "positive"),
        ({"spacing": ["data", (1.0, 2.0)]}, RBF(), "estimators that search"),
        ({"order": "sorted"}, RBF(), "order must be"),
        ({"validate": "exact"}, RBF(), "validate must be"),
        ({"negative": "ignore"}, RBF(), "negative must be"),
        ({"shape": (2, 5)}, RBF(), "fewer than the 36 rows"),
        *(
            ({}, kernel, "one width")
            for kernel in (Linear(), RBF((1.0, 2.0)), CallableKernel(np.matmul), RBF() + Linear())
        ),
    ],
)
def test_what_cannot_be_is_refused(settings, kernel, words) -> None:
    Circulant().start(PROBLEM, [Matern() * RBF()], Workload())
    with pytest.raises(ValueError, match=words):
        Circulant(**settings).start(PROBLEM, [kernel], Workload())
