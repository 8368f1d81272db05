"""The table of cases: estimator × approximation × kernel, and what each allows.

A new estimator, approximation or kernel is one entry here; every relation then asks about it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR
from onefold.approximations import Circulant, ConjugateGradients, Grid, Nystroem, Toeplitz
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial


@dataclass(frozen=True)
class Machine:
    """An estimator: its class, and what it does with targets and hyper-parameters."""

    kind: type
    classifies: bool = False
    intercept: bool = True
    searches: bool = False
    prunes: bool = False

    def __str__(self) -> str:
        return self.kind.__name__


@dataclass(frozen=True)
class KernelCase:
    """A kernel whose features may grow.

    Attributes
    ----------
    build : function (square, absolute) → kernel argument of an estimator
        The kernel that takes the same values when squared distances and inner products of the
        rows have grown by `square`, and absolute differences by `absolute`.
    radial : bool
        A function of x − x' alone.
    has_width : bool
        Whether a search multiplies its widths by `gammas`.
    alpha_power : int
        1 if the kernel grows with `square` itself, so that the ridge has to grow too.
    """

    name: str
    build: Callable[[float, float], Any]
    radial: bool = False
    has_width: bool = True
    alpha_power: int = 0
    saved: bool = True
    sparse_rows: bool = True
    euclidean: bool = True
    """Of inner products and Euclidean distances alone, so that rows may be rotated."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Way:
    """An approximation (or a way of pruning) and what it allows.

    Attributes
    ----------
    settings : function anchor → constructor arguments
        `anchor` are rows that move with the features but not with the training rows.
    landmarks : bool
        It computes features of landmarks, in float32 where the rows are.
    picks : bool
        It chooses landmarks among the rows it is given: rows that come twice change the choice.
    ordered : bool
        It depends on the order of the rows.
    rows : str
        "plane" (two features), or "series" (one feature, equal steps).
    same_digits : float
        How far two equivalent computations may differ, in units of eps · n · condition of
        K + alpha: 1 for a backward stable solve; more where features are whitened by the landmarks'
        kernel, whose condition multiplies the error, or where an iteration stops at a tolerance.
    """

    name: str
    settings: Callable[[Any], dict[str, Any]]
    fits: bool = True
    searches: bool = True
    prunes: bool = False
    weights: bool = True
    landmarks: bool = False
    picks: bool = False
    ordered: bool = False
    radial_only: bool = False
    precomputed: bool = False
    sparse_rows: bool = True
    rows: str = "plane"
    kernels: tuple[str, ...] = ()
    """The kernels to try where they are not all of interest: those that take another path."""
    ridge: float = 1.0
    """Multiplies every alpha, where small ones cannot be solved with."""
    same_digits: float = 10.0

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Case:
    """One cell of the table."""

    machine: Machine
    way: Way
    kernel: KernelCase

    def __str__(self) -> str:
        return f"{self.machine}-{self.way}-{self.kernel}"


def _rational(square: float) -> Callable[[Any, Any], Any]:
    """1 / (1 + ‖a − b‖² / square): a user's own function of two row blocks."""

    def function(A: Any, B: Any) -> Any:
        difference = np.asarray(A)[:, None, :] - np.asarray(B)[None, :, :]
        return 1.0 / (1.0 + (difference**2).sum(axis=-1) / square)

    return function


MACHINES = [
    Machine(LSSVC, classifies=True),
    Machine(LSSVR),
    Machine(KernelRidge, intercept=False),
    Machine(LSSVCCV, classifies=True, searches=True),
    Machine(LSSVRCV, searches=True),
    Machine(KernelRidgeCV, intercept=False, searches=True),
    Machine(SparseLSSVC, classifies=True, searches=True, prunes=True),
    Machine(SparseLSSVR, searches=True, prunes=True),
]

