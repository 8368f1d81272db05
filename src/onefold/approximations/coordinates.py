r"""In which coordinates a basis model is summed and solved: its landmarks, whitening and precision.

The features are φ(x) = [k(x, z_j)], or φ(x)·mix where they are whitened before the sum; T takes them to
the coordinates in which the penalty is ‖θ‖².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.approximations.base import Problem
from onefold.arrays import is_single
from onefold.bases import Basis
from onefold.kernels import Kernel
from onefold.statistics import Design, Whitening
from onefold.statistics.whitening import Precision, spanning_landmarks
from onefold.threads import limit_blas

_SMALL_WORK = 10**10  # multiply-adds of a Gram matrix that may as well be done three times


@dataclass(frozen=True)
class Coordinates:
    """A design and what takes its features to whitened coordinates and back to landmarks.

    Attributes
    ----------
    basis : Basis
    design : Design
    T : array (features, r)
    report : dict
    """

    basis: Basis
    design: Design
    T: Any
    report: dict[str, Any]

    def of_landmarks(self, theta: Any) -> Any:
        """β (m, columns) of the landmarks from θ (r, columns)."""
        coefficients = self.T @ theta
        return coefficients if self.design.mix is None else self.design.mix @ coefficients


def choose_coordinates(
    kernel: Kernel, problem: Problem, basis: Basis, *, rank: int | None, thin: bool, workers: int
) -> Coordinates:
    """Cut what rounding would spoil, as little as the amount of work allows. O(m³) time.

    With `thin` a kernel so smooth that few directions of the landmark kernel are above rounding keeps
    only as many landmarks as span them, where the work is large; the report tells.
    """
    n, mix = problem.n, None
    with limit_blas(workers):
        W = Design(kernel, basis.rows).inner()
        whitening = Whitening.of(W, rank, rows=n)
        if thin and n * basis.size**2 > _SMALL_WORK:
            index = spanning_landmarks(W, whitening.T.shape[1])
            if index.size < basis.size:
                basis, W = basis.thinned(index), W[np.ix_(index, index)]
                whitening = Whitening.of(W, rank, rows=n)
        if rank is None and whitening.cut and n * basis.size**2 <= _SMALL_WORK:
            finer = Whitening.of(W)
            if finer.cut < whitening.cut:
                whitening, mix = finer.done(), finer.T
    precision: Precision = "double"
    leading = None
    if is_single(problem.X) and mix is None:
        precision, leading = whitening.precision_for(n)
    report = {
        "name": "nystroem",
        **basis.report,
        **whitening.report,
        "precision": precision,
        "whitened": "after the sum" if mix is None else "before the sum",
    }
    design = Design(kernel, basis.rows, precision, leading, mix)
    return Coordinates(basis, design, whitening.T, report)
