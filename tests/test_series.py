"""Forecasting through skforecast, as the guide to time series shows; its lag table runs there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "series.md"


@pytest.mark.filterwarnings("ignore")
def test_skforecast_around_our_estimators() -> None:
    pytest.importorskip(
        "skforecast", reason="skforecast needs pandas below 3: an environment of its own"
    )
    (block,) = [
        text
        for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
        if "skforecast" in text
    ]
    exec(compile(block, "series.md", "exec"), {"__name__": "block"})
