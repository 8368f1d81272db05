"""What is said of a result: the same numbers everywhere, and what a person should know of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_arguments import SMALL
from sklearn.metrics import r2_score

from onefold.cli import main
from onefold.cli.terminal import _how_chosen, result_text
from onefold.facts.criteria import score_label, score_text
from onefold.facts.summary import group_words, importance_lines
from onefold.facts.words import counted, json_text, percent
from onefold.tables.searching import Splitting
from onefold.tuning import tune_table

GRID = {"simple": True, "gammas": [0.125, 0.5, 2.0], "alphas": [0.03125, 0.25, 2.0]}
FEW = {"simple": False, "gammas": [0.3, 1.0, 3.0], "alphas": [0.002, 0.02, 0.1]}


def table(n: int = 83, **columns) -> pd.DataFrame:
    """By default with folds of unequal size."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    return frame.assign(**{key: make(frame, rng) for key, make in columns.items()})


def rare(frame, rng):
    return np.where(frame.a + 0.3 * rng.normal(size=len(frame)) > 0.8, "yes", "no")


def wave(frame, rng):
    return np.sin(2 * frame.a) + 0.1 * rng.normal(size=len(frame))


def tune(frame: pd.DataFrame, target: str = "y", **options):
    """The model, its report and its text."""
    model = tune_table(frame, target, **(GRID | options))
    return model, model.report_, result_text(model, [])


def inspected(model, capsys, path: Path) -> str:
    model.save(path / "m.onefold")
    capsys.readouterr()
    assert main(["inspect", str(path / "m.onefold")]) == 0
    return capsys.readouterr().out


def lines_of(text: str) -> dict[str, str]:
    """Label → value of the aligned lines before the rivals."""
    return dict(re.findall(r"^  (\S.*?)  +(\S.*)$", text.split("Next best")[0], re.M))


@pytest.mark.parametrize(
    ("make", "criterion"),
    [
        *((wave, one) for one in ("mse", "r2", "gcv")),
        *((rare, one) for one in ("error", "f1_macro", "press")),
    ],
)
def test_one_number_for_one_thing(tmp_path, capsys, make, criterion):
    model, found, text = tune(table(y=make), criterion=criterion)
    label = score_label(criterion)
    best = score_text(criterion, found["best_score"])
    said = lines_of(text)
    kept = lines_of(inspected(model, capsys, tmp_path))
    if f"criterion: {label}" not in said:
        assert re.split("  | ± ", said[label])[0] == best
    elif label in said:  # a mean over folds, which R² and RMSE of all rows are not
        assert said[f"criterion: {label}"] == f"{best}, mean over the folds"
    else:
        assert said[f"criterion: {label}"] == best
    for name in said.keys() & kept.keys() - {"gamma", "alpha"}:
        assert kept[name] == said[name], name
    # No label twice, no number that is a negative zero.
    assert len(re.findall(rf"^  {label}  ", text, re.M)) <= 1
    assert not re.search(r"-0(\.0+)?(%|\s|$)", text)
    # The rivals in the same measure, none better than the best, as in the table of the search.
    scores = np.sort(model.cv_results_["mean_test_score"])[::-1]
    rivals = re.findall(rf"  {label} (\S+)$", text.split("Next best")[1], re.M)
    assert scores[0] == found["best_score"]
    assert rivals == [score_text(criterion, score) for score in scores[1:5]]


def test_rare_classes(tmp_path, monkeypatch, capsys):
    _, found, text = tune(table(y=rare))
    balanced = percent(found["heldout"]["balanced_accuracy"])
    assert re.search(rf"balanced accuracy +{balanced} ± \S+%  \(baseline: 50.00%\)", text)
    assert re.search(r"recall of 'yes' +\S+% ± \S+%  \(\d+ rows\)", text)
    frame = table(y=lambda frame, rng: np.where(frame.a > 0, "up", "down"))
    assert "recall" not in tune(frame)[2]
    monkeypatch.chdir(tmp_path)
    for few, words in (
        (2, "3 rows, fewer than the 5 folds"),
        (0, "one row, so it can never be predicted out of fold; add rows"),
    ):
        frame.assign(y=frame.y.where(frame.index > few, "few")).to_csv("t.csv", index=False)
        for options in ([], ["--class-weight", "balanced"]):
            assert main(["tune", "t.csv", "--target", "y", *SMALL, "--force", *options]) == 0
            err = capsys.readouterr().err
            assert f"'few' has only {words}" in err
            assert "warning" not in err


