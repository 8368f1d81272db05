"""Table II of edwards2013: test errors of the exact and of the circulant LS-SVM.

The paper names neither its partitions, nor its grid, nor its rule of selection. Its figures show them:

1. A mean of m test errors in percent, each on N rows, is a whole number of rows: mean · m · N / 100.
   Five is the least m that fits: the first five official partitions, with the rows as distributed.
2. γ and μ are powers of e. All five partitions share one pair (γ, μ).
3. The pair of the exact column has the fewest leave-one-out errors, summed over the five training parts.
   Ties go to the largest γ, then to the largest μ.

The circulant columns follow from U = I, which is the matrix wherever γ h² ≫ 1 for every spacing h:

4. f(x) = ȳ + Σ_i (y_i − ȳ) k(x, x_i)/(1 + μ)   (a Parzen window plus the mean; H_n does not enter)
5. f_{−i}(x_i) = (n ȳ − y_i)/(n − 1)             (A-LOO: the larger class for every row, for all γ and μ)

Two facts on m numbers e_1, …, e_m ≥ c of mean a and standard deviation s:

6. If all but one of them are equal, that one is a + s (m − 1)/√m.
7. max e_i ≥ c + Σ (e_i − c)² / Σ (e_i − c) = a + (m − 1) s² / (m (a − c)).
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.common import DATA
from onefold import LSSVC, LSSVCCV
from onefold.approximations import Approximation, Circulant, Exact, Problem, Workload
from onefold.approximations.circulant import choose_shape
from onefold.kernels import RBF
from onefold.machine.threads import use_threads
from papers.ida import Kind, Split, available, score_circulant, text
from papers.page import PartResult

Numbers = NDArray[np.float64]
Cell = tuple[int, int]  # places of γ and μ in the grid
Printed = tuple[float, float]  # a mean and a standard deviation, in percent

EXACT = "exact"
INTERVALS = {"(1, 2)": (1.0, 2.0), "(10, 11)": (10.0, 11.0)}  # of H_n, and the spacings taken
COLUMNS = (*INTERVALS, EXACT)
# Training rows, test rows, and test errors by column of Table II.
PUBLISHED: dict[str, tuple[int, int, tuple[Printed, Printed, Printed]]] = {
    "titanic": (150, 2051, ((23.82, 1.44), (22.80, 0.68), (22.92, 0.43))),
    "breast_cancer": (200, 77, ((29.87, 5.59), (26.75, 5.92), (25.97, 4.40))),
    "diabetis": (468, 300, ((25.67, 1.13), (25.27, 2.07), (23.00, 1.27))),
    "flare_solar": (666, 400, ((35.65, 2.78), (36.65, 2.47), (33.75, 1.44))),
    "banana": (400, 4900, ((14.10, 1.74), (18.98, 1.76), (10.97, 0.57))),
    "image": (1300, 1010, ((17.64, 1.52), (6.89, 0.73), (2.47, 0.53))),
    "twonorm": (400, 7000, ((15.64, 25.71), (6.85, 8.86), (2.35, 0.07))),
    "german": (700, 300, ((29.93, 1.61), (27.40, 1.79), (21.87, 1.77))),
    "waveform": (400, 4600, ((19.85, 3.87), (17.57, 1.93), (9.77, 0.31))),
    "thyroid": (140, 75, ((29.33, 4.07), (17.33, 3.89), (4.17, 3.23))),
}
EXPONENTS = np.arange(-6, 7)
GRID = np.exp(EXPONENTS)  # of γ and of μ
PARTITIONS = 5
FEW_TEST_ROWS = 1010  # at most so many: a mean of few partitions has few possible values
QUINTUPLES = 200  # of random partitions, in the control against chance
CHANCE = 50.0  # percent, the error of a coin, and of a setting whose system is singular


def published(name: str, column: str) -> Printed:
    """Mean and standard deviation that the paper prints."""
    return PUBLISHED[name][2][COLUMNS.index(column)]


def load(name: str, kind: Kind, limit: int | None = None) -> list[Split]:
    """Up to `limit` partitions, with the rows as distributed; none where there are none of this kind."""
    prefix = "" if kind == "official" else "rand_"
    with np.load(DATA / f"ida_{name}.npz") as stored:
        if f"{prefix}train_idx" not in stored:
            return []
        X = stored["X"].astype(np.float64)
        y = np.where(stored["y"] > 0, 1, -1)
        parts = list(zip(stored[f"{prefix}train_idx"], stored[f"{prefix}test_idx"]))[:limit]
    return [Split(X[train], y[train], X[test], y[test]) for train, test in parts]


def first_five(name: str) -> tuple[Kind, list[Split]]:
    """The first five official partitions, or random ones where there are none."""
    official = load(name, "official", PARTITIONS)
    return ("official", official) if official else ("random", load(name, "random", PARTITIONS))


def circulant(spacing: Sequence[float], shape: tuple[int, ...] | None = None) -> Circulant:
    """The paper's matrix: rows as they came, A-LOO from the matrix alone, indefinite systems solved."""
    return Circulant(
        shape=shape, spacing=tuple(spacing), order="given", validate="matrix", negative="solve"
    )


