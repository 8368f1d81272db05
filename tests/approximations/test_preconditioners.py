"""Landmarks and blocks: the applied preconditioner, and what it solves, against dense factors."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from onefold import LSSVR, KernelRidge
from onefold.approximations import ConjugateGradients, Workload, cg, operators, preconditioners
from onefold.approximations.preconditioners import (
    LocalPreconditioner,
    PreconditionerPlan,
    plan_preconditioner,
)
from onefold.approximations.problem import Machine, Problem
from onefold.kernels import (
    RBF,
    CallableKernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    PowerExponential,
)
from onefold.linalg import to_numpy
from onefold.linalg.partition import near_blocks
from onefold.machine.threads import use_threads

RNG = np.random.default_rng(7)
N = 90
X = RNG.standard_normal((N, 3))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2], RNG.standard_normal(N)]) + 2.0
WEIGHT = 10.0 ** RNG.uniform(-5, 0, N)
WEIGHT /= WEIGHT.mean()
PARTS = [np.arange(0, 25), np.arange(25, 70, 3), np.arange(70, N)]
KERNELS = [
    RBF(0.3),
    Laplacian(0.3),
    Matern(0.3, nu=0.5),
    Matern(0.3, nu=1.5),
    Matern(0.3, nu=2.5),
    PowerExponential(0.3),
    Polynomial(0.2, degree=2),
    Linear(),
    RBF(0.3) + Linear(),
    RBF(0.1) * Laplacian(0.2),
    CallableKernel(lambda A, B: np.exp(-np.abs(A[:, None, :] - B[None, :, :]).sum(2))),
]
PLANS = {
    "one block": PreconditionerPlan(1, 0, False),
    "one block and landmarks": PreconditionerPlan(1, 20, False),
    "blocks": PreconditionerPlan(7, 0, False),
    "blocks and landmarks": PreconditionerPlan(7, 20, False),
    "blocks of one row": PreconditionerPlan(N, 20, False),
    "the diagonal": PreconditionerPlan(N, 0, False),
    "as many landmarks as rows": PreconditionerPlan(7, N, False),
    "more landmarks than rows": PreconditionerPlan(2 * N, 2 * N, False),
    "float32": PreconditionerPlan(7, 20, True),
    "one block of float32": PreconditionerPlan(1, 0, True),
}
ARRANGED = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
OF_KERNELS = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: repr(kernel)[:30])


def applied(
    kernel: Any, plan: PreconditionerPlan, mu: float, *, rows: Any = X, weight: Any = None, xp: Any = np
) -> tuple[Any, Any]:
    """P⁻¹ as a matrix, and what is reported of it."""
    root = np.ones(len(rows)) if weight is None else np.sqrt(weight)
    generator = np.random.default_rng(0)
    made = LocalPreconditioner(kernel, xp.asarray(rows), xp.asarray(root), plan, generator)
    inverse = made.solver(mu)(xp.asarray(np.eye(len(rows))))
    return to_numpy(inverse), made.report


def system(kernel: Any, mu: float, *, rows: Any = X, weight: Any = None) -> Any:
    """A = S K S + μI."""
    root = np.ones(len(rows)) if weight is None else np.sqrt(weight)
    return root[:, None] * kernel(rows, rows) * root + mu * np.eye(len(rows))


# -- the applied preconditioner ----------------------------------------------------------------------
@OF_KERNELS
@ARRANGED
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mu", [1e-8, 1.0])
def test_the_applied_preconditioner_is_symmetric_and_positive_definite(kernel, plan, weighted, mu):
    """In whatever precision its factors are, and how many rows or landmarks a block has."""
    inverse, report = applied(kernel, plan, mu, weight=WEIGHT if weighted else None)
    # Inverses of blocks have numbers up to 1/μ, also where those of the whole are smaller.
    rounding = 20 * np.finfo(float).eps / mu
    assert_allclose(inverse, inverse.T, atol=1e-9 * np.abs(inverse).max() + rounding)
    assert np.linalg.eigvalsh((inverse + inverse.T) / 2)[0] > 0
    assert report["landmarks"] == min(plan.landmarks, N)
    assert report["blocks"] == min(plan.blocks, N)


@OF_KERNELS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("mu", [1e-3, 1.0])
def test_the_applied_preconditioner_is_the_formula_of_its_head(kernel, weighted, mu):
    """P = ΨΨᵀ + blockdiag(A_ii − Ψ_iΨ_iᵀ), from landmarks and blocks drawn in the same way."""
    weight = WEIGHT if weighted else None
    inverse, _ = applied(kernel, PLANS["blocks and landmarks"], mu, weight=weight)
    generator = np.random.default_rng(0)
    centred = X - X.mean(axis=0) if kernel.stationary else X
    transform = getattr(kernel, "transform", None)
    moved = centred if transform is None else transform(centred)(centred)
    blocks = near_blocks(moved, 7, generator)
    order = np.concatenate(blocks)
    drawn = order[np.sort(generator.choice(N, 20, replace=False))]
    root = np.ones(N) if weight is None else np.sqrt(weight)
    K = kernel(X, X)
    low = root[:, None] * K[:, drawn] @ np.linalg.pinv(K[np.ix_(drawn, drawn)], rcond=1e-13)
    low = low @ K[drawn, :] * root
    A = system(kernel, mu, weight=weight)
    P = low.copy()
    for block in blocks:
        P[np.ix_(block, block)] = A[np.ix_(block, block)]
    error = inverse @ P - np.eye(N)
    assert np.abs(error).max() < 1e-5


@pytest.mark.parametrize("mu", [1e-8, 1e-5, 1.0])
def test_one_block_without_landmarks_is_the_inverse(mu):
    inverse, report = applied(Laplacian(0.3), PLANS["one block"], mu, weight=WEIGHT)
    assert report["method"] == "factor"
    A = system(Laplacian(0.3), mu, weight=WEIGHT)
    assert_allclose(inverse @ A, np.eye(N), atol=1e-6)


def test_rows_that_repeat_have_a_factor_whose_raised_diagonal_is_reported():
    """Float32 leaves none at a ridge below its rounding."""
    rows = np.repeat(X[:30], 3, axis=0)
    for plan in PLANS.values():
        inverse, report = applied(RBF(0.3), plan, 1e-10, rows=rows)
        assert np.linalg.eigvalsh((inverse + inverse.T) / 2)[0] > 0
        assert report["jitter"] >= 0
    assert applied(RBF(0.3), PLANS["one block of float32"], 1e-10, rows=rows)[1]["jitter"] > 0


def test_landmarks_at_which_a_kernel_is_zero_explain_nothing():
    rows = np.zeros((12, 2))
    rows[0] = 1.0
    inverse, _ = applied(Linear(), PreconditionerPlan(3, 2, False), 0.5, rows=rows)
    assert_allclose(inverse @ system(Linear(), 0.5, rows=rows), np.eye(12), atol=1e-12)


@ARRANGED
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_another_array_library_gives_the_same_numbers(plan, library):
    xp = pytest.importorskip(library)
    here, _ = applied(Matern(0.3, nu=1.5), plan, 1e-2, weight=WEIGHT)
    there, _ = applied(Matern(0.3, nu=1.5), plan, 1e-2, weight=WEIGHT, xp=xp)
    tolerance = 1e-3 if plan.single else 1e-9
    assert_allclose(there, here, atol=tolerance * np.abs(here).max())


# -- systems with and without each part --------------------------------------------------------------
def literal(kernel: Any, mu: float, rows: Any, targets: Any, weight: Any, intercept: bool) -> Any:
    """(α, b) of the rows alone, from a dense solution."""
    n = len(rows)
    matrix = kernel(rows, rows) + mu * np.diag(1.0 / weight)
    if not intercept:
        return np.linalg.solve(matrix, targets), np.zeros(targets.shape[1])
    bordered = np.block([[matrix, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solution = np.linalg.solve(bordered, np.vstack([targets, np.zeros((1, targets.shape[1]))]))
    return solution[:-1], solution[-1]


def started(
    kernel: Any,
    settings: ConjugateGradients,
    *,
    rows: Any = X,
    targets: Any = Y,
    weight: Any = None,
    intercept: bool = True,
) -> Any:
    root = None if weight is None else np.sqrt(weight)
    problem = Problem(rows, targets, root, intercept)
    return settings.model(kernel, problem, Workload(folds=len(PARTS), parts=PARTS), None)


ARRANGEMENTS = {
    "one block": {},
    "blocks and landmarks": {"n_components": 30, "block_rows": 20},
    "blocks": {"n_components": 0, "block_rows": 30},
    "blocks of one row": {"n_components": 60, "block_rows": 1},
    "more landmarks than rows": {"n_components": 1000, "block_rows": 20},
}
SHARP = ConjugateGradients(tolerance=1e-11, max_iterations=4000)


@OF_KERNELS
@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
@pytest.mark.parametrize("intercept", [True, False])
def test_held_out_predictions_and_models_of_folds_are_those_of_refits(
    kernel, arrangement, intercept, monkeypatch
):
    """Of several targets at two ridges, without weights; tiles of few rows."""
    monkeypatch.setattr(operators, "_SIDE", 32)
    model = started(kernel, replace(SHARP, **arrangement), intercept=intercept)
    agrees(model, kernel, 0.03, X, Y, np.ones(N), intercept)


@pytest.mark.parametrize("kernel", [RBF(0.3), Laplacian(0.3), Linear(), PowerExponential(0.3)])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
@pytest.mark.parametrize("mu", [1e-3, 1.0])
def test_weights_over_five_decades(kernel, arrangement, mu):
    settings = replace(SHARP, tolerance=1e-9, **arrangement)
    model = started(kernel, settings, weight=WEIGHT)
    agrees(model, kernel, mu, X, Y, WEIGHT, True, tolerance=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_that_repeat_are_one_row_with_their_weights(weighted, intercept):
    """Also where some of them are held out, and where their targets differ."""
    rows = X[RNG.integers(0, 20, N)]
    weight = WEIGHT if weighted else None
    settings = replace(SHARP, tolerance=1e-9)
    model = started(RBF(0.5), settings, rows=rows, weight=weight, intercept=intercept)
    assert model.report["distinct_rows"] == len(np.unique(rows, axis=0)) <= 20
    ones = np.ones(N) if weight is None else weight
    agrees(model, RBF(0.5), 0.1, rows, Y, ones, intercept, tolerance=1e-6)


def agrees(
    model: Any,
    kernel: Any,
    mu: float,
    rows: Any,
    targets: Any,
    weight: Any,
    intercept: bool,
    tolerance: float = 1e-7,
) -> None:
    """Held-out predictions, fold models and the model of all rows are those of literal refits."""
    heldout = model.heldout(PARTS, [mu, 10 * mu])
    folds = model.fold_models(PARTS, mu)
    new = X[:5] + 0.1
    predictions = folds.predict(new)  # (rows, folds, targets)
    for number, part in enumerate(PARTS):
        rest = np.setdiff1d(np.arange(N), part)
        for place, ridge in enumerate((mu, 10 * mu)):
            alpha, b = literal(kernel, ridge, rows[rest], targets[rest], weight[rest], intercept)
            expected = kernel(rows[part], rows[rest]) @ alpha + b
            assert_allclose(heldout[number][place], expected, atol=tolerance, rtol=tolerance)
        alpha, b = literal(kernel, mu, rows[rest], targets[rest], weight[rest], intercept)
        expected = kernel(new, rows[rest]) @ alpha + b
        assert_allclose(predictions[:, number], expected, atol=tolerance, rtol=tolerance)
    alpha, b = literal(kernel, mu, rows, targets, weight, intercept)
    expected = kernel(new, rows) @ alpha + b
    found = model.expansion(mu).predict(new)
    assert_allclose(found, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("kernel", [Laplacian(0.3), Matern(0.3, nu=0.5), PowerExponential(0.3)])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
@pytest.mark.parametrize("mu", [1e-8, 1e-6, 1e-4])
def test_tiny_ridges(kernel, arrangement, mu):
    """Kernels that are not smooth have a condition that float64 bears."""
    model = started(kernel, replace(SHARP, tolerance=1e-8, **arrangement))
    expected, b = literal(kernel, mu, X, Y, np.ones(N), True)
    found = model.expansion(mu)
    assert model.report["solves"][-1]["converged"]
    new = X + 0.05
    assert_allclose(found.predict(new), kernel(new, X) @ expected + b, atol=1e-5)


@pytest.mark.parametrize("plan", [PLANS["float32"], PLANS["one block of float32"]])
@pytest.mark.parametrize("mu", [1e-6, 1e-3, 1.0])
def test_float32_factors_lead_to_the_same_solution(plan, mu, monkeypatch):
    monkeypatch.setattr(cg, "plan_preconditioner", lambda *_, **__: plan)
    model = started(Laplacian(0.3), replace(SHARP, tolerance=1e-9))
    expected, b = literal(Laplacian(0.3), mu, X, Y, np.ones(N), True)
    new = X + 0.05
    found = model.expansion(mu).predict(new)
    assert_allclose(found, Laplacian(0.3)(new, X) @ expected + b, atol=1e-6)
    assert model.report["preconditioner"]["precision"] == "float32"


@pytest.mark.parametrize("part_of_all", [np.arange(1, N), np.arange(2, N)])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_fold_that_leaves_one_row_or_two(part_of_all, intercept):
    model = started(RBF(0.3), replace(SHARP, n_components=40), intercept=intercept)
    rest = np.setdiff1d(np.arange(N), part_of_all)
    (heldout,) = model.heldout([part_of_all], [0.1])
    alpha, b = literal(RBF(0.3), 0.1, X[rest], Y[rest], np.ones(rest.size), intercept)
    assert_allclose(heldout[0], RBF(0.3)(X[part_of_all], X[rest]) @ alpha + b, atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("estimator", [LSSVR, KernelRidge])
def test_the_fewest_rows(estimator, n):
    dense = estimator(gamma=1.0, alpha=0.1).fit(X[:n], Y[:n])
    found = estimator(gamma=1.0, alpha=0.1, approximation=SHARP).fit(X[:n], Y[:n])
    assert_allclose(found.predict(X), dense.predict(X), atol=1e-10)


@pytest.mark.filterwarnings("error")
def test_targets_that_are_constant_in_all_rows_or_without_a_fold():
    targets = np.column_stack([np.full(N, 3.3), np.where(np.arange(N) < 25, Y[:, 0], 0.1)])
    model = started(RBF(0.3), ConjugateGradients(), targets=targets)
    heldout = model.heldout(PARTS, [0.1])
    assert_allclose([part[0, 0, 0] for part in heldout], 3.3, rtol=1e-12)
    assert_allclose(heldout[0][0, :, 1], 0.1, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_of_targets_and_rows_do_not_matter(scale):
    settings = ConjugateGradients(30, block_rows=20)
    plain = started(RBF(0.5), settings).heldout(PARTS, [0.1])
    scaled = started(RBF(0.5), settings, targets=scale * Y).heldout(PARTS, [0.1])
    moved = started(RBF(0.5 / scale**2), settings, rows=scale * X).heldout(PARTS, [0.1])
    for first, second, third in zip(plain, scaled, moved):
        assert_allclose(second / scale, first, rtol=1e-3, atol=1e-3)
        assert_allclose(third, first, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8])
def test_rows_of_other_types(kind):
    rows = np.abs(10 * X).astype(kind)
    model = started(RBF(0.01), SHARP, rows=rows)
    agrees(model, RBF(0.01), 0.1, rows.astype(float), Y, np.ones(N), True, tolerance=1e-6)


def test_near_duplicates_far_from_the_origin():
    """Distances of 10⁻⁶ at 10⁸: rows are centred before they are rounded."""
    pairs = np.repeat(X[:45], 2, axis=0) + 1e-6 * RNG.standard_normal((N, 3))
    far = 1e8 + pairs
    centred = far - far.mean(axis=0)
    for kernel in (RBF(0.5), Laplacian(0.5), PowerExponential(0.5)):
        for arrangement in ARRANGEMENTS.values():
            model = started(kernel, replace(SHARP, tolerance=1e-8, **arrangement), rows=far)
            agrees_far(model, kernel, centred)


def agrees_far(model: Any, kernel: Any, rows: Any) -> None:
    heldout = model.heldout(PARTS, [1e-2])
    for number, part in enumerate(PARTS):
        rest = np.setdiff1d(np.arange(N), part)
        alpha, b = literal(kernel, 1e-2, rows[rest], Y[rest], np.ones(rest.size), True)
        assert_allclose(heldout[number][0], kernel(rows[part], rows[rest]) @ alpha + b, atol=1e-5)


# -- the stopping rule -------------------------------------------------------------------------------
def test_the_held_out_error_ends_the_iteration():
    """At a quarter of it; the error itself is then right to some per cent, and a tolerance goes on."""
    targets = Y[:, :1] + RNG.standard_normal((N, 1))
    few = ConjugateGradients(5, block_rows=10)
    model = started(RBF(0.3), few, targets=targets)
    exact = started(RBF(0.3), replace(few, tolerance=1e-10), targets=targets)
    early, late = (one.heldout(PARTS, [0.1]) for one in (model, exact))
    (quick,) = model.report["solves"]
    (slow,) = exact.report["solves"]
    assert quick["converged"]
    assert quick["iterations"] < slow["iterations"]
    assert 1e-5 < quick["residual"] < 1
    errors = [
        math.sqrt(np.mean([np.mean((part[0] - targets[rows]) ** 2) for part, rows in zip(found, PARTS)]))
        for found in (early, late)
    ]
    assert errors[0] == pytest.approx(errors[1], rel=0.05)
    assert model.report["solves"][0]["systems"] == len(PARTS) + 1  # that of all rows goes with them


def test_a_residual_out_of_reach_is_a_warning_with_cause_and_remedy():
    model = started(RBF(0.01), ConjugateGradients(2, max_iterations=2, block_rows=5, tolerance=1e-9))
    with pytest.warns(ConvergenceWarning) as caught:
        model.heldout(PARTS, [1e-6])
    text = str(caught[0].message)
    assert "stopped after 2 iterations at a relative residual of" in text
    for remedy in ("n_components", "block_rows", "a larger alpha", "max_iterations"):
        assert remedy in text
    assert not model.report["solves"][0]["converged"]


# -- the same digits ---------------------------------------------------------------------------------
@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
def test_the_number_of_threads_changes_no_digit(arrangement, monkeypatch):
    monkeypatch.setattr(operators, "_SIDE", 16)
    monkeypatch.setattr(preconditioners, "_STRIP", 4)

    def found(threads: int) -> list[Any]:
        with use_threads(threads):
            model = started(Matern(0.3), ConjugateGradients(**arrangement), weight=WEIGHT)
            return [*model.heldout(PARTS, [0.01]), model.expansion(0.01).coef]

    single = found(1)
    for threads in (2, 3):
        for first, second in zip(single, found(threads)):
            assert_array_equal(second, first)


@pytest.mark.parametrize("arrangement", ARRANGEMENTS.values(), ids=ARRANGEMENTS)
@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
def test_another_array_library_predicts_the_same(arrangement, library, monkeypatch):
    xp = pytest.importorskip(library)
    monkeypatch.setattr(operators, "_SIDE", 32)
    settings = replace(SHARP, **arrangement)
    here = started(Matern(0.3, nu=1.5), settings)
    there = started(Matern(0.3, nu=1.5), settings, rows=xp.asarray(X), targets=xp.asarray(Y))
    for first, second in zip(here.heldout(PARTS, [0.01]), there.heldout(PARTS, [0.01])):
        assert_allclose(to_numpy(second), first, atol=1e-8)
    new = X[:5] + 0.1
    of_folds = [
        to_numpy(model.fold_models(PARTS, 0.01).predict(rows))
        for model, rows in ((here, new), (there, xp.asarray(new)))
    ]
    assert_allclose(of_folds[1], of_folds[0], atol=1e-8)


# -- sizes and blocks --------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 5, 97, 1000])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 2000])
@pytest.mark.parametrize("rows", ["normal", "equal", "two values"])
def test_blocks_are_balanced_have_all_rows_once_and_are_the_same_each_time(n, count, rows):
    table = np.random.default_rng(0).standard_normal((n, 2))
    table = {"normal": table, "equal": np.ones((n, 2)), "two values": np.sign(table)}[rows]
    blocks = near_blocks(table, count, np.random.default_rng(1))
    sizes = [block.size for block in blocks]
    assert len(blocks) == min(n, count)
    assert max(sizes) - min(sizes) <= 1
    assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(n))
    again = near_blocks(table, count, np.random.default_rng(1))
    for first, second in zip(blocks, again):
        assert_array_equal(first, second)


def test_rows_of_a_block_are_near():
    """Two clouds far apart are two blocks."""
    cloud = np.random.default_rng(0).random(100) < 0.5
    cloud[:50], cloud[50:] = True, False
    table = np.random.default_rng(1).standard_normal((100, 2)) + 100 * cloud[:, None]
    blocks = near_blocks(table, 2, np.random.default_rng(0))
    assert {tuple(np.unique(cloud[block])) for block in blocks} == {(True,), (False,)}


@pytest.mark.parametrize("n", [1, 2, 10, 5000, 50_000, 1_000_000])
@pytest.mark.parametrize("usable", [None, 1e3, 1e8, 1e10])
@pytest.mark.parametrize("gpu", [False, True])
def test_sizes_are_possible_and_hold_in_the_memory(n, usable, gpu):
    plan = plan_preconditioner((n, 10, 1), usable, gpu=gpu, systems=3, mu=1.0)
    assert 1 <= plan.blocks <= n
    assert 0 <= plan.landmarks <= n
    if usable is not None and plan.blocks < n:
        rows = -(-n // plan.blocks)
        assert 3 * (4 if plan.single else 8) * n * rows <= usable
    if plan.blocks == 1:
        assert plan.landmarks == 0
    assert plan.bytes(n) > 0
    assert plan.operations(n, 10) > 0


@pytest.mark.parametrize("n", [20_000, 200_000, 400_000])
@pytest.mark.parametrize("free", [4, 8, 16, 64])
def test_the_peak_is_that_of_sizes_that_the_free_memory_allows(n, free):
    """200,000 rows with 8 GiB have smaller blocks and fewer landmarks than with 64 GiB."""
    shape = (n, 20, 1)
    free *= 2**30
    load = Workload(1, 1, folds=1)
    plan = plan_preconditioner(shape, Machine(free).usable, systems=2)
    peak = ConjugateGradients().memory(*shape, load, free)
    assert 2 * plan.bytes(n) <= peak <= free
    assert peak <= ConjugateGradients().peak_bytes(*shape, load, 1)
    unlimited = plan_preconditioner(shape, None, systems=2)
    assert plan.blocks >= unlimited.blocks
    assert plan.landmarks <= unlimited.landmarks
    if free == 64 * 2**30 and n <= 200_000:
        assert plan == unlimited
        assert peak == ConjugateGradients().peak_bytes(*shape, load, 1)


def test_memory_that_is_short_means_smaller_blocks_and_no_landmark_model():
    """Without memory in view, the peak of 200,000 rows was above 8 GiB, and no fit was tried."""
    shape = (200_000, 54, 7)
    load = Workload(1, 1, folds=1)
    assert ConjugateGradients().peak_bytes(*shape, load, 1) > 8 * 2**30
    assert ConjugateGradients().memory(*shape, load, 8 * 2**30) < 8 * 2**30


def test_ridges_below_the_rounding_of_float32_have_factors_in_float64():
    assert plan_preconditioner((20_000, 10, 1), 2e8, mu=1.0).single
    assert not plan_preconditioner((20_000, 10, 1), 2e8, mu=1e-8).single


def test_no_warning_where_nothing_is_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        started(RBF(0.3), ConjugateGradients()).heldout(PARTS, [0.1])
