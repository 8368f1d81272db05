"""A report of every estimator, alone, in a pipeline and behind a table, with rows and without."""

from __future__ import annotations

import getpass
import json
import platform

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from report_cases import FEW, labels, numbers, table
from scipy.sparse import csr_matrix
from sklearn.compose import TransformedTargetRegressor
from sklearn.compose import make_column_transformer as columns
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVC, SparseLSSVR
from onefold.approximations import Nystroem
from onefold.facts.scores import shuffled_folds
from onefold.heldout import GapKFold
from onefold.plots import PredictionDisplay
from onefold.report import Report, write_report
from onefold.tables import TableRegressor
from onefold.tuning import tune_table

SECTIONS = [
    "title", "question", "summary", "scores", "second", "test", "ran", "importances", "slices", "trust",
    "data", "environment", "repeat", "cautions",
]  # fmt: skip


def checked(report: Report) -> dict:
    """The facts, after all forms of the report were made."""
    found = report.as_dict()
    json.dumps(found, allow_nan=False)
    assert list(found) == SECTIONS
    assert len(found["summary"]) == 3
    assert all(one.endswith(".") for one in found["summary"])
    assert "nan" not in report.text().lower().split()
    assert report.html().startswith("<!doctype html>")
    assert "None" not in " ".join(found["summary"])
    return found


@pytest.mark.parametrize(
    "estimator",
    [LSSVRCV(cv="loo", **FEW), LSSVRCV(intervals="normalised", **FEW), KernelRidgeCV(**FEW),
     KernelRidge(alpha=0.5), LSSVR("linear"), LSSVR(gamma="scale"),
     LSSVRCV("rbf", metric="diagonal", max_rounds=1, **FEW)],
    ids=repr,
)  # fmt: skip
def test_regressions(estimator):
    X, y, _ = numbers()
    found = checked(estimator.fit(X, y).report(X=X, y=y))
    assert found["scores"]["model"]["measures"]["r2"]["value"] > 0.3
    assert found["question"]["task"] == "regression"
    shares = found["importances"].get("shares")
    assert (shares is not None) == (getattr(estimator, "metric", None) is not None)
    assert shares is None or max(shares, key=shares.get) == "feature 0"


@pytest.mark.parametrize("estimator", [LSSVCCV(**FEW), LSSVC()], ids=repr)
@pytest.mark.parametrize("classes", [2, 3])
def test_classifications(estimator, classes):
    X, y, _ = labels(classes=classes)
    found = checked(estimator.fit(X, y).report(X=X, y=y))
    assert found["question"]["classes"] == sorted(set(y))
    assert found["scores"]["main"] == "accuracy"
    assert ("roc_auc" in found["scores"]["model"]["measures"]) == (classes == 2)
    assert sum(found["data"]["classes"].values()) == len(y)
    if hasattr(estimator, "heldout_prediction_"):  # the row whose own class was least preferred
        values = estimator.heldout_prediction_.reshape(len(y), -1)
        values = np.c_[-values, values] if classes == 2 else values
        right = values[np.arange(len(y)), np.searchsorted(estimator.classes_, y)]
        worst = (values.max(axis=1) - right).argmax()
        assert found["slices"]["rows"][0]["row"] == str(worst)


def drawn(n, d=3, classes=0):
    """Rows, and targets that have nothing to do with them."""
    rng = np.random.default_rng(12)
    return rng.normal(size=(n, d)), rng.integers(0, classes, n) if classes else rng.normal(size=n)


def some(rows, make=numbers):
    """Rows of `numbers` or `labels`, perhaps in another form."""
    X, y, _ = make()
    return rows(X), y


def wide(X):
    return csr_matrix(np.pad(X, ((0, 0), (0, 1001 - X.shape[1]))))


FIXED = {"gammas": [0.2], "alphas": [0.1]}


