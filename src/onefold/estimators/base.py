"""The scikit-learn shell: what every estimator shares."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils._set_output import ADAPTERS_MANAGER
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from onefold.approximations import resolve_approximation
from onefold.calibration import Calibrator, ConformalIntervals
from onefold.criteria import label_index
from onefold.estimators.compression import compressed
from onefold.estimators.intervals import rows_at_once, spread_from
from onefold.estimators.setup import takes_sparse
from onefold.estimators.validation import check_rows, is_precomputed, require_finite
from onefold.expansions import FittedFunction
from onefold.linalg import Array, asarray_like, host_array, labels_like
from onefold.machine.threads import count_workers, limit_blas, spans, use_threads
from onefold.rows import example_of, is_dask, lazily, to_host
from onefold.typing import ArrayLike, MaybeArray, RandomState

# Rows up to which a factorisation gains little from a second thread; chosen, not measured.
_FEW_ROWS = 1000
# What a copy on a Dask worker needs to predict, and to make intervals, and its own parameters.
_PREDICTS = (
    "expansion_", "classes_", "calibrator_", "single_target_", "n_features_in_", "feature_names_in_",
)  # fmt: skip
_BOUNDS = ("intervals_", "fold_models_", "spread_models_")
_OWN = {"n_jobs": 1, "client": None, "callback": None}


class KernelMachine(BaseEstimator):
    """Common to all estimators, whose parameters are the fields of a dataclass."""

    _fit_intercept: ClassVar[bool] = True

    expansion_: FittedFunction
    kernel: Any
    device: Any
    n_jobs: int | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        tags.input_tags.sparse = takes_sparse(self)
        try:
            resolve_approximation(getattr(self, "approximation", "exact"))
            tags.array_api_support = True
        except (TypeError, ValueError):  # `fit` will say what is wrong
            tags.array_api_support = False
        return tags

    def get_metadata_routing(self) -> Any:
        """The requests of this estimator, as meta-estimators of scikit-learn ask for them."""
        routing = with_groups_of(getattr(self, "cv", None), super().get_metadata_routing())
        return with_groups_of(getattr(self, "second_cv", None), routing)

    @contextmanager
    def _threads(self, n: int) -> Iterator[None]:
        """`n_jobs` threads, also for BLAS; one for few rows, so that no digit depends on the number."""
        blas_threads = None if self.n_jobs is None else count_workers(self.n_jobs)
        with use_threads(self.n_jobs), limit_blas(1 if n <= _FEW_ROWS else blas_threads):
            yield

    def __sklearn_clone__(self) -> Self:
        """Clone like any estimator; a Dask client is shared, since it cannot be copied."""
        client = getattr(self, "client", None)
        if client is None:
            return super().__sklearn_clone__()
        bare = copy(self)
        bare.client = None
        clone = bare.__sklearn_clone__()
        clone.client = client
        return clone

    def __getstate__(self) -> Any:
        """Leave the Dask client out of a pickle: it belongs to this process."""
        state = super().__getstate__()
        return state | {"client": None} if "client" in state else state

    def _decide(self, X: Any) -> Array:
        """Return f(X), shape (rows, targets)."""
        check_is_fitted(self, "expansion_")
        X = check_rows(self, X, sparse=self.expansion_.accepts_sparse, fitting=False)
        return require_finite(self.expansion_.predict(X, self.n_jobs))

    def compressed(
        self,
        centres: int | None = None,
        *,
        tolerance: float | None = None,
        X: MaybeArray = None,
        y: MaybeArray = None,
        random_state: RandomState = 0,
    ) -> Self:
        """Return a copy on fewer centres, which predicts faster and is a smaller file.

        The copy has the projection of the fitted function on some of its centres, the nearest function
        to it in the norm of the kernel; the members of a blend and the fold models of intervals are
        projected on the same centres. ``approximation_["compressed"]`` has the change. Calibrators,
        held-out residuals and scores stay those of the model before. See :doc:`/guides/prediction-cost`.

        It takes the time of a prediction of all centres, and O(c m²) to choose m of c centres.

        Parameters
        ----------
        centres : int, optional
            The number of centres to keep. There may be fewer, if these give the function to working
            precision.
        tolerance : float, optional
            In place of `centres`: keep the fewest centres, to within 2 %, for which the predictions
            change by at most this share of the held-out error: their root mean square change on the rows
            of X by `tolerance` times the RMSE, for every target, or the share of labels that change by
            `tolerance` times the error rate.
        X : array or CSR matrix (rows, d), optional
            Rows on which the change is measured, best rows that the model was not fitted on. By default
            the centres that are left out.
        y : array (rows,) or (rows, targets), optional
            Their targets. The error is then that of these rows, and the record has it before and after.
            Otherwise a tolerance is a share of the held-out error that the fit has found: of the
            residuals of its intervals, or the score of a search for "mse" or "error".
        random_state : int, RandomState, Generator or None, default=0
            Seed of the centres that are considered, if these cannot be all.

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from onefold import LSSVRCV
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = LSSVRCV(gammas=[1.0], alphas=[0.1]).fit(X, y)
        >>> small = model.compressed(tolerance=0.05)
        >>> small.approximation_["compressed"]["centres"] < 100
        True
        """
        return cast(Self, compressed(self, centres, tolerance, X, y, random_state))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the fitted model to one file, which :func:`onefold.load` reads without executing code."""
        check_is_fitted(self, "expansion_")
        from onefold.saving import save

        save(self, path)

    def to_onnx(
        self, *, dtype: str = "float32", target_opset: int | None = None, decision: bool = False
    ) -> Any:
        """Convert the fitted model to an ``onnx.ModelProto``; see :func:`onefold.export.to_onnx`."""
        from onefold.export import to_onnx

        return to_onnx(self, dtype=dtype, target_opset=target_opset, decision=decision)

    def to_c(self, path: str | os.PathLike[str], *, name: str = "model", max_bytes: int = 2**20) -> None:
        """Write the fitted model as one C file in float32; see :func:`onefold.export.to_c`."""
        from onefold.export import to_c

        to_c(self, path, name=name, max_bytes=max_bytes)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: MaybeArray = None,
        y: MaybeArray = None,
        *,
        sample_weight: MaybeArray = None,
        title: str | None = None,
    ) -> Any:
        """Write a report on the fit to `path`, as one HTML page; see :func:`onefold.write_report`.

        X and y are the rows that the estimator was fitted on; without them, the sections that need them
        are left out.
        """
        check_is_fitted(self, "expansion_")
        from onefold.report import write_report

        return write_report(self, path, X, y, sample_weight=sample_weight, title=title)


