"""decherchi2010: a short version of the page, and its parts by brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.common import DATA
from papers import decherchi2010_errors as errors
from papers import decherchi2010_jobs as jobs
from papers import decherchi2010_times as times
from papers.decherchi2010 import PAPER

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-1, 1, (90, 3)), RNG.choice([-1.0, 1.0], 90)


@pytest.mark.skipif(
    not (DATA / f"{errors.SHORT}.npz").exists(), reason=f"{errors.SHORT} is not in ONEFOLD_DATA"
)
def test_a_short_version_writes_the_page(tmp_path: Path) -> None:
    PAPER.run([], True, tmp_path)
    text = (tmp_path / "decherchi2010.md").read_text("utf-8")
    assert text.count("eproduced:**") == len(PAPER.parts)
    assert "Not run: Toeplitz for Daimler with 500 rows." in text
    assert {path.stem for path in tmp_path.glob("images/*")} == {
        f"decherchi2010-figure{i}" for i in (2, 3)
    }


@pytest.mark.parametrize(("rows", "columns"), [(256, 2048), (16, 32), (7, 5)])
def test_means_of_diagonals_for_several_widths_from_one_pass(rows: int, columns: int) -> None:
    found = jobs.diagonal_means(X, 0.4, 3, rows, columns)
    for k, means in enumerate(found):
        K = rbf_kernel(X, gamma=0.4 * 4**k)
        np.testing.assert_allclose(means, [np.diagonal(K, j).mean() for j in range(90)], rtol=1e-9)


def test_toeplitz_systems_are_solved_where_they_are_indefinite() -> None:
    column = np.r_[0.2, np.cos(np.arange(1, 90)) / np.arange(1, 90)]
    matrix = scipy.linalg.toeplitz(column)
    dual, least = jobs.solve_toeplitz(column, Y)
    assert least == pytest.approx(np.linalg.eigvalsh(matrix)[0], rel=0.05)
    assert least < -jobs.LAMBDAS[0]
    for alpha, value in zip(dual.T, jobs.LAMBDAS):
        np.testing.assert_allclose(matrix @ alpha + value * alpha, Y, atol=1e-5)


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
