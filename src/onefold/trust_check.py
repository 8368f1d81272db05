r"""The trust check: does an approximation choose what the exact method would choose?

decherchi2010 (§4.3), for every approximation: on a subsample that the exact method can handle,
select with both, on the same splits and the same grid. Then compare

* the two choices: their distance in grid steps, the larger of those in gamma and in alpha. Kernels have
  no order, and the widths of different kernels cannot be compared: between two kernels there is one
  step, in place of that in gamma;
* the *regret*: by how much the exact method's score is worse at the approximation's choice;
* where the final model is trained with the approximation too, the *loss* that this adds on rows
  outside the subsample.

The run that would take place is checked: the approximation that it chooses, and how it would train the
final model. A regret is negligible up to its tolerance: one standard error (over the splits) of the
exact method's best score, or 5 % of the way from the median score of the grid to the best, whichever is
larger. A loss on fresh rows is negligible up to one standard error of the paired difference, or 5 % of
what the exact model gains over a constant prediction.

    applies         neither exceeds its tolerance, and the choices are at most 2 steps apart
    does not apply  one exceeds 3 times its tolerance
    doubtful        everything between

With several repeats (subsamples), the upper median is reported: half of them are at least as good.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.model_selection import LeaveOneOut, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from onefold.approximations import Exact
from onefold.criteria import Task
from onefold.heldout import sample_rows
from onefold.rows import FIFTHS, picked_rows, to_host
from onefold.search import GridEdgeWarning
from onefold.search.ledger import tie_tolerance
from onefold.search.strategies import Setup
from onefold.typing import ArrayLike, MaybeArray, RandomState, TableLike

Verdict = Literal["applies", "doubtful", "does not apply"]

# From good to bad.
_ORDER: tuple[Verdict, ...] = ("applies", "doubtful", "does not apply")
# Grid steps between the choices up to which an approximation applies.
_NEAR = 2
# Times the tolerance: a regret or a loss above it means that the approximation does not apply.
_TOO_FAR = 3.0
# Share of what there is to gain at which a regret or a loss is negligible.
_SHARE = 0.05
# Share of a constant prediction's loss at which a difference of two losses is rounding.
_ROUNDING = 1e-12


def trust(
    estimator: Any,
    X: TableLike,
    y: ArrayLike,
    *,
    size: int = 1000,
    repeats: int = 1,
    random_state: RandomState = None,
    sample_weight: MaybeArray = None,
    groups: MaybeArray = None,
) -> TrustCheck:
    """Check on subsamples whether the approximation chooses the same parameters as the exact method.

    The exact method takes O(size³) per gamma and repeat.

    Parameters
    ----------
    estimator : estimator of onefold, or Pipeline that ends in one
        Estimator with the approximation to be checked. Given hyper-parameters are checked over a grid of
        factors 1/64, 1/16, …, 64 around them. For a Pipeline, the last step is checked, on rows
        transformed by copies of the steps before it; for an estimator for tables, the estimator inside,
        on the prepared rows.
    X, y, sample_weight, groups
        The arguments of its `fit`; the check does not fit the estimator.
    size : int, default=1000
        Number of rows of a subsample; classes keep their shares, rows keep their order. If the final
        model is trained with the approximation, at most two thirds of the rows, so that it can be
        tested on the other rows.
    repeats : int, default=1
        Number of subsamples.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the subsamples.

    Returns
    -------
    TrustCheck

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV, trust
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(approximation="nystroem", gammas=[0.1, 1, 10], alphas=[0.01, 0.1, 1])
    >>> trust(model, X, y, size=200, random_state=0).verdict
    'applies'
    """
    params = {"sample_weight": sample_weight, "groups": groups}
    last, X, y, params = last_step(estimator, X, y, what="the trust check", **params)
    chooser = last.as_chooser(X)
    setup = chooser.set_up(X, y, **params)
    return check_setup(chooser, setup, size=size, repeats=repeats, random_state=random_state)


@dataclass(frozen=True)
class TrustCheck:
    """The result of :func:`trust` for the typical subsample; `draws` contains those of all of them."""

    rows: int  # size of the subsample
    exact: dict[str, Any]  # the two choices: gamma and alpha, and the kernel where there were several
    approximate: dict[str, Any]
    steps: int  # their distance in grid steps
    regret: float  # exact score at the exact choice minus exact score at the approximation's choice
    tolerance: float  # up to which a regret is negligible
    # The extra loss of the fitted approximate model on fresh rows; None where the final model is exact.
    loss: float | None = None
    loss_tolerance: float | None = None  # up to which a loss is negligible
    approximates: bool = True  # False where the exact method itself would run
    draws: tuple[TrustCheck, ...] = ()  # one per repeat; these have none themselves

    @classmethod
    def of(cls, draws: Sequence[TrustCheck]) -> TrustCheck:
        """The upper median of the draws, with all of them."""
        ordered = sorted(draws, key=lambda d: (_ORDER.index(d.verdict), d.excess, d.steps))
        return replace(ordered[len(ordered) // 2], draws=tuple(draws))

    @property
    def excess(self) -> float:
        """The larger of regret and loss, each in units of its tolerance."""
        pairs = ((self.regret, self.tolerance), (self.loss or 0.0, self.loss_tolerance or 0.0))
        return max(_in_units(value, tolerance) for value, tolerance in pairs)

    @property
    def verdict(self) -> Verdict:
        """By the rule at the head of the module: applies, doubtful or does not apply."""
        if self.excess > _TOO_FAR:
            return "does not apply"
        return "applies" if self.excess <= 1 and self.steps <= _NEAR else "doubtful"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they are kept in ``approximation_["trust"]``."""
        values = asdict(replace(self, draws=()))
        del values["draws"]  # their verdicts are enough
        return {"verdict": self.verdict, **values, "verdicts": [draw.verdict for draw in self.draws]}

    def __str__(self) -> str:
        if not self.approximates:
            return "nothing to check: the exact method is used for these rows."
        loss = "" if self.loss is None else f", loss of the fitted model {self.loss:.3g}"
        return (
            f"{self.verdict}: on {self.rows} rows the exact method chose {_named(self.exact)}, the "
            f"approximation {_named(self.approximate)}, {self.steps} grid steps apart; "
            f"regret {self.regret:.3g} (tolerance {self.tolerance:.3g}){loss}."
        )


