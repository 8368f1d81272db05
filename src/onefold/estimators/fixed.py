"""Estimators whose hyper-parameters are given: one run, one model, its expansion."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import _num_samples

from onefold.approximations import Approximation, Workload, resolve_approximation
from onefold.calibration import check_intervals
from onefold.compatibility import Offer, Request, check
from onefold.docstrings import shared_docs
from onefold.estimators import final, validation
from onefold.estimators.base import KernelClassifier, KernelMachine, KernelRegressor, follow
from onefold.estimators.cv import LSSVCCV, LSSVRCV, KernelMachineCV, KernelRidgeCV
from onefold.estimators.intervals import crossfit_without_search, fit_intervals
from onefold.estimators.setup import names_families, takes_sparse
from onefold.kernels import resolve_gamma, resolve_kernel
from onefold.rows import is_dask, is_remote, opened, row_fingerprint, to_host
from onefold.typing import ArrayLike, ClassWeight, MaybeArray, RandomState

# Multiples of the fixed hyper-parameters that the trust check compares; chosen, not measured.
_TRUST_GRID = 4.0 ** np.arange(-3, 4)


@dataclass(eq=False, repr=False, kw_only=True)
class Given(KernelMachine):
    """Fit with the given kernel and ridge."""

    _chooser: ClassVar[type[KernelMachineCV]]  # what chooses from a grid what this one is given

    kernel: Any = field(default="rbf", kw_only=False)
    gamma: MaybeArray = 1.0
    alpha: ArrayLike = 1.0
    loss: str = "sum"
    degree: float = 3
    coef0: float = 1.0
    approximation: str | Approximation = "exact"
    device: Any = None
    client: Any = None
    random_state: RandomState = None
    n_jobs: int | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> Self:
        """Fit the model.

        O(n³/3) time and one n × n array with ``approximation="exact"``.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or (n, n) with ``kernel="precomputed"``
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            Weights v_i ≥ 0 in Σ v_i (y_i − f(x_i))²; rows of weight 0 are left out.
        """
        alpha = validation.check_alphas(self.alpha, "alpha")
        approximation = resolve_approximation(self.approximation)
        request = request_of_fit(self)
        if request.intervals is not None:
            check_intervals(request.intervals)
        offer = Offer(
            approximation,
            several_kernels=names_families(self.kernel),
            place="dask" if is_dask(X) or is_remote(X) else "memory",
            precomputed=validation.is_precomputed(self.kernel),
        )
        check(request, offer)
        seed = validation.seed_of(self.random_state)
        if seed is not None:
            approximation = approximation.seeded(seed)
        y = to_host(y, self.client)
        sample_weight = to_host(sample_weight, self.client)
        X = opened(X, self.client)
        problem, task = validation.problem_of(self, X, y, sample_weight, sparse=takes_sparse(self))
        gamma = resolve_gamma(self.gamma, problem.X)
        kernel = resolve_kernel(self.kernel, gamma, self.degree, self.coef0)
        kernel.check_features(problem.X.shape[1])
        if alpha.size > 1 and (task.classes is not None or alpha.size != problem.Y.shape[1]):
            raise ValueError(
                "alpha must be one number or, in regression, one per target "
                f"({problem.Y.shape[1]}); got {alpha.size} values."
            )
        n = _num_samples(X)
        with self._threads(problem.n):
            run = approximation.start(problem, [kernel], Workload(1, np.unique(alpha).size))
            offer = replace(
                offer,
                approximation=run.approximation,
                final=run.approximation,
                rows=problem.n,
                single_ridges=problem.single_ridges if request.single_rows else 1,
            )
            check(request, offer)
            if request.intervals == "jackknife+":
                final.require_jackknife_memory(problem)
            model = run.final_model(kernel, alpha)
            expansion, report = run.finished(model, alpha)
            self.expansion_ = final.for_table(expansion, problem, n)
            self.metric_ = final.metric_of(kernel)
            self.approximation_ = dict(report)
            if isinstance(self, KernelClassifier):
                self.approximation_ |= final.calibrate_by_left_out_rows(
                    self, run, lambda: model, task, alpha, seed or 0
                )
            if isinstance(self, KernelRegressor):
                fit = crossfit_without_search(self.intervals, run, model, kernel, alpha)
                fit_intervals(self, fit, seed or 0, n)
        self.fingerprint_ = row_fingerprint(
            problem,
            n,
            precomputed=validation.is_precomputed(self.kernel),
            labelled=isinstance(self, KernelClassifier),
        )
        follow(self, X)
        return self

    def as_chooser(self, X: ArrayLike) -> KernelMachineCV:
        """An estimator that chooses from a grid around what is given, for the trust check."""
        if "_chooser" not in vars(type(self)):
            raise ValueError(
                f"the trust check does not support {type(self).__name__}; use LSSVC, LSSVR, "
                "KernelRidge, LSSVCCV, LSSVRCV or KernelRidgeCV."
            )
        settings = self.get_params(deep=False)
        gamma = settings.pop("gamma")
        alpha = settings.pop("alpha")
        if gamma is None or isinstance(gamma, str):
            rows = validation.check_rows(type(self)(), X, sparse=True, fitting=True)
            gamma = resolve_gamma(gamma, rows)
        kernel = resolve_kernel(settings.pop("kernel"), gamma, settings["degree"], settings["coef0"])
        gammas = list(_TRUST_GRID) if kernel.has_width else None
        alphas = np.unique(np.outer(alpha, _TRUST_GRID))
        return self._chooser(kernel, gammas=gammas, alphas=alphas, refit="same", **settings)


def request_of_fit(estimator: Given) -> Request:
    """What its parameters ask for."""
    intervals = getattr(estimator, "intervals", None)
    return Request(
        estimator=type(estimator).__name__,
        chooser=estimator._chooser.__name__,
        single_rows=isinstance(intervals, str) and intervals == "jackknife+",
        intervals=intervals,
    )


@shared_docs(LSSVCCV)
@dataclass(eq=False, repr=False, kw_only=True)
class LSSVC(Given, KernelClassifier):
    r"""Least-squares support vector classifier.

    min ½‖w‖² + (1/2μ) Σ v_i (y_i − w·φ(x_i) − b)² with targets ±1, one-vs-rest for several classes
    on one factorisation. O(n³/3) time. [ding2011]_

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        "rbf", "laplacian", "matern12", "matern32", "matern52" ("matern" is "matern32"), "powexp",
        "polynomial" or "poly", "linear", "precomputed", an object from
        :mod:`onefold.kernels` (which keeps its own parameters), or a function of two row blocks.
    gamma : float, array (d,), "scale" or None, default=1.0
        Width of a kernel given by name, as in scikit-learn; an array holds one per feature; None
        means 1 / n_features.
    alpha : float, default=1.0
        Ridge μ, as in scikit-learn's ``KernelRidge``.
    loss : {"sum", "mean"}, default="sum"
        What alpha is the ridge of: the sum of the squared errors, as in scikit-learn, or their mean
        Σ v_i e_i² / Σ v_i, whose alpha does not depend on the number of rows. The mean with alpha is the
        sum with alpha Σ v_i (without weights, n alpha); see :doc:`/manual/search`.
    degree, coef0 : float, default=3, 1.0
        Parameters of the polynomial kernel.
    approximation : str or object from :mod:`onefold.approximations`, default="exact"
        How the kernel matrix is represented: "exact", "auto", "nystroem", "cg", "grid",
        "toeplitz", "circulant" or "state_space".
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class.
    calibration : {"log_odds", "temperature", "sigmoid", "isotonic"} or None, default="log_odds"
        How decision values are turned into probabilities by `predict_proba`
        (:doc:`/manual/probabilities`). The calibration is fitted to leave-one-out predictions: of all
        rows or, with the exact method, of 1000 rows drawn at random, which takes a few tenths of the
        time of the fit. With "temperature", and with "log_odds" without class weights, the most
        probable class is the one that `predict` returns; otherwise it may differ. None saves the time.
    device, client
        As in :class:`LSSVCCV`.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the landmarks and other random choices of the approximation; None uses the fixed seed
        of its own settings.
    n_jobs
        As in :class:`LSSVCCV`.

    Attributes
    ----------
    classes_, expansion_, approximation_
        As in :class:`LSSVCCV`.
    calibrator_ : Calibrator or None
        Turns decision values into probabilities. None, and no `predict_proba`, without held-out
        predictions: with ``approximation="cg"``, Dask rows, or ``calibration=None``.
    metric_ : array (d,) or (d, d), or None
        The metric of the kernel: weights per feature, or the matrix S of dist(S x, S x').

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import LSSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> LSSVC(gamma="scale", alpha=0.1).fit(X, y).score(X, y) > 0.9
    True
    """

    _chooser = LSSVCCV

    class_weight: ClassWeight = None
    calibration: str | None = "log_odds"


@shared_docs(LSSVC, LSSVRCV)
@dataclass(eq=False, repr=False, kw_only=True)
class LSSVR(Given, KernelRegressor):
    r"""Least-squares support vector regression: kernel ridge regression with an intercept.

    min ½‖w‖² + (1/2μ) Σ v_i (y_i − w·φ(x_i) − b)². O(n³/3) time, whatever the number of targets.

    Parameters
    ----------
    kernel, gamma
        As in :class:`LSSVC`.
    alpha : float or array (targets,), default=1.0
        Ridge μ; an array holds one per target.
    loss, degree, coef0, approximation, device, client, random_state, n_jobs
        As in :class:`LSSVC`.
    intervals : {"cv+", "jackknife+", "normalised", "auto"} or None, default=None
        How `predict_interval` makes bounds, as in :class:`LSSVRCV`; here from five folds of consecutive
        rows in closed form, or from single rows.

    Attributes
    ----------
    expansion_, approximation_, metric_
        As in :class:`LSSVC`.
    conformity_scores_, intervals_, fold_models_, spread_models_
        As in :class:`LSSVRCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LSSVR(gamma=1.0, alpha=0.1, intervals="cv+").fit(X, y)
    >>> lower, upper = model.predict_interval(X, coverage=0.9).T
    >>> bool(((lower <= y) & (y <= upper)).mean() > 0.9)
    True
    """

    _chooser = LSSVRCV

    intervals: str | None = None


@shared_docs(LSSVR)
@dataclass(eq=False, repr=False, kw_only=True)
class KernelRidge(LSSVR):
    r"""Kernel ridge regression: (K + μ V⁻¹) α = y, f(x) = Σ α_i k(x, x_i).

    It gives the same predictions as scikit-learn's ``KernelRidge`` with the same kernel, gamma and
    alpha. The defaults differ: ``kernel="rbf"`` and ``gamma=1.0``.

    Parameters
    ----------
    kernel, gamma, alpha, loss, degree, coef0, approximation, device, client, random_state, n_jobs,
    intervals
        As in :class:`LSSVR`.

    Attributes
    ----------
    expansion_, approximation_, metric_, conformity_scores_, intervals_, fold_models_, spread_models_
        As in :class:`LSSVR`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn import kernel_ridge
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import KernelRidge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> ours = KernelRidge("rbf", gamma=1.0, alpha=0.1).fit(X, y)
    >>> theirs = kernel_ridge.KernelRidge(kernel="rbf", gamma=1.0, alpha=0.1).fit(X, y)
    >>> np.allclose(ours.predict(X), theirs.predict(X))
    True
    """

    _fit_intercept = False
    _chooser = KernelRidgeCV
