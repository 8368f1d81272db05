"""Estimators that choose their own hyper-parameters: set up, search, fit what was chosen, record."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from onefold.approximations import Approximation
from onefold.docstrings import shared_docs
from onefold.estimators import final
from onefold.estimators.base import KernelClassifier, KernelMachine, KernelRegressor, follow
from onefold.estimators.setup import decisive_settings, set_up
from onefold.estimators.validation import check_alphas, check_budget, is_precomputed
from onefold.machine.threads import Lock
from onefold.machine.warning import warn_user
from onefold.rows import row_fingerprint
from onefold.search import GridEdgeWarning, Proposal, StopSearch
from onefold.search.checkpoint import fingerprint, open_checkpoint
from onefold.search.ledger import edges
from onefold.search.loop import Callback, Found, Progress, Search
from onefold.search.strategies import Setup
from onefold.trust_check import check_setup
from onefold.typing import (
    ArrayLike,
    ClassWeight,
    CriterionLike,
    CrossValidation,
    MaybeArray,
    RandomState,
)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelMachineCV(KernelMachine):
    """Search kernels, ridges and metrics by held-out predictions, then fit with what was chosen."""

    _default_criterion: ClassVar[str]
    _feature_groups: ClassVar[list[Any] | None] = None  # features that importances permute together

    kernel: Any = field(default="rbf", kw_only=False)
    gammas: MaybeArray = None
    alphas: MaybeArray = None
    degree: float = 3
    coef0: float = 1.0
    approximation: str | Approximation = "auto"
    cv: CrossValidation = 5
    criterion: CriterionLike = None
    select: str = "min"
    search: Any = "grid"
    refit: str = "auto"
    metric: str | None = None
    max_rounds: int = 5
    metric_rows: int | None = None
    blend: bool = False
    check: bool = False
    time_budget: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    device: Any = None
    client: Any = None
    random_state: RandomState = None
    n_jobs: int | None = None
    verbose: int = 0
    callback: Callback | None = None

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Self:
        """Choose by cross-validation, then fit what was chosen, or the blend, on all rows.

        One factorisation per kernel serves every alpha and every fold: O(n³) for the exact machine.
        With metrics of their own the k folds share nothing: O(k n³) for each width of a round, and as
        much for the next metrics. Beyond `metric_rows` this is paid on a subsample, and on all rows one
        Cholesky factor, O(n³), for each kernel with a metric that is left.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or (n, n) with ``kernel="precomputed"``
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            Weights of the training loss, and of the held-out rows in the criterion, as in GridSearchCV.
            Rows of weight 0 are left out: they are neither trained on nor scored.
        groups : array (n,), optional
            For grouped splitters.
        """
        seconds, began = check_budget(self.time_budget), time.monotonic()
        with open_checkpoint(self.checkpoint) as checkpoint:
            setup = set_up(self, X, y, sample_weight, groups, decided=checkpoint.decided)
            settings = decisive_settings(self, setup)
            checkpoint.begin(lambda: fingerprint(setup, settings), setup.run.reason)
            trust = self._trust(setup) if self.check else None
            progress = Progress(type(self).__name__, self.verbose, self.callback)
            search = Search(setup, progress, seconds=seconds, began=began, checkpoint=checkpoint)
            with self._threads(setup.problem.n):
                found = setup.strategy.run(search)
                search.warn_if_stopped()
                self._finish(found, search, setup.strategy.name, trust)
        # Rounds, and a search that was stopped, try a few cells: their ends are no ends of a grid.
        whole = self.metric is None and search.stopped is None
        if at_edge := edges(self.cv_results_, self.best_index_) if whole else []:
            names = " and ".join(f"{edge.split()[1]}s=" for edge in at_edge)
            if self._feature_groups is None:
                remedy = f"extend {names}, or standardise the features if they are not yet"
            else:  # those of a table, which are standardised
                options = " and ".join(f"--{edge.split()[1]}s" for edge in at_edge)
                remedy = f"extend the grid: {names}, or {options} on the command line"
            warn_user(
                f"the search chose the {' and the '.join(at_edge)} that it tried, and the scores still "
                f"rise there; {remedy}.",
                GridEdgeWarning,
            )
        return self

    def _finish(self, found: Found, search: Search, method: str, trust: dict[str, Any] | None) -> None:
        """Fit what was chosen on all rows, and record everything, in GridSearchCV's words."""
        setup = search.setup
        model = final.finish(found, blend=self.blend, intervals=getattr(self, "intervals", None))
        ledger, leader, problem = found.ledger, found.leader, setup.problem
        kernel, named = leader.candidate.kernel, leader.candidate.params.get("kernel")
        self.expansion_ = final.finished(model.expansion, problem, setup.rows)
        self.approximation_ = {"selected_with": found.report, "fitted_with": model.report}
        self.alpha_ = leader.alpha
        self.gamma_ = (
            leader.candidate.params.get("gamma") if named is None else getattr(kernel, "gamma", None)
        )
        self.kernel_ = self.kernel if named is None and isinstance(self.kernel, str) else named
        self.metric_, self.metric_history_ = final.metric_of(kernel), found.history
        importances: Any = None
        if self.metric is not None:
            importances = final.heldout_importances(found, model, self._feature_groups, setup.seed or 0)
        self.feature_importances_ = None if isinstance(importances, str) else importances
        self.cv_results_, self.history_ = ledger.cv_results(), ledger.history
        self.best_index_ = ledger.index_of(leader.index, leader.ridge)
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.blend_ = None if model.blend is None else model.blend.described()
        self.blend_score_ = None if model.blend is None else model.blend.score
        self.heldout_prediction_ = self.splits_ = None
        if model.heldout is not None and found.scoring.splits is not None:
            heldout = found.scoring.problem.in_table(model.heldout, setup.rows)
            single = heldout.shape[1] == 1 and getattr(self, "single_target_", True)
            self.heldout_prediction_ = heldout[:, 0] if single else heldout
            self.splits_ = found.scoring.splits.packed(setup.rows, found.scoring.problem.kept)
        self.fingerprint_ = row_fingerprint(problem, setup.rows, precomputed=is_precomputed(self.kernel))
        if isinstance(self, KernelClassifier):
            final.calibrate_heldout(self, found, model, setup)
        if isinstance(self, KernelRegressor):
            held = final.heldout_of(self.intervals, found, model)
            final.fit_intervals(self, held, setup.seed or 0, setup.rows)
        self.search_ = {"method": method, **found.record}
        self.search_ |= {"stopped": search.stopped, "untried": search.untried}
        if self.metric is not None:
            self.search_["no_importances"] = importances if isinstance(importances, str) else None
        if trust is not None:
            self.approximation_["trust"] = trust
        follow(self, setup.table)

    def _trust(self, setup: Setup) -> dict[str, Any]:
        """The trust check's findings; a warning before the long work if they are bad."""
        found = check_setup(self.as_chooser(setup.table), setup, random_state=setup.seed or 0)
        if found.verdict == "does not apply":
            warn_user(
                f"the approximation cannot be trusted with this selection; {found} Use another "
                "approximation, or select exactly on a subsample."
            )
        return found.as_dict()

    def objective(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Objective:
        """The held-out score as a function of the parameters, for drivers from elsewhere.

        The arguments are those of `fit`. ``objective(gamma=0.1, alpha=1e-3)`` is a number, greater is
        better; ``objective.fit()`` the estimator fitted with the best that was asked.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from onefold import LSSVCCV
        >>> objective = LSSVCCV().objective(*load_iris(return_X_y=True))
        >>> objective(gamma=0.1, alpha=0.01) > -0.05
        True
        >>> objective.fit().best_params_
        {'alpha': 0.01, 'gamma': 0.1}
        """
        return Objective(self, X, y, sample_weight, groups)

    def as_chooser(self, X: ArrayLike) -> KernelMachineCV:
        """A silent copy, for the trust check; a callback may hold what cannot be cloned."""
        silent: dict[str, Any] = dict.fromkeys(("callback", "metric", "checkpoint", "time_budget"))
        silent |= {"check": False, "verbose": 0, "blend": False, "search": "grid"}
        return type(self)(**self.get_params(deep=False) | silent)

    def set_up(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Setup:
        """The search that `fit` would make of the same data."""
        return set_up(self, X, y, sample_weight, groups)


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

    Parameters
    ----------
    estimator : LSSVCCV, LSSVRCV or KernelRidgeCV
        Whose criterion, splits and approximation score the parameters; it is copied.
    X, y, sample_weight, groups
        The arguments of its `fit`.

    Attributes
    ----------
    cv_results_ : dict
        Everything asked so far, as in ``GridSearchCV``.
    best_params_, best_score_, best_index_
        The best of it; ties go to the largest gamma, then the largest alpha. With several kernels error
        rates are ranked by the squared error of the decision values, as in a fit. With ``select="1se"``
        the largest alpha asked for that is within one standard error of it.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> objective = LSSVRCV().objective(X, y)
    >>> objective(gamma=1.0, alpha=0.1) > objective(gamma=100.0, alpha=0.1)
    True
    >>> objective.best_params_
    {'alpha': 0.1, 'gamma': 1.0}
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
        self._lock = Lock()

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


@dataclass(eq=False, repr=False, kw_only=True)
class LSSVCCV(KernelMachineCV, KernelClassifier):
    r"""Least-squares support vector classifier that chooses gamma and alpha itself.

    Every fold and every alpha come from one factorisation per kernel: the scores of
    ``GridSearchCV(LSSVC(), ...)`` without refitting. If asked, it also chooses the family of the kernel,
    learns a metric S for k(x, z) = φ(γ · dist(Sx, Sz)), and blends the best, f = b + Σ w_g f_g.

    Parameters
    ----------
    kernel : str, Kernel, callable, or list of these, default="rbf"
        "rbf", "laplacian", "matern12", "matern32", "matern52" ("matern" is "matern32"), "powexp",
        "polynomial" or "poly", "linear", "precomputed", an object from
        :mod:`onefold.kernels`, or a function of two blocks of rows. The widths of a Kernel object are
        multiplied by each of `gammas`. A list is a choice among families; "auto" is
        ["rbf", "powexp", "laplacian"], for sparse rows the first two.
    gammas : list of float or "scale", default=None
        Widths to try; None is 2^-15, 2^-13, …, 2^9, meant for standardised features [ding2011]_. With
        several kernels or a metric they are relative: numbers only, and 1 is the width at which the
        exponent of the kernel is 1 on average over pairs of rows; None is 0.1, 0.3, 1, 3, 10, 30.
    alphas : list of float, default=None
        Ridges μ to try; None is 2^-15, 2^-13, …, 2^5, and from 2^-21 with several kernels or a metric.
    degree, coef0 : float, default=3, 1.0
        Of the polynomial kernel.
    approximation : str or object from :mod:`onefold.approximations`, default="auto"
        How the kernel matrix is represented: "exact", "nystroem", "cg", "grid", "toeplitz" or
        "circulant". "auto" is exact where time and memory allow, and takes landmarks beyond.
    cv : int, "loo", splitter or iterable of (train, test), default=5
        An integer is stratified folds. ``"loo"`` scores all left-out predictions together. A metric or a
        blend needs folds.
    criterion : str, scorer, or list of these, default="error"
        "error" (its negative is the score), the name of a scikit-learn scorer, also of probabilities
        ("neg_log_loss"), or a scorer; without splits "press", "span", "gcv", "evidence", "cost" and
        "radius_margin" (:doc:`/manual/criteria`). With several kernels or a metric "error" and
        "accuracy" rank by the squared error of the decision values; the scores are still counts of
        errors. Of a list the first one decides; the others are recorded in ``cv_results_`` under their
        names, at no further factorisation. With a metric: one.
    select : {"min", "1se"}, default="min"
        The best mean score, or of all cells within one standard error of it the largest alpha, and at
        that alpha the best score. The error is that of the mean difference to the best cell, paired over
        the k splits: √(Σ (d_s − mean d)² / (k (k − 1))). Among several kernels the family stays the one
        chosen. It needs two splits or more, and goes with neither metric nor blend.
    search : {"grid", "halving"} or object from :mod:`onefold.search`, default="grid"
        How the grid of `gammas` and `alphas` is searched. "halving" tries all on a subsample, those
        that are not worse by more than noise on larger ones, and the last few on all rows, for a part
        of the time (:class:`onefold.search.Halving`); not with metric or blend.
    refit : {"auto", "exact", "same"}, default="auto"
        Fit the final model with the true kernel, or with the approximation that selected it.
    metric : {None, "diagonal", "full", "auto"}, default=None
        What is learned from the gradients of fitted models, for every kernel that can have it: a weight
        for each feature, or a matrix that also mixes them. "auto" tries both, but for rbf only "full".
        Laplacian kernels and sparse rows have diagonal ones only. Standardise the features first.
    max_rounds : int, default=5
        Rounds of fitting and learning at most; a metric that gains less than half a per cent ends
        earlier.
    metric_rows : int or None, default=None
        From how many rows metrics are learned. With no more rows than that every fold has a metric of
        its own; with more, the last folds are reserved and alone are scored. None is all rows
        up to 5000, from 1500 of which the metric of a fold is learned; beyond, as many as take ten
        seconds on the machine of the rows, 4000 at least.
    blend : bool, default=False
        Keep a sum of the best models of the kernels, metrics and rounds, with weights w_g ≥ 0 from their
        held-out predictions, unless the chosen one alone predicts held-out rows as well.
    check : bool, default=False
        Run :func:`onefold.trust` on a subsample of 1000 rows first, without metric and blend; its
        verdict is kept in ``approximation_["trust"]``, and "does not apply" warns.
    time_budget : float or None, default=None
        Seconds after which the search begins nothing new: the best so far is used, and a warning says
        what was not tried. The final fit comes on top. Ctrl-C does the same; a second one ends the fit.
    checkpoint : path or None, default=None
        A journal of the search. After a stop, a crash or a kill the same call goes on where it was and
        ends with the same answer; with more `gammas` or `alphas` it does only what is new. Delete the
        file when it has served.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class; "balanced" counts the classes once,
        in all rows. A class of weight 0 is neither trained on nor scored.
    calibration : {"log_odds", "temperature", "sigmoid", "isotonic"} or None, default="log_odds"
        How decision values become probabilities, fitted to the held-out ones
        (:doc:`/manual/probabilities`): what ``CalibratedClassifierCV(ensemble=False)`` has, without
        refitting. With "temperature", and with "log_odds" where there are no class weights, the
        likeliest class is the one of `predict`; otherwise it may not be. Scorers of probabilities
        calibrate with it, too (None: with "log_odds"), each fold by the others.
    device : str, torch device or None, default=None
        Move NumPy rows there ("cuda", say) and compute with torch; predictions for NumPy rows come back
        as NumPy arrays. None computes where X is. Blocks of Dask's rows are moved by their worker.
    client : dask.distributed.Client or None, default=None
        Whose workers work on rows of a Dask array or dataframe, which then stay there; None is the
        current client, or else threads. It needs a basis model: ``approximation="nystroem"``.
    random_state : int, RandomState, Generator or None, default=None
        Of the landmarks, of other random choices of the approximation, of the rows that metrics are
        learned from, and of the subsample that `check` looks at; None leaves them to fixed settings.
    n_jobs : int or None, default=None
        Threads; None and -1 use every core. The last digits of a dense factorisation of more than 1000
        rows depend on it, nothing else does.
    verbose : int, default=0
        1 writes a line to the standard error stream after each kernel.
    callback : function, optional
        Called after each kernel with a dict: done, total, best_score, best_params, part, seconds, left.
        A search with a metric has several parts, each of which counts anew.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_
        The choice; ties go to the largest gamma, then the largest alpha. Among several kernels, kinds of
        metric and rounds it is the simplest within one standard error, paired by rows, of the best.
        ``best_params_["gamma"]`` is as it was tried. With several kernels or a metric ``gamma_`` is the
        kernel's own; otherwise it is the same as in ``best_params_``: of a kernel given by its name the
        kernel's own, of a Kernel object the factor of its widths. The kernel that was fitted is
        ``expansion_.kernel``. With reserved folds ``best_score_`` is theirs.
    kernel_ : str or None
        Name of the chosen kernel; None for a single object without a learned metric.
    metric_ : array (d,), (d, d) or None
        S of the chosen kernel, or its diagonal; None where the kernel without a metric was chosen. Of a
        kernel that was given one width γ_j per feature it is √γ_j, of the Laplacian kernel γ_j.
    feature_importances_ : array (d,) or None
        Permutation importance on held-out rows: how much their squared error rises where the feature is
        permuted among them, as a share of the sum over all features; 0 where it falls. None where no
        metric is learned, or for the reason in ``search_["no_importances"]``: too many features, say.
    metric_history_ : list of dict
        The best cell of every kernel, metric and round: kernel, metric, round, gamma (None for a kernel
        without a width), alpha, score, rows. On a subsample the score is minus the squared error of the
        rows that judged it.
    blend_ : list of dict or None
        The members: kernel, metric, round, gamma, alpha, weight; the heaviest first.
    blend_score_ : float or None
        Score of the blend where each fold is predicted with weights from the others.
    cv_results_ : dict
        As in ``GridSearchCV``, also with param_kernel, param_metric and param_round; of the last part of
        a search with a metric. The criteria of a list after the first have columns of their own:
        mean_test_press, say.
    heldout_prediction_ : array (n,) or (n, classes)
        Decision values of the choice, or of the blend, each from a model that did not see its row; NaN
        for rows that were not tested and those of weight 0. Where folds were reserved these are all the
        other rows.
    splits_ : array (n,) or (n, splits), or None
        Behind ``heldout_prediction_``: the number of the fold that tests a row, −1 for rows that every
        split trains on, −2 for rows of weight 0. Where that does not say it, a column per split: 2 for
        tested rows, 1 for training rows, 0 for others. None for leave-one-out.
    fingerprint_ : dict or None
        Numbers, hashes and targets of some of the n rows, by which :meth:`report` knows them again.
    calibrator_ : Calibrator or None
        From decision values to probabilities, fitted to ``heldout_prediction_``, rows counting by their
        sample_weight; criteria without splits: to leave-one-out predictions. None without calibration:
        then there is no `predict_proba`.
    heldout_proba_ : array (n, classes) or None
        Probabilities of the held-out rows, those of a fold calibrated by the other folds; NaN where
        ``heldout_prediction_`` is.
    history_ : list of dict
        Scores and time of each kernel, in the order they finished.
    search_ : dict
        How the search went: its method, why it "stopped" early (None, "time_budget", "interrupted"
        or "stopped by the callback"), and what was "untried" then. Of "halving" also
        ``"n_resources"`` and ``"n_candidates"``, rows and kernels of each stage, and ``"stages"``: the
        best of each, what it "added" next to the best, what it "dropped", by which "difference" from the
        best, its "standard_error", and why. With a metric ``"no_importances"`` is why there are none, or
        None.
    classes_ : array
        Sorted labels.
    expansion_ : Expansion
        Centres, coefficients, intercept and kernel: all that prediction needs.
    approximation_ : dict
        What ran, and why.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import LSSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> LSSVCCV().fit(X, y).best_score_ > -0.05
    True
    """

    _default_criterion = "error"

    class_weight: ClassWeight = None
    calibration: str | None = "log_odds"


@shared_docs(LSSVCCV)
@dataclass(eq=False, repr=False, kw_only=True)
class LSSVRCV(KernelMachineCV, KernelRegressor):
    r"""Least-squares support vector regression that chooses gamma and alpha itself.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, approximation
        As in :class:`LSSVCCV`.
    cv : int, "loo", splitter or iterable of (train, test), default=5
        An integer is unshuffled folds, as in scikit-learn. ``"loo"`` scores all left-out predictions
        together. A metric or a blend needs folds.
    criterion : str, scorer, or list of these, default="mse"
        "mse", "cov" (root mean square error over the mean of y) or "mape" (their negatives are the
        scores), the name of a scikit-learn scorer, or a scorer; without splits, and as
        lists, those of :class:`LSSVCCV`.
    select, search, refit, metric, max_rounds, metric_rows, blend, check, time_budget, checkpoint,
    device, client, random_state, n_jobs, verbose, callback
        As in :class:`LSSVCCV`.
    intervals : {"cv+", "jackknife+", "normalised"} or None, default="cv+"
        How `predict_interval` and `predict_quantiles` make bounds from held-out residuals: with the
        models without each fold, without each row (the exact machine alone, n² memory), or without each
        fold and with residuals in units of their local size, which a second machine learns. A search
        that holds out no folds takes five of consecutive rows.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_, cv_results_, history_, search_, kernel_,
    metric_, feature_importances_, metric_history_, blend_, blend_score_
        As in :class:`LSSVCCV`.
    heldout_prediction_ : array (n,) or (n, targets)
        Predictions of the choice, or of the blend, each from a model that did not see its row; NaN as
        in :class:`LSSVCCV`.
    splits_, fingerprint_
        As in :class:`LSSVCCV`.
    conformity_scores_ : array (n,) or (n, targets), or None
        ``|y − held-out prediction|`` behind the intervals, the mean over the splits that test a row; NaN
        where none does. None without intervals.
    intervals_, fold_models_, spread_models_ : object or None
        What makes the bounds, the models without each fold, and those of the residuals' size.
        ``approximation_["intervals"]`` says what was done.
    expansion_, approximation_
        As in :class:`LSSVCCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVRCV(gammas=[1, 10, 100], alphas=[0.1, 1, 10]).fit(X, y)
    >>> model.best_params_
    {'alpha': 1.0, 'gamma': 10.0}
    >>> model.predict_interval(X[:2], coverage=0.9).shape
    (2, 2)
    """

    _default_criterion = "mse"

    intervals: str | None = "cv+"


@shared_docs(LSSVRCV)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelRidgeCV(LSSVRCV):
    """Kernel ridge regression (no intercept) that chooses gamma and alpha itself.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, approximation, cv, criterion, select, search, refit, metric,
    max_rounds, metric_rows, blend, check, time_budget, checkpoint, device, client, random_state, n_jobs,
    verbose, callback, intervals
        As in :class:`LSSVRCV`.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_, cv_results_, history_, search_, kernel_,
    metric_, feature_importances_, metric_history_, blend_, blend_score_, heldout_prediction_, splits_,
    fingerprint_, conformity_scores_, intervals_, fold_models_, spread_models_, expansion_,
    approximation_
        As in :class:`LSSVRCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import KernelRidgeCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = KernelRidgeCV(gammas=[1, 10, 100], alphas=[0.1, 1, 10]).fit(X, y - y.mean())
    >>> model.best_params_
    {'alpha': 1.0, 'gamma': 10.0}
    """

    _fit_intercept = False
