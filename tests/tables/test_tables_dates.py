"""Dates and times: elapsed time and the cycles that they can show, or refused with the remedy."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onefold
from onefold import TableRegressor
from onefold.heldout import GapKFold
from onefold.tables import (
    BooleanColumn,
    DateColumn,
    Reading,
    TableError,
    TableRows,
    columns,
    learn_preparation,
)
from onefold.tables.columns import is_moment, phases, text_seconds
from onefold.tables.kinds import are_booleans

QUICK = {"simple": True, "gammas": [0.1], "alphas": [0.1]}


def moments(*values, **options) -> TableRows:
    return TableRows(pa.table({"when": list(values)}), **options)


def learned(values, **options) -> DateColumn:
    (part,) = learn_preparation(moments(*values, **options)).parts
    assert isinstance(part, DateColumn)
    return part


def days(start: str, count: int, step: float) -> list[datetime.datetime]:
    begin = datetime.datetime.fromisoformat(start)
    return [begin + datetime.timedelta(days=step * i) for i in range(count)]


@pytest.mark.parametrize(
    ("values", "cycles"),
    [
        (days("2020-01-01", 60, 7), ()),  # always Wednesday
        (days("2020-01-01", 150, 7), ("year",)),
        (days("2020-01-01", 30, 1 / 24), ()),  # not round twice
        (days("2020-01-01", 900, 1.04), ("year", "week", "day")),
        ([datetime.datetime(2000 + i, 1, 1) for i in range(9)], ("week",)),
    ],
)
def test_cycles_are_those_that_the_column_can_show(values, cycles):
    assert learned(values).cycles == cycles


def test_features_are_elapsed_time_and_waves():
    values = days("2020-03-01", 60, 20.25)
    rows = moments(*values, None)
    preparation = learn_preparation(rows)
    names = ("when", "when year sin", "when year cos", "when week sin", "when week cos")
    assert preparation.feature_names == (*names, "when day sin", "when day cos", "when is missing")
    X = preparation.transform(rows)
    assert X[:, 7].tolist() == [0.0] * 60 + [1.0]
    elapsed = np.array([(value - values[0]).total_seconds() for value in values])
    elapsed = np.append(elapsed, np.median(elapsed))  # which stands for what is missing
    standard = (elapsed - elapsed.mean()) / elapsed.std()
    np.testing.assert_allclose(X[:, 0], standard, rtol=1e-12, atol=1e-12)
    day = np.array([value.hour / 24 for value in values])
    waves = np.column_stack([np.sin(2 * np.pi * day), np.cos(2 * np.pi * day)])
    np.testing.assert_allclose(X[:60, 5:7], waves, atol=1e-12)
    week = np.array([(value.weekday() + value.hour / 24) / 7 for value in values])
    np.testing.assert_allclose(X[:60, 3], np.sin(2 * np.pi * week), atol=1e-12)
    begins = [[datetime.datetime(value.year + i, 1, 1) for i in (0, 1)] for value in values]
    year = np.array([(value - begin) / (end - begin) for value, (begin, end) in zip(values, begins)])
    np.testing.assert_allclose(X[:60, 2], np.cos(2 * np.pi * year), atol=1e-12)


@pytest.mark.parametrize(
    "texts",
    [
        ["2024-01-31", "2024-02-01"],
        ["31.1.2024", "1.2.2024"],
        ["1/31/2024", "2/1/2024"],
        ["31 Jan 2024", "1 February 2024"],
        ["Jan 31, 2024", "Feb 1, 2024"],
        ["2024-Jan-31", "2024-Feb-1"],
        ["2024-01-31T00:00:00Z", "2024-02-01T00:00:00+00:00"],
        ["2024-01-31 02:00+02:00", "2024-01-31T19:00-0500"],
        ["31 Jan 2024 02:00+02:00", "31 Jan 2024, 7:00 PM -0500"],
        ["1/31/2024 12:00 AM", "2/1/2024 12:00 am"],
        ["31.1.2024, 0:00", "1.2.2024, 00:00:00.0"],
    ],
)
def test_the_same_dates_in_many_ways_of_writing_them(texts):
    part = learned(texts)
    assert part.mean == pytest.approx(pd.Timestamp("2024-01-31 12:00").timestamp(), abs=1e-3)
    assert part.scale == pytest.approx(43200.0)
    np.testing.assert_allclose(part.features(moments(*texts, None)).values[:, 0], [-1, 1, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["3/4/2024", "5/6/2024"],
            "such as '3/4/2024' in data row 1, are ambiguous: day or month first",
        ),
        (["31/1/2024", "1/31/2024"], "cannot be parsed, such as"),
        (["2024-01-01", "2024-01-02", "soon"], "cannot be parsed, such as 'soon' in data row 3"),
        ([*map(str, days("2024-01-01", 3000, 0.01)), "soon"], "'soon' in data row 3001"),
        (["2024-02-30", "2024-01-02"], "cannot be parsed, such as '2024-02-30' in data row 1"),
        (["1.2.24", "2.2.24"], "cannot be parsed"),
        (["10:30", "10:60"], "cannot be parsed, such as '10:60'|'10:30'"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_remedy(texts, message):
    with pytest.raises(TableError, match=message) as caught:
        learned(texts)
    assert "Reading(dayfirst=True)" in str(caught.value) or "write them like" in str(caught.value)
    assert "drop=['when']" in str(caught.value)


def test_one_value_settles_the_order_and_equal_ones_need_none():
    assert learned(["3/4/2024", "13/4/2024"]).order == "dmy"
    assert learned(["3/4/2024", "3/14/2024"]).order == "mdy"
    assert learned(["3/3/2024", "5/5/2024"]).scale == 31.5 * 86400


@pytest.mark.parametrize("dayfirst", [True, False])
def test_the_order_can_be_declared(dayfirst):
    reading = Reading(dayfirst=dayfirst)
    texts = ["3/4/2024", "5/6/2024", "7/8/2024", "2024-01-01"]
    with pytest.raises(TableError, match="cannot be parsed, such as"):
        learned([*texts, "1/31/2024" if dayfirst else "31/1/2024"], reading=reading)
    unsettled = learned(["2024-01-01", "2024-02-01"])
    found = unsettled.features(moments("3/4/2024", reading=reading)).values
    expected = unsettled.features(moments("2024-04-03" if dayfirst else "2024-03-04")).values
    np.testing.assert_array_equal(found, expected)


def test_later_rows_must_be_dates_too():
    part = learned(["13/4/2024", "14/4/2024"])
    with pytest.raises(TableError, match="'5/13/2024' in data row 12; write it like 31/12/2024 or 2024"):
        part.features(moments("1/5/2024", "5/13/2024", start=10))
    with pytest.raises(TableError, match="should hold dates or times but has type int64"):
        part.features(moments(1, 2))
    with pytest.raises(TableError, match="should hold dates but holds times of day"):
        part.features(moments(datetime.time(1, 2)))


@pytest.mark.parametrize("how", [None, "%Y-%m-%d", "%d %B %Y"])
def test_an_order_that_training_did_not_settle_is_refused_in_use(how):
    days = pd.date_range("2023-01-05", periods=40, freq="9D")
    table = pd.DataFrame({"t": days if how is None else days.strftime(how), "x": np.arange(40.0) % 7})
    model = TableRegressor(**QUICK).fit(table, np.arange(40.0))

    def predicted(text):
        return model.predict(pd.DataFrame({"t": [text], "x": [0.0]}))[0]

    assert predicted("13/02/2024") == predicted("2024-02-13")
    assert predicted("02/02/2024") == predicted("2024-02-02")
    with pytest.raises(TableError, match="'01/02/2024' in data row 1; write it like 2024-12-31"):
        predicted("01/02/2024")


def test_times_of_day_and_durations():
    part = learned(["10:30", "23:15:00", "0:05"])
    assert (part.order, part.cycles) == ("time", ("day",))
    assert learned([datetime.time(10, 30), datetime.time(23, 15), datetime.time(0, 5)]) == part
    spans = moments(*(datetime.timedelta(seconds=s) for s in (1, 2, 6)))
    assert learn_preparation(spans).parts[0].mean == 3.0


ZONED = pd.date_range("2024-01-01", periods=60, freq="7h", tz="Europe/Berlin")


@pytest.mark.parametrize("form", [lambda one: one, lambda one: one.map(pd.Timestamp.isoformat)])
def test_instants_in_other_zones_and_without_one(form):
    x = np.arange(60.0) % 7
    model = TableRegressor(**QUICK).fit(pd.DataFrame({"t": form(ZONED), "x": x}), np.sin(x))
    expected = model.predict(pd.DataFrame({"t": ZONED, "x": x}))
    for zone in ("Asia/Tokyo", "UTC", "Etc/GMT-3"):
        other = pd.DataFrame({"t": form(ZONED.tz_convert(zone)), "x": x})
        np.testing.assert_allclose(model.predict(other), expected, rtol=1e-12)
    local = pd.DataFrame({"t": form(ZONED.tz_localize(None)), "x": x})
    with pytest.raises(TableError, match=r"had .* in training but has .* here; convert it"):
        model.predict(local)
    with pytest.raises(TableError, match=r"had .* in training but has .* here; convert it"):
        TableRegressor(**QUICK).fit(local, np.sin(x)).predict(pd.DataFrame({"t": form(ZONED), "x": x}))


@settings(max_examples=100, deadline=None)
@given(
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1)),
    st.sampled_from(["dmy", "mdy"]),
)
def test_every_date_is_read_as_it_was_written(moment, order):
    seconds = (moment.replace(microsecond=0) - datetime.datetime(1970, 1, 1)).total_seconds()
    first = "%d/%m/%Y" if order == "dmy" else "%m/%d/%Y"
    for text in ("%Y-%m-%d %H:%M:%S", f"{first} %H:%M:%S", "%d %B %Y %I:%M:%S %p"):
        written = moment.strftime(text)
        assert is_moment(written)
        assert text_seconds(pa.chunked_array([[written]]), order)[0] == [seconds]
    phase = phases(np.array([seconds]), "year")[0]
    assert phase == pytest.approx((moment.timetuple().tm_yday - 1) / 365, abs=0.01)
    # To microseconds, in text with the year first, in other text and in types of more digits.
    exact = [moment.strftime(text) for text in ("%Y-%m-%d %H:%M:%S.%f", f"{first} %H:%M:%S.%f789")]
    reading = Reading(dayfirst=order == "dmy")
    found = [learned([text, "2200-01-01"], reading=reading).mean for text in exact]
    later = (
        np.datetime64(moment, "us").astype("datetime64[ns]") + 789,
        np.datetime64("2200-01-01", "ns"),
    )
    found.append(learned(pa.array(later, pa.timestamp("ns"))).mean)
    assert found == [learned([moment, datetime.datetime(2200, 1, 1)]).mean] * 3


def test_words_for_true_and_false():
    for words in (["Ja", "NEIN"], ["true", "FALSE", "1", "0"], ["Y", "n"], ["yes", "0", "1", "No "]):
        assert isinstance(learn_preparation(moments(*words * 3)).parts[0], BooleanColumn)
    for words in (["0", "1"], ["m", "f"], ["yes", "maybe"], ["no", "n"], ["t", "n"], ["yes"]):
        assert not are_booleans(words)
    preparation = learn_preparation(moments("yes", "no", "yes"))
    with (
        pytest.warns(UserWarning, match="1 in 'when'"),  # unknown words lie in the middle
        pytest.warns(UserWarning, match="missing values in columns that had none in training"),
    ):
        X = preparation.transform(moments("ja", "0", "perhaps", None))
    np.testing.assert_allclose(X[:, 0], np.sqrt(0.5) * np.array([1, -1, 0, 1]))


@pytest.mark.parametrize(
    ("order", "options", "told"),
    [
        (np.arange(60), {}, True),
        (np.arange(60)[::-1], {}, True),
        (np.arange(60) // 2 * 2, {}, True),  # rows share a date
        (np.random.default_rng(0).permutation(60), {}, True),  # the dates say it in any order
        (np.arange(60), {"ordered": True}, False),
        (np.arange(60), {"cv": GapKFold(5)}, False),
    ],
)
def test_rows_that_come_in_time_are_told_where_folds_are_random(order, options, told, tmp_path):
    when = np.datetime64("2024-01-01") + order.astype("timedelta64[D]")
    frame = pd.DataFrame({"when": when, "x": np.random.default_rng(0).normal(size=60)})
    frame["y"] = np.sin(order / 9.0) + frame["x"]
    frame.loc[[7, 30], "when"] = pd.NaT
    frame.to_csv(tmp_path / "t.csv", index=False)  # as text, too
    for table in (frame, tmp_path / "t.csv"):
        model = TableRegressor(**QUICK, **options).fit(table, "y")
        assert model.report_["scores"]["in_order_of"] == ("when" if told else None)
        for notes in (model.report_["notes"], model.report(X=table).as_dict()["cautions"]):
            assert any("errors on later rows were" in one for one in notes) is told


@pytest.mark.parametrize("lacking", ["Python", "Arrow"])
def test_a_system_without_time_zones_is_told_what_to_install(tmp_path, monkeypatch, lacking):
    """A model with zoned dates was refused as a damaged file."""
    zoned = pd.date_range("2020-01-01", periods=40, freq="29h", tz="Europe/Berlin")
    table = pd.DataFrame({"when": zoned, "y": np.arange(40.0)})
    model = TableRegressor(**QUICK).fit(table, "y")
    model.save(tmp_path / "m.onefold")
    assert onefold.load(tmp_path / "m.onefold").preparation_.parts[0].zone == "Europe/Berlin"

    def locate(*given):
        raise pa.ArrowInvalid("Cannot locate or parse timezone 'Europe/Berlin'")

    if lacking == "Python":
        monkeypatch.setattr(columns, "available_timezones", set)
    else:
        monkeypatch.setattr(columns.pc, "local_timestamp", locate)
    words = "times in time zone 'Europe/Berlin' need a time-zone database, .* pip install tzdata"
    with pytest.raises(ImportError, match=words):
        onefold.load(tmp_path / "m.onefold")
    if lacking == "Arrow":
        for use in (lambda: model.predict(table), lambda: TableRegressor(**QUICK).fit(table, "y")):
            with pytest.raises(ImportError, match=words):
                use()


def test_a_time_zone_that_nobody_knows_is_not_called_a_system_without_time_zones():
    """The remedy was to install a database that was there."""
    instants = pa.array(range(60), pa.timestamp("s", "Mars/Base"))
    with pytest.raises(TableError, match="'Mars/Base' is not a known time zone; convert the times to"):
        TableRegressor(simple=True).fit(pa.table({"when": instants, "x": range(60)}), np.arange(60.0))