@pytest.mark.parametrize(
    ("estimator", "data", "section", "words"),
    [
        (SparseLSSVR(**FIXED), lambda: some(np.asarray), "scores", "SparseLSSVR has no held-out pred"),
        (SparseLSSVC(**FIXED), lambda: some(np.asarray, labels), "ran", "'error': 0.0"),
        (LSSVRCV(criterion="gcv", **FEW), lambda: drawn(60), "scores", "LSSVRCV has no held-out pred"),
        (LSSVRCV(**FEW), lambda: some(csr_matrix), "scores", "'linear ridge'"),
        (LSSVRCV("precomputed"), lambda: some(lambda X: X @ X.T), "importances", "a metric is learned"),
        (LSSVR(), lambda: drawn(60, 230), "data", "'more_columns': 30"),
        (LSSVRCV(approximation="nystroem", **FEW), lambda: drawn(60), "trust", "fit with check=True"),
        (LSSVRCV(approximation="nystroem", check=True, **FEW), lambda: drawn(60), "trust", "grid step"),
        # What must not flatter: noise, few rows, copies.
        (LSSVRCV(**FEW), lambda: drawn(100), "summary", "Warning: not better than the baseline (mean)"),
        (LSSVCCV(**FEW), lambda: drawn(120, classes=2), "summary", "within two standard errors"),
        (LSSVRCV(cv=3, **FEW), lambda: drawn(12), "cautions", "scores from 12 rows are uncertain"),
        (LSSVRCV(cv=2, **FEW), lambda: drawn(2), "summary", "too few for an interval"),
        (LSSVRCV(**FEW), lambda: [np.concatenate([a, a]) for a in drawn(60)], "summary",
         "all of them with the same target"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_what_a_report_says(estimator, data, section, words):
    X, y = data()
    assert words in str(checked(write_report(estimator.fit(X, y), None, X, y))[section])


def test_a_rank_is_no_share_of_what_a_column_explains():
    """A target far away is nearly all there is to explain, and no column tells it."""
    X, y, _ = numbers()
    far = np.where(np.arange(len(y)) == 5, 1e4, y + 2 * X[:, 0])
    found = checked(write_report(LSSVRCV(**FEW).fit(X, far), None, X, far))
    assert found["data"]["nearly_all"] == []
    assert max(found["data"]["alone"].values()) < 0.2


def rmse_of(found):
    return found["scores"]["model"]["measures"]["rmse"]["value"]


def test_held_out_predictions_of_given_hyper_parameters_are_refits():
    X, y, _ = numbers()
    estimator = LSSVR(gamma=0.2, alpha=0.3)
    loss = [
        (estimator.fit(X[train], y[train]).predict(X[test]) - y[test]) ** 2
        for train, test in shuffled_folds(y, classifier=False)
    ]
    found = write_report(estimator.fit(X, y), None, X, y).as_dict()
    assert rmse_of(found) == pytest.approx(np.sqrt(np.mean(np.concatenate(loss))), rel=1e-6)


def test_without_rows_the_sections_say_so():
    found = checked(numbers()[2].report())
    assert all("pass X and y" in found[name]["absent"] for name in ("scores", "slices", "data"))
    assert (found["question"]["rows"], found["ran"]["candidates"]) == (150, 6)


@pytest.mark.parametrize(
    ("make", "given", "words"),
    [
        (numbers, lambda X, y: {"X": X[:100], "y": y[:100]}, "does not have the rows"),
        (numbers, lambda X, y: {"X": X, "y": y[:-1]}, "X has 150 rows but y has 149"),
        (numbers, lambda X, y: {"X": X}, "pass y as well as X"),
        (numbers, lambda X, y: {"X": X, "y": y, "sample_weight": y[:20]}, r"expected \(150,\)"),
        (numbers, lambda X, y: {"X": X, "y": y, "sample_weight": 0 * y}, "at least one non-zero"),
        (numbers, lambda X, y: {"X": X, "y": y, "sample_weight": y - 9}, "not be negative"),
        (numbers, lambda X, y: {"X": X, "y": np.roll(y, 1)}, "y is not the target that the model"),
        (labels, lambda X, y: {"X": X, "y": np.roll(y, 1)}, "y is not the target that the model"),
        (labels, lambda X, y: {"X": X, "y": np.c_[y, y]}, "y has 2 columns, but the model predicts 1"),
        (numbers, lambda X, y: {"X": X[:0], "y": y[:0]}, "at least 2 rows; X has 0"),
        (numbers, lambda X, y: {"X": X[::-1], "y": y[::-1]}, "in another order"),
        (numbers, lambda X, y: {"X": X[::-1], "y": y, "new_rows": None}, "in another order"),
        (numbers, lambda X, y: {"X": X + 1, "y": y}, "does not have the rows"),
        (numbers, lambda X, y: {"X": np.r_[X, X], "y": np.r_[y, y]}, "does not have the rows"),
        (labels, lambda X, y: {"X": X, "y": np.char.add(y, "!")}, "!', which was not in training"),
    ],
)
def test_what_is_refused(make, given, words):
    X, y, estimator = make()
    with pytest.raises(ValueError, match=words):
        write_report(estimator, **given(X, y))
    with pytest.raises(ValueError, match="got Ridge"):
        write_report(Ridge().fit(X, np.arange(len(y))))
    with pytest.raises(NotFittedError):
        LSSVRCV().report()


@pytest.mark.parametrize("kind", [LSSVR, LSSVRCV])
def test_a_kernel_matrix_with_rows_of_weight_0_is_known_again(kind):
    X, y, _ = numbers()
    K = X @ X.T
    weight = np.where(np.arange(150) % 7 > 0, 1.0, 0.0)
    model = kind("precomputed").fit(K, y, sample_weight=weight)
    found = checked(write_report(model, None, K, y, sample_weight=weight, new_rows=None))
    assert found["question"]["assumed"] == "the 150 rows that the model was fitted on"
    with pytest.raises(ValueError, match="y is not the target"):
        write_report(model, None, K, np.roll(y, 1), sample_weight=weight)


def test_whether_rows_are_new_is_found_out():
    X, y, estimator = numbers()
    same = checked(write_report(estimator, None, X, y, new_rows=None))
    assert same["question"]["assumed"] == "the 150 rows that the model was fitted on"
    assert not same["scores"]["new_rows"]
    fresh = np.random.default_rng(10).normal(size=X.shape)
    other = checked(write_report(estimator, None, fresh, y, new_rows=None))
    assert other["question"]["assumed"] == "150 rows that are new to the model"
    assert other["summary"][0].startswith("On new rows")
    assert rmse_of(other) == pytest.approx(root_mean_squared_error(y, estimator.predict(fresh)))
    part = checked(write_report(estimator, None, np.r_[X[:40], fresh[:20]], y[:60], new_rows=None))
    equal = "40 of them have an equal row in the training data (same features and target)"
    assert f"{equal}; scores are optimistic if those are the same rows" in part["summary"][2]


def test_a_pipeline_with_its_names():
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["colour"] = np.where(X[:, 0] > 0, "red", "blue")
    before = columns((StandardScaler(), list("abcd")), (OneHotEncoder(), ["colour"]))
    model = make_pipeline(before, LSSVRCV(metric="diagonal", max_rounds=1, **FEW)).fit(frame, y)
    found = checked(write_report(model, X=frame, y=pd.Series(y, name="price")))
    assert "standardscaler__a" in found["importances"]["shares"]
    assert found["question"]["target"] == "price"
    assert found["data"]["columns"] == 5
    assert "colour" in found["data"]["alone"]
    assert found["title"] == "onefold report: 'price' on 150 rows"


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("kind", ["table", "transformed"])
def test_a_model_of_a_transformed_target_is_judged_and_drawn_in_units_of_the_target(kind, new):
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(price=np.exp(5 + y + (X[:, 2] > 0.8) * X[:, 3]))
    rows = frame[100:] if new else frame[:100]
    words = "a transform of price"
    if kind == "table":
        model = TableRegressor(simple=True, target_transform="log", **FEW).fit(frame[:100], "price")
        fitted = model.estimator_
        given = (rows, "price")
        words = "log(price)"
    else:
        logarithm = FunctionTransformer(np.log, np.exp)
        model = TransformedTargetRegressor(LSSVRCV(**FEW), transformer=logarithm)
        model.fit(frame[list("abcd")][:100], frame.price[:100])
        fitted = model.regressor_
        given = (rows[list("abcd")], rows.price)
    report = write_report(model, None, *given, new_rows=new)
    found = checked(report)
    truth = rows.price
    predicted = model.predict(rows[list("abcd")]) if new else np.exp(fitted.heldout_prediction_)
    assert rmse_of(found) == pytest.approx(root_mean_squared_error(truth, predicted))
    assert found["slices"]["overall"] == pytest.approx(np.mean(np.abs(truth - predicted)))
    worst = np.abs(truth - predicted).argmax()
    largest = found["slices"]["rows"][0]
    assert (largest["target"], largest["prediction"]) == pytest.approx(
        (truth.iloc[worst], predicted[worst])
    )
    assert found["data"]["target"]["highest"] == pytest.approx(truth.max())
    assert f"The model was fitted to {words}: the criterion is in its units" in report.text()
    if not new:
        shown = PredictionDisplay.from_estimator(model, truth)
        np.testing.assert_allclose(shown.prediction, predicted)
        np.testing.assert_array_equal(shown.target, truth)
        half = np.sort(fitted.conformity_scores_)[90]  # the 91st of 100: ⌈0.9 · 101⌉
        np.testing.assert_allclose([shown.lower, shown.upper], predicted * np.exp([[-half], [half]]))
        assert shown.share_inside == 0.91
        assert " at the median for 90%: 91.0% inside." in shown.describe()


def test_a_table_is_spoken_of_by_its_columns():
    frame, model = table()
    found = checked(write_report(model, X=frame))
    assert found["data"]["constant"] == ["constant"]
    assert found["data"]["missing"]
    assert found["data"]["duplicates"]["across"] > 0
    X = frame.drop(columns="kind")
    y = frame["kind"]
    model = onefold.TableClassifier(missing="impute", simple=True, **FEW).fit(X, y)
    for given in ({"X": X, "y": y}, {"X": frame, "y": "kind"}):
        found = checked(model.report(**given))
        assert found["question"]["target"] == "kind"
    assert found["repeat"][0].startswith("model = TableClassifier(")
    with pytest.raises(ValueError, match="pass y as well as X"):
        write_report(model, X=X)


def test_columns_in_another_order_are_refused_and_their_names_need_no_warning():
    """The report on new rows took the columns of a frame by their places."""
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=list("abcd"))
    estimator = LSSVRCV(**FEW).fit(frame[:100], y[:100])
    found = checked(write_report(estimator, None, frame[100:], y[100:], new_rows=True))
    literal = root_mean_squared_error(y[100:], estimator.predict(frame[100:]))
    assert rmse_of(found) == pytest.approx(literal)
    with pytest.raises(ValueError, match="same order"):
        write_report(estimator, None, frame[100:][list("dcba")], y[100:], new_rows=True)


def test_weights_and_rows_of_weight_zero():
    X, y, _ = numbers()
    weight = np.random.default_rng(11).random(len(y))
    weight[:30] = 0.0
    with pytest.warns(UserWarning, match="split 0 tests only rows of weight 0"):
        estimator = LSSVRCV(**FEW).fit(X, y, sample_weight=weight)
    found = checked(estimator.report(X=X, y=y, sample_weight=weight))
    assert found["scores"]["rows"] == 120
    same = found["scores"]["model"]["measures"]["rmse"]["value"] ** 2
    assert same == pytest.approx(-estimator.best_score_)


@pytest.mark.parametrize("library", ["torch", "list", "dask"])
def test_rows_of_any_library(library):
    if library == "torch":
        given = pytest.importorskip("torch").tensor
    else:
        given = {"list": np.ndarray.tolist, "dask": da.from_array}[library]
    X, y, estimator = numbers()
    same = write_report(estimator, None, X, y).as_dict()["scores"]["model"]
    assert checked(estimator.report(X=given(X), y=given(y)))["scores"]["model"] == same


@pytest.mark.parametrize(("unit", "scale"), [(1.0, 1e-12), (1.0, 1e5), (1e100, 1.0)])
def test_any_scale(unit, scale):
    X, y, _ = numbers(60)
    X = np.float32(X) if unit == 1 else unit * X
    y = y * scale
    gammas = np.divide(FEW["gammas"], unit**2)
    report = LSSVRCV(gammas=gammas, alphas=FEW["alphas"]).fit(X, y).report(X=X, y=y)
    assert 0.3 < checked(report)["scores"]["model"]["measures"]["r2"]["value"] < 1
    assert "criterion: RMSE" in report.text()
    assert "-0.000" not in report.text()
    assert "e+0" not in report.text()


def test_rows_that_tuning_set_aside_are_told():
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(t=y)
    report = write_report(tune_table(frame, "t", simple=True, holdout=0.2, **FEW))
    assert "On 30 test rows not used for tuning the R² is" in checked(report)["summary"][0]
    assert "test rows, not used for tuning" in report.html().lower()


@pytest.mark.parametrize(
    ("size", "cv"),
    [(150, KFold(3, shuffle=True)), (150, GroupKFold(4)), (150, GapKFold(4, 5)), (2100, 5)],
    ids=repr,
)
def test_a_table_has_its_report_for_every_size_and_splitter(size, cv, tmp_path):
    rng = np.random.default_rng(size)
    frame = pd.DataFrame(rng.normal(size=(size, 3)), columns=["a", "b", "c"])
    frame["y"] = np.sin(frame.a) + 0.3 * rng.normal(size=size)
    groups = np.arange(size) // 10 if isinstance(cv, GroupKFold) else None
    few = {"kernel": "rbf", "gammas": [0.3], "alphas": [0.1], "approximation": Nystroem(50)}
    model = TableRegressor(cv=cv, metric=None, blend=False, **few).fit(frame, "y", groups=groups)
    found = checked(model.report(tmp_path / "r.html", frame, "y"))
    assert found["question"]["assumed"] == f"the {size:,} rows that the model was fitted on"
    assert found["scores"]["splits"].startswith("simple models on the same")
    model.save(tmp_path / "m")
    again = write_report(onefold.load(tmp_path / "m"), None, frame, new_rows=None).as_dict()
    assert again["scores"] == found["scores"]
    for other in (frame[::-1], frame.assign(a=frame.a + 1)):
        with pytest.raises(ValueError, match="does not have the rows that the model was fitted on"):
            model.report(None, other, "y")


def test_the_page_replaces_an_older_one_whole(tmp_path, monkeypatch):
    X, y, estimator = numbers()
    path = tmp_path / "r.html"
    path.write_text("before")
    report = estimator.report(path, X, y)
    assert path.read_text("utf-8") == report.html() == estimator.report(X=X, y=y).html()
    monkeypatch.setattr(Report, "html", lambda self: "\ud800")
    before = path.read_text("utf-8")
    with pytest.raises(UnicodeEncodeError):
        report.save(path)
    assert path.read_text("utf-8") == before
    assert [one.name for one in tmp_path.iterdir()] == ["r.html"]
    # It speaks of no place and no person.
    assert platform.node() not in before or len(platform.node()) < 4
    assert f"/{getpass.getuser()}/" not in before
    assert onefold.__path__[0] not in before


def test_identifiers_are_those_of_the_fit():
    rng = np.random.default_rng(3)
    n = 60
    frame = pd.DataFrame({"number": np.arange(n), "x": rng.normal(size=n)})
    frame["name"] = [f"p{i}" for i in range(n)]  # which the fit drops
    frame["y"] = frame.x + 0.1 * rng.normal(size=n)
    model = TableRegressor(simple=True, **FEW).fit(frame, "y")
    assert set(model.report_["data"]["identifiers"]) == {"number", "name"}
    for rows in (frame, frame[:40].assign(number=0)):
        facts = write_report(model, None, rows, new_rows=None).as_dict()
        assert facts["data"]["identifiers"] == ["number"]


def test_rows_whose_centres_lie_in_another_order(monkeypatch):
    """Some rows teach the metric of larger tables, and the machine is fitted with those first."""
    monkeypatch.setattr("onefold.estimators.setup._MAX_ROWS_PER_FOLD_METRICS", 30)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 3)), columns=["a", "b", "c"])
    frame["y"] = np.sin(2 * frame.a) + frame.b + 0.1 * rng.normal(size=150)
    model = TableRegressor(gammas=[0.3, 1.0], alphas=[0.01, 0.1]).fit(frame, "y")
    centres = model.estimator_.expansion_.parts[0][1].centres
    assert len(centres) == 150
    assert not np.array_equal(centres, model.matrix(frame))
    assert "R²" in model.report(X=frame).text()
    facts = write_report(model, None, frame, new_rows=None).as_dict()
    assert facts["question"]["assumed"] == "the 150 rows that the model was fitted on"
    assert facts["scores"]["rows"] == np.isfinite(model.estimator_.heldout_prediction_).sum()
    with pytest.raises(ValueError, match="in another order"):
        model.report(X=frame.iloc[::-1])


