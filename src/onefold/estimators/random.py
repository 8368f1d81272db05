"""One seed behind whatever scikit-learn calls a random state."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

_SEEDS = 2**31


def seed_of(random_state: Any) -> int | None:
    """The number itself, or one drawn from a generator; None where nothing is given."""
    if random_state is None:
        return None
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_SEEDS))
    generator = check_random_state(random_state)  # raises for anything else
    given = isinstance(random_state, numbers.Integral)
    return int(random_state) if given else int(generator.randint(_SEEDS))
