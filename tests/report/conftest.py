"""Reports without pictures, which take most of the time, unless a test asks for them."""

from __future__ import annotations

import pytest


@pytest.fixture
def pictures() -> None:
    """Asks for pictures."""


@pytest.fixture(autouse=True)
def _without_pictures(request, monkeypatch):
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr("onefold.report.report.pictures_of", lambda estimator, y: ([], None))
