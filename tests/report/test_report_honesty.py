"""Sentences that must not flatter: noise, copies, few rows, other splits, other rows."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from report_cases import FEW, numbers
from sklearn.model_selection import GroupKFold

import onefold
from onefold import LSSVCCV, LSSVRCV
from onefold.report.environment import environment_facts
from onefold.tuning import tune_table


def facts(report):
    """The facts of a report whose page can be made."""
    assert report.html().startswith("<!doctype html>")
    return report.as_dict()


def test_other_targets_and_rows_that_are_not_new_are_told():
    X, y, model = numbers()
    with pytest.raises(ValueError, match="y is not the y that the model was fitted on"):
        model.report(X=X, y=np.roll(y, 1))
    for changed in (
        {"cv": "loo"},
        {"cv": "loo", "intervals": "jackknife+"},
        {"intervals": "normalised"},
    ):
        LSSVRCV(**FEW, **changed).fit(X, y).report(X=X, y=y)
    found = facts(onefold.write_report(model, X=X[:60], y=y[:60], new_rows=True))
    assert "60 of them equal rows it was fitted on" in found["answer"][2]


def test_noise_is_called_so_in_the_first_sentence():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)), rng.integers(0, 2, 120)
    found = facts(LSSVCCV(**FEW).fit(X, y).report(X=X, y=y))
    assert "not clearly better" in found["answer"][0]


def test_simple_models_on_other_splits_are_not_compared():
    X, y, _ = numbers()
    groups = np.arange(len(y)) // 10
    model = LSSVRCV(**FEW, cv=GroupKFold(5)).fit(X, y, groups=groups)
    assert "do not compare" in facts(model.report(X=X, y=y))["answer"][0]
    found = facts(onefold.write_report(model, X=X, y=y, groups=groups))
    assert "do not compare" not in found["answer"][0]


def test_words_for_two_rows_and_for_copies():
    X, y, _ = numbers()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found = facts(LSSVRCV(**FEW, cv=2).fit(X[:2], y[:2]).report(X=X[:2], y=y[:2]))
    assert "too few for an interval" in found["answer"][0]
    twice, both = np.concatenate([X[:60], X[:60]]), np.concatenate([y[:60], y[:60]])
    found = facts(LSSVRCV(**FEW).fit(twice, both).report(X=twice, y=both))
    assert "all of them with the same target" in found["answer"][2]


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
    assert "mean squared error" in text
    assert "smaller is better" in text
    assert "e+0" not in text.split("What ran")[0]
    assert "-0.000" not in text


def test_rows_that_tuning_set_aside_are_told():
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(t=y)
    model = tune_table(frame, "t", simple=True, holdout=0.2, **FEW)
    report = onefold.write_report(model)
    assert "on 30 rows that tuning never saw the R² is" in report.text()
    assert "30 rows that tuning never saw" in report.as_dict()["answer"][0].lower()
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
    assert max(len(line) for line in report.as_dict()["answer"]) < 400
