"""Every kind of model × {round trip, saved again, trial, mutants}; parameters that no file holds."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from saving_files import forge, load_changed, through_file
from sklearn import model_selection
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.pipeline import make_pipeline

import onefold
from onefold import LSSVCCV, LSSVR, LSSVRCV, saving
from onefold.cli import main
from onefold.heldout import GapKFold
from onefold.kernels import RBF, CallableKernel
from onefold.saving import ModelFileError, file
from tests.tools.fuzz_cases import CASES, Case
from tests.tools.fuzz_models import Original, fuzz, judge

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0])
SMALL = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 3}
METHODS = {
    "predict": (),
    "transform": (),
    "decision_function": (),
    "predict_proba": (),
    "predict_interval": (0.8,),
    "predict_quantiles": ([0.2, 0.7],),
}
MUTANTS = 20


@cache
def case(name: str) -> Case:
    return CASES[name]()


def assert_same_predictions(model, loaded, rows):
    for method, arguments in METHODS.items():
        assert hasattr(loaded, method) == hasattr(model, method)
        if hasattr(model, method):
            before, after = (np.asarray(getattr(m, method)(rows, *arguments)) for m in (model, loaded))
            assert before.dtype == after.dtype
            assert before.tolist() == after.tolist()


@pytest.mark.parametrize("name", sorted(CASES))
def test_round_trip(name, tmp_path, capsys):
    """The same bits from every method, the same bytes when saved again, and good for every use."""
    model = case(name).model
    rows = case(name).rows[:17]
    loaded = through_file(model, tmp_path)
    assert type(loaded) is type(model)
    assert vars(loaded).keys() == vars(model).keys()
    assert repr(loaded) == repr(model)
    assert_same_predictions(model, loaded, rows)
    clone(loaded)
    for flags in ([], ["--json"]):
        assert main(["inspect", str(tmp_path / "model"), *flags]) == 0
    capsys.readouterr()


def first_array(node, key):
    """The first array below `key` in a tree of metadata."""
    if isinstance(node, dict):
        if key in node and isinstance(node[key], dict) and "$array" in node[key]:
            return node[key]["$array"]
        node = list(node.values())
    found = (first_array(item, key) for item in node if isinstance(item, dict | list))
    return next((name for name in found if name), None)


@pytest.mark.parametrize("name", sorted(CASES))
def test_trial(name, tmp_path):
    """A file whose model predicts something else than it did is refused, checksum or not."""

    def change(model, arrays):
        inside = model["fitted"]
        if "expansion_" not in inside and "estimator_" not in inside:
            inside["preparation_"]["fields"]["parts"]["$tuple"][0]["fields"]["scale"] *= 1.01
            return
        inside = inside["estimator_"]["fitted"] if "estimator_" in inside else inside
        coef = first_array(inside["expansion_"], "coef")
        arrays[coef] = 1.01 * arrays[coef]
        values = first_array(inside["expansion_"], "values")
        if values:
            arrays[values] = 1.01 * arrays[values]

    with pytest.raises(ModelFileError, match="its predictions differ from those made when it was saved"):
        load_changed(tmp_path, case(name).model, change)


@pytest.mark.parametrize("name", sorted(CASES))
def test_mutants(name, tmp_path):
    """Mutated files are refused, or as good as the model they came from."""
    outcomes, findings = fuzz([name], MUTANTS, 0, tmp_path)
    assert findings == []
    assert outcomes["refused"] > 0
    assert sum(outcomes.values()) == MUTANTS


def test_the_fuzzer_finds_what_goes_unchecked(tmp_path, monkeypatch):
    monkeypatch.setattr(file.classes, "check", lambda value: None)
    monkeypatch.setattr(file, "verify", lambda model, stored: None)
    outcomes, findings = fuzz(["uncalibrated"], 60, 0, tmp_path)
    assert outcomes["misbehaved"] == len(findings) > 0


def test_the_trial_covers_probabilities_bounds_and_the_preparation(tmp_path, monkeypatch):
    """What is not in the decision values is tried by itself."""

    def steeper(model, arrays):
        slope = first_array(model["fitted"]["calibrator_"], "slope")
        arrays[slope] = 2.0 * arrays[slope]

    def wider(model, arrays):
        residuals = first_array(model["fitted"]["intervals_"], "residuals")
        arrays[residuals] = 2.0 * arrays[residuals]

    def linear(model, arrays):
        model["params"]["target_transform"] = None

    changes = {"sigmoid": steeper, "lssvr-scale-jackknife": wider, "table-log": linear}
    for name, change in changes.items():
        with pytest.raises(ModelFileError, match="its predictions differ"):
            load_changed(tmp_path, case(name).model, change)
    original = Original(case("table"), tmp_path)
    metadata = json.loads(original.text)
    part = metadata["model"]["fitted"]["preparation_"]["fields"]["parts"]["$tuple"][0]
    part["fields"]["scale"] *= 2.0
    forge(tmp_path / "mutant", metadata, original.arrays)
    assert judge(tmp_path / "mutant", original.case) is None
    monkeypatch.setattr(file, "verify", lambda model, stored: None)
    assert judge(tmp_path / "mutant", original.case) is not None


def test_rows_of_a_model_and_its_fold_models_lie_in_a_file_once(tmp_path):
    rows = RNG.normal(size=(60, 40))
    sizes = []
    for intervals in (None, "cv+"):
        LSSVR(gamma=0.1, intervals=intervals).fit(rows, rows[:, 0]).save(tmp_path / "model")
        sizes.append((tmp_path / "model").stat().st_size)
    assert sizes[1] - sizes[0] < rows.nbytes / 2
    loaded = onefold.load(tmp_path / "model")
    assert np.shares_memory(loaded.fold_models_.terms[0].centres, loaded.expansion_.centres)


# Parameters


SPLITTERS = [
    model_selection.KFold(3, shuffle=True, random_state=4),
    model_selection.GroupKFold(3),
    model_selection.TimeSeriesSplit(3, gap=1),
    model_selection.RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    model_selection.ShuffleSplit(3, test_size=0.3, random_state=0),
    model_selection.PredefinedSplit(np.arange(40) % 4),
    GapKFold(3, gap=2),
]


@pytest.mark.parametrize("splitter", SPLITTERS, ids=lambda s: type(s).__name__)
def test_splitters_come_back(tmp_path, splitter):
    model = LSSVCCV(**SMALL | {"cv": 3}).fit(X, Y > 0).set_params(cv=splitter)
    loaded = through_file(model, tmp_path)
    assert type(loaded.cv) is type(splitter)
    assert not hasattr(loaded, "dropped_params_")
    groups = np.arange(40) % 5
    before, after = (list(cv.split(X, Y > 0, groups)) for cv in (splitter, loaded.cv))
    assert [test.tolist() for _, test in before] == [test.tolist() for _, test in after]


def test_what_served_the_fit_alone_and_is_code_is_dropped_and_noted(tmp_path):
    def build(criterion):
        return LSSVRCV(
            gammas=[0.1, 1.0],
            alphas=[0.1],
            cv=model_selection.ShuffleSplit(3, random_state=np.random.RandomState(0)),
            criterion=criterion,
            callback=lambda event: None,
        ).fit(X, Y)

    model = build(make_scorer(mean_absolute_error, greater_is_better=False))
    loaded = through_file(model, tmp_path)
    assert loaded.dropped_params_.keys() == {"cv", "criterion", "callback"}
    assert loaded.dropped_params_["cv"].startswith("ShuffleSplit(")
    assert "0x" not in loaded.dropped_params_["callback"]
    defaults = LSSVRCV()
    assert [loaded.cv, loaded.criterion, loaded.callback] == [defaults.cv, defaults.criterion, None]
    loaded.set_params(cv=3).fit(X, Y)
    loaded = through_file(loaded, tmp_path)
    assert loaded.cv == 3
    assert loaded.dropped_params_.keys() == {"criterion", "callback"}
    first = build(["mse", lambda e, rows, y: 0.0])
    assert through_file(first, tmp_path).criterion is None


@pytest.mark.parametrize("kind", [str, Path])
def test_where_a_fit_wrote_is_neither_saved_nor_restored(tmp_path, kind):
    path = tmp_path / "secret.journal"
    model = LSSVRCV(**SMALL, checkpoint=kind(path)).fit(X, Y)
    assert path.exists()
    loaded = through_file(model, tmp_path)
    assert loaded.checkpoint is None
    assert loaded.dropped_params_ == {"checkpoint": type(kind(path)).__name__}
    assert not [one for one in tmp_path.iterdir() if one != path and b"secret" in one.read_bytes()]


def product(A, B):
    return A @ B.T


def marked(**attributes):
    model = LSSVR().fit(X, Y)
    vars(model).update(attributes)
    return model


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LSSVR(CallableKernel(product)).fit(X, Y), r"LSSVR\.kernel.*Python code.*precomputed"),
        (lambda: LSSVR(RBF() + CallableKernel(product)).fit(X, Y), r"LSSVR\.kernel.*Python code"),
        (lambda: type("LSSVR", (LSSVR,), {})().fit(X, Y), "cannot save a LSSVR.*skops or joblib"),
        (lambda: make_pipeline(LSSVR()).fit(X, Y), "cannot save a Pipeline.*skops or joblib"),
        (
            lambda: model_selection.GridSearchCV(LSSVR(), {"alpha": [0.1, 1.0]}).fit(X, Y),
            "best_estimator_",
        ),
        (lambda: marked(helper_=object()), r"LSSVR\.helper_: a object cannot be stored"),
        (lambda: marked(X_fit_=X), r"LSSVR\.X_fit_: fitted attributes.*lower-case"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_before_writing(tmp_path, build, message):
    with pytest.raises(TypeError, match=message):
        saving.save(build(), tmp_path / "m")
    with pytest.raises(NotFittedError):
        saving.save(LSSVR(), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
