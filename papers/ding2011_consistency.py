r"""ding2011, Theorems 5 to 7 and equation 26: does a criterion of U become that of K with more rows?

With n rows in the cells of p levels of n_min cells, R(K) = M(K) + V(K) of equation 29,

    M(K) = (μ/n) yᵀ(K + μI)⁻¹y,    V(K) = (μδ²/n) tr (K + μI)⁻¹.                                (1)

The library scores a kernel with ``criterion="cost"``, −R(K), and estimates δ² from nearest neighbours.
Both terms follow from that score and the dual coefficients α = (K + μI)⁻¹y of the fitted model:

    M(K) = μ yᵀα / n,    V(K) = R(K) − M(K).                                                    (2)

For targets ±1 in the pattern of a chessboard, every row differs by 2 from its nearest neighbour, so that
δ² = 2 whatever n. Theorem 6 states

    |V(U) − V(K)| ≤ c / n_min,                                                                  (3)
    |M(U) − M(K)| ≤ c n^(−1/2) exp(−r n_min)   for targets that decay from the middle of the grid. (4)

edwards2013 conjectures the same of leave-one-out. Its residuals are e = (Ry)_i / R_ii, R = μ (K + μI)⁻¹.
Those of K and U differ near the border of the grid, by amounts that fall exponentially with the distance
from it, so that for bounded targets

    |PRESS(U) − PRESS(K)| ≤ c / n_min.                                                          (5)

Equation 26 bounds the change of the decision function by a constant times

    exp(r₀Ω − r′n_min),    Ω = √p n_min for equal levels,  r′ < r₀/4,                           (6)

whose exponent is at least (√p − ¼) r₀ n_min > 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.common import Row
from onefold import LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Circulant
from papers.page import Page, PartResult

GAMMA = 0.5  # for a distance of 1 between neighbouring rows
MU = 0.5
NOISE = 2.0  # δ² of a chessboard
SIZES = {1: (8, 16, 32, 64, 128, 256), 2: (8, 12, 16, 24, 32), 3: (6, 8, 10)}
SHORT_SIZES = {1: (8, 16), 2: (8, 12), 3: (6,)}
GAMMAS = 2.0 ** np.arange(-6, 5)
EXPONENTS = (0.01, 0.1, 1.0)  # r₀, of which the theorem only says that it exists
SIDE = 6.0  # side of the square that holds ever more rows
SEED = 0
_CONTROL_SIZES = (8, 16, 32)
_ROUNDING = 1e-12  # differences below are rounding errors
_BOUNDED = 2.0  # |PRESS(U) − PRESS(K)| n_min, of targets ±1


@dataclass(frozen=True)
class Layout:
    """Rows by the cells of the grid, what breaks an assumption of the theorems, and which one."""

    what: str
    assumption: str
    place: Callable[[Any, int], tuple[Any, float]]  # (cells, cells along a level) → rows, spacing


def cells(size: int, levels: int) -> Any:
    """The multi-index of every row, in the order of the matrix: (size^levels, levels)."""
    return np.indices((size,) * levels).reshape(levels, -1).T.astype(float)


def border_distance(index: Any, size: int) -> Any:
    """δ_n(j) = n/2 − |n/2 − j| of assumption H5, for each level."""
    return size / 2 - np.abs(size / 2 - index)


def _moved_border(index: Any, size: int) -> tuple[Any, float]:
    outward = np.exp(-(size - 1 - index)) - np.exp(-index)
    return index + 0.3 * outward, 1.0


def _moved_lines(index: Any, size: int) -> tuple[Any, float]:
    shift = np.random.default_rng(SEED).uniform(-0.4, 0.4, (index.shape[1], size))
    return np.stack([line + shift[s][line.astype(int)] for s, line in enumerate(index.T)], axis=1), 1.0


def _shuffled(index: Any, size: int) -> tuple[Any, float]:
    return np.random.default_rng(SEED).permutation(index), 1.0


LAYOUTS = {
    "grid": Layout("rows on the grid", "all hold", lambda index, size: (index, 1.0)),
    "border": Layout("rows moved, by amounts that decay from the border", "all hold", _moved_border),
    "lines": Layout("every line of the grid moved by up to 0.4", "H5 fails", _moved_lines),
    "shuffled": Layout("rows of the grid in random order", "H2 and H5 fail", _shuffled),
    "square": Layout(
        f"ever more rows in a square of side {SIDE:g}",
        "H2 and H3 fail",
        lambda index, size: (index * SIDE / size, SIDE / size),
    ),
}


def structure(size: int, levels: int, spacing: float) -> Circulant:
    """U with the rows in the order of their cells, and leave-one-out from U alone."""
    shape = (size,) * levels
    return Circulant(shape=shape, spacing=spacing, order="given", validate="matrix")


def searched(estimator: type, approximation: Any, X: Any, Y: Any, **settings: Any) -> Any:
    """A search over one ridge and, unless `settings` say more, one kernel."""
    settings = {"gammas": [GAMMA], "alphas": [MU], "refit": "same", "intervals": None} | settings
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*have no score.*")  # U of wide kernels
        warnings.filterwarnings("ignore", message="the search chose")  # an edge of the grid
        return estimator(approximation=approximation, n_jobs=1, **settings).fit(X, Y)


def cost_terms(approximation: Any, X: Any, y: Any, gamma: float = GAMMA) -> tuple[float, float]:
    """M and V of equation 29, by (2)."""
    model = searched(KernelRidgeCV, approximation, X, y, criterion="cost", gammas=[gamma])
    M = MU * float(y @ model.expansion_.coef[:, 0]) / len(y)
    return M, float(-model.best_score_) - M


def leave_one_out(estimator: type, approximation: Any, X: Any, Y: Any) -> tuple[float, Any]:
    """PRESS over the number of rows, and the predictions of the rows left out."""
    model = searched(estimator, approximation, X, Y, criterion="mse", cv="loo")
    return float(-model.best_score_), model.heldout_prediction_


def targets(index: Any, size: int) -> dict[str, Any]:
    """A chessboard; a bump that decays from the middle; two classes, each a half; a wave with noise."""
    noise = np.random.default_rng(SEED).standard_normal(len(index))
    return {
        "chessboard": np.where(index.sum(axis=1) % 2 == 0, 1.0, -1.0),
        "bump": np.exp(-np.linalg.norm(index - size / 2, axis=1) / 2),
        "classes": np.where(index[:, 0] < size / 2, 1.0, -1.0),
        "wave": np.sin(index.sum(axis=1)) + 0.5 * noise,
    }


def compare(kind: str, size: int, levels: int) -> PartResult:
    """The criteria and functions of K, and how much those of U differ."""
    index = cells(size, levels)
    X, spacing = LAYOUTS[kind].place(index, size)
    goals = targets(index, size)
    # In random order the chessboard is that of the places of the rows.
    board = targets(X, size)["chessboard"] if kind == "shuffled" else goals["chessboard"]
    matrices = ("exact", structure(size, levels, spacing))
    V = [cost_terms(matrix, X, board)[1] for matrix in matrices]
    M = [cost_terms(matrix, X, goals["bump"])[0] for matrix in matrices]
    bump = [leave_one_out(KernelRidgeCV, matrix, X, goals["bump"])[0] for matrix in matrices]
    classes = [leave_one_out(KernelRidgeCV, matrix, X, goals["classes"]) for matrix in matrices]
    biased = [leave_one_out(LSSVRCV, matrix, X, goals["classes"])[0] for matrix in matrices]
    interior = border_distance(index, size).min(axis=1) >= size / 4
    differences = np.abs(classes[1][1] - classes[0][1])
    return {
        "kind": kind,
        "n_min": size,
        "levels": levels,
        "V": V[0],
        "V difference": abs(V[1] - V[0]),
        "M": M[0],
        "M difference": abs(M[1] - M[0]),
        "PRESS": classes[0][0],
        "PRESS difference": abs(classes[1][0] - classes[0][0]),
        "LS-SVM PRESS difference": abs(biased[1] - biased[0]),
        "bump PRESS difference": abs(bump[1] - bump[0]),
        "residuals difference": float(differences.max()),
        "interior residuals difference": float(differences[interior].max()),
        "f difference": change_of_f(matrices, X, goals["bump"]),
        "f of ones difference": change_of_f(matrices, X, np.ones(len(X))),
    }


def change_of_f(matrices: tuple[Any, ...], X: Any, y: Any) -> float:
    """The largest change of f, without an offset, on places between the rows."""
    places = X[:-1] + 0.5 * np.diff(X, axis=0)
    models = [KernelRidge(gamma=GAMMA, alpha=MU, approximation=matrix).fit(X, y) for matrix in matrices]
    exact, circulant = (model.predict(places) for model in models)
    return float(np.abs(circulant - exact).max())


def choices(size: int) -> PartResult:
    """The kernel that the cost and leave-one-out choose from `GAMMAS` at one μ, with K and with U."""
    index = cells(size, 2)
    goals = targets(index, size)
    matrices = {"exact": "exact", "circulant": structure(size, 2, 1.0)}
    models = {
        f"{criterion}, {label}": searched(
            KernelRidgeCV, matrix, index, goals[name], gammas=GAMMAS, criterion=criterion
        )
        for criterion, name in (("cost", "bump"), ("press", "wave"))
        for label, matrix in matrices.items()
    }
    scores = models["cost, circulant"].cv_results_["mean_test_score"]
    chosen = {label: float(model.gamma_) for label, model in models.items()}
    return {"n_min": size} | chosen | {"without score": int(np.sum(~np.isfinite(scores)))}


def run(short: bool) -> PartResult:
    """Differences for all sizes and layouts, and the kernels chosen; a few small sizes when `short`."""
    sizes = SHORT_SIZES if short else SIZES
    control = SHORT_SIZES[2] if short else _CONTROL_SIZES
    return {
        "grid": [compare("grid", size, levels) for levels in sizes for size in sizes[levels]],
        "other": [compare(kind, size, 2) for kind in list(LAYOUTS)[1:] for size in control],
        "choices": [choices(size) for size in (6, *sizes[2])],
    }


# -- the page ----------------------------------------------------------------------------------------
def rate(results: PartResult, levels: int, key: str, logarithmic: bool) -> float:
    """Slope of the logarithm of a difference against log n_min, or against n_min itself."""
    points = [(row["n_min"], row[key]) for row in on_grid(results, levels)]
    sizes, differences = np.array([point for point in points if point[1] > _ROUNDING]).T
    return float(np.polyfit(np.log(sizes) if logarithmic else sizes, np.log(differences), 1)[0])


def on_grid(results: PartResult, levels: int) -> list[PartResult]:
    """The comparisons for rows on the grid itself."""
    return [row for row in results["grid"] if row["levels"] == levels]


def growth(exponent: float, size: int, levels: int) -> float:
    """(6) with r₀ = `exponent` and r′ = r₀/4, its least value: the factor of equation 26's constants."""
    return float(np.exp(exponent * (np.sqrt(levels) - 0.25) * size))


