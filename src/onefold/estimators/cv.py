"""Estimators that choose their own hyper-parameters: set up, search, fit what was chosen, record."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from onefold.approximations import Approximation, resolve_approximation
from onefold.compatibility import Offer, Request, check
from onefold.criteria import Scoring
from onefold.docstrings import shared_docs
from onefold.estimators import final
from onefold.estimators.base import KernelClassifier, KernelMachine, KernelRegressor, follow
from onefold.estimators.importances import Importances, heldout_importances
from onefold.estimators.intervals import fit_intervals
from onefold.estimators.setup import decisive_settings, set_up
from onefold.estimators.validation import check_alphas, check_budget, is_precomputed
from onefold.machine.threads import Lock
from onefold.machine.warning import warn_user
from onefold.rows import row_fingerprint
from onefold.search import GridEdgeWarning, Proposal, StopSearch
from onefold.search.checkpoint import fingerprint, open_checkpoint
from onefold.search.choice import mean_score
from onefold.search.crossfit import CrossFit
from onefold.search.ledger import edges
from onefold.search.loop import Callback, Progress, Search, SearchResult
from onefold.search.schedule import FINAL_FIT, IMPORTANCES, INTERVALS, schedule_of
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
    loss: str = "sum"
    degree: float = 3
    coef0: float = 1.0
    approximation: str | Approximation = "auto"
    cv: CrossValidation = 5
    second_cv: CrossValidation = None
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
        """Choose by cross-validation, then fit the chosen model, or the blend, on all rows.

        One factorisation per kernel serves every alpha and every fold: O(n³) for the exact method.
        With a learned metric each of the k folds has its own: O(k n³) for each width of a round, and as
        much to learn the next metrics. With more than `metric_rows` rows this is done on a subsample,
        followed by one Cholesky factorisation of all rows, O(n³), for each remaining kernel and metric.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or (n, n) with ``kernel="precomputed"``
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            Weights of the rows, in the training loss and, as in GridSearchCV, in the held-out scores.
            Rows of weight 0 are left out: they are neither trained on nor scored.
        groups : array (n,), optional
            Group labels, for splitters such as GroupKFold.
        """
        seconds = check_budget(self.time_budget)
        began = time.monotonic()
        with open_checkpoint(self.checkpoint) as checkpoint:
            setup = set_up(self, X, y, sample_weight, groups, decided=checkpoint.decided)
            settings = decisive_settings(self, setup)
            checkpoint.begin(lambda: fingerprint(setup, settings), setup.run.reason)
            trust = self._trust(setup) if self.check else None
            progress = Progress(type(self).__name__, self.verbose, self.callback)
            search = Search(setup, progress, seconds, began, checkpoint, schedule_of(setup))
            with self._threads(setup.problem.n):
                result = setup.strategy.run(search)
                search.warn_if_stopped()
                self._record(result, search, setup.strategy.name, trust)
        # Rounds, and a search that was stopped, try a few cells: their extremes are not edges of a grid.
        if self.metric is None and search.stopped is None:
            self._warn_of_edges()
        return self

    def _warn_of_edges(self) -> None:
        """Warn of a choice at an end of the grid, where scores are still rising."""
        at_edge = edges(self.cv_results_, self.best_index_)
        if not at_edge:
            return
        names = " and ".join(f"{edge.parameter}s=" for edge in at_edge)
        if self._feature_groups is None:
            remedy = f"extend {names}, or standardise the features if they are not yet"
        else:  # those of a table, which are standardised
            options = " and ".join(f"--{edge.parameter}s" for edge in at_edge)
            remedy = f"extend the grid: {names}, or {options} on the command line"
        ends = " and the ".join(map(str, at_edge))
        warn_user(
            f"the search chose the {ends} that it tried, and the scores are still rising there; "
            f"{remedy}.",
            GridEdgeWarning,
        )

    def _record(
        self, result: SearchResult, search: Search, method: str, trust: dict[str, Any] | None
    ) -> None:
        """Fit what was chosen on all rows, and record everything, in GridSearchCV's words."""
        setup = search.setup
        scoring = result.scoring
        ledger = result.ledger
        second = final.second_scoring(result, setup)
        search.begin(FINAL_FIT, ledger)
        relearned = None if second is None else final.relearned_without(second, setup)
        with search.final_watcher(result).watching():
            fit = final.fit_final(
                result,
                blend=self.blend,
                intervals=getattr(self, "intervals", None),
                second=second,
                relearned=relearned,
            )
        problem = setup.problem
        chosen = result.chosen.cell
        kernel = chosen.candidate.kernel
        family = chosen.candidate.params.get("kernel")
        self.expansion_ = final.for_table(fit.expansion, problem, setup.rows)
        self.approximation_ = {"selected_with": result.report, "fitted_with": fit.report}
        self.alpha_ = chosen.alpha
        width = chosen.candidate.params.get("gamma")
        self.gamma_ = width if family is None else getattr(kernel, "gamma", None)
        self.kernel_ = self.kernel if family is None and isinstance(self.kernel, str) else family
        self.metric_ = final.metric_of(kernel)
        self.metric_history_ = result.history
        importances = Importances()
        if self.metric is not None:
            search.begin(IMPORTANCES, ledger)
            importances = heldout_importances(fit, scoring, self._feature_groups, setup.seed or 0)
        self.feature_importances_ = importances.shares
        self.cv_results_ = ledger.cv_results()
        self.history_ = ledger.history
        self.best_index_ = ledger.index_of(chosen.index, chosen.ridge)
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.blend_ = final.members_of(fit) if self.blend else None
        self.blend_score_ = mean_score(fit.held_out, scoring) if self.blend else None
        self.heldout_prediction_ = self.splits_ = None
        if fit.predictions is not None and scoring.splits is not None:
            heldout = scoring.problem.in_table(fit.predictions.by_row, setup.rows)
            single = heldout.shape[1] == 1 and getattr(self, "single_target_", True)
            self.heldout_prediction_ = heldout[:, 0] if single else heldout
            self.splits_ = scoring.splits.packed(setup.rows, scoring.problem.kept)
        self._record_second(fit.second, second, setup)
        self.fingerprint_ = row_fingerprint(
            problem,
            setup.rows,
            precomputed=is_precomputed(self.kernel),
            labelled=isinstance(self, KernelClassifier),
        )
        search.begin(INTERVALS, ledger)
        if isinstance(self, KernelClassifier):
            self.heldout_proba_ = final.calibrate_heldout(self, fit, scoring, setup)
            if fit.second is not None and second is not None:  # these replace the calibrator
                self.second_proba_ = final.calibrate_heldout(self, fit.second, second, setup)
        if isinstance(self, KernelRegressor):
            believed = fit.second or fit
            fit_intervals(
                self, None if self.intervals is None else believed, setup.seed or 0, setup.rows
            )
        self.search_ = {"method": method, **result.record}
        self.search_ |= {"stopped": search.stopped, "untried": search.untried}
        if self.metric is not None:
            self.search_["no_importances"] = importances.why_none
        if trust is not None:
            self.approximation_["trust"] = trust
        follow(self, setup.table)

    def _record_second(self, fit: CrossFit | None, scoring: Scoring | None, setup: Setup) -> None:
        """The score and the predictions by the second splits; None without them."""
        self.second_score_ = self.second_predict_ = self.second_splits_ = None
        if isinstance(self, KernelClassifier):
            self.second_proba_ = None
        if fit is None or scoring is None:
            return
        self.second_score_ = mean_score(fit.held_out, scoring)
        if not np.isfinite(self.second_score_):
            warn_user(
                "the second score is NaN: the criterion is not defined for some of the folds of "
                "second_cv, as R² is not for a single row; use another criterion, or folds with more "
                "test rows."
            )
        heldout = scoring.problem.in_table(fit.held_out.by_row, setup.rows)
        single = heldout.shape[1] == 1 and getattr(self, "single_target_", True)
        self.second_predict_ = heldout[:, 0] if single else heldout
        self.second_splits_ = scoring.held_out.packed(setup.rows, scoring.problem.kept)

    def _trust(self, setup: Setup) -> dict[str, Any]:
        """The trust check's findings; a warning before the search if they are bad."""
        trust = check_setup(self.as_chooser(setup.table), setup, random_state=setup.seed or 0)
        if trust.verdict == "does not apply":
            warn_user(
                f"the trust check says that the approximation {trust} Use another approximation, or "
                "search on a subsample with the exact method."
            )
        return trust.as_dict()

    def objective(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Objective:
        """Return the held-out score as a function of the parameters, for external optimisers.

        The arguments are those of `fit`. ``objective(gamma=0.1, alpha=1e-3)`` returns a score, where
        greater is better; ``objective.fit()`` fits the estimator with the best parameters tried so far.

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
        """A silent copy, for the trust check; a callback may hold objects that cannot be cloned."""
        names = ("callback", "metric", "checkpoint", "time_budget", "second_cv")
        silent: dict[str, Any] = dict.fromkeys(names)
        silent |= {"check": False, "verbose": 0, "blend": False, "search": "grid"}
        return type(self)(**self.get_params(deep=False) | silent)

    def set_up(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Setup:
        """The search that `fit` would make of the same data."""
        return set_up(self, X, y, sample_weight, groups)


class Objective:
    r"""The held-out score as a function of the parameters, for SciPy, Optuna or any other optimiser.

    ``objective(gamma=0.1, alpha=1e-3)``, or ``objective({"gamma": 0.1, "alpha": 1e-3})``, is the mean
    held-out score by the estimator's criterion and splits: greater is better, NaN where the system
    cannot be solved or the score is undefined. It is the mean of ``cross_val_score`` for the estimator
    with these parameters, from one factorisation. Results are remembered: the same parameters are not
    evaluated twice, and with a `checkpoint` not even those that another process, or a grid search, has
    evaluated before.

    The parameters are `alpha`; `gamma`, if the kernel has a width (with the same meaning as in `gammas`:
    a factor of the widths of a Kernel object, or relative to the mean distance with several kernels);
    `kernel`, if there are several; and, with ``approximation=Circulant()``, optionally `spacing`, one
    number or one for each level. It can be called from several threads; calls run one after the
    other, each on `n_jobs` threads.

    The `objective` method of LSSVCCV, LSSVRCV and KernelRidgeCV makes it.

    Parameters
    ----------
    estimator : LSSVCCV, LSSVRCV or KernelRidgeCV
        The estimator whose criterion, splits and approximation score the parameters; it is copied.
    X, y, sample_weight, groups
        The arguments of its `fit`.

    Attributes
    ----------
    cv_results_ : dict
        Everything evaluated so far, as in ``GridSearchCV``.
    best_params_, best_score_, best_index_
        The best parameters so far; ties go to the largest gamma, then the largest alpha. With several
        kernels, error rates are ranked by the squared error of the decision values, as in `fit`. With
        ``select="1se"``, the largest alpha tried that is within one standard error of the best.

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
        # A copy, whose parameters do not change later; a callback may hold what cannot be cloned.
        self._estimator = copied = type(estimator)(**estimator.get_params(deep=False))
        request = Request(objective=True, metric=copied.metric, blend=bool(copied.blend))
        check(request, Offer(resolve_approximation(copied.approximation)))
        with open_checkpoint(copied.checkpoint) as checkpoint:
            self._setup = setup = set_up(copied, X, y, sample_weight, groups, decided=checkpoint.decided)
            self._fingerprint = cache(lambda: fingerprint(setup, decisive_settings(copied, setup)))
            checkpoint.begin(self._fingerprint, setup.run.reason)
        self._trust = copied._trust(self._setup) if copied.check else None
        self._search = Search(
            self._setup, Progress(type(copied).__name__, copied.verbose, copied.callback)
        )
        # A journal serves grid searches and external optimisers alike.
        self._stage = self._search.stage("grid", alphas=[], shown_as="objective")
        self._ledger = self._stage.ledger
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._lock = Lock()

    def __call__(self, params: Mapping[str, Any] | None = None, /, **named: Any) -> float:
        """Return the mean held-out score of the parameters; NaN where it is undefined."""
        parameters = {**({} if params is None else params), **named}
        if "alpha" not in parameters:
            raise ValueError(
                f"alpha is missing among the parameters {sorted(parameters)}; give a number."
            )
        if np.size(parameters["alpha"]) != 1:
            raise ValueError(
                f"alpha must be one number; got {parameters['alpha']!r}. Use scores() for several "
                "alphas."
            )
        alphas = check_alphas(parameters.pop("alpha"), "alpha")
        return float(self.scores({"alphas": alphas, **parameters})[0])

    def scores(self, params: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """Return the scores (alphas,) of one kernel for a list of `alphas`, from one factorisation."""
        parameters = {**({} if params is None else params), **named}
        alphas = check_alphas(parameters.pop("alphas", []), "alphas")
        setup = self._setup
        ledger = self._ledger
        with self._lock, self._estimator._threads(setup.problem.n):
            number = self._number(parameters)
            ridges = np.array([ledger.ridge(float(alpha)) for alpha in alphas])
            missing = np.intersect1d(ledger.untried(number), ridges)
            if missing.size:
                # The journal is open for one evaluation: others may use it in between.
                with open_checkpoint(self._estimator.checkpoint) as checkpoint:
                    checkpoint.begin(self._fingerprint, setup.run.reason)
                    self._search.checkpoint = checkpoint
                    self._stage.evaluate([Proposal(number, missing)])
                if self._search.stopped:
                    raise StopSearch(
                        "the callback has stopped this objective; its fit() uses the best so far."
                    )
            return ledger.means[number, ridges]

    def _number(self, params: dict[str, Any]) -> int:
        """The number of the candidate with these parameters; raise if one is missing or unknown."""
        families = dict(self._setup.families)
        several = self._setup.relative
        name = params.get("kernel") if several else next(iter(families))
        if not isinstance(name, str) or name not in families:
            raise ValueError(f"kernel must be one of {list(families)}; got {name!r}.")
        expected = ["alpha"] + ["gamma"] * families[name].has_width + ["kernel"] * several
        settings = self._settings(params)
        received = {"alpha", *params} - settings.keys()
        if received != set(expected):
            words = ", ".join(sorted(received | settings.keys()))
            raise ValueError(f"the parameters are {', '.join([*expected, *settings])}; got {words}.")
        width = None
        if "gamma" in params:
            widths = check_alphas(params["gamma"], "gamma")
            if widths.size != 1:
                raise ValueError(f"gamma must be one number; got {params['gamma']!r}.")
            width = float(widths[0])
        key = (name, width, *settings.items())
        if key not in self._numbers:
            candidate = self._setup.candidate((name, families[name]), width, **settings)
            self._numbers[key] = self._stage.add(candidate)
        return self._numbers[key]

    def _settings(self, params: dict[str, Any]) -> dict[str, Any]:
        """The settings of the approximation among the parameters, in the form that it keeps."""
        approximation = self._setup.run.approximation
        settings: dict[str, Any] = {}
        for name in approximation.searched:
            if name in params:
                value = params[name]
                value = tuple(np.atleast_1d(value)) if isinstance(value, list | np.ndarray) else value
                changed = replace(approximation, **{name: value})  # type: ignore[type-var]
                settings[name] = getattr(changed, name)
            elif isinstance(getattr(approximation, name), list):
                raise ValueError(
                    f"{name} is missing among the parameters {sorted(params)}: {approximation!r} has "
                    "several; give one of them, or another one."
                )
        return settings

    def _best(self) -> tuple[int, int]:
        if not self._ledger.entries:
            raise ValueError("this objective has not been evaluated yet; call it with parameters first.")
        best = self._ledger.best()
        if self._estimator.select == "min":
            return best
        return self._ledger.simplest(*best)

    @property
    def cv_results_(self) -> dict[str, Any]:
        """Everything evaluated so far, in the layout of GridSearchCV."""
        with self._lock:
            if not self._ledger.entries:
                self._best()  # raises
            return self._ledger.cv_results()

    @property
    def best_index_(self) -> int:
        """The position of the best parameters in `cv_results_`."""
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
        """The mean held-out score of the best parameters so far."""
        with self._lock:
            return float(self._ledger.means[self._best()])

    def fit(self) -> Any:
        """Return the estimator, fitted on all rows with the best parameters so far."""
        with self._lock, self._estimator._threads(self._setup.problem.n):
            record = {"evaluations": len(self._ledger.entries)}
            result = self._stage.found(cell=self._best(), record=record)
            fitted = copy(self._estimator)
            fitted._record(result, self._search, "objective", self._trust)
        return fitted


@dataclass(eq=False, repr=False, kw_only=True)
class LSSVCCV(KernelMachineCV, KernelClassifier):
    r"""Least-squares support vector classifier that chooses gamma and alpha itself.

    All folds and all alphas are scored from one factorisation per kernel: the scores of
    ``GridSearchCV(LSSVC(), ...)`` without refitting. Optionally it also chooses among kernels, learns a
    metric S for k(x, z) = φ(γ · dist(Sx, Sz)), and blends the best models, f = b + Σ w_g f_g.

    Parameters
    ----------
    kernel : str, Kernel, callable, or list of these, default="rbf"
        "rbf", "laplacian", "matern12", "matern32", "matern52" ("matern" is "matern32"), "powexp",
        "polynomial" or "poly", "linear", "precomputed", an object from
        :mod:`onefold.kernels`, or a function of two blocks of rows. The widths of a Kernel object are
        multiplied by each of `gammas`. From a list of kernels, the best one is chosen; "auto" means
        ["rbf", "powexp", "laplacian"], or the first two for sparse rows.
    gammas : list of float or "scale", default=None
        Widths to try; None means 2^-15, 2^-13, …, 2^9, for standardised features [ding2011]_. With
        several kernels or a metric they are relative numbers: 1 is the width at which the exponent of
        the kernel is 1 on average over pairs of rows, and None means 0.1, 0.3, 1, 3, 10, 30.
    alphas : list of float, default=None
        Ridges μ to try; None means 2^-15, 2^-13, …, 2^5, starting from 2^-21 with several kernels or a
        metric; all are divided by the power of two nearest to n with ``loss="mean"``.
    loss : {"sum", "mean"}, default="sum"
        What the alphas are ridges of: the sum of the squared errors, as in scikit-learn, or their mean
        Σ v_i e_i² / Σ v_i, whose alpha does not depend on the number of rows: the model without a fold
        then has the ridge alpha Σ v_i of its own training rows, as in GridSearchCV over :class:`LSSVC`
        with ``loss="mean"`` (:doc:`/manual/search`).
    degree, coef0 : float, default=3, 1.0
        Parameters of the polynomial kernel.
    approximation : str or object from :mod:`onefold.approximations`, default="auto"
        How the kernel matrix is represented: "exact", "nystroem", "cg", "grid", "toeplitz",
        "circulant" or "state_space". "auto" uses the exact matrix where time and memory allow, the state
        space for long series with kernels that have one, and landmarks otherwise.
    cv : int, "loo", "past:5", splitter or iterable of (train, test), default=5
        An integer is the number of stratified folds. ``"loo"`` computes one score from all left-out
        predictions. ``"past:5"`` stands for ``TimeSeriesSplit(5)``, which trains on earlier rows only. A
        metric or a blend needs folds.
    second_cv : int, "past:5", splitter or iterable of (train, test), default=None
        Another splitter, by which the chosen model, or the blend, is also scored, from the same
        factorisation and without another search: ``GroupKFold()`` beside random folds, for example.
        Width, ridge and the weights of a blend are those of all rows; a metric is learned without the
        rows that a split leaves out. Probabilities and intervals come from its held-out predictions.
        If folds of `cv` are reserved, as few of its own are reserved, too, and scored. Its `groups` are
        those passed to `fit`.
    criterion : str, scorer, or list of these, default="error"
        "error" (its negative is the score), a scikit-learn scorer or its name, including scorers of
        probabilities ("neg_log_loss"), or a criterion that needs no splits: "press", "span", "gcv",
        "evidence", "cost" or "radius_margin" (:doc:`/manual/criteria`). With several kernels or a
        metric, "error" and "accuracy" rank by the squared error of the decision values; the scores still
        count errors. In a list, the first criterion decides and the others are recorded in
        ``cv_results_`` under their names, without further factorisations. A metric takes only one.
    select : {"min", "1se"}, default="min"
        "min" chooses the best mean score; "1se" chooses, among all cells within one standard error of
        it, the largest alpha, and at that alpha the best score. The standard error is that of the mean
        difference from the best cell, paired over the k splits: √(Σ (d_s − mean d)² / (k (k − 1))). The
        choice among several kernels is not changed by it. "1se" needs at least two splits, and cannot
        be used with metric or blend.
    search : {"grid", "halving"} or object from :mod:`onefold.search`, default="grid"
        How the grid of `gammas` and `alphas` is searched. "halving" tries everything on a subsample,
        keeps on larger ones what is not worse by more than noise, and tries the last few on all rows, in
        a part of the time (:class:`onefold.search.Halving`); it cannot be used with metric or blend.
    refit : {"auto", "exact", "same"}, default="auto"
        Whether the final model is fitted with the true kernel ("exact") or with the approximation that
        selected it ("same"); "auto" decides by the approximation and by the time it would take.
    metric : {None, "diagonal", "full", "auto"}, default=None
        The metric to learn from the gradients of fitted models, for every kernel that can have one: a
        weight for each feature ("diagonal"), or a matrix that also mixes features ("full"). "auto" tries
        both, but only "full" for rbf. Laplacian kernels and sparse rows support only diagonal metrics.
        Standardise the features first.
    max_rounds : int, default=5
        Maximum number of rounds of fitting and learning; rounds end earlier when one improves the score
        by less than half a per cent.
    metric_rows : int or None, default=None
        Number of rows that metrics are learned from. With at most this many rows, every fold has its own
        metric; with more, the last folds are reserved and only these are scored. None means all rows
        up to 5000, of which the metric of a fold is learned from 1500; with more rows, as many as take
        about ten seconds on the hardware in use, but at least 4000.
    blend : bool, default=False
        Use a weighted sum of the best models of all kernels, metrics and rounds, with weights w_g ≥ 0
        from their held-out predictions, unless the chosen model alone predicts held-out rows as well.
    check : bool, default=False
        Run :func:`onefold.trust` on a subsample of 1000 rows first, without metric and blend; its
        verdict is stored in ``approximation_["trust"]``, and "does not apply" raises a warning.
    time_budget : float or None, default=None
        Seconds after which the search starts no new evaluation: the best parameters so far are used, and
        a warning says what was not tried. The time of the final fit is not included. Ctrl-C has the same
        effect; a second Ctrl-C aborts the fit.
    checkpoint : path or None, default=None
        File in which the search is recorded. After a stop, a crash or a kill the same call continues
        where it stopped and gives the same result; with more `gammas` or `alphas` only the new ones are
        evaluated. Delete the file when it is no longer needed.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class; "balanced" counts the classes once,
        in all rows. A class of weight 0 is neither trained on nor scored.
    calibration : {"log_odds", "temperature", "sigmoid", "isotonic"} or None, default="log_odds"
        How decision values are turned into probabilities, fitted to held-out decision values
        (:doc:`/manual/probabilities`): like ``CalibratedClassifierCV(ensemble=False)``, without
        refitting. With "temperature", and with "log_odds" without class weights, the most probable class
        is the one that `predict` returns; otherwise it may differ. Scorers of probabilities use the same
        calibration ("log_odds" if None), where each fold is calibrated by the others.
    device : str, torch device or None, default=None
        Move NumPy rows to this device ("cuda", for example) and compute with torch; predictions for
        NumPy rows are returned as NumPy arrays. None computes where X is. Blocks of Dask rows are moved
        by their worker.
    client : dask.distributed.Client or None, default=None
        Client whose workers process the rows of a Dask array or dataframe, which stay there; None means
        the current client, or threads if there is none. It needs ``approximation="nystroem"``.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the landmarks and other random choices of the approximation, of the rows that metrics are
        learned from, and of the subsample of `check`; None means the fixed seeds of these settings.
    n_jobs : int or None, default=None
        Number of threads; None and -1 use every core. Only the last digits of dense factorisations of
        more than 1000 rows depend on it.
    verbose : int, default=0
        With 1, a line is written to the standard error stream after each evaluation.
    callback : function, optional
        Called after each evaluation, a kernel with one width, with a dict: done, total, best_score,
        best_params, part, seconds, left. A search with a metric has several parts, each of which is
        counted separately; left are the seconds until the whole fit ends. Also called
        during evaluations by conjugate gradients, at most once a second: iteration is then a dict of
        number, residual and left.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_
        The chosen parameters and their score; ties go to the largest gamma, then the largest alpha.
        Among several kernels, kinds of metric and rounds, the simplest within one standard error of the
        best, paired by rows, is chosen. ``best_params_["gamma"]`` is the value that was tried. With
        several kernels or a metric, ``gamma_`` is the kernel's own width; otherwise it is the value in
        ``best_params_``: the width of a kernel given by name, or the factor of the widths of a Kernel
        object. The fitted kernel is ``expansion_.kernel``. With reserved folds, ``best_score_`` is the
        score on these.
    kernel_ : str or None
        Name of the chosen kernel; None for a single object without a learned metric.
    metric_ : array (d,), (d, d) or None
        S of the chosen kernel, or its diagonal; None if the chosen kernel has no metric. For a kernel
        that was given one width γ_j per feature it is √γ_j, for the Laplacian kernel γ_j.
    feature_importances_ : array (d,) or None
        Permutation importance on held-out rows: the increase of their squared error when the feature is
        permuted, as a share of the sum over all features; 0 where it decreases. None if no metric is
        learned, or for the reason in ``search_["no_importances"]``, such as too many features.
    metric_history_ : list of dict
        The best cell of every kernel, metric and round: kernel, metric, round, gamma (None for a kernel
        without a width), alpha, score, rows. On a subsample the score is the negative squared error on
        its validation rows.
    blend_ : list of dict or None
        The members of the blend: kernel, metric, round, gamma, alpha, weight; largest weight first.
    blend_score_ : float or None
        Score of the blend, where each fold is predicted with weights from the others.
    cv_results_ : dict
        As in ``GridSearchCV``, also with param_kernel, param_metric and param_round; for a search with a
        metric, of its last part. The other criteria of a list have their own columns, such as
        mean_test_press.
    heldout_prediction_ : array (n,) or (n, classes)
        Decision values of the chosen model, or of the blend, each from a model that was not trained on
        its row; NaN for rows that were not tested and for rows of weight 0. With reserved folds, only
        the rows of these were tested.
    splits_ : array (n,) or (n, splits), or None
        The splits of ``heldout_prediction_``: the number of the fold that tests a row, −1 for rows that
        every split trains on, −2 for rows of weight 0. For splits that this cannot describe, one column
        per split: 2 for tested rows, 1 for training rows, 0 for others. None for leave-one-out.
    fingerprint_ : dict or None
        Numbers, hashes and targets of some of the n rows, by which :meth:`report` recognises them, and
        keys of rows with their targets, by which equal rows of other tables are counted.
    calibrator_ : Calibrator or None
        Turns decision values into probabilities; fitted to ``heldout_prediction_``, or to those by
        `second_cv` if it is given, weighted by sample_weight, or to leave-one-out predictions for
        criteria without splits. None without calibration: then there is no `predict_proba`.
    heldout_proba_ : array (n, classes) or None
        Probabilities of the held-out rows, where each fold is calibrated by the other folds; NaN where
        ``heldout_prediction_`` is NaN.
    second_score_ : float or None
        The score by `second_cv`, as ``best_score_``; None without it.
    second_predict_, second_splits_, second_proba_
        As ``heldout_prediction_``, ``splits_`` and ``heldout_proba_``, by `second_cv`; None without it.
    history_ : list of dict
        Scores and time of each kernel, in the order in which they finished.
    search_ : dict
        How the search went: its method, why it "stopped" early (None, "time_budget", "interrupted"
        or "stopped by the callback"), and what was "untried" then. For "halving" also
        ``"n_resources"`` and ``"n_candidates"``, the rows and kernels of each stage, and ``"stages"``:
        the best candidate of each, which neighbours it "added", which it "dropped", with the
        "difference" from the best, its "standard_error", and the reason. With a metric,
        ``"compared"`` has the best candidate of every kernel, metric and round, with the "difference"
        of its loss from the best one's and the "standard_error" of that, as shares of the best one's
        loss; ``"no_importances"`` is the reason why there are no importances, or None.
    classes_ : array
        Sorted labels.
    expansion_ : Expansion
        Centres, coefficients, intercept and kernel: everything that prediction needs.
    approximation_ : dict
        Which method was used, and why.

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
    kernel, gammas, alphas, loss, degree, coef0, approximation
        As in :class:`LSSVCCV`.
    cv : int, "loo", "past:5", splitter or iterable of (train, test), default=5
        An integer is the number of unshuffled folds, as in scikit-learn. ``"loo"`` computes one score
        from all left-out predictions, ``"past:5"`` is ``TimeSeriesSplit(5)``. A metric or a blend needs
        folds.
    second_cv
        As in :class:`LSSVCCV`.
    criterion : str, scorer, or list of these, default="mse"
        "mse", "cov" (root mean square error divided by the mean of y) or "mape" (their negatives are the
        scores), a scikit-learn scorer or its name, or one of the criteria without splits of
        :class:`LSSVCCV`; lists as there.
    select, search, refit, metric, max_rounds, metric_rows, blend, check, time_budget, checkpoint,
    device, client, random_state, n_jobs, verbose, callback
        As in :class:`LSSVCCV`.
    intervals : {"cv+", "jackknife+", "normalised", "auto"} or None, default="cv+"
        How `predict_interval` and `predict_quantiles` make bounds from held-out residuals: "cv+" with
        the models trained without each fold; "jackknife+" with those trained without each row (only with
        ``approximation="exact"``, n² memory); "normalised" as "cv+", with residuals divided by their
        local size, which a second model learns; "auto" as "normalised" if intervals of constant width
        cover some slice of the held-out rows too rarely and normalised ones cover it better, otherwise
        as "cv+". A search without folds uses five folds of consecutive rows.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_, cv_results_, history_, search_, kernel_,
    metric_, feature_importances_, metric_history_, blend_, blend_score_
        As in :class:`LSSVCCV`.
    heldout_prediction_ : array (n,) or (n, targets)
        Predictions of the chosen model, or of the blend, each from a model that was not trained on its
        row; NaN as in :class:`LSSVCCV`.
    splits_, fingerprint_, second_score_, second_predict_, second_splits_
        As in :class:`LSSVCCV`.
    conformity_scores_ : array (n,) or (n, targets), or None
        ``|y − held-out prediction|``, from which the intervals are made, by `second_cv` if it is given:
        the mean over the splits that test a row, NaN if none does. None without intervals.
    intervals_, fold_models_, spread_models_ : object or None
        The calculation of the bounds, the models trained without each fold, and the models of the size
        of residuals. ``approximation_["intervals"]`` describes what was done.
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
    """Kernel ridge regression (without an intercept) that chooses gamma and alpha itself.

    Parameters
    ----------
    kernel, gammas, alphas, loss, degree, coef0, approximation, cv, second_cv, criterion, select,
    search, refit, metric, max_rounds, metric_rows, blend, check, time_budget, checkpoint, device,
    client, random_state, n_jobs, verbose, callback, intervals
        As in :class:`LSSVRCV`.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_, cv_results_, history_, search_, kernel_,
    metric_, feature_importances_, metric_history_, blend_, blend_score_, heldout_prediction_, splits_,
    fingerprint_, second_score_, second_predict_, second_splits_, conformity_scores_, intervals_,
    fold_models_, spread_models_, expansion_, approximation_
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
