"""Held-out predictions for any splitter, without refitting."""

from onefold.heldout.gap import GapKFold
from onefold.heldout.predictions import gather, heldout_predictions
from onefold.heldout.splits import Splits, check_folds, make_splits

__all__ = ["GapKFold", "Splits", "check_folds", "gather", "heldout_predictions", "make_splits"]