def test_new_rows_without_a_logarithm_are_counted_and_scored(recwarn):
    """They gave 'divide by zero in log', and outliers were not looked for."""
    X, y, _ = numbers()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(price=np.exp(y))
    model = TableRegressor(simple=True, target_transform="log", **FEW).fit(frame[:100], "price")
    rows = frame[100:].reset_index(drop=True)
    rows.loc[:2, "price"] = [0.0, -1.0, 0.0]
    rows.loc[3, "price"] = 1e6
    recwarn.clear()
    found = checked(write_report(model, None, rows, "price", new_rows=True))
    assert not [str(one.message) for one in recwarn if issubclass(one.category, RuntimeWarning)]
    assert found["data"]["untransformed"] == 3
    assert found["data"]["outliers"]["rows"] == 1  # among the others
    words = " ".join(found["data"]["warnings"])
    assert "3 targets (6.00%) have no value under the transform that the model was fitted with" in words
    assert rmse_of(found) == pytest.approx(root_mean_squared_error(rows.price, model.predict(rows)))


def leaky_tables():
    """Tables on which columns as they are written and as the model sees them are not the same."""
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(40), 5)
    y = rng.normal(size=40)[group] + 0.001 * rng.normal(size=200)
    rare = pd.DataFrame({"a": rng.normal(size=200), "town": [f"t{one}" for one in group], "y": y})
    yield "rare categories", rare, {"min_frequency": 10}
    frequent = rare.drop(columns="town").assign(b=rng.normal(size=200), copy=rare.a * 2)
    yield "copies", frequent, {}
    wide = pd.DataFrame(rng.normal(size=(60, 205)), columns=[f"x{j}" for j in range(205)])
    yield "many columns", wide.assign(y=wide.x204 * 2 + 1), {}
    few = pd.DataFrame({"a": rng.normal(size=15), "c": rng.choice(["u", "v"], 15)})
    yield "few rows", few.assign(d=few.a * 2, y=rng.normal(size=15)), {}


@pytest.mark.parametrize(("frame", "options"), [(b, c) for _, b, c in leaky_tables()],
                         ids=[a for a, _, _ in leaky_tables()])  # fmt: skip
def test_leaks_and_copies_of_a_table_are_those_of_its_fit(frame, options):
    """Terminal and page looked at different columns, and named different ones."""
    model = TableRegressor(simple=True, **FEW, **options).fit(frame, "y")
    found = checked(write_report(model, None, frame, "y"))["data"]
    assert found["leaks"] == model.report_["suspicious_columns"]
    told = [note for note in model.notes_ if note.startswith("duplicate columns")]
    assert bool(found["copies"]) == bool(told)
    assert all(f"'{name}' duplicates '{first}'" in told[0] for first, name in found["copies"])
