r"""Sparse least-squares support vector machines: few centres, pruned (cawley2002).

gamma and alpha are tuned for the full model, centres are pruned on statistics that are sliced
(:mod:`onefold.basis.pruning`), and held-out scores choose how many stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self, cast, get_args

import numpy as np
from sklearn.utils.validation import _num_samples

from onefold.approximations import Exact, Nystroem, Problem
from onefold.approximations.footprint import pruning_bytes
from onefold.basis import BASES, Basis
from onefold.basis.pruning import Pruner, PruningPath, Rule, distinct_rows, prune_sizes
from onefold.compatibility import Request, check
from onefold.criteria import Criterion, Task
from onefold.docstrings import shared_docs
from onefold.estimators import setup
from onefold.estimators.base import KernelClassifier, KernelMachine, KernelRegressor, follow
from onefold.estimators.cv import LSSVCCV, LSSVRCV
from onefold.estimators.final import calibrate, for_table
from onefold.estimators.validation import check_count, check_squares, problem_of, seed_of
from onefold.expansions import Expansion
from onefold.heldout import Splits, make_splits
from onefold.kernels import Kernel
from onefold.linalg import asarray_like, host_array, take_rows
from onefold.machine.memory import require_memory
from onefold.rows import row_fingerprint, to_host
from onefold.search.evaluation import Candidate
from onefold.search.ledger import deviation
from onefold.search.loop import Search
from onefold.search.strategies import family_kernels
from onefold.typing import (
    ArrayLike,
    ClassWeight,
    CrossValidation,
    MaybeArray,
    RandomState,
    Scorer,
)

# Centres at the end of a path.
_MIN_CENTRES = 2
# Standard deviations up to which an error has the weight 1: as in Suykens' weighted LS-SVM.
_NEAR = 2.5
# Standard deviations from which on an error has the smallest weight, from there too.
_FAR = 3.0
# The smallest weight, from there too.
_MIN_WEIGHT = 1e-4
# Fits until the robust weights no longer move, at most; chosen, not measured.
_MAX_FITS = 10
# Change of a robust weight that no longer counts; chosen, not measured.
_WEIGHT_TOLERANCE = 0.01


@dataclass(eq=False, repr=False, kw_only=True)
class Pruned(KernelMachine):
    """Choose gamma and alpha, prune, choose the size, keep the path."""

    _default_criterion: ClassVar[str]

    kernel: Any = field(default="rbf", kw_only=False)
    gammas: MaybeArray = None
    alphas: MaybeArray = None
    loss: str = "sum"
    degree: float = 3
    coef0: float = 1.0
    n_centres: int | None = None
    tolerance: float | None = None
    weights: str | None = None
    max_centres: int = 1000
    drop: float = 0.05
    prune: str = "price"
    cv: CrossValidation = 5
    criterion: str | Scorer | None = None
    device: Any = None
    random_state: RandomState = 0
    n_jobs: int | None = None

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Self:
        """Choose gamma and alpha for the full model, prune it, and choose the number of centres.

        O(n m²) for the statistics of m = min(n, max_centres) initial centres, and 4.7 m³ for each path.
        The arguments are those of :meth:`LSSVRCV.fit`; X must hold rows, not a kernel matrix.
        """
        self._check_settings()
        families = setup.families_of(self)
        criterion, *recorded = setup.criteria_of(self).values()
        request = Request(
            estimator=type(self).__name__,
            chooser="LSSVCCV or LSSVRCV",
            searches=True,
            n_criteria=1 + len(recorded),
            holds_out=criterion.holds_out,
            leave_one_out=setup.leaves_one_out(self.cv),
            prunes=True,
        )
        check(request, setup.offer_of(X, Exact(), families))
        y = to_host(y)
        sample_weight = to_host(sample_weight)
        groups = to_host(groups)
        problem, task = problem_of(self, X, y, sample_weight, sparse=setup.takes_sparse(self))
        check_squares(problem.Y)
        original_task = task
        if problem.weight is not None:  # the loss that is minimised, class weights included
            task = replace(task, sample_weight=problem.weight)
        n = _num_samples(X)
        seed = seed_of(self.random_state) or 0
        splits = make_splits(self.cv, X, y, n=n, labels=task.labels, groups=groups, kept=problem.kept)
        with self._threads(problem.n):
            first_centres = min(problem.n, self.max_centres)
            left_out = splits.left_out
            needed = pruning_bytes(first_centres, problem.source.grouped_by(left_out).groups.count)
            require_memory(needed, f"pruning from {first_centres} centres", "use a smaller max_centres")
            kernel = self._tune(problem, task, criterion, splits, seed)
            ridge = float(problem.ridge(self.alpha_))
            centre_of = None
            if problem.n <= self.max_centres:
                index, centre_of = distinct_rows(problem.X)
                basis = Basis(take_rows(problem.X, index), index)
            else:
                rng = np.random.default_rng(seed)
                basis = BASES["rpcholesky"](kernel, problem.X, self.max_centres, rng)
            rule = cast(Rule, self.prune)
            pruner = Pruner(problem.source, kernel, basis, ridge, problem.fit_intercept, centre_of, rule)
            if self.weights == "robust":
                weights = self._settled_weights(problem, pruner)
                problem = _weighted(problem, weights)
                pruner = replace(pruner, source=problem.source)
                row_weights = 1.0 if task.sample_weight is None else task.sample_weight
                task = replace(task, sample_weight=row_weights * weights)
                self.robust_weights_ = np.zeros(n)
                self.robust_weights_[slice(None) if problem.kept is None else problem.kept] = weights
            sizes = prune_sizes(basis.size, min(self.n_centres or _MIN_CENTRES, basis.size), self.drop)
            predictions = pruner.heldout(left_out, splits.tests, sizes)
            scores = criterion.score_splits(predictions, splits, problem, task).T
            chosen = self._choose(sizes, scores, pruner.most_centres(left_out))
            expansion = _last(pruner, pruner.path(sizes[: chosen + 1]), problem)
            self.approximation_ |= {"first_centres": basis.size, "centres": expansion.n_centres}
            if hasattr(self, "calibration"):
                heldout = np.concatenate([values[chosen] for values in predictions])
                calibrate(self, heldout, np.concatenate(splits.tests), original_task)
            self.expansion_ = for_table(problem.restore(expansion), problem, n)
        self.fingerprint_ = row_fingerprint(problem, n, labelled=isinstance(self, KernelClassifier))
        follow(self, X)
        return self

    def _check_settings(self) -> None:
        if self.weights not in (None, "robust"):
            raise ValueError(f'weights must be None or "robust"; got {self.weights!r}.')
        if self.n_centres is not None and self.tolerance is not None:
            raise ValueError("give n_centres or tolerance, not both.")
        check_count("n_centres", 1 if self.n_centres is None else self.n_centres)
        check_count("max_centres", self.max_centres)
        tolerance = 0.0 if self.tolerance is None else self.tolerance
        if not isinstance(tolerance, Real) or not tolerance >= 0:
            raise ValueError(f"tolerance must be a number of at least 0; got {tolerance!r}.")
        if not isinstance(self.drop, Real) or not 0 < self.drop < 1:
            raise ValueError(f"drop must be a number between 0 and 1; got {self.drop!r}.")
        if self.prune not in get_args(Rule):
            raise ValueError(f'prune must be "price" or "coefficients"; got {self.prune!r:.60}.')

    def _tune(
        self, problem: Problem, task: Task, criterion: Criterion, splits: Splits, seed: int
    ) -> Kernel:
        """The kernel of the model that is pruned; sets gamma_, and alpha_ scaled to all rows."""
        families = setup.families_of(self)
        widths = setup.width_grid(self, families, problem.X, relative=False)
        kernels, params = family_kernels(families, widths, problem, seed, relative=False)
        alphas = setup.ridge_grid(self, problem.n)
        self.gamma_ = params[0].get("gamma")
        self.alpha_ = float(alphas[0])
        if len(kernels) == 1 and alphas.size == 1:
            return kernels[0]
        dense = problem.n <= self.max_centres
        approximation = Exact() if dense else Nystroem(self.max_centres, random_state=seed)
        load = setup.workload(problem, len(kernels), alphas.size, splits, [criterion])
        run = approximation.start(problem, kernels, load)
        scoring = criterion.start(problem, task, splits)
        candidates = [Candidate(run, *pair) for pair in zip(kernels, params)]
        stage = Search().stage("grid", candidates, scoring=scoring, alphas=alphas)
        chosen = stage.run([stage.every_cell()]).found().chosen.cell
        self.gamma_ = chosen.candidate.params.get("gamma")
        self.alpha_ = chosen.alpha
        if self.loss == "sum":  # the folds chose a ridge for their training parts: the same of the mean
            self.alpha_ /= float(np.mean(problem.of_mean().shares(splits.left_out)))
        return chosen.candidate.kernel

    def _settled_weights(self, problem: Problem, pruner: Pruner) -> Any:
        """Fit, weigh, fit again, until no robust weight moves by more than 0.01, at most ten times."""
        Y = problem.targets
        weights = np.ones(problem.n)
        for number in range(1, _MAX_FITS + 1):
            weighted = replace(pruner, source=_weighted(problem, weights).source)
            model = _last(weighted, weighted.path([pruner.basis.size]), problem)
            previous = weights
            weights = robust_weights(Y - host_array(model.predict(problem.X)))
            self.robust_rounds_ = number
            if np.max(np.abs(weights - previous)) <= _WEIGHT_TOLERANCE:
                break
        return weights

    def _choose(self, sizes: list[int], scores: Any, most: int) -> int:
        """Position of the size to keep, from scores (folds, sizes); keeps the path."""
        start = sizes[0]  # training parts have fewer, `most`: what they cannot prune they cannot judge
        judged = [k for k, s in enumerate(sizes) if s == start or s < most or s == self.n_centres]
        scores = scores[:, judged]
        self.path_ = {
            "n_centres": np.array(sizes)[judged],
            "mean_test_score": scores.mean(axis=0),
            "std_test_score": deviation(scores, axis=0),
        } | {f"split{i}_test_score": row for i, row in enumerate(scores)}
        if self.n_centres is not None:
            place = len(judged) - 1
            why = "n_centres"
        else:
            place = best_size(scores, self.tolerance)
            why = "knee" if self.tolerance is None else "tolerance"
        self.best_score_ = float(self.path_["mean_test_score"][place])
        self.n_centres_ = int(self.path_["n_centres"][place])
        self.approximation_: dict[str, Any] = {"name": "sparse", "chosen_by": why}
        self.approximation_["pruned_by"] = self.prune
        return judged[place]


@shared_docs(LSSVRCV)
@dataclass(eq=False, repr=False, kw_only=True)
class SparseLSSVR(KernelRegressor, Pruned):
    r"""Least-squares support vector regression with few centres [cawley2002]_.

    f(x) = Σ_{j∈S} β_j k(x, z_j) + b with the penalty βᵀK_SSβ and the residuals of all rows in the loss.
    gamma and alpha are chosen for the full model (not at all if only one of each is given). Then centres
    are dropped, a twentieth at a time, with the ridge of the mean squared error: a training part with a
    share p of the weight has p times that of all rows, whatever `loss` says of alpha. No metric is
    learned; pass one that was learned by another estimator with the kernel:
    ``kernel=RBF(metric=fitted.metric_)``.

    Parameters
    ----------
    kernel, gammas, alphas, loss, degree, coef0
        As in :class:`LSSVRCV`.
    n_centres : int, optional
        Prune to this many centres.
    tolerance : float, optional
        Prune while the held-out score is within this share of the best: 0.05 allows 5 % more error.
        With neither n_centres nor tolerance, the fewest centres within one standard error of the best
        score are kept.
    weights : {None, "robust"}, default=None
        "robust" gives smaller weights to rows with outlying residuals, and refits until the weights
        converge.
    max_centres : int, default=1000
        Number of initial centres: all rows up to this many, otherwise chosen by randomly pivoted
        Cholesky.
    drop : float, default=0.05
        Share of the centres dropped at each step.
    prune : {"price", "coefficients"}, default="price"
        Which centres are dropped: "price" those whose removal increases the objective least, with all
        others fitted again; "coefficients" those of the smallest ``|β|``, or norm of their coefficients
        for several targets, as in [cawley2002]_, which is usually worse.
    cv : int, splitter or iterable of (train, test), default=5
        An integer is the number of unshuffled folds, as in scikit-learn.
    criterion : str or scorer, default="mse"
        A score of held-out predictions: "mse", "cov", "mape" or a scikit-learn scorer.
    device
        As in :class:`LSSVRCV`.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the initial centres, if these are not all rows; None means 0.
    n_jobs
        As in :class:`LSSVRCV`.

    Attributes
    ----------
    path_ : dict
        ``n_centres``, ``mean_test_score``, ``std_test_score`` and ``split*_test_score``: the held-out
        scores for each number of centres that every training part can have; each part is pruned
        separately.
    n_centres_, best_score_, gamma_, alpha_, expansion_, approximation_
        ``alpha_`` is the ridge for all rows. With ``loss="sum"`` it is the one that the folds chose,
        times n over the number of rows they trained on; with ``loss="mean"`` the one they chose.
    robust_weights_ : array (n,)
        Weights of the rows with ``weights="robust"``; 0 for rows of weight 0.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import SparseLSSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SparseLSSVR(gammas=[1.0], alphas=[0.1], n_centres=20).fit(X, y)
    >>> model.expansion_.n_centres
    20
    """

    _default_criterion = "mse"


@shared_docs(SparseLSSVR, LSSVCCV)
@dataclass(eq=False, repr=False, kw_only=True)
class SparseLSSVC(KernelClassifier, Pruned):
    r"""Least-squares support vector classifier with few centres [cawley2002]_.

    Like :class:`SparseLSSVR`, with targets ±1, one-vs-rest for several classes.

    Parameters
    ----------
    kernel, gammas, alphas, loss, degree, coef0, n_centres, tolerance, weights, max_centres, drop, prune
        As in :class:`SparseLSSVR`.
    cv : int, splitter or iterable of (train, test), default=5
        An integer is the number of stratified folds.
    criterion : str or scorer, default="error"
        A score of held-out predictions: "error" or a scikit-learn scorer.
    device, random_state, n_jobs
        As in :class:`SparseLSSVR`.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class, in the loss and in the scores.
    calibration : {"log_odds", "temperature", "sigmoid", "isotonic"} or None, default="log_odds"
        How decision values are turned into probabilities, fitted to the held-out decision values for the
        chosen number of centres (:doc:`/manual/probabilities`).

    Attributes
    ----------
    path_, n_centres_, best_score_, gamma_, alpha_, expansion_, approximation_, robust_weights_
        As in :class:`SparseLSSVR`.
    classes_, calibrator_
        As in :class:`LSSVCCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import SparseLSSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SparseLSSVC(gammas=[0.1], alphas=[0.01], n_centres=10).fit(X, y)
    >>> model.expansion_.n_centres, model.score(X, y) > 0.9
    (10, True)
    """

    _default_criterion = "error"

    class_weight: ClassWeight = None
    calibration: str | None = "log_odds"


def _weighted(problem: Problem, weights: Any) -> Problem:
    """The problem with robust weights on top of its own."""
    root = asarray_like(np.sqrt(weights), problem.X)
    if problem.root_weight is not None:
        root = root * problem.root_weight
    return replace(problem, root_weight=root)


def _last(pruner: Pruner, path: PruningPath, problem: Problem) -> Expansion:
    """The smallest model of a path."""
    centres = take_rows(pruner.basis.rows, path.centres[-1])
    X = problem.X
    return Expansion(
        pruner.kernel, centres, asarray_like(path.coef[-1], X), asarray_like(path.intercept[-1], X)
    )


def robust_weights(residuals: Any) -> Any:
    r"""One weight per row from residuals (n, targets); the farthest target of a row decides.

    Suykens' weighted LS-SVM: with residuals e and their robust scale ŝ = 1.483 · MAD(e),

        v_i = 1 for |e_i/ŝ| ≤ 2.5,   (3 − |e_i/ŝ|) / 0.5 up to 3,   1e-4 beyond.
    """
    scale = 1.483 * np.median(np.abs(residuals - np.median(residuals, axis=0)), axis=0)
    distance = np.abs(residuals) / np.maximum(scale, np.finfo(float).tiny)[None, :]
    # A target that is fitted exactly has neither a scale nor outliers.
    distance[:, scale == 0] = 0.0
    farthest = distance.max(axis=1)
    return np.clip((_FAR - farthest) / (_FAR - _NEAR), _MIN_WEIGHT, 1.0)


def best_size(scores: Any, tolerance: float | None) -> int:
    """Position of the size to keep in scores (folds, sizes); sizes without a score are passed over.

    With a tolerance, the smallest model whose mean score is at most that share below the best. Without,
    the knee: the smallest on the plateau of the best, which reaches one standard error of the best mean
    below it, and ends where a size first falls short of that; such a model is no worse than the folds
    can tell.
    """
    scored = np.flatnonzero(np.isfinite(scores).all(axis=0))
    if not scored.size:
        raise ValueError(
            "no number of centres has a score: the criterion fails or is undefined on the held-out "
            "predictions; use another criterion, or folds with more test rows."
        )
    mean = scores[:, scored].mean(axis=0)
    best = int(np.argmax(mean))
    if tolerance is not None:
        enough = mean >= mean[best] - tolerance * abs(mean[best])
        return int(scored[np.flatnonzero(enough).max()])
    error = float(deviation(scores[:, scored[best]], axis=0)) / np.sqrt(scores.shape[0])
    short = np.flatnonzero(mean[best:] < mean[best] - error)
    return int(scored[best + short[0] - 1 if short.size else -1])
