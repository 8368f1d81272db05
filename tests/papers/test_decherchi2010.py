"""decherchi2010: a short version of the page, and its parts by brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold

from benchmarks.common import DATA
from onefold import KernelRidge
from onefold.approximations import Toeplitz
from papers import decherchi2010_errors as errors
from papers import decherchi2010_jobs as jobs
from papers import decherchi2010_times as times
from papers.decherchi2010 import PAPER

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (90, 3))
Y = RNG.choice([-1.0, 1.0], 90)


@pytest.mark.skipif(
    not (DATA / f"{errors.SHORT}.npz").exists(), reason=f"{errors.SHORT} is not in ONEFOLD_DATA"
)
def test_a_short_version_writes_the_page(tmp_path: Path) -> None:
    PAPER.run([], True, tmp_path)
    text = (tmp_path / "decherchi2010.md").read_text("utf-8")
    for kind in ("Claims do not hold", "Cannot be tested"):
        assert f"**{kind}:**" in text
    assert 'KernelRidge(approximation=Toeplitz(negative="solve"))' in text
    assert "Not run: Toeplitz for Daimler with 500 rows." in text
    assert {path.stem for path in tmp_path.glob("images/*")} == {
        f"decherchi2010-figure{i}" for i in (2, 3)
    }


def averaged(rows: Any, gamma: float) -> Any:
    """The Toeplitz matrix of the means of the kernel matrix's diagonals."""
    K = rbf_kernel(rows, gamma=gamma)
    return scipy.linalg.toeplitz([np.diagonal(K, j).mean() for j in range(len(rows))])


def test_the_machines_of_figure_2_against_dense_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "data_set", lambda name: (X[:60], Y[:60], X[60:], Y[60:]))
    monkeypatch.setattr(jobs, "WIDTHS", jobs.WIDTHS[:5])  # narrower kernels are 0 between these rows
    found = jobs.toeplitz("", 60, "cpu")
    for i, gamma in enumerate(jobs.WIDTHS / 3):
        T = averaged(X[:60], gamma)
        across = rbf_kernel(X[60:], X[:60], gamma=gamma)
        least = np.linalg.eigvalsh(T)[0]
        dual = [np.linalg.solve(T + value * np.eye(60), Y[:60]) for value in jobs.LAMBDAS]
        assert found["toeplitz"][i] == jobs.errors(across @ np.stack(dual, axis=1), Y[60:])
        indefinite = jobs.LAMBDAS[-least >= jobs.LAMBDAS]
        assert found["indefinite up to"][i] == (indefinite.max() if indefinite.size else 0.0)
        K = rbf_kernel(X[:60], gamma=gamma)
        same = np.full((60, 60), K[np.triu_indices(60, 1)].mean())
        np.fill_diagonal(same, 1.0)
        dual = [np.linalg.solve(same + value * np.eye(60), Y[:60]) for value in jobs.LAMBDAS]
        assert found["equal diagonals"][i] == jobs.errors(across @ np.stack(dual, axis=1), Y[60:])
        window = across @ (Y[:60] - Y[:60].mean())
        assert found["parzen"][i] == jobs.errors(window[:, None], Y[60:])
    assert max(found["indefinite up to"]) > 0  # which the library refuses unless it is told otherwise


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_equal_diagonals_are_solved_in_closed_form(scale: float, intercept: bool) -> None:
    matrix = np.full((90, 90), 0.3 * scale)
    ones = np.ones((90, 1))
    np.fill_diagonal(matrix, 1.1 * scale)
    targets = Y + 0.7
    lambdas = scale * jobs.LAMBDAS
    dual, level = jobs.equal_diagonals(1.1 * scale, 0.3 * scale, targets, lambdas, intercept=intercept)
    for alpha, b, value in zip(dual.T, level, lambdas):
        system = matrix + value * np.eye(90)
        if intercept:
            border = scale * ones  # of the size of the matrix, for a well-scaled system
            system = np.block([[system, border], [border.T, np.zeros((1, 1))]])
            literal = np.linalg.solve(system, np.r_[targets, 0.0])
            np.testing.assert_allclose(b, scale * literal[90], rtol=1e-9)
        else:
            literal = np.linalg.solve(system, targets)
        np.testing.assert_allclose(alpha, literal[:90], rtol=1e-9, atol=1e-12 / scale)
    assert intercept or not level.any()


