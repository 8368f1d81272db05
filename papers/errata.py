r"""Errors in the papers that a reader who programs from them meets, each with a check.

**edwards2013, Algorithm 2.** With G = K + μI and d = 1ᵀG⁻¹1, a block of the bordered matrix's inverse is

    C = G⁻¹ − G⁻¹11ᵀG⁻¹ / d,    α = Cy,    C_JJ e_J = α_J,                                      (1)

with e_J the held-out residuals of the rows J. The listing has plus signs in C and in α.

**cawley2002, equations 1 to 3.** ½‖w‖² + (γ/ℓ) Σ e_i² is stationary where α_i = (2γ/ℓ) e_i, so that

    (K + (ℓ/2γ) I) α + b1 = y,    1ᵀα = 0.                                                       (2)

**ding2011, equations 22 and 25.** With the weights W(j) = exp(r ν(j)), ν(j) the distance of cell j from
the middle, the definitions of the norms give

    ‖Ay‖_∞ ≤ ‖A‖_W ‖y‖_W,    ‖y‖_W = max_j W(j) |y_j|,    ‖A‖_W = max_i Σ_j |A_ij| / W(j),       (3)
    |aᵀk| ≤ ‖a‖_W ‖k‖_W Σ_j W(j)⁻².                                                              (4)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_toeplitz
from sklearn.datasets import make_friedman1
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold

from onefold import LSSVR, LSSVRCV, KernelRidge
from papers import ding2011, ida
from papers import ding2011_consistency as consistency
from papers.page import Page, Paper, Part, PartResult

ROWS = 60
FOLDS = 6
GAMMA = 0.1
MU = 0.5
RATE = 0.5  # r₀ of the weights
LENGTHS = (8, 16, 32)
CELLS = (4, 8, 16, 32)
LEVELS = (2, 3, 4, 5)
_SHORT_CELLS = (4, 8)
_SHORT_LEVELS = (2, 3)
_LEVELS_GAMMA = 1.0  # U + μI is positive definite for any number of levels


def data() -> tuple[Any, Any]:
    """Rows and targets of the checks."""
    return make_friedman1(ROWS, noise=1.0, random_state=0)


# -- edwards2013, Algorithm 2 --------------------------------------------------------------------------
def heldout_residuals(K: Any, y: Any, mu: float, folds: Any, sign: float) -> Any:
    """Algorithm 2 for regression, with the sign of its lines 2 and 3; (1) has −1."""
    inverse = np.linalg.inv(K + mu * np.eye(len(y)))
    sums = inverse.sum(axis=1)
    C = inverse + sign * np.outer(sums, sums) / sums.sum()
    alpha = C @ y
    residuals = np.empty(len(y))
    for rows in folds:
        residuals[rows] = np.linalg.solve(C[np.ix_(rows, rows)], alpha[rows])
    return residuals


def run_sign(short: bool) -> PartResult:
    """Held-out residuals of the listing, of (1) and of the library, against a fit without each fold."""
    X, y = data()
    splits = list(KFold(FOLDS).split(X))
    refits = np.empty(ROWS)
    for train, test in splits:
        model = LSSVR(gamma=GAMMA, alpha=MU, approximation="exact").fit(X[train], y[train])
        refits[test] = y[test] - model.predict(X[test])
    search = LSSVRCV(gammas=[GAMMA], alphas=[MU], cv=FOLDS, approximation="exact").fit(X, y)
    K = rbf_kernel(X, gamma=GAMMA)
    tests = [test for _, test in splits]
    residuals = {
        "as printed": heldout_residuals(K, y, MU, tests, 1.0),
        "with minus signs": heldout_residuals(K, y, MU, tests, -1.0),
        "onefold": y - search.heldout_prediction_,
    }
    return {
        label: {"difference": _largest(values - refits), "PRESS": float(np.mean(values**2))}
        for label, values in residuals.items()
    }


def show_sign(results: PartResult, page: Page) -> None:
    page.text(
        "Lines 2 and 3 compute C and α with a plus sign before the term with 1/d. With d = 1ᵀK_γ⁻¹1, as "
        "line 1 has it, both signs must be minus: C is a block of the inverse of the bordered matrix. "
        "(The signs are right if d is defined as the negative of that sum.)",
        f"Check: {FOLDS} folds of {ROWS} rows. Largest difference between the held-out residuals and "
        f"those of {FOLDS} separate fits:",
    )
    page.table(
        [
            {
                "Algorithm 2": label,
                "difference": one["difference"],
                "mean squared residual": one["PRESS"],
            }
            for label, one in results.items()
        ]
    )


# -- edwards2013, section III-C ------------------------------------------------------------------------
def run_levels(short: bool) -> PartResult:
    """|V(U) − V(K)| / V(K) for larger levels, and for more levels."""
    cells = [(size, 2) for size in (_SHORT_CELLS if short else CELLS)]
    levels = [(CELLS[0], number) for number in (_SHORT_LEVELS if short else LEVELS)]
    return {
        name: {str(shape[axis]): _relative_error(*shape) for shape in shapes}
        for axis, (name, shapes) in enumerate((("cells", cells), ("levels", levels)))
    }


def _relative_error(size: int, levels: int) -> float:
    X = consistency.cells(size, levels)
    board = consistency.targets(X, size)["chessboard"]
    circulant = consistency.structure(size, levels, 1.0)
    exact, approximate = (
        consistency.cost_terms(matrix, X, board, _LEVELS_GAMMA)[1] for matrix in ("exact", circulant)
    )
    return abs(approximate - exact) / exact


def show_levels(results: PartResult, page: Page) -> None:
    page.text(
        "The section says that U converges to the kernel matrix as the number of levels p goes to "
        "infinity. The theorem of Song and Xu that it refers to is about the number of cells n_s of "
        "every level, with p fixed ([ding2011](ding2011.md), Theorem 5); more levels of the same size "
        "make U worse.",
        "Check: relative difference of V = (μδ²/n) tr (K + μI)⁻¹ between U and K, rows on the grid, "
        f"spacing 1, γ = {_LEVELS_GAMMA:g}, μ = {consistency.MU:g}.",
    )
    page.table([{"p = 2, cells of a level": "difference"} | _percent(results["cells"])])
    page.table([{f"{CELLS[0]} cells a level, p": "difference"} | _percent(results["levels"])])


def _percent(shares: dict[str, float]) -> dict[str, str]:
    return {label: f"{100 * share:.2f} %" for label, share in shares.items()}


# -- edwards2013, equations 2, 4 and 6 -----------------------------------------------------------------
def run_objectives(short: bool) -> PartResult:
    """The objective of equation 2 at two solutions; how far the gradient of equation 6 is from 0."""
    X, y = data()
    weight = 1 / MU
    K = rbf_kernel(X, gamma=GAMMA)
    values = {}
    for label, ridge in (("γ = C", 1 / weight), ("γ = 2C", 1 / (2 * weight))):
        dual, offset = solution(X, y, ridge)
        values[label] = objective(K, y, dual, offset, weight)
    dual = KernelRidge(gamma=GAMMA, alpha=MU, approximation="exact").fit(X, y).expansion_.coef[:, 0]
    # The gradient is Φᵀ of these vectors; the first is that of equation 6 with the squares it lacks.
    vectors = {
        "with squares": 2 * MU * dual - 2 * (y - K @ dual),
        "as printed": 2 * MU * dual - 1,
    }
    gradient = {label: float(np.sqrt(vector @ K @ vector)) for label, vector in vectors.items()}
    return {"objective": values, "gradient": gradient}


def show_objectives(results: PartResult, page: Page) -> None:
    values = results["objective"]
    gradient = results["gradient"]
    page.text(
        "The objective (2) is ½‖w‖² + C Σ ξ², which gives 1/(2C) on the diagonal of (4); the paper has "
        "1/γ there and does not say that γ is 2C. Equation 6 lacks the squares of the errors: as "
        "printed, it is linear in the errors, and (7) does not minimise it.",
        f"Check: the objective (2) is {values['γ = C']:.4f} at the solution of (4) with γ = C, and "
        f"{values['γ = 2C']:.4f} with γ = 2C. At the solution of (7) the gradient of (6) has length "
        f"{gradient['as printed']:.2g} as printed and {gradient['with squares']:.0e} with squares.",
    )


# -- cawley2002, equations 1 to 3 ----------------------------------------------------------------------
def run_ridge(short: bool) -> PartResult:
    """The objective of equation 3 at the printed solution, and with the ½ of the later system."""
    X, y = data()
    weight = ROWS / MU  # γ
    K = rbf_kernel(X, gamma=GAMMA)
    later = _sparse_system(K, y, weight)
    results = {}
    for label, ridge in (("ℓ/γ, as printed", ROWS / weight), ("ℓ/2γ", ROWS / (2 * weight))):
        dual, offset = solution(X, y, ridge)
        results[label] = {
            "objective": objective(K, y, dual, offset, weight / ROWS),
            "difference": _largest(K @ dual + offset - (K @ later[:-1] + later[-1])),
        }
    return results


def _sparse_system(K: Any, y: Any, weight: float) -> Any:
    """β and b of section 2 of cawley2002 with every row as a centre."""
    n = len(y)
    omega = n / (2 * weight) * K + K @ K
    matrix = np.block([[omega, K.sum(axis=0)[:, None]], [K.sum(axis=0)[None, :], np.full((1, 1), n)]])
    return np.linalg.solve(matrix, np.append(K @ y, y.sum()))


def show_ridge(results: PartResult, page: Page) -> None:
    printed = results["ℓ/γ, as printed"]
    right = results["ℓ/2γ"]
    page.text(
        "The objectives (1) and (3) have ½ before ‖w‖² and none before γ. Their minima solve the "
        "system (2) with K + I/(2γ) and K + ℓI/(2γ); the text has K + I/γ and, after (3), K + ℓI/γ. The "
        "paper's sparse system has ℓ/2γ, so only there γ is that of the objective. In onefold `alpha` "
        "is the number on the diagonal.",
        f"Check: the objective (3) is {printed['objective']:.4f} at the solution with ℓ/γ and "
        f"{right['objective']:.4f} with ℓ/2γ. Predictions of the sparse system with every row as a "
        f"centre differ from those of the first by up to {printed['difference']:.2g} and from those of "
        f"the second by {right['difference']:.0e}.",
    )


def solution(X: Any, y: Any, ridge: float) -> tuple[Any, float]:
    """Dual coefficients and offset of the library's LS-SVM."""
    model = LSSVR(gamma=GAMMA, alpha=ridge, approximation="exact").fit(X, y)
    return model.expansion_.coef[:, 0], float(model.expansion_.intercept[0])


