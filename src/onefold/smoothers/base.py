r"""The linear smoother R(μ): every prediction and score of an exact model follows from it.

For a kernel matrix K, a ridge μ and, with an intercept, a border s (ones, or √weights),

    R(μ) = μ (K + μI)⁻¹,    ρ = R s,    R_b = R − ρρᵀ / (sᵀρ)

`R_b` (`R` without an intercept) maps the targets to the in-sample residuals. Its eigenvalues lie in
[0, 1], so that nothing blows up as μ → 0. A smoother gives, for a whole vector of μ at once, its
action, diagonal, trace and log-determinant, and the predictions of rows held out of training:

    y_J − f_J = (R_b)_JJ⁻¹ (R_b y)_J

is the residual on J of the model trained on all rows but J, for every set of rows J. It holds
for any values in y_J; with zeros there it gives −f_J itself, untouched by the rounding of y_J.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold.linalg import Array, HostArray, Index, namespace, reorder_in_place, take_rows

Flags: TypeAlias = NDArray[np.bool_]

_EPS = float(np.finfo(np.float64).eps)
# Share of the largest eigenvalue below which eigenvalues are rounding errors of the decomposition.
_NOISE = 8 * _EPS
# How far below 0 rounding in float64 leaves an eigenvalue, over n times the largest one.
_FLOAT64_ROUNDING = 16 * _EPS


class UnsolvableError(ValueError):
    """The system of a kernel and a ridge has no least-squares solution."""


UNSOLVABLE = (UnsolvableError, np.linalg.LinAlgError)
"""What a model may raise if it cannot be solved; approximations of users may raise NumPy's error."""


def why_unsolvable(error: Exception) -> str:
    """The cause and the remedy, for use within a sentence."""
    if isinstance(error, UnsolvableError):
        return str(error)
    return f"the matrix cannot be factorised ({error}); use larger alphas."


@dataclass(frozen=True)
class Failure:
    """Why there is no result. A text: an error object would keep all arrays of its traceback alive."""

    reason: str


_Result = TypeVar("_Result")


def attempt(
    work: Callable[[], _Result],
    errors: tuple[type[Exception], ...] = UNSOLVABLE,
    explain: Callable[[Exception], str] = why_unsolvable,
) -> _Result | Failure:
    """What `work` returns, or the reason why it failed: where a search turns an error into a value."""
    try:
        return work()
    except errors as error:
        return Failure(explain(error))


class Smoother(ABC):
    """R_b(μ) for any vector of μ; `border` is None for a model without an intercept."""

    def __init__(self, n: int, border: Array | None) -> None:
        self.n = n
        self.border = border

    @abstractmethod
    def residuals(self, Y: Array, alphas: ArrayLike) -> Array:
        """R_b(μ) Y of shape (μ, n, targets)."""

    @abstractmethod
    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> Array:
        """Y_i − (R_b Y)_i / (R_b)_ii, shape (μ, n, targets): each row predicted from all others."""

    @abstractmethod
    def heldout(self, Y: Array, parts: Sequence[Index], alphas: ArrayLike) -> list[Array]:
        """f_J = −(R_b)_JJ⁻¹ (R_b Y⁰)_J (μ, |J|, targets) for each set J; Y⁰ is Y with zeros on J."""

    @abstractmethod
    def trace(self, alphas: ArrayLike) -> HostArray:
        """The trace of R_b, one number per μ; the model's degrees of freedom are n − tr R_b."""

    @abstractmethod
    def logdet(self, alphas: ArrayLike) -> HostArray:
        """The number log det (K + μI) for each μ.

        With a border, the determinant on the complement of s: that of the restricted likelihood. NaN
        where K + μI is not positive definite.
        """

    def definite(self, alphas: ArrayLike) -> Flags:
        """Whether K + μI is positive definite, for each μ; most smoothers solve no other systems."""
        return np.ones(np.size(alphas), dtype=np.bool_)


