"""ding2011 and ding2012: short versions of the tables, their algorithms and theorems by brute force."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from benchmarks.common import DATA
from onefold import LSSVC, KernelRidgeCV
from onefold.approximations import Circulant, Nystroem
from onefold.estimators.setup import DEFAULT_ALPHAS, DEFAULT_GAMMAS
from papers import ding2011, ding2012, ida
from papers import ding2011_consistency as consistency
from papers.page import Page

needs_data = pytest.mark.skipif(
    not (DATA / "ida_heart.npz").exists(), reason="the IDA sets are not in ONEFOLD_DATA"
)
ROWS, LABELS = make_moons(130, noise=0.3, random_state=0)
Y = 2.0 * LABELS - 1
SPLIT = ida.Split(ROWS[:80], Y[:80], ROWS[80:], Y[80:])


@needs_data
@pytest.mark.parametrize("paper", [ding2011.PAPER, ding2012.PAPER], ids=lambda paper: paper.key)
def test_a_short_version_writes_the_page(paper, tmp_path: Path) -> None:
    paper.run([], True, tmp_path)
    text = (tmp_path / f"{paper.key}.md").read_text("utf-8")
    assert text.count(":** ") >= len(paper.parts)
    assert "Not run yet" not in text
    for part in paper.parts:
        assert (tmp_path / "images" / f"{paper.key}-{part.name}.png").exists()


@needs_data
def test_random_partitions_are_not_taken_for_official_ones() -> None:
    assert len(ida.load_splits("heart", "official")) == 10
    assert len(ida.load_splits("heart", "random")) == 100
    assert ida.load_splits("thyroid", "official") == []


def test_the_search_finds_what_separate_fits_find() -> None:
    found = ida.select(SPLIT, "exact", 5).cv_results_["mean_test_score"]
    np.testing.assert_allclose(-found.reshape(11, 13).T, ida.literal_cv(SPLIT), atol=1e-12)


def literal_grid(matrix: Any, indefinite: bool = False) -> Any:
    """Held-out error (13, 11) by the bordered system of a training matrix and the true kernel.

    ``matrix(gamma, train)`` is the approximate kernel matrix of some training rows. Cells at which one
    is not positive definite are NaN unless `indefinite`.
    """
    errors = np.zeros((len(DEFAULT_GAMMAS), len(DEFAULT_ALPHAS)))
    folds = list(StratifiedKFold(5).split(SPLIT.X, SPLIT.y))
    for g, gamma in enumerate(DEFAULT_GAMMAS):
        whole = np.linalg.eigvalsh(matrix(gamma, np.arange(len(SPLIT.y))))[0]
        for train, test in folds:
            K = matrix(gamma, train)
            least = min(whole, np.linalg.eigvalsh(K)[0])
            for a, alpha in enumerate(DEFAULT_ALPHAS):
                ones = np.ones((len(train), 1))
                system = np.block([[K + alpha * np.eye(len(train)), ones], [ones.T, np.zeros((1, 1))]])
                *dual, b = np.linalg.solve(system, np.append(SPLIT.y[train], 0.0))
                values = rbf_kernel(SPLIT.X[test], SPLIT.X[train], gamma=gamma) @ dual + b
                wrong = np.mean((values > 0) != (SPLIT.y[test] > 0)) / len(folds)
                errors[g, a] += wrong if indefinite or least + alpha > 0 else np.nan
    return errors


SHAPES = {80: (8, 10), 64: (8, 8)}  # of all rows, and of a training part
SPACING = (0.35, 0.2)


def literal_circulant(gamma: float, rows: Any) -> Any:
    """U of ding2011's equations 12 to 14, entry by entry, with the rows in the order given."""
    shape = SHAPES[len(rows)]
    cells = list(itertools.product(*map(range, shape)))
    first = {}
    for cell in cells:
        places = [{0} if j == 0 else {j, n - j} for j, n in zip(cell, shape)]
        first[cell] = sum(
            np.exp(-gamma * sum((j * h) ** 2 for j, h in zip(place, SPACING)))
            for place in itertools.product(*places)
        )

    def entry(row: tuple[int, ...], column: tuple[int, ...]) -> float:
        return first[tuple((there - here) % n for here, there, n in zip(row, column, shape))]

    return np.array([[entry(row, column) for column in cells] for row in cells])


