"""Whole numbers that act like names become categories; those that are numbers stay numbers."""

import numpy as np
import pandas as pd
import pytest

import onefold
from onefold import TableClassifier, TableRegressor
from onefold.tables import TableError
from onefold.tables.codes import RowSample
from onefold.tables.kinds import CategoryColumn, NumberColumn
from onefold.tables.rows import rows_of_frame
from onefold.tables.training import training_of
from onefold.tuning import tune_table

N = 1200
SMALL = {"simple": True, "cv": 3, "gammas": [0.1], "alphas": [0.1]}


def shops(seed=0, shops=30, noise=0.7):
    """Rows of shops: their effects are in no order; age, count and noise are numbers."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "shop": rng.integers(1, shops + 1, N),
            "age": rng.integers(18, 70, N),
            "count": rng.poisson(3.0, N),
            "idle": rng.integers(0, 9, N),
            "x": rng.normal(size=N),
        }
    )
    effect = rng.normal(size=shops)
    y = effect[frame["shop"] - 1] + 0.03 * frame["age"] + 0.2 * frame["count"] + frame["x"]
    return frame.assign(y=y + noise * rng.normal(size=N))


def kinds(model):
    return {part.name: type(part) for part in model.preparation_.parts}


@pytest.mark.parametrize("groups", [None, "weeks"])
@pytest.mark.parametrize("ordered", [False, True])
def test_names_become_categories_and_numbers_do_not(groups, ordered):
    if groups and ordered:
        pytest.skip("groups and ordered rows cannot be combined")
    frame = shops()
    weeks = None if groups is None else np.arange(N) // 20
    model = TableRegressor(**SMALL, ordered=ordered).fit(frame, "y", groups=weeks)
    of = kinds(model)
    assert of.pop("shop") is CategoryColumn
    assert set(of.values()) == {NumberColumn}
    note = next(note for note in model.notes_ if "taken as names" in note)
    assert note.startswith("'shop' was taken as names, not as numbers")
    as_numbers = TableRegressor(**SMALL, numeric=["shop"]).fit(frame, "y")
    assert set(kinds(as_numbers).values()) == {NumberColumn}
    assert not any("taken as names" in note for note in as_numbers.notes_)
    assert model.report_["heldout"]["rmse"] < 0.8 * as_numbers.report_["heldout"]["rmse"]
    by_hand = TableRegressor(**SMALL, categorical=["shop"], ordered=ordered).fit(
        frame, "y", groups=weeks
    )
    assert by_hand.preparation_ == model.preparation_
    assert by_hand.predict(frame).tolist() == model.predict(frame).tolist()


def test_labels_and_logarithms_and_several_targets():
    frame = shops()
    X = frame.drop(columns="y")
    y = frame["y"].to_numpy()
    model = TableClassifier(**SMALL).fit(X, np.digitize(y, np.quantile(y, [0.3, 0.6])))
    assert kinds(model)["shop"] is CategoryColumn
    model = TableRegressor(**SMALL, target_transform="log").fit(X, np.exp(y))
    assert kinds(model)["shop"] is CategoryColumn
    model = TableRegressor(**SMALL).fit(X, np.column_stack([y, frame["x"] ** 2]))
    assert kinds(model)["shop"] is CategoryColumn


@pytest.mark.parametrize("seed", range(4))
def test_columns_that_say_nothing_stay_numbers(seed):
    frame = shops(seed)
    y = np.random.default_rng(seed).permutation(frame["y"])
    with training_of(TableRegressor(**SMALL), frame.drop(columns="y"), y) as training:
        assert not any("taken as names" in note for note in training.notes)


def test_many_names_are_compared_on_several_rows_of_each():
    rng = np.random.default_rng(1)
    effect = rng.normal(size=900)
    shop = rng.integers(0, 900, 9000)
    frame = pd.DataFrame({"shop": shop, "x": rng.normal(size=9000)})
    y = effect[shop] + frame["x"] + 0.5 * rng.normal(size=9000)
    with training_of(TableRegressor(**SMALL), frame, y) as training:
        assert [type(part) for part in training.preparation.parts] == [NumberColumn, CategoryColumn]
        assert training.X.shape == (9000, 901)


def test_letters_that_are_coded_as_numbers_are_tried_together():
    rng = np.random.default_rng(2)
    letters = rng.integers(0, 4, (800, 12))
    weight = rng.normal(size=(12, 4))
    y = weight[np.arange(12), letters].sum(axis=1) + 0.5 * rng.normal(size=800)
    frame = pd.DataFrame(letters, columns=[f"p{j}" for j in range(12)])
    model = TableRegressor(**SMALL).fit(frame, y)
    assert set(kinds(model).values()) == {CategoryColumn}
    assert sum("were taken as names" in note for note in model.notes_) == 1


def test_the_decision_does_not_depend_on_the_container(tmp_path, monkeypatch):
    frame = shops()
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    expected = TableRegressor(**SMALL).fit(frame, "y")
    models = [TableRegressor(**SMALL).fit(tmp_path / name, "y") for name in ("t.csv", "t.parquet")]
    monkeypatch.setattr("onefold.tables.store.available_memory", lambda: 1000)
    monkeypatch.setattr("onefold.tables.training.BLOCK", 100)
    models.append(TableRegressor(**SMALL).fit(path, "y"))
    for model in models:
        assert kinds(model) == kinds(expected)
        assert [n for n in model.notes_ if "names" in n] == [n for n in expected.notes_ if "names" in n]
        np.testing.assert_allclose(model.predict(frame), expected.predict(frame), rtol=1e-4)
    models[0].save(tmp_path / "m.onefold")
    assert (
        onefold.load(tmp_path / "m.onefold").predict(path).tolist() == models[0].predict(path).tolist()
    )


def test_a_sample_does_not_depend_on_blocks():
    rows = rows_of_frame(pd.DataFrame({"a": np.arange(70_000.0)}))
    samples = []
    for size in (70_000, 9_999, 100):
        sample = RowSample(3)
        for block in rows.slices(size):
            sample.add(block)
        taken, positions = sample.rows()
        assert taken.numbers("a").tolist() == positions.tolist()
        samples.append(positions.tolist())
    assert samples[0] == samples[1] == samples[2]
    assert len(samples[0]) == 20_000
    assert abs(np.mean(samples[0]) - 35_000) < 500


def test_options_that_do_not_agree():
    frame = shops().assign(word="a")
    with pytest.raises(TableError, match="numeric and categorical both name column 'shop'"):
        TableRegressor(**SMALL, numeric=["shop"], categorical=["shop"]).fit(frame, "y")
    with pytest.raises(TableError, match="drop and numeric both name column 'shop'"):
        TableRegressor(**SMALL, numeric=["shop"], drop=["shop"]).fit(frame, "y")
    with pytest.raises(TableError, match="no numeric column 'nothing'"):
        TableRegressor(**SMALL, numeric=["nothing"]).fit(frame, "y")
    with pytest.raises(TableError, match="column 'word' holds text, not numbers"):
        TableRegressor(**SMALL, numeric=["word"]).fit(frame, "y")
    with pytest.raises(ValueError, match=r"use numeric=\['shop'\]"):
        TableRegressor(**SMALL, numeric="shop").fit(frame, "y")


def test_tuning_decides_alike():
    frame = shops()
    model = tune_table(frame, "y", **SMALL)
    assert kinds(model)["shop"] is CategoryColumn
    held_out = tune_table(frame, "y", holdout=0.2, **SMALL)
    assert kinds(held_out)["shop"] is CategoryColumn
    assert held_out.report_["test"]["r2"] > 0.5
