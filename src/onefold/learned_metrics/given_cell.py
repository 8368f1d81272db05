r"""Rounds at a width and a ridge that are given: nothing is chosen, and so nothing is held out.

round 0      the kernel as it is
round r      the model of all rows in round r − 1 gives the metric, and the width follows it: the mean
exponent over the rows stays what the given width made it in round 0
"""

from __future__ import annotations

from typing import Any

from onefold.approximations import Run
from onefold.kernels import Kernel
from onefold.learned_metrics.rounds import first_round, next_round
from onefold.learned_metrics.tracks import Track


def kernels_of_rounds(track: Track, run: Run, alpha: Any, count: int, seed: int) -> list[Kernel]:
    """The kernels of round 0 to `count`, each learned from the model of the one before.

    `count` fits of all rows, and the gradients of each; the last kernel is not fitted with yet.

    Parameters
    ----------
    track : Track
        The kernel at its own width, and the kind of its metric.
    run : Run
    alpha : float or array (targets,)
        The user's.
    count : int
    seed : int
        Of the rows at which gradients are taken.
    """
    last = first_round(track, run.problem, seed)
    width, ridge = last.whole.mean_exponent, run.problem.ridge(alpha)
    kernels = [last.whole.at(width)]
    for _ in range(count):
        last = next_round(last, run, [], width, ridge, seed, whole=True)
        kernels.append(last.whole.at(width))
    return kernels
