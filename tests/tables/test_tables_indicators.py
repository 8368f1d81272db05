"""Models of tables with many indicators: kept, saved and multiplied as CSR, with equal predictions."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import onefold
from onefold import TableClassifier, TableRegressor
from onefold.cli import main
from onefold.expansions import Blend, FoldModels
from onefold.tables.preparation import matrix_blocks
from onefold.tuning import tune_table

N = 500
LEVELS = 120
TINY = {"gammas": [0.1, 1.0], "alphas": [0.01, 0.1]}


def table(n: int = N, seed: int = 0, levels: int = LEVELS) -> pa.Table:
    """A column of names, some rare, numbers with gaps, and a word."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(20, levels + 20)
    names = rng.choice(levels, n, p=share / share.sum())
    size = rng.standard_normal(n)
    columns = {
        "name": pa.array([f"n{name}" for name in names], mask=rng.random(n) < 0.03),
        "size": pa.array(size, mask=rng.random(n) < 0.1),
        "colour": rng.choice(["red", "green", "blue"], n),
        "price": np.sin(names) + size + 0.1 * rng.standard_normal(n),
    }
    return pa.table(columns)


TRAIN = table()
FURTHER = table(300, 1, LEVELS + 10).drop(["price"])  # with names that training had not seen


def arrays_of(function):
    """The same function with centres in arrays."""
    if isinstance(function, Blend):
        return replace(function, members=tuple(map(arrays_of, function.members)))
    if isinstance(function, FoldModels):
        return replace(function, terms=tuple(map(arrays_of, function.terms)))
    return replace(function, centres=function.centres.toarray())


def with_arrays(model):
    """The same model as it was before there were CSR centres."""
    model = deepcopy(model)
    inner = model.estimator_
    inner.expansion_ = arrays_of(inner.expansion_)
    if getattr(inner, "fold_models_", None) is not None:
        inner.fold_models_ = arrays_of(inner.fold_models_)
    if getattr(inner, "spread_models_", None) is not None:
        inner.spread_models_ = arrays_of(inner.spread_models_)
    return model


def centres_of(model):
    inner = model.estimator_
    terms = [] if getattr(inner, "fold_models_", None) is None else inner.fold_models_.terms
    return [part.centres for _, part in inner.expansion_.parts] + [term.centres for term in terms]


MODELS = {
    "simple": TableRegressor(simple=True, **TINY),
    "laplacian": TableRegressor(simple=True, kernel="laplacian", **TINY),
    "diagonal": TableRegressor(kernel="rbf", metric="diagonal", blend=False),
    "full": TableRegressor(kernel="rbf", metric="full", blend=False),
    "blend": TableRegressor(metric=None, blend=True, min_frequency=2, **TINY),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param].fit(TRAIN, "price")


@pytest.mark.filterwarnings("ignore:unknown categories ignored")
def test_predictions_are_those_of_arrays(model, tmp_path) -> None:
    dense = with_arrays(model)
    centres = centres_of(model)
    assert all(map(sp.issparse, centres))
    assert len({id(array) for array in centres}) == 1
    path = tmp_path / "m.onefold"
    model.save(path)
    copies = {
        "itself": model,
        "saved": onefold.load(path),
        "pickled": pickle.loads(pickle.dumps(model)),
    }
    matrix = dense.matrix(FURTHER)
    assert_array_equal(model.matrix(FURTHER), matrix)
    expected = dense.predict(FURTHER)
    bounds = dense.predict_interval(FURTHER)
    size = np.abs(expected).max()
    for name, copy in copies.items():
        blocks = [X for _, X in matrix_blocks(copy, FURTHER, 70)]
        assert all(map(sp.issparse, blocks)), name
        assert_array_equal(sp.vstack(blocks).toarray(), matrix)
        assert_allclose(copy.predict(FURTHER), expected, rtol=0, atol=1e-10 * size)
        assert_allclose(copy.estimator_.predict(matrix), expected, rtol=0, atol=1e-10 * size)
        assert_allclose(copy.predict_interval(FURTHER), bounds, rtol=0, atol=1e-10 * size)
    assert len({id(array) for array in centres_of(copies["pickled"])}) == 1
    dense.save(tmp_path / "dense.onefold")
    old = onefold.load(tmp_path / "dense.onefold")  # as earlier versions wrote it
    assert_allclose(old.predict(FURTHER), expected, rtol=1e-12)
    assert not any(sp.issparse(X) for _, X in matrix_blocks(old, FURTHER))


