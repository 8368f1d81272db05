r"""`partial_fit`: batch after batch, the model of all rows so far.

What is kept between calls is a :class:`Stream`, in a private attribute. It is replaced when a call has
done all its work: a batch that is refused leaves the model as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import MethodType
from typing import Any, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y

from onefold.approximations import Nystroem, Problem
from onefold.approximations.nystroem.stream import Stream
from onefold.estimators.base import KernelMachine, signed_targets, with_weights
from onefold.estimators.final import metric_of
from onefold.estimators.following import follow
from onefold.estimators.validation import (
    check_alpha_count,
    check_alphas,
    check_length,
    check_rows,
    check_targets,
    check_weights,
    weights_of_classes,
)
from onefold.kernels import resolve_gamma, resolve_kernel
from onefold.linalg import is_foreign, like, to_numpy
from onefold.rows import is_dask, to_device
from onefold.typing import ArrayLike, MaybeArray

_AGAIN = "begin again with a new estimator (sklearn.base.clone)"

Encoder = Callable[[int], tuple[Any, Any | None]]
"""From the number of rows to targets (n, t), and weights that follow from the classes."""


class _WithGivenLandmarks:
    """A method that is there where landmarks are given; elsewhere the AttributeError says so."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, estimator: Any, owner: Any = None) -> Any:
        if estimator is not None:
            _require_landmarks(estimator)
            return MethodType(self._method, estimator)

        @wraps(self._method)
        def unbound(estimator: Any, *args: Any, **options: Any) -> Any:
            _require_landmarks(estimator)
            return self._method(estimator, *args, **options)

        return unbound


def _require_landmarks(estimator: Any) -> None:
    approximation = estimator.approximation
    if not (isinstance(approximation, Nystroem) and approximation.takes_batches):
        raise AttributeError(
            "partial_fit needs landmarks that do not depend on rows to come; use "
            'approximation=Nystroem(rows) with landmark rows of your own and predict="landmarks", '
            f"instead of {approximation!r:.60}."
        )


