"""What ``tune_table`` fits, against the literal computation; rows that are held out; tables on disk."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import log_loss, mean_absolute_error, roc_auc_score
from sklearn.model_selection import StratifiedKFold

import onefold
from onefold.cli.terminal import fit_facts_of
from onefold.facts.criteria import score_label
from onefold.tables import CategoryColumn, TableError, open_table, rows_of_frame, store, training
from onefold.tuning import tune_table

N = 60
SMALL = {"simple": True, "gammas": [0.125, 0.5, 2.0], "alphas": [0.03125, 0.25, 2.0]}
KIND = {"target": "kind", "drop": ["amount", "site", "mass"], "id_column": "who"}
AMOUNT = {"target": "amount", "drop": ["kind", "site", "mass", "who"]}


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"length": rng.normal(size=N), "width": rng.normal(size=N)})
    frame["colour"] = np.where(rng.random(N) < 0.5, "red", "blue")
    inside = frame.length**2 + frame.width**2 < 1.2
    frame["kind"] = np.where(inside, "inner", "outer")
    frame["amount"] = np.sin(frame.length) + 0.1 * rng.normal(size=N)
    frame["who"] = [f"row-{i:03d}" for i in range(N)]
    frame["site"] = np.arange(N) // 6
    frame["mass"] = rng.uniform(0.5, 2.0, size=N)
    frame.to_csv("t.csv", index=False)
    return frame


def test_the_literal_computation(table):
    model = tune_table("t.csv", **KIND, **SMALL)
    report = model.report_
    X = np.column_stack(
        [
            (table.length - table.length.mean()) / table.length.std(ddof=0),
            (table.width - table.width.mean()) / table.width.std(ddof=0),
            table.colour == "blue",
            table.colour == "red",
        ]
    ).astype(float)
    y = table.kind.to_numpy(dtype=str)
    literal = onefold.LSSVC(**model.estimator_.best_params_)
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    right = [literal.fit(X[i], y[i]).predict(X[j]) == y[j] for i, j in folds]
    assert report["heldout"]["accuracy"] == pytest.approx(np.concatenate(right).mean())
    assert report["best_score"] == pytest.approx(np.mean([r.mean() for r in right]) - 1)
    np.testing.assert_array_equal(model.predict("t.csv"), literal.fit(X, y).predict(X))
    assert (report["task"], report["candidates"]) == ("classification", 9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cv": "loo"}, "leave-one-out"),
        ({"cv": 3}, "3-fold"),
        ({"cv": 10, "groups": "site"}, "10-fold, groups of 'site' kept together"),  # one for each
        ({"ordered": True}, "5 blocks of consecutive rows"),
        ({"ordered": True, "gap": 2}, "5 blocks of consecutive rows with 2 rows left out around each"),
    ],
)
def test_folds(table, options, words):
    model = tune_table(table, "kind", drop=["amount", "mass", "who"], **SMALL, **options)
    assert model.report_["cv"] == words
    assert ("site" in model.preparation_.columns) == ("groups" not in options)


def test_weights_reach_the_fit(table):
    one = {"simple": True, "gammas": [0.5], "alphas": [0.1], "drop": ["amount", "site", "who"]}
    model = tune_table(table, "kind", weight="mass", **one)
    X = model.preparation_.transform(rows_of_frame(table))
    literal = onefold.LSSVC(gamma=0.5, alpha=0.1).fit(X, table.kind.to_numpy(str), table.mass)
    found = model.estimator_.decision_function(X)
    np.testing.assert_allclose(found, literal.decision_function(X), atol=1e-9)
    table.loc[4, "mass"] = 0.0
    tune_table(table, "kind", weight="mass", **one)
    table.loc[4, "mass"] = -1.0
    with pytest.raises(TableError, match="'mass' has -1 in data row 5; weights must be finite and not"):
        tune_table(table, "kind", weight="mass", **one)


@pytest.mark.parametrize("weight", [None, "mass"])
def test_scores_on_another_table(table, weight):
    train = table.head(40)
    new = table.tail(20)
    count = np.ones(20) if weight is None else new.mass.to_numpy()
    model = tune_table(train, **KIND, **SMALL, weight=weight, test=new)
    test = model.report_["test"]
    right = model.predict(new) == new.kind
    assert (test["rows"], test["accuracy"]) == (20, pytest.approx(np.average(right, weights=count)))
    kinds = train.kind if weight is None else train.kind.repeat((1e6 * train.mass).astype(int))
    always = new.kind == kinds.mode()[0]
    assert test["baseline_accuracy"] == pytest.approx(np.average(always, weights=count))
    model = tune_table(train, **AMOUNT, **SMALL, weight=weight, test=new)
    test = model.report_["test"]
    losses = (new.amount - model.predict(new)) ** 2
    mean = np.average(train.amount, weights=None if weight is None else train.mass)
    assert test["rmse"] == pytest.approx(np.sqrt(np.average(losses, weights=count)))
    constant = np.average((new.amount - mean) ** 2, weights=count)
    assert test["baseline_rmse"] == pytest.approx(np.sqrt(constant))
    if weight is None:
        assert test["r2"] == pytest.approx(1 - losses.mean() / new.amount.var(ddof=0))
        with pytest.raises(TableError, match="'kind'"):
            tune_table(train, **KIND, test=new.drop(columns="kind"))


@pytest.mark.parametrize("labels", [("a", "b", "c"), (0, 1, 2)])
def test_labels_that_the_model_does_not_know_count_as_wrong(labels):
    place = np.random.default_rng(0).integers(0, 2, 40)
    train = pd.DataFrame({"x": place + 0.01 * np.arange(40), "y": np.array(labels)[place]})
    new = pd.DataFrame({"x": [0.1, 1.1, 0.1, 1.1], "y": [*labels[:2], labels[2], labels[2]]})
    with pytest.warns(UserWarning, match="labels in 'y' that were not seen in training"):
        test = tune_table(train, "y", **SMALL, test=new).report_["test"]
    assert (test["rows"], test["accuracy"]) == (4, 0.5)


def test_the_table_to_test_on_is_checked_before_the_search(table, monkeypatch):
    monkeypatch.setattr("onefold.tables.TableModel._fit_prepared", None)
    new = table.tail(20).reset_index(drop=True)
    absent = next(name for name in new.columns if name not in ("kind", "amount"))
    with pytest.raises(TableError, match=f"no column '{absent}', which the model needs"):
        tune_table(table, "kind", **SMALL, test=new.drop(columns=absent))
    new.loc[3, "amount"] = np.nan
    with pytest.raises(TableError, match=r"missing values in 'amount' \(1 of 20 rows\)"):
        tune_table(table, "amount", **SMALL, test=new)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("kind", None, "there are no test rows"),
        ("mass", 0.0, "there are no test rows with a positive weight in 'mass'"),
        ("mass", -1.0, "the weight column 'mass' has -1 in data row 1"),
    ],
)
def test_rows_that_nothing_can_be_tested_on_are_refused_before_the_search(
    table, monkeypatch, column, value, words
):
    """They were refused after it, and the model was lost."""
    monkeypatch.setattr(onefold.tables.TableModel, "_fit_prepared", None)
    options = SMALL | {"drop": ["amount", "site"], "weight": "mass", "drop_missing_target": True}
    with pytest.raises(TableError, match=words):
        tune_table(table, "kind", **options, test=table.assign(**{column: value}))


def test_a_callback_reaches_the_search(table):
    """The parameter was taken and set to None."""
    events = []
    tune_table(table, "kind", **SMALL, drop=["amount", "site", "mass"], callback=events.append)
    assert events


def test_rows_to_test_on_without_a_target_are_left_out(table):
    new = table.tail(20).reset_index(drop=True)
    new.loc[3, "amount"] = np.nan
    with pytest.warns(UserWarning, match="test table: dropped 1 of 20 rows"):
        model = tune_table(table.head(40), **AMOUNT, **SMALL, test=new, drop_missing_target=True)
    assert model.report_["test"]["rows"] == 19
    as_polars = pl.from_pandas(table).with_columns(pl.lit("word").alias("text"))  # a string view
    assert tune_table(as_polars, **AMOUNT, **SMALL, holdout=0.2).report_["test"]["rows"] == 12
    new.loc[3, "amount"] = np.inf
    with pytest.raises(TableError, match="infinite values in the target 'amount'"):
        model.score(new, "amount")
    new["mass"] = 0.0
    new["amount"] = 1.0
    with pytest.raises(TableError, match="no test rows with a positive weight in 'mass'"):
        tune_table(table.head(40), **AMOUNT, **SMALL, test=new.dropna(), weight="mass")


@pytest.mark.parametrize("free", [2**60, 1000])
def test_a_share_of_the_rows_is_held_out(table, monkeypatch, free):
    monkeypatch.setattr(store, "available_memory", lambda: free)
    monkeypatch.setattr(training, "BLOCK", 7)
    options = SMALL | {"approximation": "nystroem"}
    report = tune_table("t.csv", **KIND, **options, holdout=0.25).report_
    assert (report["rows"], report["test"]["rows"]) == (45, 15)
    outer = max(table.kind.value_counts(normalize=True))
    assert report["test"]["baseline_accuracy"] == pytest.approx(outer, abs=0.08)
    model = tune_table("t.csv", **AMOUNT, **options, holdout=0.2, ordered=True)
    last = table.tail(12)
    losses = (last.amount - model.predict(last)) ** 2
    assert model.report_["test"]["rmse"] == pytest.approx(np.sqrt(losses.mean()), rel=1e-6)
    part = model.preparation_.parts[0]
    assert part.mean == pytest.approx(table.length.head(48).mean())  # nothing was learned of the others
    kinds = {"drop": ["amount", "mass", "who"], "groups": "site", "cv": 3}
    report = tune_table("t.csv", "kind", **kinds, **options, holdout=0.3).report_
    assert report["test"]["rows"] % 6 == 0
    assert report["rows"] + report["test"]["rows"] == 60
    for share in (0, 1, 2.0):
        with pytest.raises(ValueError, match="between 0 and 1"):
            tune_table(table, "kind", holdout=share)


def test_text_missing_values_weights_groups_and_dates_on_disk(table, monkeypatch):
    rng = np.random.default_rng(1)
    table["tint"] = rng.choice(["red", "green", None], N)
    table["when"] = pd.date_range("2020-01-01", periods=N, freq="29h").astype(str)
    table["code"] = np.arange(N) % 3
    table.loc[table.index[::5], "length"] = np.nan
    table.to_csv("t.csv", index=False)
    common = {"weight": "mass", "groups": "site", "categorical": ["code"], "approximation": "nystroem"}
    for target, drop in (("amount", ["kind", "who"]), ("kind", ["amount", "who"])):
        found = []
        for free in (2**60, 1000):
            monkeypatch.setattr(store, "available_memory", lambda free=free: free)
            found.append(tune_table("t.csv", target, drop=drop, **common, **SMALL))
        memory, disk = found
        assert memory.preparation_.feature_names == disk.preparation_.feature_names
        categories = [one.name for one in disk.preparation_.parts if type(one) is CategoryColumn]
        assert sorted(categories) == ["code", "colour", "tint"]
        for name in ("column_notes", "cv"):
            assert memory.report_[name] == disk.report_[name]
        assert memory.report_["best_score"] == pytest.approx(disk.report_["best_score"], rel=1e-3)
        one, other = (model.predict(open_table("t.csv")) for model in found)
        if target == "amount":
            np.testing.assert_allclose(one, other, atol=1e-2)
        else:
            assert np.mean(one == other) > 0.95


@pytest.mark.parametrize(
    ("criterion", "target", "main", "measure", "method"),
    [
        ("neg_mean_absolute_error", "amount", "mae", mean_absolute_error, "predict"),
        ("neg_log_loss", "kind", "log_loss", log_loss, "predict_proba"),
        ("roc_auc", "kind", "roc_auc", roc_auc_score, "decision_function"),
    ],
)
def test_test_rows_are_judged_by_the_criterion(table, criterion, target, main, measure, method):
    """They were compared with simple models by R² or accuracy, whatever was asked for."""
    train = table[:40]
    test = table[40:]
    options = SMALL | {"criterion": criterion, "drop": ["site", "mass", "who"]}
    model = tune_table(train, target, test=test, **options)
    scores = model.report_["test"]["scores"]
    assert (scores["main"], scores["instead_of"]) == (main, None)
    literal = measure(test[target], getattr(model, method)(test))
    assert model.report_["test"][main] == pytest.approx(literal)
    labels = [label for label, _ in fit_facts_of(model)["lines"]]
    assert labels.count(score_label(criterion)) == 1  # one name for one number
    assert "roc auc" not in labels
    assert not any(label.startswith("criterion") for label in labels)
