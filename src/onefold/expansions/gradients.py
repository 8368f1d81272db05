r"""M = Σ_i v_i Σ_t ∇f_t(x_i) ∇f_t(x_i)ᵀ / Σ_i v_i: the average outer product of gradients.

Its diagonal says how strongly f varies along each feature, the whole matrix along which directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.expansions.kernel import FittedFunction
from onefold.kernels.tiles import block_rows
from onefold.linalg import Array, is_sparse, like, namespace, to_numpy
from onefold.machine.threads import check_stop, even_spans, limit_blas


def outer_gradients(
    expansion: FittedFunction, X: Array, weight: Any | None = None, *, diagonal: bool
) -> Any:
    r"""M of the module's formula, as a NumPy float64 array (d, d), or its diagonal (d,).

    Parameters
    ----------
    expansion : FittedFunction
    X : array or CSR matrix (rows, d)
        NumPy rows, or rows of another library: the sums are then taken on their device.
    weight : NumPy array (rows,), optional
        v_i ≥ 0; 1 for every row if None.
    diagonal : bool
        Only M_jj: O(rows · d · targets) time and O(d) memory besides the gradients, and the only part
        of M that sparse rows have.

    Notes
    -----
    The gradients of a block of rows are held at a time, within scikit-learn's ``working_memory``.
    Threads are those of ``gradient``, which keeps the budget it is called in.
    """
    n, d = X.shape
    total = float(n) if weight is None else float(np.sum(weight))
    if not total > 0:
        raise ValueError("the average outer product of gradients needs a row of positive weight.")
    if is_sparse(X) and not diagonal:
        raise ValueError(
            "sparse rows have a diagonal metric alone, as a full one would mix all their columns into "
            'dense ones; use metric="diagonal", or dense rows.'
        )

    def gradients_of(part: slice) -> Array:
        return expansion.gradient(X[part] if is_sparse(X) else X[part, :])

    root = None if weight is None else np.sqrt(np.asarray(weight, dtype=np.float64))
    moment: Any = 0.0
    targets = gradients_of(slice(0, 0)).shape[2]
    for part in even_spans(n, block_rows(d * targets)):
        check_stop()
        gradients = gradients_of(part)
        if root is not None:
            gradients = gradients * like(root[part], gradients)[:, None, None]
        xp = namespace(gradients)
        if diagonal:
            moment = moment + xp.sum(gradients * gradients, axis=(0, 2))
            continue
        flat = xp.reshape(xp.permute_dims(gradients, (0, 2, 1)), (-1, d))
        with limit_blas(1):  # the same digits for any number of threads
            moment = moment + flat.T @ flat
    return np.asarray(to_numpy(moment), dtype=np.float64) / total
