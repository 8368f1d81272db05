"""Fitted machines by name, and no window left open."""

from __future__ import annotations

import matplotlib
import pytest
from matplotlib import pyplot as plt
from plotted_machines import fitted

matplotlib.use("Agg")


@pytest.fixture
def fit():
    return fitted


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")
