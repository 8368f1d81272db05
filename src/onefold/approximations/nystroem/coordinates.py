r"""In which coordinates a basis model is trained, and how: its landmarks, whitening and precision.

The features are φ(x) = [k(x, z_j)]; T takes them to coordinates V = ΦT in which the penalty is ‖θ‖².
By the amount of work, training uses

    factors         triangular factors of V's rows: nothing is squared, as exact as a refit by QR
    whitened sums   VᵀV: rounding errors look like a ridge of eps ‖V‖²
    sums            ΦᵀΦ, whitened afterwards: they are divided by the eigenvalues of W
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from onefold.approximations.footprint import uses_factors
from onefold.approximations.problem import Problem
from onefold.kernels import Kernel
from onefold.landmarks import Basis
from onefold.linalg import is_single, like, submatrix
from onefold.machine.threads import limit_blas
from onefold.statistics import Design, Whitening
from onefold.statistics.whitening import SMALLEST_RIDGE, Precision, spanning_landmarks

_SMALL_WORK = 10**10  # multiply-adds of a Gram matrix that may as well be done three times
_MEDIUM_WORK = 4 * 10**10  # and where plain sums would lose directions or digits
_FEW_DIGITS = 1e-3  # of the smallest ridge: rounding errors that look like more are a loss

Training = Literal["factors", "whitened sums", "sums"]


@dataclass(frozen=True)
class Coordinates:
    """A design and what takes its features to whitened coordinates and back to landmarks.

    Attributes
    ----------
    basis : Basis
    design : Design
    T : array (features, r)
    training : {"factors", "whitened sums", "sums"}
    report : dict
    """

    basis: Basis
    design: Design
    T: Any
    training: Training
    report: dict[str, Any]


def choose_coordinates(
    kernel: Kernel, problem: Problem, basis: Basis, *, rank: int | None, thin: bool
) -> Coordinates:
    """Cut what rounding would spoil, as little as the amount of work allows. O(m³) time.

    With `thin` a kernel so smooth that few directions of the landmark kernel are above rounding keeps
    only as many landmarks as span them, where the work is large; the report tells.
    """
    n, basis = problem.n, replace(basis, rows=problem.source.placed(basis.rows))
    with limit_blas(1):  # the same digits whatever the number of threads
        W = Design(kernel, basis.rows).inner()
        work = n * basis.size**2
        if work <= _SMALL_WORK:
            training: Training = "factors" if uses_factors(n, basis.size) else "whitened sums"
            return _coordinates(kernel, problem, basis, _for_features(W, rank), training)
        whitening = Whitening.of(W, rank, rows=n)
        lossy = whitening.cut or whitening.rounding_ridge(n) > _FEW_DIGITS * SMALLEST_RIDGE
        if lossy and rank is not None:
            return _coordinates(kernel, problem, basis, whitening, "whitened sums")
        if lossy and work <= _MEDIUM_WORK:
            return _coordinates(kernel, problem, basis, Whitening.pivoted(W), "whitened sums")
        if thin:
            index = spanning_landmarks(W, whitening.T.shape[1])
            if index.size < basis.size:
                basis, W = basis.thinned(index), submatrix(W, index, index)
                whitening = Whitening.of(W, rank, rows=n)
    return _coordinates(kernel, problem, basis, whitening, "sums")


def _for_features(W: Any, rank: int | None) -> Whitening:
    """For features that are whitened before they are summed or factorised."""
    return Whitening.pivoted(W) if rank is None else Whitening.of(W, rank)


def _coordinates(
    kernel: Kernel, problem: Problem, basis: Basis, whitening: Whitening, training: Training
) -> Coordinates:
    precision: Precision = "double"
    leading = mix = None
    T = whitening.T
    if training == "whitened sums":
        mix, T = T, like(np.eye(T.shape[1]), T)
    if is_single(problem.X) and training == "sums":
        precision, leading = whitening.precision_for(problem.n)
    report = {
        "name": "nystroem",
        **basis.report,
        **whitening.report,
        "training": training,
        "precision": precision,
    }
    if training == "sums":
        report["rounding_ridge"] = whitening.rounding_ridge(problem.n, precision)
    return Coordinates(basis, Design(kernel, basis.rows, precision, leading, mix), T, training, report)
