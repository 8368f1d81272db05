"""A date that is the only column is an axis of time for the approximations of one feature."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pytest

from onefold import TablePreparation, TableRegressor, load
from onefold.approximations import Toeplitz

HOURS = np.arange(400)
MOMENTS = np.datetime64("2024-03-30T00:00", "s") + HOURS * np.timedelta64(3600, "s")
SIGNAL = np.sin(2 * np.pi * HOURS / 24)
TARGET = SIGNAL + 0.2 * np.random.default_rng(0).standard_normal(HOURS.size)
ONE = {"gammas": [0.1, 0.3, 1.0], "intervals": None}


def table(rows=slice(None), **columns):
    return pa.table({"when": MOMENTS[rows], "y": TARGET[rows], **columns})


def fitted(data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the edges of small grids
        return TableRegressor(**ONE | options).fit(data, "y")


@pytest.mark.parametrize("approximation", ["toeplitz", "state_space", "grid"])
def test_a_date_alone_is_one_feature(approximation, tmp_path):
    if approximation == "state_space":
        pytest.importorskip("numba")
    model = fitted(table(), approximation=approximation)
    assert model.preparation_.feature_names == ("when",)
    assert any("one feature, the elapsed time" in note for note in model.notes_)
    assert np.sqrt(np.mean((model.predict(table()) - SIGNAL) ** 2)) < 0.12
    # Served as it was trained, also from a file, and from text.
    path = tmp_path / "m.onefold"
    model.save(path)
    text = pa.table({"when": [str(moment) for moment in MOMENTS[::7]]})
    np.testing.assert_allclose(load(path).predict(text), model.predict(table())[::7], rtol=1e-10)


def test_an_even_step_is_exact_in_any_order_and_an_uneven_one_is_said():
    shuffled = np.random.default_rng(1).permutation(HOURS.size)
    for approximation in ("toeplitz", Toeplitz()):
        model = fitted(table(shuffled), approximation=approximation, metric="none", kernel="rbf")
        assert model.estimator_.approximation_["selected_with"]["diagonals"] == "exact"
    gaps = np.delete(np.arange(HOURS.size), [50, 51, 200])
    uneven = fitted(table(gaps), approximation="toeplitz")
    assert uneven.estimator_.approximation_["selected_with"]["diagonals"] == "averaged"


def test_its_unit_is_some_steps_whatever_the_number_of_rows():
    for rows in (100, 400):
        part = fitted(table(slice(rows)), approximation="toeplitz").preparation_.parts[0]
        assert part.scale == pytest.approx(16 * 3600)
        assert part.cycles == ()


def test_other_columns_other_approximations_and_missing_dates_keep_the_cycles():
    other = np.random.default_rng(2).standard_normal(HOURS.size)
    with_other = fitted(table(x=other), approximation="toeplitz", kernel="rbf")
    assert "when day sin" in with_other.preparation_.feature_names
    model = fitted(table(), simple=True)
    names = ("when", "when week sin", "when week cos", "when day sin", "when day cos")
    assert model.preparation_.feature_names == names
    assert any("use approximation='state_space'" in note for note in model.notes_)
    constant = fitted(table(x=np.ones(HOURS.size)), approximation="toeplitz")
    assert constant.preparation_.feature_names == ("when",)
    moments = MOMENTS.copy()
    moments[3] = np.datetime64("NaT")
    missing = fitted(pa.table({"when": moments, "y": TARGET}), approximation="toeplitz", kernel="rbf")
    assert "when is missing" in missing.preparation_.feature_names
    preparation = TablePreparation().fit(table().drop_columns(["y"]))
    assert preparation.get_feature_names_out().tolist() == list(names)
