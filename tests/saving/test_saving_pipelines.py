"""Pipelines of scikit-learn's transformers around an estimator, through a file."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from saving_standins import forge
from scipy import sparse
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest, VarianceThreshold
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import onefold
from onefold import LSSVC, LSSVR, LSSVRCV
from onefold.saving import ModelFileError, container
from onefold.saving.registry import find, names_in

rng = np.random.default_rng(0)
N = 40
X = rng.normal(size=(N, 4))
Y = np.sin(X[:, 0])
GAPS = np.where(rng.random(X.shape) < 0.2, np.nan, X)
FRAME = pd.DataFrame(
    {
        "gappy": GAPS[:, 0],
        "number": X[:, 1],
        "colour": rng.choice(np.array(["red", "green", None], dtype=object), N),
        "grade": rng.integers(0, 3, N),
        "flag": X[:, 2] > 0,
        "kind": pd.Categorical(rng.choice(list("xyz"), N)),
        "id": [f"row {i}" for i in range(N)],
    }
)


def same_after_loading(model, rows, y=Y, tmp_path=None):
    model.fit(rows, y)
    onefold.save(model, tmp_path / "m")
    loaded = onefold.load(tmp_path / "m")
    onefold.save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert repr(loaded) == repr(model)
    assert loaded.predict(rows).tobytes() == model.predict(rows).tobytes()
    return loaded


def machine(**params):
    return LSSVR(gamma=0.1, alpha=0.1, **params)


NUMERIC = [
    StandardScaler(),
    StandardScaler(with_mean=False, with_std=False),
    MinMaxScaler(feature_range=(-1, 1), clip=True),
    MaxAbsScaler(),
    RobustScaler(quantile_range=(10.0, 90.0)),
    Normalizer("l1"),
    Binarizer(threshold=0.2),
    PowerTransformer(),
    PowerTransformer(standardize=False),
    QuantileTransformer(n_quantiles=9, output_distribution="normal", random_state=0),
    PolynomialFeatures(2),
    PolynomialFeatures((1, 3), interaction_only=True, include_bias=False),
    FunctionTransformer(),
    PCA(2, whiten=True, random_state=3),
    TruncatedSVD(2),
    VarianceThreshold(0.1),
    "passthrough",
    FeatureUnion(
        [("a", StandardScaler()), ("b", "passthrough"), ("c", "drop")], transformer_weights={"a": 2.0}
    ),
    make_pipeline(StandardScaler(), make_pipeline("passthrough", PCA(3))),
]


@pytest.mark.parametrize("step", NUMERIC, ids=lambda step: str(step)[:40])
def test_transformers_of_numbers(tmp_path, step):
    loaded = same_after_loading(make_pipeline(step, machine()), X, tmp_path=tmp_path)
    if not isinstance(step, str):
        assert loaded[0].transform(X).tobytes() == step.transform(X).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_rows_of_other_types(tmp_path, dtype):
    same_after_loading(
        make_pipeline(MinMaxScaler(), machine()), (4 * X).astype(dtype), tmp_path=tmp_path
    )


@pytest.mark.parametrize("step", [StandardScaler(copy=False), MinMaxScaler(copy=False)], ids=str)
def test_steps_that_overwrite_their_rows(tmp_path, step):
    model = make_pipeline(step, machine()).fit(X.copy(), Y)
    onefold.save(model, tmp_path / "m")
    loaded = onefold.load(tmp_path / "m")
    assert loaded.predict(X.copy()).tobytes() == model.predict(X.copy()).tobytes()


def test_box_cox_takes_positive_numbers(tmp_path):
    model = make_pipeline(PowerTransformer("box-cox"), machine())
    same_after_loading(model, np.exp(X), tmp_path=tmp_path)


@pytest.mark.parametrize(
    "step",
    [
        SimpleImputer(),
        SimpleImputer(strategy="median", add_indicator=True),
        SimpleImputer(strategy="constant", fill_value=-3.0, keep_empty_features=True),
        KNNImputer(n_neighbors=3, weights="distance", add_indicator=True),
    ],
)
def test_imputers(tmp_path, step):
    same_after_loading(make_pipeline(step, StandardScaler(), machine()), GAPS, tmp_path=tmp_path)


def columns(**settings):
    text = SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder(handle_unknown="ignore")
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["gappy", "number"]),
            ("text", make_pipeline(*text), ["colour"]),
            ("codes", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["kind"]),
            ("flags", OneHotEncoder(drop="if_binary", dtype=np.float32), ["flag", "grade"]),
            ("gone", "drop", ["id"]),
        ],
        **settings,
    )


@pytest.mark.parametrize(
    "settings", [{}, {"sparse_threshold": 1.0}, {"transformer_weights": {"codes": 0.5}}]
)
def test_columns_of_a_frame(tmp_path, settings):
    loaded = same_after_loading(make_pipeline(columns(**settings), machine()), FRAME, tmp_path=tmp_path)
    assert loaded.feature_names_in_.tolist() == list(FRAME.columns)
    assert loaded[0].get_feature_names_out().tolist() == [
        "numbers__gappy", "numbers__number", "text__colour_green", "text__colour_none",
        "text__colour_red", "codes__kind", "flags__flag_True", "flags__grade_0", "flags__grade_1",
        "flags__grade_2",
    ]  # fmt: skip


def test_unknown_categories_and_new_gaps(tmp_path):
    model = make_pipeline(columns(), machine()).fit(FRAME, Y)
    onefold.save(model, tmp_path / "m")
    rows = FRAME.assign(colour="mauve", number=np.nan)
    loaded = onefold.load(tmp_path / "m")
    assert loaded.predict(rows).tobytes() == model.predict(rows).tobytes()
    with pytest.raises(ValueError, match="unknown categories"):
        loaded.predict(FRAME.assign(grade=9))


def test_frames_between_the_steps(tmp_path):
    steps = ColumnTransformer(
        [("a", StandardScaler(), ["number"]), ("b", OneHotEncoder(sparse_output=False), ["kind"])]
    )
    model = make_pipeline(steps, machine()).set_output(transform="pandas")
    loaded = same_after_loading(model, FRAME, tmp_path=tmp_path)
    assert isinstance(loaded[0].transform(FRAME), pd.DataFrame)


@pytest.mark.parametrize(
    "chosen",
    [slice(0, 2), [0, -1], [True, False, True, False], np.array([False, True, True, False]), 1 * [3]],
    ids=str,
)
def test_columns_by_position(tmp_path, chosen):
    steps = ColumnTransformer([("a", StandardScaler(), chosen)], remainder=MinMaxScaler())
    same_after_loading(make_pipeline(steps, machine()), X, tmp_path=tmp_path)


def test_an_encoder_behind_imputers(tmp_path):
    filled = SimpleImputer(strategy="constant", fill_value="a word that no row has")
    steps = ColumnTransformer([("a", filled, ["id", "kind"]), ("b", "passthrough", ["grade"])])
    model = make_pipeline(steps, OneHotEncoder(), machine())
    same_after_loading(model, FRAME, tmp_path=tmp_path)


def test_a_row_that_cannot_be_guessed_is_a_refusal_with_a_remedy(tmp_path):
    model = make_pipeline(PolynomialFeatures(), OneHotEncoder(), machine())
    model.fit(FRAME[["grade"]].to_numpy() + 5, Y)
    with pytest.raises(ValueError, match=r"cannot predict rows made .*unknown.*handle_unknown"):
        onefold.save(model, tmp_path / "m")


def test_dates_are_named(tmp_path):
    dates = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=N)})
    model = make_pipeline(OneHotEncoder(), machine()).fit(dates, Y)
    with pytest.raises(TypeError, match=r"categories_\[0\]: arrays of dtype datetime64.*convert it"):
        onefold.save(model, tmp_path / "m")


def test_rare_categories(tmp_path):
    encoder = OneHotEncoder(min_frequency=15, handle_unknown="infrequent_if_exist", drop="first")
    rows = FRAME[["kind", "grade"]].to_numpy(dtype=object)
    same_after_loading(make_pipeline(encoder, machine()), rows, tmp_path=tmp_path)


def test_sparse_rows(tmp_path):
    rows = sparse.csr_array(np.where(X > 0, X, 0))
    same_after_loading(make_pipeline(MaxAbsScaler(), machine()), rows, tmp_path=tmp_path)


def test_targets_that_are_transformed(tmp_path):
    inside = TransformedTargetRegressor(
        LSSVRCV(gammas=[0.1], alphas=[0.1, 1.0]), transformer=StandardScaler()
    )
    same_after_loading(make_pipeline(StandardScaler(), inside), X, tmp_path=tmp_path)
    outside = TransformedTargetRegressor(make_pipeline(StandardScaler(), machine()))
    same_after_loading(outside, X, tmp_path=tmp_path)


def test_a_classifier(tmp_path):
    labels = np.where(Y > 0, "up", "down")
    model = make_pipeline(RobustScaler(), LSSVC(gamma=0.2))
    loaded = same_after_loading(model, X, labels, tmp_path=tmp_path)
    assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert loaded.classes_.tolist() == ["down", "up"]


def test_the_list_names_real_classes():
    for library in ("sklearn", "onefold"):
        assert all(find(name).__name__ == name for name in names_in(library))


# What is refused, before anything is written


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (
            make_pipeline(SelectKBest(k=2), machine()),
            r"SelectKBest is neither .* StandardScaler.*use one",
        ),
        (make_pipeline(StandardScaler(), Ridge()), "a Ridge is neither an estimator of onefold's nor"),
        (
            make_pipeline(FunctionTransformer(np.exp), machine()),
            r"\.func: a ufunc is Python code",
        ),
        (
            make_pipeline(StandardScaler(), machine(), memory="cache"),
            "memory of its Pipeline is 'cache'",
        ),
        (make_pipeline(StandardScaler()), r"last step is a StandardScaler, .*; end it with one"),
        (
            make_pipeline(PCA(random_state=np.random.RandomState(0)), machine()),
            "random_state: a RandomState",
        ),
        (StandardScaler(), r"cannot save a StandardScaler: .*Pipeline that ends with one"),
        (
            GridSearchCV(machine(), {"alpha": [1.0]}),
            "cannot save a GridSearchCV: .*save its best_estimator_",
        ),
        (
            make_pipeline(
                ColumnTransformer([("a", StandardScaler(), make_column_selector())]), machine()
            ),
            r"transformers\[0\]\[2\]: a make_column_selector is Python code.*list of their names",
        ),
        (
            make_pipeline(StandardScaler(), machine(kernel=lambda a, b: a @ b.T)),
            r"kernel: a function is Python code.*precomputed",
        ),
        (
            TransformedTargetRegressor(machine(), func=np.arcsinh, inverse_func=np.sinh),
            r"\.func: a ufunc is",
        ),
    ],
)
def test_what_has_no_place_is_named(tmp_path, monkeypatch, model, match):
    monkeypatch.chdir(tmp_path)
    model.fit(pd.DataFrame(X, columns=list("abcd")), Y)
    before = sorted(tmp_path.iterdir())
    with pytest.raises((TypeError, ValueError), match=match):
        onefold.save(model, tmp_path / "m")
    assert sorted(tmp_path.iterdir()) == before


def test_a_pipeline_that_is_not_fitted(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        onefold.save(make_pipeline(StandardScaler(), machine()), tmp_path / "m")


def test_attributes_that_scikit_learn_adds_later_are_named(tmp_path):
    model = make_pipeline(StandardScaler(), machine()).fit(X, Y)
    model[0].novelty_ = 1
    with pytest.raises(TypeError, match=r"novelty_: scikit-learn .* does not know it; upgrade"):
        onefold.save(model, tmp_path / "m")


# Files that were tampered with


def forged(path, change):
    """Change the metadata and arrays of a saved pipeline, with a checksum that fits."""
    with container.opened(path) as opened:
        metadata, arrays = json.loads(opened.text()), opened.arrays()
    change(metadata, arrays)
    return forge(path, metadata, arrays)


def fitted_of(metadata, step=0):
    return metadata["model"]["params"]["steps"][step]["$tuple"][1]["fitted"]


@pytest.fixture
def saved(tmp_path):
    onefold.save(make_pipeline(StandardScaler(), machine()).fit(X, Y), tmp_path / "m")
    return tmp_path / "m"


def test_another_scale_is_noticed(saved):
    def change(metadata, arrays):
        name = fitted_of(metadata)["scale_"]["$array"]
        arrays[name] = arrays[name] * 1.01

    with pytest.raises(ModelFileError, match=r"does not predict what it did .* save the model again"):
        onefold.load(forged(saved, change))


def test_another_scikit_learn_is_named_when_it_gives_other_values(saved):
    def change(metadata, arrays):
        metadata["sklearn_version"] = "1.2.3"
        arrays[fitted_of(metadata)["mean_"]["$array"]] += 0.1

    with pytest.raises(ModelFileError, match=r"install scikit-learn 1\.2\.3, with which it was saved"):
        onefold.load(forged(saved, change))


def test_another_scikit_learn_that_gives_the_same_values_will_do(saved):
    forged(saved, lambda metadata, arrays: metadata.update(sklearn_version="1.2.3"))
    assert onefold.load(saved).predict(X).shape == (N,)


@pytest.mark.parametrize(
    "change",
    [
        lambda m, a: m.pop("test"),
        lambda m, a: m.update(test=None),
        lambda m, a: m["model"]["params"].update(memory="folder"),
        lambda m, a: fitted_of(m).pop("scale_"),
        lambda m, a: fitted_of(m).update(transform=1),
        lambda m, a: fitted_of(m).update(__class__=1),
        lambda m, a: fitted_of(m).update(n_features_in_=5),
        lambda m, a: fitted_of(m, 1).clear(),
        lambda m, a: m["model"]["params"]["steps"].pop(),
        lambda m, a: m["model"]["params"]["steps"].reverse(),
    ],
)
def test_pipelines_that_do_not_hold_together_are_refused(saved, change):
    with pytest.raises(ModelFileError):
        onefold.load(forged(saved, change))


def test_the_names_of_the_columns_belong_to_the_model(tmp_path):
    onefold.save(make_pipeline(columns(), machine()).fit(FRAME, Y), tmp_path / "m")
    with pytest.raises(ModelFileError, match="columns of the rows that it should be tried on"):
        onefold.load(forged(tmp_path / "m", lambda m, a: fitted_of(m).pop("feature_names_in_")))


def test_column_numbers_beyond_the_columns_never_reach_c_code(tmp_path):
    encoder = OneHotEncoder(min_frequency=15, handle_unknown="infrequent_if_exist")
    model = make_pipeline(encoder, machine()).fit(FRAME[["kind", "grade"]].to_numpy(dtype=object), Y)
    onefold.save(model, tmp_path / "m")

    def change(metadata, arrays):
        groups = fitted_of(metadata)["_default_to_infrequent_mappings"]
        for node in groups:
            if node is not None:
                arrays[node["$array"]][:] = 10**9

    with pytest.raises(ModelFileError, match="groups of its OneHotEncoder"):
        onefold.load(forged(tmp_path / "m", change))


def test_features_without_number_are_not_made(tmp_path):
    onefold.save(make_pipeline(PolynomialFeatures(2), machine()).fit(X, Y), tmp_path / "m")

    def change(metadata, arrays):
        fitted_of(metadata)["_max_degree"] = 900

    with pytest.raises(ModelFileError, match="PolynomialFeatures"):
        onefold.load(forged(tmp_path / "m", change))