class Reordered(Smoother):
    """The smoother `inner` of the rows taken in `order`, for rows in their own order."""

    def __init__(self, inner: Smoother, order: Index) -> None:
        super().__init__(inner.n, inner.border)
        self.inner = inner
        self.order = order  # the row in each place
        self.place = np.empty_like(order)  # the place of each row
        self.place[order] = np.arange(order.size)

    def residuals(self, Y: Array, alphas: ArrayLike) -> Array:
        return reorder_in_place(self.inner.residuals(take_rows(Y, self.order), alphas), self.place)

    def leave_one_out(self, Y: Array, alphas: ArrayLike) -> Array:
        return reorder_in_place(self.inner.leave_one_out(take_rows(Y, self.order), alphas), self.place)

    def heldout(self, Y: Array, parts: Sequence[Index], alphas: ArrayLike) -> list[Array]:
        places = [self.place[rows] for rows in parts]
        orders = [np.argsort(p) for p in places]
        ascending = [p[order] for p, order in zip(places, orders)]
        predictions = self.inner.heldout(take_rows(Y, self.order), ascending, alphas)
        return [reorder_in_place(f, np.argsort(order)) for f, order in zip(predictions, orders)]

    def trace(self, alphas: ArrayLike) -> HostArray:
        return self.inner.trace(alphas)

    def logdet(self, alphas: ArrayLike) -> HostArray:
        return self.inner.logdet(alphas)

    def definite(self, alphas: ArrayLike) -> Flags:
        return self.inner.definite(alphas)


# -- what counts as rounding in the eigenvalues of a kernel matrix -------------------------------------


@dataclass(frozen=True)
class Rounding:
    r"""Which negative eigenvalues of a kernel matrix are rounding, and what makes it indefinite.

    The matrix that is decomposed may be centred, and then far smaller than the kernel matrix whose
    rounding it carries: sizes are relative to max(|λ|_max, scale).
    """

    # A matrix with eigenvalues further below 0 is indefinite; infinite for a kernel that is positive
    # semi-definite by construction, where every negative eigenvalue is rounding.
    tolerance: float
    scale: float = 0.0  # size of what was subtracted before the decomposition

    def noise(self, values: Array) -> float:
        """Eigenvalues up to this size are rounding: of the decomposition, and of the matrix itself."""
        xp = namespace(values)
        return _NOISE * max(float(xp.max(xp.abs(values))), self.scale)

    def without_rounding(self, values: Array) -> Array:
        """The eigenvalues, negative ones of the size of float64 rounding set to 0; raise if indefinite.

        Negative ones between these sizes, as in a matrix that was computed in single precision, are
        kept: a ridge must make up for them.
        """
        if values.shape[0] == 0:
            return values
        xp = namespace(values)
        smallest = float(xp.min(values))
        size = max(float(xp.max(xp.abs(values))), self.scale)
        if smallest < 0 and smallest < -self.tolerance * size:
            raise not_psd(smallest)
        zero = _FLOAT64_ROUNDING * values.shape[0] * size
        if math.isinf(self.tolerance):
            zero = -min(smallest, 0.0)
        return xp.where((values < 0) & (values >= -zero), xp.zeros_like(values), values)


# For kernels that are positive semi-definite by construction.
PSD = Rounding(math.inf)
# For all other kernels, such as a user's matrix or function: half of the digits must agree.
CHECKED = Rounding(math.sqrt(_EPS))


def not_psd(smallest: float) -> UnsolvableError:
    """The error for an indefinite kernel matrix."""
    return UnsolvableError(
        f"the kernel matrix is not positive semi-definite (smallest eigenvalue {smallest:.3g}); use a "
        "positive semi-definite kernel, a larger alpha, or add to the diagonal of a precomputed one."
    )


# -- which factorisation -------------------------------------------------------------------------------

Need = Literal["coefficients", "heldout"]
# Rows above which memory matters more than threads over kernels.
LARGE = 4096
# Rows above which a GPU's eigendecomposition takes still longer, between the last two measured sizes.
_HUGE = 15_000
# Arrays of n × n at the peak of NumPy's eigendecomposition, which threads share: it copies the matrix.
_SHARED_EIGEN_ARRAYS = 5
# The same of SciPy's, which overwrites the matrix.
_EIGEN_ARRAYS = 2.7
# The same on a GPU.
_GPU_EIGEN_ARRAYS = 5
# Arrays of n × n of a Cholesky factorisation for one ridge: the factor takes the place of K.
_ONE_FACTOR = 1
# The same for several ridges and, on the host, for held-out rows: K stays for the next factor.
_FACTOR_AND_MATRIX = 2
# Blocks of a fold's rows that exist at once, on the host and on a GPU.
_HOST_BLOCKS = 1
_GPU_BLOCKS = 3


