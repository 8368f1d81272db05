"""The file itself: where it goes, what it says of itself, and bytes that are no model."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from safetensors.numpy import save as safetensors_bytes
from saving_files import forge, load_changed, metadata_of, taken_apart
from sklearn.base import clone

import onefold
from onefold import LSSVR, LSSVRCV, TableRegressor, saving
from onefold.expansions import Expansion
from onefold.kernels import RBF, Linear
from onefold.saving import ModelFileError, container
from onefold.saving.container import raw_bytes

X = np.random.default_rng(0).normal(size=(30, 2))
MODEL = LSSVR(gamma=0.5).fit(X, np.sin(X[:, 0]))


@pytest.fixture
def old_file(tmp_path):
    path = tmp_path / "old.model"
    saving.save(RBF(1.0), path)
    return path


@pytest.mark.parametrize(
    "model",
    [
        LSSVR(),
        LSSVRCV(gammas=[0.1, 1.0], n_jobs=1),
        TableRegressor(simple=True, gammas=[0.1, 1.0], n_jobs=1),
    ],
)
def test_files_of_equal_fits_differ_in_times_alone(tmp_path, monkeypatch, model):
    """Equal models were said to give equal files, and the times of a search are in them.

    So is the order in which kernels finished, which is a matter of time where several run side by side.
    """
    stopped = SimpleNamespace(perf_counter=lambda: 0.0)
    for module in ("search.evaluation", "tables.estimators"):
        monkeypatch.setattr(f"onefold.{module}.time", stopped)
    files = [tmp_path / "one", tmp_path / "again", tmp_path / "other"]
    first = clone(model).fit(X, np.sin(X[:, 0]))
    for fitted, path in zip([first, first, clone(model).fit(X, np.sin(X[:, 0]))], files):
        saving.save(fitted, path)
    written = [path.read_bytes() for path in files]
    assert written[0] == written[1] == written[2]


# What a file says of itself


def test_peek_describes_without_building(tmp_path, monkeypatch):
    saving.save(MODEL, tmp_path / "m")
    monkeypatch.setattr(LSSVR, "__init__", lambda self: pytest.fail("built"))
    seen = saving.peek(tmp_path / "m")
    assert (seen["format"], seen["format_version"], seen["estimator"]) == ("onefold-model", 1, "LSSVR")
    assert seen["model"]["params"]["gamma"] == 0.5
    assert {"dtype": "float64", "shape": [30, 2]} in seen["arrays"].values()


def test_a_file_written_by_hand(tmp_path):
    """Length and JSON header, then the arrays without gaps, with a checksum: format version 1."""
    expansion = {name: {"$array": name} for name in ("centres", "coef", "intercept")}
    expansion["kernel"] = {"$object": "RBF", "fields": {"gamma": 1.0}}
    model = {
        "$object": "LSSVR",
        "params": {"alpha": 0.5, "gamma": 1.0, "n_jobs": {"$dropped": "a number of threads"}},
        "fitted": {
            "expansion_": {"$object": "Expansion", "fields": expansion},
            "n_features_in_": 1,
            "single_target_": True,
        },
    }
    arrays = {
        "centres": np.array([[-1.0], [1.0]]),
        "coef": np.array([[-2.0], [2.0]]),
        "intercept": np.array([2.0]),
        "rows": np.array([[1.0]]),
        "values": np.array([[4.0 - 2.0 * np.exp(-4.0)]]),
    }
    test = {"rows": {"$array": "rows"}, "values": {"$array": "values"}, "predictions": None}
    text = json.dumps(metadata_of(model, test=test | {"probabilities": None, "bounds": None}))
    checksum = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        checksum.update(f"{name} float64 {arrays[name].shape}".encode() + arrays[name].tobytes())
    header = {"__metadata__": {"onefold": text, "sha256": checksum.hexdigest()}}
    start = 0
    for name, array in arrays.items():
        offsets = [start, start + array.nbytes]
        header[name] = {"dtype": "F64", "shape": list(array.shape), "data_offsets": offsets}
        start = offsets[1]
    encoded = json.dumps(header).encode()
    data = b"".join(array.tobytes() for array in arrays.values())
    (tmp_path / "m").write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)
    seen = load_file(tmp_path / "m")  # as any reader of safetensors sees it
    assert all(np.array_equal(seen[name], array) for name, array in arrays.items())
    loaded = onefold.load(tmp_path / "m")
    assert (loaded.gamma, loaded.alpha, loaded.n_jobs) == (1.0, 0.5, None)  # degree: its default
    assert loaded.dropped_params_ == {"n_jobs": "a number of threads"}
    x = np.linspace(-2, 2, 9)
    expected = 2 + 2 * (np.exp(-((x - 1) ** 2)) - np.exp(-((x + 1) ** 2)))
    np.testing.assert_allclose(loaded.predict(x[:, None]), expected, rtol=1e-14)


def test_files_of_newer_versions_are_refused(tmp_path):
    path = forge(tmp_path / "m", metadata_of({}, format_version=7, onefold_version="9.8"))
    for read in (saving.load, saving.peek):
        with pytest.raises(ModelFileError) as caught:
            read(path)
        message = str(caught.value)
        assert str(path) in message
        assert "written by a newer onefold, 9.8, in format version 7" in message
        assert f"this onefold {onefold.__version__} reads format versions up to 1" in message
        assert "pip install --upgrade onefold" in message
    with pytest.raises(ModelFileError, match="has no format version"):
        saving.load(forge(tmp_path / "m", metadata_of({}, format_version=0)))
    with pytest.raises(ModelFileError, match=r"'Later', which .* not know; upgrade"):
        saving.load(forge(tmp_path / "m", metadata_of({"$object": "Later", "fields": {}})))


# Where files go


def test_places_that_no_file_can_go_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path, tmp_path / "nowhere" / "m", tmp_path / "pipe"):
        with pytest.raises(OSError, match=f"cannot save to {place}: .* file name"):
            saving.save(MODEL, place)
    for read in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ModelFileError, match="folder or a device"):
            saving.load(read)
    with pytest.raises(FileNotFoundError):
        saving.load(tmp_path / "absent")


def test_links_and_permissions_stay(tmp_path, old_file):
    (tmp_path / "link").symlink_to(old_file)
    saving.save(RBF(2.0), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert saving.load(old_file) == RBF(2.0)
    (tmp_path / "plain").touch()
    assert old_file.stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_alone(tmp_path, old_file, monkeypatch, step):
    def fail(*args):
        raise OSError(28, "No space left on device")

    before = old_file.read_bytes()
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        saving.save(RBF(2.0), old_file)
    assert old_file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [old_file]


def test_metadata_beyond_the_limit_is_neither_written_nor_read(tmp_path, monkeypatch):
    saving.save(MODEL, tmp_path / "m")
    monkeypatch.setattr(container, "MAX_HEADER", 1024)
    with pytest.raises(ValueError, match="hold at most 1024"):
        saving.save(MODEL, tmp_path / "other")
    assert_refused(tmp_path / "m")
    large = Expansion(Linear(), np.ones((5000, 1)), np.ones((5000, 1)), np.zeros(1))
    monkeypatch.setattr(container, "MAX_HEADER", 2048)
    saving.save(large, tmp_path / "other")


# Bytes that are no model


def assert_refused(path, match=None):
    """The error is the right one, names the file and the remedy, and reading stays small."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=match) as caught:
            saving.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert type(caught.value) is ModelFileError
    message = str(caught.value)
    assert message.startswith(f"{path} cannot be read as a onefold model: ")
    assert "\n" not in message
    assert any(remedy in message for remedy in ("save the model again", "upgrade", "give the"))
    assert peak < 30e6


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