# -- by the public interface ---------------------------------------------------------------------------


def test_errors(splits: Sequence[Split], cell: Cell, approximation: Approximation) -> list[float]:
    """Test error in percent of every partition at one (γ, μ)."""
    gamma, alpha = GRID[list(cell)]
    model = LSSVC(gamma=gamma, alpha=alpha, approximation=approximation, calibration=None, n_jobs=1)
    scores = [model.fit(split.X, split.y).score(split.X_test, split.y_test) for split in splits]
    return [100 * (1 - score) for score in scores]


def leave_one_out(splits: Sequence[Split], approximation: Approximation) -> Numbers:
    """Leave-one-out errors in percent (partitions, γ, μ); infinite where there is no score."""
    table = np.full((len(splits), GRID.size, GRID.size), np.inf)
    for place, split in enumerate(splits):
        search = LSSVCCV(
            gammas=GRID,
            alphas=GRID,
            approximation=approximation,
            cv="loo",
            calibration=None,
            n_jobs=1,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="the search chose")  # an edge of the grid
            results = search.fit(split.X, split.y).cv_results_
        gammas = np.searchsorted(GRID, results["param_gamma"].astype(float))
        alphas = np.searchsorted(GRID, results["param_alpha"].astype(float))
        table[place, gammas, alphas] = -100 * results["mean_test_score"]
    return np.where(np.isfinite(table), table, np.inf)


# -- selection -----------------------------------------------------------------------------------------


def least(scores: Numbers) -> list[Cell]:
    """All cells of the least score, the largest γ first, then the largest μ."""
    cells = np.argwhere(scores <= scores.min() + 1e-9)[::-1]
    return [(int(gamma), int(alpha)) for gamma, alpha in cells]


def median_cell(scores: Numbers, *, largest_alpha: bool) -> Cell:
    """γ and μ as medians over the partitions; of equal candidates the largest γ, and one end of μ."""
    chosen = []
    for table in scores:
        cells = [cell for cell in least(table) if cell[0] == least(table)[0][0]]
        chosen.append(cells[0] if largest_alpha else cells[-1])
    gamma, alpha = np.median(chosen, axis=0)
    return int(gamma), int(alpha)


def chosen_by(errors: Numbers, squares: Numbers) -> dict[str, list[Cell]]:
    """The cells that each rule of selection may take, from leave-one-out (partitions, γ, μ)."""
    return {
        "sum of errors, any of its ties": least(errors.mean(axis=0)),
        "sum of squares, any of its ties": least(squares.mean(axis=0)),
        "median, ties to large μ": [median_cell(errors, largest_alpha=True)],
        "median, ties to small μ": [median_cell(errors, largest_alpha=False)],
    }


def exact_column(splits: Sequence[Split]) -> PartResult:
    """The pair of the fewest leave-one-out errors in all training parts, and its test errors."""
    scores = leave_one_out(splits, Exact()).mean(axis=0)
    cells = least(scores)
    errors = test_errors(splits, cells[0], Exact())
    return {**_exponents(cells[0]), "ties": len(cells), "loo": float(scores.min()), **_summary(errors)}


# -- many structures at a time -------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """Percentages of several structures on several partitions: (partitions, structures, γ, μ)."""

    structures: list[Circulant]
    tests: Numbers
    loo_errors: Numbers
    loo_squares: Numbers
    definite: NDArray[np.bool_]  # (structures, γ, μ): whether U + μI is positive definite

    @property
    def means(self) -> Numbers:
        return self.tests.mean(axis=0)

    @property
    def deviations(self) -> Numbers:
        return self.tests.std(axis=0, ddof=1)

    def equal(self, figure: Printed) -> NDArray[np.bool_]:
        """Where mean and deviation are a printed figure, (structures, γ, μ)."""
        return is_printed(self.means, figure[0]) & is_printed(self.deviations, figure[1])

    def distance(self, figure: Printed) -> Numbers:
        """The larger difference to a printed mean and deviation, (structures, γ, μ)."""
        return np.maximum(abs(self.means - figure[0]), abs(self.deviations - figure[1]))