def _has_probabilities(estimator: Any) -> bool:
    """Whether there is, or will be, a calibrator; raise with the reason where there is none."""
    name = type(estimator).__name__
    if estimator.calibration is None:
        raise AttributeError(
            f"{name} has no probabilities, because calibration=None; use calibration="
            '"log_odds", "sigmoid" or "isotonic", and fit again.'
        )
    if hasattr(estimator, "expansion_") and getattr(estimator, "calibrator_", None) is None:
        raise AttributeError(
            f"this {name} has no probabilities: it was fitted without held-out predictions to calibrate "
            '(approximation="cg", Dask rows, or a file of an earlier version); use LSSVCCV with folds, '
            "or wrap it in sklearn.calibration.CalibratedClassifierCV."
        )
    return True


class KernelClassifier(ClassifierMixin, KernelMachine):
    """One-vs-rest least squares on targets ±1; every class shares one factorisation."""

    classes_: Any
    calibrator_: Calibrator | None

    def decision_function(self, X: ArrayLike) -> Array:
        """Return f(X): (rows,) for two classes, the sign being the label; otherwise (rows, classes)."""
        if is_dask(X):
            check_is_fitted(self, "expansion_")
            columns = None if len(self.classes_) == 2 else self.classes_
            return _lazy_predictions(self, "decision_function", X, np.float64, columns)
        values = self._decide(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: ArrayLike) -> Array:
        """Predict the label of each row."""
        if is_dask(X):
            check_is_fitted(self, "expansion_")
            return _lazy_predictions(self, "predict", X, self.classes_.dtype, None)
        values = host_array(self._decide(X))
        return labels_like(self.classes_[label_index(values)], X)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> float:
        """Return the accuracy on the given rows."""
        return _scored(self, accuracy_score, X, y, sample_weight)

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return probabilities (rows, classes), columns in the order of ``classes_``; rows sum to 1."""
        return self._calibrated("predict_proba", "probabilities", X)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Return the logarithms of the probabilities."""
        return self._calibrated("predict_log_proba", "log_probabilities", X)

    def _calibrated(self, method: str, function: str, X: Any) -> Array:
        check_is_fitted(self, "expansion_")
        if is_dask(X):
            return _lazy_predictions(self, method, X, np.float64, self.classes_)
        values = self._decide(X)
        probabilities = getattr(self.calibrator_, function)(host_array(values))
        return asarray_like(probabilities, values)


