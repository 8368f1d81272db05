"""Sparse least-squares support vector machines: few centres, pruned (cawley2002)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import Exact, Nystroem, Problem
from onefold.criteria import Criterion, HeldoutCriterion, Task, resolve_criterion
from onefold.estimators.base import KernelClassifier, KernelMachine, KernelRegressor
from onefold.estimators.selected import DEFAULT_ALPHAS, candidate_kernels
from onefold.estimators.validation import (
    as_labels,
    check_alphas,
    check_kernel_matrix,
    check_squares,
)
from onefold.expansions import Expansion
from onefold.heldout import Splits, make_splits
from onefold.kernels import Kernel, Precomputed
from onefold.landmarks import BASES, Basis
from onefold.linalg import like, take_rows, to_numpy
from onefold.pruning.pruners import ImprovedPruner, Pruner, SuykensPruner, distinct_rows
from onefold.pruning.robust import settle_weights
from onefold.pruning.sizes import knee, within
from onefold.search import Grid, deviation, make_candidates, run_search
from onefold.statistics.pruning import prune_sizes

_RETUNE_FOLDS = 4  # as in cawley2002
_FEWEST = 2


class _Sparse(KernelMachine):
    """Choose gamma and alpha, prune, choose the size, keep the path."""

    _default_criterion: ClassVar[str]

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gammas: Any = None,
        alphas: Any = None,
        degree: float = 3,
        coef0: float = 1.0,
        n_centres: int | None = None,
        tolerance: float | None = None,
        prune: str = "improved",
        weights: str | None = None,
        max_centres: int = 1000,
        drop: float = 0.05,
        cv: Any = 5,
        criterion: Any = None,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gammas = gammas
        self.alphas = alphas
        self.degree = degree
        self.coef0 = coef0
        self.n_centres = n_centres
        self.tolerance = tolerance
        self.prune = prune
        self.weights = weights
        self.max_centres = max_centres
        self.drop = drop
        self.cv = cv
        self.criterion = criterion
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Tune the full model, prune it, and choose the number of centres.

        O(n m²) for the statistics of m = min(n, max_centres) first centres, and 2.3 m³ for each path.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            v_i ≥ 0 in Σ v_i (y_i − f(x_i))².
        groups : array (n,), optional
            For grouped splitters.
        """
        self._check_settings()
        classifier = get_tags(self).estimator_type == "classifier"
        name = self._default_criterion if self.criterion is None else self.criterion
        criterion = resolve_criterion(name, classifier=classifier)
        if not isinstance(criterion, HeldoutCriterion):
            raise ValueError(
                f"criterion={name!r} is no score of held-out predictions, which choose the number of "
                'centres; use "mse", "error" or a scikit-learn scorer.'
            )
        problem, task = self._problem(X, y, sample_weight)
        check_squares(problem.Y)
        if problem.root_weight is not None:  # the loss that is minimised, class weights included
            task = replace(task, sample_weight=to_numpy(problem.root_weight) ** 2)
        n = _num_samples(X)
        labels = task.y if classifier else None
        splits = make_splits(
            self.cv, X, as_labels(y), n=n, labels=labels, groups=groups, kept=problem.kept
        )
        if splits.leave_one_out:
            raise ValueError("pruning by leave-one-out would prune n times; use folds, such as cv=10.")
        with self._threads(problem):
            kernel, alpha = self._tune(problem, task, criterion, splits)
            basis, centre_of = self._first_basis(kernel, problem)
            if self.weights == "robust":
                problem, task = self._reweighted(problem, task, kernel, alpha, basis, n)
            pruner = self._pruner(problem, task, criterion, kernel, alpha, basis, centre_of)
            expansion = self._follow(pruner, problem, splits, task, criterion, basis.size)
            self.expansion_ = self._finished(expansion, problem, n)
        return self

    def _check_settings(self) -> None:
        if self.prune not in ("improved", "suykens"):
            raise ValueError(f'prune must be "improved" or "suykens"; got {self.prune!r}.')
        if self.weights not in (None, "robust"):
            raise ValueError(f'weights must be None or "robust"; got {self.weights!r}.')
        if self.n_centres is not None and self.tolerance is not None:
            raise ValueError("give n_centres or tolerance, not both.")
        if self.n_centres is not None and self.n_centres < 1:
            raise ValueError(f"n_centres must be at least 1; got {self.n_centres!r}.")
        if self.tolerance is not None and self.tolerance < 0:
            raise ValueError(f"tolerance must not be negative; got {self.tolerance!r}.")
        if not 0 < self.drop < 1:
            raise ValueError(f"drop must lie between 0 and 1; got {self.drop!r}.")
        if self.max_centres < 1:
            raise ValueError(f"max_centres must be at least 1; got {self.max_centres!r}.")

    def _tune(
        self, problem: Problem, task: Task, criterion: Criterion, splits: Splits
    ) -> tuple[Kernel, float]:
        """Kernel and ridge of the model that is pruned, the ridge scaled to all rows."""
        alphas = check_alphas(DEFAULT_ALPHAS if self.alphas is None else self.alphas, "alphas")
        kernels, widths = candidate_kernels(self, problem.X)
        for kernel in kernels:
            if isinstance(kernel, Precomputed):
                raise ValueError("a precomputed kernel matrix has no rows to serve as centres.")
            check_kernel_matrix(kernel, problem.X)
        self.gamma_, self.alpha_ = widths[0], float(alphas[0])
        if len(kernels) == 1 and alphas.size == 1:
            return kernels[0], self.alpha_
        few = problem.n <= self.max_centres
        approximation = Exact() if few else Nystroem(self.max_centres, random_state=self.random_state)
        scoring = criterion.start(problem, task, splits)
        candidates = make_candidates(approximation, kernels, widths, problem, scoring.parts)
        found = run_search(Grid(candidates, alphas), scoring)
        self.gamma_ = found.chosen.width
        # The folds chose a ridge for their training parts; the mean squared error is what it weighs.
        weight = np.ones(problem.n)
        if problem.root_weight is not None:
            weight = to_numpy(problem.root_weight) ** 2
        left = np.mean([weight[rows].sum() for rows in splits.left_out]) / weight.sum()
        self.alpha_ = found.alpha / (1.0 - float(left))
        return found.chosen.kernel, self.alpha_

    def _first_basis(self, kernel: Kernel, problem: Problem) -> tuple[Basis, Any | None]:
        """The first centres, and for each row the centre that it equals where all rows are centres."""
        if self.prune == "suykens":  # which drops data: copies of a row are data too
            return Basis(problem.X, np.arange(problem.n), {"method": "all rows"}), None
        if problem.n <= self.max_centres:
            index, centre_of = distinct_rows(problem.X)
            return Basis(take_rows(problem.X, index), index, {"method": "all rows"}), centre_of
        rng = np.random.default_rng(self.random_state)
        return BASES["rpcholesky"](kernel, problem.X, self.max_centres, rng), None

    def _reweighted(
        self, problem: Problem, task: Task, kernel: Kernel, alpha: float, basis: Basis, n: int
    ) -> tuple[Problem, Task]:
        """The problem with robust weights on top of the user's, also for scoring."""
        Y = to_numpy(problem.Y)

        def residuals(weights: Any) -> Any:
            weighted = _weighted(problem, weights)
            ridge = float(problem.ridge(alpha))
            fitted = ImprovedPruner(weighted, kernel, basis, ridge)
            model = fitted.expansions([basis.size])[0]
            return Y - to_numpy(model.predict(problem.X))

        weights, self.robust_rounds_ = settle_weights(residuals, problem.n)
        self.robust_weights_ = weights
        if problem.kept is not None:
            self.robust_weights_ = np.zeros(n)
            self.robust_weights_[problem.kept] = weights
        given = 1.0 if task.sample_weight is None else task.sample_weight
        return _weighted(problem, weights), replace(task, sample_weight=given * weights)

    def _pruner(
        self,
        problem: Problem,
        task: Task,
        criterion: Criterion,
        kernel: Kernel,
        alpha: float,
        basis: Basis,
        centre_of: Any | None,
    ) -> Pruner:
        if self.prune == "improved":
            ridge = float(problem.ridge(alpha))
            return ImprovedPruner(problem, kernel, basis, ridge, centre_of)

        def tune(rows: Any) -> tuple[Kernel, float]:
            part = problem.rows(rows)
            weight = task.weight_of(rows)
            sub = replace(task, X=part.X, y=task.y[rows], sample_weight=weight)
            alphas = check_alphas(DEFAULT_ALPHAS if self.alphas is None else self.alphas, "alphas")
            kernels, widths = candidate_kernels(self, part.X)
            fewest = len(rows) if task.classes is None else np.unique(sub.y, return_counts=True)[1].min()
            if fewest < 2 * _RETUNE_FOLDS or (len(kernels) == 1 and alphas.size == 1):
                return kernel, alpha
            splitter = KFold if task.classes is None else StratifiedKFold
            cv = splitter(_RETUNE_FOLDS, shuffle=True, random_state=0)
            folds = make_splits(cv, sub.y, sub.y, n=len(rows))
            scoring = criterion.start(part, sub, folds)
            candidates = make_candidates(Exact(), kernels, widths, part, scoring.parts)
            found = run_search(Grid(candidates, alphas), scoring)
            return found.chosen.kernel, found.alpha

        return SuykensPruner(problem, tune)

    def _follow(
        self,
        pruner: Pruner,
        problem: Problem,
        splits: Splits,
        task: Task,
        criterion: HeldoutCriterion,
        start: int,
    ) -> Expansion:
        """Score every size, choose one, and fit it on all rows."""
        stop = min(_FEWEST if self.n_centres is None else self.n_centres, start)
        path = prune_sizes(start, stop, self.drop)
        pairs = zip(pruner.heldout(splits, path), splits.tests)
        scores = np.array([criterion.score(values, rows, problem, task) for values, rows in pairs])
        # A training part has fewer centres to begin with: what it cannot prune it cannot judge.
        most = pruner.most_centres(splits)
        judged = [k for k, s in enumerate(path) if s == start or s < most or s == self.n_centres]
        sizes, scores = [path[k] for k in judged], scores[:, judged]
        self.path_ = {
            "n_centres": np.array(sizes),
            "mean_test_score": scores.mean(axis=0),
            "std_test_score": deviation(scores, axis=0),
        } | {f"split{i}_test_score": row for i, row in enumerate(scores)}
        mean = self.path_["mean_test_score"]
        chosen = len(sizes) - 1
        if self.tolerance is not None:
            chosen = within(mean, self.tolerance)
        elif self.n_centres is None:
            chosen = knee(scores)
        self.best_score_ = float(mean[chosen])
        self.n_centres_ = sizes[chosen]
        expansion = pruner.expansions(path[: judged[chosen] + 1])[-1]
        self.approximation_ = {
            "name": "sparse",
            "prune": self.prune,
            "first_centres": start,
            "centres": expansion.n_centres,
            "chosen_by": "n_centres" if self.n_centres is not None
            else "tolerance" if self.tolerance is not None else "knee",
        }  # fmt: skip
        return expansion