def scan(splits: Sequence[Split], structures: list[Circulant]) -> Scan:
    """What `test_errors` and `leave_one_out` say, for the whole grid from one kernel product a γ."""
    size = (len(splits), len(structures), GRID.size, GRID.size)
    tests = np.full(size, CHANCE)
    errors = np.full(size, np.inf)
    squares = np.full(size, np.inf)
    definite = np.zeros(size[1:], dtype=bool)
    for s, split in enumerate(splits):
        y = split.y.astype(np.float64)
        problem = Problem(split.X, y[:, None], None, True)
        for g, gamma in enumerate(GRID):
            values = RBF(gamma)(split.X_test, split.X)
            for c, structure in enumerate(structures):
                model: Any = structure.model(RBF(gamma), problem, Workload(folds=1), None)
                usable = np.flatnonzero(model.usable(None, GRID))
                heldout = model.leave_one_out(GRID[usable])[:, :, 0]
                errors[s, c, g, usable] = 100 * ((heldout >= 0) != (y > 0)).mean(axis=1)
                squares[s, c, g, usable] = ((heldout - y) ** 2).mean(axis=1)
                expansions = [model.expansion(alpha) for alpha in GRID[usable]]
                coefficients = np.column_stack([expansion.coef for expansion in expansions])
                intercepts = np.concatenate([expansion.intercept for expansion in expansions])
                wrong = (values @ coefficients + intercepts >= 0) != (split.y_test > 0)[:, None]
                tests[s, c, g, usable] = 100 * wrong.mean(axis=0)
                definite[c, g] = model.report["smallest_eigenvalue"] + GRID > 0
    return Scan(structures, tests, errors, squares, definite)


