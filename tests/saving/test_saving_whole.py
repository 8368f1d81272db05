"""Files with a good checksum whose content would fail later: each is refused on loading."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from saving_standins import forge
from sklearn.base import clone

import onefold
from onefold import LSSVC, LSSVR, LSSVRCV, SparseLSSVR
from onefold.approximations import Grid
from onefold.cli import main
from onefold.saving import ModelFileError, container
from onefold.saving.container import raw_bytes

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 2))
Y = np.sin(X[:, 0])
SMALL = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "cv": 3}


def classifier():
    return LSSVC().fit(X, np.arange(30) % 3)


def regressor():
    return LSSVR(gamma=0.5).fit(X, Y)


def search():
    return LSSVRCV(**SMALL).fit(X, Y)


def grid():
    return LSSVRCV(**SMALL, approximation=Grid(9), refit="same").fit(X, Y)


def pruned():
    return SparseLSSVR(**SMALL, n_centres=5).fit(X, Y)


def load_changed(tmp_path, model, change):
    onefold.save(model, tmp_path / "m")
    with container.opened(tmp_path / "m") as opened:
        metadata, arrays = json.loads(opened.text()), opened.arrays()
    change(metadata["model"], arrays)
    return onefold.load(forge(tmp_path / "changed", metadata, arrays))


def expansion(model):
    return model["fitted"]["expansion_"]["fields"]


def sparse_centres(model, arrays):
    """Dense centres become the same centres as a sparse matrix."""
    rows = arrays.pop(expansion(model)["centres"]["$array"])
    n, d = rows.shape
    arrays["data"], arrays["indices"] = rows.ravel(), np.tile(np.arange(d, dtype=np.int32), n)
    arrays["indptr"] = np.arange(0, n * d + 1, d, dtype=np.int32)
    parts = {key: {"$array": key} for key in ("data", "indices", "indptr")}
    expansion(model)["centres"] = {"$csr": "array", "shape": [n, d], **parts}


def poke(*path, value):
    """Set entries of the array that a path through the metadata leads to."""

    def change(model, arrays):
        node = model
        for key in path:
            node = node[key]
        arrays[node["$array"]][:1] = value

    return change


GRID = ("fitted", "expansion_", "fields")


@pytest.mark.parametrize(
    ("build", "change"),
    [
        (classifier, lambda m, a: m["fitted"].pop("classes_")),
        (classifier, lambda m, a: m["fitted"].pop("n_features_in_")),
        (classifier, lambda m, a: m["fitted"].pop("approximation_")),
        (classifier, lambda m, a: m["fitted"].clear() or a.clear()),
        (classifier, lambda m, a: m["params"].update(n_jobs="x")),
        (classifier, lambda m, a: m["params"].update(n_jobs=0)),
        (classifier, lambda m, a: m["params"].update(n_jobs=10**30)),
        (classifier, lambda m, a: m["params"].update(kernel="wool")),
        (classifier, lambda m, a: m["params"].update(alpha=-1.0)),
        (classifier, lambda m, a: m["params"].update(class_weight=[1])),
        (classifier, poke("fitted", "classes_", value=2)),  # no longer distinct
        (regressor, lambda m, a: m["fitted"].update(single_target_=3)),
        (regressor, lambda m, a: m["fitted"].pop("single_target_")),
        (regressor, lambda m, a: m["fitted"].update(approximation_=[])),
        (regressor, poke("fitted", "expansion_", "fields", "centres", value=1e200)),
        (regressor, poke("fitted", "expansion_", "fields", "coef", value=1.7e308)),
        (search, lambda m, a: m["fitted"]["cv_results_"].pop("params")),
        (search, lambda m, a: m["fitted"]["cv_results_"]["params"].pop()),
        (search, lambda m, a: m["fitted"].update(best_index_=99)),
        (search, lambda m, a: m["fitted"]["best_params_"].update(alpha=7.0)),
        (search, lambda m, a: m["fitted"].pop("best_score_")),
        (search, lambda m, a: m["fitted"].update(history_={})),
        (pruned, lambda m, a: m["fitted"]["path_"].pop("n_centres")),
        (pruned, lambda m, a: m["params"].update(drop=2.0)),
        (grid, poke(*GRID, "step", value=0.0)),
        (grid, poke(*GRID, "step", value=-1.0)),
        (grid, poke(*GRID, "lower", value=np.nan)),
        (grid, poke(*GRID, "values", value=np.inf)),
        (grid, poke(*GRID, "values", value=1.7e308)),
        (grid, lambda m, a: expansion(m).update(counts={"$tuple": [2**32, 2**32]})),
        (grid, lambda m, a: expansion(m).update(counts={"$tuple": [-9, -9]})),
        (grid, lambda m, a: expansion(m).update(counts={"$tuple": [9.0, 9.0]})),
    ],
)
def test_models_that_would_fail_later_are_refused(tmp_path, build, change):
    with pytest.raises(ModelFileError):
        load_changed(tmp_path, build(), change)


def test_sparse_centres_need_a_kernel_that_takes_them(tmp_path):
    loaded = load_changed(tmp_path, regressor(), sparse_centres)
    np.testing.assert_allclose(loaded.predict(X), regressor().predict(X), rtol=1e-12)
    with pytest.raises(ModelFileError, match="its kernel takes dense rows only"):
        load_changed(tmp_path, LSSVR("laplacian").fit(X, Y), sparse_centres)


@pytest.mark.parametrize("build", [classifier, regressor, search, grid, pruned])
def test_what_is_loaded_can_be_used_in_every_way(tmp_path, capsys, build):
    model = build()
    model.save(tmp_path / "m")
    loaded = onefold.load(tmp_path / "m")
    assert repr(loaded) == repr(model)
    assert clone(loaded).get_params().keys() == model.get_params().keys()
    for flags in ([], ["--json"]):
        assert main(["inspect", str(tmp_path / "m"), *flags]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["estimator"] == type(model).__name__


# Sizes that the file only claims


def claim(path, size):
    """A file with a hole in it: its header says that it holds an array of `size` bytes."""
    onefold.save(regressor(), path)
    with container.opened(path) as opened:
        metadata = opened.text()
    header = {
        "__metadata__": {"onefold": metadata, "sha256": ""},
        "a0": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]},
    }
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + size)


def test_a_file_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "available_memory", lambda: 2**20)
    claim(tmp_path / "m", 2**21)
    with pytest.raises(ModelFileError, match=r"GiB of memory are free; load it where there is more"):
        onefold.load(tmp_path / "m")


def test_memory_that_cannot_be_had_is_an_ordinary_error(tmp_path):
    """A limit on the address space stands in for little memory; it needs a process of its own."""
    pytest.importorskip("resource")
    claim(tmp_path / "m", 2**33)
    script = (
        "import resource, sys, onefold\n"
        "from onefold.saving import ModelFileError, container\n"
        "container.available_memory = lambda: None\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({3 * 2**30}, {3 * 2**30}))\n"
        "try:\n    onefold.load(sys.argv[1])\nexcept ModelFileError:\n    sys.exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "m"], check=False)
    assert done.returncode == 3


def test_bytes_that_are_neither_true_nor_false(tmp_path):
    flags = np.array([True, False])
    raw_bytes(flags)[:] = bytes([7, 0])
    with pytest.raises(ModelFileError, match="neither true nor false"):
        load_changed(tmp_path, regressor(), lambda model, arrays: arrays.update(flags=flags))


def test_half_characters_are_refused(tmp_path):
    def change(model, arrays):
        model["fitted"]["approximation_"]["name"] = "\ud800"

    with pytest.raises(ModelFileError, match="half a character"):
        load_changed(tmp_path, regressor(), change)
