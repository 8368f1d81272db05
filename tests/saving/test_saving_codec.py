"""Values to nodes and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from onefold.kernels import RBF, CallableKernel
from onefold.saving.codec import Decoder, Encoder
from onefold.saving.container import BadContent, CannotSave
from onefold.search import Halving


def round_trip(value):
    encoder = Encoder()
    text = json.dumps(encoder.encode(value, "value"), allow_nan=False)
    decoder = Decoder(encoder.arrays)
    result = decoder.decode(json.loads(text))
    decoder.finish()
    return result


def assert_same(found, value):
    """Equal values of equal types, nan equal to nan, down to the sign of zero."""
    assert type(found) is type(value)
    if isinstance(value, np.ma.MaskedArray):
        assert (found.mask is np.ma.nomask) == (value.mask is np.ma.nomask)
        assert repr(found.fill_value) == repr(value.fill_value)
        assert_same(np.ma.getmaskarray(found), np.ma.getmaskarray(value))
        found = found.filled()
        value = value.filled()
    if isinstance(value, np.ndarray):
        assert (found.shape, found.dtype) == (value.shape, value.dtype.newbyteorder("="))
        found = found.tolist()
        value = value.tolist()
    assert repr(found) == repr(value)


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([np.float64(0.1), np.float32("-inf"), np.int8(-3), np.bool_(True)])
    | st.sampled_from([np.str_("x"), np.uint64(2**64 - 1), np.float16(1.5)]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(alphabet="$ab", max_size=3), inner, max_size=3)
        | st.dictionaries(st.integers() | st.text(max_size=2), inner, max_size=3)
        | st.builds(Halving, st.integers(2, 5))
    ),
    max_leaves=12,
)


@given(plain_values)
def test_plain_values_round_trip(value):
    assert_same(round_trip(value), value)


@given(
    hnp.arrays(
        st.one_of(
            hnp.boolean_dtypes(),
            hnp.integer_dtypes(endianness="?"),
            hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
            hnp.unicode_string_dtypes(endianness="?", min_len=1, max_len=4),
        ),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_arrays_round_trip(array):
    assert_same(round_trip(array), array)


@given(st.lists(plain_values, max_size=6))
def test_object_arrays_keep_tuples_and_lists_whole(items):
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    assert_same(round_trip(array), array)
    assert_same(round_trip(array.reshape(1, -1, 1)), array.reshape(1, -1, 1))


CSR = sparse.csr_array(
    np.where(np.arange(20).reshape(5, 4) % 3, 0.0, np.linspace(-1.0, 2.0, 20).reshape(5, 4))
)


@pytest.mark.parametrize(
    "value",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(24.0).reshape(2, 3, 4).T,
        np.eye(4)[:, ::2],
        np.ma.MaskedArray([1.0, 2.0, 3.0], mask=[True, False, False], fill_value=-1.0),
        np.ma.MaskedArray([1.0, 2.0]),
        np.ma.MaskedArray(["rbf", "linear"], mask=[False, True]),
        np.ma.MaskedArray([(1.0, 2.0), "scale"], mask=[0, 1], dtype=object),
        CSR,
        sparse.csr_matrix(CSR),
        sparse.csr_array((0, 3)),
    ],
    ids=str,
)
def test_arrays_of_every_kind_round_trip(value):
    """Memory order too: products may differ in the last bit."""
    found = round_trip(value)
    if not sparse.issparse(value):
        assert_same(found, value)
        assert found.flags["F_CONTIGUOUS" if value.flags.f_contiguous else "C_CONTIGUOUS"]
        return
    assert (type(found), found.shape) == (type(value), value.shape)
    for part in ("data", "indices", "indptr"):
        assert_same(getattr(found, part), getattr(value, part))


def test_what_lies_under_a_mask_does_not_reach_the_file():
    trees = []
    for hidden in (5.0, -9.0):
        encoder = Encoder()
        tree = encoder.encode(np.ma.MaskedArray([1.0, hidden], mask=[False, True]), "value")
        trees.append((tree, {name: a.tobytes() for name, a in encoder.arrays.items()}))
    assert trees[0] == trees[1]


def cyclic():
    items = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda: 0, "a function is Python code"),
        ({"a": [object()]}, r"value\['a'\]\[0\]: a object cannot be stored"),
        (1j, "a complex cannot be stored"),
        (np.array([1j]), "dtype complex128"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "dtype datetime64"),
        (np.longdouble(1), "cannot be stored"),
        (sparse.coo_array(np.eye(2)), "coo_array cannot be stored.* CSR"),
        (cyclic(), "contains itself"),
        (RBF(1.0) + CallableKernel(print), r"value\.right: a CallableKernel is Python code"),
        (type("Narrow", (RBF,), {})(1.0), "a Narrow"),  # no subclass is saved as its parent,
        (type("RBF", (RBF,), {})(1.0), "a RBF"),  # whatever it is called
    ],
)
def test_values_without_a_place_are_named(value, message):
    with pytest.raises(CannotSave, match=message):
        Encoder().encode(value, "value")


def test_equal_large_arrays_are_written_once_and_come_back_shared():
    """Memory order and the sign of zero tell arrays apart; small ones are not looked at."""
    rows = np.random.default_rng(0).normal(size=(40, 30))
    turned = np.asfortranarray(rows)
    signed = np.where(rows > 2, -0.0, np.zeros((40, 30)))
    values = [rows, rows.copy(), turned, rows.copy(), turned, signed, np.zeros((40, 30))]
    values += [np.ones(3), np.ones(3), np.ascontiguousarray(rows.T)]
    encoder = Encoder()
    nodes = encoder.encode(values, "value")
    again = [i for i, node in enumerate(nodes) if "$again" in node]
    assert again == [1, 3, 4]
    decoder = Decoder(encoder.arrays)
    found = decoder.decode(nodes)
    decoder.finish()
    for before, after in zip(values, found):
        assert before.tobytes() == after.tobytes()
        assert before.flags.f_contiguous == after.flags.f_contiguous
    assert found[0] is found[1] is found[3]
    assert not np.shares_memory(found[7], found[8])


def test_sparse_matrices_out_of_order_are_put_in_order():
    """Computing with one would do it later, and change the last digits."""
    parts = (np.array([1.0, 2.0, 3.0]), np.array([2, 0, 0]), np.array([0, 3]))
    matrix = sparse.csr_array(parts, shape=(1, 3))
    result = round_trip(matrix)
    assert result.has_canonical_format
    assert result.toarray().tolist() == [[5.0, 0.0, 1.0]]
    assert matrix.nnz == 3


CODES = np.array([[97, 98]], dtype=np.uint32)
INDICES = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}


def csr_node(**changes):
    parts = {key: {"$array": key} for key in INDICES}
    return {"$csr": "array", "shape": [2, 2], **parts, **changes}


@pytest.mark.parametrize(
    ("node", "arrays"),
    [
        ({"$array": "a0"}, {}),
        ({"$array": ["a0"]}, {}),
        ({"$array": "a0", "order": "K"}, {"a0": CODES}),
        ([{"$array": "a0"}, {"$array": "a0"}], {"a0": CODES}),
        ({"$array": "a0", "$tuple": []}, {"a0": CODES}),
        ({"$eval": "1+1"}, {}),
        ({"$dropped": "x"}, {}),
        ({"$text": {"$array": "a0"}}, {"a0": CODES.astype(np.int32)}),
        ({"$text": {"$array": "a0"}}, {"a0": np.full((1, 2), 0x110000, dtype=np.uint32)}),
        ({"$text": {"$array": "a0"}}, {"a0": np.zeros((2, 0), dtype=np.uint32)}),
        ({"$text": {"$array": "a0"}}, {"a0": np.zeros((), dtype=np.uint32)}),
        ({"$objects": [1, 2], "shape": [3]}, {}),
        ({"$objects": [], "shape": [0, 10**30]}, {}),
        ({"$objects": [1], "shape": [-1]}, {}),
        ({"$objects": 3, "shape": [1]}, {}),
        ({"$masked": [1], "mask": None, "fill_value": 0}, {}),
        ({"$masked": {"$array": "a"}, "mask": {"$array": "b"}, "fill_value": 0},
         {"a": np.ones(2), "b": np.ones(3, dtype=bool)}),
        ({"$masked": {"$array": "a"}, "mask": {"$array": "b"}, "fill_value": 0},
         {"a": np.ones(2), "b": np.ones(2)}),
        (csr_node(**{"$csr": "csc"}), INDICES),
        (csr_node(shape=[2, 1]), INDICES),
        (csr_node(shape=[3, 2]), INDICES),
        (csr_node(shape=[2, 2.0]), INDICES),
        (csr_node(), {**INDICES, "indices": np.array([0, 7])}),
        (csr_node(), {**INDICES, "indices": np.array([0, -1])}),
        (csr_node(), {**INDICES, "indices": np.array([0.0, 1.0])}),
        (csr_node(), {**INDICES, "indptr": np.array([0, 99, 2])}),
        (csr_node(), {**INDICES, "indptr": np.array([0, 1, 9])}),
        (csr_node(), {**INDICES, "data": np.ones((2, 1))}),
        ({"$scalar": "complex128", "value": 1.0}, {}),
        ({"$scalar": "int8", "value": 300}, {}),
        ({"$scalar": "float64", "value": "1"}, {}),
        ({"$scalar": "float32", "value": 1e300}, {}),
        ({"$float": "1"}, {}),
        ({"$tuple": 1}, {}),
        ({"$dict": [[[], 1]]}, {}),
        ({"$object": "os.system", "fields": {"command": "true"}}, {}),
        ([{"$again": "a0"}], {"a0": CODES}),
        ({"$object": ["RBF"], "fields": {}}, {}),
        ({"$object": "RBF"}, {}),
        ({"$object": "RBF", "fields": {"colour": 1}}, {}),
        ({"$object": "RBF", "fields": {"gamma": -1.0}}, {}),
        ({"$object": "RBF", "fields": {"gamma": 1.0, "__class__": 1}}, {}),
        (csr_node(), {**INDICES, "data": np.ones(2), "indices": np.array([1, 1]),
                      "indptr": np.array([0, 2, 2])}),
    ],
)  # fmt: skip
def test_nodes_that_make_no_sense_are_refused(node, arrays):
    assert Decoder(INDICES).decode(csr_node()).toarray().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    decoder = Decoder(arrays)
    with pytest.raises(BadContent):
        decoder.decode(node)


def test_leftover_arrays_and_deep_nodes_are_refused():
    decoder = Decoder({"a0": CODES})
    deep = []
    decoder.decode([])
    with pytest.raises(BadContent, match="is not used"):
        decoder.finish()
    for _ in range(500):
        deep = [deep]
    with pytest.raises(BadContent, match="nested"):
        decoder.decode(deep)
