r"""What counts as rounding in the eigenvalues of a kernel matrix, and what makes it indefinite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onefold.linalg import Array, namespace, take_rows, to_numpy
from onefold.smoothers.base import UnsolvableError

ROUNDING = float(np.sqrt(np.finfo(np.float64).eps))
_NOISE = 8 * float(np.finfo(np.float64).eps)  # of the largest eigenvalue
BELOW = 100.0  # times the noise: a smaller ridge would be decided by it
_FLOAT64_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Rounding:
    r"""Which negative eigenvalues of a kernel matrix are rounding.

    The matrix that is decomposed may be centred, and then far smaller than the kernel matrix whose
    rounding it carries: sizes are relative to max(|λ|_max, scale).

    Attributes
    ----------
    tolerance : float
        A matrix with eigenvalues further below 0 is indefinite; infinite for a kernel that is positive
        semi-definite by construction, where every negative eigenvalue is rounding.
    scale : float
        Size of what was taken off before the decomposition.
    """

    tolerance: float
    scale: float = 0.0

    def noise(self, values: Array) -> float:
        """Eigenvalues up to this size are rounding: of the decomposition, and of the matrix itself."""
        if values.shape[0] == 0:
            return 0.0
        xp = namespace(values)
        return _NOISE * max(float(xp.max(xp.abs(values))), self.scale)

    def settled(self, values: Array) -> Array:
        """The eigenvalues with those at the rounding of float64 set to 0; raise if indefinite.

        What lies between, as in a matrix that was computed in single precision, is kept: a ridge
        must make up for it.
        """
        if values.shape[0] == 0:
            return values
        xp = namespace(values)
        smallest = float(xp.min(values))
        size = max(float(xp.max(xp.abs(values))), self.scale)
        if smallest < 0 and smallest < -self.tolerance * size:
            raise UnsolvableError(not_psd_message(smallest))
        zero = _FLOAT64_ROUNDING * values.shape[0] * size
        if math.isinf(self.tolerance):
            zero = -min(smallest, 0.0)
        return xp.where((values < 0) & (values >= -zero), xp.zeros_like(values), values)


PSD = Rounding(math.inf)
GIVEN = Rounding(ROUNDING)


def check_spectrum(values: Array, tolerance: float = ROUNDING) -> None:
    """Raise if the eigenvalues are those of an indefinite matrix, beyond rounding."""
    Rounding(tolerance).settled(values)


def psd_probe(K: Array, tolerance: float, size: int = 256) -> None:
    """Raise early, from a principal submatrix, if a kernel that the user brought is indefinite.

    O(size³): a negative eigenvalue of a submatrix proves one of the whole (interlacing).
    """
    n = K.shape[0]
    pick = np.unique(np.linspace(0, n - 1, min(n, size)).astype(int))
    part = to_numpy(take_rows(K, pick))[:, pick]
    check_spectrum(np.linalg.eigvalsh(part), tolerance)


def not_psd_message(smallest: float) -> str:
    """The sentence for an indefinite kernel."""
    return (
        f"the kernel matrix is not positive semi-definite (smallest eigenvalue {smallest:.3g}); use a "
        "positive semi-definite kernel, a larger alpha, or add to the diagonal of a precomputed one."
    )
