"""What the pruned estimators share: tune the full model, prune it, choose the size (cawley2002)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import Exact, Nystroem, Problem
from onefold.approximations.footprint import pruning_bytes
from onefold.criteria import Criterion, HeldoutCriterion, Task, resolve_criterion
from onefold.estimators.base import KernelMachine, follow
from onefold.estimators.families import families_of, takes_sparse
from onefold.estimators.final import finished
from onefold.estimators.probabilities import calibrate
from onefold.estimators.setting_up import absolute_widths, ridge_grid, splits_of, workload
from onefold.estimators.validation import check_squares, problem_of, seed_of
from onefold.expansions import Expansion
from onefold.heldout import Splits
from onefold.kernels import Kernel, Precomputed
from onefold.landmarks import BASES, Basis
from onefold.linalg import like, take_rows, to_numpy
from onefold.machine.memory import require_memory
from onefold.pruning.pruners import Pruner, distinct_rows
from onefold.pruning.robust import settle_weights
from onefold.pruning.sizes import best_size
from onefold.rows import is_dask
from onefold.search import Candidate, Cells, Search, deviation, family_kernels
from onefold.statistics.pruning import prune_sizes
from onefold.typing import ArrayLike, CrossValidation, MaybeArray, RandomState, Scorer

_FEWEST = 2


class Pruned(KernelMachine):
    """Choose gamma and alpha, prune, choose the size, keep the path."""

    _default_criterion: ClassVar[str]

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gammas: MaybeArray = None,
        alphas: MaybeArray = None,
        degree: float = 3,
        coef0: float = 1.0,
        n_centres: int | None = None,
        tolerance: float | None = None,
        weights: str | None = None,
        max_centres: int = 1000,
        drop: float = 0.05,
        cv: CrossValidation = 5,
        criterion: str | Scorer | None = None,
        device: Any = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gammas = gammas
        self.alphas = alphas
        self.degree = degree
        self.coef0 = coef0
        self.n_centres = n_centres
        self.tolerance = tolerance
        self.weights = weights
        self.max_centres = max_centres
        self.drop = drop
        self.cv = cv
        self.criterion = criterion
        self.device = device
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Self:
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
        if is_dask(X):
            raise ValueError(
                f"{type(self).__name__} prunes rows that are in one place, and X is a collection of "
                'Dask; fit X.compute(), or use LSSVRCV or LSSVCCV with approximation="nystroem".'
            )
        name = self._default_criterion if self.criterion is None else self.criterion
        calibration = getattr(self, "calibration", None)
        criterion = resolve_criterion(name, classifier=classifier, calibration=calibration)
        if not isinstance(criterion, HeldoutCriterion):
            raise ValueError(
                f"criterion={name!r} is no score of held-out predictions, which choose the number of "
                'centres; use "mse", "error" or a scikit-learn scorer.'
            )
        problem, task = problem_of(self, X, y, sample_weight, sparse=takes_sparse(self))
        check_squares(problem.Y)
        given = task
        if problem.root_weight is not None:  # the loss that is minimised, class weights included
            task = replace(task, sample_weight=to_numpy(problem.root_weight) ** 2)
        n, seed = _num_samples(X), seed_of(self.random_state) or 0
        splits = splits_of(self.cv, X, y, problem, task, groups)
        if splits.leave_one_out:
            raise ValueError("pruning by leave-one-out would prune n times; use folds, such as cv=10.")
        with self._threads(problem.n):
            self._require_memory(problem, splits)
            kernel, alpha = self._tune(problem, task, criterion, splits, seed)
            basis, centre_of = self._first_basis(kernel, problem, seed)
            if self.weights == "robust":
                problem, task = self._reweighted(problem, task, kernel, alpha, basis, n)
            pruner = Pruner(problem, kernel, basis, float(problem.ridge(alpha)), centre_of)
            expansion, heldout = self._follow(pruner, problem, splits, task, criterion, basis.size)
            if hasattr(self, "calibration"):
                calibrate(self, np.concatenate(heldout), np.concatenate(splits.tests), given)
            self.expansion_ = finished(problem.restore(expansion), problem, n)
        follow(self, X)
        return self

    def _check_settings(self) -> None:
        if self.weights not in (None, "robust"):
            raise ValueError(f'weights must be None or "robust"; got {self.weights!r}.')
        if self.n_centres is not None and self.tolerance is not None:
            raise ValueError("give n_centres or tolerance, not both.")
        asked = 1 if self.n_centres is None else self.n_centres
        for name, count in (("n_centres", asked), ("max_centres", self.max_centres)):
            if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
                raise ValueError(f"{name} must be a whole number and at least 1; got {count!r}.")
        tolerance = 0.0 if self.tolerance is None else self.tolerance
        if not isinstance(tolerance, Real) or not tolerance >= 0:
            raise ValueError(f"tolerance must be a number and not negative; got {tolerance!r}.")
        if not isinstance(self.drop, Real) or not 0 < self.drop < 1:
            raise ValueError(f"drop must be a number between 0 and 1; got {self.drop!r}.")

    def _require_memory(self, problem: Problem, splits: Splits) -> None:
        """Raise MemoryError if there is not enough to prune with, before anything is tuned."""
        centres, groups = min(problem.n, self.max_centres), problem.source.grouped_by(splits.left_out)
        needed = pruning_bytes(centres, groups.count)
        require_memory(needed, f"pruning from {centres} centres", "use a smaller max_centres")

    def _tune(
        self, problem: Problem, task: Task, criterion: Criterion, splits: Splits, seed: int
    ) -> tuple[Kernel, float]:
        """Kernel and ridge of the model that is pruned, the ridge scaled to all rows."""
        families = families_of(self, problem.X)
        widths = absolute_widths(self, families, problem.X)
        kernels, names = family_kernels(families, widths, problem, seed, relative=False)
        if isinstance(kernels[0], Precomputed):
            raise ValueError("a precomputed kernel matrix has no rows to serve as centres.")
        alphas = ridge_grid(self)
        self.gamma_, self.alpha_ = names[0].get("gamma"), float(alphas[0])
        if len(kernels) == 1 and alphas.size == 1:
            return kernels[0], self.alpha_
        few = problem.n <= self.max_centres
        approximation = Exact() if few else Nystroem(self.max_centres, random_state=seed)
        load = workload(problem, len(kernels), alphas.size, splits, [criterion])
        run = approximation.start(problem, kernels, load)
        scoring = criterion.start(problem, task, splits)
        candidates = [Candidate(run, kernel, name) for kernel, name in zip(kernels, names)]
        stage = Search().stage("grid", candidates, scoring=scoring, alphas=alphas)
        leader = stage.run(Cells([np.arange(alphas.size)] * len(candidates))).found().leader
        self.gamma_ = leader.candidate.width
        # The folds chose a ridge for their training parts; the mean squared error is what it weighs.
        weight = np.ones(problem.n)
        if problem.root_weight is not None:
            weight = to_numpy(problem.root_weight) ** 2
        left = np.mean([weight[rows].sum() for rows in splits.left_out]) / weight.sum()
        self.alpha_ = leader.alpha / (1.0 - float(left))
        return leader.candidate.kernel, self.alpha_

    def _first_basis(self, kernel: Kernel, problem: Problem, seed: int) -> tuple[Basis, Any | None]:
        """The first centres, and for each row the centre that it equals where all rows are centres."""
        if problem.n <= self.max_centres:
            index, centre_of = distinct_rows(problem.X)
            return Basis(take_rows(problem.X, index), index, {"method": "all rows"}), centre_of
        rng = np.random.default_rng(seed)
        return BASES["rpcholesky"](kernel, problem.X, self.max_centres, rng), None

    def _reweighted(
        self, problem: Problem, task: Task, kernel: Kernel, alpha: float, basis: Basis, n: int
    ) -> tuple[Problem, Task]:
        """The problem with robust weights on top of the user's, also for scoring."""
        Y = to_numpy(problem.Y)

        def residuals(weights: Any) -> Any:
            weighted = _weighted(problem, weights)
            ridge = float(problem.ridge(alpha))
            fitted = Pruner(weighted, kernel, basis, ridge)
            model = fitted.expansions([basis.size])[0]
            return Y - to_numpy(model.predict(problem.X))

        weights, self.robust_rounds_ = settle_weights(residuals, problem.n)
        self.robust_weights_ = weights
        if problem.kept is not None:
            self.robust_weights_ = np.zeros(n)
            self.robust_weights_[problem.kept] = weights
        given = 1.0 if task.sample_weight is None else task.sample_weight
        return _weighted(problem, weights), replace(task, sample_weight=given * weights)

    def _follow(
        self,
        pruner: Pruner,
        problem: Problem,
        splits: Splits,
        task: Task,
        criterion: HeldoutCriterion,
        start: int,
    ) -> tuple[Expansion, list[Any]]:
        """Score every size, choose one, and fit it on all rows; with its held-out predictions."""
        stop = min(_FEWEST if self.n_centres is None else self.n_centres, start)
        path = prune_sizes(start, stop, self.drop)
        predictions = pruner.heldout(splits, path)
        scores = criterion.score_splits(predictions, splits, problem, task).T
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
        chosen = len(sizes) - 1 if self.n_centres is not None else best_size(scores, self.tolerance)
        self.best_score_ = float(mean[chosen])
        self.n_centres_ = sizes[chosen]
        expansion = pruner.expansions(path[: judged[chosen] + 1])[-1]
        self.approximation_ = {
            "name": "sparse",
            "first_centres": start,
            "centres": expansion.n_centres,
            "chosen_by": "n_centres" if self.n_centres is not None
            else "tolerance" if self.tolerance is not None else "knee",
        }  # fmt: skip
        return expansion, [values[judged[chosen]] for values in predictions]


def _weighted(problem: Problem, weights: Any) -> Problem:
    root = like(np.sqrt(weights), problem.X)
    if problem.root_weight is not None:
        root = root * problem.root_weight
    return replace(problem, root_weight=root)