def show(results: PartResult, page: Page) -> None:
    page.text(
        "What the theorems assume, in our words: the kernel decays exponentially with the distance "
        "(H1); two rows are at least as far apart as a fixed multiple of the distance of their cells, "
        "up to a constant (H2); the spacings have a positive lower bound (H3); the kernel is Hölder "
        "continuous (H4, Theorem 5 only); and the distance of two rows is that of their cells, times "
        "the spacings, up to an amount that falls exponentially with the distance of either cell from "
        "the border of the grid (H5). Together: away from the border the rows *are* a regular grid of "
        "known spacings, and more rows mean a larger grid, not a denser one. Gaussian kernels satisfy "
        "H1 and H4. Rows of an ordinary table satisfy neither H2 nor H5.",
        "Theorem 6 then says that |V(U) − V(K)| falls like 1/n_min, and |M(U) − M(K)| exponentially if "
        "the targets decay exponentially from the middle of the grid; Theorem 7, that the two costs "
        "R = M + V have the same limit.",
        f"Here rows are on a grid of p levels of n_min cells with spacing 1; γ = {GAMMA:g}, μ = {MU:g}. "
        'The scores are those of `KernelRidgeCV(approximation=Circulant(...), criterion="cost")` and of '
        '`approximation="exact"`. M is μ yᵀα/n, from the coefficients of the fitted model, and V is the '
        "rest of the score. V is computed for targets ±1 in the pattern of a chessboard, for which "
        f"onefold's estimate of δ² is {NOISE:g}; M for targets exp(−ν/2), ν the distance of a cell from "
        "the middle.",
    )
    page.table([_cost_row(row) for row in results["grid"]])
    page.text(
        "**PRESS.** edwards2013 leaves the consistency of A-LOO open, and expects a proof like that of "
        "ding2011. The leave-one-out residuals of K and of U differ near the border only, where "
        "the first cell and the last one are neighbours for U and not for K. A share of about 2p/n_min "
        "of the rows is near the border, so |PRESS(U) − PRESS(K)| must fall like 1/n_min "
        "([Proposition 5.10](../theory/structured.md#consistency-on-growing-grids)). Targets are 1 in "
        "one half of the grid and −1 in the "
        'other; scores are those of `criterion="mse", cv="loo"` with `Circulant(validate="matrix")`. '
        "*Interior residuals*: the "
        "largest difference at rows at least n_min/4 cells from the border. *Decaying targets*: PRESS "
        "of the targets of M.",
    )
    page.table([_press_row(row) for row in results["grid"]])
    page.figure(
        _figure(results),
        "ding2011-theorems",
        "Left: differences of V and PRESS against n_min, straight lines of slope -1. Right: "
        "differences of M and of interior residuals, which fall exponentially.",
    )
    page.text("**Without the assumptions.** Two levels, with the rows in other places:")
    page.table([_layout_row(results, kind) for kind in LAYOUTS])
    page.text(
        "**The choice.** Kernels γ from 2⁻⁶ to 2⁴ at one μ, on a grid of two levels, chosen by the cost "
        "(targets of M) and by PRESS (a wave with noise). Wide kernels, for which U + μI is not "
        "positive definite, have no score; with enough cells all are positive definite, as the paper "
        "says.",
    )
    page.table([_choice_row(row) for row in results["choices"]])
    page.text(
        "**Equation 26** ([errata](errata.md)) bounds the change of the decision function by constants "
        "times exp(r₀Ω − r′n_min) with r′ < r₀/4 and Ω = √(n₀² + … + n_(p−1)²) ≥ n_min. The exponent is "
        "at least ¾ r₀ n_min, which is positive: the bound grows exponentially, whatever r₀ > 0 is. The "
        "factor exp(r₀Ω) is the product of two weighted norms, of **1** and of k_x. The second can be "
        "avoided (the sum of |k(x, x_i)| is bounded by H1 and H2), but the exponent is then still at "
        "least ¼ r₀ n_min. No bound that goes to 0 can hold for all targets: if they are constant, the "
        "change does not go to 0, because U gives rows near the border neighbours that they do not "
        "have. If they decay, and without an offset, it falls exponentially. The table has the largest "
        "change at places between the rows, for two levels, and exp(r₀Ω − r₀n_min/4):",
    )
    page.table([_bound_row(row) for row in on_grid(results, 2)])
    _judge(results, page)