def header(text: bytes, data: bytes = b"") -> bytes:
    return len(text).to_bytes(8, "little") + text + data


KERNEL = {"$object": "RBF", "fields": {"gamma": 1.0}}
GOOD = {"onefold": json.dumps(metadata_of(KERNEL)), "sha256": ""}


def entry(dtype: str, shape: list[int], offsets: list[int], size: int = 8) -> bytes:
    """A kernel beside an array that is not what its entry says."""
    array = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    return header(json.dumps({"__metadata__": GOOD, "a0": array}).encode(), bytes(size))


NO_MODELS = {
    "empty": b"",
    "no header": bytes(8),
    "text": b"these are the voyages of the starship\n" * 20,
    "pickle": pickle.dumps(Bomb()),
    "header of 2**64 bytes": b"\xff" * 64,
    "deep header of dicts": header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "header not UTF-8": header(b'{"\xff":1}'),
    "header a list": header(b"[]"),
    "header without metadata": header(b"{}"),
    "metadata not text": header(b'{"__metadata__":{"onefold":{"a":1}}}'),
    "no checksum": header(b'{"__metadata__":{"onefold":"{}"}}'),
    "foreign safetensors": safetensors_bytes({"w": np.ones(3)}),
    "huge array": entry("F64", [10**12], [0, 8 * 10**12]),
    "shape that overflows": entry("U8", [2**32, 2**32], [0, 0], 0),
    "many axes": entry("U8", [0] * 99, [0, 0], 0),
    "small shape": entry("F64", [1], [0, 16], 16),
    "offsets backwards": entry("F64", [1], [8, 0]),
    "a gap": entry("F64", [1], [8, 16], 16),
    "bytes left over": entry("F64", [1], [0, 8], 16),
    "type without a place": entry("BF16", [1], [0, 2], 2),
    "array without a use": entry("F64", [1], [0, 8]),
}


