"""Format version 3, written out by hand."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import saving_standins  # noqa: F401 (allows Box in files)

import onefold

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


def metadata(estimator, model):
    return {
        "format": "onefold-model", "format_version": 3, "onefold_version": "0.1.0",
        "estimator": estimator, "model": model,
    }  # fmt: skip


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


def test_every_kind_of_value(tmp_path):
    content = {
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
    }  # fmt: skip
    arrays = {
        "columns": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "numbers": np.array([1.0, 2.0]),
        "data": np.array([7.0]),
        "codes": np.array([[97, 98], [99, 0]], dtype=np.uint32),
        "indices": np.array([2], dtype=np.int32),
        "indptr": np.array([0, 1], dtype=np.int32),
        "mask": np.array([True, False]),
    }
    write(tmp_path / "m", metadata("Box", {"$object": "Box", "fields": {"content": content}}), arrays)
    found = onefold.load(tmp_path / "m").content
    assert found["plain"] == [None, True, 1, 0.5, "é", {"$key": 1}]
    assert found["columns"].tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert found["text"].tolist() == ["ab", "c"]
    assert found["objects"].tolist() == [["a"], [(1, 2)]]
    assert found["masked"].tolist() == [None, 2.0]
    assert found["csr"].toarray().tolist() == [[0.0, 0.0, 7.0]]
    assert found["floats"] == [np.inf, -np.inf]
    assert found["dict"] == {1: "one", "two": 2}
