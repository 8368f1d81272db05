"""The errata: what is printed fails, what is right does not, by computations of the tests' own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.linalg

from papers import ding2011, errata

RNG = np.random.default_rng(0)


def test_the_page_is_written(tmp_path: Path) -> None:
    errata.PAPER.run([], True, tmp_path)
    text = (tmp_path / "errata.md").read_text("utf-8")
    assert text.startswith("# Errata\n")
    assert text.count("Check") == len(errata.PAPER.parts)


def test_algorithm_2_of_edwards2013_needs_a_minus() -> None:
    results = errata.run_sign(False)
    assert results["as printed"]["difference"] > 1
    assert results["with minus signs"]["difference"] < 1e-11
    assert results["onefold"]["difference"] < 1e-11


def test_held_out_residuals_by_the_bordered_system() -> None:
    """One fold, without the block of the inverse."""
    B = RNG.standard_normal((12, 12))
    K = B @ B.T
    y = RNG.standard_normal(12)
    rows = np.arange(4)
    train = np.arange(4, 12)
    system = np.ones((9, 9))
    system[:8, :8] = K[np.ix_(train, train)] + 0.3 * np.eye(8)
    system[8, 8] = 0.0
    *dual, offset = np.linalg.solve(system, np.append(y[train], 0.0))
    literal = y[rows] - K[np.ix_(rows, train)] @ dual - offset
    folds = [rows, train]
    right, printed = (errata.heldout_residuals(K, y, 0.3, folds, sign)[rows] for sign in (-1.0, 1.0))
    np.testing.assert_allclose(right, literal, rtol=1e-9)
    assert np.abs(printed - literal).max() > 0.01


@pytest.mark.parametrize("n", [2, 3, 17])
def test_the_recursion_of_decherchi2010_needs_its_loops_from_0(n: int) -> None:
    column = np.r_[3.0, RNG.uniform(-1, 1, n - 1) / np.arange(1, n)]
    y = RNG.standard_normal(n)
    literal = np.linalg.solve(scipy.linalg.toeplitz(column), y)
    np.testing.assert_allclose(errata.levinson(column, y, 0), literal, atol=1e-12)
    assert np.abs(errata.levinson(column, y, 1) - literal).max() > 1e-3


def test_the_published_figures_fail_their_own_test_by_standard_errors_only() -> None:
    results = errata.run_significance(False)
    assert results["standard errors"]["worse"] == 8
    assert results["standard deviations"]["worse"] == 0
    worst = ding2011.PUBLISHED["flare_solar"]
    z = (worst[1][1] - worst[0][1]) / np.sqrt((worst[1][2] ** 2 + worst[0][2] ** 2) / 100)
    assert results["standard errors"]["largest"] == pytest.approx(z)
    assert results["p"] == pytest.approx(4 / 2**10)


def test_the_ridge_of_cawley2002_has_a_half() -> None:
    """The solution with ℓ/2γ is that of the sparse system, and no step from it lowers the objective."""
    results = errata.run_ridge(False)
    assert results["ℓ/2γ"]["difference"] < 1e-8
    assert results["ℓ/γ, as printed"]["difference"] > 0.1
    assert results["ℓ/2γ"]["objective"] < results["ℓ/γ, as printed"]["objective"]
    X, y = errata.data()
    K = errata.rbf_kernel(X, gamma=errata.GAMMA)
    dual, offset = errata.solution(X, y, errata.MU / 2)
    least = errata.objective(K, y, dual, offset, 1 / errata.MU)
    for _ in range(20):
        step = 1e-3 * RNG.standard_normal(len(y))
        assert errata.objective(K, y, dual + step, offset + step[0], 1 / errata.MU) > least


def test_equations_2_and_6_of_edwards2013() -> None:
    results = errata.run_objectives(False)
    assert results["objective"]["γ = 2C"] < results["objective"]["γ = C"]
    assert results["gradient"]["with squares"] < 1e-9
    assert results["gradient"]["as printed"] > 1


def test_more_levels_do_not_help_and_larger_levels_do() -> None:
    results = errata.run_levels(True)
    assert results["cells"]["8"] < 0.5 * results["cells"]["4"]
    assert results["levels"]["3"] > 1.2 * results["levels"]["2"]
    assert results["levels"]["2"] == results["cells"]["4"]


def test_the_inequalities_of_ding2011_that_fail() -> None:
    results = errata.run_norms(False)
    weighted, largest, schwarz, bound = (
        [row[key] for row in results.values()] for key in ("22, weighted", "22, largest", "25", "26")
    )
    assert min(weighted) > 1 >= max(largest)
    assert np.all(np.diff(weighted) > 0)
    assert min(schwarz) > 1
    assert np.all(np.diff(bound) > 0)
    # (25) by its definition, for the vectors of the check.
    inverse_weights = np.exp(-errata.RATE * np.abs(4 - np.arange(8)))
    norm = np.max(inverse_weights / inverse_weights)
    assert results["8"]["25"] == pytest.approx(inverse_weights @ inverse_weights / norm**2)
