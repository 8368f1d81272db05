"""Structure of rows is noticed where it misleads, and only there."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.model_selection import KFold

from onefold import TableClassifier, TableRegressor
from onefold.tables import structure as module
from onefold.tables.structure import Structure
from onefold.tables.training import training_of

QUICK = {"simple": True, "gammas": [0.1], "alphas": [1.0]}


def noticed(
    frame: pd.DataFrame, model: TableRegressor | TableClassifier | None = None
) -> Structure | None:
    """The structure of a table with the target "y"."""
    with training_of(model or TableRegressor(), frame, "y") as training:
        return training.structure


def shuffled(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    return frame.sample(frac=1.0, random_state=seed).reset_index(drop=True)


def storms(seed: int = 0, groups: int = 80, rows: int = 12) -> pd.DataFrame:
    """Rows of storms: the target moves slowly within a storm, as do two of the features."""
    generator = np.random.default_rng(seed)
    walks = generator.normal(size=(groups, rows, 3)).cumsum(axis=1) * 0.3
    walks += 2.0 * generator.normal(size=(groups, 1, 3))
    a, b, y = walks.reshape(-1, 3).T
    number = np.repeat(generator.permutation(groups), rows)
    return pd.DataFrame(
        {"name": [f"storm {n}" for n in number], "number": number, "a": a, "b": b, "y": y}
    )


def persons(seed: int = 0, groups: int = 200, rows: int = 4) -> pd.DataFrame:
    """Years of persons, who have no number: their columns repeat, their targets are alike."""
    generator = np.random.default_rng(seed)
    person = np.repeat(np.arange(groups), rows)
    columns = {
        "born": generator.integers(1930, 1990, groups),
        "height": generator.integers(150, 200, groups),
        "weight": generator.integers(50, 110, groups),
        "school": generator.integers(8, 20, groups),
    }
    frame = pd.DataFrame({name: values[person] for name, values in columns.items()})
    frame["mood"] = generator.normal(size=len(person))
    level = 2.0 * generator.normal(size=groups)
    frame["y"] = level[person] + 0.5 * frame["mood"] + 0.3 * generator.normal(size=len(person))
    return frame


def shops(seed: int = 0, groups: int = 30, days: int = 120) -> pd.DataFrame:
    """A panel in the order of the date: the level of each shop drifts."""
    generator = np.random.default_rng(seed)
    drift = generator.normal(size=(days, groups)).cumsum(axis=0) * 0.5
    promotion = generator.integers(0, 2, (days, groups))
    level = 2.0 * generator.normal(size=groups)
    y = level + drift + promotion + 0.1 * generator.normal(size=(days, groups))
    return pd.DataFrame(
        {
            "shop": np.tile([f"shop {n}" for n in range(groups)], days),
            "day": np.repeat(pd.date_range("2024-01-01", periods=days), groups),
            "promotion": promotion.reshape(-1),
            "y": y.reshape(-1),
        }
    )


def hours(seed: int = 0, n: int = 3000) -> pd.DataFrame:
    """An hourly series with a weather that lasts, its time in four columns."""
    generator = np.random.default_rng(seed)
    weather = np.convolve(generator.normal(size=n + 47), np.ones(48) / 7.0, "valid")
    time = pd.date_range("2023-03-01", periods=n, freq="h")
    y = np.sin(2.0 * np.pi * time.hour / 24.0) + weather + 0.1 * generator.normal(size=n)
    return pd.DataFrame(
        {
            "year": time.year,
            "month": time.month,
            "day": time.day,
            "hour": time.hour,
            "wind": generator.normal(size=n),
            "y": y,
        }
    )


def independent(seed: int, n: int = 400) -> pd.DataFrame:
    """Rows without structure: numbers, rounded ones, counts, categories, an order that means nothing."""
    generator = np.random.default_rng(seed)
    town = generator.integers(0, 25, n)
    frame = pd.DataFrame(
        {
            "size": generator.normal(size=n).round(1),
            "rooms": generator.integers(1, 12, n),
            "age": generator.integers(18, 90, n),
            "town": np.array([f"town {letter}" for letter in "abcdefghijklmnopqrstuvwxy"])[town],
            "width": generator.normal(size=n),
        }
    )
    effect = 0.5 * generator.normal(size=25)
    frame["y"] = (
        frame["size"] + 0.2 * frame["rooms"] + np.sin(frame["age"] / 10.0) + effect[town]
    ) + generator.normal(size=n)
    return frame


@pytest.mark.parametrize("column", ["name", "number"])
@pytest.mark.parametrize("order", ["as it is", "shuffled"])
def test_rows_of_one_storm_are_noticed(column, order):
    frame = storms()
    frame = shuffled(frame) if order == "shuffled" else frame
    structure = noticed(frame[[column, "a", "b", "y"]])
    assert structure is not None
    assert (structure.kind, structure.columns) == ("groups", (column,))
    assert structure.ratio > 1.3
    assert structure.p_value < 0.01
    names = frame[column].to_numpy()
    assert len(set(zip(names, structure.codes))) == len(set(names)) == len(set(structure.codes))


def test_groups_are_noticed_that_no_feature_names():
    frame = shuffled(storms())
    structure = noticed(frame, TableRegressor(drop=["number"], id_column="name"))
    assert structure is not None
    assert structure.kind == "groups"
    assert structure.columns[0] in ("name", "number")


def test_classes_are_targets_too():
    frame = shuffled(storms()).drop(columns="number")
    frame["y"] = np.where(frame["y"] > 0.0, "strong", "weak")
    structure = noticed(frame, TableClassifier())
    assert structure is not None
    assert structure.columns == ("name",)


def test_columns_that_repeat_together_are_noticed():
    frame = shuffled(persons())
    structure = noticed(frame)
    assert structure is not None
    assert structure.kind == "groups"
    columns = list(structure.columns)
    assert set(columns) <= {"born", "height", "weight", "school"}
    assert len(columns) > 1
    assert frame.groupby(columns).ngroups == 200 == structure.codes.max() + 1
    assert frame.groupby(structure.codes)[columns].nunique().max().max() == 1


def test_a_panel_in_the_order_of_its_date_comes_in_time():
    structure = noticed(shops())
    assert structure is not None
    assert (structure.kind, structure.columns) == ("time", ("day",))
    assert structure.in_order_of == "day"
    assert np.array_equal(structure.codes, np.repeat(np.arange(120), 30))


@pytest.mark.parametrize("order", ["as it is", "shuffled"])
def test_parts_of_a_moment_are_put_together(order):
    frame = hours()
    frame = shuffled(frame) if order == "shuffled" else frame
    structure = noticed(frame)
    assert structure is not None
    assert (structure.kind, structure.columns) == ("time", ("year", "month", "day", "hour"))
    moments = pd.to_datetime(frame[["year", "month", "day", "hour"]]).to_numpy()
    assert np.array_equal(moments[np.argsort(structure.codes)], np.sort(moments))


def test_the_order_of_the_rows_may_be_all_that_tells():
    frame = hours()
    generator = np.random.default_rng(1)
    frame["sky"] = frame["y"].rolling(24, min_periods=1).mean() + 0.1 * generator.normal(size=len(frame))
    frame["sea"] = np.arange(len(frame)) % 700 / 700.0 + 0.05 * generator.normal(size=len(frame))
    frame = frame[["sky", "sea", "wind", "y"]]
    frame["y"] = np.convolve(generator.normal(size=len(frame) + 99), np.ones(100) / 10.0, "valid")
    frame["sea"] = frame["sea"] + np.arange(len(frame)) // 700
    structure = noticed(frame)
    assert structure is not None
    assert (structure.kind, structure.columns, structure.in_order_of) == ("time", (), None)
    assert noticed(shuffled(frame)) is None


def test_nothing_is_noticed_in_independent_rows():
    tables = [independent(seed) for seed in range(40)]
    count = sum(noticed(frame) is not None for frame in tables)
    assert count <= 2  # 5 %


def test_nothing_is_noticed_where_targets_are_permuted():
    generator = np.random.default_rng(0)
    for frame in (storms(), persons(), shops(), hours()):
        frame["y"] = generator.permutation(frame["y"].to_numpy())
        assert noticed(frame) is None


@pytest.mark.parametrize("by", ["y", "width"])
def test_sorted_rows_are_not_taken_for_time(by):
    assert noticed(independent(3).sort_values(by)) is None


@pytest.mark.parametrize(
    "options", [{"cv": "loo"}, {"cv": KFold(5)}, {"ordered": True}, {"groups": "name"}], ids=str
)
def test_nothing_is_looked_for_where_the_splits_were_chosen(options):
    groups = options.pop("groups", None)
    with training_of(TableRegressor(**options), storms(), "y", groups=groups) as training:
        assert training.structure is None


def test_few_rows_are_not_judged():
    assert noticed(storms(groups=3)) is None


def test_the_same_table_gives_the_same_answer():
    first = noticed(storms())
    second = noticed(storms())
    assert first is not None
    assert second is not None
    assert replace(first, codes=second.codes) == second
    assert np.array_equal(first.codes, second.codes)


def test_a_fit_says_it():
    frame = storms().rename(columns={"name": "the storm"}).drop(columns="number")
    model = TableRegressor(**QUICK).fit(frame, "y")
    found = model.report_["structure"]
    assert json.loads(json.dumps(found)) == found
    assert (found["kind"], found["columns"]) == ("groups", ["the storm"])
    assert "--groups 'the storm'" in found["sentence"]
    assert found["sentence"] in model.report_["notes"]
    assert model.report_["scores"]["in_order_of"] is None
    plain = TableRegressor(**QUICK).fit(independent(0), "y")
    assert plain.report_["structure"] is None
    assert not any("alike" in note for note in plain.report_["notes"])


def test_sentences_name_the_option_and_a_few_columns():
    codes = np.zeros(3, dtype=np.int64)
    many = Structure("groups", tuple("abcdef"), codes, 12.3, 0.001).sentence
    assert "'a', 'b', 'c', 'd' and 2 more are alike" in many
    assert "some 12 times" in many
    assert "--groups a b c d e f" in many
    time = Structure("time", ("year", "month"), codes, 1.26, 0.001).sentence
    assert "'year' and 'month'" in time
    assert "some 1.3 times" in time
    assert "--ordered auto" in time
    assert Structure("time", (), codes, 1.2, 0.001).sentence.startswith("rows that follow each other")


def test_errors_are_those_of_models_without_the_fold():
    generator = np.random.default_rng(0)
    distances = module._distances(generator.normal(size=(60, 3)))
    Y = generator.normal(size=(60, 2))
    folds = [np.arange(60) % 5, np.arange(60) // 12]
    errors = module._errors_at(distances, Y, folds, 0.7, 0.1)
    kernel = np.exp(-distances / 0.7)
    for numbers, of_folds in zip(folds, errors):
        for fold in range(5):
            train = np.flatnonzero(numbers != fold)
            test = np.flatnonzero(numbers == fold)
            border = np.ones((len(train), 1))
            system = np.block(
                [
                    [kernel[np.ix_(train, train)] + 0.1 * np.eye(len(train)), border],
                    [border.T, np.zeros((1, 1))],
                ]
            )
            solved = np.linalg.solve(system, np.vstack([Y[train], np.zeros((1, 2))]))
            predicted = kernel[np.ix_(test, train)] @ solved[:-1] + solved[-1]
            expected = np.linalg.norm(predicted - Y[test], axis=1)
            np.testing.assert_allclose(of_folds[test], expected, rtol=1e-8)


@pytest.mark.parametrize("kind", ["groups", "time"])
def test_samples_hold_whole_groups_and_stretches(kind):
    generator = np.random.default_rng(0)
    codes = np.repeat(generator.permutation(900), 7)
    candidate = module._Candidate(kind, (), codes)
    rows, clusters, folds = module._sampled(candidate, generator)
    assert len(rows) == len(set(rows.tolist())) <= 1000
    if kind == "groups":
        counts = np.unique(codes[rows], return_counts=True)[1]
        assert np.count_nonzero(counts != 7) <= 1  # the last one may be cut
        assert len(set(zip(codes[rows], clusters))) == len(counts)
    else:
        assert (np.diff(codes[rows]) >= 0).all()
        assert (np.diff(folds) >= 0).all()
        inside = clusters[1:] == clusters[:-1]
        assert (np.diff(codes[rows])[inside] <= 1).all()
    assert all(len(set(folds[clusters == cluster])) == 1 for cluster in set(clusters))
    assert set(folds) == set(range(5))


def test_missing_groups_are_the_same_in_every_container(tmp_path) -> None:
    generator = np.random.default_rng(3)
    shop = generator.integers(0, 30, 400).astype(float)
    level = generator.normal(size=30)[shop.astype(int)]
    frame = pd.DataFrame({"shop": shop, "x": generator.normal(size=400)})
    frame["y"] = level + 0.1 * frame["x"]
    frame.loc[generator.random(400) < 0.1, "shop"] = np.nan
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "nulls.parquet")
    numbers = {name: pa.array(frame[name].to_numpy(), from_pandas=False) for name in frame}
    pq.write_table(pa.table(numbers), tmp_path / "nan.parquet")
    tables = [frame, *(str(tmp_path / name) for name in ("rows.csv", "nulls.parquet", "nan.parquet"))]
    structures = [noticed(table) for table in tables]
    assert all(structure is not None and structure.columns == ("shop",) for structure in structures)
    first = structures[0].codes
    assert first.max() + 1 == 30 + frame["shop"].isna().sum()  # each row without a shop is alone
    for structure in structures[1:]:
        assert np.array_equal(structure.codes, first)
