"""Data and fits that the tests of Dask's rows share; without Dask none of them is collected."""

from __future__ import annotations

import importlib.util

import pytest
from dask_tables import Table

from onefold.approximations import Nystroem

collect_ignore_glob = []
if importlib.util.find_spec("dask") is None or importlib.util.find_spec("distributed") is None:
    collect_ignore_glob = ["test_dask_*.py"]


@pytest.fixture(scope="session")
def table() -> Table:
    return Table()


@pytest.fixture
def landmarks() -> Nystroem:
    return Nystroem(40, method="uniform")


@pytest.fixture
def summed(monkeypatch) -> None:
    """Models from sums over rows, however few."""
    import onefold.approximations.nystroem as coordinates

    monkeypatch.setattr(coordinates, "uses_factors", lambda n, m: False)


@pytest.fixture(params=["factors", "whitened sums", "sums"])
def training(request, monkeypatch) -> str:
    """Every way of training a basis model, whatever the size of the table."""
    import onefold.approximations.nystroem as coordinates

    if request.param != "factors":
        monkeypatch.setattr(coordinates, "uses_factors", lambda n, m: False)
    if request.param == "sums":
        monkeypatch.setattr(coordinates, "_SMALL_WORK", 0)
        monkeypatch.setattr(coordinates, "_MEDIUM_WORK", 0)
    return request.param
