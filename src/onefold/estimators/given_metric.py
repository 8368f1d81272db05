"""A metric that is learned at given hyper-parameters: what may be asked for, and the rounds."""

from __future__ import annotations

from typing import Any

from onefold.approximations import Approximation, Problem, Run
from onefold.estimators.families import names_families
from onefold.estimators.setting_up import check_count, check_learnable
from onefold.kernels import Kernel
from onefold.learned_metrics import Track, kernels_of_rounds, tracks_of


def refuse_choices(estimator: Any, chooser: str) -> None:
    """Raise where something is to be chosen, and name the estimator that does so."""
    own = type(estimator).__name__
    if names_families(estimator.kernel):
        raise ValueError(
            f"{own} takes one kernel, and got {estimator.kernel!r:.60}; use {chooser}, which chooses "
            "among several."
        )
    metric = estimator.metric
    if metric is not None and not (isinstance(metric, str) and metric in ("diagonal", "full")):
        raise ValueError(
            f'{own} learns a metric "diagonal" or "full", or none (None), and got {metric!r:.60}; use '
            f"{chooser} to choose among them."
        )


def track_of(
    estimator: Any, kernel: Kernel, approximation: Approximation, problem: Problem
) -> Track | None:
    """What is learned, None for nothing; raise if it cannot be."""
    metric = estimator.metric
    if metric is None:
        return None
    check_learnable(approximation, streamed=problem.streamed)
    check_count("max_rounds", estimator.max_rounds)
    [track] = tracks_of([(f"{kernel!r:.40}", kernel)], metric, problem.X)
    if track.kind != metric:
        raise ValueError(
            f'{kernel!r:.60} has no {metric} metric; use metric="{track.kind}", or another kernel.'
        )
    return track


def learn(track: Track, run: Run, alpha: Any, rounds: int, seed: int) -> tuple[Kernel, dict[str, Any]]:
    """The kernel of the last round, and what a report says of all."""
    kernels = kernels_of_rounds(track, run, alpha, rounds, seed)
    told = [
        {"round": number, "metric": track.kind if number else "none", "gamma": _width(kernel)}
        for number, kernel in enumerate(kernels)
    ]
    return kernels[-1], {"rounds": told}


def _width(kernel: Any) -> float:
    return float(kernel.gamma)
