"""Everything follows X: what is learned from rows of another array library is in that library too."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from onefold.approximations import resolve_approximation
from onefold.linalg import is_foreign, like, to_numpy
from onefold.rows import is_dask


def follow(estimator: Any, X: Any) -> None:
    """Bring fitted arrays of numbers to the library and the device of X; labels stay in NumPy.

    What sits inside dicts, as in ``cv_results_``, is for reading and stays in NumPy. So does what comes
    of Dask's rows: it was brought together here.
    """
    if not is_foreign(X) or is_dask(X):
        return
    for name, value in vars(estimator).items():
        fitted = name.endswith("_") and not name.startswith("_")
        if fitted and isinstance(value, np.ndarray) and value.dtype.kind == "f" and name != "classes_":
            setattr(estimator, name, like(value, X))


def on_host(estimator: Any) -> Any:
    """The estimator with its fitted arrays in NumPy, for whoever reads them: itself, or a copy."""
    foreign = {name: value for name, value in vars(estimator).items() if is_foreign(value)}
    if not foreign:
        return estimator
    found = copy(estimator)
    for name, value in foreign.items():
        setattr(found, name, to_numpy(value))
    return found


def takes_any_library(estimator: Any) -> bool:
    """Whether rows of every library of the array API standard can be fitted: the tag of scikit-learn."""
    try:
        chosen = resolve_approximation(getattr(estimator, "approximation", "exact"))
    except (TypeError, ValueError):  # `fit` will say what is wrong
        return False
    return chosen.name != "cg"  # whose tiles are NumPy's
