r"""The trust check: does an approximation choose what the exact method would choose?

decherchi2010 (§4.3), for every approximation: on a subsample that the exact method can handle,
select with both, on the same splits and the same grid. Then compare

* the two choices: their distance in grid steps, the larger of the one in gamma and in alpha. Among
  several kernels the order is nobody's, and the widths of one say nothing of another's: two kernels are
  one step apart in place of their widths;
* the *regret*: by how much the exact method's score is worse at the approximation's choice;
* where the final model is trained with the approximation too, the *loss* that this adds on rows
  outside the subsample.

The rule that judges them is in :mod:`onefold.trust_check.findings`. What is looked at is the run that
would take place: the approximation that it settled on, and how it would train the final model.
"""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from onefold.approximations import Exact
from onefold.linalg import to_numpy
from onefold.search import GridEdgeWarning, tie_tolerance
from onefold.search.setup import Setup
from onefold.trust_check.findings import Draw, TrustCheck
from onefold.trust_check.losses import loss_on
from onefold.trust_check.steps import last_step, name_of
from onefold.trust_check.subsample import draw_rows, same_splits
from onefold.typing import ArrayLike, MaybeArray, RandomState

_SHARE = 0.05  # of what there is to gain


def trust(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    size: int = 1000,
    repeats: int = 1,
    random_state: RandomState = None,
    sample_weight: MaybeArray = None,
    groups: MaybeArray = None,
) -> TrustCheck:
    """Check on subsamples whether the estimator's approximation chooses as the exact method would.

    O(size³) per gamma and repeat for the exact side.

    Parameters
    ----------
    estimator : LSSVCCV, LSSVRCV, KernelRidgeCV, one with given hyper-parameters, one of whole tables, or
        a Pipeline
        With the approximation to be checked. Given hyper-parameters are checked over a grid of
        factors 1/64, 1/16, …, 64 around them. Of a Pipeline the last step is checked, on rows that
        copies of the steps before it have transformed; of an estimator of tables the one inside, on the
        prepared rows.
    X, y, sample_weight, groups
        As in ``fit``; the estimator is not fitted by the check.
    size : int, default=1000
        Rows of a subsample; classes keep their shares, rows keep their order. At most two thirds of
        the rows where the final model is trained with the approximation, to be judged on the rest.
    repeats : int, default=1
        Number of subsamples.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    TrustCheck
    """
    step = last_step(estimator, X, y, sample_weight=sample_weight, groups=groups)
    if not hasattr(step.estimator, "as_chooser"):
        raise ValueError(
            f"the trust check does not know {name_of(estimator)}; give it one of the six estimators "
            "with an approximation, one of whole tables, or a Pipeline that ends in one."
        )
    chooser = step.estimator.as_chooser(step.X)
    setup = chooser.set_up(step.X, step.y, **step.params)
    return check_setup(chooser, setup, size=size, repeats=repeats, random_state=random_state)


def check_setup(
    chooser: Any, setup: Setup, *, size: int = 1000, repeats: int = 1, random_state: Any = None
) -> TrustCheck:
    """The check of a search that is about to take place; `chooser` makes copies of itself for it."""
    if not all(isinstance(number, Integral) for number in (size, repeats)) or size < 2 or repeats < 1:
        raise ValueError(
            f"size must be a whole number of at least 2 and repeats of at least 1; got {size!r} and "
            f"{repeats!r}."
        )
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**31))
    generator, n = check_random_state(random_state), setup.problem.n
    if not setup.run.refits_exactly:
        size = min(size, max(2, 2 * n // 3))  # the rest is for judging the fitted models
    whole = n <= size
    draws = []
    for _ in range(1 if whole else repeats):
        rows = np.arange(n) if whole else draw_rows(setup, size, generator)
        draws.append(_compare(chooser, setup, rows, generator))
    return TrustCheck(tuple(draws))


def _compare(chooser: Any, setup: Setup, rows: Any, generator: Any) -> Draw:
    """Both methods on some rows of the problem."""
    problem, task, run = setup.problem, setup.task, setup.run
    X, y = setup.rows_of(rows, rows), task.y[rows]
    weight = task.weight_of(rows)
    cv = same_splits(setup, rows)
    same = not run.refits_exactly
    smaller = run.approximation.for_subsample(len(rows) / problem.n)
    # Not a clone: an iterator of splits cannot be copied. The approximation that runs has its seed.
    other_settings = {"approximation": Exact(), "cv": cv, "refit": "same", "random_state": None}
    exact = type(chooser)(**chooser.get_params(deep=False) | other_settings)
    other = clone(exact).set_params(approximation=smaller, refit="same" if same else "exact")
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
        asked = setup.rows_of(fresh, rows)
        predicted = [to_numpy(fitted.predict(asked)) for fitted in (exact, other)]
        loss, loss_tolerance = loss_on(predicted, fresh, rows, task)
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


def _same_cell(params: list[dict[str, Any]], choice: dict[str, Any]) -> int:
    """Where the exact method tried the same hyper-parameters."""
    return params.index(choice)


def _steps(params: list[dict[str, Any]], first: int, second: int) -> int:
    one, other = params[first], params[second]
    apart = one.get("kernel") != other.get("kernel")
    distance = int(apart)
    for name in one.keys() & other.keys() - ({"kernel", "gamma"} if apart else {"kernel"}):
        axis = np.unique([cell[name] for cell in params if name in cell])
        place = np.searchsorted(axis, [one[name], other[name]])
        distance = max(distance, abs(int(place[0]) - int(place[1])))
    return distance


def _tolerance(results: dict[str, Any], best: int) -> float:
    """One standard error of the best score, or 5 % of the way there from the median score."""
    scores = results["mean_test_score"]
    n_splits = sum(key.startswith("split") and key.endswith("_test_score") for key in results)
    noise = float(results["std_test_score"][best]) / np.sqrt(n_splits - 1) if n_splits > 1 else 0.0
    return float(max(noise, _SHARE * (scores[best] - np.median(scores[np.isfinite(scores)]))))
