r"""The trust check: does an approximation choose what the exact method would choose?

decherchi2010 (§4.3), for every approximation: on a subsample that the exact method can handle,
select with both, on the same splits and the same grid. Then compare

* the two choices: their distance in grid steps, the larger of the one in gamma and in alpha;
* the *regret*: by how much the exact method's score is worse at the approximation's choice;
* where the final model is trained with the approximation too, the *loss* that this adds on rows
  outside the subsample.

The rule. A regret counts as nothing up to its tolerance: one standard error (over the splits) of the
exact method's best score, or 5 % of the way from the median score of the grid to the best, whichever
is larger. A loss on fresh rows counts as nothing up to one standard error of the paired difference,
or 5 % of what the exact model gains over a constant prediction.

    applies         neither exceeds its tolerance, and the choices are at most 2 steps apart
    does not apply  one exceeds 3 times its tolerance
    doubtful        everything between

With several repeats (subsamples) the reported one is the upper median: half are at least as good.
"""

from __future__ import annotations

import numbers
import warnings
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import LeaveOneOut, check_cv
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples

from onefold.approximations import Exact, Problem, resolve_approximation
from onefold.criteria import Task
from onefold.estimators import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.kernels import Precomputed, resolve_gamma, resolve_kernel
from onefold.linalg import take_rows, to_numpy
from onefold.search import GridEdgeWarning, tie_tolerance

Verdict = Literal["applies", "doubtful", "does not apply"]

_ORDER: tuple[Verdict, ...] = ("applies", "doubtful", "does not apply")
_NEAR = 2  # grid steps
_TOO_FAR = 3.0  # times the tolerance
_SHARE = 0.05  # of what there is to gain
_ROUNDING = 1e-12  # of a constant prediction's loss
_FACTORS = 4.0 ** np.arange(-3, 4)  # the grid around given hyper-parameters
_SELECTING = {LSSVC: LSSVCCV, LSSVR: LSSVRCV, KernelRidge: KernelRidgeCV}


@dataclass(frozen=True)
class Draw:
    """The comparison on one subsample.

    Attributes
    ----------
    rows : int
        Size of the subsample.
    exact, approximate : dict
        The two choices: gamma and alpha.
    steps : int
        Their distance in grid steps.
    regret, tolerance : float
        Loss of exact score at the approximation's choice, and how much of it counts as nothing.
    loss, loss_tolerance : float or None
        The same for the fitted models on fresh rows; None where the final model is exact.
    """

    rows: int
    exact: dict[str, float]
    approximate: dict[str, float]
    steps: int
    regret: float
    tolerance: float
    loss: float | None = None
    loss_tolerance: float | None = None

    @property
    def excess(self) -> float:
        """The larger of regret and loss, each in units of its tolerance."""
        excess = _ratio(self.regret, self.tolerance)
        if self.loss is None or self.loss_tolerance is None:
            return excess
        return max(excess, _ratio(self.loss, self.loss_tolerance))

    @property
    def verdict(self) -> Verdict:
        """By the rule of the module."""
        if self.excess > _TOO_FAR:
            return "does not apply"
        return "applies" if self.excess <= 1 and self.steps <= _NEAR else "doubtful"