@dataclass(frozen=True)
class Route:
    """The factorisation of one kernel matrix, and why."""

    name: Literal["eigen", "cholesky", "low rank"]
    cost: float  # in n³ multiply-adds, on a GPU in Cholesky factorisations; an upper bound for low rank
    reason: str
    n: int
    ridges: int
    gpu: bool

    def matrices(self, folds: int) -> float:
        """Arrays of n × n at the peak of the factorisation, with this many folds (0: only a fit)."""
        factors: float = _ONE_FACTOR if self.ridges == 1 else _FACTOR_AND_MATRIX
        if self.gpu:
            factors = _GPU_EIGEN_ARRAYS if self.name == "eigen" else factors
            return factors + _fold_arrays(folds, _GPU_BLOCKS)
        if self.name == "eigen":
            return _SHARED_EIGEN_ARRAYS if self.n <= LARGE else _EIGEN_ARRAYS
        if not folds:
            return factors
        return _FACTOR_AND_MATRIX + _fold_arrays(folds, _HOST_BLOCKS)


def _fold_arrays(folds: int, blocks: int) -> float:
    """The columns of a fold and so many blocks of its rows, in arrays of n × n."""
    return 1 / folds + blocks / folds**2 if folds > 1 else 0.0


def choose_route(
    n: int, ridges: int, need: Need, *, gpu: bool = False, uneven: bool = False, rank: int | None = None
) -> Route:
    r"""How the kernel matrix of a model is factorised, decided once, for all its ridge values.

    The first line that applies:

    ======================================  ==========  ==========================================
    the matrix, and what is needed of it    route       because
    ======================================  ==========  ==========================================
    weights of very different size          cholesky    a decomposition would lose their digits
    numerical rank r ≤ n/3, held-out rows   low rank    a thin factor costs n r²
    triangles cost less (below)             cholesky    few ridge values
    otherwise                               eigen       one decomposition serves every ridge value
    ======================================  ==========  ==========================================

    A ridge value takes one triangle, its Cholesky factor L, for coefficients and residuals, and a second
    one, L⁻¹, for the diagonal, blocks and the trace. Costs are in n³ multiply-adds at the speed of a
    large matrix product on a host, measured on a 2-core AVX-512 machine with OpenBLAS; on a GPU, where
    most of an eigendecomposition is not made of products while L⁻¹ comes at their speed, in Cholesky
    factorisations, measured on an H200 in float64 at n = 1000, 10,000 and 20,000 (L⁻¹: an upper bound
    from its n³/3 multiply-adds):

    ==================  ==============  ==============  =============  ===============  ==========
    \                   host, n ≤ 4096  host, n > 4096  GPU, n ≤ 4096  GPU, n ≤ 15,000  GPU, above
    ==================  ==============  ==============  =============  ===============  ==========
    eigendecomposition  12              12              24             36               77
    triangle            0.6             0.45            1              1                1
    ==================  ==============  ==============  =============  ===============  ==========

    `need` says whether solving is enough, or the diagonal or blocks of R are needed too; `uneven`, that
    weights of very different size have graded the rows; `rank` is known where there is a thin factor.
    """
    if gpu:
        eigen = 24.0 if n <= LARGE else 36.0 if n <= _HUGE else 77.0
        triangle = 1.0
    else:
        eigen = 12.0
        triangle = 0.45 if n > LARGE else 0.6
    triangles = ridges * (2 if need == "heldout" else 1) * triangle
    name: Literal["eigen", "cholesky", "low rank"]
    if uneven:
        name = "cholesky"
        cost = triangles
        reason = "weights of very different size, which an eigendecomposition would treat inaccurately"
    elif rank is not None:
        name = "low rank"
        cost = min(eigen, triangles)
        reason = f"numerical rank {rank} of {n}"
    else:
        name, cost = ("cholesky", triangles) if triangles < eigen else ("eigen", eigen)
        unit = "factorisations" if gpu else "n³"
        reason = (
            f"{ridges} ridge value{'s' if ridges != 1 else ''}: Cholesky {triangles:.1f} {unit} "
            f"against {eigen:.1f} {unit} for one eigendecomposition"
        )
    return Route(name, cost, reason, n, ridges, gpu)
