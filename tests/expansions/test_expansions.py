"""Blends and fold models: weighted sums of members in every library, where they run, what they say."""

import warnings

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from onefold import KernelRidge
from onefold.expansions import Blend, Expansion, FoldModels, mixed
from onefold.expansions import kernel as kernel_room
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial, Precomputed
from onefold.linalg import asarray_like, to_numpy

RNG = np.random.default_rng(3)
D = 3
M = 12
ROWS = RNG.standard_normal((20, D))
CENTRES = RNG.standard_normal((M, D))
KERNELS = (RBF(0.4, metric=RNG.standard_normal((D, D))), Matern(0.3, nu=0.5), Laplacian(0.2))
WEIGHTS = np.array([0.6, 0.3, 0.25])


def member(kernel, centres=CENTRES, targets=2):
    coef = np.random.default_rng(len(repr(kernel))).standard_normal((centres.shape[0], targets))
    return Expansion(kernel, centres, coef, np.arange(targets) + 1.0)


def blend(kernels=KERNELS, weights=WEIGHTS, centres=CENTRES):
    return Blend(tuple(member(k, centres) for k in kernels), weights)


def moved(expansion, xp):
    arrays = (expansion.centres, expansion.coef, expansion.intercept)
    return Expansion(expansion.kernel, *(xp.asarray(a) for a in arrays))


def terms(expansion, X):
    """The sum over members and centres, written out."""
    values = np.zeros((X.shape[0], 2))
    for w, part in zip(WEIGHTS, expansion.members):
        values += w * (part.kernel(X, part.centres) @ part.coef + part.intercept)
    return values


def test_a_blend_is_the_weighted_sum_and_leaves_its_members_alone() -> None:
    held = blend()
    rows = ROWS.copy()
    before = [(part.coef.copy(), part.predict(ROWS)) for part in held.members]
    assert_allclose(held.predict(rows), terms(held, ROWS), rtol=1e-12, atol=1e-12)
    assert held.predict(rows, n_jobs=2).tolist() == held.predict(rows).tolist()
    assert held.predict(rows[:0]).shape == (0, 2)
    gradient = sum(w * part.gradient(ROWS) for w, part in zip(WEIGHTS, held.members))
    assert_allclose(held.gradient(rows), gradient, rtol=1e-12, atol=1e-12)
    assert np.array_equal(rows, ROWS)
    for part, (coef, values) in zip(held.members, before):
        assert np.array_equal(part.coef, coef)
        assert np.array_equal(part.predict(ROWS), values)


@pytest.mark.parametrize("library", ["strict", "torch"])
def test_other_libraries(library) -> None:
    xp = array_api_strict if library == "strict" else pytest.importorskip("torch")
    host = blend()
    rows = xp.asarray(ROWS)
    there = Blend(tuple(moved(part, xp) for part in host.members), xp.asarray(WEIGHTS))
    for held in (host, there):
        for name in ("predict", "gradient"):
            for given in (rows, ROWS):
                got = getattr(held, name)(given)
                assert type(got) is type(given)
                assert_allclose(to_numpy(got), getattr(host, name)(ROWS), atol=1e-6)


def test_sparse_rows_and_a_grid_among_the_members() -> None:
    X = ROWS[:, :2]
    far = np.vstack([ROWS[:5, :2], 9 + ROWS[:5, :2]])
    grid, other = (
        KernelRidge(RBF(g), alpha=0.1, approximation="grid").fit(X, X[:, 0]).expansion_
        for g in (0.3, 1.0)
    )
    single = Expansion(RBF(0.2), X, RNG.standard_normal((20, 1)), np.zeros(1))
    both = Blend((grid, single), [0.5, 2.0])
    expected = 0.5 * grid.predict(far) + 2.0 * single.predict(far)
    for rows in (far, sp.csr_array(far)):
        assert_allclose(both.predict(rows), expected, rtol=1e-10)
        plain = Expansion(grid.kernel, grid.centres, grid.coef, grid.intercept).gradient(far)
        assert_allclose(grid.gradient(rows), plain, rtol=1e-12, atol=1e-12)
    folds = mixed([FoldModels.from_expansions([grid, other])], [[0.5], [2.0]], [1, 0])
    expected = np.stack([0.5 * other.predict(far), 2.0 * grid.predict(far)], axis=1)
    assert_allclose(folds.predict(far), expected, rtol=0, atol=1e-12)


def test_what_they_accept_and_whether_they_are_finite() -> None:
    assert blend((RBF(0.4), Linear()), WEIGHTS[:2]).accepts_sparse
    assert not blend((RBF(0.4), Laplacian(0.4)), WEIGHTS[:2]).accepts_sparse
    held = blend()
    broken = blend()
    broken.members[0].coef[3, 1] = np.inf
    assert (held.finite, broken.finite) == (True, False)
    assert not FoldModels.from_expansions(broken.members).finite


# -- fold models: columns of few expansions, and mixtures of them ------------------------------------
X = RNG.standard_normal((20, 3))


def columns(kernel, folds, targets, rows=X):
    coef = RNG.standard_normal((len(rows), folds * targets))
    return Expansion(kernel, rows, coef, RNG.standard_normal(folds * targets))