def test_shuffled_rows_have_nearly_equal_diagonals() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (2000, 3))
    y = np.sign(rows[:, 0] * rows[:, 1])
    machine = KernelRidge(gamma=20.0, alpha=1.0, approximation=Toeplitz())
    with pytest.warns(UserWarning, match="the rows are not a series"):
        values = machine.fit(rows[:1500], y[:1500]).predict(rows[1500:])
    across = rbf_kernel(rows[1500:], rows[:1500], gamma=20.0)
    mean = rbf_kernel(rows[:1500], gamma=20.0)[np.triu_indices(1500, 1)].mean()
    dual, _ = jobs.equal_diagonals(1.0, mean, y[:1500], [1.0])
    closed = (across @ dual)[:, 0]
    assert np.corrcoef(values, closed)[0, 1] > 0.99
    assert np.mean(np.sign(values) == np.sign(closed)) > 0.97


def test_the_choice_is_by_three_folds_with_the_true_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "data_set", lambda name: (X[:60], Y[:60], X[60:], Y[60:]))
    monkeypatch.setattr(jobs, "OURS", {"some": ((30,), 30, 3)})
    found = jobs.selection("some", 60, "cpu")
    cells = {}
    for gamma in jobs.WIDTHS / 3:
        for value in jobs.LAMBDAS:
            wrong = []
            for train, test in KFold(3).split(X[:60]):
                T = averaged(X[train], gamma) + value * np.eye(len(train))
                values = rbf_kernel(X[test], X[train], gamma=gamma) @ np.linalg.solve(T, Y[train])
                wrong.append(np.mean(np.where(values > 0, 1, -1) != Y[test]))
            cells[gamma * 3, value] = float(np.mean(wrong))
    assert found["kernel"]["held-out error"] == pytest.approx(min(cells.values()))
    chosen = min(cells, key=lambda cell: abs(cell[0] - found["kernel"]["width"])
                 + abs(cell[1] - found["kernel"]["lambda"]))  # fmt: skip
    assert cells[chosen] == pytest.approx(min(cells.values()))
    assert found["kernel"]["no score"] == 0
    assert "trust" not in found


def test_elimination_and_conjugate_gradients_agree() -> None:
    K = rbf_kernel(X, gamma=1.0)
    exact = jobs.eliminate(K, Y)
    found, residuals, iterations = jobs.iterate(K, Y, jobs.LAMBDAS)
    assert iterations <= jobs.CG["limit"]
    converged = residuals <= jobs.CG["tolerance"]
    assert converged[-3:].all()
    np.testing.assert_allclose(found[:, converged], exact[:, converged], atol=1e-3)
    np.testing.assert_allclose((K + jobs.LAMBDAS[2] * np.eye(90)) @ exact[:, 2], Y, atol=1e-8)


def test_levinson_is_the_solution_and_its_multiply_adds_are_counted() -> None:
    column = 0.8 ** np.arange(40.0)
    column[0] += 1
    found, count = times.levinson(column, Y[:40])
    np.testing.assert_allclose(found, scipy.linalg.solve_toeplitz(column, Y[:40]), rtol=1e-10)
    assert count == times.multiply_adds(times.TB, 40)
    assert times.multiply_adds(times.GE, 3000) == pytest.approx(3000**3 / 6, rel=0.01)


def test_the_best_cell_is_chosen_on_all_test_rows_the_honest_one_on_half() -> None:
    table = np.full((len(jobs.WIDTHS), 2, len(jobs.LAMBDAS)), 0.5)
    table[2, :, 1] = 0.2, 0.2
    table[4, :, 3] = 0.1, 0.35  # best on the first half
    found = errors.best_of(table)
    assert found["best"] == pytest.approx(0.2)
    assert (found["width"], found["lambda"]) == (jobs.WIDTHS[2], jobs.LAMBDAS[1])
    assert found["honest"] == pytest.approx((0.35 + 0.2) / 2)


def test_jobs_are_kept_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "times", lambda name, n, device: {"n": n})
    jobs.run_job(("w8a", 1000, "times"), "cpu", tmp_path)
    monkeypatch.setattr(jobs, "times", lambda name, n, device: pytest.fail("run again"))
    jobs.run_job(("w8a", 1000, "times"), "cpu", tmp_path)
    assert jobs.gathered(tmp_path) == {"w8a": {"1000": {"times": {"n": 1000}}}}