class Streaming(KernelMachine):
    """What classifiers and regressors share: a batch is checked and added, and the model solved for."""

    approximation: Any
    gamma: Any
    alpha: Any
    degree: float
    coef0: float
    metric: str | None

    _stream: Stream

    @property
    def _begun(self) -> bool:
        return hasattr(self, "_stream")

    def _forget_batches(self) -> None:
        """What `fit` does: it starts anew."""
        if self._begun:
            del self._stream

    def _check_batches(self, y: Any) -> None:
        """Raise where batches cannot be added to what there is, or the model depends on all rows."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if hasattr(self, "expansion_") and not self._begun:
            raise ValueError(
                f"this {type(self).__name__} was fitted by fit or read from a file, and neither keeps "
                f"what rows could be added to; {_AGAIN}, with partial_fit for all batches."
            )
        if self.metric is not None:
            raise ValueError(
                f"metric={self.metric!r} is learned from all rows at once; use metric=None, or fit."
            )
        if isinstance(self.gamma, str):
            widths = (resolve_kernel(self.kernel, g, self.degree, self.coef0) for g in (1.0, 2.0))
            if next(widths) != next(widths):
                raise ValueError(
                    f"gamma={self.gamma!r} depends on all rows, and batches are still to come; give a "
                    "number."
                )

    def _add(self, X: Any, encode: Encoder, sample_weight: Any) -> Self:
        """Check the rows, add those of positive weight, and solve for the model of all."""
        alpha = check_alphas(self.alpha, "alpha")
        if is_dask(X):
            raise ValueError(
                "partial_fit takes a batch in memory, and X is one of Dask; use fit, or give one "
                "partition after the other."
            )
        X = check_rows(self, X, sparse=self._accepts_sparse(), fitting=not self._begun)
        n = int(X.shape[0])
        targets, class_weight = encode(n)
        check_alpha_count(alpha, targets.shape[1], get_tags(self).estimator_type)
        weight = _weights(sample_weight, n)
        if class_weight is not None:
            weight = class_weight if weight is None else weight * class_weight
        moved = to_device(X, self.device)
        batch = Problem(moved, like(targets, moved), None, self._fit_intercept, device=self.device)
        stream = self._stream_for(batch)
        if weight is not None:
            rows = np.flatnonzero(weight > 0)
            if rows.size == 0:
                self._stream = stream
                return self
            batch = with_weights(batch if rows.size == n else batch.rows(rows), weight[rows])
        with self._threads(batch):
            stream = stream.with_rows(batch)
            expansion = stream.expansion(alpha)
        self.expansion_ = self._finished(expansion, batch, n)
        self._stream = stream
        self._forget_calibration()
        self.approximation_ = stream.report()
        self.metric_ = metric_of(stream.kernel)
        self.feature_importances_ = None
        follow(self, X)
        return self

    def _stream_for(self, batch: Problem) -> Stream:
        """What the batch is added to; raise if that is of another kernel or other landmarks."""
        gamma, approximation = resolve_gamma(self.gamma, batch.X), self.approximation
        kernel = resolve_kernel(self.kernel, gamma, self.degree, self.coef0)
        kernel.check_features(batch.X.shape[1])
        if not self._begun:
            stream: Stream = approximation.stream(kernel, batch)
            return stream
        known = self._stream.settings
        if kernel != self._stream.kernel or (approximation is not known and approximation != known):
            raise ValueError(
                "the kernel or the landmarks are not those of the batches before; set them back, or "
                f"{_AGAIN}."
            )
        return self._stream


class StreamingRegressor(Streaming):
    """`partial_fit` on the targets themselves."""

    single_target_: bool

    @_WithGivenLandmarks
    def partial_fit(self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None) -> Self:
        """Add a batch of rows: the model is then that of one `fit` of all rows so far.

        For ``approximation=Nystroem(rows)`` with landmark rows of your own. O((n + 20 m) m²) time for n
        rows and m landmarks, so that batches should have more rows than landmarks; O(m²) memory is kept
        between calls. `alpha` may change between calls, the kernel and the landmarks may not.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
        y : array (n,) or (n, targets), as many targets as in the first batch
        sample_weight : array (n,), optional
            As in `fit`; a batch of nothing but zeros changes nothing.
        """
        self._check_batches(y)

        def encode(n: int) -> tuple[Any, None]:
            given = check_targets(y, n)
            targets = np.asarray(given, dtype=np.float64).reshape(n, -1)
            if not self._begun:
                self.single_target_ = given.ndim == 1
            elif targets.shape[1] != self._stream.targets:
                raise ValueError(
                    f"y has {targets.shape[1]} targets and the batches before had "
                    f"{self._stream.targets}; give the same targets in every batch."
                )
            return targets, None

        return self._add(X, encode, sample_weight)


class StreamingClassifier(Streaming):
    """`partial_fit` on ±1, one-vs-rest for several classes."""

    class_weight: Any
    classes_: Any

    @_WithGivenLandmarks
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: MaybeArray = None, sample_weight: MaybeArray = None
    ) -> Self:
        """Add a batch of rows: the model is then that of one `fit` of all rows so far.

        For ``approximation=Nystroem(rows)`` with landmark rows of your own. O((n + 20 m) m²) time for n
        rows and m landmarks, so that batches should have more rows than landmarks; O(m²) memory is kept
        between calls. `alpha` may change between calls, the kernel and the landmarks may not.

        Parameters
        ----------
        X : array or CSR matrix (n, d)
        y : array (n,)
            A batch need not have rows of every class.
        classes : array (classes,), optional
            All labels that will come; needed at the first call, and the same later on if given.
        sample_weight : array (n,), optional
            As in `fit`; a batch of nothing but zeros changes nothing.
        """
        self._check_batches(y)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} counts all rows, and batches are still to come; "
                "give a dict with the weight of each class."
            )
        known = self._classes_of_batches(classes)
        of_class = weights_of_classes(self.class_weight, known)

        def encode(n: int) -> tuple[Any, Any | None]:
            labels = _check_y(to_numpy(y) if is_foreign(y) else y, multi_output=False, estimator=self)
            check_length(labels, n)
            check_classification_targets(labels)
            outside = [label for label in np.unique(labels).tolist() if label not in known.tolist()]
            if outside:
                raise ValueError(
                    f"y has labels that are not among the classes: {outside!r:.80}; name all classes at "
                    "the first call of partial_fit."
                )
            self.classes_ = known
            index = np.searchsorted(known, labels)
            return signed_targets(index, known.size), None if of_class is None else of_class[index]

        return self._add(X, encode, sample_weight)

    def _classes_of_batches(self, classes: Any) -> Any:
        """The sorted labels: those of the first call, which later ones may repeat."""
        if classes is None:
            if self._begun:
                return self.classes_
            raise ValueError("classes must be passed on the first call to partial_fit: all labels of y.")
        given = np.unique(to_numpy(classes) if is_foreign(classes) else np.asarray(classes))
        if self._begun and given.tolist() != self.classes_.tolist():
            raise ValueError(
                f"classes {given.tolist()!r:.80} are not those of the first call, "
                f"{self.classes_.tolist()!r:.80}; leave them out, or {_AGAIN}."
            )
        if given.size < 2:
            raise ValueError(f"a classifier needs at least two classes; got {given.tolist()!r}.")
        return self.classes_ if self._begun else given


def _weights(sample_weight: Any, n: int) -> Any | None:
    """As `check_weights` has them, or all zeros, which `fit` refuses."""
    if sample_weight is not None:
        given = np.asarray(to_numpy(sample_weight))
        if given.shape == (n,) and given.dtype.kind in "biuf" and not np.any(given):
            return np.zeros(n)
    return check_weights(sample_weight, n)
