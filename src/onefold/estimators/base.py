"""The scikit-learn shell: what every estimator shares."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MultiOutputMixin,
    RegressorMixin,
    _clone_parametrized,
)
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted

from onefold.approximations import Problem
from onefold.calibration import check_calibration
from onefold.criteria import Task, label_index
from onefold.estimators.following import takes_any_library
from onefold.estimators.lazy import lazy_predictions
from onefold.estimators.probabilities import Calibrated
from onefold.estimators.validation import (
    check_length,
    check_rows,
    check_targets,
    check_weights,
    mean_weight,
    weights_of_classes,
)
from onefold.expansions import Expansion, FittedFunction
from onefold.kernels import Kernel, Precomputed, resolve_kernel
from onefold.linalg import (
    Array,
    all_finite,
    is_foreign,
    labels_like,
    like,
    take_rows,
    to_numpy,
)
from onefold.machine.threads import count_workers, limit_blas, use_threads
from onefold.rows import gathered, is_dask, to_device
from onefold.typing import ArrayLike, ClassWeight, MaybeArray

_FEW_ROWS = 1000  # whose factorisation gains little from a second thread


def with_weights(problem: Problem, weight: Any) -> Problem:
    """The problem with positive weights, in units of their mean."""
    unit = mean_weight(weight)
    equal = bool(np.all(weight == weight[0]))
    root = None if equal else like(np.sqrt(weight) / np.sqrt(unit), problem.X)
    return replace(problem, root_weight=root, alpha_unit=unit)


def _of_rows(problem: Problem, task: Task, rows: Any, *, precomputed: bool) -> tuple[Problem, Task]:
    """The problem and its task without the rows of weight 0."""
    left = problem.within(rows, precomputed=precomputed)
    given = None if task.sample_weight is None else task.sample_weight[rows]
    X = left.X if task.X is problem.X else take_rows(task.X, rows)  # scorers see rows where they were
    task = replace(task, X=X, y=task.y[rows], sample_weight=given)
    if task.classes is not None and np.unique(task.y).size < 2:
        raise ValueError(
            f"only one class ({task.y[0].item()!r}) has rows of positive weight; a classifier "
            "needs at least two classes."
        )
    return left, task


def signed_targets(index: Any, classes: int) -> Any:
    """±1 of each row's class: (n, 1) for two classes, its sign the label; otherwise (n, classes)."""
    if classes == 2:
        return 2.0 * index[:, None] - 1.0
    targets = np.full((index.size, classes), -1.0)
    targets[np.arange(index.size), index] = 1.0
    return targets


class KernelMachine(BaseEstimator):
    """Common to classifiers and regressors, with given or chosen hyper-parameters."""

    _fit_intercept: ClassVar[bool] = True

    expansion_: FittedFunction
    kernel: Any
    device: Any
    n_jobs: int | None

    def _kernel_for_tags(self) -> Kernel | None:
        """The kernel as far as it is known before fitting; None if its parameters are wrong."""
        try:
            return resolve_kernel(self.kernel, 1.0, 3, 1.0)
        except (TypeError, ValueError):
            return None

    def _accepts_sparse(self) -> bool:
        """Whether CSR rows can be fitted."""
        kernel = self._kernel_for_tags()
        return kernel is not None and kernel.accepts_sparse

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self._kernel_for_tags(), Precomputed)
        tags.input_tags.sparse = self._accepts_sparse()
        tags.array_api_support = takes_any_library(self)
        return tags

    def _in_memory(self, *values: Any) -> list[Any]:
        """Collections of Dask computed; anything else as it is."""
        return [gathered(value, getattr(self, "client", None)) for value in values]

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> tuple[Problem, Task]:
        """Validated input as a least-squares problem, and what its targets mean."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        kernel = self._kernel_for_tags()
        X = check_rows(self, X, sparse=self._accepts_sparse(), fitting=True)
        targets, task, class_weight = self._encode(X, y)
        weight = check_weights(sample_weight, X.shape[0])
        task = replace(task, sample_weight=weight)
        if class_weight is not None:
            weight = class_weight if weight is None else weight * class_weight
        X = to_device(X, self.device)
        problem = Problem(X, like(targets, X), None, self._fit_intercept, device=self.device)
        if weight is not None:
            if not np.all(weight > 0):
                rows = np.flatnonzero(weight > 0)
                problem, task = _of_rows(
                    problem, task, rows, precomputed=isinstance(kernel, Precomputed)
                )
                weight = weight[rows]
            problem = with_weights(problem, weight)
        # Labels are ±1 as they are; numbers may lie anywhere, and small differences need their digits.
        return (problem if task.classes is not None else problem.about_its_mean()), task

    def _finished(self, expansion: FittedFunction, problem: Problem, n: int) -> FittedFunction:
        """The fitted expansion for a table of `n` rows; raise if it is not finite."""
        if not expansion.finite:
            raise ValueError(
                "the coefficients are not finite: the kernel or the targets overflow; scale the "
                "features and the targets, or use another kernel."
            )
        if problem.kept is not None and isinstance(expansion, Expansion) and expansion.centres is None:
            coef = np.zeros((n, expansion.n_targets))  # a column for every row of X
            coef[problem.kept] = to_numpy(expansion.coef)
            expansion = replace(expansion, coef=like(coef, expansion.coef))
        return expansion

    @contextmanager
    def _threads(self, problem: Problem) -> Iterator[None]:
        """`n_jobs` threads, also for BLAS; that has one for few rows, so that no digit depends on it."""
        few = problem.n <= _FEW_ROWS
        blas = 1 if few else None if self.n_jobs is None else count_workers(self.n_jobs)
        with use_threads(self.n_jobs), limit_blas(blas):
            yield

    @abstractmethod
    def _encode(self, X: Any, y: Any) -> tuple[Any, Task, Any | None]:
        """Targets (n, t), what they mean, and weights that follow from the classes."""

    def __sklearn_clone__(self) -> Self:
        """As any estimator is cloned; a client of Dask is shared, for it cannot be copied."""
        client = getattr(self, "client", None)
        if client is None:
            return _clone_parametrized(self)
        found = _clone_parametrized(_without_client(self))
        found.client = client
        return found

    def __getstate__(self) -> Any:
        """A pickled estimator has no client: that belongs to this process."""
        state = super().__getstate__()
        return state | {"client": None} if "client" in state else state

    def _decide(self, X: Any) -> Array:
        """f(X) of shape (rows, targets)."""
        check_is_fitted(self, "expansion_")
        X = check_rows(self, X, sparse=self.expansion_.accepts_sparse, fitting=False)
        values = self.expansion_.predict(X, self.n_jobs)
        if not all_finite(values):
            raise ValueError(
                "the kernel overflows on these rows; scale them as the rows the model was fitted on."
            )
        return values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file that :func:`onefold.load` reads; never executes code."""
        check_is_fitted(self, "expansion_")
        from onefold.saving import save

        save(self, path)

    def to_onnx(
        self, *, dtype: str = "float32", target_opset: int | None = None, decision: bool = False
    ) -> Any:
        """The fitted model as an ``onnx.ModelProto``: see :func:`onefold.export.to_onnx`."""
        from onefold.export import to_onnx

        return to_onnx(self, dtype=dtype, target_opset=target_opset, decision=decision)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        X: MaybeArray = None,
        y: MaybeArray = None,
        *,
        sample_weight: MaybeArray = None,
        groups: MaybeArray = None,
        title: str | None = None,
    ) -> Any:
        """A report on the fit, written to `path` as one HTML page; see :func:`onefold.write_report`.

        X and y are the rows that it was fitted on; the sections that need them are left out without.
        """
        check_is_fitted(self, "expansion_")
        from onefold.report import write_report

        return write_report(self, path, X, y, sample_weight=sample_weight, groups=groups, title=title)


