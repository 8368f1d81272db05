"""What is found in rows: bad slices, leaks, copies, constants; against what was planted in them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix
from scipy.stats import ttest_ind

from onefold import LSSVC, LSSVR, load
from onefold.approximations import Nystroem
from onefold.facts.data import (
    ColumnValues,
    data_facts,
    duplicate_facts,
    equal_columns,
    equal_to_training,
    explained_alone,
    largest,
    slices_of,
    weak_slices,
)
from onefold.facts.scores import shuffled_folds
from onefold.report.report import sentences
from onefold.report.rows import column_values
from onefold.rows import row_hashes

NO_COPIES = {"rows": 0, "across": 0, "same_target": 0, "other_target": 0, "by_chance": False}


def facts(X, y, classes=None, explained=None, copies=NO_COPIES, fitted=None):
    found = data_facts(column_values(X), y, classes, copies, explained, fitted)
    return found | {"warnings": sentences("warnings", found)}


def test_a_planted_slice_is_found_and_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 5))
    loss = np.abs(rng.normal(size=1000))
    bad = X[:, 3] > np.quantile(X[:, 3], 0.8)
    loss[bad] *= 2
    found = weak_slices(column_values(X), loss)
    first = found["found"][0]
    assert first["column"] == "feature 3"
    assert first["where"].startswith("> ")
    assert first["rows"] == bad.sum()
    assert first["loss"] == pytest.approx(loss[bad].mean())
    assert first["rest"] == pytest.approx(loss[~bad].mean())
    welch = ttest_ind(loss[bad], loss[~bad], equal_var=False, alternative="greater")
    assert first["p"] == pytest.approx(welch.pvalue)
    assert found["overall"] == pytest.approx(loss.mean())


def test_a_bad_category_and_missing_values_are_found():
    rng = np.random.default_rng(1)
    colour = rng.choice(["red", "blue", "green"], 600)
    loss = (rng.random(600) < 0.1).astype(float)
    number = np.where(np.arange(600) < 60, np.nan, rng.normal(size=600))
    loss[:60] = rng.random(60) < 0.6
    loss[colour == "green"] = rng.random((colour == "green").sum()) < 0.7
    columns = column_values(pd.DataFrame({"colour": colour, "number": number}))
    found = {(one["column"], one["where"]) for one in weak_slices(columns, loss)["found"]}
    assert {("colour", "= green"), ("number", "missing")} <= found
    assert ("colour", "= red") not in found
    certain = weak_slices(columns, (colour == "green").astype(float))["found"]
    assert [(one["where"], one["p"]) for one in certain] == [("= green", 0.0)]


def test_tables_without_bad_slices_seldom_show_one():
    rng = np.random.default_rng(2)
    shown = [
        bool(
            weak_slices(column_values(rng.normal(size=(300, 10))), np.abs(rng.normal(size=300)))["found"]
        )
        for _ in range(60)
    ]
    assert np.mean(shown) <= 0.15


def test_slices_are_large_enough_and_rows_without_loss_left_out():
    sizes = [weak_slices([], np.ones(n))["fewest_rows"] for n in (10, 1500, 10_000)]
    assert sizes == [30, 30, 200]
    found = weak_slices([ColumnValues("x", np.arange(100.0))], np.r_[np.full(50, np.nan), np.ones(50)])
    assert (found["looked"], found["overall"]) == (0, 1.0)
    assert largest(np.array([np.nan, 1.0, 3.0, 2.0]), 2) == [2, 3]
    assert weak_slices([ColumnValues("x", np.arange(200.0))], np.ones(200))["found"] == []
    for values in (np.arange(200.0), np.arange(200.0) % 4):  # slices cover a column once
        column = ColumnValues("x", np.where(np.arange(200) % 11 > 0, values, np.nan))
        assert (np.sum([mask for _, mask in slices_of(column)], axis=0) == 1).all()


def test_a_planted_leak_is_found():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + rng.normal(size=300)
    X[:, 2] = np.exp(y)  # the answer again
    told = facts(X, y)
    assert told["leaks"] == ["feature 2"]
    assert "'feature 2' alone predicts the target almost perfectly" in told["warnings"][0]
    labels = np.where(y > 0, "yes", "no")
    for unit in (1.0, 1e100):
        assert facts(X * unit, labels, np.unique(labels))["leaks"] == ["feature 2"]


def test_a_column_as_good_as_the_model_is_mentioned():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + 0.4 * rng.normal(size=400)
    share = explained_alone(column_values(X), y, classifier=False)["feature 0"]
    assert 0.6 < share < 0.95
    for explained, found in ((share, ["feature 0"]), (None, []), (0.99, [])):
        assert facts(X, y, explained=explained)["nearly_all"] == found


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_copies_across_folds_are_counted_as_by_hand(kind):
    rng = np.random.default_rng(6)
    X = rng.integers(0, 3, (80, 3)).astype(float)
    X[X == 0] *= -1  # a zero with a sign is a zero
    y = rng.integers(0, 2, 80).astype(float)
    folds = shuffled_folds(y, classifier=False)
    found = duplicate_facts(kind(X), y, folds)
    across = same = 0
    for train, test in folds:
        for i in test:
            copies = [j for j in train if (X[i] == X[j]).all()]
            across += bool(copies)
            same += any(y[i] == y[j] for j in copies)
    assert (found["across"], found["same_target"]) == (across, same)
    _, counts = np.unique(X, axis=0, return_counts=True)
    assert (found["rows"], found["distinct"]) == (counts[counts > 1].sum(), len(counts))
    assert duplicate_facts(kind(X), y, None)["across"] == 0


def test_equal_rows_of_few_values_are_no_copies():
    """Different people of one class, sex and age are not one person twice."""
    rng = np.random.default_rng(8)
    coarse = np.column_stack([rng.integers(0, count, 900) for count in (3, 2, 60)])
    fine = np.tile(rng.normal(size=(450, 3)), (2, 1))
    for X, by_chance in ((coarse.astype(float), True), (fine, False)):
        y = rng.normal(size=900)
        copies = duplicate_facts(X, y, shuffled_folds(y, classifier=False), column_values(X))
        assert copies["across"] > 400
        assert copies["by_chance"] == by_chance
        words = " ".join(facts(X, y, copies=copies)["warnings"])
        assert ("had an equal row in training, none of them with the same" in words) != by_chance


def test_copies_of_columns_are_named():
    rng = np.random.default_rng(9)
    x = rng.normal(size=100)
    sex = rng.choice(["f", "m"], 100)
    frame = pd.DataFrame({"carat": x, "grams": -0.2 * x, "x2": x**2, "sex": sex})
    frame["code"] = np.where(sex == "f", 7, 9)
    frame["other"] = rng.choice(["f", "m"], 100)
    assert equal_columns(column_values(frame)) == [["carat", "grams"], ["sex", "code"]]
    words = facts(frame, rng.normal(size=100))["warnings"]
    assert "'carat' and 'grams' are duplicates of one another; keep one of them" in words


def test_a_date_is_no_identifier_and_its_slices_are_dates():
    days = pd.date_range("2020-01-01", periods=365)
    for frame in (pd.DataFrame({"day": days}), pa.table({"day": days.date})):
        column = column_values(frame)[0]
        assert column.date
        assert not column.identifies
        assert [words for words, _ in slices_of(column)][1].startswith("2020-03-13")
    assert column_values(np.array([["2020-01-01"], ["NaT"]], dtype="datetime64[s]"))[0].absent[1]


def test_warnings_of_columns_and_targets():
    rng = np.random.default_rng(7)
    n = 200
    frame = pd.DataFrame({"same": 1, "row": np.arange(n), "who": [f"p{i}" for i in range(n)]})
    frame["gaps"] = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    y = np.exp(rng.normal(size=n))
    y[3] = 1e4
    found = facts(frame, y, fitted=np.where(y > 1e3, 1e4, np.log(y)))
    assert found["constant"] == ["same"]
    assert found["identifiers"] == ["row", "who"]
    assert found["missing"] == {"gaps": int(frame.gaps.isna().sum())}
    assert found["outliers"]["rows"] == 1  # in the units that the model is fitted in
    starts = ("'row' and 'who' have a different value", "'same' is the same", "1 target (0.50%) lies",
              f"values are missing in 'gaps' (at most {frame.gaps.isna().mean():.2%}")  # fmt: skip
    assert [one.startswith(start) for one, start in zip(found["warnings"], starts)] == [True] * 4
    # Rows in the order of the target: a text of every row still tells nothing of others.
    assert explained_alone(column_values(frame), np.sort(y), classifier=False)["who"] <= 0
    labels = np.where(np.arange(n) < 3, "rare", "common")
    words = " ".join(facts(frame, labels, np.unique(labels))["warnings"])
    assert "the class 'rare' has few rows" in words


def test_columns_of_anything():
    values = np.array([[1.0, 2.0], [np.nan, 4.0], [np.inf, 6.0]])
    frame = pd.DataFrame({"a": [1, 2, 3], "b": ["x", None, "y"], "c": pd.Categorical(["u", "v", "u"])})
    frame["d"] = [True, False, True]
    frame["e"] = pd.to_datetime(["2020", "2021", None])
    for X in (frame, pa.table(frame)):
        a, b, c, d, e = column_values(X)
        assert a.categories is None
        assert b.absent.tolist() == [False, True, False]
        assert [c.categories[i] for i in c.values] == ["u", "v", "u"]
        assert set(d.categories) == {"true", "false"}
        assert e.absent.sum() == 1
    assert [one.name for one in column_values(values, ["p", "q"])] == ["p", "q"]
    assert column_values(values)[0].absent.sum() == 2  # infinite is no number either
    assert column_values(csr_matrix(np.eye(3)))[1].values.tolist() == [0.0, 1.0, 0.0]
    mixed = column_values(np.array([["a", 1], [None, 2]], dtype=object))
    assert mixed[0].categories == ("a",)
    assert mixed[1].values.tolist() == [1.0, 2.0]
    odd = pd.DataFrame({"a": [1, 2], "b": pd.Series(["x", {"y": 1}], dtype=object)})
    assert [one.categories is None for one in column_values(odd)] == [True, False]


def test_warnings_of_many_rows_come_before_those_of_few():
    """One held-out row of ten thousand with an equal row came before hundreds of targets far away."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = rng.normal(size=2000)
    X[:, 1] = X[:, 0]
    y[:90] += 100.0
    y[90:93] = np.nan  # without a logarithm
    for across, order in ((1, ["far", "duplicates", "transform", "equal"]),
                          (150, ["equal", "far", "duplicates", "transform"])):  # fmt: skip
        copies = NO_COPIES | {"across": across, "same_target": across}
        words = facts(X, np.nan_to_num(y), copies=copies, fitted=y)["warnings"]
        key = ["far from the others", "duplicates of one another", "under the transform", "had an equal"]
        places = dict(zip(["far", "duplicates", "transform", "equal"], key))
        assert [next(k for k, part in places.items() if part in one) for one in words] == order


