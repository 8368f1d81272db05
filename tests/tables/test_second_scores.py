"""What is done about a noticed structure: a second score, or folds that keep it together."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, TimeSeriesSplit

from onefold import LSSVRCV, TableClassifier, TableRegressor, load, plan
from onefold.cli.entry import main
from onefold.cli.terminal import result_text
from onefold.facts.measures import Measured
from onefold.heldout import GapKFold
from onefold.tables import TableError, training
from onefold.tables.roles import Roles
from onefold.tables.rows import rows_of_frame
from onefold.tables.searching import Splitting, in_time
from onefold.tables.structure import Structure
from onefold.tuning import tune_table

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
RNG = np.random.default_rng(8)
SHOPS = 15
DAYS = 8
N = SHOPS * DAYS
SHOP = np.repeat(np.arange(SHOPS), DAYS)
DAY = np.tile(np.arange(DAYS), SHOPS)
LEVEL = RNG.standard_normal(SHOPS)[SHOP]
FRAME = pd.DataFrame(
    {
        "shop": [f"s{number:02d}" for number in SHOP],
        "day": DAY,
        "x": RNG.standard_normal(N),
        "y": LEVEL + 0.2 * RNG.standard_normal(N),
    }
).sample(frac=1, random_state=0, ignore_index=True)
SHOP_CODES = np.unique(FRAME["shop"], return_inverse=True)[1]
DAY_CODES = FRAME["day"].to_numpy()
GROUPS = Structure("groups", ("shop",), SHOP_CODES, 2.0, 1e-4)
TIME = Structure("time", ("day",), DAY_CODES, 1.5, 1e-3)
QUICK = {"simple": True, "gammas": [0.1, 1.0], "alphas": [0.1, 1.0]}


@pytest.fixture
def noticing(monkeypatch):
    """Sets what is noticed, in all rows or in some of them."""

    def set_structure(structure) -> None:
        def notice(table, preparation, matrix, y, **options):
            if structure is None or len(y) == N:
                return structure
            values = np.asarray(table.column(structure.columns[0]))
            return replace(structure, codes=np.unique(values, return_inverse=True)[1])

        monkeypatch.setattr(training, "notice", notice)

    return set_structure


def test_by_default_noticed_groups_give_a_second_score(noticing) -> None:
    noticing(None)
    plain = TableRegressor(**QUICK).fit(FRAME, "y")
    assert plain.report_["second"] is None
    assert plain.report_["structure"] is None
    noticing(GROUPS)
    model = TableRegressor(**QUICK).fit(FRAME, "y")
    assert model.best_params_ == plain.best_params_
    sentence = {"structure": GROUPS.sentence}
    assert model.report_["scores"] == plain.report_["scores"] | sentence
    second = model.report_["second"]
    assert set(second) == set(model.report_["scores"]) - {"in_order_of", "structure"} | {
        "cv",
        "use",
        "first_use",
    }
    assert second["cv"] == "5-fold, groups of 'shop' kept together"
    assert second["use"] == "rows of a new 'shop'"
    assert second["first_use"] == "new rows of the same 'shop'"
    inner = LSSVRCV(cv=GroupKFold(5), gammas=[model.estimator_.gamma_], alphas=[model.estimator_.alpha_])
    matrix = model.preparation_.transform(training.opened(FRAME, None).read())
    inner.fit(matrix, FRAME["y"], groups=SHOP_CODES)
    assert_allclose(model.estimator_.second_predict_, inner.heldout_prediction_, rtol=1e-8)
    assert_allclose(second["model"]["measures"]["rmse"]["value"], (-inner.best_score_) ** 0.5, rtol=0.02)
    rmse = {name: model.report_[name]["model"]["measures"]["rmse"] for name in ("scores", "second")}
    assert rmse["second"]["value"] > 1.5 * rmse["scores"]["value"]
    # Intervals are as wide as new shops need.
    assert (
        np.diff(model.predict_interval(FRAME)).mean()
        > 1.5 * np.diff(plain.predict_interval(FRAME)).mean()
    )


def test_noticed_time_gives_blocks_of_moments(noticing) -> None:
    noticing(TIME)
    model = TableRegressor(**QUICK).fit(FRAME, "y")
    second = model.report_["second"]
    assert second["cv"] == "5 blocks of consecutive moments of 'day'"
    assert (second["first_use"], second["use"]) == ("random rows", "later rows")
    folds = model.estimator_.second_splits_
    for day in range(DAYS):  # rows of a day are never shared between folds
        assert len(set(folds[day == DAY_CODES])) == 1
    assert sorted(set(folds)) == [0, 1, 2, 3, 4]


def test_classes_have_a_second_score_and_its_probabilities(noticing) -> None:
    noticing(GROUPS)
    table = FRAME.assign(y=np.where(FRAME["y"] > 0, "high", "low"))
    model = TableClassifier(**QUICK).fit(table, "y")
    assert "accuracy" in model.report_["second"]["model"]["measures"]
    assert model.estimator_.second_proba_ is not None
    text = result_text(model, ["m/model.onefold"])
    assert "probabilities follow it" in text


def test_auto_groups_are_those_of_the_noticed_column(noticing) -> None:
    noticing(GROUPS)
    auto = TableRegressor(**QUICK).fit(FRAME, "y", groups="auto")
    named = TableRegressor(**QUICK).fit(FRAME, "y", groups="shop")
    assert auto.report_["scores"] == named.report_["scores"]
    assert auto.report_["splits"] == named.report_["splits"]
    assert auto.report_["second"] is None
    assert auto.report_["structure"]["columns"] == ["shop"]
    assert "shop" not in auto.preparation_.columns
    noticing(None)
    nothing = TableRegressor(**QUICK).fit(FRAME, "y", groups="auto")
    assert nothing.report_["cv"] == "5-fold"


def test_a_set_of_noticed_columns_stays_a_set_of_features(noticing) -> None:
    noticing(Structure("groups", ("shop", "day"), SHOP_CODES, 2.0, 1e-4))
    model = TableRegressor(**QUICK).fit(FRAME, "y", groups="auto")
    assert model.report_["cv"] == "5-fold, groups of 'shop' and 'day' kept together"
    assert {"shop", "day"} <= set(model.preparation_.columns)
    assert isinstance(model.estimator_.cv, int)


def test_auto_order_searches_by_blocks_of_moments(noticing) -> None:
    noticing(TIME)
    model = TableRegressor(ordered="auto", gap=1, **QUICK).fit(FRAME, "y")
    assert model.report_["cv"] == (
        "5 blocks of consecutive moments of 'day' with 1 moments left out around each"
    )
    assert model.report_["second"] is None
    noticing(GROUPS)
    model = TableRegressor(ordered="auto", **QUICK).fit(FRAME, "y")
    assert model.report_["splits"]["kind"] == "folds"
    assert model.report_["second"] is not None


def test_groups_of_several_columns_agree_in_all_of_them() -> None:
    table = FRAME.assign(half=FRAME["day"] // 4)
    codes = np.unique(FRAME["shop"] + table["half"].astype(str), return_inverse=True)[1]
    features = table.drop(columns=["shop", "half"])
    by_array = TableRegressor(**QUICK).fit(features, "y", groups=codes)
    for groups in (["shop", "half"], ("shop", "half"), "shop,half"):
        by_columns = TableRegressor(**QUICK).fit(table, "y", groups=groups)
        assert by_columns.report_["cv"] == "5-fold, groups of 'shop' and 'half' kept together"
        assert_allclose(
            by_columns.estimator_.heldout_prediction_, by_array.estimator_.heldout_prediction_
        )
    assert by_columns.report_["splits"]["groups"] == ["shop", "half"]
    single = TableRegressor(**QUICK).fit(table, "y", groups=["shop"])
    assert single.report_["splits"]["groups"] == "shop"
    with pytest.raises(TableError, match="hopp"):
        TableRegressor(**QUICK).fit(table, "y", groups=["shop", "hopp"])


def test_hold_out_keeps_groups_of_several_columns_and_noticed_ones_together(noticing) -> None:
    noticing(GROUPS)
    model = tune_table(FRAME, "y", groups="auto", holdout=0.2, **QUICK)
    assert model.report_["test"]["rows"] == 3 * DAYS
    noticing(TIME)
    model = tune_table(FRAME, "y", ordered="auto", holdout=0.25, **QUICK)
    assert model.report_["test"]["rows"] == 2 * SHOPS
    noticing(None)
    model = tune_table(FRAME, "y", groups=["shop", "day"], holdout=0.2, **QUICK)
    assert model.report_["cv"] == "5-fold, groups of 'shop' and 'day' kept together"


def test_a_split_that_trains_on_the_past() -> None:
    model = TableRegressor(cv="past:3", **QUICK).fit(FRAME, "y")
    assert model.report_["cv"] == "3 blocks of consecutive rows, trained on earlier ones only"
    given = TableRegressor(cv=TimeSeriesSplit(3), **QUICK).fit(FRAME, "y")
    assert model.report_["heldout"]["rmse"] == given.report_["heldout"]["rmse"]
    gapped = TableRegressor(cv="past:3", gap=4, **QUICK).fit(FRAME, "y")
    assert gapped.report_["splits"] == {"kind": "past", "folds": 3, "gap": 4, "groups": None}
    for cv in ("past:", "past:1", "past:x", "future:5"):
        with pytest.raises(ValueError, match="past:5"):
            TableRegressor(cv=cv, **QUICK).fit(FRAME, "y")


def test_the_past_is_that_of_the_only_date_column(noticing) -> None:
    noticing(None)
    dates = pd.Timestamp("2024-01-01") + pd.to_timedelta(FRAME["day"], unit="D")
    table = FRAME.drop(columns="day").assign(date=dates)
    model = TableRegressor(cv="past:3", ordered="auto", **QUICK).fit(table, "y")
    assert model.report_["cv"].startswith(
        "3 blocks of consecutive moments of 'date', trained on earlier"
    )
    tested = np.isfinite(model.estimator_.heldout_prediction_)
    assert set(FRAME["day"][tested]) == {2, 3, 4, 5, 6, 7}
    noticing(TIME)
    model = TableRegressor(cv="past:3", ordered="auto", **QUICK).fit(FRAME, "y")
    assert "moments of 'day'" in model.report_["cv"]


def test_blocks_of_moments_are_those_of_the_splitters() -> None:
    ranks = RNG.integers(0, 20, 200)
    ranks[:20] = np.arange(20)
    plain = in_time(ranks, ("t",), Splitting("folds", None, 4))
    for (_, expected), (_, test) in zip(GapKFold(4).split(np.zeros(20)), plain.cv.split()):
        assert set(ranks[test]) == set(expected)
    past = in_time(ranks, ("t",), Splitting("past", None, 4, 2))
    for (before, after), (train, test) in zip(TimeSeriesSplit(4, gap=2).split(np.zeros(20)), past.cv):
        assert set(ranks[train]) == set(before)
        assert set(ranks[test]) == set(after)
        assert ranks[train].max() + 2 < ranks[test].min()


def test_one_moment_makes_no_blocks(noticing) -> None:
    noticing(None)
    table = FRAME.assign(date=pd.Timestamp("2024-01-01") + pd.to_timedelta(FRAME["day"] % 2, unit="D"))
    with pytest.raises(TableError, match="at least 3 of them, but 'date' has 2"):
        TableRegressor(cv="past:3", ordered="auto", **QUICK).fit(table, "y")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"criterion": "press"}, "criterion"),
        ({"intervals": "jackknife+"}, "jackknife"),
    ],
)
def test_where_there_is_no_second_score_a_note_says_why(noticing, options, words) -> None:
    noticing(GROUPS)
    model = TableRegressor(**QUICK, **options).fit(FRAME, "y")
    assert model.report_["second"] is None
    assert any("no second score" in note and words in note for note in model.report_["notes"])


def test_one_class_without_a_fold_is_no_error(noticing) -> None:
    noticing(GROUPS)
    rare = (SHOP_CODES == 3) & (FRAME["x"] > -9)
    model = TableClassifier(**QUICK).fit(FRAME.assign(y=rare), "y")
    assert model.report_["second"] is None
    assert any("only one class" in note for note in model.report_["notes"])


def test_terminal_json_and_page_show_both_scores(noticing, tmp_path, capsys, monkeypatch) -> None:
    noticing(GROUPS)
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("shops.csv", index=False)
    search = ["--simple", "--gammas", "0.1,1", "--alphas", "0.1,1", "--target", "y"]
    assert main(["tune", "shops.csv", *search]) == 0
    text = capsys.readouterr().out
    assert "new rows of the same 'shop'  R²" in text
    assert re.search(r"rows of a new 'shop' +R²", text)
    assert "believe the second score" in text
    page = (tmp_path / "shops-onefold" / "report.html").read_text(encoding="utf-8")
    assert "Scores for two uses" in page
    assert main(["tune", "shops.csv", "--json", "--force", *search]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["second"]["use"] == "rows of a new 'shop'"
    assert facts["structure"]["kind"] == "groups"
    model = load(tmp_path / "shops-onefold" / "model.onefold")
    assert model.report_["second"]["use"] == "rows of a new 'shop'"
    assert "believe the second score" in model.report(None, FRAME, "y").text()


def test_the_options_of_the_shell(noticing, tmp_path, capsys, monkeypatch) -> None:
    noticing(GROUPS)
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("shops.csv", index=False)
    search = ["--simple", "--gammas", "0.1,1", "--alphas", "0.1,1", "--target", "y", "--force", "--json"]

    def cv(*options: str) -> str:
        assert main(["tune", *options, *search]) == 0
        return json.loads(capsys.readouterr().out)["cv"]

    assert cv("shops.csv", "--groups", "auto") == "5-fold, groups of 'shop' kept together"
    both = "5-fold, groups of 'shop' and 'day' kept together"
    assert cv("shops.csv", "--groups", "shop", "day") == both
    assert cv("--groups", "shop", "day", "shops.csv") == both
    assert cv("shops.csv", "--groups", "shop,day") == both
    assert cv("--groups", "shop", "shops.csv") == "5-fold, groups of 'shop' kept together"
    assert cv("--ordered", "shops.csv") == "5 blocks of consecutive rows"
    noticing(TIME)
    assert cv("shops.csv", "--ordered", "auto") == "5 blocks of consecutive moments of 'day'"
    assert cv("shops.csv", "--cv", "past:3").startswith("3 blocks of consecutive rows, trained")
    assert main(["tune", "shops.csv", "--cv", "past:1", *search]) == 2


def test_rows_of_a_cluster_are_not_counted_as_independent() -> None:
    influence = RNG.standard_normal(30)
    weight = np.full(90, 1 / 90)
    once = Measured(0.0, influence).error(np.full(30, 1 / 30))
    clusters = np.repeat(np.arange(30), 3)
    copied = Measured(0.0, np.repeat(influence, 3)).error(weight, clusters)
    assert_allclose(copied, once * np.sqrt(30 / 29))
    assert Measured(0.0, np.repeat(influence, 3)).error(weight) < 0.6 * once


def test_plans_count_the_blocks_of_splits_that_train_on_the_past() -> None:
    """43 s were announced and 126 s taken for these sizes; plain folds took 49 s."""
    shape = (3116, 36)
    folds, past, splitter = (
        plan(LSSVRCV(cv=cv, approximation="exact"), shape) for cv in (5, "past:5", TimeSeriesSplit(5))
    )
    assert past.seconds == splitter.seconds
    assert 2.2 < past.seconds / folds.seconds < 3.4
    pairs = list(TimeSeriesSplit(5).split(np.zeros(shape)))
    assert plan(LSSVRCV(cv=pairs, approximation="exact"), shape).seconds == past.seconds
    assert plan(LSSVRCV(cv=GapKFold(5), approximation="exact"), shape).seconds == folds.seconds
    learned = {"kernel": "auto", "metric": "auto"}
    few = plan(LSSVRCV(cv="past:5", **learned), (900, 5))
    assert few.seconds != plan(LSSVRCV(**learned), (900, 5)).seconds


def test_auto_groups_have_rows_without_a_value(noticing) -> None:
    absent = np.arange(N) % 10 == 0
    codes = np.where(absent, SHOPS + np.arange(N), SHOP_CODES)
    noticing(replace(GROUPS, codes=np.unique(codes, return_inverse=True)[1]))
    table = FRAME.assign(shop=FRAME["shop"].mask(absent))
    model = TableRegressor(**QUICK).fit(table, "y", groups="auto")
    assert model.report_["cv"] == "5-fold, groups of 'shop' kept together"
    assert "shop" not in model.preparation_.columns
    with pytest.raises(TableError, match="every row needs a group"):
        TableRegressor(**QUICK).fit(table, "y", groups="shop")


def test_auto_that_notices_nothing_says_so(noticing) -> None:
    noticing(None)

    def notes(groups: str | None = None, **parameters) -> list[str]:
        model = TableRegressor(**parameters, **QUICK).fit(FRAME, "y", groups=groups)
        return [note for note in model.report_["column_notes"] if "noticed" in note]

    assert notes() == []
    assert notes("auto") == ["no groups noticed: rows are assigned to folds at random"]
    assert notes(ordered="auto") == ["no order in time noticed: rows are assigned to folds at random"]
    [both] = notes("auto", ordered="auto")
    assert both.startswith("no groups or order in time noticed")
    noticing(TIME)
    assert len(notes("auto")) == 1
    assert notes(ordered="auto") == []


def test_parts_of_moments_are_listed(noticing) -> None:
    noticing(replace(TIME, columns=("day", "x", "shop")))
    model = TableRegressor(**QUICK).fit(FRAME, "y")
    assert model.report_["second"]["cv"].endswith("moments of 'day', 'x' and 'shop'")


def test_more_blocks_than_rows_are_refused_with_the_most() -> None:
    with pytest.raises(TableError, match=f"at least 201 rows.*cv='past:{N - 1}'"):
        TableRegressor(cv="past:200", **QUICK).fit(FRAME, "y")


def test_rows_in_the_opposite_order_of_time_have_its_moments(monkeypatch) -> None:
    noticed = Structure("time", (), np.arange(N), 1.5, 1e-3)
    monkeypatch.setattr(training, "notice", lambda *arguments, **options: noticed)
    days = pd.date_range("2024-01-01", periods=N)[::-1]
    table = rows_of_frame(FRAME.assign(date=days))
    structure = training.structure_of(TableRegressor(), table, Roles("y"), None)
    assert structure.columns == ("date",)
    assert structure.codes.tolist() == list(range(N))[::-1]  # the latest ones are held out