def _without_client(estimator: Any) -> Any:
    found = copy(estimator)
    found.client = None
    return found


class KernelClassifier(Calibrated, ClassifierMixin, KernelMachine):
    """One-vs-rest least squares on targets ±1; every class shares one factorisation."""

    class_weight: ClassWeight
    classes_: Any

    def _encode(self, X: Any, y: Any) -> tuple[Any, Task, Any | None]:
        y = _check_y(to_numpy(y) if is_foreign(y) else y, multi_output=False, estimator=self)
        check_length(y, X.shape[0])
        check_classification_targets(y)
        if self.calibration is not None:
            check_calibration(self.calibration)
        self.classes_, index = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(
                f"y has one class only ({only!r}); a classifier needs at least two classes."
            )
        targets = signed_targets(index, self.classes_.size)
        return targets, Task(X, y, self.classes_), weights_of_classes(self.class_weight, y)

    def decision_function(self, X: ArrayLike) -> Array:
        """f(X): (rows,) for two classes, its sign the label; otherwise (rows, classes)."""
        if is_dask(X):
            columns = None if len(self._fitted_classes()) == 2 else self.classes_
            return lazy_predictions(self, "decision_function", X, np.float64, columns)
        values = self._decide(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: ArrayLike) -> Array:
        """The label of each row."""
        if is_dask(X):
            return lazy_predictions(self, "predict", X, self._fitted_classes().dtype, None)
        values = to_numpy(self._decide(X))
        return labels_like(self.classes_[label_index(values)], X)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> float:
        """Accuracy on the given rows."""
        y, sample_weight, predicted = self._in_memory(y, sample_weight, self.predict(X))
        predicted = to_numpy(predicted)
        return float(accuracy_score(to_numpy(y), predicted, sample_weight=sample_weight))

    def _fitted_classes(self) -> Any:
        check_is_fitted(self, "expansion_")
        return self.classes_


class KernelRegressor(RegressorMixin, MultiOutputMixin, KernelMachine):
    """Least squares on the targets themselves."""

    single_target_: bool

    def _encode(self, X: Any, y: Any) -> tuple[Any, Task, Any | None]:
        y = check_targets(y, X.shape[0])
        self.single_target_ = y.ndim == 1
        return np.asarray(y, dtype=np.float64).reshape(X.shape[0], -1), Task(X, y, None), None

    def predict(self, X: ArrayLike) -> Array:
        """f(X): (rows,), or (rows, targets) if y had two dimensions."""
        if is_dask(X):
            check_is_fitted(self, "expansion_")
            columns = None if self.single_target_ else range(self.expansion_.n_targets)
            return lazy_predictions(self, "predict", X, np.float64, columns)
        values = self._decide(X)
        return values[:, 0] if self.single_target_ else values

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> float:
        """R² on the given rows."""
        y, sample_weight, predicted = self._in_memory(y, sample_weight, self.predict(X))
        return float(r2_score(to_numpy(y), to_numpy(predicted), sample_weight=sample_weight))