def _in_units(value: float, tolerance: float) -> float:
    """A regret or a loss as a multiple of its tolerance; 0 for a gain."""
    if value <= 0:
        return 0.0
    return value / tolerance if tolerance > 0 else np.inf


def _named(params: dict[str, Any]) -> str:
    """Parameters with their names, as a text."""
    words = {name: _in_words(value) for name, value in params.items()}
    return ", ".join(f"{name} {word}" for name, word in sorted(words.items(), reverse=True))


def _in_words(value: Any) -> str:
    """A parameter to three digits, a name as it is."""
    if isinstance(value, tuple):  # the spacings of a circulant matrix
        return " × ".join(map(_in_words, value))
    return value if isinstance(value, str) else f"{value:.3g}"


def check_setup(
    chooser: Any, setup: Setup, *, size: int = 1000, repeats: int = 1, random_state: Any = None
) -> TrustCheck:
    """The check of a search that is about to take place; `chooser` makes copies of itself for it."""
    if not all(isinstance(number, Integral) for number in (size, repeats)) or size < 2 or repeats < 1:
        raise ValueError(
            f"size must be a whole number of at least 2, and repeats of at least 1; got {size!r} and "
            f"{repeats!r}."
        )
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31))
    generator = check_random_state(random_state)
    n = setup.problem.n
    if not setup.run.refits_exactly:
        size = min(size, max(2, 2 * n // 3))  # the other rows are for testing the fitted models
    covers_all = n <= size
    draws = []
    for _ in range(1 if covers_all else repeats):
        rows = np.arange(n) if covers_all else _draw_rows(setup, size, generator)
        draws.append(_compare(chooser, setup, rows, generator))
    return TrustCheck.of(draws)


def _compare(chooser: Any, setup: Setup, rows: Any, generator: Any) -> TrustCheck:
    """Both methods on the rows of a subsample."""
    problem = setup.problem
    task = setup.task
    run = setup.run
    X = setup.rows_of(rows, rows)
    y = task.y[rows]
    weight = task.weight_of(rows)
    approximation = run.approximation.for_subsample(len(rows) / problem.n)
    # Not a clone: an iterator of splits cannot be copied. The approximation that runs has its seed.
    changed = {"approximation": Exact(), "refit": "same", "random_state": None}
    settings = chooser.get_params(deep=False) | changed | {"cv": _same_splits(setup, rows)}
    exact = type(chooser)(**settings)
    approximate = exact
    approximates = not approximation.exact
    if approximates:
        refit = "exact" if run.refits_exactly else "same"
        approximate = clone(exact).set_params(approximation=approximation, refit=refit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)  # the fit itself will warn
        exact.fit(X, y, sample_weight=weight)
        if approximates:
            approximate.fit(X, y, sample_weight=weight)
    results = exact.cv_results_
    scores = results["mean_test_score"]
    best = exact.best_index_
    # The exact method has none of the settings of an approximation that a search may choose.
    choice = {
        name: value
        for name, value in approximate.best_params_.items()
        if name not in approximation.searched
    }
    chosen = results["params"].index(choice)
    regret = float(scores[best] - scores[chosen])
    regret = 0.0 if regret <= tie_tolerance(scores) else regret
    # One standard error of the best score, or 5 % of the way from the median score to the best.
    folds = sum(key.startswith("split") and key.endswith("_test_score") for key in results)
    error = results["std_test_score"][best] / np.sqrt(folds - 1) if folds > 1 else 0.0
    gain = scores[best] - np.median(scores[np.isfinite(scores)])
    loss = loss_tolerance = None
    fresh = np.setdiff1d(np.arange(problem.n), rows)
    if not run.refits_exactly and fresh.size:
        fresh = np.sort(generator.choice(fresh, min(fresh.size, len(rows)), replace=False))
        fresh_rows = setup.rows_of(fresh, rows)
        predicted = [to_host(fitted.predict(fresh_rows)) for fitted in (exact, approximate)]
        loss, loss_tolerance = _loss_on(predicted, fresh, rows, task)
    return TrustCheck(
        rows=len(rows),
        exact=exact.best_params_,
        approximate=approximate.best_params_,
        steps=_steps(results["params"], best, chosen),
        regret=regret if np.isfinite(regret) else np.inf,
        tolerance=float(max(error, _SHARE * gain)),
        loss=loss,
        loss_tolerance=loss_tolerance,
        approximates=approximates,
    )


def _steps(params: list[dict[str, Any]], first: int, second: int) -> int:
    """The distance of two cells in grid steps."""
    first_cell = params[first]
    second_cell = params[second]
    different_kernels = first_cell.get("kernel") != second_cell.get("kernel")
    distance = int(different_kernels)
    without_order = {"kernel", "gamma"} if different_kernels else {"kernel"}
    for name in first_cell.keys() & second_cell.keys() - without_order:
        axis = np.unique([cell[name] for cell in params if name in cell])
        first_place, second_place = np.searchsorted(axis, [first_cell[name], second_cell[name]])
        distance = max(distance, abs(int(first_place) - int(second_place)))
    return distance


def _loss_on(predicted: list[Any], fresh: Any, rows: Any, task: Task) -> tuple[float, float]:
    """Mean extra loss of the second of two models on fresh rows, and up to where it is negligible."""
    y = task.y[fresh]
    trained_on = task.y[rows]
    if task.classes is not None:
        labels, counts = np.unique(trained_on, return_counts=True)
        constant = np.full(y.shape, labels[counts.argmax()])
        losses = [(values != y).astype(float) for values in (*predicted, constant)]
    else:
        predictions = (*predicted, trained_on.mean(axis=0))
        losses = [np.mean(((values - y) ** 2).reshape(len(y), -1), axis=1) for values in predictions]
    exact_losses, approximate_losses, constant_losses = losses
    difference = approximate_losses - exact_losses
    error = float(difference.std(ddof=1)) / np.sqrt(len(y)) if len(y) > 1 else 0.0
    gain = max(float(np.mean(constant_losses - exact_losses)), 0.0)
    loss = float(difference.mean())
    rounding = _ROUNDING * float(np.mean(constant_losses))
    return (0.0 if abs(loss) <= rounding else loss), max(error, _SHARE * gain)


def _draw_rows(setup: Setup, size: int, generator: Any) -> Any:
    """Ascending row numbers: drawn by the approximation if it needs special rows, else by class."""
    problem = setup.problem
    task = setup.task
    rows = setup.run.approximation.subsample(problem.X, size, generator)
    if rows is not None:
        return np.sort(rows)
    if task.classes is None:
        return sample_rows(np.arange(problem.n), size, generator)
    folds = setup.cv if isinstance(setup.cv, int) else FIFTHS
    picked = []
    for label in task.classes:
        members = np.flatnonzero(task.y == label)
        share = max(round(size * members.size / problem.n), folds)
        picked.append(generator.choice(members, min(share, members.size), replace=False))
    return np.sort(np.concatenate(picked))


def _same_splits(setup: Setup, rows: Any) -> Any:
    """Splits of the subsample that are the same for both methods, even if a splitter shuffles."""
    cv = setup.cv
    task = setup.task
    scorings = [setup.scoring, *setup.recorded.values()]
    splits = next((scoring.splits for scoring in scorings if scoring.splits is not None), None)
    if splits is None or isinstance(cv, str | LeaveOneOut):
        return cv
    if cv is not None and not isinstance(cv, Integral) and not hasattr(cv, "split"):
        inside = splits.within(rows)
        numbers = np.arange(len(rows))
        if not len(inside):
            raise ValueError(
                "none of the given splits has training and test rows in the subsample of the trust "
                "check; use a larger size, or give cv as a number of folds or a splitter."
            )
        return [
            (np.delete(numbers, left_out), test) for left_out, test in zip(inside.left_out, inside.tests)
        ]
    kept = setup.problem.kept  # the user's numbering counts rows of weight 0
    table_rows = rows if kept is None else kept[rows]
    splitter = check_cv(cv, task.y[rows], classifier=task.classes is not None)
    groups = None if setup.groups is None else np.asarray(setup.groups)[table_rows]
    return list(splitter.split(picked_rows(setup.table, table_rows), task.y[rows], groups))


def last_step(estimator: Any, X: Any, y: Any, *, what: str, **params: Any) -> tuple[Any, Any, Any, Any]:
    """The last step of a Pipeline, or the estimator inside one for tables, and the arguments of its fit.

    The steps before it are fitted to X, so that its X is the transformed one.
    """
    step = estimator
    name = "{}"
    while isinstance(step, Pipeline) or hasattr(step, "_as_step"):
        prepares = not isinstance(step, Pipeline) or len(step.steps) > 1
        if prepares and isinstance(X, tuple) and all(isinstance(size, Real) for size in X):
            raise ValueError(
                "the preparation steps before the estimator must be fitted to rows; pass X, not its "
                "shape."
            )
        if not isinstance(step, Pipeline):
            step, X, y, params = step._as_step(X, y, **params)
            continue
        preparation = step[:-1]
        step = step.steps[-1][1]
        name = name.format("a Pipeline that ends in {}")
        if prepares:
            passed = {name: value for name, value in params.items() if value is not None}
            consumed: Iterable[str] = ()
            if passed and get_config()["enable_metadata_routing"]:
                consumed = preparation.get_metadata_routing().consumes("fit_transform", passed)
            X = clone(preparation).fit_transform(X, y, **{name: passed[name] for name in consumed})
    if not hasattr(step, "as_chooser"):
        name = name.format(step if isinstance(step, str) else type(step).__name__)
        raise ValueError(
            f"{what} does not support {name}; pass LSSVC, LSSVR, KernelRidge, LSSVCCV, LSSVRCV or "
            "KernelRidgeCV, an estimator for tables, or a Pipeline that ends in one of these."
        )
    return step, X, y, params
