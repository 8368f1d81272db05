"""Metrics learned from the gradients of fitted expansions, honestly: each fold has its own."""

from onefold.learned_metrics.crossfitted import CrossFitted
from onefold.learned_metrics.gradient_metric import gradient_metric, importances
from onefold.learned_metrics.rounds import Fitted, Round, first_round, next_round
from onefold.learned_metrics.tracks import Track, tracks_of

__all__ = [
    "CrossFitted",
    "Fitted",
    "Round",
    "Track",
    "first_round",
    "gradient_metric",
    "importances",
    "next_round",
    "tracks_of",
]
