"""Sentences that must not flatter: noise, copies, few rows, other splits, other rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from report_cases import FEW, numbers
from sklearn.model_selection import GroupKFold, KFold

import onefold
from onefold import LSSVCCV, LSSVRCV, TableRegressor
from onefold.approximations import Nystroem
from onefold.heldout import GapKFold
from onefold.report.gather import environment_facts
from onefold.tuning import tune_table


def facts(report):
    """The facts of a report whose page can be made."""
    assert report.html().startswith("<!doctype html>")
    return report.as_dict()


def test_other_targets_and_rows_that_are_not_new_are_told():
    X, y, model = numbers()
    for changed in (
        {"cv": "loo"},
        {"cv": "loo", "intervals": "jackknife+"},
        {"intervals": "normalised"},
    ):
        LSSVRCV(**FEW, **changed).fit(X, y).report(X=X, y=y)
    found = facts(onefold.write_report(model, X=X[:60], y=y[:60], new_rows=True))
    assert "60 of them equal rows it was fitted on" in found["summary"][2]


def test_noise_is_called_so_in_the_first_sentence():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    found = facts(LSSVCCV(**FEW).fit(X, y).report(X=X, y=y))
    assert "within two standard errors" in found["summary"][0]


@pytest.mark.parametrize("size", [150, 2100])
@pytest.mark.parametrize("cv", [5, KFold(3, shuffle=True), GroupKFold(4), GapKFold(4, 5)], ids=repr)
def test_a_table_has_its_report_for_every_size_and_splitter(size, cv, tmp_path):
    rng = np.random.default_rng(size)
    frame = pd.DataFrame(rng.normal(size=(size, 3)), columns=["a", "b", "c"])
    frame["y"] = np.sin(frame.a) + 0.3 * rng.normal(size=size)
    groups = np.arange(size) // 10 if isinstance(cv, GroupKFold) else None
    few = {"gammas": [0.3], "alphas": [0.1]}
    few |= {"kernel": "rbf", "approximation": Nystroem(50)} if size > 2000 else {}
    model = TableRegressor(cv=cv, metric=None, blend=False, **few).fit(frame, "y", groups=groups)
    found = facts(model.report(tmp_path / "r.html", frame, "y"))
    assert found["question"]["assumed"] == f"the {size:,} rows it was fitted on"
    assert found["scores"]["splits"].startswith("simple models on the same")
    model.save(tmp_path / "m")
    again = facts(onefold.write_report(onefold.load(tmp_path / "m"), X=frame, new_rows=None))
    assert again["scores"] == found["scores"]
    with pytest.raises(ValueError, match="in another order"):
        model.report(None, frame[::-1], "y")
    with pytest.raises(ValueError, match="these are not the rows that the model was fitted on"):
        model.report(None, frame.assign(a=frame.a + 1), "y")


def test_words_for_two_rows_and_for_copies():
    X, y, _ = numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = facts(LSSVRCV(**FEW, cv=2).fit(X[:2], y[:2]).report(X=X[:2], y=y[:2]))
    assert "too few for an interval" in found["summary"][0]
    twice, both = np.concatenate([X[:60], X[:60]]), np.concatenate([y[:60], y[:60]])
    found = facts(LSSVRCV(**FEW).fit(twice, both).report(X=twice, y=both))
    assert "all of them with the same target" in found["summary"][2]


def test_a_rank_is_no_share_of_what_a_column_explains():
    """Two targets far away are nearly all there is to explain, and no column tells them."""
    X, y, _ = numbers()
    far = np.where(np.arange(len(y)) == 5, 1e4, y + 2 * X[:, 0])
    found = facts(LSSVRCV(**FEW).fit(X, far).report(X=X, y=far))
    assert found["data"]["nearly_all"] == []
    assert max(found["data"]["alone"].values()) < 0.2


def test_numbers_and_criteria_in_the_words_of_people():
    X, y, _ = numbers()
    model = LSSVRCV(**FEW).fit(X, 1e5 * y)
    text = model.report(X=X, y=1e5 * y).text()
    assert "criterion: RMSE" in text
    assert "e+0" not in text.split("What ran")[0]
    assert "-0.000" not in text


def test_rows_that_tuning_set_aside_are_told():
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(t=y)
    model = tune_table(frame, "t", simple=True, holdout=0.2, **FEW)
    report = onefold.write_report(model)
    assert "On 30 rows that tuning never saw the R² is" in report.text()
    assert "30 rows that tuning never saw" in report.as_dict()["summary"][0]
    assert "30 rows that tuning never saw" in report.html().lower()


def test_one_member_is_no_blend():
    X, y, _ = numbers()
    model = LSSVRCV(["rbf"], metric="diagonal", max_rounds=1, blend=True, **FEW).fit(X, y)
    model.blend_ = model.blend_[:1]
    assert "The blend" not in model.report(X=X, y=y).html()


def test_every_blas_says_whose_it_is():
    labels = [label for label, _ in environment_facts()]
    assert len(labels) == len(set(labels))


def test_names_neither_break_lines_nor_speak_to_the_terminal():
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=["a\nb", "\x1b[31mred", "x" * 300, "d"])
    report = LSSVRCV(**FEW).fit(frame, y).report(X=frame, y=y)
    assert "\x1b" not in report.text()
    assert "a b" in report.text()
    assert max(len(line) for line in report.as_dict()["summary"]) < 400