def test_the_size_of_a_file(tmp_path) -> None:
    model = TableRegressor(metric=None, blend=True, **TINY).fit(TRAIN, "price")
    sizes = []
    for held in (model, with_arrays(model)):
        held.save(tmp_path / "m.onefold")
        sizes.append((tmp_path / "m.onefold").stat().st_size)
    centres = model.estimator_.expansion_.parts[0][1].centres
    assert sizes[1] - sizes[0] > 0.8 * 8 * centres.shape[0] * centres.shape[1]
    entries = 5 * N  # one or two numbers, marks of gaps, a name and a colour
    coefficients = 8 * N * 16
    assert sizes[0] < 12 * entries + coefficients + 60_000


def test_exports_are_those_of_arrays(tmp_path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model = MODELS["laplacian"].fit(TRAIN, "price")
    few = FURTHER.slice(0, 20)
    expected = model.predict(few)
    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    columns = few.to_pydict()
    inputs = {}
    for node in session.get_inputs():
        values = columns[node.name]
        if node.type == "tensor(string)":
            column = np.array([value or "" for value in values], dtype=object)
        else:
            column = np.array([np.nan if value is None else value for value in values])
        inputs[node.name] = column[:, None]
    assert_allclose(session.run(None, inputs)[0].ravel(), expected, rtol=1e-6)
    model.estimator_.to_c(tmp_path / "m.c", name="m")
    assert (tmp_path / "m.c").exists()


def test_a_classifier_and_the_command_line(tmp_path, capsys) -> None:
    labels = np.where(TRAIN["price"].to_numpy() > 0, "dear", "cheap")
    rows = TRAIN.set_column(3, "price", pa.array(labels))
    model = TableClassifier(simple=True, **TINY).fit(rows, "price")
    assert all(map(sp.issparse, centres_of(model)))
    dense = with_arrays(model)
    assert_allclose(model.predict_proba(TRAIN), dense.predict_proba(TRAIN), rtol=1e-9, atol=1e-10)
    outputs = []
    pyarrow.csv.write_csv(rows, tmp_path / "t.csv")
    for held in (model, dense):
        held.save(tmp_path / "m.onefold")
        command = ["predict", str(tmp_path / "m.onefold"), str(tmp_path / "t.csv"), "--score"]
        assert main(command) == 0
        outputs.append(capsys.readouterr())
        assert main(["inspect", str(tmp_path / "m.onefold")]) == 0
        capsys.readouterr()
    assert outputs[0] == outputs[1]
    model.report(tmp_path / "report.html", rows, "price")


@pytest.mark.filterwarnings("ignore:unknown categories ignored")
def test_rows_to_test_on_and_tables_on_disk(tmp_path) -> None:
    pyarrow.csv.write_csv(TRAIN, tmp_path / "t.csv")
    test = table(100, 2)
    pyarrow.csv.write_csv(test, tmp_path / "test.csv")
    model = tune_table(tmp_path / "t.csv", "price", test=tmp_path / "test.csv", simple=True, **TINY)
    assert all(map(sp.issparse, centres_of(model)))
    dense = with_arrays(model)
    error = test["price"].to_numpy() - dense.predict(test)
    assert_allclose(model.report_["test"]["rmse"], np.sqrt(np.mean(error**2)), rtol=1e-9)
    assert_allclose(model.predict(tmp_path / "test.csv"), dense.predict(test), rtol=1e-9)