def objective(K: Any, y: Any, dual: Any, offset: float, weight: float) -> float:
    """½‖w‖² + weight Σ e²."""
    errors = y - K @ dual - offset
    return float(dual @ K @ dual / 2 + weight * errors @ errors)


# -- decherchi2010, appendix ---------------------------------------------------------------------------
def levinson(column: Any, y: Any, first: int) -> Any:
    """Solve a symmetric Toeplitz system by the appendix; `first` is where its last two loops begin."""
    n = len(y)
    forward = np.zeros(n)
    backward = np.zeros(n)
    solution = np.zeros(n)
    forward[0] = backward[0] = 1.0
    error = column[0]
    solution[0] = y[0] / error
    for size in range(1, n):
        turned = column[size:0:-1]
        up = -(turned @ forward[:size]) / error
        down = -(column[1 : size + 1] @ backward[:size]) / error
        shifted = np.append(0.0, backward[:size])
        extended = np.append(forward[:size], 0.0)
        forward[: size + 1] = extended + up * shifted
        backward[: size + 1] = shifted + down * extended
        error *= 1 - up * down
        step = (y[size] - turned[first:] @ solution[first:size]) / error
        solution[first:size] += step * backward[first:size]
        solution[size] = step * backward[size]
    return solution


def run_levinson(short: bool) -> PartResult:
    """The largest error of the listing with its loops from 1, and from 0."""
    column = np.exp(-0.3 * np.arange(ROWS))
    column[0] += MU
    y = np.sin(np.arange(ROWS))
    exact = solve_toeplitz(column, y)
    return {str(first): _largest(levinson(column, y, first) - exact) for first in (1, 0)}


