"""Files with a good checksum whose content does not hold together: each is refused on loading."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from saving_files import decoded_fields, load_changed
from scipy import sparse
from sklearn.model_selection import KFold

import onefold
from onefold import LSSVC, LSSVR, LSSVRCV, saving
from onefold.approximations import Grid
from onefold.expansions import Blend, Expansion
from onefold.kernels import RBF, Laplacian, Precomputed
from onefold.saving import ModelFileError, classes
from onefold.saving.container import BadContent
from onefold.tables import Reading
from tests.tools.fuzz_cases import CASES

pytestmark = pytest.mark.filterwarnings("ignore")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Y = np.sin(X[:, 0])
SMALL = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 3}

# Dataclasses whose fields no constructor has seen

ONES = np.ones((3, 1))
EXPANSION = dict(zip(("centres", "coef", "intercept"), (np.ones((3, 2)), ONES, np.zeros(1))))
EXPANSION["kernel"] = RBF((1.0, 2.0))
MEMBER = Expansion(RBF(1.0), np.ones((3, 2)), ONES, np.ones(1))
WIDER = Expansion(RBF(1.0), np.ones((3, 2)), np.ones((3, 2)), np.zeros(2))
BLEND = {
    "members": (MEMBER, replace(MEMBER, kernel=Laplacian(1.0))),
    "weights": np.array([1.0, 2.0]),
}
FOLDS = {"terms": (WIDER,), "folds": (np.arange(2),), "intercept": np.zeros((2, 1))}
STEP = np.array([0.0, 1.0])
# Good fields of a class, and values of one of them that are not.
FIELDS = {
    "Expansion": (EXPANSION, {
        "coef": [np.ones((4, 1)), np.ones(3), ONES * np.nan, ONES * 1.7e308, ONES.astype(int), None],
        "intercept": [np.array([np.inf]), np.zeros(2), 0.0],
        "centres": [np.ones((3, 4)), np.ones((3, 2, 1)), np.ones((3, 0)), None, "rows",
                    sparse.csr_array(np.full((3, 2), np.nan))],
        "kernel": [Precomputed(), "rbf", None, RBF(1.0, metric=np.ones(3))],
    }),
    "Blend": (BLEND, {
        "weights": [np.array([1.0, -2.0]), np.array([1.0, np.nan]), np.array([1.0, 1e305]), np.ones(3)],
        "members": [(), 2, (MEMBER, None), (MEMBER, Blend((MEMBER,), [1.0])),
                    (MEMBER, WIDER), (MEMBER, replace(MEMBER, centres=np.ones((3, 4))))],
        "colour": [1],
    }),
    "FoldModels": (FOLDS, {
        "terms": [(), ("term",), 3],
        "folds": [(), (np.array([0, 2]),), (np.array([0, 0]),), (STEP,), (np.arange(3),), None],
        "intercept": [np.zeros(2), np.full((2, 1), np.nan), np.full((2, 1), 1e308), np.empty((0, 1))],
    }),
    "Temperature": ({"slope": 1.0}, {"slope": [-1.0, np.nan, "2"]}),
    "LogOdds": (
        {"slope": 1.0, "odds": 0.5, "shift": np.array([0.0, 1.0])},
        {"slope": [-1.0, "2"], "odds": [-1.0, np.inf], "shift": [np.zeros(1), np.full(2, np.nan)]},
    ),
    "Sigmoid": (
        {"slope": np.ones(3), "intercept": np.ones(3)},
        {"slope": [np.ones(2), np.ones(3) * np.inf, 1.0], "intercept": [np.ones(1), "0"]},
    ),
    "Isotonic": (
        {"inputs": (STEP,), "outputs": (STEP,)},
        {"inputs": [(STEP[::-1],), (), STEP], "outputs": [(2 * STEP,), (STEP * np.nan,), ()]},
    ),
    "RBF": ({"gamma": 1.0}, {"gamma": [-1.0, np.nan, "wide", [[1.0]], (), None]}),
    "Laplacian": ({"gamma": 1.0, "metric": np.ones(2)}, {"metric": [np.eye(2)]}),
    "Metric": ({"values": np.eye(2)}, {"values": [
        np.ones((2, 3)), np.ones((2, 2, 2)), np.empty(0), np.zeros((2, 2)), np.array([1.0, np.nan]),
        np.array([1.0, -1.0]), np.full((2, 2), 1e200), np.array(["a", "b"]), RBF(1.0),
    ]}),
    "Halving": ({"factor": 2}, {"factor": [0.5, "x"]}),
    "KFold": ({"n_splits": 3}, {"n_splits": [1, "x"], "shuffle": [3], "colour": [1]}),
    "Reading": ({"points": ("$x",)}, {"points": [3, (3,)], "categories": [3, {"c": 3}, {"c": (3,)}]}),
}  # fmt: skip


@pytest.mark.parametrize("kind", FIELDS)
def test_fields_that_do_not_hold_together_are_refused(kind):
    good, bad = FIELDS[kind]
    assert classes.name_of(decoded_fields(kind, good)) == kind
    for name, values in bad.items():
        for value in values:
            with pytest.raises(BadContent):
                pytest.fail(f"{name}={value!r} gave {decoded_fields(kind, good | {name: value})!r}")


def test_widths_beyond_all_numbers_are_refused(tmp_path):
    far = np.diag([1e100, 1e100, 1.0])[:, :2]
    kernel = RBF(1.0, metric=np.full(2, 1e149))
    with pytest.raises(ValueError, match="infinite or undefined"):
        saving.save(Expansion(**EXPANSION | {"kernel": kernel, "centres": far}), tmp_path / "m")


# Models: a change of the metadata or the arrays of a good file


BUILDERS = {
    "classifier": lambda: LSSVC().fit(X, np.arange(30) % 3),
    "regressor": lambda: LSSVR(gamma=0.5).fit(X, Y),
    "search": lambda: LSSVRCV(**SMALL).fit(X, Y),
    "grid": lambda: LSSVRCV(**SMALL, approximation=Grid(9), refit="same").fit(X, Y),
    "table": lambda: CASES["table-missing"]().model,
}


@cache
def built(name):
    return BUILDERS[name]()


def expansion(model):
    return model["fitted"]["expansion_"]["fields"]


def poke(*path, value):
    """Set entries of the array that a path through the metadata leads to."""

    def change(model, arrays):
        node = model
        for key in path:
            node = node[key]
        arrays[node["$array"]][:1] = value

    return change


def fitted(**changes):
    return lambda m, a: m["fitted"].update(changes)


def without(*names):
    return lambda m, a: [m["fitted"].pop(name) for name in names]


def params(**changes):
    return lambda m, a: m["params"].update(changes)


def parts(model: dict) -> list:
    return model["fitted"]["preparation_"]["fields"]["parts"]["$tuple"]


def column(kind, **changes):
    return lambda m, a: next(o["fields"] for o in parts(m) if o["$object"] == kind).update(changes)


F = ("fitted", "expansion_", "fields")
CHANGES = [
    ("classifier", without("classes_")),
    ("classifier", without("n_features_in_")),
    ("classifier", without("expansion_")),
    ("classifier", lambda m, a: m.pop("fitted")),
    ("classifier", lambda m, a: m.update(fitted=[])),
    ("classifier", params(self=1)),
    ("classifier", params(n_jobs="x")),
    ("classifier", params(n_jobs=0)),
    ("classifier", params(n_jobs=10**30)),
    ("classifier", poke("fitted", "classes_", value=2)),  # no longer distinct
    ("classifier", fitted(classes_=["a", "b", "c"])),
    ("classifier", fitted(n_features_in_="3")),
    ("classifier", fitted(calibrator_=0.5)),
    ("classifier", fitted(calibrator_=None)),
    ("classifier", fitted(calibrator_={"$object": "Temperature", "fields": {"slope": 9.0}})),
    ("regressor", fitted(calibrator_={"$object": "Temperature", "fields": {"slope": 1.0}})),
    ("regressor", fitted(single_target_=3)),
    ("regressor", without("single_target_")),
    ("regressor", fitted(expansion_={"$object": "RBF", "fields": {"gamma": 1.0}})),
    ("regressor", poke(*F, "centres", value=1e200)),
    ("regressor", poke(*F, "coef", value=1.7e308)),
    ("regressor", lambda m, a: m.update({"$object": "LSSVC"})),
    ("search", fitted(intervals_=3.0)),
    ("search", fitted(intervals_=None)),
    ("search", without("fold_models_")),
    ("search", lambda m, a: m["fitted"]["intervals_"]["fields"].update(count=2)),
    ("search", lambda m, a: m["fitted"].update(fold_models_=m["fitted"]["intervals_"])),
    ("search", lambda m, a: expansion(m)["kernel"]["fields"].update(gamma=7.0)),
    ("grid", poke(*F, "step", value=0.0)),
    ("grid", poke(*F, "lower", value=np.nan)),
    ("grid", poke(*F, "values", value=1.7e308)),
    ("grid", lambda m, a: expansion(m).update(counts={"$tuple": [2**32, 2**32]})),
    ("grid", lambda m, a: expansion(m).update(counts={"$tuple": [-9, -9]})),
    ("grid", lambda m, a: expansion(m).update(counts={"$tuple": [9.0, 9.0]})),
    *[
        ("regressor", fitted(**{name: 1.0}))
        for name in ("__class__", "predict", "__dict__", "_secret_", "fit", "x", "Upper_", "a-b_", "")
    ],
    ("table", without("preparation_")),
    ("table", fitted(reading_=None)),
    ("table", fitted(report_=[])),
    ("table", fitted(target_=3)),
    ("table", fitted(notes_="x")),
    ("table", fitted(estimator_=None)),
    ("table", params(drop={"$tuple": [3]})),
    ("table", params(missing="guess")),
    ("table", lambda m, a: parts(m).pop()),
    ("table", lambda m, a: parts(m).reverse()),
    ("table", column("NumberColumn", scale=0.0)),
    ("table", column("NumberColumn", mean="x")),
    ("table", column("NumberColumn", missing=False)),
    ("table", column("DateColumn", order="ydm")),
    ("table", column("DateColumn", cycles={"$tuple": ["moon"]})),
    ("table", column("CategoryColumn", categories={"$tuple": []})),
    ("table", column("CategoryColumn", most_frequent=3)),
    ("table", column("BooleanColumn", name=3)),
    ("table", lambda m, a: m.update({"$object": "TableClassifier"})),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_models_that_would_fail_later_are_refused(tmp_path, number):
    name, change = CHANGES[number]
    with pytest.raises(ModelFileError):
        load_changed(tmp_path, built(name), change)


@pytest.mark.parametrize("name", ["search", "table"])
def test_no_file_chooses_where_a_fit_writes(tmp_path, name):
    named = params(checkpoint=str(tmp_path / "chosen"))
    loaded = load_changed(tmp_path, built(name), named)
    assert loaded.checkpoint is None
    assert loaded.dropped_params_ == {"checkpoint": "str"}


def test_every_kernel_takes_sparse_centres(tmp_path):
    def change(model, arrays):
        """Dense centres become the same centres as a sparse matrix."""
        rows = arrays.pop(expansion(model)["centres"]["$array"])
        n, d = rows.shape
        arrays["data"] = rows.ravel()
        arrays["indices"] = np.tile(np.arange(d, dtype=np.int32), n)
        arrays["indptr"] = np.arange(0, n * d + 1, d, dtype=np.int32)
        parts = {key: {"$array": key} for key in ("data", "indices", "indptr")}
        expansion(model)["centres"] = {"$csr": "array", "shape": [n, d], **parts}

    for kernel in ("rbf", "laplacian", "matern", "powexp", "linear", "poly"):
        model = LSSVR(kernel, intervals=None, gamma=0.5).fit(X, Y)
        loaded = load_changed(tmp_path, model, change)
        np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-10)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("expansion_", RBF(1.0)),
        ("expansion_", None),
        ("n_features_in_", 5),
        ("classes_", np.array(["a", "b", "c", "d"])),
        ("calibrator_", "temperature"),
        ("feature_names_in_", np.array(["a"])),
    ],
)
def test_models_that_do_not_hold_together_are_not_saved(tmp_path, attribute, value):
    model = BUILDERS["classifier"]()
    setattr(model, attribute, value)
    with pytest.raises(ValueError, match=rf"cannot save this LSSVC: the {attribute} .*; fit it again"):
        saving.save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


# Models of tables


def test_columns_how_text_is_read_and_what_tuning_found_come_back(tmp_path):
    model = BUILDERS["table"]().set_params(cv=KFold(3))
    model.reading_ = Reading(decimal=",", na_values=("?",), points=("$x",), categories={"c": ("NA",)})
    model.report_ = {"test": None, "rows": 7}
    model.notes_ = ["a note"]
    model.id_column_ = "at"
    model.save(tmp_path / "m")
    again = onefold.load(tmp_path / "m")
    assert again.preparation_ == model.preparation_
    assert len({type(part) for part in again.preparation_.parts}) == 5
    for name in ("reading_", "report_", "notes_", "id_column_"):
        assert getattr(again, name) == getattr(model, name)
    assert repr(again.get_params()) == repr(model.get_params())