@pytest.mark.parametrize(
    ("approximation", "words"),
    [
        ("auto", r"method +exact \(there are at most \d+ rows\)"),
        ("nystroem", r"method +nystroem, \d+ landmarks \(as requested\)"),
        ("grid", r"method +grid, \d+ × \d+ points \(as requested\)"),
        (
            "toeplitz",
            r"selected with +toeplitz, diagonals averaged, differs .* by \S+%(.|\n)*fitted with +exact",
        ),
    ],
)
@pytest.mark.filterwarnings(
    "ignore:the rows are not a series", "ignore:5 of 9 combinations"
)  # of Toeplitz
def test_what_ran_and_why(tmp_path, capsys, approximation, words):
    model, _, text = tune(table(y=wave), approximation=approximation)
    assert re.search(words, text)
    assert re.search(words, inspected(model, capsys, tmp_path))


LEAKS = {
    "monotone": (wave, lambda frame, rng: np.exp(4 * frame.y)),
    "threshold": (rare, lambda frame, rng: (frame.y == "yes") + rng.uniform(-0.3, 0.3, len(frame))),
    "text": (rare, lambda frame, rng: np.where(frame.y == "yes", "late", "early")),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_column_that_tells_too_much_is_named(kind):
    target, leak = LEAKS[kind]
    frame = table(y=target)
    assert tune(frame)[1]["suspicious_columns"] == []
    frame["the leak"] = leak(frame, np.random.default_rng(0))
    _, found, text = tune(frame)
    assert found["suspicious_columns"] == ["the leak"]
    assert "'the leak' alone predicts 'y' almost perfectly; drop it if it is not known when" in text


REFUSED = [
    ("y", "mse", "is for regression, but the task is classification"),
    ("y", "f1", "cannot be used with the classes 'no', 'yes' of 'y'; use f1_macro"),
    ("y", "f1_samples", "cannot be used with the classes 'no', 'yes' of 'y'; use f1_macro"),
    ("y", "rand_score", "is for clustering, but the task is classification"),
    ("y", "acuracy", "unknown criterion 'acuracy'; did you mean 'accuracy'"),
    ("y", "neg_brier_score", "use neg_log_loss, error or balanced_accuracy"),
    ("three", "roc_auc", "the classes '0', '1', '2' of 'three'"),
    ("a", "neg_log_loss", "is for classification, but the task is regression; use mse or r2"),
]


@pytest.mark.parametrize(("target", "criterion", "words"), REFUSED)
def test_criteria_that_do_not_fit(monkeypatch, target, criterion, words):
    monkeypatch.setattr("onefold.tuning.Tuning.run", None)  # before any work
    frame = table(y=rare, three=lambda frame, rng: np.arange(len(frame)) % 3)
    with pytest.raises(ValueError, match=re.escape(words)):
        tune(frame, target, criterion=criterion)


def test_numbers_in_words():
    assert json_text({"odd": [float("nan"), 1.5, -float("inf")]}) == '{"odd": [null, 1.5, null]}'
    shares = [percent(share) for share in (-1e-10, 1e-6, 0.5, 1 - 1e-6, 1 + 1e-10)]
    assert shares == ["0.00%", "0.0001%", "50.00%", "99.9999%", "100.00%"]


# The default search: several kernels, learned metrics, a blend


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=["rooms", "age", "noise"])
    frame["colour"] = rng.choice(["red", "green", "blue"], 80)
    frame["price"] = np.sin(2 * frame.rooms) + frame.age + (frame.colour == "red")
    frame["price"] += 0.2 * rng.normal(size=80)
    return frame


