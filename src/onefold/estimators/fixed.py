"""Estimators whose hyper-parameters are given."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import Model, Run, Workload, resolve_approximation
from onefold.estimators.base import KernelClassifier
from onefold.estimators.chosen import Chosen
from onefold.estimators.final import metric_of, shares_of
from onefold.estimators.given_metric import learn, refuse_choices, track_of
from onefold.estimators.interval_parameters import GivenRegressor
from onefold.estimators.lazy import refuse_approximation
from onefold.estimators.random import seed_of
from onefold.estimators.selected import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.estimators.streaming import Streaming, StreamingClassifier, StreamingRegressor
from onefold.estimators.validation import (
    check_alpha_count,
    check_alphas,
    check_kernel_matrix,
    check_rows,
)
from onefold.kernels import Kernel, resolve_gamma, resolve_kernel
from onefold.rows import opened

_AROUND = 4.0 ** np.arange(-3, 4)  # of given hyper-parameters: the grid of the trust check


class _Given(Streaming):
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
        metric: str | None = None,
        max_rounds: int = 3,
        device: Any = None,
        client: Any = None,
        random_state: Any = None,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
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
        refuse_choices(self, _chooser_of(type(self)).__name__)
        self._forget_batches()
        alpha = check_alphas(self.alpha, "alpha")
        approximation, seed = resolve_approximation(self.approximation), seed_of(self.random_state)
        if seed is not None:
            approximation = approximation.seeded(seed)
        refuse_approximation(self, X, approximation)
        y, sample_weight = self._in_memory(y, sample_weight)
        X = opened(X, self.client)
        problem, _ = self._problem(X, y, sample_weight)
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
            expansion, report = run.final(kernel, alpha, model)
            report |= run.diagnose(kernel) | rounds
        self.expansion_ = self._finished(expansion, problem, _num_samples(X))
        self.approximation_ = report
        self.metric_ = metric_of(kernel)
        self.feature_importances_ = None
        with self._threads(problem):
            self._after_fit(run, model, kernel, alpha, _num_samples(X))
            if track is not None:
                self.feature_importances_ = shares_of(self.expansion_, problem, seed)
        return self

    def _check_given(self, run: Run) -> None:
        """Raise before a fit for what could not be made of it."""

    def _after_fit(self, run: Run, model: Model, kernel: Kernel, alpha: Any, rows: int) -> None:
        """What else is made of the model of a table of so many rows."""

    def as_chooser(self, X: Any) -> Chosen:
        """An estimator that chooses from a grid around what is given, for the trust check.

        It looks at the approximation with the kernel as it is given: rounds that a subsample suggests
        would not be those of all rows.
        """
        kind = _CHOOSERS.get(type(self))
        if kind is None:
            known = ", ".join(c.__name__ for c in (*_CHOOSERS, *_CHOOSERS.values()))
            raise ValueError(f"the trust check does not know {type(self).__name__}; use one of {known}.")
        given = self.get_params(deep=False)
        gamma, alpha = given.pop("gamma"), given.pop("alpha")
        del given["metric"], given["max_rounds"]
        if gamma is None or isinstance(gamma, str):
            gamma = resolve_gamma(gamma, check_rows(type(self)(), X, sparse=True, fitting=True))
        kernel = resolve_kernel(given.pop("kernel"), gamma, given["degree"], given["coef0"])
        gammas = list(_AROUND) if kernel.has_width else None
        alphas = np.unique(np.outer(alpha, _AROUND))
        return kind(kernel, gammas=gammas, alphas=alphas, refit="same", **given)


class LSSVC(StreamingClassifier, KernelClassifier, _Given):
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
        With ``Nystroem(rows)``, landmark rows of your own, rows may come in batches: `partial_fit`.
    metric : {"diagonal", "full"} or None, default=None
        Learn a metric in rounds: the gradients of each fit say how much features ("diagonal"), or their
        mixtures ("full"), matter, and the next fit compares rows accordingly. gamma counts in the space
        it is given for; in a learned one the width is such that the kernel's mean exponent over the rows
        stays the same. A kernel with a metric of its own, or one gamma per feature, is where it starts.
        Sparse rows and the Laplacian kernel have diagonal ones alone. Nothing is held out to say whether
        it helps: :class:`LSSVCCV` chooses.
    max_rounds : int, default=3
        So many rounds, exactly: as many metrics, and one fit more.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class.
    device : str, torch device or None, default=None
        Move NumPy rows there ("cuda", say) and compute with torch; predictions for NumPy rows come back
        as NumPy arrays. None computes where X is. Blocks of Dask's rows are moved by their worker.
    client : dask.distributed.Client or None, default=None
        Whose workers work on rows of a Dask array or dataframe, which then stay there; None is the
        current client, or else threads. It needs a basis model: ``approximation="nystroem"``.
    random_state : int, RandomState, Generator or None, default=None
        Of landmarks and other random choices of the approximation; None leaves them to its own settings,
        which are fixed too.
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
        What ran, and why; with a metric, ``"rounds"`` has the width of each.
    metric_ : array (d,) or (d, d), or None
        The metric of the kernel: weights per feature, or the matrix S of dist(S x, S x').
    feature_importances_ : array (d,) or None
        The share of each feature in what moves the prediction: mean squared slope times variance of the
        feature. None where no metric is learned.

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
        metric: str | None = None,
        max_rounds: int = 3,
        class_weight: Any = None,
        device: Any = None,
        client: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            alpha=alpha,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            metric=metric,
            max_rounds=max_rounds,
            device=device,
            client=client,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight


class LSSVR(GivenRegressor, StreamingRegressor, _Given):
    r"""Least-squares support vector regression: kernel ridge regression with an intercept.

    min ½‖w‖² + (1/2μ) Σ v_i (y_i − w·φ(x_i) − b)². O(n³/3) time, whatever the number of targets.

    Parameters
    ----------
    kernel, gamma, degree, coef0, approximation, metric, max_rounds, device, client, random_state, n_jobs
        As in :class:`LSSVC`.
    alpha : float or array (targets,), default=1.0
        Ridge μ; an array holds one per target.
    intervals : {"cv+", "jackknife+", "split", "normalised"} or None, default=None
        How `predict_interval` makes bounds, as in :class:`LSSVRCV`; from five folds of consecutive rows
        in closed form, or from single rows.

    Attributes
    ----------
    expansion_, approximation_, metric_, feature_importances_
        As in :class:`LSSVC`.
    conformity_scores_, intervals_, fold_models_, spread_models_
        As in :class:`LSSVRCV`.
    """


class KernelRidge(GivenRegressor, StreamingRegressor, _Given):
    r"""Kernel ridge regression: (K + μ V⁻¹) α = y, f(x) = Σ α_i k(x, x_i).

    scikit-learn's ``KernelRidge`` in the same parameters, with the same numbers.

    Parameters
    ----------
    kernel, gamma, degree, coef0, approximation, metric, max_rounds, device, client, random_state, n_jobs
        As in :class:`LSSVC`.
    alpha : float or array (targets,), default=1.0
        Ridge μ; an array holds one per target.
    intervals : {"cv+", "jackknife+", "split", "normalised"} or None, default=None
        As in :class:`LSSVR`.

    Attributes
    ----------
    expansion_, approximation_, metric_, feature_importances_
        As in :class:`LSSVC`.
    conformity_scores_, intervals_, fold_models_, spread_models_
        As in :class:`LSSVRCV`.
    """

    _fit_intercept = False


_CHOOSERS: dict[type, type[Chosen]] = {LSSVC: LSSVCCV, LSSVR: LSSVRCV, KernelRidge: KernelRidgeCV}


def _chooser_of(kind: type) -> type[Chosen]:
    """The estimator that chooses what this one, or what it is derived from, is given."""
    return next(_CHOOSERS[known] for known in kind.__mro__ if known in _CHOOSERS)