def _times_size(row: PartResult, key: str, digits: int) -> str:
    return f"{row[key] * row['n_min']:.{digits}f}"


def _cost_row(row: PartResult) -> Row:
    return {
        "p": row["levels"],
        "n_min": row["n_min"],
        "rows": row["n_min"] ** row["levels"],
        "V(K)": row["V"],
        "V(U) − V(K), absolute": row["V difference"],
        "times n_min": _times_size(row, "V difference", 4),
        "M(K)": row["M"],
        "M(U) − M(K), absolute": row["M difference"],
    }


def _press_row(row: PartResult) -> Row:
    return {
        "p": row["levels"],
        "n_min": row["n_min"],
        "PRESS(K) a row": row["PRESS"],
        "PRESS(U) − PRESS(K), absolute": row["PRESS difference"],
        "times n_min": _times_size(row, "PRESS difference", 3),
        "with an intercept, times n_min": _times_size(row, "LS-SVM PRESS difference", 3),
        "all residuals": row["residuals difference"],
        "interior residuals": row["interior residuals difference"],
        "decaying targets": row["bump PRESS difference"],
    }


def _layout_row(results: PartResult, kind: str) -> Row:
    sizes = {row["n_min"] for row in results["other"]}
    rows = [row for row in (*on_grid(results, 2), *results["other"]) if row["kind"] == kind]
    rows = [row for row in rows if row["n_min"] in sizes]

    def joined(texts: Iterable[str]) -> str:
        return ", ".join(texts)

    return {
        "rows": LAYOUTS[kind].what,
        "assumptions": LAYOUTS[kind].assumption,
        "n_min": joined(str(row["n_min"]) for row in rows),
        "V, times n_min": joined(_times_size(row, "V difference", 2) for row in rows),
        "M": joined(f"{row['M difference']:.0e}" for row in rows),
        "PRESS, times n_min": joined(_times_size(row, "PRESS difference", 2) for row in rows),
        "interior residuals": joined(f"{row['interior residuals difference']:.0e}" for row in rows),
    }