def show_levinson(results: PartResult, page: Page) -> None:
    page.text(
        "The last two inner loops of the listing, the product γ·x and the update of x, start at i = 1. "
        "They must start at 0, or the first unknown never changes. The listing also initialises α and "
        "then updates x, which are the same vector.",
        f"Check: a system of {ROWS} equations. The largest error of a solution is {results['1']:.2g} "
        f"with the loops from 1 and {results['0']:.0e} from 0.",
    )


# -- ding2011, section 7.2 -----------------------------------------------------------------------------
def run_significance(short: bool) -> PartResult:
    """On how many sets of the published table approximate selection is significantly worse."""
    statistics: dict[str, list[float]] = {"standard errors": [], "standard deviations": []}
    for name in ding2011.PUBLISHED:
        exact, approximate = ding2011.published(name).values()
        statistics["standard errors"].append(ida.z_statistic(approximate, exact))
        single = [summary | {"splits": 1} for summary in (approximate, exact)]
        statistics["standard deviations"].append(ida.z_statistic(*single))
    return {
        label: {"worse": sum(z > ida.SIGNIFICANT for z in values), "largest": max(values)}
        for label, values in statistics.items()
    } | {"sets": len(ding2011.PUBLISHED), "p": ding2011.published_signed_rank()}


def show_significance(results: PartResult, page: Page) -> None:
    errors = results["standard errors"]
    deviations = results["standard deviations"]
    page.text(
        "The text defines z with the standard errors of the means and finds approximate selection "
        "significantly worse on no set. The numbers after ± in Table 2 are standard deviations over 100 "
        "partitions (20 of image); the statement follows only if they are put in the place of the "
        "standard errors, which are 10 (√20) times smaller. The second statement, of the Wilcoxon test, "
        "does not follow from the table either.",
        f"Check, from the published table: with standard errors z is above {ida.SIGNIFICANT} on "
        f"{errors['worse']} of {results['sets']} sets, up to {errors['largest']:.1f}; with deviations "
        f"on {deviations['worse']}, up to {deviations['largest']:.2f}. The Wilcoxon test has "
        f"p = {results['p']:.2g}.",
    )


