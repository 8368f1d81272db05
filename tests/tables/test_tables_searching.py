"""What the settings mean for the search, and what does not go together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from onefold.approximations import Toeplitz
from onefold.report import write_report
from onefold.search import FullGrid, GridEdgeWarning
from onefold.search.strategies import STRATEGIES
from onefold.tables import TableRegressor
from onefold.tables.searching import SearchSettings, search_of


def searched(*, on_disk: bool = False, **options) -> SearchSettings:
    return search_of(TableRegressor(**options), on_disk=on_disk)


@pytest.mark.parametrize(
    ("options", "kernel", "metric", "blend"),
    [
        ({}, "auto", "auto", True),
        ({"kernel": "rbf"}, ["rbf"], "auto", True),
        ({"kernel": ["rbf", "linear"]}, ["rbf", "linear"], "auto", True),
        ({"kernel": ["rbf", "rbf"]}, ["rbf"], "auto", True),
        ({"kernel": "linear"}, ["linear"], None, False),
        ({"kernel": "linear", "blend": True}, ["linear"], None, True),
        ({"kernel": "rbf", "metric": "none"}, ["rbf"], None, False),
        ({"metric": "none"}, "auto", None, True),
        ({"metric": "diagonal", "blend": False}, "auto", "diagonal", False),
        ({"simple": True}, "rbf", None, False),
        ({"simple": True, "kernel": "laplacian", "metric": "none"}, "laplacian", None, False),
    ],
)
def test_what_is_searched(options, kernel, metric, blend):
    alone = metric is None and not blend  # one kernel as it is
    assert searched(**options) == SearchSettings(
        kernel, metric, blend, search="halving" if alone else "grid"
    )
    assert searched(**options, search="grid").search == "grid"


@pytest.mark.parametrize(
    ("options", "kernel", "words"),
    [
        ({"cv": "loo"}, "auto", "no metric and no blend: leave-one-out holds out single rows"),
        ({"cv": "loo", "kernel": ["rbf", "linear"]}, ["rbf", "linear"], "no metric and no blend"),
        ({"criterion": "gcv"}, "auto", "the criterion 'gcv' does not hold out rows"),
        ({"approximation": "toeplitz"}, "rbf", "plain search of the rbf kernel: the approximation "),
        ({"approximation": "grid", "kernel": ["rbf", "matern"]}, ["rbf", "matern"], "no metric and no"),
        ({"on_disk": True}, "rbf", "are kept on disk"),
    ],
)
def test_the_default_gives_way_with_a_note(options, kernel, words):
    found = searched(**options)
    assert (found.kernel, found.metric, found.blend) == (kernel, None, False)
    assert words in found.note


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"simple": True, "kernel": ["rbf", "linear"]},
            "a list of kernels is not available: a simple search uses one",
        ),
        ({"simple": True, "metric": "full"}, "a full metric is not available"),
        ({"cv": "loo", "blend": True}, "a blend is not available: leave-one-out .*; drop one"),
        ({"criterion": "press", "metric": "full"}, "a full metric is not available: the criterion"),
        ({"approximation": "circulant", "blend": True}, "a blend is not available: the approximation"),
        ({"on_disk": True, "blend": True}, "a blend is not available: the rows"),
        ({"kernel": "linear", "metric": "full"}, "a full metric cannot be learned with 'linear'"),
        ({"kernel": "laplacian", "metric": "full"}, "laplacian a diagonal one"),
        ({"intervals": "jackknife+"}, r"metric or a blend; use simple=True, or intervals='cv\+'"),
        ({"intervals": "jackknife+", "blend": False}, "not available with a learned metric or a blend"),
        ({"kernel": "linear", "gammas": [1.0]}, "has no width"),
    ],
)
def test_what_does_not_go_together(options, words):
    with pytest.raises(ValueError, match=words):
        searched(**options)


def test_other_ways_through_a_grid_need_kernels_as_they_are(monkeypatch):
    """What they can do is for them to say."""
    monkeypatch.setitem(STRATEGIES, "elsewhere", FullGrid)
    with pytest.raises(ValueError, match=r"'elsewhere' .* use simple=True, metric='none', or leave"):
        searched(search="elsewhere")
    with pytest.raises(ValueError, match="drop one of the two"):
        searched(search="elsewhere", metric="none", blend=True)
    found = searched(search="elsewhere", metric="none")
    assert found == SearchSettings(
        "auto", None, False, "no blend: search 'elsewhere' keeps one kernel", "elsewhere"
    )
    for given in ({"metric": "none", "kernel": "rbf"}, {"simple": True}):
        assert searched(search="elsewhere", **given).note is None
    assert searched(search="elsewhere", on_disk=True).kernel == "rbf"


@pytest.mark.parametrize(
    "options",
    [{"approximation": Toeplitz()}, {"criterion": ["gcv", "mse"]}, {"approximation": "grid"}],
    ids=str,
)
def test_halving_only_where_some_of_the_rows_can_be_searched(options):
    """Otherwise the grid, as it is by name."""
    assert searched(simple=True, **options).search == "grid"
    assert searched(simple=True).search == "halving"


def test_the_end_of_a_grid_is_told_in_words_for_tables():
    """Users of tables were told to standardise features, which a table's model does itself."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80)})
    frame["y"] = np.sin(3 * frame.a) + 0.01 * rng.normal(size=80)
    grid = {"gammas": [1e-4, 1e-3, 1e-2], "alphas": [1e-6, 1e-3, 1.0]}
    model = TableRegressor(simple=True, kernel="rbf", **grid)
    with pytest.warns(GridEdgeWarning) as told:
        model.fit(frame, "y")
    words = str(told[0].message)
    assert "the largest gamma" in words
    assert "standardise" not in words
    assert "extend the grid: gammas=" in words
    assert "--gammas" in words
    note = next(one for one in model.report_["notes"] if "that it tried" in one)
    assert "the largest gamma" in note
    assert "--gammas" in note


def test_missing_importances_have_a_reason(monkeypatch):
    """They were None without a word, and the report advised to learn the metric that was learned."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    frame["y"] = np.sin(frame.a) + 0.1 * rng.normal(size=40)
    options = {"kernel": "rbf", "metric": "diagonal", "gammas": [0.3], "alphas": [0.1]}
    known = TableRegressor(**options).fit(frame, "y")
    assert known.estimator_.search_["no_importances"] is None
    monkeypatch.setattr("onefold.estimators.importances._PERMUTED_WORK", 1.0)
    model = TableRegressor(**options).fit(frame, "y")
    reason = "permuting each of 2 columns would take longer than a few fits"
    assert model.estimator_.feature_importances_ is None
    assert model.estimator_.search_["no_importances"] == reason
    assert f"no column importances: {reason}" in model.report_["notes"]
    assert write_report(model, None, frame, "y").as_dict()["importances"]["absent"] == reason