def _weighted(problem: Problem, weights: Any) -> Problem:
    root = like(np.sqrt(weights), problem.X)
    if problem.root_weight is not None:
        root = root * problem.root_weight
    return replace(problem, root_weight=root)


class SparseLSSVR(KernelRegressor, _Sparse):
    r"""Least-squares support vector regression with few centres [cawley2002]_.

    f(x) = Σ_{j∈S} β_j k(x, z_j) + b, penalty βᵀK_SSβ, all residuals in the loss. gamma and alpha are
    chosen for the full model; then the centres with the smallest |β| are dropped, a twentieth at a time.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, cv, n_jobs
        As in :class:`LSSVRCV`. One gamma and one alpha: nothing is tuned.
    n_centres : int, optional
        Prune to this many centres.
    tolerance : float, optional
        Prune while the held-out score is within this share of the best: 0.05 allows 5 % more error.
        With neither, the knee is taken: the fewest centres within one standard error of the best.
    prune : {"improved", "suykens"}, default="improved"
        "suykens" is the original: drop data, not only centres, and tune again at each size.
    weights : {None, "robust"}, default=None
        "robust" weighs rows down by their residual's robust distance, refitting until it settles.
    max_centres : int, default=1000
        First centres: all rows up to this many, otherwise chosen by randomly pivoted Cholesky.
    drop : float, default=0.05
        Share of the centres dropped at each step.
    criterion : str or scorer, default="mse"
    random_state : int, default=0

    Attributes
    ----------
    path_ : dict
        ``n_centres``, ``mean_test_score``, ``std_test_score`` and ``split*_test_score``: the held-out
        score at each size that the training parts can judge, each pruned on its own ("suykens": to the
        same share of its rows).
    n_centres_, best_score_, gamma_, alpha_, expansion_, approximation_
        ``alpha_`` is the ridge for all rows: the one that the folds chose times n over the number of
        rows they trained on.
    robust_weights_ : array (n,)
        With ``weights="robust"``; 0 for rows of weight 0.
    """

    _default_criterion = "mse"


