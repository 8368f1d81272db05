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
    """A kernel whose features may grow."""

    name: str
    build: Callable[[float, float], Any]
    """(square, absolute) → the kernel that takes the same values when squared distances and inner
    products of the rows have grown by `square`, and absolute differences by `absolute`."""
    radial: bool = False  # a function of x − x' alone
    has_width: bool = True  # a search multiplies its widths by `gammas`
    alpha_power: int = 0  # 1 if the kernel grows with `square` itself, so that the ridge has to grow too
    saved: bool = True
    sparse_rows: bool = True
    euclidean: bool = True  # of inner products and distances alone, so that rows may be rotated

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Way:
    """An approximation (or a way of pruning) and what it allows."""

    name: str
    approximation: Callable[[Any], Any]
    """Of `anchor`: rows that move with the features but not with the training rows."""
    fits: bool = True
    prunes: bool = False
    weights: bool = True
    landmarks: bool = False  # it computes features of landmarks, in float32 where the rows are
    picks: bool = False  # landmarks among the rows it is given: rows that come twice change the choice
    ordered: bool = False  # it depends on the order of the rows
    radial_only: bool = False
    precomputed: bool = False
    sparse_rows: bool = True
    series: bool = False  # one feature with equal steps; otherwise there are two
    kernels: tuple[str, ...] = ()  # those of interest, where they are not all
    ridge: float = 1.0  # multiplies every alpha, where small ones cannot be solved with
    same_digits: float = 10.0
    """How far two equivalent computations may differ, in units of eps · n · condition of K + alpha: 1
    for a backward stable solve; more where features are whitened by the landmarks' kernel, whose
    condition multiplies the error, or where an iteration stops at a tolerance."""

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

_ABSOLUTE = {"radial": True, "sparse_rows": False, "euclidean": False}
_GIVEN = KernelCase("precomputed", lambda s, a: "precomputed", has_width=False, sparse_rows=False)
KERNELS = [
    KernelCase("rbf", lambda s, a: RBF(0.5 / s), radial=True),
    KernelCase("laplacian", lambda s, a: Laplacian(0.5 / a), **_ABSOLUTE),
    KernelCase("matern", lambda s, a: Matern(0.3 / s), radial=True),
    KernelCase("polynomial", lambda s, a: Polynomial(0.4 / s, 2, 1.0)),
    KernelCase("linear", lambda s, a: Linear(), has_width=False, alpha_power=1),
    KernelCase("sum", lambda s, a: RBF(0.6 / s) + Matern(0.2 / s, 2.5), radial=True),
    KernelCase("product", lambda s, a: RBF(0.2 / s) * Laplacian(0.3 / a), **_ABSOLUTE),
    KernelCase("mixed", lambda s, a: RBF(0.5 / s) + Polynomial(0.3 / s, 1, 0.5)),
    KernelCase("callable", lambda s, a: _rational(s), has_width=False, saved=False, sparse_rows=False),
    _GIVEN,
]

_LANDMARKS = {"landmarks": True, "same_digits": 1e4}
_STRUCTURED = {"sparse_rows": False, "same_digits": 1e3}
_DISTANCES = _STRUCTURED | {"radial_only": True}
_FEW = {
    "auto": ("rbf", "precomputed"),
    "kmeans": ("rbf", "linear", "product", "callable"),
    "pivoted": ("laplacian", "polynomial", "linear", "callable"),
    "ding2012": ("rbf", "matern", "polynomial", "linear"),
    "averaged": ("rbf", "polynomial", "callable", "precomputed"),
}
_DIAGONALS = {"weights": False, "ordered": True, "precomputed": True, "ridge": 100.0}
WAYS = [
    Way("exact", lambda anchor: "exact", precomputed=True),
    Way("auto", lambda anchor: "auto", fits=False, precomputed=True, kernels=_FEW["auto"]),
    Way("nystroem", Nystroem, **_LANDMARKS),
    Way("kmeans", lambda anchor: Nystroem(9), picks=True, kernels=_FEW["kmeans"], **_LANDMARKS),
    Way(
        "pivoted",
        lambda anchor: Nystroem(9, method="rpcholesky"),
        picks=True,
        kernels=_FEW["pivoted"],
        **_LANDMARKS,
    ),
    Way(
        "ding2012",
        lambda anchor: Nystroem(anchor, rank=6, predict="rows"),
        kernels=_FEW["ding2012"],
        **_LANDMARKS,
    ),
    Way("grid", lambda anchor: Grid(points=7, tolerance=1e-9), **_DISTANCES),
    Way("toeplitz", lambda anchor: "toeplitz", weights=False, series=True, **_DISTANCES),
    Way(
        "state_space",
        lambda anchor: "state_space",
        series=True,
        kernels=("laplacian", "matern"),
        **_STRUCTURED,
    ),
    Way("averaged", lambda anchor: Toeplitz(), kernels=_FEW["averaged"], **_DIAGONALS, **_STRUCTURED),
    Way(
        "circulant",
        lambda anchor: Circulant(spacing="data", negative="clip"),
        weights=False,
        **_DISTANCES,
    ),
    Way("cg", lambda anchor: ConjugateGradients(tolerance=1e-11), **_STRUCTURED),
    Way("improved", lambda anchor: None, prunes=True, same_digits=1e4),
]


def _allowed(machine: Machine, way: Way, kernel: KernelCase) -> bool:
    if way.prunes != machine.prunes or (way.radial_only and not kernel.radial):
        return False
    if kernel is _GIVEN and not way.precomputed:
        return False
    if way.kernels and kernel.name not in way.kernels:
        return False
    return machine.searches or way.fits


CASES = [
    Case(machine, way, kernel)
    for machine in MACHINES
    for way in WAYS
    for kernel in KERNELS
    if _allowed(machine, way, kernel)
]