def _choice_row(row: PartResult) -> Row:
    return {
        "n_min": row["n_min"],
        "cost, K": f"γ = {row['cost, exact']:g}",
        "cost, U": f"γ = {row['cost, circulant']:g}",
        "PRESS, K": f"γ = {row['press, exact']:g}",
        "PRESS, U": f"γ = {row['press, circulant']:g}",
        "kernels without a score": f"{row['without score']} of {len(GAMMAS)}",
    }


def _bound_row(row: PartResult) -> Row:
    changes = {"decaying targets": row["f difference"], "constant targets": row["f of ones difference"]}
    factors = {f"r₀ = {r:g}": growth(r, row["n_min"], row["levels"]) for r in EXPONENTS}
    return {"n_min": row["n_min"]} | changes | factors


def _figure(results: PartResult) -> Figure:
    drawn = Figure(figsize=(9.5, 4.2), layout="constrained")
    left, right = drawn.subplots(1, 2)
    curves = (
        (left, "V difference", "-o", "V"),
        (left, "PRESS difference", "--s", "PRESS"),
        (right, "M difference", "-o", "M"),
        (right, "interior residuals difference", "--s", "interior residuals"),
    )
    for levels, colour in zip((1, 2, 3), ("C0", "C1", "C2")):
        rows = on_grid(results, levels)
        sizes = [row["n_min"] for row in rows]
        for axes, key, style, label in curves:
            differences = np.maximum([row[key] for row in rows], 1e-17)
            axes.plot(sizes, differences, style, color=colour, ms=4, label=f"{label}, p = {levels}")
    left.set(xscale="log")
    right.set(xlim=(4, 66))
    for axes in (left, right):
        axes.set(yscale="log", xlabel="n_min", ylabel="difference between U and K")
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3, which="both")
    return drawn


