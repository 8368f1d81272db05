r"""Can a criterion see that the approximation is bad? Estimates of the change of f, and their choices.

python -m benchmarks.approximate_criteria

Small tables, so that the exact machine and its test errors are known for every cell of a grid: 400 rows
to train with, 1000 to test on, the rbf kernel, no intercept, targets (labels as ±1) about their mean in
units of their deviation. K̃ is a circulant matrix, a Toeplitz matrix or ding2012's Nyström matrix (a
tenth of the rows, half of the directions); models are trained with K̃ and predict with the true kernel.
`landmarks` is the usual form: as many landmarks, all directions, predictions by the landmarks.

    (K̃ + μI) α̃ = y,   (K + μI) α = y,   E = K − K̃,   α̃ − α = (K + μI)⁻¹ E α̃

*How far f̃ is from f*, estimated without the exact machine; the truth is the root mean square of f̃ − f
over the test rows:

    bound       κ √n ‖y‖ ‖E‖₂ / μ², Theorem 3 of ding2012
    residual    ‖E α̃‖ / √n: at the training rows f̃ − f = K (K + μI)⁻¹ E α̃ is no longer than E α̃, nor is
                −μ (K + μI)⁻¹ E α̃, that of a model which predicts with K̃
    50 rows     the same, from 50 rows of E
    2, 5 steps  ‖K δ‖ / √n, for landmarks ‖μ δ‖ / √n, δ from so many conjugate gradient steps on
                (K + μI) δ = E α̃

*What chooses a cell*: the error of five folds, as the approximation's own search has it; of rows left
out one by one, predicted from K̃ or with the true kernel; the evidence of K̃; the leave-one-out error
of the exact machine on a quarter of the rows; and the true-kernel error with an estimate of the change
added to its root. A choice is judged by the test error of the approximate and of the exact machine
there, relative to the best cell of the grid for that machine.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.common import DATA, Row, report
from benchmarks.tables_data import present, small_split
from onefold.approximations import Approximation, Circulant, Nystroem, Problem, Toeplitz, Workload
from onefold.kernels import RBF
from onefold.smoothers.base import UnsolvableError

SPLITS = 3
ROWS = 400  # to train on
TESTED = 1000  # rows at most
LOOKED_AT = 50  # rows at which a change is estimated
LABELS = ["ida_banana", "ida_heart", "ida_diabetis", "ida_image", "ripley_synth", "ida_twonorm"]
NUMBERS = ["abalone", "uci_concrete", "uci_kin40k", "uci_airfoil", "boston", "cpu_act"]
GAMMAS = 2.0 ** np.arange(-11, 6, 2)
RIDGES = 2.0 ** np.arange(-13, 6, 2)
APPROXIMATIONS: dict[str, Approximation] = {
    "circulant": Circulant(),
    "toeplitz": Toeplitz(),
    "nystroem": Nystroem(ROWS // 10, "uniform", rank=ROWS // 20, predict="rows"),
    "landmarks": Nystroem(ROWS // 10, "uniform"),
}
CHANGES = ("bound", "residual", "50 rows", "2 steps", "5 steps")
QUARTER = "exact, a quarter of the rows"
FIVE_FOLDS = "five folds, as in a search"
CHOOSERS = (
    FIVE_FOLDS,
    "left out, matrix",
    "left out, true kernel",
    "evidence",
    QUARTER,
    "bound",
    *(f"left out, true kernel + {name}" for name in ("bound", "residual", "50 rows", "5 steps")),
)


@dataclass(frozen=True)
class Machine:
    """One matrix, decomposed: every ridge of it."""

    values: Any
    vectors: Any
    y: Any

    @classmethod
    def of(cls, matrix: Any, y: Any) -> Machine:
        values, vectors = np.linalg.eigh(matrix)
        return cls(values, vectors, y)

    @property
    def usable(self) -> Any:
        """Which ridges leave the matrix positive definite."""
        return self.values[0] + RIDGES > 1e-10 * self.values[-1]

    @property
    def inverse(self) -> Any:
        """The eigenvalues of the inverse at every ridge: (n, ridges)."""
        return 1.0 / (self.values[:, None] + np.where(self.usable, RIDGES, np.nan))

    @property
    def duals(self) -> Any:
        """Dual coefficients (n, ridges)."""
        return self.vectors @ (self.inverse * (self.vectors.T @ self.y)[:, None])

    @property
    def left_out(self) -> Any:
        """Residuals of rows left out one by one, from the matrix (n, ridges)."""
        return self.duals / (self.vectors**2 @ self.inverse)

    def left_out_by(self, error: Any) -> Any:
        """The same predicted with the matrix plus `error`: equation 4.10 of the theory."""
        residual = self.left_out
        diagonal = ((error @ self.vectors) * self.vectors) @ self.inverse
        return residual - error @ self.duals + residual * diagonal

    @property
    def evidence(self) -> Any:
        """The log likelihood at the best scale, without constants (ridges,)."""
        n = self.y.size
        with np.errstate(invalid="ignore"):
            return -0.5 * (n * np.log(self.y @ self.duals) - np.log(self.inverse).sum(axis=0))


def gradient_steps(K: Any, right: Any, steps: int) -> Any:
    """δ from conjugate gradient steps on (K + μI) δ = right, a column for each ridge."""
    solution = np.zeros_like(right)
    left = right.copy()
    direction = right.copy()
    size = np.sum(left**2, axis=0)
    for _ in range(steps):
        image = K @ direction + RIDGES * direction
        step = size / np.maximum(np.sum(direction * image, axis=0), 1e-300)
        solution += step * direction
        left -= step * image
        before = size
        size = np.sum(left**2, axis=0)
        direction = left + size / np.maximum(before, 1e-300) * direction
    return solution


def root_mean_square(values: Any) -> Any:
    """Of each column."""
    return np.sqrt(np.mean(values**2, axis=0))


def five_folds(model: Any, y: Any, usable: Any) -> Any:
    """The held-out error of a search (ridges,), NaN where a training part cannot be solved."""
    parts = np.array_split(np.arange(y.size), 5)
    errors = np.full(RIDGES.size, np.nan)
    for number in np.flatnonzero(usable & model.usable(parts, RIDGES)):
        try:
            predicted = np.concatenate(model.heldout(parts, RIDGES[[number]]), axis=1)[:, :, 0]
        except UnsolvableError:  # of a training part, unlike that of all rows
            continue
        errors[number] = root_mean_square(y[:, None] - predicted.T)[0]
    return errors


def changes(
    K: Any, error: Any, duals: Any, y: Any, looked_at: Any, *, landmarks: bool
) -> dict[str, Any]:
    """Every estimate of the root mean square change of f (ridges,)."""
    residual = error @ duals
    norm = np.linalg.norm(error, 2)
    estimates = {
        "bound": np.sqrt(y.size) * np.linalg.norm(y) * norm / RIDGES**2,
        "residual": root_mean_square(residual),
        "50 rows": root_mean_square(error[looked_at] @ duals),
    }
    for steps in (2, 5):
        moved = gradient_steps(K, residual, steps)
        estimates[f"{steps} steps"] = root_mean_square(RIDGES * moved if landmarks else K @ moved)
    return estimates


def cells(table: str, seed: int) -> dict[str, dict[str, Any]]:
    """For each approximation, what is known of every cell: arrays (gammas, ridges)."""
    X, y, X_test, y_test = small_split(DATA / f"{table}.npz", seed, table in LABELS, ROWS, TESTED)
    if table in LABELS:
        y = np.sign(y - 0.5)
        y_test = np.sign(y_test - 0.5)
    mean = y.mean()
    deviation = y.std()
    y = (y - mean) / deviation
    y_test = (y_test - mean) / deviation
    problem = Problem(X, y[:, None], None, False)
    looked_at = np.random.default_rng(seed).choice(y.size, LOOKED_AT, replace=False)
    quarter = np.arange(y.size // 4)
    tables: dict[str, dict[str, list[Any]]] = {name: {} for name in APPROXIMATIONS}
    for gamma in GAMMAS:
        kernel = RBF(gamma)
        K = kernel(X, X)
        across = kernel(X_test, X)
        exact = Machine.of(K, y)
        f = across @ exact.duals
        small = Machine.of(K[np.ix_(quarter, quarter)], y[quarter])
        for name, approximation in APPROXIMATIONS.items():
            load = Workload(alphas=RIDGES.size, smoother=True, matrix=True)
            model: Any = approximation.start(problem, [kernel], load).model(kernel)
            error = K - model.kernel_matrix()
            machine = Machine.of(K - error, y)
            duals = machine.duals
            low = across @ duals
            if name == "landmarks":
                low = model.design.times(X_test) @ (model.whitened().T @ duals)
            left_out = root_mean_square(machine.left_out_by(error))
            estimates = changes(K, error, duals, y, looked_at, landmarks=name == "landmarks")
            values = {
                "change": root_mean_square(low - f),
                "test, approximate": root_mean_square(y_test[:, None] - low),
                "test, exact": root_mean_square(y_test[:, None] - f),
                "left out, matrix": root_mean_square(machine.left_out),
                "left out, true kernel": left_out,
                "evidence": -machine.evidence,
                QUARTER: root_mean_square(small.left_out),
                FIVE_FOLDS: five_folds(model, y, machine.usable),
                **estimates,
            }
            for estimate in ("bound", "residual", "50 rows", "5 steps"):
                values[f"left out, true kernel + {estimate}"] = left_out + estimates[estimate]
            for key, value in values.items():
                tables[name].setdefault(key, []).append(np.where(machine.usable, value, np.nan))
            tables[name].setdefault("every exact", []).append(root_mean_square(y_test[:, None] - f))
    return {name: {key: np.array(v) for key, v in known.items()} for name, known in tables.items()}


def rank_correlation(first: Any, second: Any) -> float:
    """Spearman's, over the cells where both are known."""
    known = np.isfinite(first) & np.isfinite(second)
    return float(spearmanr(first[known], second[known]).statistic)


