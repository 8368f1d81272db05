"""What each kind of column becomes, in memory, in blocks, from files and saved; what is refused."""

from __future__ import annotations

import datetime
import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

from onefold import TableRegressor
from onefold.tables import (
    CategoryColumn,
    Learner,
    Preparation,
    TableError,
    TableRows,
    learn_preparation,
)
from onefold.tables.findings import ColumnFacts, copies_note
from onefold.tables.kinds import HALF
from onefold.tables.learning import ColumnMoments, Median

N = 120
SMALL = {"simple": True, "cv": 3, "gammas": [0.1], "alphas": [0.1]}
RNG = np.random.default_rng(5)


def rows(**columns) -> TableRows:
    return TableRows(pa.table(columns))


def categories(preparation: Preparation) -> dict[str, tuple[str, ...]]:
    return {part.name: part.categories for part in preparation.parts if type(part) is CategoryColumn}


def learned(table: TableRows, size: int, **options) -> Learner:
    learner = Learner(["y"], **options)
    for block in table.slices(size):
        learner.add(block)
    return learner


def assert_same(one: Preparation, other: Preparation) -> None:
    assert one.feature_names == other.feature_names
    assert (one.constant, one.row_numbers, one.missing) == (
        other.constant, other.row_numbers, other.missing,
    )  # fmt: skip
    for mine, theirs in zip(one.parts, other.parts):
        assert type(mine) is type(theirs)
        for key, value in vars(mine).items():
            if isinstance(value, float):
                np.testing.assert_allclose(value, vars(theirs)[key], rtol=1e-12, atol=1e-12)
            else:
                assert value == vars(theirs)[key]


