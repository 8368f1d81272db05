"""What is said of a result: the same numbers everywhere, and what a person should know of them."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pandas as pd
import pytest
from cli_arguments import SMALL
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.model_selection import StratifiedKFold

from onefold.cli import main
from onefold.facts.criteria import score_label, score_text
from onefold.facts.words import percent, readable
from onefold.tables import load_table_model

FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def write(name: str = "t.csv", n: int = 83, **columns) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    frame = frame.assign(**{key: make(frame, rng) for key, make in columns.items()})
    frame.to_csv(name, index=False)
    return frame


def rare(frame, rng):
    return np.where(frame.a + 0.3 * rng.normal(size=len(frame)) > 0.8, "yes", "no")


def wave(frame, rng):
    return np.sin(2 * frame.a) + 0.1 * rng.normal(size=len(frame))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def tune(capsys, *argv: str) -> tuple[dict, str, str]:
    """The JSON, the text and what inspect says of one and the same search."""
    base = ["tune", "t.csv", "--target", "y", "--force", "--quiet", *argv]
    base += SMALL if "--gammas" not in argv else ["--simple"]
    assert main([*base, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(base) == 0
    text = capsys.readouterr().out
    assert main(["inspect", "t-onefold"]) == 0
    return found, text, capsys.readouterr().out


def lines_of(text: str) -> dict[str, str]:
    """Label → value of the aligned lines before the rivals."""
    pairs = re.findall(r"^  (\S.*?)  +(\S.*)$", text.split("Next best")[0], re.M)
    return dict(pairs)


CRITERIA = {
    "wave": ["mse", "r2", "neg_root_mean_squared_error", "neg_mean_absolute_error", "mape", "gcv"],
    "rare": ["error", "accuracy", "balanced_accuracy", "f1_macro", "press"],
}


@pytest.mark.parametrize(("kind", "criterion"), [(k, c) for k, cs in CRITERIA.items() for c in cs])
def test_one_number_for_one_thing(here, capsys, kind, criterion):
    write(y={"wave": wave, "rare": rare}[kind])  # 83 rows: folds of unequal size
    found, text, inspected = tune(capsys, "--criterion", criterion)
    label, best = score_label(criterion), score_text(criterion, found["best_score"])
    said, kept = lines_of(text), lines_of(inspected)
    if "criterion" in said:  # a mean over folds, which R² and RMSE of all rows are not
        assert said["criterion"] == f"{label} {best}, the mean of that of the folds"
    else:
        assert re.split("  | ± ", said[label])[0] == best
    assert kept[label] == said[label]
    for name in said.keys() & kept.keys() - {"gamma", "alpha"}:
        assert kept[name] == said[name], name
    # No label twice, no number that is a negative zero.
    assert len(re.findall(rf"^  {label}  ", text, re.M)) == 1
    assert not re.search(r"-0(\.0+)?(%|\s|$)", text)
    # The rivals in the same measure, none better than the best, as in the table of the search.
    with open("t-onefold/search.csv", newline="") as file:
        scores = sorted((float(row["mean_test_score"]) for row in csv.DictReader(file)), reverse=True)
    rivals = re.findall(rf"  {label} (\S+)$", text.split("Next best")[1], re.M)
    assert scores[0] == found["best_score"]
    assert rivals == [score_text(criterion, score) for score in scores[1:5]]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cv", ["5", "loo"])
def test_measures_are_means_over_folds_as_the_score_is(here, capsys, cv, weighted):
    mass = {"mass": lambda frame, rng: rng.uniform(0.5, 2, len(frame))} if weighted else {}
    options = ["--cv", cv, *(["--weight", "mass"] if weighted else [])]
    write(y=rare, **mass)
    found, _, _ = tune(capsys, *options)
    assert found["heldout"]["accuracy"] == pytest.approx(1 + found["best_score"], abs=1e-12)
    write(y=wave, **mass)
    found, _, _ = tune(capsys, *options)
    held = found["heldout"]
    assert held["rmse"] ** 2 == pytest.approx(-found["best_score"], rel=1e-9)


def test_recall_and_balanced_accuracy_against_scikit_learn(here, capsys):
    frame = write(y=rare)
    found, text, _ = tune(capsys)
    held, y = found["heldout"], frame.y.to_numpy(str)
    decision = load_table_model("t-onefold/model.onefold").estimator_.heldout_prediction_
    predicted = np.where(np.asarray(decision) > 0, "yes", "no")
    tests = [test for _, test in FOLDS.split(y, y)]
    recalls = [recall_score(y[t], predicted[t], average=None, labels=["no", "yes"]) for t in tests]
    np.testing.assert_allclose([held["recall"][k] for k in ("no", "yes")], np.mean(recalls, axis=0))
    balanced = np.mean([balanced_accuracy_score(y[t], predicted[t]) for t in tests])
    assert held["balanced_accuracy"] == pytest.approx(balanced)
    assert held["class_rows"] == {"no": (y == "no").sum(), "yes": (y == "yes").sum()}
    assert re.search(rf"balanced accuracy +{percent(balanced)} ± \S+%  \(baseline: 50.00%\)", text)
    assert re.search(r"recall of 'yes' +\S+% ± \S+%  \(\d+ rows\)", text)


@pytest.mark.parametrize("options", [[], ["--weight", "mass"]])
@pytest.mark.parametrize("folds", [["--ordered"], ["--groups", "site"], ["--cv", "loo"], ["--cv", "4"]])
def test_balanced_accuracy_is_the_criterion_of_that_name(here, capsys, folds, options):
    """Also where folds lack a class, as blocks of sorted rows do."""
    mass = {"mass": lambda frame, rng: rng.uniform(0.5, 2, len(frame))} if options else {}
    site = {"site": lambda frame, rng: frame.index // 9} if "--groups" in folds else {}
    write(y=lambda frame, rng: np.where(frame.index < 30, "early", "late"), **mass, **site)
    found, _, _ = tune(capsys, *folds, *options, "--criterion", "balanced_accuracy")
    held = found["heldout"]
    assert held["balanced_accuracy"] == pytest.approx(found["best_score"], abs=1e-12)
    assert 0 < held["baseline_balanced_accuracy"] < 1


def test_even_classes_need_no_recall(here, capsys):
    write(y=lambda frame, rng: np.where(frame.a > 0, "up", "down"))
    _, text, _ = tune(capsys)
    assert "recall" not in text
    assert "balanced" not in text


def test_class_weights_reach_the_fit_and_the_choice(here, capsys, refused):
    frame = write(y=lambda frame, rng: np.where(frame.a + rng.normal(size=len(frame)) > 1.6, 1, 0))
    found, text, _ = tune(capsys, "--class-weight", "balanced")
    assert (found["criterion"], found["class_weight"]) == ("balanced_accuracy", "balanced")
    plain, _, _ = tune(capsys)
    assert found["heldout"]["balanced_accuracy"] > plain["heldout"]["balanced_accuracy"]
    assert "balanced accuracy" in text.split("Next best")[1]
    tune(capsys, "--class-weight", "balanced")
    assert load_table_model("t-onefold/model.onefold").estimator_.class_weight == "balanced"
    chosen, _, _ = tune(capsys, "--class-weight", "balanced", "--criterion", "error")
    assert chosen["criterion"] == "error"
    assert set(frame.y) == {0, 1}
    line = refused("tune", "t.csv", "--target", "a", "--class-weight", "balanced", "--force")
    assert (
        "the parameter class_weight is for classification, and 'a' holds numbers; leave it out" in line
    )


def test_folds_without_a_class_are_spoken_of_once(here, capsys):
    write(y=lambda frame, rng: np.where(frame.index < 3, "few", np.where(frame.a > 0, "up", "down")))
    for options in ([], ["--class-weight", "balanced"]):
        assert main(["tune", "t.csv", "--target", "y", *SMALL, "--force", *options]) == 0
        err = capsys.readouterr().err
        assert "'few' has only 3 of the rows, fewer than the 5 folds" in err
        assert "warning" not in err


def test_ways_of_folding_read_well(here, capsys):
    write(y=wave, site=lambda frame, rng: np.arange(len(frame)) % 7)
    _, text, _ = tune(capsys, "--groups", "site")
    assert "by cross-validation (5-fold, groups of 'site' kept together)\n" in text
    _, text, _ = tune(capsys, "--cv", "loo")
    assert "by leave-one-out cross-validation\n" in text


@pytest.mark.parametrize("class_weight", [[], ["--class-weight", "balanced"]])
def test_no_better_than_a_constant(here, capsys, class_weight):
    write(n=120, y=lambda frame, rng: (rng.random(len(frame)) < 0.1).astype(int))
    # A ridge beyond all reason answers with the constant, or at random with class weights.
    found, text, inspected = tune(
        capsys, *class_weight, "--gammas", "1000", "--alphas", "1" if class_weight else "1e6"
    )
    note = next(note for note in found["notes"] if "no better than the baseline" in note)
    assert found["scores"]["verdict"]["better_than_baseline"] is False
    assert f"note: {note}" in text
    assert note in inspected


def test_noise_is_no_better_than_the_mean(here, capsys):
    write(y=lambda frame, rng: rng.normal(size=len(frame)))
    found, text, _ = tune(capsys, "--gammas", "1000", "--alphas", "1e6")
    assert "no better than the baseline (mean)" in found["notes"][0]
    assert "no better than the baseline (mean)" in text
    write(y=wave)
    found, text, _ = tune(capsys)
    assert not any("no better than" in note for note in found["notes"])


def test_a_simple_model_that_is_better_is_said(here, capsys):
    write(n=200, y=lambda frame, rng: (frame.index % 20 > 9) + 0.01 * rng.normal(size=len(frame)),
          place=lambda frame, rng: frame.index % 20.0)  # fmt: skip
    found, text, inspected = tune(capsys, "--gammas", "1e-4", "--alphas", "1")
    assert found["scores"]["verdict"]["than_best"] == "worse"
    note = next(note for note in found["notes"] if "a simple model is better" in note)
    assert note.startswith("a simple model is better: tree of depth 4, by 0.")
    assert "use it instead" in text
    assert note in text
    assert note in inspected


@pytest.mark.parametrize(
    ("approximation", "words"),
    [
        ("auto", r"method +exact \(at most \d+ rows: exact\)"),
        ("exact", r"method +exact \(as asked for\)"),
        ("nystroem", r"method +nystroem, \d+ landmarks \(as asked for\)"),
        ("grid", r"method +grid, \d+ × \d+ points \(as asked for\)"),
    ],
)
def test_what_ran_and_why(here, capsys, approximation, words):
    write(y=wave)
    found, text, inspected = tune(capsys, "--approximation", approximation)
    assert re.search(words, text)
    assert re.search(words, inspected)
    assert found["approximation"]["selected_with"]["name"] in text


def test_selected_with_one_and_fitted_with_another(here, capsys):
    write(y=wave)
    base = ["tune", "t.csv", "--target", "y", *SMALL, "--approximation", "toeplitz", "--quiet"]
    assert main(base) == 0
    out, err = capsys.readouterr()
    assert re.search(r"selected with +toeplitz, diagonals averaged, \S+% away from the kernel", out)
    assert re.search(r"fitted with +exact", out)
    assert "warning: the rows are no series" in err


LEAKS = {
    "copy": (wave, lambda frame, rng: 3 * frame.y + 2),
    "monotone": (wave, lambda frame, rng: np.exp(4 * frame.y)),
    "threshold": (rare, lambda frame, rng: (frame.y == "yes") + rng.uniform(-0.3, 0.3, len(frame))),
    "text": (rare, lambda frame, rng: np.where(frame.y == "yes", "late", "early")),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_column_that_tells_too_much_is_named(here, capsys, kind):
    target, leak = LEAKS[kind]
    frame = write(y=target)
    frame.assign(**{"the leak": leak(frame, np.random.default_rng(0))}).to_csv("t.csv", index=False)
    found, text, _ = tune(capsys)
    assert found["suspicious_columns"] == ["the leak"]
    assert "'the leak' alone predicts 'y' almost perfectly" in text
    assert "drop it if not known when predictions are made" in text


@pytest.mark.parametrize("target", [wave, rare])
def test_useful_columns_are_not_suspected(here, capsys, target):
    write(y=target)
    assert tune(capsys)[0]["suspicious_columns"] == []


def test_targets_whose_squares_are_no_numbers_are_refused(here, refused):
    for factor in (1e-200, 1e200):
        write(y=lambda frame, rng, factor=factor: factor * wave(frame, rng))
        line = refused("tune", "t.csv", "--target", "y")
        assert "whose square is beyond floating point; multiply the column" in line


@pytest.mark.parametrize("factor", [1e-100, 1e-12, 1e12, 1e100])
def test_targets_of_any_ordinary_size_read_the_same(here, capsys, factor):
    write(y=lambda frame, rng: factor * wave(frame, rng))
    one = ["--gammas", "1", "--alphas", "0.1"]
    found, text, _ = tune(capsys, *one)
    write(y=wave)
    plain, _, _ = tune(capsys, *one)
    assert found["heldout"]["r2"] == pytest.approx(plain["heldout"]["r2"], rel=1e-6)
    assert found["heldout"]["rmse"] == pytest.approx(factor * plain["heldout"]["rmse"], rel=1e-6)
    assert f" {readable(found['heldout']['rmse'])} ± " in text


REFUSED = {
    "y": {
        "r2": "is for regression, and this is classification",
        "mse": "is for regression, and this is classification",
        "f1": "counts the class 1 against another, and 'y' has 'no', 'yes'; use f1_macro",
        "f1_samples": "rows with several labels each",
        "rand_score": "compares clusterings",
        "acuracy": "there is no criterion 'acuracy'; did you mean 'accuracy'",
        "zzz": "there is no criterion 'zzz'; use one of error, accuracy",
    },
    "three": {
        "f1": "tells two classes apart, and 'three' has 3 ('0', '1', '2'); use f1_macro",
        "roc_auc": "tells two classes apart",
    },
    "a": {
        "neg_log_loss": "is for classification, and this is regression; use mse or r2",
        "accuracy": "is for classification, and this is regression",
        "roc_auc": "is for classification, and this is regression",
        "error": "is for classification, and this is regression",
        "adjusted_rand_score": "compares clusterings",
        "R2": "did you mean 'r2'",
    },
}


@pytest.mark.parametrize(
    ("target", "criterion"), [(t, criterion) for t, cases in REFUSED.items() for criterion in cases]
)
def test_criteria_that_do_not_fit(here, refused, monkeypatch, target, criterion):
    write(y=rare, three=lambda frame, rng: np.arange(len(frame)) % 3)
    monkeypatch.setattr("onefold.tuning.Tuning.run", None)  # before any work
    line = refused("tune", "t.csv", "--target", target, "--criterion", criterion, "--quiet")
    assert REFUSED[target][criterion] in line


@pytest.mark.parametrize(
    ("approximation", "criterion"), [("nystroem", "gcv"), ("grid", "press"), ("grid", "evidence")]
)
def test_criteria_that_an_approximation_does_not_have(here, refused, approximation, criterion):
    write(y=wave)
    options = ["--approximation", approximation, "--criterion", criterion, "--quiet"]
    line = refused("tune", "t.csv", "--target", "y", *options)
    assert f"which the approximation {approximation!r} does without; use mse or r2" in line


def test_a_scorer_that_cannot_score_some_predictions(here, capsys):
    write(y=lambda frame, rng: np.exp(3 * frame.a))
    argv = ["tune", "t.csv", "--target", "y", *SMALL, "--criterion", "neg_mean_gamma_deviance"]
    assert main([*argv, "--quiet"]) == 0
    assert "have no score (NaN): the criterion refuses their predictions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--jobs", "0"], "'0' is no number of threads"),
        (["--jobs", "two"], "'two' is no number of threads"),
        (["--seed", "-1"], "'-1' is no seed"),
        (["--seed", "4294967296"], "is no seed"),
        (["--ordered", "--gap", "-1"], "'-1' is not a whole number from 0"),
        (["--class-weight", "none"], "invalid choice: 'none'"),
        (["--out", ""], "--out: the name is empty"),
        (["--criterion", ""], "there is no criterion ''"),
    ],
)
def test_option_values(here, refused, options, words):
    write(y=rare)
    assert words in refused("tune", "t.csv", "--target", "y", *options)


def test_json_has_no_infinities(here, capsys, monkeypatch):
    write(y=wave)
    monkeypatch.setattr(
        "onefold.cli.result_text.edge_note",
        lambda estimator: {"odd": [float("nan"), 1.5, -float("inf")]},
    )
    found, _, _ = tune(capsys)
    assert found["edge"] == {"odd": [None, 1.5, None]}


@given(st.one_of(st.floats(0, 1), st.floats(-1e-10, 1e-10), st.floats(1 - 1e-6, 1 + 1e-10)))
def test_shares_have_no_sign_and_only_all_is_all(share):
    text = percent(share)
    assert not text.startswith("-")
    assert (text == "0.00%") == (share < 1e-9)
    assert (text == "100.00%") == (abs(1 - share) < 1e-9)
    assert float(text[:-1]) / 100 == pytest.approx(share, abs=5.1e-5)
