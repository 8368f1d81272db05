"""Blends and fold models: weighted sums of members in every library, where they run, what they say."""

import warnings

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from onefold import LSSVCCV, LSSVRCV, KernelRidge, SparseLSSVR
from onefold.expansions import Blend, Expansion, FoldModels, mixed
from onefold.expansions import kernel as kernel_room
from onefold.kernels import RBF, Laplacian, Linear, Matern, Polynomial, Precomputed
from onefold.linalg import like, to_numpy

RNG = np.random.default_rng(3)
D, M = 3, 12
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
    held, rows = blend(), ROWS.copy()
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
        one = Blend((part,), np.ones(1))
        assert one.predict(ROWS).tobytes() == values.tobytes()
        assert one.gradient(ROWS).tobytes() == part.gradient(ROWS).tobytes()
    single = blend(centres=CENTRES.astype(np.float32))
    got = single.predict(ROWS.astype(np.float32))
    assert got.dtype == np.float64
    assert_allclose(got, terms(held, ROWS), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("library", ["strict", "torch"])
def test_other_libraries(library) -> None:
    xp = array_api_strict if library == "strict" else pytest.importorskip("torch")
    host = blend()
    there = Blend(tuple(moved(part, xp) for part in host.members), xp.asarray(WEIGHTS))
    rows = xp.asarray(ROWS)
    for held in (host, there):
        for got, expected in [
            (held.predict(rows), host.predict(ROWS)),
            (held.gradient(rows), host.gradient(ROWS)),
        ]:
            assert type(got) is type(rows)
            assert_allclose(to_numpy(got), expected, atol=1e-6)
        assert type(held.predict(ROWS)) is np.ndarray
        assert_allclose(held.predict(ROWS), host.predict(ROWS), atol=1e-6)
    assert there.members[0]._moved_to(rows) is there.members[0]
    assert host.members[0]._moved_to(ROWS) is host.members[0]


def test_on_host_members_go_on_sharing_their_centres() -> None:
    torch = pytest.importorskip("torch")
    centres, other = torch.asarray(CENTRES), torch.asarray(CENTRES + 1.0)
    members = tuple(
        Expansion(p.kernel, z, torch.asarray(p.coef), torch.asarray(p.intercept))
        for p, z in zip((member(k) for k in KERNELS), (centres, other, centres))
    )
    for there in (
        Blend(members, torch.asarray(WEIGHTS)),
        FoldModels.each(members),
    ):
        host = there.on_host()
        first, second, third = host.members if isinstance(host, Blend) else host.terms
        assert first.centres is third.centres
        assert np.array_equal(second.centres, CENTRES + 1.0)
        arrays = [a for p in (first, second, third) for a in (p.centres, p.coef, p.intercept)]
        assert all(type(a) is np.ndarray for a in [*arrays, host.intercept])
        assert_allclose(host.predict(ROWS), there.predict(ROWS), atol=1e-6)


def test_sparse_rows_and_a_grid_among_the_members() -> None:
    X, far = ROWS[:, :2], np.vstack([ROWS[:5, :2], 9 + ROWS[:5, :2]])
    grid, other = (
        KernelRidge(RBF(g), alpha=0.1, approximation="grid").fit(X, X[:, 0]).expansion_
        for g in (0.3, 1.0)
    )
    single = Expansion(RBF(0.2), X, RNG.standard_normal((20, 1)), np.zeros(1))
    both = Blend((grid, single), [0.5, 2.0])
    assert both.n_centres == grid.n_centres + 20
    expected = 0.5 * grid.predict(far) + 2.0 * single.predict(far)
    assert_allclose(both.predict(far), expected, rtol=1e-12)
    assert_allclose(both.predict(sp.csr_array(far)), expected, rtol=1e-10)
    for got in (grid.predict, grid.gradient):
        assert_allclose(got(sp.csr_array(far)), got(far), rtol=1e-14)
    folds = mixed([FoldModels.each([grid, other])], [[0.5], [2.0]], [1, 0])
    expected = np.stack([0.5 * other.predict(far), 2.0 * grid.predict(far)], axis=1)
    assert_allclose(folds.predict(far), expected, rtol=0, atol=1e-12)


def test_what_it_tells_of_itself() -> None:
    held = blend()
    assert (held.n_targets, held.n_features, held.n_centres) == (2, D, 3 * M)
    assert held.parts == tuple(zip(WEIGHTS.tolist(), held.members))
    one = held.members[0]
    assert (one.n_targets, one.n_features, one.n_centres) == (2, D, M)
    assert one.parts == ((1.0, one),)
    given = Expansion(Precomputed(), None, np.ones((4, 1)), np.zeros(1))
    assert (given.n_targets, given.n_features, given.n_centres) == (1, None, 4)
    assert blend((RBF(0.4), Linear()), WEIGHTS[:2]).accepts_sparse
    assert not blend((RBF(0.4), Laplacian(0.4)), WEIGHTS[:2]).accepts_sparse
    assert held.finite
    for bad in (np.nan, np.inf):
        broken = member(KERNELS[0])
        broken.coef[3, 1] = bad
        assert not broken.finite
        assert not Blend((member(KERNELS[1]), broken), [0.5, 0.5]).finite
    one, other = (Expansion(k, X, np.ones((20, 1)), np.zeros(1)) for k in (RBF(0.5), Laplacian(2.0)))
    assert repr(one) == "Expansion(RBF(gamma=0.5), centres=20, features=3, targets=1)"
    both = Blend((one, other), [0.25, 0.75])
    parts = "0.25 × RBF(gamma=0.5) + 0.75 × Laplacian(gamma=2.0)"
    assert repr(both) == f"Blend({parts}, centres=40, features=3, targets=1)"
    folds = FoldModels.each([one, other])
    assert repr(folds) == "FoldModels(RBF(gamma=0.5), …, folds=2, terms=2, targets=1)"


# -- fold models: columns of few expansions, and mixtures of them ------------------------------------
X, NEW = RNG.standard_normal((20, 3)), RNG.standard_normal((6, 3))


def columns(kernel, folds, targets, rows=X):
    coef = RNG.standard_normal((len(rows), folds * targets))
    return Expansion(kernel, rows, coef, RNG.standard_normal(folds * targets))


def test_terms_add_up_fold_by_fold():
    one, other = columns(RBF(0.3), 3, 2), columns(Laplacian(0.2), 2, 2)
    intercept = RNG.standard_normal((3, 2))
    models = FoldModels((one, other), (np.arange(3), np.array([2, 0])), intercept)
    found = models.predict(NEW)
    first, second = one.predict(NEW).reshape(6, 3, 2), other.predict(NEW).reshape(6, 2, 2)
    np.testing.assert_allclose(found[:, 0], first[:, 0] + second[:, 1] + intercept[0])
    np.testing.assert_allclose(found[:, 1], first[:, 1] + intercept[1])
    np.testing.assert_allclose(found[:, 2], first[:, 2] + second[:, 0] + intercept[2])
    assert (models.count, models.n_targets, models.n_features) == (3, 2, 3)
    offset = np.array([1.0, -2.0])
    np.testing.assert_allclose(models.plus(offset).predict(NEW), found + offset)
    assert models.finite
    assert not models.plus(np.array([np.inf, 0.0])).finite


def test_mixtures_are_the_weighted_sums():
    members = [
        FoldModels.of(columns(RBF(0.3), 4, 2), 4),
        FoldModels.each([columns(Laplacian(0.2), 1, 2) for _ in range(4)]).plus(np.array([3.0, 1.0])),
    ]
    weights = RNG.uniform(size=(4, 2))
    weights[1] = 0.0
    weights[2, 0] = 0.0
    each = [member.predict(NEW) for member in members]
    for source in (np.arange(4), np.zeros(4, dtype=int), [3, 1, 1, 0]):
        found = mixed(members, weights, source).predict(NEW)
        expected = sum(weights[None, :, g, None] * values[:, source] for g, values in enumerate(each))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_given_kernel_gets_columns_for_all_rows():
    coef = RNG.standard_normal((3, 2))
    models = FoldModels.of(Expansion(Precomputed(), None, coef, np.zeros(2)), 2)
    wide = models.with_columns(5, np.array([0, 2, 4]))
    K = RNG.standard_normal((4, 5))
    np.testing.assert_allclose(wide.predict(K), models.predict(K[:, [0, 2, 4]]))


PAIR, ONE = member(RBF(1.0)), (columns(RBF(1.0), 2, 1),)
GIVEN = Expansion(Precomputed(), None, np.ones((3, 2)), np.zeros(2))
OTHER = (columns(RBF(1.0), 1, 1), columns(RBF(1.0), 1, 1, X[:, :2]))


@pytest.mark.parametrize(
    ("members", "weights", "match"),
    [
        ((), [], "one at least"),
        ((blend(),), [1.0], "must be expansions"),
        ((KERNELS[0],), [1.0], "must be expansions"),
        *(((PAIR,), [weight], "positive and finite") for weight in (0.0, -1.0, np.nan, np.inf)),
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
    seen, inner = [], Expansion._values
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
    torch, values = pytest.importorskip("torch"), np.ones(3)
    values.flags.writeable = False
    torch.set_warn_always(True)  # otherwise it warns once in a process
    try:
        with pytest.warns(UserWarning, match="not writable"):
            torch.asarray(values)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            like(values, torch.zeros(1)).add_(1)
    finally:
        torch.set_warn_always(False)
    assert (values == 1).all()


def test_kernel_values_go_too(monkeypatch, there) -> None:
    torch, values = pytest.importorskip("torch"), RNG.standard_normal((6, 20))
    host, moved = (Expansion(Precomputed(), None, one.coef, one.intercept) for one in (HOST, there))
    expected = values @ HOST.coef + HOST.intercept
    assert_allclose(host.predict(torch.asarray(values)).numpy(), expected)
    monkeypatch.setattr(kernel_room, "on_accelerator", torch.is_tensor)
    assert_allclose(moved.predict(values), expected)
    back = to_numpy(torch.tensor([1.0, 2.5], dtype=torch.bfloat16))  # which NumPy lacks
    assert back.dtype == np.float32
    assert back.tolist() == [1.0, 2.5]


# -- what a fitted model has of its own classes fits on a line or two --------------------------------


@pytest.mark.parametrize(
    "model",
    [
        LSSVRCV(["rbf", "laplacian"], metric="diagonal", max_rounds=1, blend=True),
        LSSVRCV(gammas=[1.0], approximation="grid", intervals="normalised"),
        *(LSSVCCV(gammas=[1.0], calibration=name) for name in ("isotonic", "sigmoid")),
        SparseLSSVR(gammas=[1.0]),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")
def test_every_public_attribute_of_a_fitted_model(model) -> None:
    rows = np.random.default_rng(0).uniform(size=(120, 2))
    y = np.sin(5 * rows[:, 0]) + rows[:, 1]
    model.fit(rows, y > 0.5 if isinstance(model, LSSVCCV) else y)
    own = [value for value in vars(model).values() if type(value).__module__.startswith("onefold.")]
    assert own
    for value in own:
        assert len(repr(value)) < 300, repr(value)
