"""Saving, loading and peeking with small stand-in classes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import numpy as np
import pytest
from safetensors.numpy import load_file
from saving_standins import Box, Line, allow, fitted_line, forge, metadata_of
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from onefold import saving


def test_an_estimator_comes_back_with_parameters_and_attributes(tmp_path):
    line = fitted_line(box=Box((1, "two")), class_weight={0: 1.0, 1: 2.5})
    saving.save(line, tmp_path / "line.model")
    loaded = saving.load(tmp_path / "line.model")
    assert type(loaded) is Line
    assert loaded.get_params() == line.get_params()
    assert vars(loaded).keys() == vars(line).keys()
    x = np.linspace(-3, 3, 50)
    assert loaded.predict(x).tobytes() == line.predict(x).tobytes()
    assert not hasattr(loaded, "dropped_params_")


def test_peek_describes_without_building(tmp_path, monkeypatch):
    saving.save(fitted_line(), tmp_path / "m")
    monkeypatch.setattr(Line, "__init__", lambda self: pytest.fail("built"))
    seen = saving.peek(tmp_path / "m")
    assert seen["format"] == "onefold-model"
    assert seen["format_version"] == 3
    assert seen["estimator"] == "Line"
    assert seen["model"]["params"]["cv"] == 5
    assert {"dtype": "float64", "shape": [5]} in seen["arrays"].values()


def test_any_safetensors_reader_sees_the_arrays(tmp_path):
    arrays = {
        "small": np.array([1, 2, 3], dtype=np.int8),
        "wide": np.arange(6.0).reshape(2, 3),
        "none": np.zeros((0, 3), dtype=np.float32),
        "scalar": np.asarray(True),
    }
    forge(tmp_path / "m", "{}", arrays)
    seen = load_file(tmp_path / "m")
    assert seen.keys() == arrays.keys()
    for name, array in arrays.items():
        assert seen[name].dtype == array.dtype
        assert np.array_equal(seen[name], array)


def test_equal_models_give_equal_bytes(tmp_path):
    def scorer(estimator, x, y):
        return 0.0

    saving.save(fitted_line(scorer=scorer), tmp_path / "a")
    shuffled = fitted_line(scorer=lambda e, x, y: 0.0)
    shuffled.scorer.__qualname__ = scorer.__qualname__
    attributes = {key: vars(shuffled).pop(key) for key in ("slope_", "offset_")}
    vars(shuffled).update(attributes)
    saving.save(shuffled, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_saving_what_was_loaded_gives_the_same_bytes(tmp_path):
    saving.save(fitted_line(), tmp_path / "a")
    saving.save(saving.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_parameters_of_the_fit_alone_are_dropped_and_noted(tmp_path):
    line = fitted_line(cv=KFold(3), scorer=print, box=Box([np.ones(3), np.random.default_rng(0)]))
    saving.save(line, tmp_path / "m")
    loaded = saving.load(tmp_path / "m")
    assert (loaded.cv, loaded.scorer, loaded.box) == (5, None, None)
    assert loaded.dropped_params_.keys() == {"cv", "scorer", "box"}
    assert loaded.dropped_params_["cv"] == repr(KFold(3))
    assert "0x" not in loaded.dropped_params_["box"]
    saving.save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    saving.save(loaded.set_params(cv=3), tmp_path / "again")
    assert saving.load(tmp_path / "again").cv == 3
    assert saving.load(tmp_path / "again").dropped_params_.keys() == {"scorer", "box"}


def test_a_kernel_function_is_never_dropped(tmp_path):
    with pytest.raises(TypeError, match=r"Line\.kernel: a function is Python code.*precomputed"):
        saving.save(fitted_line(kernel=lambda a, b: a @ b.T), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_an_attribute_without_a_place_is_named(tmp_path):
    line = fitted_line()
    line.helper_ = object()
    with pytest.raises(TypeError, match=r"Line\.helper_: a object has no place"):
        saving.save(line, tmp_path / "m")
    del line.helper_
    line.X_fit_ = np.ones(3)
    with pytest.raises(TypeError, match=r"Line\.X_fit_: fitted attributes.*lower-case"):
        saving.save(line, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_an_unfitted_estimator_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        saving.save(Line(), tmp_path / "m")


def test_a_class_that_is_not_registered_is_refused(tmp_path):
    class Other(Line):
        pass

    other = Other().fit(np.arange(3.0), np.arange(3.0))
    with pytest.raises(TypeError, match=r"a Other: .*skops or joblib"):
        saving.save(other, tmp_path / "m")


def test_a_dataclass_alone_can_be_saved(tmp_path):
    saving.save(Box([Box(2.5), None]), tmp_path / "m")
    assert saving.load(tmp_path / "m") == Box([Box(2.5), None])


# Where files go


@pytest.fixture
def old_file(tmp_path):
    path = tmp_path / "old.model"
    saving.save(Box("old"), path)
    return path


def test_a_folder_and_a_missing_folder_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give a file name"):
        saving.save(Box(), tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; create it first"):
        saving.save(Box(), tmp_path / "nowhere" / "m")


def test_a_device_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        saving.save(Box(), tmp_path / "pipe")
    with pytest.raises(saving.ModelFileError, match="folder or a device"):
        saving.load(tmp_path / "pipe")


def test_a_link_stays_a_link(tmp_path, old_file):
    (tmp_path / "link").symlink_to(old_file)
    saving.save(Box("new"), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert saving.load(old_file) == Box("new")


def test_the_usual_permissions_apply(tmp_path):
    saving.save(Box(), tmp_path / "m")
    (tmp_path / "plain").touch()
    assert (tmp_path / "m").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_alone(tmp_path, old_file, monkeypatch, step):
    def fail(*args):
        raise OSError(28, "No space left on device")

    before = old_file.read_bytes()
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        saving.save(Box("new"), old_file)
    assert old_file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [old_file]


def test_a_full_disk_leaves_the_old_file_alone(tmp_path, old_file):
    """A limit on the size of files stands in for the disk; it needs a process of its own."""
    pytest.importorskip("resource")
    before = old_file.read_bytes()
    script = f"""
        import resource, sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import numpy as np
        from saving_standins import Box
        from onefold import saving
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        try:
            saving.save(Box(np.zeros(100_000)), {str(old_file)!r})
        except OSError as error:
            sys.exit(3 if error.errno == 27 else 4)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == 3
    assert old_file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [old_file]


