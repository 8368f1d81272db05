"""What the estimators whose hyper-parameters are given share: one run, one model, its expansion."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import Approximation, Workload, resolve_approximation
from onefold.estimators.base import KernelMachine
from onefold.estimators.chosen import Chosen
from onefold.estimators.families import names_families
from onefold.estimators.final import metric_of
from onefold.estimators.following import follow
from onefold.estimators.intervals import check_given_intervals, fit_given_intervals
from onefold.estimators.lazy import refuse_approximation
from onefold.estimators.probabilities import calibrate_alone
from onefold.estimators.random import seed_of
from onefold.estimators.validation import (
    check_alpha_count,
    check_alphas,
    check_kernel_matrix,
    check_rows,
)
from onefold.kernels import resolve_gamma, resolve_kernel
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
        self.device = device
        self.client = client
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> Self:
        """Solve the least-squares problem.

        O(n³/3) time and one n × n array with the exact kernel matrix.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or (n, n) with ``kernel="precomputed"``
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            v_i ≥ 0 in Σ v_i (y_i − f(x_i))²; rows of weight 0 are left out.
        """
        if names_families(self.kernel):
            raise ValueError(
                f"{type(self).__name__} takes one kernel, and got {self.kernel!r:.60}; use "
                f"{self._chooser.__name__}, which chooses among several."
            )
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
        with self._threads(problem):
            run = approximation.start(problem, [kernel], Workload(1, np.unique(alpha).size))
            if hasattr(self, "intervals"):
                check_given_intervals(self.intervals, run, type(self).__name__)
            model = run.final_model(kernel, alpha)
            expansion, report = run.finished(model, alpha)
            report |= run.diagnose(kernel)
            if hasattr(self, "calibration"):
                report |= calibrate_alone(self, run, lambda: model, task, alpha, seed or 0)
        self.expansion_ = self._finished(expansion, problem, _num_samples(X))
        self.approximation_ = report
        self.metric_ = metric_of(kernel)
        with self._threads(problem):
            if hasattr(self, "intervals"):
                fit_given_intervals(self, run, model, kernel, alpha, _num_samples(X), seed or 0)
        follow(self, X)
        return self

    def as_chooser(self, X: ArrayLike) -> Chosen:
        """An estimator that chooses from a grid around what is given, for the trust check."""
        if "_chooser" not in vars(type(self)):
            raise ValueError(
                f"the trust check does not know {type(self).__name__}; use one of LSSVC, LSSVR, "
                "KernelRidge, LSSVCCV, LSSVRCV, KernelRidgeCV."
            )
        given = self.get_params(deep=False)
        gamma, alpha = given.pop("gamma"), given.pop("alpha")
        if gamma is None or isinstance(gamma, str):
            gamma = resolve_gamma(gamma, check_rows(type(self)(), X, sparse=True, fitting=True))
        kernel = resolve_kernel(given.pop("kernel"), gamma, given["degree"], given["coef0"])
        gammas = list(_AROUND) if kernel.has_width else None
        alphas = np.unique(np.outer(alpha, _AROUND))
        return self._chooser(kernel, gammas=gammas, alphas=alphas, refit="same", **given)
