"""Held-out predictions for any splitter, without refitting."""

from onefold.heldout.predictions import (
    HeldoutBlock,
    by_split,
    gather,
    heldout_blocks,
    mean_by_row,
    whole_parts,
)
from onefold.heldout.splits import GapKFold, Splits, check_folds, make_splits

__all__ = [
    "GapKFold",
    "HeldoutBlock",
    "Splits",
    "by_split",
    "check_folds",
    "gather",
    "heldout_blocks",
    "make_splits",
    "mean_by_row",
    "whole_parts",
]