@pytest.mark.parametrize("negative", ["raise", "solve"])
def test_algorithm_2_of_ding2011_is_what_its_equations_say(negative: Any) -> None:
    structure = Circulant(spacing=SPACING, order="given", validate="kernel", negative=negative)
    scores = ida.select(SPLIT, structure, 5).cv_results_["mean_test_score"].reshape(11, 13).T
    literal = literal_grid(literal_circulant, indefinite=negative == "solve")
    assert np.isnan(literal).any() == (negative == "raise")
    np.testing.assert_allclose(-scores, literal, atol=1e-12)


def test_algorithm_2_of_ding2012_is_what_its_equations_say() -> None:
    columns = np.arange(0, 80, 4)
    structure = Nystroem(SPLIT.X[columns], rank=10, predict="rows")
    scores = ida.select(SPLIT, structure, 5).cv_results_["mean_test_score"].reshape(11, 13).T

    def low_rank(gamma: float, rows: Any) -> Any:
        low = ding2012.low_rank(rbf_kernel(SPLIT.X, gamma=gamma), columns, 10)
        return low[np.ix_(rows, rows)] + 1e-12 * np.eye(len(rows))  # its zeros may round to below 0

    # Of narrower kernels W is the identity, and which directions are its first ten is rounding; with
    # smaller ridges, a sign may be.
    kept = np.ix_(np.asarray(DEFAULT_GAMMAS) <= 32, np.asarray(DEFAULT_ALPHAS) >= 2.0**-9)
    np.testing.assert_allclose(-scores[kept], literal_grid(low_rank)[kept], atol=1e-12)


def test_the_circulant_final_model_is_that_of_the_search() -> None:
    search = ida.select(SPLIT, Circulant(), 5, refit="same")
    again = ida.circulant_again(ida.select(SPLIT, Circulant(), 5))
    values = again.fit(SPLIT.X, SPLIT.y).decision_function(SPLIT.X_test)
    np.testing.assert_allclose(values, search.decision_function(SPLIT.X_test), rtol=1e-9)


def test_claims_that_hold_and_claims_that_do_not_have_a_verdict_each(tmp_path: Path) -> None:
    page = Page(tmp_path)
    ida.judge(page, [ida.Claim("a", "1", True), ida.Claim("b", "2", False), ida.Claim("c", "3", True)])
    verdicts = [line for line in page.lines if line.startswith("**")]
    assert verdicts == ["**Claims hold:** 2 of 3: a; c.", "**Claims do not hold:** 1 of 3: b."]


def test_z_is_the_difference_over_its_standard_error() -> None:
    first = ida.Scores([10.0, 12.0, 14.0], [1.0] * 3)
    second = ida.Scores([9.0, 10.0], [3.0, 5.0])
    a = first.summary()
    b = second.summary()
    assert (a["mean"], a["std"], a["splits"], b["seconds"]) == (12.0, 2.0, 3, 4.0)
    by_hand = (12 - 9.5) / np.sqrt(4 / 3 + 0.5 / 2)
    assert ida.z_statistic(a, b) == pytest.approx(by_hand)
    assert ida.z_statistic(b, a) == pytest.approx(-by_hand)


def test_the_published_table_contradicts_its_claims() -> None:
    """Standard errors of 100 and 20 replications, from the published deviations."""
    found = [ding2011.published(name) for name in ("thyroid", "heart", "image")]
    z = [ida.z_statistic(one["approximate"], one["exact"]) for one in found]
    by_hand = [
        (4.773 - 5.0) / np.sqrt((2.291**2 + 2.58**2) / 100),
        (18.92 - 16.2) / np.sqrt((4.576**2 + 3.259**2) / 100),
        (4.391 - 3.014) / np.sqrt((0.631**2 + 0.877**2) / 20),
    ]
    np.testing.assert_allclose(z, by_hand)
    assert z[0] < ida.SIGNIFICANT < min(z[1:])
    # One difference of ten, the smallest in size, has the other sign: 2 of 2^10 sign patterns each way.
    exact, approximate = zip(*((a[1], b[1]) for a, b in ding2011.PUBLISHED.values()))
    assert ida.signed_rank(exact, approximate) == pytest.approx(4 / 2**10)


GAMMA = 0.7
K = rbf_kernel(SPLIT.X, gamma=GAMMA)
K_TEST = rbf_kernel(SPLIT.X_test, SPLIT.X, gamma=GAMMA)


