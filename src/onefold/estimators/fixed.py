"""Estimators whose hyper-parameters are given."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import Workload, resolve_approximation
from onefold.estimators.base import KernelClassifier, KernelMachine, KernelRegressor
from onefold.estimators.validation import check_alphas, check_kernel_matrix
from onefold.kernels import resolve_gamma, resolve_kernel


class _Given(KernelMachine):
    """Fit with the kernel and ridge as they stand."""

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = 1.0,
        alpha: Any = 1.0,
        degree: float = 3,
        coef0: float = 1.0,
        approximation: Any = "exact",
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Solve the least-squares problem.

        O(n³/3) time and one n × n array.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or (n, n) with ``kernel="precomputed"``
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            v_i ≥ 0 in Σ v_i (y_i − f(x_i))²; rows of weight 0 are left out.
        """
        alpha = check_alphas(self.alpha, "alpha")
        approximation = resolve_approximation(self.approximation)
        problem, _ = self._problem(X, y, sample_weight)
        gamma = resolve_gamma(self.gamma, problem.X)
        kernel = resolve_kernel(self.kernel, gamma, self.degree, self.coef0)
        check_kernel_matrix(kernel, problem.X)
        targets = problem.Y.shape[1]
        if alpha.size > 1 and (get_tags(self).estimator_type == "classifier" or alpha.size != targets):
            raise ValueError(
                f"alpha must be one number, or in regression one per target ({targets}); "
                f"got {alpha.size} values."
            )
        approximation.check(kernel, problem)
        load = Workload(1, np.unique(alpha).size)
        with self._threads(problem):
            model = approximation.prepare(kernel, problem, load).model(
                kernel,
                problem,
                n_alphas=np.unique(alpha).size,
                need="coefficients",
            )
            expansion = model.expansion(problem.ridge(alpha))
        self.expansion_ = self._finished(expansion, problem, _num_samples(X))
        self.approximation_ = model.report | approximation.diagnose(kernel, problem)
        return self


class LSSVC(KernelClassifier, _Given):
    r"""Least-squares support vector classifier.

    min ½‖w‖² + (1/2μ) Σ v_i (y_i − w·φ(x_i) − b)² with targets ±1, one-vs-rest for several classes
    on one factorisation. O(n³/3) time. [ding2011]_

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        "rbf", "laplacian", "matern", "polynomial", "linear", "precomputed", an object from
        :mod:`onefold.kernels` (which keeps its own parameters), or a function of two row blocks.
    gamma : float, array (d,), "scale" or None, default=1.0
        Width of a kernel given by name, as in scikit-learn; an array holds one per feature; None
        is 1 / n_features.
    alpha : float, default=1.0
        Ridge μ, as in scikit-learn's ``KernelRidge``.
    degree, coef0 : float, default=3, 1.0
        Of the polynomial kernel.
    approximation : str or object from :mod:`onefold.approximations`, default="exact"
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class.
    n_jobs : int or None, default=None
        Threads; None and -1 use every core. The last digits of a dense factorisation of more than 1000
        rows depend on it, nothing else does.

    Attributes
    ----------
    classes_ : array
        Sorted labels.
    expansion_ : Expansion
        Centres, coefficients, intercept and kernel: all that prediction needs.
    approximation_ : dict
        What ran, and why.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import LSSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> LSSVC(gamma="scale", alpha=0.1).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = 1.0,
        alpha: Any = 1.0,
        degree: float = 3,
        coef0: float = 1.0,
        approximation: Any = "exact",
        class_weight: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            alpha=alpha,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight


class LSSVR(KernelRegressor, _Given):
    r"""Least-squares support vector regression: kernel ridge regression with an intercept.

    min ½‖w‖² + (1/2μ) Σ v_i (y_i − w·φ(x_i) − b)². O(n³/3) time, whatever the number of targets.

    Parameters
    ----------
    kernel, gamma, degree, coef0, approximation, n_jobs
        As in :class:`LSSVC`.
    alpha : float or array (targets,), default=1.0
        Ridge μ; an array holds one per target.

    Attributes
    ----------
    expansion_, approximation_
        As in :class:`LSSVC`.
    """


class KernelRidge(KernelRegressor, _Given):
    r"""Kernel ridge regression: (K + μ V⁻¹) α = y, f(x) = Σ α_i k(x, x_i).

    scikit-learn's ``KernelRidge`` in the same parameters, with the same numbers.

    Parameters
    ----------
    kernel, gamma, degree, coef0, approximation, n_jobs
        As in :class:`LSSVC`.
    alpha : float or array (targets,), default=1.0
        Ridge μ; an array holds one per target.

    Attributes
    ----------
    expansion_, approximation_
        As in :class:`LSSVC`.
    """

    _fit_intercept = False
