"""What Dask collections may look like, and what is refused in one sentence."""

import pickle

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from dask_tables import GRID, assert_same_search, model
from sklearn.base import clone

import onefold
from onefold import LSSVCCV, LSSVR, LSSVRCV, KernelRidge, SparseLSSVC, open_parquet
from onefold.approximations import Nystroem


@pytest.fixture
def frame(table):
    return pd.DataFrame(table.X, columns=["a", "b", "c"])


def from_parts(parts, d=3):
    """A Dask array of unknown dtype checks, made of the given chunks."""
    lazy = [da.from_delayed(dask.delayed(part), (np.nan, d), dtype=float) for part in parts]
    return da.concatenate(lazy, allow_unknown_chunksizes=True)


def chunked(X):
    return da.from_array(X, chunks=350)


def own_types(X):
    """Columns of pandas' own types, in partitions of unknown lengths, one of them empty."""
    frame = pd.DataFrame(np.round(X), columns=["a", "b", "c"]).assign(b=X[:, 1] > 0, d=X[:, 2])
    frame = frame.astype({"a": "Int64", "b": "boolean", "c": "float32"})
    frame.loc[:180, "d"] = -1.0
    lazy = dd.from_pandas(frame, npartitions=4)
    return lazy[lazy["d"] > 0]


ROWS = {
    "chunks of several types": lambda X: from_parts(
        [X[:200].astype(np.float32), np.round(X[200:201]).astype(np.int16), X[201:].astype(np.float16)]
    ),
    "unknown lengths": lambda X: (columns := da.from_array(X, chunks=(123, 1)))[columns[:, 0] > -9],
    "pandas' own types": own_types,
    "masks without effect": lambda X: da.ma.masked_greater(chunked(X), 1e9),
    "beyond float32": lambda X: chunked((X * 1e16).astype(np.float32)),
}


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # they are compared as arrays
def test_rows_of_any_kind_are_the_numbers_that_they_hold(table, kind):
    lazy = ROWS[kind](table.X)
    gammas = [1e-32] if kind == "beyond float32" else [0.5, 3.0]
    rows = np.asarray(lazy.compute(), dtype=float)
    here, there = (model(gammas=gammas).fit(given, table.y[: len(rows)]) for given in (rows, lazy))
    assert_same_search(here, there, rows)
    assert there.expansion_.centres.dtype == np.float64


def test_dataframes_and_their_names(table, frame):
    here = model().fit(frame, table.y)
    lazy = dd.from_pandas(frame, npartitions=5)
    there = model().fit(lazy, dd.from_pandas(pd.Series(table.y), npartitions=3))
    assert there.feature_names_in_.tolist() == ["a", "b", "c"]
    assert there.n_features_in_ == 3
    assert_same_search(here, there, frame)
    found = there.predict(lazy)
    assert found.divisions == lazy.divisions
    np.testing.assert_allclose(found.compute().to_numpy(), here.predict(frame), atol=1e-8)
    assert there.score(lazy, table.y) == pytest.approx(here.score(frame, table.y), abs=1e-8)
    for wrong, words in ((lazy[["a", "b"]], "now missing"), (lazy[["c", "b", "a"]], "same order")):
        with pytest.raises(ValueError, match=words):
            there.predict(wrong)
    with pytest.raises(ValueError, match="2 features"):
        model().fit(table.X, table.y).predict(da.from_array(table.X[:, :2]))


def test_lazy_predictions_of_arrays(table):
    X = da.from_array(table.X, chunks=((0, 300, 400), 2))
    fitted = LSSVCCV(approximation=Nystroem(40), **GRID).fit(X, table.labels)
    predicted = fitted.predict(X)
    values = fitted.decision_function(X)
    assert isinstance(predicted, da.Array)
    assert predicted.chunks == ((0, 300, 400),)
    assert predicted.compute().tolist() == fitted.predict(table.X).tolist()
    np.testing.assert_allclose(values.compute(), fitted.decision_function(table.X))
    assert fitted.score(X, da.from_array(table.labels)) == fitted.score(table.X, table.labels)
    many = KernelRidge(approximation=Nystroem(40)).fit(X, table.Y)
    assert many.predict(X).shape == (700, 2)
    np.testing.assert_allclose(many.predict(X).compute(), many.predict(table.X))
    bad = da.from_array(np.where(np.arange(700)[:, None] == 650, np.nan, table.X), chunks=(300, 3))
    with pytest.raises(ValueError, match=r"partition 2 of X: .*NaN"):
        many.predict(bad).compute()
    sparse = from_parts([scipy.sparse.csr_matrix(rows) for rows in (table.X[:350], table.X[350:])])
    np.testing.assert_allclose(many.predict(sparse).compute(), many.predict(table.X), rtol=1e-9)


@pytest.mark.parametrize(
    "approximation",
    ["exact", "circulant", "toeplitz", "grid", "cg", Nystroem(9, predict="rows")],
    ids=str,
)
def test_other_approximations_are_refused_before_any_work(table, approximation):
    X = chunked(table.X[:, :1]).map_blocks(pytest.fail, dtype=float, meta=np.empty((0, 1)))
    for kind in (LSSVR, LSSVRCV):
        with pytest.raises(ValueError, match=r'needs all rows in memory.*approximation="nystroem"'):
            kind(approximation=approximation).fit(X, table.y)