@pytest.mark.parametrize("mu", [0.01, 0.5, 8.0])
@pytest.mark.parametrize(("c", "rank"), [(8, 4), (20, 20), (60, 10)])
def test_every_inequality_of_theorem_3(mu: float, c: int, rank: int) -> None:
    columns = np.random.default_rng(c).choice(len(K), c, replace=False)
    low = ding2012.low_rank(K, columns, rank)
    assert np.linalg.matrix_rank(low, tol=1e-6) <= rank
    norm = np.linalg.norm(K - low, 2)
    n = len(K)
    assert np.linalg.eigvalsh(K - low)[0] > -1e-8  # hence ‖K − K̃‖₂ ≤ ‖K‖₂

    inverse, inverse_low = (np.linalg.inv(one + mu * np.eye(n)) for one in (K, low))
    assert max(np.linalg.norm(inverse, 2), np.linalg.norm(inverse_low, 2)) <= (1 + 1e-9) / mu
    for right in (np.ones(n), SPLIT.y):
        moved = (inverse_low - inverse) @ right
        np.testing.assert_allclose(moved, inverse_low @ (K - low) @ inverse @ right, atol=1e-6)
        assert np.linalg.norm(moved) <= np.sqrt(n) * norm / mu**2

    found = ding2012.change(K, low, K_TEST, SPLIT.y, mu)
    b = inverse.sum(axis=0) @ SPLIT.y / inverse.sum()
    moved = (inverse_low - inverse) @ (SPLIT.y - b)
    assert found["change"] == pytest.approx(np.abs(K_TEST @ moved).max(), rel=1e-6)
    assert found["bound"] == pytest.approx((1 + abs(b)) * norm / (n * (mu / n) ** 2))
    assert found["change"] <= found["schwarz"] <= found["longest row"] <= found["bound"]


def test_the_change_is_that_of_the_estimators() -> None:
    """Algorithm 1 with an own offset, and the exact machine, both by the library."""
    columns = np.arange(0, 80, 4)
    mu = 0.5
    low = ding2012.low_rank(K, columns, 10)
    structure = Nystroem(SPLIT.X[columns], rank=10, predict="rows")
    settings = {"gamma": GAMMA, "alpha": mu, "calibration": None}
    exact = LSSVC(approximation="exact", **settings).fit(SPLIT.X, SPLIT.y)
    approximate = LSSVC(approximation=structure, **settings).fit(SPLIT.X, SPLIT.y)
    values = [model.decision_function(SPLIT.X_test) for model in (exact, approximate)]
    found = ding2012.change(K, low, K_TEST, SPLIT.y, mu)
    assert found["change, own offset"] == pytest.approx(np.abs(values[1] - values[0]).max(), rel=1e-6)
    assert found["signs changed"] == np.mean((values[0] > 0) != (values[1] > 0))
    assert found["norm"] == pytest.approx(approximate.approximation_["kernel_error"], rel=1e-3)


def test_theorem_2_promises_less_than_nothing_at_the_papers_rank() -> None:
    """‖K − K_k‖_F + 32^(1/4) n for k = c/2 and K_ii = 1: more than ‖K‖_F ≤ n, the error of K̃ = 0."""
    rest = np.sqrt(np.sum(K**2) - np.sum(np.linalg.eigvalsh(K)[-10:] ** 2))
    assert ding2012.expected_error(K, 20, 10) == pytest.approx(rest + 32**0.25 * len(K))
    assert ding2012.expected_error(K, 20, 10) > np.linalg.norm(K)


# -- Theorems 5 to 7 of ding2011 -----------------------------------------------------------------------
def dense(size: int, levels: int) -> tuple[Any, Any]:
    """K and U of a regular grid; both are products of those of one level, as a Gaussian kernel is."""
    row = np.arange(size)
    line = np.exp(-consistency.GAMMA * row**2.0)
    folded = np.where((row > 0) & (2 * row != size), line + line[-row], line)
    distance = row[None, :] - row[:, None]
    K = line[np.abs(distance)]
    U = folded[distance % size]
    return (K, U) if levels == 1 else (np.kron(K, K), np.kron(U, U))


