"""Format version 2, written out by hand: files of earlier releases must go on loading."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

import onefold
from onefold import saving

NAMES = {"float64": "F64", "uint32": "U32", "int32": "I32", "bool": "BOOL"}


def write(path, metadata, arrays):
    """The bytes of a file: length and JSON header, then the arrays without gaps, with a checksum."""
    text = json.dumps(metadata, separators=(",", ":"))
    checksum = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        checksum.update(f"{name} {arrays[name].dtype.name} {arrays[name].shape}".encode())
        checksum.update(arrays[name].tobytes())
    header = {"__metadata__": {"onefold": text, "sha256": checksum.hexdigest()}}
    start = 0
    for name, array in arrays.items():
        stop = start + array.nbytes
        shape = list(array.shape)
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": shape, "data_offsets": [start, stop]}
        start = stop
    encoded = json.dumps(header).encode()
    data = b"".join(array.tobytes() for array in arrays.values())
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)


def metadata(estimator, model, extra=None, **more):
    return {
        "format": "onefold-model", "format_version": 2, "onefold_version": "0.1.0",
        "estimator": estimator, "model": model, "extra": extra or {}, "sklearn_version": "1.7.0", **more,
    }  # fmt: skip


SCALER = {
    "$object": "StandardScaler",
    "params": {"copy": True, "with_mean": True, "with_std": True},
    "fitted": {
        "mean_": {"$array": "mean"},
        "n_features_in_": 1,
        "n_samples_seen_": {"$scalar": "float64", "value": 2.0},
        "scale_": {"$array": "scale"},
        "var_": {"$array": "var"},
    },
}
EXPANSION = {
    "kernel": {"$object": "RBF", "fields": {"gamma": 1.0}},
    "centres": {"$array": "centres"},
    "coef": {"$array": "coef"},
    "intercept": {"$array": "intercept"},
}
LSSVR = {
    "$object": "LSSVR",
    "params": {
        "alpha": 0.5, "approximation": "exact", "coef0": 1.0, "degree": 3, "gamma": 1.0, "kernel": "rbf",
        "n_jobs": {"$dropped": "a number of threads"},
    },
    "fitted": {
        "approximation_": {"name": "exact", "route": "cholesky"},
        "expansion_": {"$object": "Expansion", "fields": EXPANSION},
        "n_features_in_": 1,
        "single_target_": True,
    },
}  # fmt: skip
ARRAYS = {
    "centres": np.array([[-1.0], [1.0]]),
    "coef": np.array([[-2.0], [2.0]]),
    "intercept": np.array([2.0]),
}


def values(x):
    """2 + 2 (k(x, 1) − k(x, −1)) with k(x, z) = exp(−(x − z)²)."""
    return 2 + 2 * (np.exp(-((x - 1) ** 2)) - np.exp(-((x + 1) ** 2)))


def test_an_estimator(tmp_path):
    write(tmp_path / "m", metadata("LSSVR", LSSVR), ARRAYS)
    model = onefold.load(tmp_path / "m")
    assert (model.gamma, model.alpha, model.n_jobs) == (1.0, 0.5, None)
    assert model.dropped_params_ == {"n_jobs": "a number of threads"}
    x = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(model.predict(x[:, None]), values(x), rtol=1e-14)


@pytest.mark.parametrize("right", [True, False])
def test_a_pipeline_with_its_test(tmp_path, right):
    steps = [{"$tuple": ["scaler", SCALER]}, {"$tuple": ["machine", LSSVR]}]
    params = {"memory": None, "steps": steps, "transform_input": None, "verbose": False}
    pipeline = {"$object": "Pipeline", "params": params, "fitted": {}}
    test = {"rows": {"$array": "rows"}, "values": {"$array": "values"}}
    rows = np.array([[3.0], [5.0]])
    arrays = {
        **ARRAYS,
        "mean": np.array([3.0]),
        "scale": np.array([2.0]),
        "var": np.array([4.0]),
        "rows": rows,
        "values": values((rows - 3) / 2) + (0 if right else 0.1),
    }
    write(tmp_path / "m", metadata("Pipeline", pipeline, test=test), arrays)
    if right:
        found = onefold.load(tmp_path / "m").predict([[4.0]])
        np.testing.assert_allclose(found, values(np.array([0.5])), rtol=1e-14)
    else:
        with pytest.raises(saving.ModelFileError, match="does not predict what it did"):
            onefold.load(tmp_path / "m")


def test_every_kind_of_value(tmp_path):
    extra = {
        "plain": [None, True, 1, 0.5, "é", {"$$key": 1}],
        "columns": {"$array": "columns", "order": "F"},
        "text": {"$text": {"$array": "codes"}},
        "objects": {"$objects": ["a", {"$tuple": [1, 2]}], "shape": [2, 1]},
        "masked": {"$masked": {"$array": "numbers"}, "mask": {"$array": "mask"}, "fill_value": -1.0},
        "csr": {
            "$csr": "array", "shape": [1, 3],
            "data": {"$array": "data"}, "indices": {"$array": "indices"}, "indptr": {"$array": "indptr"},
        },
        "floats": [{"$float": "inf"}, {"$float": "-inf"}],
        "dict": {"$dict": [[1, "one"], ["two", 2]]},
        "slice": {"$slice": [None, 3, None]},
        "dtype": {"$dtype": "<f4"},
        "types": [{"$type": "float32"}, {"$type": "python object"}],
    }  # fmt: skip
    arrays = {
        **ARRAYS,
        "columns": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "numbers": np.array([1.0, 2.0]),
        "data": np.array([7.0]),
        "codes": np.array([[97, 98], [99, 0]], dtype=np.uint32),
        "indices": np.array([2], dtype=np.int32),
        "indptr": np.array([0, 1], dtype=np.int32),
        "mask": np.array([True, False]),
    }
    write(tmp_path / "m", metadata("LSSVR", LSSVR, extra), arrays)
    found = saving.load_with_extra(tmp_path / "m").extra
    assert found["plain"] == [None, True, 1, 0.5, "é", {"$key": 1}]
    assert found["columns"].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert found["text"].tolist() == ["ab", "c"]
    assert found["objects"].tolist() == [["a"], [(1, 2)]]
    assert found["masked"].tolist() == [None, 2.0]
    assert found["csr"].toarray().tolist() == [[0.0, 0.0, 7.0]]
    assert found["floats"] == [np.inf, -np.inf]
    assert found["dict"] == {1: "one", "two": 2}
    assert found["slice"] == slice(None, 3, None)
    assert found["dtype"] == np.dtype("float32")
    assert found["types"] == [np.float32, object]