def _has_intervals(estimator: Any) -> bool:
    """Whether the estimator makes intervals; raise AttributeError with the remedy otherwise."""
    if not hasattr(estimator, "intervals"):
        raise AttributeError(f"{type(estimator).__name__} has no intervals; use LSSVR or LSSVRCV.")
    if estimator.intervals is None:
        raise AttributeError(
            f"{type(estimator).__name__} has no intervals, because intervals=None; use "
            'intervals="cv+" and fit again.'
        )
    return True


class KernelRegressor(RegressorMixin, MultiOutputMixin, KernelMachine):
    """Least squares on the targets themselves."""

    _feature_names: ClassVar[Sequence[str] | None] = None  # those of a table, for its slices

    intervals: str | None
    single_target_: bool

    def predict(self, X: ArrayLike) -> Array:
        """Predict y: shape (rows,), or (rows, targets) if y had two dimensions."""
        if is_dask(X):
            check_is_fitted(self, "expansion_")
            columns = None if self.single_target_ else range(self.expansion_.n_targets)
            return _lazy_predictions(self, "predict", X, np.float64, columns)
        values = self._decide(X)
        return values[:, 0] if self.single_target_ else values

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> float:
        """Return R² on the given rows."""
        return _scored(self, r2_score, X, y, sample_weight)

    @available_if(_has_intervals)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        r"""Return bounds that contain y with the given coverage: shape (rows, 2), the lower bound first.

        If y had two dimensions, the shape is (rows, targets, 2) and each target is treated separately.
        For a data frame, the result is a data frame with the same index and the columns "lower" and
        "upper" ("lower_0" and so on for several targets). Bounds are infinite, with a warning, where
        there are too few held-out residuals. See :doc:`/manual/intervals`.
        """
        share = _check_share(coverage, "coverage")
        bounds = ConformalIntervals.bounds
        widest = [max(share, 0.5)]
        return self._bounded("predict_interval", X, bounds, ["lower", "upper"], widest, coverage=share)

    @available_if(_has_intervals)
    def predict_quantiles(self, X: Any, quantiles: Any) -> Any:
        r"""Return quantiles of y at each row: shape (rows, quantiles), or (rows, targets, quantiles).

        They are order statistics of f_s(x) + r_i over the held-out residuals r_i, and never cross. For a
        data frame, the result is a data frame with the same index and columns named "0.1" and so on.
        """
        levels = [_check_share(q, "quantiles") for q in np.atleast_1d(np.asarray(quantiles)).tolist()]
        if not levels:
            raise ValueError("quantiles is empty; give numbers between 0 and 1.")
        bounds = ConformalIntervals.quantiles
        names = [str(q) for q in levels]
        return self._bounded("predict_quantiles", X, bounds, names, levels, quantiles=levels)

    def _bounded(
        self, method: str, X: Any, bounds: Any, names: list[str], shares: list[float], **options: Any
    ) -> Any:
        """The bounds of a method with its options, which ask for these shares of the distribution."""
        check_is_fitted(self, "expansion_")
        intervals = getattr(self, "intervals_", None)
        if intervals is None:
            raise ValueError(
                f"this {type(self).__name__} has no held-out residuals to make intervals from: it was "
                "fitted with intervals=None, to a single row, by an earlier version, or without "
                "finite held-out predictions; fit it again, on more rows."
            )
        if not is_dask(X):
            intervals.warn_if_too_few(shares)
            return _bounds_by_blocks(self, X, partial(bounds, intervals, **options), names)
        if not self.single_target_:
            raise ValueError(
                f"{method} returns three axes for several targets, which a Dask collection cannot hold; "
                "pass X.compute()."
            )
        return _lazy_predictions(self, method, X, np.float64, names, **options)


