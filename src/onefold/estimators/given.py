"""What the estimators whose hyper-parameters are given share: one run, one model, its expansion."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import Approximation, Model, Run, Workload, resolve_approximation
from onefold.estimators.base import KernelMachine
from onefold.estimators.chosen import Chosen
from onefold.estimators.final import metric_of, shares_of
from onefold.estimators.following import follow
from onefold.estimators.given_metric import learn, refuse_choices, track_of
from onefold.estimators.lazy import refuse_approximation
from onefold.estimators.random import seed_of
from onefold.estimators.validation import (
    check_alpha_count,
    check_alphas,
    check_kernel_matrix,
    check_rows,
)
from onefold.kernels import Kernel, resolve_gamma, resolve_kernel
from onefold.rows import opened
from onefold.typing import ArrayLike, MaybeArray, RandomState

_AROUND = 4.0 ** np.arange(-3, 4)  # of given hyper-parameters: the grid of the trust check


class Given(KernelMachine):
    """Fit with the kernel and ridge as they stand."""

    _chooser: ClassVar[type[Chosen]]
    """What chooses from a grid what this one is given."""

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: MaybeArray = 1.0,
        alpha: ArrayLike = 1.0,
        degree: float = 3,
        coef0: float = 1.0,
        approximation: str | Approximation = "exact",
        metric: str | None = None,
        max_rounds: int = 3,
        device: Any = None,
        client: Any = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.metric = metric
        self.max_rounds = max_rounds
        self.device = device
        self.client = client
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> Self:
        """Solve the least-squares problem.

        O(n³/3) time and one n × n array with the exact kernel matrix; with a metric that time for every
        round, and once more.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or (n, n) with ``kernel="precomputed"``
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            v_i ≥ 0 in Σ v_i (y_i − f(x_i))²; rows of weight 0 are left out.
        """
        refuse_choices(self, self._chooser.__name__)
        alpha = check_alphas(self.alpha, "alpha")
        approximation, seed = resolve_approximation(self.approximation), seed_of(self.random_state)
        if seed is not None:
            approximation = approximation.seeded(seed)
        refuse_approximation(self, X, approximation)
        y, sample_weight = self._in_memory(y, sample_weight)
        X = opened(X, self.client)
        problem, task = self._problem(X, y, sample_weight)
        gamma = resolve_gamma(self.gamma, problem.X)
        kernel = resolve_kernel(self.kernel, gamma, self.degree, self.coef0)
        check_kernel_matrix(kernel, problem.X)
        check_alpha_count(alpha, problem.Y.shape[1], get_tags(self).estimator_type)
        track = track_of(self, kernel, approximation, problem)
        fits = 1 if track is None else self.max_rounds + 1
        with self._threads(problem):
            run = approximation.start(problem, [kernel], Workload(fits, np.unique(alpha).size))
            self._check_given(run)
            rounds: dict[str, Any] = {}
            if track is not None:
                kernel, rounds = learn(track, run, alpha, self.max_rounds, seed or 0)
                run = run.restarted(kernel)
            model = run.final_model(kernel, alpha)
            expansion, report = run.finished(model, alpha)
            report |= run.diagnose(kernel) | rounds
            report |= self._calibrate_alone(run, lambda: model, task, alpha, seed or 0)
        self.expansion_ = self._finished(expansion, problem, _num_samples(X))
        self.approximation_ = report
        self.metric_ = metric_of(kernel)
        self.feature_importances_ = None
        with self._threads(problem):
            self._after_fit(run, model, kernel, alpha, _num_samples(X))
            if track is not None:
                self.feature_importances_ = shares_of(self.expansion_, problem, seed)
        follow(self, X)
        return self

    def _check_given(self, run: Run) -> None:
        """Raise before a fit for what could not be made of it."""

    def _after_fit(self, run: Run, model: Model, kernel: Kernel, alpha: Any, rows: int) -> None:
        """What else is made of the model of a table of so many rows."""

    def as_chooser(self, X: ArrayLike) -> Chosen:
        """An estimator that chooses from a grid around what is given, for the trust check.

        It looks at the approximation with the kernel as it is given: rounds that a subsample suggests
        would not be those of all rows.
        """
        if "_chooser" not in vars(type(self)):
            raise ValueError(
                f"the trust check does not know {type(self).__name__}; use one of LSSVC, LSSVR, "
                "KernelRidge, LSSVCCV, LSSVRCV, KernelRidgeCV."
            )
        given = self.get_params(deep=False)
        gamma, alpha = given.pop("gamma"), given.pop("alpha")
        del given["metric"], given["max_rounds"]
        if gamma is None or isinstance(gamma, str):
            gamma = resolve_gamma(gamma, check_rows(type(self)(), X, sparse=True, fitting=True))
        kernel = resolve_kernel(given.pop("kernel"), gamma, given["degree"], given["coef0"])
        gammas = list(_AROUND) if kernel.has_width else None
        alphas = np.unique(np.outer(alpha, _AROUND))
        return self._chooser(kernel, gammas=gammas, alphas=alphas, refit="same", **given)