PAIR = member(RBF(1.0))
ONE = (columns(RBF(1.0), 2, 1),)
GIVEN = Expansion(Precomputed(), None, np.ones((3, 2)), np.zeros(2))
OTHER = (columns(RBF(1.0), 1, 1), columns(RBF(1.0), 1, 1, X[:, :2]))


@pytest.mark.parametrize(
    ("members", "weights", "match"),
    [
        ((), [], "at least one"),
        ((blend(),), [1.0], "must be expansions"),
        ((KERNELS[0],), [1.0], "must be expansions"),
        *(((PAIR,), [weight], "positive and finite") for weight in (0.0, np.nan, np.inf)),
        *(((PAIR,), weights, "1 members do not match") for weights in ([0.5, 0.5], [[1.0]])),
        ((PAIR, member(RBF(1.0), targets=1)), [0.5, 0.5], "targets"),
        ((PAIR, member(RBF(1.0), CENTRES[:, :2])), [0.5, 0.5], "same features"),
        ((GIVEN,), [1.0], "precomputed kernel"),
    ],
)
def test_what_is_no_blend_is_refused(members, weights, match) -> None:
    with pytest.raises(ValueError, match=match):
        Blend(members, weights)


@pytest.mark.parametrize(
    ("terms", "folds", "shape"),
    [
        ((), (), (2, 1)),
        (ONE, (np.arange(2),), (2,)),
        (ONE, (), (2, 1)),
        *((ONE, (np.array(folds),), (2, 1)) for folds in ([0, 2], [-1, 1], [1, 1], [0.0, 1.0], [0])),
        (ONE, (np.empty(0, dtype=int),), (2, 1)),
        (("term",), (np.arange(2),), (2, 1)),
        (OTHER, ([0], [1]), (2, 1)),
    ],
)
def test_fold_models_that_do_not_fit_are_refused(terms, folds, shape):
    with pytest.raises(ValueError, match="fold"):
        FoldModels(terms, folds, np.zeros(shape))


# -- rows in one place and the model in another ------------------------------------------------------
HOST = Expansion(RBF(0.4), X, RNG.standard_normal((20, 2)), np.array([1.0, -2.0]))
MANY = RNG.standard_normal((50, 3))


@pytest.fixture
def there():
    """The expansion as a device has it."""
    return moved(HOST, pytest.importorskip("torch"))


@pytest.mark.parametrize("block", [7, 50, 1000])
@pytest.mark.parametrize("rows", [MANY, MANY.astype(np.float32), sp.csr_array(MANY), MANY[:0]])
def test_blocks_of_host_rows_go_to_the_expansion(monkeypatch, there, block, rows) -> None:
    torch = pytest.importorskip("torch")
    expected = HOST.predict(rows), HOST.gradient(rows)
    monkeypatch.setattr(kernel_room, "_BLOCK", block)
    monkeypatch.setattr(kernel_room, "on_accelerator", torch.is_tensor)
    seen = []
    inner = Expansion._values
    monkeypatch.setattr(Expansion, "_values", lambda self, rows: seen.append(rows) or inner(self, rows))
    for got, values in zip((there.predict(rows), there.gradient(rows)), expected):
        assert type(got) is np.ndarray
        assert_allclose(got, values, atol=1e-6)
    twice = Blend((there, there), [0.5, 0.5])  # every member keeps its work there
    assert_allclose(twice.predict(rows), expected[0], atol=1e-6)
    assert all(torch.is_tensor(block) for block in seen)


@pytest.mark.parametrize("function", [RBF(0.4), RBF(0.4, metric=np.eye(3)), Polynomial(0.4), Linear()])
def test_sparse_centres_go_to_the_rows(function) -> None:
    torch = pytest.importorskip("torch")
    thin = Expansion(function, sp.csr_array(HOST.centres), HOST.coef, HOST.intercept)
    for got, expected in [(thin.predict, thin.predict(MANY)), (thin.gradient, thin.gradient(MANY))]:
        went = got(torch.asarray(MANY))
        assert isinstance(went, torch.Tensor)
        assert_allclose(went.numpy(), expected, atol=1e-10)


def test_arrays_that_must_not_be_written_to_go_without_a_warning() -> None:
    torch = pytest.importorskip("torch")
    values = np.ones(3)
    values.flags.writeable = False
    torch.set_warn_always(True)  # otherwise it warns once in a process
    try:
        with pytest.warns(UserWarning, match="not writable"):
            torch.asarray(values)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            asarray_like(values, torch.zeros(1)).add_(1)
    finally:
        torch.set_warn_always(False)
    assert (values == 1).all()


def test_kernel_values_go_too(monkeypatch, there) -> None:
    torch = pytest.importorskip("torch")
    values = RNG.standard_normal((6, 20))
    host, moved = (Expansion(Precomputed(), None, one.coef, one.intercept) for one in (HOST, there))
    expected = values @ HOST.coef + HOST.intercept
    assert_allclose(host.predict(torch.asarray(values)).numpy(), expected)
    monkeypatch.setattr(kernel_room, "on_accelerator", torch.is_tensor)
    assert_allclose(moved.predict(values), expected)
    half = to_numpy(torch.tensor([1.0, 2.5], dtype=torch.bfloat16))  # which NumPy lacks
    assert (half.dtype, half.tolist()) == (np.float32, [1.0, 2.5])
