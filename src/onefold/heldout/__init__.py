"""Held-out predictions for any splitter, without refitting."""

from onefold.heldout.gap import GapKFold
from onefold.heldout.predictions import gather, heldout_predictions
from onefold.heldout.splits import Splits, make_splits

__all__ = ["GapKFold", "Splits", "gather", "heldout_predictions", "make_splits"]