def test_choice_blend_importances_and_rivals_are_said_and_kept(frame, tmp_path, capsys):
    model, found, text = tune(frame, "price", **FEW)
    estimator = model.estimator_
    shares = found["importances"]
    asked = {"kernels": ["auto"], "metric": "auto", "blend": True, "note": None}
    ended = {"method": "grid", "stopped": None, "untried": [], "no_importances": None}
    compared = found["search"].pop("compared")
    assert found["search"] == asked | ended
    assert compared[0]["difference"] == 0.0
    assert model.best_params_["kernel"] in {record["kernel"] for record in compared}
    chosen = group_words(model.best_params_)
    assert re.search(rf"  kernel +{chosen}\n", text)
    assert (found["blend"], found["blend_score"]) == (estimator.blend_, estimator.blend_score_)
    # The measures are the blend's own, from its cross-fitted predictions.
    assert found["heldout"]["r2"] == pytest.approx(r2_score(frame.price, estimator.heldout_prediction_))
    assert found["heldout"]["rmse"] ** 2 == pytest.approx(-found["blend_score"])
    assert set(shares) == {"rooms", "age", "noise", "colour"}
    assert shares["colour"] == pytest.approx(estimator.feature_importances_[3:].sum())
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares, key=shares.get) == "noise"
    first = max(shares, key=shares.get)
    assert re.search(rf"Most important columns\n  {first} +{percent(shares[first])}\n", text)
    shown = inspected(model, capsys, tmp_path)
    assert re.search(rf"Most important columns\n  {first} +{percent(shares[first])}\n", shown)
    assert chosen in shown
    # The best of other kernels and metrics, each once.
    rivals = re.findall(r"^  (\w.*?)  +RMSE (\S+)$", text.split("Next best")[1], re.M)
    assert 1 < len(rivals) <= 4
    assert len({words.rsplit(", round", 1)[0] for words, _ in rivals} - {chosen}) == len(rivals)
    best: dict[str, float] = {}
    for params, score in zip(model.cv_results_["params"], model.cv_results_["mean_test_score"]):
        best[group_words(params)] = max(best.get(group_words(params), -np.inf), score)
    assert [score for _, score in rivals] == [score_text("mse", best[words]) for words, _ in rivals]


@pytest.mark.parametrize(
    ("shares", "lines"),
    [
        ({"a": 0.7, "b": 0.295, "c": 0.005}, ["a 70.00%", "b 29.50%", "1 other 0.50% in total"]),
        ({"a": 0.0, "b": 0.0}, []),
        (
            {"a": 0.009, **dict.fromkeys("bcdefg", 0.001)},
            [
                "a 0.90%",
                *(f"{one} 0.10%" for one in "bcdef"),
                "1 other 98.60% in total",
            ],
        ),
        (None, []),
    ],
)
def test_columns_are_named_unless_none_matters(shares, lines):
    assert [" ".join(one) for one in importance_lines(shares)] == lines


@pytest.mark.parametrize(("rows", "noun"), [(83, "candidate"), (1700, "finalist")])
def test_candidates_that_others_were_left_out_for_are_called_finalists(rows, noun):
    model, found, _ = tune(table(rows, y=wave), **FEW, kernel="rbf", metric="diagonal")
    text = result_text(model, ["t/search.csv"])
    assert text.startswith(f"Best of {counted(found['candidates'], noun)} for 'y' by 5-fold")
    assert f"  t/search.csv  the scores of every {noun}" in text


@pytest.mark.parametrize(
    ("splitting", "words"),
    [
        (Splitting("folds", 5, 5), "2 folds (40 rows) of 5-fold cross-validation"),
        (
            Splitting("groups", 5, 5, groups="storm"),
            "2 folds (40 rows) of cross-validation (5-fold, groups of 'storm' kept together)",
        ),
        (
            Splitting("blocks", 5, 5),
            "2 folds (40 rows) of cross-validation (5 blocks of consecutive rows)",
        ),
    ],
)
def test_splits_in_words(splitting, words):
    """It read "of 5-fold, groups of 'storm' kept together cross-validation"."""
    scores = {"untested": 60, "folds": 2, "rows": 40}
    report = {"scores": scores, "candidates": 3, "search": {"metric": "diagonal"}}
    report |= {"cv": splitting.description, "splits": splitting.as_plain()}
    found = _how_chosen(report, "wind", "finalist")
    assert found == f"Best of 3 finalists for 'wind', scored on {words}"
    scores["untested"] = 0
    assert _how_chosen(report, "wind", "finalist").endswith(f" by {words.split(' of ', 1)[1]}")
