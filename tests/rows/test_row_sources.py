"""Every source of rows leaves the same statistics and predictions, whatever its blocks are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

import onefold.rows.device as device
from onefold.basis import Design, collect, predict_groups
from onefold.basis.folds import by_cholesky, squared_error
from onefold.basis.ridge import RidgePath
from onefold.kernels import RBF
from onefold.linalg import asarray_like, to_numpy
from onefold.rows import Groups, group_rows, rows_of, to_device

RNG = np.random.default_rng(3)
N = 401
X = RNG.standard_normal((N, 3))
Y = RNG.standard_normal((N, 2))
ROOT = np.sqrt(RNG.uniform(0.2, 3.0, N))
SCATTERED = Groups(RNG.integers(0, 4, N), [], 4)
SORTED = Groups(np.sort(SCATTERED.label), [], 4)


def torch(values):
    return None if values is None else pytest.importorskip("torch").asarray(values)


def mapped(path, values):
    np.save(path, values)
    return np.load(path, mmap_mode="r")


def sources(tmp_path, X, Y, root):
    yield rows_of(X, Y, root)
    yield rows_of(mapped(tmp_path / "X.npy", X), Y, root)
    yield rows_of(scipy.sparse.csr_array(X), Y, root)
    yield rows_of(torch(X), torch(Y), torch(root))
    yield rows_of(X, Y, root, device="cpu")  # streamed, as to a GPU


@pytest.fixture(params=[7, 65_536])
def small_blocks(request, monkeypatch):
    monkeypatch.setattr("onefold.rows.device._BLOCK_ROWS", request.param)
    monkeypatch.setattr("onefold.rows.base.TASK_ROWS", min(request.param, 8192))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("groups", [None, SCATTERED, SORTED], ids=["none", "scattered", "sorted"])
def test_statistics_group_by_group(tmp_path, groups, weighted):
    root = ROOT if weighted else None
    label = np.zeros(N, dtype=int) if groups is None else groups.label
    Phi = RBF(0.3)(X, X[:20])
    for source in sources(tmp_path, X, Y, root):
        found = collect(Design(RBF(0.3), source.sample(np.arange(20))), source, groups)
        for group, statistics in enumerate(found):
            own = label == group
            v = ROOT[own] ** 2 if weighted else np.ones(own.sum())
            host = statistics.on_host()
            assert_allclose(host.gram, Phi[own].T @ (v[:, None] * Phi[own]), atol=1e-11)
            assert_allclose(host.cross, Phi[own].T @ (v[:, None] * Y[own]), atol=1e-11)
            assert_allclose(host.target_square, v @ Y[own] ** 2)
            assert host.weight == pytest.approx(v.sum())
            assert host.count == own.sum()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("groups", [SCATTERED, SORTED], ids=["scattered", "sorted"])
def test_predictions_of_the_groups_asked_for_in_the_order_of_blocks(tmp_path, groups):
    coefficients = [RNG.standard_normal((20, 2)), None, RNG.standard_normal((20, 2)), None]
    for source in sources(tmp_path, X, Y, None):
        design = Design(RBF(0.3), source.sample(np.arange(20)))
        given = [None if c is None else asarray_like(c, source.reference) for c in coefficients]
        seen = np.zeros(N, dtype=bool)
        for group, rows, values in predict_groups(design, source, given, groups):
            assert np.all(groups.label[rows] == group)
            seen[rows] = True
            expected = RBF(0.3)(X[rows], X[:20]) @ coefficients[group]
            assert_allclose(to_numpy(values), expected, atol=1e-11)
        np.testing.assert_array_equal(seen, np.isin(groups.label, [0, 2]))


def test_a_part_is_the_source_of_its_rows_in_their_order(tmp_path):
    index = np.flatnonzero(SCATTERED.label == 1)
    for source in sources(tmp_path, X, Y, ROOT):
        part = source.part(index)
        assert part.n == index.size
        design = Design(RBF(0.3), source.sample(np.arange(20)))
        whole = collect(design, source, SCATTERED)[1].on_host()
        assert_allclose(collect(design, part)[0].on_host().gram, whole.gram, atol=1e-11)
        turned = np.array([3, 5, 4, 6])  # the ends look like a run
        blocks = [to_numpy(block.Y) for *_, block in source.part(turned).map(lambda block: block)]
        assert_allclose(np.vstack(blocks), Y[turned])


@pytest.mark.parametrize(
    ("sets", "count", "repeats"),
    [
        ([[0, 1], [2, 3, 4]], 2, False),
        ([[0, 1], [2, 3]], 3, False),  # row 4 is in neither
        ([[0, 1], [1, 2], [0, 1]], 4, False),
        ([[0, 1, 1], [2]], 3, True),
        ([], 1, False),
        ([[], [0, 4]], 3, False),  # no rows are a group too
    ],
)
def test_the_coarsest_groups_of_which_every_set_is_a_union(sets, count, repeats):
    sets = [np.array(rows, dtype=np.intp) for rows in sets]
    groups = group_rows(5, sets)
    assert (groups.repeats, len(groups.members)) == (repeats, len(sets))
    assert groups.count == count
    for rows, members in zip(sets, groups.members):
        assert np.array_equal(np.flatnonzero(np.isin(groups.label, members)), np.unique(rows))


def test_splits_have_the_same_groups_whatever_was_asked_before():
    left_out = [np.arange(0, 200), np.arange(100, 300)]
    tests = [np.arange(50), np.arange(100, 150)]
    source = rows_of(X, Y)
    coarse = source.grouped_by(left_out)
    fine = source.grouped_by(left_out, tests)
    assert source.grouped_by(left_out) is coarse
    assert source.grouped_by(left_out, left_out) is coarse
    assert source.grouped_by(left_out, tests) is fine
    assert fine.groups.count > coarse.groups.count == 4
    fresh = rows_of(X, Y).grouped_by(left_out)
    np.testing.assert_array_equal(fresh.groups.label, coarse.groups.label)
    for splits, tested in ((coarse, left_out), (fine, tests)):
        for sets, members in ((left_out, splits.left_out), (tested, splits.tests)):
            for rows, numbers in zip(sets, members):
                np.testing.assert_array_equal(
                    np.flatnonzero(np.isin(splits.groups.label, numbers)), rows
                )
                np.testing.assert_array_equal(splits.groups.members_of(rows), numbers)
    assert coarse.groups.members_of(tests[0]) is None


class OutOfMemoryError(RuntimeError):
    """What torch raises, by its name."""


@pytest.mark.parametrize("where", ["device", "streamed"])
def test_a_block_that_does_not_fit_is_divided_and_errors_end_a_stream(monkeypatch, where):
    pytest.importorskip("torch")
    monkeypatch.setattr(device, "_FEWEST", 16)
    source = rows_of(torch(X), torch(Y)) if where == "device" else rows_of(X, Y, device="cpu")

    def within(most, error=OutOfMemoryError):
        def work(block):
            if block.X.shape[0] > most:
                raise error
            return int(block.X.shape[0])

        return source.map(work, SCATTERED)

    found = list(within(60))
    assert sum(size for *_, size in found) == N
    rows = np.concatenate([np.arange(N)[rows] for _, rows, _ in found])
    np.testing.assert_array_equal(np.sort(rows), np.arange(N))
    for error in (OutOfMemoryError, ZeroDivisionError):
        with pytest.raises(error):
            list(within(0, error))
    stream = within(N)
    next(stream)
    stream.close()  # whoever leaves early


def test_to_device(monkeypatch):
    pytest.importorskip("torch")
    moved = to_device(X, "cpu")
    assert "torch" in type(moved).__module__
    assert to_device(X, None) is X
    assert to_device(moved, "cpu") is moved
    moved[0, 0] += 1.0
    assert X[0, 0] != float(moved[0, 0])  # a copy: the user's rows are theirs
    monkeypatch.setattr("onefold.rows._MOVED_AT_ONCE", 10)
    assert to_device(X, "cpu") is X  # too many: they are streamed
    with pytest.raises(ValueError, match="dense rows"):
        to_device(scipy.sparse.csr_array(X), "cpu")
    with pytest.raises(ValueError, match="cannot be used here"):
        to_device(X, "nonsense")


@pytest.mark.parametrize("library", [np.asarray, torch], ids=["numpy", "torch"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_cholesky_factors_of_all_folds_agree_with_eigenvalues(library, fit_intercept, monkeypatch):
    groups = group_rows(N, [np.flatnonzero(SCATTERED.label == g) for g in range(4)])
    design = Design(RBF(0.3), library(X[:20]))
    parts = collect(design, rows_of(library(X), library(Y), library(ROOT)), groups)
    alphas = np.geomspace(1e-6, 10, 5)

    def solved(alphas):
        return by_cholesky(parts, alphas, fit_intercept=fit_intercept)

    together = solved(alphas)
    monkeypatch.setattr("onefold.basis.folds._BATCH_BYTES", 1)
    for part, batched, one in zip(parts, together, solved(alphas)):
        theta, intercept = RidgePath(part, fit_intercept=fit_intercept).coefficients(alphas)
        for found in (batched, one):
            scale = float(np.abs(to_numpy(theta)).max())
            assert_allclose(to_numpy(found[0]), to_numpy(theta), atol=1e-8 * scale)
            assert_allclose(to_numpy(found[1]), to_numpy(intercept), atol=1e-7)
        error = to_numpy(squared_error(part, theta, intercept))
        assert np.all(error >= 0)
    # A ridge below the rounding of the sums is left to the eigenvalues, which cut what is noise.
    tiny = solved([1e-18])
    assert np.all(np.isfinite(to_numpy(tiny[0][0])))