# -- ding2011, equations 22 to 26 ----------------------------------------------------------------------
def run_norms(short: bool) -> PartResult:
    """Both sides of equations 22 and 25, and equation 26 without its constants, for one level."""
    results: PartResult = {}
    for size in LENGTHS:
        cells = np.arange(size)
        K = rbf_kernel(cells[:, None].astype(float), gamma=consistency.GAMMA)
        ring = consistency.structure(size, 1, 1.0)
        machine = KernelRidge(gamma=consistency.GAMMA, alpha=consistency.MU, approximation=ring)
        inverse = machine.fit(cells[:, None].astype(float), np.eye(size)).expansion_.coef
        difference = np.linalg.inv(K + consistency.MU * np.eye(size)) - inverse
        weights = np.exp(RATE * np.abs(size / 2 - cells))
        moved = np.abs(difference.sum(axis=1))
        product = (np.abs(difference) / weights).sum(axis=1).max() * weights.max()
        results[str(size)] = {
            "22, weighted": float((weights * moved).max() / product),
            "22, largest": float(moved.max() / product),
            "25": float(np.sum(weights**-2.0)),  # of a = k = 1/W, whose norms are 1
            "26": consistency.growth(RATE, size, 1),
        }
    return results


def show_norms(results: PartResult, page: Page) -> None:
    page.text(
        "The norm of a matrix is defined by the largest entry of Ay over vectors y of weighted norm 1. "
        "So (22) to (24) hold for the largest entry of ρ′ − ρ, not for its weighted norm, which the "
        "paper writes on the left. (25) is not the Schwarz inequality of that norm: it lacks the factor "
        "Σ W(j)⁻², a constant above 1. And the exponent of (26), r₀Ω − r′n_min with r′ < r₀/4, is "
        "positive, so that the bound grows exponentially with the number of rows "
        "([measured](ding2011.md)).",
        f"Check, for one level and r₀ = {RATE:g}: left side over right side of (22) with the weighted "
        "norm and with the largest entry, of (25) for a = k = 1/W (both must be at most 1), and (26) "
        "without its constants:",
    )
    page.table(
        [
            {
                "n": int(size),
                "(22), weighted": row["22, weighted"],
                "(22), largest entry": row["22, largest"],
                "(25)": row["25"],
                "(26)": row["26"],
            }
            for size, row in results.items()
        ]
    )


def _largest(differences: Any) -> float:
    return float(np.abs(differences).max())


PAPER = Paper(
    "errata",
    "Errors in the five papers that matter to a reader who programs from them. onefold has the "
    "corrected versions.",
    "Every section says what is printed, what is right, and by how much the two differ in a small "
    "computation. The tests run the same computations.",
    (
        Part(
            "significance",
            "ding2011, section 7.2: deviations taken for standard errors",
            run_significance,
            show_significance,
        ),
        Part("norms", "ding2011, equations 22 to 26: norms and a vacuous bound", run_norms, show_norms),
        Part("sign", "edwards2013, Algorithm 2: a sign", run_sign, show_sign),
        Part("levels", "edwards2013, section III-C: what has to grow", run_levels, show_levels),
        Part("objectives", "edwards2013, equations 2 and 6: factors", run_objectives, show_objectives),
        Part("ridge", "cawley2002, equations 1 to 3: a half", run_ridge, show_ridge),
        Part("levinson", "decherchi2010, appendix: where loops start", run_levinson, show_levinson),
    ),
    title="Errata",
)