KERNELS = [
    KernelCase("rbf", lambda s, a: RBF(0.5 / s), radial=True),
    KernelCase(
        "laplacian", lambda s, a: Laplacian(0.5 / a), radial=True, sparse_rows=False, euclidean=False
    ),
    KernelCase("matern", lambda s, a: Matern(0.3 / s), radial=True),
    KernelCase("polynomial", lambda s, a: Polynomial(0.4 / s, 2, 1.0)),
    KernelCase("linear", lambda s, a: Linear(), has_width=False, alpha_power=1),
    KernelCase("sum", lambda s, a: RBF(0.6 / s) + Matern(0.2 / s, 2.5), radial=True),
    KernelCase(
        "product",
        lambda s, a: RBF(0.2 / s) * Laplacian(0.3 / a),
        radial=True,
        sparse_rows=False,
        euclidean=False,
    ),
    KernelCase("mixed", lambda s, a: RBF(0.5 / s) + Polynomial(0.3 / s, 1, 0.5)),
    KernelCase("callable", lambda s, a: _rational(s), has_width=False, saved=False, sparse_rows=False),
    KernelCase("precomputed", lambda s, a: "precomputed", has_width=False, sparse_rows=False),
]
_GIVEN = KERNELS[-1]

WAYS = [
    Way("exact", lambda anchor: {"approximation": "exact"}, precomputed=True),
    Way(
        "auto",
        lambda anchor: {"approximation": "auto"},
        fits=False,
        precomputed=True,
        kernels=("rbf", "precomputed"),
    ),
    Way("nystroem", lambda anchor: {"approximation": Nystroem(anchor)}, landmarks=True, same_digits=1e4),
    Way(
        "kmeans",
        lambda anchor: {"approximation": Nystroem(9)},
        picks=True,
        landmarks=True,
        same_digits=1e4,
        kernels=("rbf", "linear", "product", "callable"),
    ),
    Way(
        "pivoted",
        lambda anchor: {"approximation": Nystroem(9, method="rpcholesky")},
        picks=True,
        kernels=("laplacian", "polynomial", "linear", "callable"),
        landmarks=True,
        same_digits=1e4,
    ),
    Way(
        "ding2012",
        lambda anchor: {"approximation": Nystroem(anchor, rank=6, predict="rows")},
        kernels=("rbf", "matern", "polynomial", "linear"),
        landmarks=True,
        same_digits=1e4,
    ),
    Way(
        "grid",
        lambda anchor: {"approximation": Grid(points=7, tolerance=1e-9)},
        radial_only=True,
        sparse_rows=False,
        same_digits=1e3,
    ),
    Way(
        "toeplitz",
        lambda anchor: {"approximation": "toeplitz"},
        weights=False,
        radial_only=True,
        sparse_rows=False,
        rows="series",
        same_digits=1e3,
    ),
    Way(
        "averaged",
        lambda anchor: {"approximation": Toeplitz()},
        weights=False,
        ordered=True,
        kernels=("rbf", "polynomial", "callable", "precomputed"),
        precomputed=True,
        sparse_rows=False,
        ridge=100.0,
        same_digits=1e3,
    ),
    Way(
        "circulant",
        lambda anchor: {"approximation": Circulant(spacing="data", negative="clip")},
        weights=False,
        radial_only=True,
        sparse_rows=False,
        same_digits=1e3,
    ),
    Way(
        "cg",
        lambda anchor: {"approximation": ConjugateGradients(tolerance=1e-11)},
        searches=False,
        sparse_rows=False,
        same_digits=1e3,
    ),
    Way("improved", lambda anchor: {"drop": 0.3}, prunes=True, same_digits=1e4),
]


def _allowed(machine: Machine, way: Way, kernel: KernelCase) -> bool:
    if way.prunes != machine.prunes or (way.radial_only and not kernel.radial):
        return False
    if kernel is _GIVEN and not way.precomputed:
        return False
    if way.kernels and kernel.name not in way.kernels:
        return False
    return way.searches if machine.searches else way.fits


CASES = [
    Case(machine, way, kernel)
    for machine in MACHINES
    for way in WAYS
    for kernel in KERNELS
    if _allowed(machine, way, kernel)
]