def _judge(results: PartResult, page: Page) -> None:
    powers = [rate(results, levels, "V difference", True) for levels in (1, 2)]
    falls = [np.exp(-rate(results, levels, "M difference", False)) for levels in (1, 2)]
    last = max(results["choices"], key=lambda row: row["n_min"])
    same = all(last[f"{name}, exact"] == last[f"{name}, circulant"] for name in ("cost", "press"))
    page.verdict(
        "Claims hold" if max(powers) < -0.9 and min(falls) > 1 and same else "Claims do not hold",
        "Theorems 6 and 7, for rows that satisfy the assumptions. |V(U) − V(K)| falls like n_min to the "
        f"power {powers[0]:.2f} (p = 1) and {powers[1]:.2f} (p = 2), |M(U) − M(K)| by a factor of "
        f"{falls[0]:.1f} and {falls[1]:.1f} with every cell. With {last['n_min']} cells a level both "
        f"criteria choose {'the same kernel' if same else 'other kernels'} with U as with K.",
    )
    power = rate(results, 1, "PRESS difference", True)
    falls = [np.exp(-rate(results, levels, "interior residuals difference", False)) for levels in (1, 2)]
    most = max(row["PRESS difference"] * row["n_min"] for row in results["grid"])
    page.verdict(
        "Claims hold" if most < _BOUNDED and min(falls) > 1 else "Claims do not hold",
        "edwards2013's conjecture for A-LOO, on the same rows. |PRESS(U) − PRESS(K)| is at most "
        f"{most:.2f}/n_min and falls like n_min to the power {power:.2f} for p = 1; the difference of "
        f"interior residuals falls by a factor of {falls[0]:.1f} (p = 1) and {falls[1]:.1f} (p = 2) "
        "with every cell.",
    )
    changes = [row["f of ones difference"] for row in on_grid(results, 2)]
    factors = [growth(EXPONENTS[0], row["n_min"], row["levels"]) for row in on_grid(results, 2)]
    page.verdict(
        "Claims do not hold" if factors[-1] > factors[0] else "Claims hold",
        "equation 26 does not measure the effect on the decision function. It grows exponentially with "
        f"n_min, while the change itself is at most {max(changes):.2f} for constant "
        "targets. Nor do the theorems apply to tables: where the rows are in another order, or "
        "become denser, the residuals of U stay different from those of K.",
    )