# Rows that equal a training row


def few_values(seed, rows, counts=(5, 4, 3)):
    """Rows of three columns with few values, as of people who were asked three questions."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, count, rows) for count in counts]).astype(float)
    y = np.round(X[:, 0] - X[:, 1] + 1.5 * rng.normal(size=rows))
    return X, y


def more_values(seed, rows):
    """The same with more answers, so that most rows are met a few times, or once."""
    return few_values(seed, rows, (12, 9, 7))


def no_values_twice(seed, rows):
    """Rows of which no two are equal."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)), rng.normal(size=rows)


def truly_equal(X, y, X_train, y_train):
    """How many rows have an equal row in training, one by one."""
    seen = {(*row, target) for row, target in zip(X_train.tolist(), y_train.tolist())}
    return sum((*row, target) in seen for row, target in zip(X.tolist(), y.tolist()))


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize(
    ("make", "rows"),
    [(few_values, 4000), (more_values, 2000), (no_values_twice, 2000), (more_values, 800)],
)
def test_rows_with_an_equal_training_row_are_counted(make, rows, classes):
    """Copies were counted again and again: every test row was said to be one of the fit."""
    X, y = make(0, rows)
    X_new, y_new = make(1, 2000)
    X_new[:200] = X[:200]
    y_new[:200] = y[:200]
    kind = LSSVC if classes else LSSVR
    y, y_new = (y > 0, y_new > 0) if classes else (y, y_new)
    model = kind(alpha=1.0, approximation="nystroem").fit(X, y)
    counted = equal_to_training(model, row_hashes(X_new, np.float32), y_new)
    truth = truly_equal(X_new, y_new, X, y)
    assert 200 <= truth < 2000
    assert (counted.rows, counted.compared, counted.fitted) == (truth, rows, rows)
    assert not counted.estimated
    words = f"{truth:,} of them have an equal row in the training data (same features and target)"
    assert counted.words() == words
    fresh = no_values_twice(5, 100)[0]
    assert equal_to_training(model, row_hashes(fresh, np.float32), y_new[:100]).rows == 0
    assert equal_to_training(model, row_hashes(X, np.float32), y).rows == rows


