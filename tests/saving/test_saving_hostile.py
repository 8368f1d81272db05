"""Files that are damaged, foreign or forged: one kind of error, and nothing runs."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as safetensors_bytes
from saving_standins import Box, Line, fitted_line, forge, forge_box, metadata_of

from onefold import saving
from onefold.saving import ModelFileError, container


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
    assert ("save the model again" in message) or ("upgrade" in message) or ("give the" in message)
    assert peak < 30e6


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickle was run",)


def header(text: bytes, data: bytes = b"") -> bytes:
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x05", id="one byte"),
        pytest.param(bytes(8), id="no header"),
        pytest.param(b"these are the voyages of the starship\n" * 20, id="text"),
        pytest.param(pickle.dumps(Bomb()), id="pickle"),
        pytest.param(b"\xff" * 64, id="header of 2**64 bytes"),
        pytest.param((2**40).to_bytes(8, "little") + b"{}", id="header of a terabyte"),
        pytest.param(header(b"not json"), id="header not JSON"),
        pytest.param(header(b"[" * 50_000), id="deep header"),
        pytest.param(header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000), id="deep header of dicts"),
        pytest.param(header(b'{"\xff":1}'), id="header not UTF-8"),
        pytest.param(header(b"[]"), id="header a list"),
        pytest.param(header(b"{}"), id="header without metadata"),
        pytest.param(header(b'{"__metadata__":{"onefold":{"a":1}}}'), id="metadata not text"),
        pytest.param(header(b'{"__metadata__":{"onefold":"{}"}}'), id="no checksum"),
        pytest.param(safetensors_bytes({"w": np.ones(3)}), id="foreign safetensors"),
        pytest.param(
            header(b'{"a0":{"dtype":"F64","shape":[1000000000],"data_offsets":[0,8]}}', bytes(8)),
            id="huge shape",
        ),
        pytest.param(
            header(
                b'{"a0":{"dtype":"F64","shape":[1000000000000],'
                b'"data_offsets":[0,8000000000000]}}',
                bytes(8),
            ),
            id="huge array",
        ),
        pytest.param(
            header(
                b'{"a0":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}'
            ),
            id="shape that overflows",
        ),
        pytest.param(
            header(b'{"a0":{"dtype":"F64","shape":[1],"data_offsets":[8,0]}}', bytes(8)),
            id="offsets backwards",
        ),
    ],
)  # fmt: skip
def test_what_is_not_a_model_file_is_refused(tmp_path, content):
    path = tmp_path / "m"
    path.write_bytes(content)
    assert_refused(path)
    with pytest.raises(ModelFileError):
        saving.peek(path)


def test_folders_are_refused_and_missing_files_are_missing(tmp_path):
    assert_refused(tmp_path, "it is a folder")
    with pytest.raises(FileNotFoundError):
        saving.load(tmp_path / "absent")


def test_a_header_beyond_the_limit_is_not_read(tmp_path, monkeypatch):
    saving.save(Box("x" * 5000), tmp_path / "m")
    monkeypatch.setattr("onefold.saving.container.MAX_HEADER", 4096)
    assert_refused(tmp_path / "m")


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "C64"])
def test_array_types_without_a_place_are_refused(tmp_path, dtype):
    size = {"BF16": 2, "F8_E4M3": 1, "C64": 8}[dtype]
    metadata = {"onefold": json.dumps(metadata_of({})), "sha256": ""}
    array = {"dtype": dtype, "shape": [1], "data_offsets": [0, size]}
    text = json.dumps({"__metadata__": metadata, "a0": array})
    (tmp_path / "m").write_bytes(header(text.encode(), bytes(size)))
    assert_refused(tmp_path / "m", r"array of type|not a safetensors file")


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "not json",
        "null",
        "[]",
        "{}",
        '{"format":"onefold-model"}',
        '{"format":"other","format_version":3}',
        '{"format":"onefold-model","format_version":true}',
        '{"format":"onefold-model","format_version":"1"}',
        '{"format":"onefold-model","format_version":-1}',
        '{"format":"onefold-model","format_version":3}',
        '{"format":"onefold-model","format":"onefold-model","format_version":3}',
        '{"format":"onefold-model","format_version":3,"model":NaN}',
        '{"format":"onefold-model","format_version":' + "9" * 5000 + "}",
        '{"format":"onefold-model","format_version":3,"model":' + "[" * 90_000,
        '{"format":"onefold-model","format_version":3,"model":'
        + "[" * 90_000 + "]" * 90_000 + '}',
        '{"format":"onefold-model","format_version":3,"model":' + '{"a":' * 300 + "1" + "}" * 301,
        metadata_of(None),
        metadata_of({"$float": "nan"}),
        metadata_of([{"$object": "Box", "fields": {}}]),
        metadata_of({"key": {"$object": "Box", "fields": {}}}),
        metadata_of({"$object": "Box", "fields": {}}, estimator=None),
        metadata_of({"$object": "Box", "fields": {}}, onefold_version=1.0),
    ],
)  # fmt: skip
def test_metadata_that_describes_no_model_is_refused(tmp_path, metadata):
    assert_refused(forge(tmp_path / "m", metadata))


@pytest.mark.parametrize(
    ("content", "arrays", "match"),
    [
        ({"$array": "a0"}, {}, "'a0' is missing or used twice"),
        ([{"$array": "a0"}] * 2, {"a0": np.ones(2)}, "'a0' is missing or used twice"),
        ([{"$again": "a0"}], {"a0": np.ones(2)}, "'a0' is not there to be used a second"),
        ([{"$array": "a0"}] + [{"$again": "a0"}] * 2, {"a0": np.ones(2)}, "'a0' is not there"),
        ([{"$array": "a0"}, {"$again": ["a0"]}], {"a0": np.ones(2)}, "entry is not valid"),
        (None, {"a0": np.ones(2)}, "nothing refers to its array 'a0'"),
        ({"$object": "os.system", "fields": {"command": "x"}}, {}, "'os.system', which this"),
        ({"$object": "Box", "fields": {"size": -1.0}}, {}, "size must be greater than 0"),
    ],
)
def test_content_that_does_not_hold_together_is_refused(tmp_path, content, arrays, match):
    assert_refused(forge_box(tmp_path / "m", content, arrays), match)


@pytest.mark.parametrize(
    "name",
    [
        "__class__",
        "predict",
        "__dict__",
        "_secret_",
        "fit",
        "score_",
        "x",
        "Upper_",
        "a-b_",
        "",
        "_",
    ],
)
def test_only_names_of_fitted_attributes_are_set(tmp_path, name):
    node = {"$object": "Line", "params": {}, "fitted": {"slope_": 1.0, name: 1.0}}
    assert_refused(forge(tmp_path / "m", metadata_of(node)), "not the name of a fitted attribute")


@pytest.mark.parametrize(
    "node",
    [
        {"params": {"colour": 1}, "fitted": {}},
        {"params": {"self": 1}, "fitted": {}},
        {"params": [], "fitted": {}},
        {"params": {}, "fitted": []},
        {"params": {}},
        {"fields": {}},
    ],
)
def test_estimators_that_make_no_sense_are_refused(tmp_path, node):
    assert_refused(forge(tmp_path / "m", metadata_of({"$object": "Line", **node})))


def test_damage_to_the_arrays_is_found(tmp_path):
    path = tmp_path / "m"
    saving.save(Box(np.arange(100.0)), path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    assert_refused(path, "does not match its checksum")


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "m"
    line = fitted_line(box=Box(np.array(["a", "bc"])), class_weight={0: 0.1, "x": (1, None)})
    line.results_ = {
        "param": np.ma.MaskedArray([1, "a", None], mask=[0, 0, 1], dtype=object),
        "score": np.array([[1.0, np.nan]]),
    }
    saving.save(line, path)
    return path


def load_or_refuse(path):
    """Load, accepting only success with an unharmed model, or the one kind of error."""
    try:
        model = saving.load(path)
    except ModelFileError:
        return
    assert type(model) is Line
    assert model.predict(np.arange(3.0)).tolist() == fitted_line().predict(np.arange(3.0)).tolist()


def test_every_truncation_is_refused(valid, tmp_path):
    data = valid.read_bytes()
    for size in [*range(20), *range(20, len(data), 17), len(data) - 1]:
        (tmp_path / "m").write_bytes(data[:size])
        with pytest.raises(ModelFileError):
            saving.load(tmp_path / "m")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_damage_gives_the_model_or_one_kind_of_error(valid, data):
    content = bytearray(valid.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        start = data.draw(st.integers(0, len(content)))
        del content[start : start + data.draw(st.integers(0, 50))]
    path = valid.with_name("damaged")
    path.write_bytes(content)
    load_or_refuse(path)
    with contextlib.suppress(ModelFileError):
        saving.peek(path)


def test_forged_metadata_gives_a_value_or_one_kind_of_error(valid, tmp_path):
    """With a good checksum, so that the damage reaches the decoder."""
    with container.opened(valid) as opened:
        text, arrays = opened.text(), opened.arrays()
    generator = random.Random(0)
    outcomes = set()
    for _ in range(400):
        changed = list(text)
        for _ in range(generator.randint(1, 3)):
            changed[generator.randrange(len(changed))] = generator.choice('{}[]",:$a01-e.')
        try:
            saving.load(forge(tmp_path / "m", "".join(changed), arrays))
            outcomes.add("loaded")
        except ModelFileError:
            outcomes.add("refused")
    assert outcomes == {"loaded", "refused"}