def test_numbers_are_standardised_and_text_becomes_indicators():
    a = np.array([1.0, 2, 3, 6])
    b = np.array([0.0, 10, 20, 30])
    data = rows(
        a=a, colour=["red", "blue", "red", "green"], b=b.astype(int), ok=[True, False, True, True]
    )
    preparation = learn_preparation(data)
    assert preparation.feature_names == ("a", "b", "ok", "colour=blue", "colour=green", "colour=red")
    X = preparation.transform(data)
    np.testing.assert_allclose(X[:, 0], (a - a.mean()) / a.std())
    np.testing.assert_allclose(X[:, 1], (b - b.mean()) / b.std())
    # True and false are as far apart as two categories.
    np.testing.assert_allclose(X[:, 2], np.sqrt(0.5) * np.array([1, -1, 1, 1]))
    np.testing.assert_array_equal(X[:, 3:], [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    for texts in (["True", "FALSE"], ["1", "0"], ["1.0", "0.0"], [1.0, 0.0]):
        later = rows(a=[3.0, 3.0], b=[15, 15], ok=texts, colour=["red", "red"])
        np.testing.assert_allclose(preparation.transform(later)[:, 2], [HALF, -HALF])


@pytest.mark.parametrize("frequency", [2, 10, 0.05, 0.2])
def test_rare_categories_are_those_of_scikit_learns_encoder(frequency):
    rng = np.random.default_rng(1)
    texts = rng.choice(list("abcdefgh"), 200, p=[0.4, 0.3, 0.15, 0.05, 0.04, 0.03, 0.02, 0.01])
    encoder = OneHotEncoder(min_frequency=frequency, handle_unknown="infrequent_if_exist")
    found = learn_preparation(rows(c=texts), min_frequency=frequency)
    later = np.array([*texts, "never seen"])
    expected = encoder.fit(texts[:, None]).transform(later[:, None]).toarray()
    if "c is rare" not in found.feature_names:
        later = texts
        expected = expected[:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(found.transform(rows(c=later)), expected)


def test_constant_columns_are_left_out():
    table = rows(a=[1.0, 2.0], c=[0.1, 0.1], t=["x", "x"], rare=["x", "y"])
    preparation = learn_preparation(table, min_frequency=2)
    assert preparation.constant == ("c", "t")
    assert preparation.transform(table).shape == (2, 1)


def test_a_rare_category_that_files_write_for_missing_values_is_one_of_its_own(tmp_path):
    frame = pd.DataFrame({"c": ["x"] * 20 + ["y"] * 17 + ["NA"] * 3, "y": np.arange(40.0)})
    model = TableRegressor(**SMALL, min_frequency=5).fit(frame, "y")
    frame.to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(model.predict(tmp_path / "t.csv"), model.predict(frame))
    assert "NA" in model.preparation_.parts[0].categories


def test_missing_values_are_filled_with_median_and_most_frequent():
    data = rows(
        a=[1.0, None, 5.0, 6.0], c=["x", "y", "x", None], gone=[None] * 4, one=["z", None, "z", "z"]
    )
    learner = learned(data, 3)
    preparation = learner.finish()
    assert "median or the most frequent value" in learner.notes()[0]
    assert "'a' (1 of 4 rows), 'c' (1 of 4 rows), 'one' (1 of 4 rows)" in learner.notes()[0]
    assert preparation.constant == ("gone",)
    assert preparation.feature_names == (
        "a", "a is missing", "c=x", "c=y", "c is missing", "one is missing",
    )  # fmt: skip
    X = preparation.transform(data)
    filled = np.array([1.0, 5, 5, 6])
    np.testing.assert_allclose(X[:, 0], (filled - filled.mean()) / filled.std())
    expected = [[0, 1, 0, 0, 0], [1, 0, 1, 0, 1], [0, 1, 0, 0, 0], [0, 1, 0, 1, 0]]
    np.testing.assert_array_equal(X[:, 1:], expected)


def test_what_use_has_and_training_had_not():
    whole = learn_preparation(rows(a=[1.0, 3.0], c=["x", "y"], d=["u", "v"]))
    with pytest.warns(UserWarning, match="'[ac]'") as caught:
        X = whole.transform(rows(a=[None, 2.0, 3.0], c=["x", "q", "r"], d=["u", "u", "w"]))
    unknown, missing = (str(one.message) for one in caught if one.filename == __file__)
    assert "unknown categories ignored: 2 in 'c', 1 in 'd'" in unknown
    assert "missing values in columns that had none in training" in missing
    assert "'a' (1 of 3 rows, 33%)" in missing
    np.testing.assert_array_equal(X, [[0, 1, 0, 1, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0]])
    strict = learn_preparation(rows(a=[1.0, 2.0], c=["x", "y"]), missing="error")
    for later in ({"a": [None, 1.0], "c": ["x", "y"]}, {"a": [1.0, 1.0], "c": ["x", ""]}):
        with pytest.raises(TableError, match=r"missing values in '[ac]' \(1 of 2 rows\)"):
            strict.transform(rows(**later))


WORDS = [str(v) for v in range(60)]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"c": [0.1, 0.1], "t": ["x", "x"]}, {}, r"every column is constant \('c', 't'\)"),
        ({"a": [1.0, None], "c": ["x", None]}, {"missing": "error"}, r"'a' \(1 of 2 rows\).*impute"),
        ({"a": [1.0, 2.0], "b": [1.0, float("-inf")]}, {}, "infinite values in 'b'"),
        ({"a": [1, 2], "l": [[1], [2]]}, {}, r"'l' has values of type list<item: int64>, which is not"),
        ({"who": [f"id-{i}" for i in range(60)]}, {}, r"an identifier \('who'\).*categorical=\['who'\]"),
        ({"hp": [*WORDS[:3], "?", *WORDS[3:]] * 3}, {}, r"'hp' is numeric except .*'\?' in data row 4"),
        ({"hp": [f"{v},5" for v in range(30)] * 3}, {}, r"holds numbers as text, .*decimal point"),
        ({"unnamed_1": [1, 1, 2], "a": [1, 2, 2]}, {}, r"column 1 has no name.*drop=\['unnamed_1'\]"),
        ({"unnamed_1": [0.5, 1.5], "a": [1, 2]}, {}, "column 1 has no name"),
        ({"a": pa.array([], pa.float64())}, {}, "no rows"),
        ({"y": [1, 2]}, {"exclude": ["y"]}, "no feature columns"),
        ({"a": [1, 2]}, {"missing": "fill"}, "missing must be 'error' or 'impute'; got 'fill'"),
    ],
)
def test_refused(columns, options, message):
    with pytest.raises(TableError, match=message):
        learn_preparation(rows(**columns), **options)


def test_all_problems_are_told_at_once():
    with pytest.raises(TableError) as caught:
        learn_preparation(rows(a=[1, 2**53 + 1], b=[np.inf, 1.0], c=[[1], [2]], d=[1, 2]))
    message = str(caught.value)
    assert message.startswith("the table has 3 problems: (1) column 'a' has 9007199254740993")
    assert "(2) infinite values in 'b'" in message
    assert "(3) column 'c' has values of type list<item: int64>" in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