def judged(known: dict[str, Any]) -> dict[str, float]:
    """Everything that is said of one table, split and approximation."""
    gap = np.nanmin(known["test, approximate"]) / np.nanmin(known["every exact"]) - 1.0
    figures = {"gap": float(gap)}
    for name in CHANGES:
        figures[f"rank {name}"] = rank_correlation(known[name], known["change"])
        figures[f"ratio {name}"] = float(np.nanmedian(known[name] / known["change"]))
    for name in CHOOSERS:
        cell = np.unravel_index(np.nanargmin(known[name]), known[name].shape)
        for machine, best in (("approximate", "test, approximate"), ("exact", "every exact")):
            error = known[f"test, {machine}"]
            figures[f"{machine} {name}"] = float(error[cell] / np.nanmin(known[best])) - 1.0
            figures[f"rank {machine} {name}"] = rank_correlation(known[name], error)
    return figures


def main() -> None:
    tables = present(LABELS + NUMBERS, DATA)
    figures: dict[str, list[dict[str, float]]] = {name: [] for name in APPROXIMATIONS}
    for table in tables:
        for seed in range(SPLITS):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the rows are not a series")
                for name, known in cells(table, seed).items():
                    figures[name].append(judged(known))
        print(table, flush=True)

    def typical(name: str, key: str) -> float:
        return float(np.median([split[key] for split in figures[name]]))

    estimated: list[Row] = []
    for change in CHANGES:
        row: Row = {"estimate": change}
        for name in APPROXIMATIONS:
            ratio = typical(name, f"ratio {change}")
            row[name] = f"{typical(name, f'rank {change}'):.2f}, {ratio:.2g}"
        estimated.append(row)
    report(
        "approximate_criteria-changes",
        "Rank correlation with the true change of f over the grid, and the estimate over the change",
        estimated,
    )
    for machine in ("approximate", "exact"):
        rows: list[Row] = []
        if machine == "approximate":
            best: Row = {"chosen by": "the best cell, beyond the best of the exact machine"}
            for name in APPROXIMATIONS:
                gaps = [split["gap"] for split in figures[name]]
                best[name] = f"{100 * np.median(gaps):.1f} ({100 * np.quantile(gaps, 0.9):.0f})"
            rows.append(best)
        for chooser in CHOOSERS:
            row = {"chosen by": chooser}
            for name in APPROXIMATIONS:
                if f"{machine} {chooser}" not in figures[name][0]:
                    row[name] = ""
                    continue
                excess = [split[f"{machine} {chooser}"] for split in figures[name]]
                worst = float(np.quantile(excess, 0.9))
                rank = typical(name, f"rank {machine} {chooser}")
                row[name] = f"{100 * np.median(excess):.1f} ({100 * worst:.0f}), {rank:.2f}"
            rows.append(row)
        report(
            f"approximate_criteria-{machine}",
            f"Excess test error of the {machine} machine in %: median (ninth decile), rank correlation",
            rows,
        )


if __name__ == "__main__":
    main()