@dataclass(frozen=True)
class TrustCheck:
    """What :func:`trust` found: the typical draw's numbers, and every draw.

    Attributes
    ----------
    draws : tuple of Draw
        One per repeat.
    """

    draws: tuple[Draw, ...]

    @property
    def typical(self) -> Draw:
        """The upper median of the draws."""
        ordered = sorted(self.draws, key=lambda d: (_ORDER.index(d.verdict), d.excess, d.steps))
        return ordered[len(ordered) // 2]

    @property
    def verdict(self) -> Verdict:
        """One of: applies, doubtful, does not apply."""
        return self.typical.verdict

    @property
    def exact(self) -> dict[str, float]:
        """What the exact method chose."""
        return self.typical.exact

    @property
    def approximate(self) -> dict[str, float]:
        """What the approximation chose."""
        return self.typical.approximate

    @property
    def steps(self) -> int:
        """Distance of the two choices in grid steps."""
        return self.typical.steps

    @property
    def regret(self) -> float:
        """Exact score at the exact choice minus exact score at the approximation's."""
        return self.typical.regret

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they are kept in ``approximation_["trust"]``."""
        verdicts = [draw.verdict for draw in self.draws]
        return {"verdict": self.verdict, **asdict(self.typical), "verdicts": verdicts}

    def __str__(self) -> str:
        draw = self.typical
        loss = "" if draw.loss is None else f", loss of the fitted model {draw.loss:.3g}"
        return (
            f"{self.verdict}: on {draw.rows} rows the exact method chose {_named(draw.exact)}, the "
            f"approximation {_named(draw.approximate)}, {draw.steps} grid steps apart; "
            f"regret {draw.regret:.3g} (tolerance {draw.tolerance:.3g}){loss}."
        )


def trust(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    size: int = 1000,
    repeats: int = 1,
    random_state: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
) -> TrustCheck:
    """Check on subsamples whether the estimator's approximation chooses as the exact method would.

    O(size³) per gamma and repeat for the exact side.

    Parameters
    ----------
    estimator : LSSVCCV, LSSVRCV, KernelRidgeCV, or one with given hyper-parameters
        With the approximation to be checked. Given hyper-parameters are checked over a grid of
        factors 1/64, 1/16, …, 64 around them.
    X, y, sample_weight, groups
        As in ``fit``; the estimator is not fitted by the check.
    size : int, default=1000
        Rows of a subsample; classes keep their shares, rows keep their order. At most two thirds of
        the rows where the final model is trained with the approximation, to be judged on the rest.
    repeats : int, default=1
        Number of subsamples.
    random_state : int, Generator or None, default=None

    Returns
    -------
    TrustCheck
    """
    if size < 2 or repeats < 1:
        raise ValueError(f"size must be at least 2 and repeats at least 1; got {size} and {repeats}.")
    generator = check_random_state(random_state)
    chooser = _selecting(estimator, X)
    problem, task = clone(chooser)._problem(X, y, sample_weight)
    if _trains_approximately(chooser, problem):
        size = min(size, max(2, 2 * problem.n // 3))  # the rest is for judging the fitted models
    whole = problem.n <= size
    draws = []
    for _ in range(1 if whole else repeats):
        rows = np.arange(problem.n) if whole else _subsample(chooser, problem, task, size, generator)
        draws.append(_compare(chooser, problem, task, rows, X, groups, generator))
    return TrustCheck(tuple(draws))


def _selecting(estimator: Any, X: Any) -> Any:
    """A copy that chooses hyper-parameters; for given ones, from a grid around them."""
    if hasattr(estimator, "alphas"):
        # Not a clone: a callback may hold what cannot be copied, such as a terminal.
        given = estimator.get_params(deep=False) | {"callback": None, "check": False, "verbose": 0}
        return type(estimator)(**given)
    cls = _SELECTING.get(type(estimator))
    if cls is None:
        raise ValueError(
            f"the trust check does not know {type(estimator).__name__}; use one of "
            f"{', '.join(c.__name__ for c in (*_SELECTING, *_SELECTING.values()))}."
        )
    given = estimator.get_params(deep=False)
    gamma, alpha = given.pop("gamma"), given.pop("alpha")
    gamma = resolve_gamma(gamma, X) if gamma is None or isinstance(gamma, str) else gamma
    kernel = resolve_kernel(given.pop("kernel"), gamma, given["degree"], given["coef0"])
    gammas = list(_FACTORS) if kernel.has_width else None
    alphas = np.unique(np.outer(alpha, _FACTORS))
    return cls(kernel, gammas=gammas, alphas=alphas, **given)


def _trains_approximately(chooser: Any, problem: Problem) -> bool:
    """Whether the final model too comes from the approximation."""
    approximation = resolve_approximation(chooser.approximation).settle(problem)
    choice = approximation.refit_for(problem) if chooser.refit == "auto" else chooser.refit
    return choice == "same" and not isinstance(approximation, Exact)


def _subsample(chooser: Any, problem: Problem, task: Task, size: int, generator: Any) -> Any:
    """Row numbers in order: as the approximation needs them, else by class, else any."""
    approximation = resolve_approximation(chooser.approximation).settle(problem)
    rows = approximation.subsample(problem.X, size, generator)
    if rows is not None:
        return np.sort(rows)
    if task.classes is None:
        return np.sort(generator.choice(problem.n, size, replace=False))
    folds = chooser.cv if isinstance(chooser.cv, int) else 5
    picked = []
    for label in task.classes:
        members = np.flatnonzero(task.y == label)
        wanted = max(round(size * members.size / problem.n), folds)
        picked.append(generator.choice(members, min(wanted, members.size), replace=False))
    return np.sort(np.concatenate(picked))


def _compare(
    chooser: Any, problem: Problem, task: Task, rows: Any, table: Any, groups: Any, generator: Any
) -> Draw:
    """Both methods on some rows of the problem; `table` is X as the user gave it, for splitters."""
    X, y = _rows_of(chooser, problem.X, rows, rows), task.y[rows]
    weight = task.weight_of(rows)
    cv = _same_splits(chooser.cv, table, y, _numbers_given(problem, rows), task, groups)
    same = _trains_approximately(chooser, problem)
    approximation = resolve_approximation(chooser.approximation).settle(problem)
    smaller = approximation.for_subsample(len(rows) / problem.n)
    exact = clone(chooser).set_params(approximation=Exact(), cv=cv, refit="same")
    other = clone(chooser).set_params(approximation=smaller, cv=cv, refit="same" if same else "exact")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)  # the fit itself will say so
        exact.fit(X, y, sample_weight=weight)
        other.fit(X, y, sample_weight=weight)
    scores = exact.cv_results_["mean_test_score"]
    best, chosen = exact.best_index_, _same_cell(exact.cv_results_["params"], other.best_params_)
    regret = float(scores[best] - scores[chosen])
    regret = 0.0 if regret <= tie_tolerance(scores) else regret
    loss, loss_tolerance = None, None
    fresh = np.setdiff1d(np.arange(problem.n), rows)
    if same and fresh.size:
        fresh = np.sort(generator.choice(fresh, min(fresh.size, len(rows)), replace=False))
        loss, loss_tolerance = _loss_on(fresh, rows, exact, other, problem, task)
    return Draw(
        rows=len(rows),
        exact=exact.best_params_,
        approximate=other.best_params_,
        steps=_steps(exact.cv_results_["params"], best, chosen),
        regret=regret if np.isfinite(regret) else np.inf,
        tolerance=_tolerance(exact.cv_results_, best),
        loss=loss,
        loss_tolerance=loss_tolerance,
    )


def _rows_of(chooser: Any, X: Any, rows: Any, centres: Any) -> Any:
    """Rows of X, and the columns of the training rows too where X is a kernel matrix."""
    part = take_rows(X, rows)
    if isinstance(chooser._kernel_for_tags(), Precomputed):
        return take_rows(part.T, centres).T
    return part


def _numbers_given(problem: Problem, rows: Any) -> Any:
    """Rows of the problem in the user's numbering, which counts rows of weight 0."""
    return rows if problem.kept is None else problem.kept[rows]


def _same_splits(cv: Any, table: Any, y: Any, given: Any, task: Task, groups: Any) -> Any:
    """One set of splits of the subsample for both methods, also where a splitter shuffles.

    Splits given as row numbers are those of all rows: what they have of the subsample is taken.
    """
    if isinstance(cv, str | LeaveOneOut):
        return cv
    if not isinstance(cv, numbers.Integral) and not hasattr(cv, "split"):
        place = np.full(_num_samples(table), -1)
        place[given] = np.arange(given.size)
        parts = [[place[_row_numbers(part)] for part in split] for split in cv]
        kept = [tuple(part[part >= 0] for part in split) for split in parts]
        kept = [split for split in kept if all(part.size for part in split)]
        if not kept:
            raise ValueError(
                "the subsample of the trust check leaves nothing of the given splits; use a larger "
                "size, or give cv as a number of folds or a splitter."
            )
        return kept
    splitter = check_cv(cv, y, classifier=task.classes is not None)
    groups = None if groups is None else np.asarray(groups)[given]
    return list(splitter.split(_safe_indexing(table, given), y, groups))


def _row_numbers(part: Any) -> Any:
    part = np.asarray(part)
    return np.flatnonzero(part) if part.dtype == bool else part


def _same_cell(params: list[dict[str, float]], choice: dict[str, Any]) -> int:
    """Where the exact method tried the same hyper-parameters; the approximation may have more."""
    return next(i for i, cell in enumerate(params) if all(choice[name] == cell[name] for name in cell))


def _steps(params: list[dict[str, float]], first: int, second: int) -> int:
    distance = 0
    for name in params[0]:
        axis = np.unique([p[name] for p in params])
        place = np.searchsorted(axis, [params[first][name], params[second][name]])
        distance = max(distance, abs(int(place[0]) - int(place[1])))
    return distance


def _tolerance(results: dict[str, Any], best: int) -> float:
    """One standard error of the best score, or 5 % of the way there from the median score."""
    scores = results["mean_test_score"]
    n_splits = sum(key.startswith("split") for key in results)
    noise = float(results["std_test_score"][best]) / np.sqrt(n_splits - 1) if n_splits > 1 else 0.0
    return max(noise, _SHARE * float(scores[best] - np.median(scores[np.isfinite(scores)])))


def _loss_on(
    fresh: Any, rows: Any, exact: Any, other: Any, problem: Problem, task: Task
) -> tuple[float, float]:
    """Mean extra loss of the approximate model on fresh rows, and how much of it counts as nothing."""
    X, y = _rows_of(exact, problem.X, fresh, rows), task.y[fresh]
    if task.classes is None:
        constant = task.y[rows].mean(axis=0)
    else:
        labels, counts = np.unique(task.y[rows], return_counts=True)
        constant = labels[counts.argmax()]
    losses = [
        _losses(predicted, y, task.classes is not None)
        for predicted in (to_numpy(exact.predict(X)), to_numpy(other.predict(X)), constant)
    ]
    difference = losses[1] - losses[0]
    noise = float(difference.std(ddof=1)) / np.sqrt(len(y)) if len(y) > 1 else 0.0
    gain = max(float(np.mean(losses[2] - losses[0])), 0.0)
    loss = float(difference.mean())
    rounding = _ROUNDING * float(np.mean(losses[2]))
    return (0.0 if abs(loss) <= rounding else loss), max(noise, _SHARE * gain)


def _losses(predicted: Any, y: Any, labels: bool) -> Any:
    """0 or 1 per row, or the squared error."""
    if labels:
        return (np.broadcast_to(predicted, y.shape) != y).astype(float)
    return np.mean(((predicted - y) ** 2).reshape(len(y), -1), axis=1)


def _ratio(value: float, tolerance: float) -> float:
    if value <= 0:
        return 0.0
    return value / tolerance if tolerance > 0 else np.inf


def _named(params: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in sorted(params.items(), reverse=True))
