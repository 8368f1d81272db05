"""Estimators whose hyper-parameters are given."""

from __future__ import annotations

from typing import Any

from onefold.approximations import Approximation
from onefold.estimators.base import KernelClassifier
from onefold.estimators.given import Given
from onefold.estimators.intervals import IntervalRegressor
from onefold.estimators.selected import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.typing import ArrayLike, ClassWeight, MaybeArray, RandomState


class LSSVC(KernelClassifier, Given):
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
    calibration : {"temperature", "sigmoid", "isotonic"} or None, default="temperature"
        How decision values become the probabilities of `predict_proba` (docs/probabilities.md). It is
        fitted to predictions of rows left out one by one: of all rows, or with the exact machine of 1000
        drawn at random, which takes some tenths of the time of the fit. "temperature" keeps the order of
        the classes, so that the likeliest is the one of `predict`; with the others it may not be. None
        saves the time.
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
    calibrator_ : Calibrator or None
        From decision values to probabilities; None without held-out predictions: with ``"cg"``, rows of
        Dask, or calibration=None. Then there is no `predict_proba`.
    approximation_ : dict
        What ran, and why.
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

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: MaybeArray = 1.0,
        alpha: ArrayLike = 1.0,
        degree: float = 3,
        coef0: float = 1.0,
        approximation: str | Approximation = "exact",
        class_weight: ClassWeight = None,
        calibration: str | None = "temperature",
        device: Any = None,
        client: Any = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            alpha=alpha,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            device=device,
            client=client,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight
        self.calibration = calibration


class GivenRegressor(IntervalRegressor):
    """Hyper-parameters are given; no intervals unless asked for."""

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: MaybeArray = 1.0,
        alpha: ArrayLike = 1.0,
        degree: float = 3,
        coef0: float = 1.0,
        approximation: str | Approximation = "exact",
        intervals: str | None = None,
        device: Any = None,
        client: Any = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            alpha=alpha,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            device=device,
            client=client,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.intervals = intervals


class LSSVR(GivenRegressor, Given):
    r"""Least-squares support vector regression: kernel ridge regression with an intercept.

    min ½‖w‖² + (1/2μ) Σ v_i (y_i − w·φ(x_i) − b)². O(n³/3) time, whatever the number of targets.

    Parameters
    ----------
    kernel, gamma, degree, coef0, approximation, device, client, random_state, n_jobs
        As in :class:`LSSVC`.
    alpha : float or array (targets,), default=1.0
        Ridge μ; an array holds one per target.
    intervals : {"cv+", "jackknife+", "normalised"} or None, default=None
        How `predict_interval` makes bounds, as in :class:`LSSVRCV`; from five folds of consecutive rows
        in closed form, or from single rows.

    Attributes
    ----------
    expansion_, approximation_, metric_
        As in :class:`LSSVC`.
    conformity_scores_, intervals_, fold_models_, spread_models_
        As in :class:`LSSVRCV`.
    """

    _chooser = LSSVRCV


class KernelRidge(GivenRegressor, Given):
    r"""Kernel ridge regression: (K + μ V⁻¹) α = y, f(x) = Σ α_i k(x, x_i).

    scikit-learn's ``KernelRidge`` in the same parameters, with the same numbers.

    Parameters
    ----------
    kernel, gamma, degree, coef0, approximation, device, client, random_state, n_jobs
        As in :class:`LSSVC`.
    alpha : float or array (targets,), default=1.0
        Ridge μ; an array holds one per target.
    intervals : {"cv+", "jackknife+", "normalised"} or None, default=None
        As in :class:`LSSVR`.

    Attributes
    ----------
    expansion_, approximation_, metric_
        As in :class:`LSSVC`.
    conformity_scores_, intervals_, fold_models_, spread_models_
        As in :class:`LSSVRCV`.
    """

    _fit_intercept = False
    _chooser = KernelRidgeCV