@pytest.mark.filterwarnings("ignore:The groups parameter is ignored")  # by the folds of this model
def test_partitioned_parquet(table, frame, tmp_path):
    frame["y"] = table.y
    frame["w"] = table.weight
    frame["g"] = table.groups
    dd.from_pandas(frame, npartitions=4).to_parquet(tmp_path / "rows")
    rows = open_parquet(tmp_path / "rows", "y", sample_weight="w", groups="g")
    assert list(rows.X.columns) == ["a", "b", "c"]
    there = model().fit(*rows)
    here = model().fit(frame[["a", "b", "c"]], frame["y"], frame["w"])
    assert_same_search(here, there, frame[["a", "b", "c"]])
    two = open_parquet(tmp_path / "rows", ["y", "w"], features=["a"])
    assert list(two.y.columns) == ["y", "w"]
    with pytest.raises(ValueError, match="no column 'z'"):
        open_parquet(tmp_path / "rows", "z")


def test_models_are_plain(table, tmp_path):
    class Client:  # looks like one, cannot be copied or pickled
        status = compute = persist = gather = None

        def __deepcopy__(self, memo):
            raise TypeError

        def __reduce__(self):
            raise TypeError

    fitted = model().fit(da.from_array(table.X, chunks=350), table.y)
    fitted.client = Client()
    assert clone(fitted).client is fitted.client
    assert fitted.get_params()["client"] is fitted.client
    loaded = pickle.loads(pickle.dumps(fitted))
    assert loaded.client is None
    onefold.save(fitted, tmp_path / "model")
    again = onefold.load(tmp_path / "model")
    assert again.client is None
    np.testing.assert_array_equal(again.predict(table.X), fitted.predict(table.X))


def test_dask_is_named_where_it_is_missing(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r'pip install "dask\[array,dataframe,distributed\]"'):
        open_parquet("rows", "y")


def spoiled(table, bad):
    X = table.X.copy()
    X[650, 1] = bad
    return X


def partitions(X, **columns):
    return dd.from_pandas(pd.DataFrame(X, columns=["a", "b", "c"]).assign(**columns), npartitions=2)


UNKNOWN = (np.nan, np.nan)
REFUSED = [  # rows of a table, words
    (lambda t: da.from_array(spoiled(t, np.nan), chunks=(300, 2)), r"column 1 of partition 2; impute"),
    (lambda t: partitions(spoiled(t, np.inf)), r"column 'b' of partition 1; impute"),
    (lambda t: partitions(t.X, word="x"), r"column 'word' of partition 0 contains text.*OneHotEncoder"),
    (lambda t: chunked(np.full((700, 3), "x")), "partition 0 of X contains <U1"),
    (
        lambda t: from_parts([t.X[:350], scipy.sparse.csr_matrix(t.X[350:])]),
        "partition 1 of X is a csr_matrix",
    ),
    (lambda t: from_parts([t.X[:350], t.X[350:, :2]]), r"partition 1 of X has the shape \(350, 2\)"),
    (lambda t: da.from_array(t.y, chunks=99), "two-dimensional"),
    (lambda t: dask.delayed(t.X), r"two-dimensional dask.array"),
    (lambda t: da.from_array(t.X[1:]), "X has 699 rows but y has 700"),
    (lambda t: da.from_array(t.X[:0], chunks=(0, 3)), r"has shape \(0, 3\)"),
    (lambda t: chunked(t.X * 1e160), "squares overflow"),
    (lambda t: da.ma.masked_greater(chunked(t.X), 2), "partition 0 of X has masked values"),
    (
        lambda t: da.from_delayed(dask.delayed(t.X), UNKNOWN, dtype=float),
        "number of columns of X is unknown",
    ),
]


@pytest.mark.parametrize(("rows", "words"), REFUSED)
def test_rows_that_are_refused(table, rows, words):
    y = table.y[:0] if "(0, 3" in words else table.y
    with pytest.raises(ValueError, match=words):
        model().fit(rows(table), y)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (model(criterion="r2"), '"mse", "error"'),
        (model(criterion="press"), '"mse", "error"'),
        (model(criterion="cost"), '"mse", "error"'),
        (model(cv="loo"), "cv=5"),
        (model(refit="exact"), 'refit="auto"'),
        (model(kernel="precomputed", gammas=None), "precomputed"),
        (model(client=3), "dask.distributed.Client"),
        (SparseLSSVC(), r"X\.compute\(\)"),
    ],
)
def test_machines_that_need_all_rows_are_refused(table, machine, words):
    with pytest.raises(ValueError, match=words):
        machine.fit(chunked(table.X), table.labels if isinstance(machine, SparseLSSVC) else table.y)


OTHER_VALUES = "has changed since it was first read, in its values or in the order"
CHANGES = {
    "a row less": (lambda rows: rows[:-1], "had 350 rows when it was first read and has 349 now"),
    "another order": (lambda rows: rows[::-1], OTHER_VALUES),
    "two rows": (lambda rows: rows[[1, 0, *range(2, 350)]], OTHER_VALUES),
    "a value": (lambda rows: rows + np.eye(350, 3, k=-7) * 1e-6, OTHER_VALUES),
    "missing": (lambda rows: np.where(rows > 2, np.nan, rows), OTHER_VALUES),
    "rounding": (lambda rows: rows * (1 + 1e-15), None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_are_others_in_a_later_pass(table, summed, change):
    passes = []
    changed, words = CHANGES[change]

    def other(block):
        passes.append(1)
        return changed(block) if len(passes) > 4 else block

    lazy = da.from_array(table.X, chunks=350).map_blocks(other, dtype=float, meta=np.empty((0, 3)))
    if words is None:
        assert_same_search(model().fit(table.X, table.y), model().fit(lazy, table.y), table.X)
        return
    with pytest.raises(ValueError, match=rf"^partition [01] of X {words}.*X\.persist\(\)"):
        model().fit(lazy, table.y)