def zipf(seed, rows):
    """Rows of which some are met very often, and most once."""
    rng = np.random.default_rng(seed)
    X = np.minimum(rng.zipf(1.3, rows), 10**6).astype(float)[:, None]
    return X, X[:, 0] % 3


@pytest.mark.parametrize("make", [few_values, more_values, no_values_twice, zipf])
def test_estimates_of_equal_rows_have_no_bias_and_the_stated_error(make, monkeypatch):
    monkeypatch.setattr("onefold.rows.hashing._MOST_KEYS", 60)
    deviations = []
    errors = []
    for seed in range(60):
        X, y = make(seed, 600)
        X_new, y_new = make(1000 + seed, 300)
        X_new[:100] = X[:100]
        y_new[:100] = y[:100]
        X_new[200:] = np.nan  # so that the largest number possible is not the usual one
        model = LSSVR(alpha=1.0, approximation=Nystroem(5)).fit(X, y)
        estimate = equal_to_training(model, row_hashes(X_new, np.float32), y_new)
        assert estimate.estimated
        assert 30 < estimate.compared < estimate.fitted == 600
        truth = truly_equal(X_new, y_new, X, y)
        deviations.append(estimate.rows - truth)
        errors.append(estimate.error)
        if estimate.rows:
            words = f"about {estimate.rows:,} ± {max(1, round(estimate.error)):,} of them have an equal"
            assert estimate.words().startswith(words)
            assert f"estimated from {estimate.compared:,} of 600 training rows" in estimate.words()
    error = np.sqrt(np.mean(np.square(errors)))
    assert abs(np.mean(deviations)) < 3 * error / np.sqrt(len(deviations)) + 0.5
    assert np.std(deviations) < 1.4 * error