def test_what_tells_rows_apart_is_left_out():
    names = [f"id-{i}" for i in range(60)]
    found = learn_preparation(rows(who=names, a=range(60)))
    assert (found.columns, found.identifiers) == (("a",), ("who",))
    assert learn_preparation(rows(who=names, a=range(60)), categorical=["who"]).columns == ("a", "who")
    # Fifty categories are fine, and so are many that repeat, and dates.
    assert learn_preparation(rows(who=names[:50], a=range(50))).identifiers == ()
    assert learn_preparation(rows(who=names * 2, a=range(120))).identifiers == ()
    days = [str(datetime.date(2020, 1, 1) + datetime.timedelta(i)) for i in range(60)]
    assert learn_preparation(rows(day=days)).columns == ("day",)
    assert learn_preparation(rows(unnamed_1=[1, 2], a=[1, 2])).row_numbers == ("unnamed_1",)
    # A few codes, some of which look like numbers, are categories.
    assert categories(learn_preparation(rows(n=["0", "1", "2", "3+"] * 9)))["n"][3] == "3+"


def test_columns_of_many_texts_take_little_memory():
    """Blocks of an identifier: no more texts are kept than may be categories."""
    learner = Learner()
    for block in range(4):
        learner.add(rows(who=[f"row {block} {i}" for i in range(5000)], a=range(5000)))
    assert len(learner._learners["who"]._counts) == 2001
    assert learner.finish().identifiers == ("who",)
    shops = [f"shop {i}" for i in range(3000)]
    few = Learner()
    together = Learner(min_frequency=10)
    for _ in range(9):
        few.add(rows(who=shops, a=range(3000)))
        together.add(rows(who=[*shops[:2999], "shop 0"], a=range(3000)))
    with pytest.raises(
        TableError, match=r"more than 2000 distinct texts.* use min_frequency=13, or drop="
    ):
        few.finish()
    assert together.finish().feature_names == ("a", "who=shop 0", "who is rare")


def test_copies_of_columns_are_named():
    a = RNG.normal(size=40)
    sex = RNG.choice(["f", "m"], 40)
    data = rows(a=a, inches=a / 2.54, other=RNG.normal(size=40), sex=sex, code=(sex == "m").astype(int))
    preparation = learn_preparation(data)
    facts = ColumnFacts.of(preparation, preparation.transform(data))
    assert facts.copies == [["a", "inches"], ["code", "sex"]]
    note = copies_note(facts.copies)
    assert "duplicate columns: 'inches' duplicates 'a', 'sex' duplicates 'code'; " in note
    few = ColumnFacts.of(preparation, preparation.transform(data)[:10])
    assert copies_note(few.copies) is None  # by chance


def test_rows_of_use_may_be_text_and_must_be_numbers():
    alone = learn_preparation(rows(a=[1.0, 3.0]))
    np.testing.assert_array_equal(alone.transform(rows(z=[[1], [2]], a=[2.0, 3.0])), [[0.0], [1.0]])
    np.testing.assert_array_equal(alone.transform(rows(a=[" 2", "3.0 "])), [[0.0], [1.0]])
    with pytest.raises(TableError, match="'a' should hold numbers but has 'two' in data row 102"):
        alone.transform(TableRows(pa.table({"a": ["1", "two", "x"]}), start=100))
    with pytest.raises(TableError, match="infinite values in 'a'"):
        alone.transform(rows(a=[np.inf]))
    with pytest.raises(TableError, match=r"no columns 'length', 'depth'.*the columns are 'width'"):
        learn_preparation(rows(length=[1, 2], depth=[3, 4])).transform(rows(width=[1]))


def test_what_is_wrong_in_a_later_block_names_its_row():
    numbers = pa.table({"a": ["1"] * 40 + ["2"] * 30 + ["?"] + [str(i) for i in range(40)]})
    with pytest.raises(TableError, match=r"such as '\?' in data row 71; .*na_values=\['\?'\]"):
        learned(TableRows(numbers), 7).finish()
    with pytest.raises(TableError, match="9007199254740993 in data row 21"):
        learned(rows(a=[1] * 20 + [2**53 + 1]), 7).finish()
    learner = Learner()
    learner.add(rows(a=[1.5, 2.0]))
    learner.add(TableRows(pa.table({"a": ["x", "y"]}), start=2))
    with pytest.raises(TableError, match="of another type from data row 3 on"):
        learner.finish()


def test_medians_of_blocks():
    for count, exact in ((100, True), (50_000, False)):
        values = np.sort(np.random.default_rng(count).normal(size=count) ** 3)
        median = Median(1 << 12)
        for part in np.array_split(values, 40):
            median.add(part)
        assert median.exact == exact
        # Five standard errors of the median of so many random values.
        assert abs(np.mean(values < median.value()) - 0.5) < (1e-9 if exact else 2.5 / 64)
    alone = Median(4)
    alone.add(np.arange(101.0))  # one block is exact, however long
    assert (alone.exact, alone.value()) == (True, 50.0)
    assert np.isnan(Median().value())


