"""A search that somebody else drives: parameters in, held-out score out, the ledger kept."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cache
from threading import RLock
from typing import Any

import numpy as np

from onefold.estimators.setup import decisive_settings, set_up
from onefold.estimators.validation import check_alphas
from onefold.search import Proposal, StopSearch
from onefold.search.checkpoint import fingerprint, open_checkpoint
from onefold.search.loop import Progress, Search


class Objective:
    r"""The held-out score as a function of the parameters, for SciPy, Optuna or any other driver.

    ``objective(gamma=0.1, alpha=1e-3)``, or ``objective({"gamma": 0.1, "alpha": 1e-3})``, is the mean
    score by the estimator's criterion and splits: greater is better, NaN where the system cannot be
    solved or the score is undefined. It is what ``cross_val_score`` has for the estimator with these
    parameters, from one factorisation. What was asked before is not computed again; with a `checkpoint`
    also not what another process, or a grid, has left there.

    Parameters are `alpha`, `gamma` where the kernel has a width (as `gammas` count: a factor of the
    widths of a Kernel object, relative to the mean distance with several kernels), and `kernel` where
    there are several. Threads may call it at once; they take turns, each with the threads of `n_jobs`.

    Made by the `objective` method of the estimators that choose.

    Attributes
    ----------
    cv_results_ : dict
        Everything asked so far, as in ``GridSearchCV``.
    best_params_, best_score_, best_index_
        The best of it; ties go to the largest gamma, then the largest alpha. With several kernels error
        rates are ranked by the squared error of the decision values, as in a fit. With ``select="1se"``
        the largest alpha asked for that is within one standard error of it.
    """

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> None:
        # A copy, whose parameters stay as they are now; a callback may hold what cannot be cloned.
        self._estimator = own = type(estimator)(**estimator.get_params(deep=False))
        if own.metric is not None or own.blend:
            raise ValueError(
                "an objective scores one model at a time, without a learned metric or a blend; use "
                "metric=None and blend=False, or fit."
            )
        with open_checkpoint(own.checkpoint) as checkpoint:
            self._setup = setup = set_up(own, X, y, sample_weight, groups, decided=checkpoint.decided)
            self._whose = cache(lambda: fingerprint(setup, decisive_settings(own, setup)))
            checkpoint.begin(self._whose, setup.run.reason)
        self._trust = own._trust(self._setup) if own.check else None
        self._search = Search(self._setup, Progress(type(own).__name__, own.verbose, own.callback))
        # A journal serves grids and drivers alike.
        self._stage = self._search.stage("grid", alphas=[], shown_as="objective")
        self._ledger = self._stage.ledger
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._lock = RLock()

    def __call__(self, params: Mapping[str, Any] | None = None, /, **named: Any) -> float:
        """The mean held-out score of the parameters; NaN where there is none."""
        asked = {**({} if params is None else params), **named}
        if "alpha" not in asked:
            raise ValueError(f"alpha is missing among the parameters {sorted(asked)}; give a number.")
        if np.size(asked["alpha"]) != 1:
            raise ValueError(
                f"alpha must be one number; got {asked['alpha']!r}. Use scores for several."
            )
        alphas = check_alphas(asked.pop("alpha"), "alpha")
        return float(self.scores({"alphas": alphas, **asked})[0])

    def scores(self, params: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """The scores (alphas,) of one kernel with a list of `alphas`: one factorisation serves all."""
        asked = {**({} if params is None else params), **named}
        alphas = check_alphas(asked.pop("alphas", []), "alphas")
        setup, ledger = self._setup, self._ledger
        with self._lock, self._estimator._threads(setup.problem.n):
            number = self._number(asked)
            ridges = np.array([ledger.ridge(float(alpha)) for alpha in alphas])
            missing = np.intersect1d(ledger.untried(number), ridges)
            if missing.size:
                # The journal is open for one evaluation: others may use it in between.
                with open_checkpoint(self._estimator.checkpoint) as checkpoint:
                    checkpoint.begin(self._whose, setup.run.reason)
                    self._search.checkpoint = checkpoint
                    self._stage.evaluate([Proposal(number, missing)])
                if self._search.stopped:
                    raise StopSearch(
                        "the callback has stopped this objective; its fit() takes the best so far."
                    )
            return ledger.means[number, ridges]

    def _number(self, params: dict[str, Any]) -> int:
        """The number of the candidate behind its parameters; raise unless exactly these are there."""
        families, several = dict(self._setup.families), self._setup.relative
        name = params.get("kernel") if several else next(iter(families))
        if not isinstance(name, str) or name not in families:
            raise ValueError(f"kernel must be one of {list(families)}; got {name!r}.")
        known = ["alpha"] + ["gamma"] * families[name].has_width + ["kernel"] * several
        if {"alpha", *params} != set(known):
            given = ", ".join(sorted({"alpha", *params}))
            raise ValueError(f"the parameters are {', '.join(known)}; got {given}.")
        width = None
        if "gamma" in params:
            widths = check_alphas(params["gamma"], "gamma")
            if widths.size != 1:
                raise ValueError(f"gamma must be one number; got {params['gamma']!r}.")
            width = float(widths[0])
        if (name, width) not in self._numbers:
            candidate = self._setup.candidate((name, families[name]), width)
            self._numbers[name, width] = self._stage.add(candidate)
        return self._numbers[name, width]

    def _best(self) -> tuple[int, int]:
        if not self._ledger.entries:
            raise ValueError("nothing has been asked of this objective yet; call it with parameters.")
        best = self._ledger.best()
        if self._estimator.select == "min":
            return best
        return self._ledger.simplest(*best)

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Everything asked so far, in GridSearchCV's layout."""
        with self._lock:
            if not self._ledger.entries:
                self._best()  # raises
            return self._ledger.cv_results()

    @property
    def best_index_(self) -> int:
        """The place of the best in `cv_results_`."""
        with self._lock:
            return self._ledger.index_of(*self._best())

    @property
    def best_params_(self) -> dict[str, Any]:
        """The best parameters so far."""
        with self._lock:
            number, ridge = self._best()
            return {"alpha": float(self._ledger.alphas[ridge]), **self._ledger.params[number]}

    @property
    def best_score_(self) -> float:
        """Their mean held-out score."""
        with self._lock:
            return float(self._ledger.means[self._best()])

    def fit(self) -> Any:
        """The estimator, fitted on all rows with the best parameters so far."""
        with self._lock, self._estimator._threads(self._setup.problem.n):
            record = {"evaluations": len(self._ledger.entries)}
            found = self._stage.found(cell=self._best(), record=record)
            fitted = copy(self._estimator)
            fitted._finish(found, self._search, "objective", self._trust)
        return fitted
