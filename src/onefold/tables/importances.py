"""The share of every table column in what a model goes by."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.tables.prepare import Preparation


def column_importances(
    features: Any | None, preparation: Preparation, most: int | None = None
) -> dict[str, float] | None:
    """Shares of the columns by name, the greatest first, and no more than `most` of them.

    The features of a column are added up. None for a model without a metric.
    """
    if features is None:
        return None
    features = np.asarray(features, dtype=np.float64)
    shares = {name: float(features[part].sum()) for name, part in preparation.spans()}
    greatest = sorted(shares, key=lambda name: -shares[name])[:most]
    return {name: shares[name] for name in greatest}