DRAWN = {
    "numbers": st.none() | st.floats(-1e6, 1e6),
    "whole": st.none() | st.integers(-5, 5),
    "texts": st.none() | st.sampled_from(["a", "b", "", "c d"]),
    "truths": st.none() | st.booleans(),
    "words": st.none() | st.sampled_from(["yes", "no", "ja"]),
    "dates": st.none() | st.dates(datetime.date(1990, 1, 1), datetime.date(2030, 1, 1)),
    "days": st.none() | st.dates(datetime.date(1990, 1, 1)).map(lambda day: f"{day:%d/%m/%Y}"),
    "clock": st.none() | st.times().map(lambda time: f"{time:%H:%M}"),
}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n=st.integers(1, 25), block=st.integers(1, 9))
def test_any_columns(data, n, block):
    """Missing values, duplicates, one row, constants: the same in blocks, finite, or refused alike."""
    kinds = {"numbers": pa.float64(), "whole": pa.int64(), "truths": pa.bool_(), "dates": pa.date32()}
    columns = {}
    for name in data.draw(st.lists(st.sampled_from(list(DRAWN)), min_size=1, unique=True)):
        values = data.draw(st.lists(DRAWN[name], min_size=n, max_size=n))
        columns[name] = pa.array(values, kinds.get(name, pa.string()))
    table = rows(**columns)
    rare = data.draw(st.sampled_from([None, 3, 0.2]))
    try:
        whole = learned(table, n, min_frequency=rare).finish()
    except TableError as error:
        with pytest.raises(TableError, match=str(error).partition("; ")[0].replace("(", ".")[:20]):
            learned(table, block, min_frequency=rare).finish()
        return
    parts = learned(table, block, min_frequency=rare).finish()
    assert_same(whole, parts)
    assert pickle.loads(pickle.dumps(whole)) == whole
    X = whole.transform(table)
    assert X.shape == (n, len(whole.feature_names))
    assert np.isfinite(X).all()
    np.testing.assert_allclose(parts.transform(table), X, rtol=1e-6, atol=1e-6)
    pieces = [whole.transform(part) for part in table.slices(block)]
    np.testing.assert_array_equal(np.vstack(pieces), X)
    assert np.ptp(X, axis=0).min() > 0  # no feature is constant


@given(
    cuts=st.lists(st.integers(0, 30), max_size=4),
    scale=st.sampled_from([1e-200, 1e-12, 1.0, 1e12, 1e200]),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
)
def test_moments_of_blocks_are_those_of_all_rows(cuts, scale, offset):
    values = scale * (np.random.default_rng(1).standard_normal((30, 2)) + np.array([offset, 0.0]))
    total = ColumnMoments.of(np.empty((0, 2)))
    for block in np.split(values, sorted(cuts)):
        total = total.joined(ColumnMoments.of(block))
    mean, deviation = total.mean_and_scale()
    assert total.n == 30
    np.testing.assert_allclose(mean / scale, (values / scale).mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(deviation / scale, (values / scale).std(axis=0), rtol=1e-9)


def test_columns_of_rare_categories_alone_are_not_called_constant():
    """They were "dropped constant columns" where min_frequency is above every count."""
    frame = pd.DataFrame({"x": RNG.normal(size=N), "c": np.arange(N) % 40, "same": 1})
    frame["c"] = "c" + frame["c"].astype(str)
    frame["y"] = frame["x"] * 2
    model = TableRegressor(**SMALL, min_frequency=9).fit(frame, "y")
    assert model.preparation_.constant == ("same",)
    assert model.preparation_.columns == ("x",)
    words = "dropped columns whose categories are all rarer than min_frequency: 'c'"
    assert model.notes_[:2] == ["dropped constant columns: 'same'", words]
    frame.loc[3, "c"] = None
    model = TableRegressor(**SMALL, min_frequency=0.5).fit(frame, "y")
    assert model.preparation_.feature_names == ("x", "c is missing")
    assert words in model.notes_
    with pytest.raises(TableError, match=r"every category of 'c' is rarer .* min_frequency=3, or"):
        TableRegressor(**SMALL, min_frequency=9).fit(frame[["c", "y"]].dropna(), "y")
    assert "c=c0" in TableRegressor(**SMALL, min_frequency=3).fit(frame, "y").get_feature_names_out()