def test_metadata_beyond_the_limit_is_refused_before_writing(tmp_path, monkeypatch):
    monkeypatch.setattr("onefold.saving.container.MAX_HEADER", 4096)
    with pytest.raises(ValueError, match="room for 4096"):
        saving.save(Box("x" * 5000), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    saving.save(Box(np.zeros(5000)), tmp_path / "m")


# Versions


def test_a_newer_format_gives_both_versions_and_the_remedy(tmp_path):
    path = forge(tmp_path / "m", metadata_of({}, format_version=7, onefold_version="9.8"))
    for read in (saving.load, saving.peek):
        with pytest.raises(saving.ModelFileError) as caught:
            read(path)
        message = str(caught.value)
        assert str(path) in message
        assert "format version 7, written by onefold 9.8" in message
        assert "reads format version 3" in message
        assert "pip install --upgrade onefold" in message


def test_a_parameter_that_came_later_gets_its_default(tmp_path):
    saving.save(fitted_line(cv=7), tmp_path / "m")
    seen = saving.peek(tmp_path / "m")
    del seen["model"]["params"]["class_weight"]
    arrays = load_file(tmp_path / "m")
    del seen["arrays"]
    forge(tmp_path / "old", json.dumps(seen), arrays)
    loaded = saving.load(tmp_path / "old")
    assert (loaded.cv, loaded.class_weight) == (7, None)


def test_an_unknown_class_asks_for_an_upgrade(tmp_path):
    @dataclass
    class Later:
        x: int = 1

    allow(Later)
    saving.save(Later(), tmp_path / "m")
    from onefold.saving import registry

    del registry._MODULES["Later"]
    with pytest.raises(saving.ModelFileError, match=r"'Later', which .* not know; upgrade"):
        saving.load(tmp_path / "m")


def test_a_dataclass_with_slots(tmp_path):
    @dataclass(slots=True)
    class Slotted:
        x: int = 1

    allow(Slotted)
    saving.save(Slotted(3), tmp_path / "m")
    assert saving.load(tmp_path / "m") == Slotted(3)