@pytest.mark.parametrize("name", NO_MODELS)
def test_what_is_not_a_model_file_is_refused(tmp_path, name):
    path = tmp_path / "m"
    path.write_bytes(NO_MODELS[name])
    assert_refused(path)
    with contextlib.suppress(ModelFileError):
        assert saving.peek(path)["estimator"] == "RBF"


@pytest.mark.parametrize(
    "metadata",
    [
        "", "null", "{}",
        '{"format":"other","format_version":1}',
        '{"format":"onefold-model","format_version":true}',
        '{"format":"onefold-model","format_version":1}',
        '{"format":"onefold-model",' + GOOD["onefold"][1:],
        '{"format":"onefold-model","format_version":1,"model":NaN}',
        '{"format":"onefold-model","format_version":' + "9" * 5000 + "}",
        '{"format":"onefold-model","format_version":1,"model":' + "[" * 90_000 + "]" * 90_000 + '}',
        '{"format":"onefold-model","format_version":1,"model":' + '{"a":' * 300 + "1" + "}" * 301,
        metadata_of(None),
        metadata_of({"key": KERNEL}),
        metadata_of(KERNEL, estimator=None),
        metadata_of(KERNEL, estimator="LSSVR"),
        metadata_of(KERNEL, onefold_version=1.0),
    ],
)  # fmt: skip
def test_metadata_that_describes_no_model_is_refused(tmp_path, metadata):
    assert_refused(forge(tmp_path / "m", metadata))


def test_damage_is_found(tmp_path):
    path = tmp_path / "m"
    saving.save(MODEL, path)
    data = path.read_bytes()
    path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    assert_refused(path, "does not match its checksum")
    for size in [*range(20), *range(20, len(data), 97), len(data) - 1]:
        path.write_bytes(data[:size])
        with pytest.raises(ModelFileError):
            saving.load(path)


PART = '{"format":"onefold-model","format_version":1,"%s":"%s"}'


@pytest.mark.parametrize(
    "text", [PART % ("\ud800", ""), PART % ("x", "\ud800"), PART % ("x", r"\ud800")]
)
def test_halves_of_characters_are_refused(tmp_path, text):
    """In the header, whose text could not be hashed, and in keys and values of the metadata."""
    described = json.dumps({"__metadata__": {"onefold": text, "sha256": ""}})
    (tmp_path / "m").write_bytes(header(described.encode()))
    assert_refused(tmp_path / "m", "surrogates not allowed")


def test_bytes_that_no_truth_value_has(tmp_path):
    flags = np.array([True, False])
    raw_bytes(flags)[:] = bytes([7, 0])
    with pytest.raises(ModelFileError, match="neither true nor false"):
        load_changed(tmp_path, MODEL, lambda model, arrays: arrays.update(flags=flags))


# Sizes that the file only claims


def claim(path, size):
    """A file with a hole in it: its header says that it holds an array of `size` bytes."""
    onefold.save(MODEL, path)
    metadata, _ = taken_apart(path)
    described = {
        "__metadata__": {"onefold": json.dumps(metadata), "sha256": ""},
        "a0": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]},
    }
    text = json.dumps(described).encode()
    path.write_bytes(header(text))
    os.truncate(path, 8 + len(text) + size)


def test_a_file_larger_than_memory_is_refused(tmp_path, monkeypatch):
    def none_left(*args, **options):
        raise MemoryError

    monkeypatch.setattr(container, "available_memory", lambda: 2**20)
    claim(tmp_path / "m", 2**21)
    with pytest.raises(ModelFileError, match=r"GiB are free; load it on a computer with more"):
        onefold.load(tmp_path / "m")
    monkeypatch.setattr(container, "available_memory", lambda: None)
    monkeypatch.setattr(container.np, "empty", none_left)
    with pytest.raises(ModelFileError, match="needs more memory than is available"):
        onefold.load(tmp_path / "m")
