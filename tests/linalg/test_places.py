"""Arrays of any library: parts of them, copies to the host, and what follows from where they lie."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

from onefold import linalg

A = np.arange(24.0).reshape(2, 4, 3)
ROWS = np.array([3, 0, 2, 1])


@pytest.fixture(params=["numpy", "torch", "array_api_strict"])
def xp(request):
    return pytest.importorskip(request.param)


def same(found, expected):
    """Equal numbers, in float64 on the host."""
    assert_array_equal(linalg.host_array(found), expected)


def test_parts_are_those_of_numpy(xp):
    there, changed, placed = xp.asarray(A.copy()), A[0].T.copy(), np.zeros((6, 3))
    for rows in (ROWS, ROWS.reshape(2, 2), linalg.like_index(ROWS, there)):
        same(linalg.take_rows(there[0, ...], rows), A[0][linalg.to_numpy(rows)])
    for values in (xp.asarray(np.full((3, 2), -1.0)), None):
        changed[:, [3, 1]] = 0.0 if values is None else -1.0
        same(linalg.with_columns(there[0, ...].T, np.array([3, 1]), values), changed)
    placed[ROWS + 1] = A[0]
    same(linalg.scattered(there[0, ...], ROWS + 1, 6), placed)
    same(linalg.reordered(there, ROWS), A[:, ROWS])


def test_where_an_array_lies(xp):
    there, host = xp.asarray(A[0].copy()), xp is np
    assert bool(linalg.uses_lapack(there)) == host == (not linalg.queued(there))
    assert linalg.same_place(there, xp.asarray(A[1].copy()))
    assert linalg.same_place(there, A[1]) == host
    for rows in (A[1], there, scipy.sparse.csr_array(A[1])):
        moved = linalg.alike(rows, xp.asarray(A[0].astype(np.float32)))
        assert linalg.same_place(moved, there)
        assert "float32" in str(moved.dtype)


@pytest.mark.parametrize("given", [["a"], np.array([1j])])
def test_what_is_no_real_number_does_not_come_to_the_host(given):
    with pytest.raises(TypeError):
        linalg.host_array(given)
