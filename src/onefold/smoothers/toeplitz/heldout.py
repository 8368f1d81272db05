r"""Residuals of rows held out together: e_J = (G_b⁻¹)_JJ⁻¹ (G_b⁻¹ y)_J.

Small blocks are formed from the generators of the inverse. Large ones are never formed: conjugate
gradients on G⁻¹_JJ, whose product is that of G⁻¹ between zero padding and cutting. Where J consists
of long runs, its inverse is G_JJ up to what the rows at the ends of the runs know, so G_JJ is the
preconditioner; scattered rows are all but determined by their neighbours and need none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from onefold.smoothers.base import UnsolvableError
from onefold.smoothers.toeplitz.inverse import GohbergSemencul
from onefold.smoothers.toeplitz.iterate import refined_gradients
from onefold.smoothers.toeplitz.products import SymmetricToeplitz, scatter
from onefold.smoothers.toeplitz.solve import DENSE

_LONG_RUN = 16  # rows in a run, on average, from which G_JJ pays as a preconditioner
_LIMIT = 2000
_ENOUGH = 1e-7  # the inverse itself is known to the solver's tolerance times a condition number


class Border:
    """G_b⁻¹ = G⁻¹ − g gᵀ / (1ᵀg), g = G⁻¹1."""

    def __init__(self, g: Any) -> None:
        self.g = g
        self.total = float(g.sum())

    def vectors(self, X: Any) -> Any:
        """G⁻¹Y → G_b⁻¹Y, by rows."""
        return X - (X.sum(axis=1) / self.total)[:, None] * self.g

    def diagonal(self, diagonal: Any) -> Any:
        return diagonal - self.g**2 / self.total


def heldout_residuals(
    toeplitz: SymmetricToeplitz,
    inverse: GohbergSemencul,
    mu: float,
    W: Any,
    border: Border | None,
    rows: Any,
    tolerance: float,
    whole: Any | None,
) -> tuple[Any, float]:
    """Residuals (targets, |J|) of the rows J left out together, and how well their system is solved.

    Parameters
    ----------
    W : array (targets, n)
        G_b⁻¹ Y.
    whole : array (n, n) or None
        The dense G⁻¹ where n is small.
    """
    if np.any(np.diff(rows) < 0):
        raise ValueError("held-out rows must be in ascending order.")
    contiguous = rows.size > 0 and rows[-1] - rows[0] + 1 == rows.size
    if whole is not None:
        return _dense(whole[np.ix_(rows, rows)], W[:, rows], border, rows), 0.0
    if contiguous and rows.size <= DENSE:
        return _dense(inverse.block(rows[0], rows[-1] + 1), W[:, rows], border, rows), 0.0
    return _iterated(toeplitz, inverse, mu, W[:, rows], border, rows, tolerance)


def _dense(block: Any, W: Any, border: Border | None, rows: Any) -> Any:
    if border is not None:
        part = border.g[rows]
        block -= part[:, None] * (part / border.total)[None, :]
    try:
        return scipy.linalg.solve(block, W.T, assume_a="pos", check_finite=False).T
    except np.linalg.LinAlgError:
        raise UnsolvableError(
            f"the block of {rows.size} held-out rows of the Toeplitz matrix's inverse is not positive "
            "definite; use a larger alpha."
        ) from None


def _iterated(
    toeplitz: SymmetricToeplitz,
    inverse: GohbergSemencul,
    mu: float,
    W: Any,
    border: Border | None,
    rows: Any,
    tolerance: float,
) -> tuple[Any, float]:
    n = toeplitz.n
    B = W if border is None else np.vstack([W, border.g[rows][None]])
    runs = 1 + int(np.count_nonzero(np.diff(rows) > 1))

    def product(V: Any) -> Any:
        return inverse.product(scatter(V, rows, n))[:, rows]

    def precondition(V: Any) -> Any:
        if rows.size < _LONG_RUN * runs:
            return V.copy()
        return toeplitz.product(scatter(V, rows, n), mu)[:, rows]

    settings: dict[str, Any] = {"tolerance": tolerance, "norm": 1.0 / mu, "limit": _LIMIT}
    found = refined_gradients(product, precondition, B, start=None, **settings)
    if found.state != "converged" and found.residual > _ENOUGH:
        raise UnsolvableError(
            f"the held-out block of {rows.size} rows did not converge (residual {found.residual:.2g}); "
            'use cv="loo", more folds, or a larger alpha.'
        )
    if border is None:
        return found.X, found.residual
    E, h, g = found.X[:-1], found.X[-1], border.g[rows]
    return E + ((E @ g) / (border.total - g @ h))[:, None] * h, found.residual
