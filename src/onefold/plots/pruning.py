"""The held-out score of a sparse machine against its number of centres."""

from __future__ import annotations

from typing import Any

import numpy as np


def pruning_path(estimator: Any, ax: Any = None) -> Any:
    """Draw ``estimator.path_`` with its spread over folds and the chosen size; returns the axes.

    Needs matplotlib (``pip install onefold[plot]``).
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "onefold[plot]"') from error

    ax = plt.subplots()[1] if ax is None else ax
    path = estimator.path_
    sizes, mean, spread = path["n_centres"], path["mean_test_score"], path["std_test_score"]
    ax.fill_between(sizes, mean - spread, mean + spread, alpha=0.2, linewidth=0)
    ax.plot(sizes, mean, marker=".", label="held-out score")
    chosen = int(np.flatnonzero(sizes == estimator.n_centres_)[0])
    ax.plot(sizes[chosen], mean[chosen], "o", fillstyle="none", markersize=11, color="C3",
            label=f"chosen: {sizes[chosen]} centres")  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlabel("number of centres")
    ax.set_ylabel("held-out score (greater is better)")
    ax.legend()
    return ax