@pytest.mark.parametrize("levels", [1, 2])
def test_the_cost_and_press_are_those_of_dense_matrices(levels: int) -> None:
    """M and V of equation 29 and the leave-one-out residuals, of K and of U."""
    size = 8
    X = consistency.cells(size, levels)
    targets = consistency.targets(X, size)
    exact, circulant = dense(size, levels)
    np.testing.assert_allclose(exact, rbf_kernel(X, gamma=consistency.GAMMA), atol=1e-15)
    for matrix, K in (("exact", exact), (consistency.structure(size, levels, 1.0), circulant)):
        inverse = np.linalg.inv(K + consistency.MU * np.eye(len(X)))
        y = targets["bump"]
        M = consistency.cost_terms(matrix, X, y)[0]
        V = consistency.cost_terms(matrix, X, targets["chessboard"])[1]
        assert pytest.approx(consistency.MU * y @ inverse @ y / len(X), rel=1e-12) == M
        trace = consistency.MU * consistency.NOISE * np.trace(inverse) / len(X)
        assert pytest.approx(trace, rel=1e-12) == V
        classes = targets["classes"]
        press, predictions = consistency.leave_one_out(KernelRidgeCV, matrix, X, classes)
        residuals = inverse @ classes / np.diagonal(inverse)
        np.testing.assert_allclose(classes - predictions, residuals, atol=1e-12)
        assert press == pytest.approx(np.mean(residuals**2), rel=1e-12)


def test_the_cost_and_press_of_a_circulant_matrix_are_consistent_on_a_grid() -> None:
    """Theorems 6 and 7 and the conjecture of edwards2013, with the library's scores."""
    found = [consistency.compare("grid", size, 1) for size in (8, 16, 32)]
    products = [row["V difference"] * row["n_min"] for row in found]
    np.testing.assert_allclose(products, 0.3367, rtol=2e-3)
    press = [row["PRESS difference"] * row["n_min"] for row in found]
    np.testing.assert_allclose(press, 1.08, rtol=0.04)
    for key, factor in (("M difference", 100), ("interior residuals difference", 15)):
        falls = [row[key] for row in found]
        assert falls[0] > factor * falls[1] > factor**2 * falls[2] > 0


@pytest.mark.parametrize("size", [12, 24])
def test_press_differs_by_at_most_the_bound_of_the_proof(size: int) -> None:
    """Rows of R − R' fall with the distance from the border; PRESS is within the bound of the proof."""
    index = consistency.cells(size, 2)
    border = consistency.border_distance(index, size)
    R, other = (
        consistency.MU * np.linalg.inv(M + consistency.MU * np.eye(size**2)) for M in dense(size, 2)
    )
    sums = np.abs(R - other).sum(axis=1)
    r = 0.5
    c = np.max(sums / np.exp(-r * border).sum(axis=1))
    assert 0.8 < c < 0.9  # (5.8) with one c for all sizes
    rho = min(R.diagonal().min(), other.diagonal().min())
    C = max(np.abs(R).sum(axis=1).max(), np.abs(other).sum(axis=1).max())
    constant = 2 * (C / rho) * (1 / rho + C / rho**2) * c
    y = consistency.targets(index, size)["classes"]
    means = [np.mean((operator @ y / operator.diagonal()) ** 2) for operator in (R, other)]
    assert abs(means[0] - means[1]) <= 2 * constant * 2 / ((1 - np.exp(-r)) * size)


def test_without_the_assumptions_residuals_stay_different() -> None:
    for kind in ("lines", "shuffled", "square"):
        found = [consistency.compare(kind, size, 2)["interior residuals difference"] for size in (8, 16)]
        assert found[1] > 0.7 * found[0] > 0.05, kind


def test_rows_near_the_border_may_move() -> None:
    """The displacements satisfy H5 with c₁ = 0.3 e^(1/2) and c₂ = 1, and differences still vanish."""
    size = 12
    index = consistency.cells(size, 2)
    X, spacing = consistency.LAYOUTS["border"].place(index, size)
    apart = np.linalg.norm(X[:, None] - X[None], axis=2)
    on_grid = spacing * np.linalg.norm(index[:, None] - index[None], axis=2)
    decay = np.exp(-consistency.border_distance(index, size)).sum(axis=1)
    assert np.all(np.abs(apart - on_grid) <= 0.3 * np.exp(1.0) * (decay[:, None] + decay[None]))
    found = [consistency.compare("border", size, 2) for size in (8, 16)]
    assert found[0]["M difference"] > 50 * found[1]["M difference"]
    assert found[1]["V difference"] < 0.55 * found[0]["V difference"]


def test_the_exponent_of_equation_26_is_positive() -> None:
    """With Ω and the largest r′ from their definitions, for unequal levels too."""
    for shape in ((8,), (8, 8), (4, 64), (5, 6, 7)):
        omega = np.sqrt(np.sum(np.square(shape)))
        least = min(shape)
        for rate in consistency.EXPONENTS:
            assert rate * omega - rate / 4 * least >= 0.75 * rate * least
    assert consistency.growth(0.1, 8, 2) == pytest.approx(np.exp(0.1 * (np.hypot(8, 8) - 2)))