def _check_share(value: Any, name: str) -> float:
    """A number between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"{name} must lie between 0 and 1; got {value!r:.60}.")
    return float(value)


def _bounds_by_blocks(estimator: Any, X: Any, bounds: Callable[..., Any], names: list[str]) -> Any:
    """Bounds (rows, targets, names) in X's library, the targets' axis for several alone."""
    rows = check_rows(estimator, X, sparse=estimator.expansion_.accepts_sparse, fitting=False)
    table = np.empty((rows.shape[0], estimator.expansion_.n_targets, len(names)))
    models = estimator.fold_models_
    spread = estimator.spread_models_
    jobs = estimator.n_jobs
    for part in spans(rows.shape[0], rows_at_once(models)):
        if models is None:
            values = host_array(estimator.expansion_.predict(rows[part], jobs))[:, None, :]
        else:
            values = models.predict(rows[part], jobs)
        stretch = None
        if spread is not None:
            stretch = spread_from(spread.predict(rows[part], jobs), estimator.intervals_.residuals)
        table[part] = bounds(require_finite(values), spread=stretch)
    values = asarray_like(table, rows)
    return framed_like(X, values[:, 0, :] if estimator.single_target_ else values, names)


def framed_like(X: Any, values: Any, names: Sequence[str]) -> Any:
    """Values (rows, names) or (rows, targets, names) as a frame with X's index, where X is a frame."""
    adapter = ADAPTERS_MANAGER.adapters.get(type(X).__module__.partition(".")[0])
    if adapter is None or not adapter.is_supported_container(X):
        return values
    columns = list(names)
    if values.ndim == 3:
        columns = [f"{name}_{target}" for target in range(values.shape[1]) for name in names]
    return adapter.create_container(values.reshape(values.shape[0], -1), X, columns=columns)


def _scored(estimator: Any, score: Callable[..., float], X: Any, y: Any, sample_weight: Any) -> float:
    """A score of scikit-learn for the predictions of X; lazy targets are computed."""
    client = getattr(estimator, "client", None)
    columns = (y, sample_weight, estimator.predict(X))
    y, weight, predicted = [to_host(values, client) for values in columns]
    return float(score(y, predicted, sample_weight=weight))


def _lazy_predictions(
    estimator: Any, method: str, X: Any, dtype: Any, columns: Sequence[Any] | None, **options: Any
) -> Any:
    """A method of the estimator, with its options, for a Dask collection, partition by partition."""
    # Wrong columns raise here, not on a worker once somebody computes.
    validate_data(estimator, example_of(X), reset=False, skip_check_array=True)
    params = estimator.get_params(deep=False)
    bare = type(estimator)(**params | {name: _OWN[name] for name in _OWN.keys() & params.keys()})
    for name in (*_PREDICTS, *(_BOUNDS if options else ())):  # what else a fit records need not travel
        if hasattr(estimator, name):
            value = getattr(estimator, name)
            setattr(bare, name, value.on_host() if hasattr(value, "on_host") else value)
    answer = partial(getattr(bare, method), **options)
    safe = all(part.kernel.thread_safe for _, part in estimator.expansion_.parts)
    return lazily(X, answer, dtype, columns, estimator.device, exclusive=not safe)


def with_groups_of(cv: Any, routing: Any) -> Any:
    """The requests of an estimator, groups for a grouped `cv` among them unless the user set that."""
    if hasattr(cv, "get_metadata_routing") and routing.fit.requests.get("groups") is None:
        request = cv.get_metadata_routing().split.requests.get("groups")
        if request is True or isinstance(request, str):
            routing.fit.add_request(param="groups", alias=request)
    return routing


def follow(estimator: Any, X: Any) -> None:
    """Bring fitted arrays of numbers to the library and device of X; labels and dicts stay in NumPy."""
    if is_dask(X):  # what its rows gave was brought together on the host
        return
    for name, value in vars(estimator).items():
        fitted = name.endswith("_") and not name.startswith("_")
        if fitted and isinstance(value, np.ndarray) and value.dtype.kind in "fi" and name != "classes_":
            setattr(
                estimator,
                name,
                asarray_like(value, X) if value.dtype.kind == "f" else labels_like(value, X),
            )


def on_host(estimator: Any) -> Any:
    """The estimator with its fitted arrays in NumPy, for whoever reads them: itself, or a copy."""
    host = {name: to_host(value) for name, value in vars(estimator).items()}
    if all(host[name] is value for name, value in vars(estimator).items()):
        return estimator
    on_host = copy(estimator)
    vars(on_host).update(host)
    return on_host
