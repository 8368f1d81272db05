"""The families of kernels that an estimator chooses among, and their widths relative to the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.kernels import Kernel, Matern, Precomputed, resolve_kernel
from onefold.linalg import is_sparse
from onefold.search import Family

AUTO = ("rbf", "matern12", "laplacian")
RELATIVE_GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# Matérn's kernel of ν = 1/2 and a small width is 1 − γ‖x − z‖: what counts is μ/γ, both may be small.
RELATIVE_ALPHAS = 2.0 ** np.arange(-21, 6, 2)
_FLATTEST = 1e-50  # the square of a width must not leave the range of float64


def names_families(kernel: Any) -> bool:
    """Whether the parameter stands for several kernels to choose among."""
    return kernel == "auto" if isinstance(kernel, str) else isinstance(kernel, list | tuple)


def families_of(estimator: Any, X: Any = None) -> list[Family]:
    """Name and kernel of each family; of "auto" those that can take the rows."""
    given = estimator.kernel
    if not names_families(given):
        given = [given]
    automatic = isinstance(given, str)
    members: Sequence[Any] = AUTO if automatic else list(given)
    if not members:
        raise ValueError("kernel is an empty list; name at least one kernel.")
    kernels = [resolve_kernel(one, 1.0, estimator.degree, estimator.coef0) for one in members]
    if len(kernels) > 1 and any(isinstance(kernel, Precomputed) for kernel in kernels):
        raise ValueError("a precomputed kernel matrix cannot be one of several kernels; give it alone.")
    if automatic and is_sparse(X):
        kernels = [kernel for kernel in kernels if kernel.accepts_sparse]
    found: list[Family] = []
    for kernel in kernels:
        name = _name(kernel)
        same = sum(known == name or known.startswith(f"{name} #") for known, _ in found)
        found.append((name if not same else f"{name} #{same + 1}", kernel))
    return found


def takes_sparse(estimator: Any) -> bool:
    """Whether CSR rows can be fitted: all kernels that were named must take them; "auto" has some."""
    try:
        kernels = [kernel for _, kernel in families_of(estimator)]
    except (TypeError, ValueError):  # `fit` will say what is wrong
        return False
    some = any if isinstance(estimator.kernel, str) else all
    return some(kernel.accepts_sparse for kernel in kernels)


def _name(kernel: Kernel) -> str:
    """How a kernel is called in a table of results."""
    if isinstance(kernel, Matern):
        return f"matern{int(2 * kernel.nu)}2"
    own = ("RBF", "Laplacian", "Polynomial", "Linear")
    name = type(kernel).__name__
    return name.lower() if name in own else f"{kernel!r:.40}"


def relative_widths(estimator: Any) -> list[float]:
    """The widths to try, relative to the mean distance."""
    given = RELATIVE_GAMMAS if estimator.gammas is None else estimator.gammas
    values = np.atleast_1d(np.asarray(given, dtype=object)).tolist()
    if not values:
        raise ValueError("gammas must be a non-empty list of positive numbers; got [].")
    for value in values:
        real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not real or not 0 < float(value) < np.inf:
            raise ValueError(
                "with several kernels or a learned metric gammas are numbers greater than 0, relative "
                f"to the mean distance of the rows; got {value!r}."
            )
        if not _FLATTEST <= float(value) <= 1 / _FLATTEST:
            raise ValueError(
                f"gammas are relative to the mean distance of the rows; {value!r} is too far from 1."
            )
    return [float(value) for value in values]