def test_an_estimate_of_no_equal_rows_has_an_error_too(monkeypatch):
    """Rows of which the sample has none: their number was said to be known to the row."""
    monkeypatch.setattr("onefold.rows.hashing._MOST_KEYS", 60)
    X, y = no_values_twice(0, 600)
    model = LSSVR(alpha=1.0, approximation=Nystroem(5)).fit(X, y)
    X_new, y_new = no_values_twice(1, 300)
    estimate = equal_to_training(model, row_hashes(X_new, np.float32), y_new)
    assert estimate.rows == 0
    assert estimate.error == pytest.approx(np.sqrt(0.9) / 0.1)  # that of one equal row
    model = LSSVR().fit(X[:50], y[:50])
    assert equal_to_training(model, row_hashes(X_new, np.float32), y_new).error is None


def test_equal_rows_of_many_and_rounded_targets():
    X, y = more_values(0, 30_000)
    y = y + np.arange(30_000) % 40
    model = LSSVR(alpha=1.0, approximation=Nystroem(20)).fit(X, y)
    X_new = np.vstack([X[:5000], X[:5000] + 0.5])
    estimate = equal_to_training(model, row_hashes(X_new, np.float32), np.r_[y[:5000], y[:5000]])
    assert abs(estimate.rows - 5000) < 3 * estimate.error < 700
    X, y = no_values_twice(0, 1500)
    model = LSSVR(alpha=1.0, approximation=Nystroem(20)).fit(X, y + 7.0)
    rounded = (y + 7.0).astype(np.float32).astype(float)
    for targets, rows in ((rounded, 1500), (y + 7.01, 0)):
        assert equal_to_training(model, row_hashes(X, np.float32), targets).rows == rows


def test_rows_of_weight_0_are_not_training_rows():
    X, y = no_values_twice(0, 3000)
    weight = np.where(np.arange(3000) % 3 == 0, 0.0, 1.0)
    model = LSSVR(alpha=1.0, approximation="nystroem").fit(X, y, sample_weight=weight)
    counted = equal_to_training(model, row_hashes(X[:900], np.float32), y[:900])
    assert (counted.rows, counted.fitted, counted.estimated) == (600, 2000, False)


def test_files_of_earlier_versions_know_some_of_the_training_rows(tmp_path):
    X, y = no_values_twice(0, 3000)
    model = LSSVR(alpha=1.0, approximation="nystroem").fit(X, y)
    for name in ("keys", "copies", "share", "step"):
        del model.fingerprint_[name]
    model.save(tmp_path / "model")
    counted = equal_to_training(load(tmp_path / "model"), row_hashes(X[:900], np.float32), y[:900])
    assert (counted.rows, counted.compared, counted.fitted) == (300, 1000, 3000)
    words = "at least 300 of them have an equal row in the training data (same features and target; "
    assert counted.words() == f"{words}compared with 1,000 of 3,000 training rows)"