def structures_of(rows: int, spacing: tuple[float, float]) -> list[Circulant]:
    """All levels of two, the balanced ones first, each with the spacings in either order."""
    shapes = [(size, rows // size) for size in range(2, rows) if rows % size == 0 and size < rows]
    balanced = choose_shape(rows, 2)
    ordered = sorted((shape for shape in shapes if shape[1] > 1), key=lambda shape: shape != balanced)
    return [
        circulant(order, shape) for order, shape in itertools.product((spacing, spacing[::-1]), ordered)
    ]


def by_class(split: Split) -> Split:
    """The same partition with the training rows of one class first."""
    order = np.argsort(split.y, kind="stable")
    return Split(split.X[order], split.y[order], split.X_test, split.y_test)


def constant_error(split: Split) -> float:
    """Test error in percent of the larger class of the training rows."""
    return 100 * float(np.mean((split.y.mean() >= 0) != (split.y_test > 0)))


def window_errors(split: Split) -> Numbers:
    """Test errors in percent by γ and μ where U = I, (4)."""
    mean = split.y.mean()
    table = np.empty((GRID.size, GRID.size))
    for place, gamma in enumerate(GRID):
        sums = RBF(gamma)(split.X_test, split.X) @ (split.y - mean)
        decisions = mean + sums[:, None] / (1 + GRID)
        table[place] = 100 * ((decisions >= 0) != (split.y_test > 0)[:, None]).mean(axis=0)
    return table


# -- what the figures say ------------------------------------------------------------------------------


def is_printed(value: Any, figure: float) -> Any:
    """Whether a value is a printed figure of two decimals, rounded or cut off: the paper has both."""
    rounded = abs(value - figure) <= 0.005 + 1e-9
    cut_off = (value >= figure - 1e-9) & (value < figure + 0.01 - 1e-9)
    return rounded | cut_off


def whole(mean: float, rows: int, partitions: int) -> bool:
    """Whether a printed mean is a whole number of rows of all test parts, (1)."""
    count = mean * partitions * rows / 100
    nearest = {math.floor(count), math.ceil(count)}
    return any(is_printed(100 * wrong / (partitions * rows), mean) for wrong in nearest)


def fits(partitions: int) -> tuple[int, int, float]:
    """Means of small test parts that are whole, how many there are, and how many chance would fit."""
    pairs = [
        (mean, test)
        for _, test, figures in PUBLISHED.values()
        for mean, _ in figures
        if test <= FEW_TEST_ROWS
    ]
    expected = sum(min(1.0, 0.015 * test * partitions / 100) for _, test in pairs)
    return sum(whole(mean, test, partitions) for mean, test in pairs), len(pairs), expected


def alone(figure: Printed, numbers: int = PARTITIONS) -> tuple[float, float]:
    """The equal numbers and the one that differs from them, (6)."""
    mean, deviation = figure
    apart = mean + deviation * (numbers - 1) / math.sqrt(numbers)
    return (numbers * mean - apart) / (numbers - 1), apart


def least_maximum(figure: Printed, least: float = 0.0, numbers: int = PARTITIONS) -> float:
    """The largest of numbers that are at least `least` is at least this, (7)."""
    mean, deviation = figure
    return mean + (numbers - 1) * deviation**2 / (numbers * (mean - least))


def first_identity(spacing: float) -> int:
    """The least exponent of γ at which 1 + 2 exp(−γ h²) is 1 in double precision, so that U = I."""
    return next(k for k in itertools.count(-20) if 1 + 2 * math.exp(-math.exp(k) * spacing**2) == 1)


def where(cells: Sequence[Cell]) -> str:
    """Cells in words: the values of μ by the values of γ that share them."""
    alphas: dict[int, list[int]] = {}
    for gamma, alpha in sorted(cells):
        alphas.setdefault(gamma, []).append(alpha)
    groups = itertools.groupby(alphas, key=lambda gamma: alphas[gamma])
    return "; ".join(f"{_span(list(gammas))}, {_span(places)}" for places, gammas in groups)


def _span(places: list[int]) -> str:
    if len(places) > 1 and places == list(range(places[0], places[-1] + 1)):
        return f"e^{EXPONENTS[places[0]]} … e^{EXPONENTS[places[-1]]}"
    return " or ".join(f"e^{EXPONENTS[place]}" for place in places)


def _exponents(cell: Cell) -> PartResult:
    return {"γ": int(EXPONENTS[cell[0]]), "μ": int(EXPONENTS[cell[1]])}


def _summary(errors: Sequence[float]) -> PartResult:
    return {"mean": float(np.mean(errors)), "std": float(np.std(errors, ddof=1))}


# -- the measurement -----------------------------------------------------------------------------------


def measure_table2(short: bool) -> PartResult:
    """All columns by set, with what was tried; `short` is one set and the public interface alone."""
    names = available(["banana"] if short else PUBLISHED)
    with use_threads(1), threadpool_limits(1):
        sets = {name: _short(name) if short else _measured(name) for name in names}
    return {"sets": sets}


def _short(name: str) -> PartResult:
    """The cells of banana that the full version finds, on all five partitions."""
    kind, splits = first_five(name)
    entry: PartResult = {"kind": kind}
    for interval, exponents in (("(1, 2)", (4, -1)), ("(10, 11)", (0, -2))):
        cell = tuple(int(np.searchsorted(EXPONENTS, exponent)) for exponent in exponents)
        errors = test_errors(splits, cell, circulant(INTERVALS[interval]))
        entry[interval] = {"cells": 1, "where": where([cell]), **_summary(errors)}
    entry[EXACT] = {**_exponents((6, 3)), **_summary(test_errors(splits, (6, 3), Exact()))}
    return entry


def _measured(name: str) -> PartResult:
    kind, splits = first_five(name)
    entry: PartResult = {"kind": kind, EXACT: exact_column(splits)}
    exact_model, same = score_circulant(splits, Circulant(validate="matrix"), "loo")
    entry["default"] = {key: same.summary()[key] for key in ("mean", "std")}
    entry["default, exact model"] = {key: exact_model.summary()[key] for key in ("mean", "std")}
    entry["constant"] = _summary([constant_error(split) for split in load(name, kind)])
    rows = len(splits[0].y)
    scans = {
        interval: scan(splits, structures_of(rows, spacing)) for interval, spacing in INTERVALS.items()
    }
    for interval, ours in scans.items():
        mean, deviation = published(name, interval)
        if kind == "official":
            other = next(scans[key] for key in INTERVALS if key != interval)
            entry[interval] = _circulant_column(name, interval, splits, ours, other)
        elif deviation > mean:
            entry[interval] = _outliers(ours, (mean, deviation), published(name, EXACT)[0])
    print(f"  {name}: {text(entry[EXACT])} exact, {text(entry['default'])} default", flush=True)
    return entry


def _circulant_column(
    name: str, interval: str, splits: list[Split], ours: Scan, other: Scan
) -> PartResult:
    """One column of one set: the cells of the grid that give it, or what was tried."""
    figure = published(name, interval)
    cells = [(int(g), int(a)) for g, a in np.argwhere(ours.equal(figure)[0])]
    pooled = ours.loo_errors[:, 0].mean(axis=0)
    smaller = np.mean([100 * min(np.mean(split.y > 0), np.mean(split.y < 0)) for split in splits])
    constant = np.isclose(pooled, smaller, atol=1e-9)
    column: PartResult = {
        "cells": len(cells),
        "where": where(cells),
        "γ": sorted({int(EXPONENTS[gamma]) for gamma, _ in cells}),
        "smaller class": float(smaller),
        "constant": int(constant.sum()),
        "lower": int((pooled < smaller - 1e-9).sum()),
        "least test": float(ours.means[0][constant].min()),
        "most test": float(ours.means[0][constant].max()),
        "structures": len(ours.structures),
        "rules": _rules(ours, figure),
    }
    if cells:
        errors = test_errors(splits, cells[0], circulant(INTERVALS[interval]))
        swapped = [other.tests[:, 0, g, a].mean() for g, a in cells]
        column |= _summary(errors)
        column["on the constant"] = int(sum(constant[cell] for cell in cells))
        column["other H_n"] = float(min(abs(np.array(swapped) - figure[0])))
        column["chance"] = _chance(name, figure)
        return column
    sorted_rows = scan([by_class(split) for split in splits], ours.structures)
    for label, tried in (("rows as given", ours), ("rows by class", sorted_rows)):
        column[label] = _tried(tried, figure)
    return column


def _rules(ours: Scan, figure: Printed) -> PartResult:
    """How many structures let a rule choose a cell of the printed figure, and the nearest choice."""
    equal = ours.equal(figure)
    distance = ours.distance(figure)
    counts: Counter[str] = Counter()
    nearest: dict[str, float] = {}
    for place in range(len(ours.structures)):
        rules = chosen_by(ours.loo_errors[:, place], ours.loo_squares[:, place])
        for rule, cells in rules.items():
            counts[rule] += any(equal[(place, *cell)] for cell in cells)
            closest = min(float(distance[(place, *cell)]) for cell in cells)
            nearest[rule] = min(nearest.get(rule, np.inf), closest)
    return {rule: {"equal": counts[rule], "nearest": nearest[rule]} for rule in nearest}


def _tried(tried: Scan, figure: Printed) -> PartResult:
    """Cells of all structures: how many give the figure, how many give any figure, and the nearest."""
    distance = tried.distance(figure)
    place, gamma, alpha = np.unravel_index(int(distance.argmin()), distance.shape)
    printed = Counter(zip(tried.means.round(2).ravel(), tried.deviations.round(2).ravel()))
    structure = tried.structures[int(place)]
    return {
        "cells": int(distance.size),
        "equal": int(tried.equal(figure).sum()),
        "a figure": distance.size / len(printed),
        "mean": float(tried.means[place, gamma, alpha]),
        "std": float(tried.deviations[place, gamma, alpha]),
        "setting": f"{structure.shape[0]} × {structure.shape[1]}, H_n = "
        f"({structure.spacing[0]:g}, {structure.spacing[1]:g}), "
        f"γ = e^{EXPONENTS[gamma]}, μ = e^{EXPONENTS[alpha]}",
    }


def _chance(name: str, figure: Printed) -> PartResult:
    """Share of other quintuples of partitions on which a cell of the grid gives the figure, by (4)."""
    shares: PartResult = {}
    rng = np.random.default_rng(0)
    for kind in ("official", "random"):
        tests = np.array([window_errors(split) for split in load(name, kind)])
        if kind == "official":
            quintuples = list(itertools.combinations(range(len(tests)), PARTITIONS))[1:]
        else:
            quintuples = [tuple(rng.permutation(len(tests))[:PARTITIONS]) for _ in range(QUINTUPLES)]
        hits = 0
        for quintuple in quintuples:
            part = tests[list(quintuple)]
            means = part.mean(axis=0)
            deviations = part.std(axis=0, ddof=1)
            hits += bool((is_printed(means, figure[0]) & is_printed(deviations, figure[1])).any())
        shares[kind] = {"quintuples": len(quintuples), "equal": hits}
    return shares


def _outliers(ours: Scan, figure: Printed, exact: float) -> PartResult:
    """The largest error of one partition, in all structures, with definite and indefinite matrices.

    A setting is alike if one partition is as bad as the printed figure requires, given that none is
    better than the exact model's mean, and the others are better than the mean.
    """
    worst, next_worst = np.sort(ours.tests, axis=0)[:-3:-1]
    alike = (worst >= least_maximum(figure, exact)) & (next_worst <= figure[0])
    return {
        "required": least_maximum(figure, exact),
        "structures": len(ours.structures),
        "definite": int(ours.definite.sum()),
        "indefinite": int((~ours.definite).sum()),
        "largest, definite": float(worst[ours.definite].max(initial=0)),
        "largest, indefinite": float(worst[~ours.definite].max(initial=0)),
        "alike, definite": int((alike & ours.definite).sum()),
        "alike, indefinite": int((alike & ~ours.definite).sum()),
    }
