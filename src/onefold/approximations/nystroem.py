r"""Basis models by landmarks: Nyström's method, in its landmark form and in ding2012's.

The kernel matrix is replaced by K̃ = C W⁺ Cᵀ, C the columns of the landmarks and W their intersection
(rank k with `rank`). The landmark form predicts with the landmarks alone: it is the basis model of
:mod:`onefold.approximations.nystroem_models`. ding2012 trains with K̃ and predicts with the true kernel
over all rows, ``method="uniform", rank=k, predict="rows"``: see
:mod:`onefold.approximations.nystroem_rows`.

The features are φ(x) = [k(x, z_j)]; T takes them to coordinates V = ΦT in which the penalty is ‖θ‖². By
the amount of work, training uses

    factors         triangular factors of V's rows: nothing is squared, as exact as a refit by QR
    whitened sums   VᵀV: rounding errors look like a ridge of eps ‖V‖²
    sums            ΦᵀΦ, whitened afterwards: rounding errors are divided by the eigenvalues of W
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from onefold.approximations.base import Approximation, register
from onefold.approximations.footprint import FORMED, basis_bytes, formed_bytes
from onefold.approximations.model import Model
from onefold.approximations.nystroem_models import BasisModel, FactoredModel, SummedModel
from onefold.approximations.nystroem_rows import RowsModel
from onefold.approximations.problem import Parts, Problem, Workload
from onefold.basis import BASES, Basis, Design, Whitening, clustering_metric, given_rows
from onefold.basis.factors import uses_factors
from onefold.basis.whitening import SMALLEST_RIDGE, Precision, spanning_landmarks
from onefold.kernels import Kernel
from onefold.linalg import is_sparse, submatrix
from onefold.machine.speed import Speed
from onefold.machine.threads import count_workers, limit_blas, thread_budget

Training: TypeAlias = Literal["factors", "whitened sums", "sums"]

# Multiply-adds of a Gram matrix, n m², up to which features are whitened first, at three times the work.
_SMALL_WORK = 10**10
# The same where plain sums would lose directions or digits.
_MEDIUM_WORK = 4 * 10**10
# Rounding errors that matter, as a share of the smallest ridge: they act like a larger ridge.
_ROUNDING_SHARE = 1e-3
# Landmarks that cost next to nothing on the few rows that a search compares kernels on.
_FEW_LANDMARKS = 100
# Rows for each landmark there, at least, where there are more landmarks.
_ROWS_PER_LANDMARK = 40
# Arrays like V that are held while single rows are left out with predict="rows".
_LEFT_OUT_COPIES = 6


class Coordinates(NamedTuple):
    """The landmarks, the coordinates of their features, and how models are trained in them."""

    basis: Basis
    whitening: Whitening
    training: Training


@register
@dataclass(frozen=True, eq=False)
class Nystroem(Approximation):
    """A basis of landmark rows (Nyström method); one pass over the rows serves every fold and alpha.

    Parameters
    ----------
    n_components : int or array (m, d), default=1000
        Number of landmarks (all rows if there are fewer), or the landmark rows themselves.
    method : {"auto", "kmeans", "uniform", "rpcholesky"}, default="auto"
        How landmarks are chosen; ignored if landmark rows are given. "auto" is "kmeans" for dense rows,
        and "rpcholesky" for sparse rows, whose cluster centres would be dense.
    rank : int or None, default=None
        Number of directions of the landmark kernel to keep; None keeps all that exceed rounding errors.
    predict : {"landmarks", "rows"}, default="landmarks"
        Predict with the m landmarks or, as ding2012 does, with the true kernel over all n rows, which
        takes O(n²) time for cross-validation.
    random_state : int, default=0
        Seed of the choice of landmarks.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV
    >>> from onefold.approximations import Nystroem
    >>> X, y = load_diabetes(return_X_y=True)
    >>> landmarks = Nystroem(50)
    >>> model = LSSVRCV(approximation=landmarks, refit="same", gammas=[1, 10], alphas=[1]).fit(X, y)
    >>> model.expansion_.n_centres
    50
    """

    n_components: Any = 1000
    method: str = "auto"
    rank: int | None = None
    predict: str = "landmarks"
    random_state: int = 0

    name = "nystroem"
    smooths = True
    takes_precomputed = False
    max_rows_for_matrix = FORMED
    fold_models = "closed"
    remedy = "use fewer landmarks (n_components)"

    def __post_init__(self) -> None:
        if self.method not in ("auto", *BASES):
            names = ", ".join(repr(name) for name in ("auto", *BASES))
            raise ValueError(f"method must be one of {names}; got {self.method!r}.")
        if self.predict not in ("landmarks", "rows"):
            raise ValueError(f'predict must be "landmarks" or "rows"; got {self.predict!r}.')
        landmarks = self.n_components
        is_rows = not self._counts and getattr(landmarks, "ndim", 0) == 2
        if not is_rows and (not self._counts or isinstance(landmarks, bool) or landmarks < 1):
            raise ValueError(
                "n_components must be a number of landmarks of at least 1, or a two-dimensional array "
                f"of landmark rows; got {landmarks!r:.80}."
            )
        if self.rank is not None and not (isinstance(self.rank, numbers.Integral) and self.rank >= 1):
            raise ValueError(f"rank must be a whole number of at least 1, or None; got {self.rank!r}.")
        object.__setattr__(self, "streams", self.predict == "landmarks")

    @property
    def _counts(self) -> bool:
        """Whether the number of landmarks is set, not the landmarks."""
        return isinstance(self.n_components, numbers.Integral)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Nystroem):
            return NotImplemented
        return self._key() == other._key() and np.array_equal(self.n_components, other.n_components)

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.method, self.rank, self.predict, self.random_state

    def share(self, problem: Problem, kernels: Sequence[Kernel]) -> Basis | None:
        """The landmarks, where their choice does not depend on the kernel."""
        method = self._method(problem) if self._counts else "given"
        # Clusters follow the metric: kernels of several metrics each find their own.
        metrics = {clustering_metric(kernel) for kernel in kernels} if method == "kmeans" else {None}
        if method == "rpcholesky" or len(metrics) > 1:
            return None
        return self._basis(kernels[0], problem)

    def _method(self, problem: Problem) -> str:
        if self.method != "auto":
            return self.method
        return "rpcholesky" if is_sparse(problem.X) else "kmeans"

    def _basis(self, kernel: Kernel, problem: Problem) -> Basis:
        if not self._counts:
            return given_rows(self.n_components, problem.X)
        m = min(int(self.n_components), problem.n)
        rng = np.random.default_rng(self.random_state)
        with limit_blas(1):  # the same landmarks whatever the number of threads
            return BASES[self._method(problem)](kernel, problem.X, m, rng)

    def model(self, kernel: Kernel, problem: Problem, load: Workload, shared: Any) -> Model:
        basis = self._basis(kernel, problem) if shared is None else shared
        with limit_blas(1):  # the same digits whatever the number of threads
            coordinates = self._coordinates(kernel, problem, basis)
            model = _basis_model(kernel, problem, coordinates, load.parts if load.folds > 1 else None)
        return model if self.predict == "landmarks" else RowsModel(model)

    def _coordinates(self, kernel: Kernel, problem: Problem, basis: Basis) -> Coordinates:
        """Cut what rounding would spoil, as little as the work allows: directions or landmarks."""
        n = problem.n
        rank = self.rank
        basis = replace(basis, rows=problem.source.placed(basis.rows))
        W = Design(kernel, basis.rows).inner()
        work = n * basis.size**2
        if work <= _SMALL_WORK:  # features are whitened before they are summed or factorised
            whitening = Whitening.pivoted(W) if rank is None else Whitening.of(W, rank)
            factored = uses_factors(n, basis.size)
            return Coordinates(basis, whitening, "factors" if factored else "whitened sums")
        whitening = Whitening.of(W, rank, rows=n)
        rounding = whitening.rounding_ridge(n)
        lossy = whitening.report["cut_directions"] or rounding > _ROUNDING_SHARE * SMALLEST_RIDGE
        if lossy and rank is not None:
            return Coordinates(basis, whitening, "whitened sums")
        if lossy and work <= _MEDIUM_WORK:
            return Coordinates(basis, Whitening.pivoted(W), "whitened sums")
        # A rank, ding2012's prediction and the user's own rows are to be taken as they are given.
        if self._counts and rank is None and self.predict == "landmarks":
            index = spanning_landmarks(W, whitening.T.shape[1])
            if index.size < basis.size:
                basis = basis.thinned(index)
                whitening = Whitening.of(submatrix(W, index, index), rows=n)
        return Coordinates(basis, whitening, "sums")

    def for_subsample(self, share: float) -> Approximation:
        if not self._counts:
            return self
        fewer = max(1, round(share * int(self.n_components)))
        rank = None if self.rank is None else max(1, round(share * self.rank))
        return replace(self, n_components=fewer, rank=rank)

    def on_fewer_rows(self, n: int, shared: Any) -> tuple[Approximation, Any]:
        """A hundred landmarks, or one for every forty rows: m³ is then less work than the rows are."""
        size = int(self.n_components) if shared is None else shared.size
        fewer = min(size, max(_FEW_LANDMARKS, n // _ROWS_PER_LANDMARK))
        if shared is not None:
            order = np.random.default_rng(self.random_state).permutation(size)
            shared = replace(shared.thinned(np.sort(order[:fewer])), index=None)  # of other rows
        return self.for_subsample(fewer / size), shared

    def _size(self, n: int) -> int:
        return min(int(self.n_components), n) if self._counts else int(self.n_components.shape[0])

    def peak_bytes(self, n: int, d: int, targets: int, load: Workload, n_parallel: int) -> int:
        m = self._size(n)
        leaves_rows_out = load.folds == 1 or load.single
        total = basis_bytes(n, d, targets, m, load, n_parallel)
        # Leave-one-out with all rows: V, orthonormal columns, and their product with K − K̃.
        columns = 0.0
        if leaves_rows_out and self.predict == "rows":
            columns = _LEFT_OUT_COPIES * 8.0 * n * m
        return total + int(min(n_parallel, load.kernels) * (columns + formed_bytes(n, load)))

    def duration(self, n: int, d: int, targets: int, load: Workload, speed: Speed) -> float:
        r"""Per kernel: choosing 11 m³, tiles n m (d + some exponentials), Gram n m²/2 at the speed of
        a product, 8 m³ on one core per fold, and predictions n m t for every ridge. Factors of few
        rows instead of a Gram matrix take more of either. On a GPU, which is one core, a Cholesky
        factorisation per fold and ridge.
        """
        m = self._size(n)
        gpu = load.gpu is not None
        workers = 1 if gpu else min(thread_budget(), count_workers(None))
        one_core = speed.multiply_adds / workers
        passes = 2 if load.folds else 1
        tiles = passes * n * m * (d / speed.multiply_adds + 3 / (workers * speed.exponentials))
        # Factors of rows instead of their Gram matrix: whitening, and a QR factorisation.
        factored = uses_factors(n, m)
        gram = (4.0 if factored else 0.6) * n * m**2 / speed.multiply_adds
        if gpu:
            small = (11 + (load.folds + 1) * load.alphas / 6) * m**3 / speed.cholesky
        else:
            small = (
                (11 + (20 if factored else 8) * np.ceil((load.folds + 1) / workers)) * m**3 / one_core
            )
        predict = n * m * targets * load.alphas * bool(load.folds) / one_core
        if self.predict == "rows":
            predict += n**2 * (d + load.alphas * targets) / speed.multiply_adds
        return float(load.kernels * (tiles + gram + small + predict))


def _basis_model(
    kernel: Kernel, problem: Problem, coordinates: Coordinates, parts: Parts | None
) -> BasisModel:
    """The model in these coordinates; `parts` are the sets of rows that will be left out in turn."""
    basis, whitening, training = coordinates
    report = {"name": "nystroem", **basis.report, **whitening.report, "training": training}
    if training == "sums":
        precision: Precision = "double"
        leading = None
        if str(problem.X.dtype).endswith("float32") and not is_sparse(problem.X):
            precision, leading = whitening.precision_for(problem.n, on_device=problem.on_device)
        design = Design(kernel, basis.rows, precision, leading)
        report["rounding_ridge"] = whitening.rounding_ridge(problem.n, precision)
        report["precision"] = precision
        return SummedModel(problem, design, whitening.T, report, parts)
    design = Design(kernel, basis.rows, mix=whitening.T)
    report["precision"] = "double"
    if training == "factors":
        return FactoredModel(problem, design, report, parts)
    return SummedModel(problem, design, None, report, parts)