class SparseLSSVC(KernelClassifier, _Sparse):
    r"""Least-squares support vector classifier with few centres [cawley2002]_.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, cv, n_jobs
        As in :class:`LSSVCCV`. One gamma and one alpha: nothing is tuned.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class, in the loss and in the scores.
    n_centres, tolerance, prune, weights, max_centres, drop, random_state
        As in :class:`SparseLSSVR`.
    criterion : str or scorer, default="error"

    Attributes
    ----------
    classes_ : array
    path_, n_centres_, best_score_, gamma_, alpha_, expansion_, approximation_
        As in :class:`SparseLSSVR`.
    """

    _default_criterion = "error"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gammas: Any = None,
        alphas: Any = None,
        degree: float = 3,
        coef0: float = 1.0,
        n_centres: int | None = None,
        tolerance: float | None = None,
        prune: str = "improved",
        weights: str | None = None,
        max_centres: int = 1000,
        drop: float = 0.05,
        cv: Any = 5,
        criterion: Any = None,
        class_weight: Any = None,
        random_state: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel, gammas=gammas, alphas=alphas, degree=degree, coef0=coef0, n_centres=n_centres,
            tolerance=tolerance, prune=prune, weights=weights, max_centres=max_centres, drop=drop,
            cv=cv, criterion=criterion, random_state=random_state, n_jobs=n_jobs,
        )  # fmt: skip
        self.class_weight = class_weight
