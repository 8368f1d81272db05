"""Interpolation on a grid against its dense twin W K Wᵀ, literal refits, and the exact method."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold, TimeSeriesSplit

from onefold import LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, plan
from onefold.approximations import Grid
from onefold.approximations.grid import low_rank_factor, solve_shifted
from onefold.expansions import GridExpansion
from onefold.expansions.grid import Lattice, make_lattice
from onefold.kernels import RBF, Kernel, Laplacian, Matern
from tests.smoothers.dense_twin import solve

FINE = Grid(points=12, tolerance=1e-12)


def plane(n: int, d: int = 2, dtype: Any = np.float64) -> tuple[Any, Any]:
    generator = np.random.default_rng(n + d)
    X = generator.uniform(-1, 2, size=(n, d))
    y = np.sin(2 * X[:, 0]) + X[:, -1] ** 2 + 3 + 0.1 * generator.normal(size=n)
    return X.astype(dtype), y


def dense_twin(X: Any, gamma: float, points: int) -> Any:
    """W K Wᵀ."""
    lattice = make_lattice(RBF(gamma), X.min(axis=0), X.max(axis=0), points)
    W = lattice.weights(X).toarray()
    centres = lattice.points()
    return W @ RBF(gamma)(centres, centres) @ W.T


def literal(K: Any, y: Any, test: Any, alpha: float, weight: Any, train: Any, intercept: bool) -> Any:
    """Rows `test` from a dense solve on the rows `train`: with weights, S K S with the border √v."""
    root = np.sqrt(np.ones(len(y)) if weight is None else weight)
    border = root if intercept else None
    dual, b = solve(root[:, None] * K * root, (root * y)[:, None], border, alpha, train)
    return (K[np.ix_(test, train)] * root[train] @ dual + b)[:, 0]


class TestLattice:
    @pytest.mark.parametrize("d", [1, 2, 3, 4])
    def test_quadratics_are_interpolated_exactly(self, d: int) -> None:
        X = np.random.default_rng(d).uniform(-1, 3, size=(50, d))
        lattice = make_lattice(RBF(1.0), X.min(axis=0), X.max(axis=0), 7)
        f = lambda Z: 1 + Z.sum(axis=1) + (Z**2).sum(axis=1)  # noqa: E731
        W = lattice.weights(X)
        assert lattice.inside(X).all()
        assert_allclose(W @ f(lattice.points()), f(X), atol=1e-11)
        assert_allclose(W.sum(axis=1), 1.0)
        assert np.all(np.diff(W.indptr) == 4**d)

    @pytest.mark.parametrize(
        "kernel", [RBF((0.5, 2.0)), Matern(0.7), Laplacian(1.0), RBF(0.3) * Laplacian(0.2)]
    )
    def test_products(self, kernel: Any) -> None:
        lattice = Lattice(np.array([-1.0, 2.0]), np.array([0.3, 0.2]), (7, 9))
        V = np.random.default_rng(0).normal(size=(3, 63))
        points = lattice.points()
        assert_allclose(lattice.kernel_products(kernel)(V), V @ kernel(points, points), atol=1e-12)
        axes = [0.3 * np.arange(7), 0.2 * np.arange(9)]
        if kernel.one_width:  # the values at the nodes, as a kernel without its own gets them
            assert_allclose(Kernel.on_grid(kernel, axes), kernel.on_grid(axes), rtol=1e-12, atol=1e-14)

    def test_a_constant_feature_has_the_kernels_own_extent_but_is_never_finer_than_rounding(
        self,
    ) -> None:
        for scale in (1e-12, 1e-3, 1.0, 1e3, 1e12):
            kernel = RBF(0.5 / scale**2)
            constant = 3.0 * scale
            lattice = make_lattice(kernel, np.array([-scale, constant]), np.array([scale, constant]))
            assert lattice.counts[1] == 9
            rows = np.array([[0.3 * scale, constant]])
            interpolated = lattice.weights(rows) @ kernel(lattice.points(), rows)
            assert_allclose(interpolated, 1.0, atol=2e-3)
        lattice = make_lattice(RBF(1e40), np.array([0.0, 1.0]), np.array([1.0, 1.0]))
        assert np.unique(lattice.points()[:, 1]).size == lattice.counts[1]
        assert lattice.inside(np.array([[0.5, 1.0]])).all()


class TestLowRank:
    def test_both_solvers_agree(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y = plane(90)
        grid = {"gammas": [0.5], "alphas": [0.1, 1.0], "approximation": FINE}
        direct = LSSVRCV(**grid).fit(X, y)
        assert direct.approximation_["selected_with"]["rank"] > 0
        monkeypatch.setattr(
            "onefold.approximations.grid.low_rank_factor", lambda *_args, **_settings: None
        )
        iterated = LSSVRCV(**grid).fit(X, y)
        assert iterated.approximation_["selected_with"]["iterations"] > 0
        assert_allclose(iterated.heldout_prediction_, direct.heldout_prediction_, atol=1e-5)
        assert_allclose(iterated.predict(X + 3), direct.predict(X + 3), atol=1e-4)


class TestShiftedSystems:
    @settings(max_examples=25, deadline=None)
    @given(st.integers(1, 12), st.integers(0, 50))
    def test_every_shift_is_solved(self, m: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        A, K = (F @ F.T for F in generator.normal(size=(2, m, m)))
        B = generator.normal(size=(2, m))
        alphas = np.array([3.0, 0.1, 30.0])
        found, *_ = solve_shifted(
            lambda V: V @ A, lambda V: V @ K, B, alphas, tolerance=1e-13, limit=500
        )
        for alpha, X in zip(alphas, found):
            literal_ = np.linalg.solve(A @ K + alpha * np.eye(m), B.T).T
            assert_allclose(X @ K, literal_ @ K, atol=1e-6 * np.abs(K).max())


SPLITTERS = [KFold(4), KFold(3, shuffle=True, random_state=1), TimeSeriesSplit(3)]


@pytest.mark.parametrize(("d", "cv"), [(1, SPLITTERS[0]), *((2, cv) for cv in SPLITTERS), (3, KFold(4))])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("estimator", [LSSVRCV, KernelRidgeCV])
@pytest.mark.filterwarnings("ignore:the grid is too coarse")  # seven points a side, for a dense twin
def test_heldout_predictions_are_literal_refits(estimator: Any, weighted: bool, d: int, cv: Any) -> None:
    X, y = plane(60, d)
    weight = np.random.default_rng(0).uniform(0.2, 3, 60) if weighted else None
    grid = {"gammas": [0.8], "alphas": [0.05, 2.0], "approximation": Grid(points=7, tolerance=1e-13)}
    found = estimator(**grid, cv=cv).fit(X, y, sample_weight=weight)
    K = dense_twin(X, 0.8, 7)
    intercept = estimator is LSSVRCV
    for train, test in cv.split(X):
        expected = literal(K, y, test, found.alpha_, weight, train, intercept)
        assert_allclose(found.heldout_prediction_[test], expected, atol=2e-5)
    expected = literal(K, y, np.arange(60), found.alpha_, weight, np.arange(60), intercept)
    assert_allclose(found.predict(X), expected, atol=2e-5)
    assert isinstance(found.expansion_, GridExpansion)


@pytest.mark.parametrize(("d", "dtype"), [(1, np.float64), (2, np.float32)])
def test_close_to_the_exact_method(d: int, dtype: Any) -> None:
    X, y = plane(200, d, dtype)
    grid = {"gammas": [0.1, 0.5, 2.0], "alphas": [0.01, 0.1, 1.0]}
    found = LSSVRCV(approximation="grid", **grid).fit(X, y)
    exact = LSSVRCV(**grid).fit(X.astype(np.float64), y)
    assert_allclose(
        found.cv_results_["mean_test_score"], exact.cv_results_["mean_test_score"], rtol=0.01
    )
    assert found.approximation_["fitted_with"]["kernel_error"] < 1e-3
    exact = LSSVR(gamma=found.gamma_, alpha=found.alpha_).fit(X.astype(np.float64), y)
    new = plane(50, d)[0]
    assert_allclose(found.predict(new), exact.predict(new), atol=0.01)


def test_rows_outside_the_grid_take_the_kernel_itself() -> None:
    X, y = plane(100)
    found = KernelRidge(gamma=0.5, alpha=0.1, approximation="grid").fit(X, y)
    exact = KernelRidge(gamma=0.5, alpha=0.1).fit(X, y)
    far = np.array([[2.6, 0.0], [0.0, -1.7], [50.0, 50.0]])
    assert_allclose(found.predict(far), exact.predict(far), atol=0.05)
    assert abs(found.predict(far)[2]) < 1e-10
    torch = pytest.importorskip("torch")
    tensors = KernelRidge(gamma=0.5, alpha=0.1, approximation="grid").fit(*map(torch.asarray, (X, y)))
    predicted = tensors.predict(torch.asarray(far))
    assert isinstance(predicted, torch.Tensor)
    assert_allclose(predicted.numpy(), found.predict(far), atol=1e-8)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda X, y: LSSVR(approximation="grid").fit(np.ones((30, 5)), y), "at most 4 fea.*nystroem"),
        (lambda X, y: LSSVR("linear", approximation="grid").fit(X, y), "kernel of x"),
        (lambda X, y: LSSVR(approximation="grid").fit(scipy.sparse.csr_matrix(X), y), "dense rows"),
        (lambda X, y: LSSVRCV(approximation="grid", cv="loo").fit(X, y), "such as cv=5 or 10"),
        (lambda X, y: LSSVRCV(approximation="grid", criterion="gcv").fit(X, y), "use"),
        (lambda X, y: LSSVR(approximation=Grid(points=(6, 6, 6))).fit(X, y), "3 numbers but X has 2"),
        (lambda X, y: Grid(points=3), "at least 5"),
        (lambda X, y: Grid(tolerance=2.0), "tolerance"),
    ],
)
def test_clear_refusals(act: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        act(*plane(30))


class Counted(Matern):
    """Counts the values that are asked of it."""

    values = 0

    def __call__(self, A: Any, B: Any) -> Any:
        Counted.values += len(A) * len(B)
        return super().__call__(A, B)


def test_a_factor_of_too_many_columns_is_not_looked_for() -> None:
    """A rough kernel on 32,768 points took 1000 columns in vain, twice: 15 seconds for 40 rows."""
    lattice = make_lattice(Matern(1.0, 0.5), np.full(3, -2.0), np.full(3, 2.0))
    assert lattice.counts == (32, 32, 32)
    Counted.values = 0
    assert low_rank_factor(Counted(1.0, 0.5), lattice, 1e-8) is None
    assert Counted.values < 1300 * 1300 + 4 * lattice.size


def test_a_factor_that_is_small_is_found() -> None:
    """The eigenvalues of some points decide whether to look for a factor; they must not refuse it."""
    lattice = make_lattice(Matern(0.01, 2.5), np.full(2, -1.0), np.full(2, 1.0), 24)
    points = lattice.offsets()
    kernel = Matern(0.01, 2.5)
    factor = low_rank_factor(kernel, lattice, 1e-6)
    assert factor is not None
    assert_allclose(factor.T @ factor, kernel(points, points), atol=1e-6)


def test_few_rows_with_weights_are_not_left_to_iterations() -> None:
    """A factor of over ten columns for each row was refused; iterations were wrong by a hundredth.

    Compared with the literal solution for the interpolated kernel, W K_g Wᵀ.
    """
    generator = np.random.default_rng(0)
    X = np.tanh(generator.normal(size=(32, 2)))
    new = generator.uniform(-0.5, 0.5, (20, 2))
    y = np.sin(3 * X[:, 0]) + generator.normal(size=32)
    weight = 10.0 ** generator.uniform(-2.5, 2.0, 32)
    kernel = Matern(0.5, 2.5)
    alpha = 1e-5
    model = KernelRidge(kernel, alpha=alpha, approximation=Grid(points=20))
    model.fit(X, y, sample_weight=weight)
    lattice = make_lattice(kernel, X.min(axis=0), X.max(axis=0), 20)
    points = lattice.offsets()
    K = kernel(points, points)
    W = lattice.weights(X).toarray()
    asked = lattice.weights(new).toarray()
    expected = asked @ K @ W.T @ np.linalg.solve(W @ K @ W.T + alpha * np.diag(1 / weight), y)
    assert_allclose(model.predict(new), expected, atol=1e-7)


def test_a_grid_is_planned_and_refused_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time and memory were unknown: two features may take a GiB for a model, unguarded."""
    X, y = plane(40, 3)
    found = plan(LSSVRCV("matern12", approximation="grid"), (40, 3))
    assert found.seconds > 0
    assert found.bytes > 8 * 1000 * 32768
    small = plan(LSSVRCV("matern12", approximation=Grid(8)), (40, 3))
    assert small.bytes < found.bytes / 4
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: found.bytes // 2)
    model = LSSVRCV("matern12", approximation="grid", gammas=[1.0], alphas=[0.1])
    with pytest.raises(MemoryError, match="Grid"):
        model.fit(X, y)
    model.set_params(approximation=Grid(8), gammas=[0.01]).fit(X, y)


@pytest.mark.parametrize(("d", "gamma"), [(1, 1.0), (2, 0.1), (3, 0.01)])
def test_a_grid_of_few_points_needs_little_memory(
    monkeypatch: pytest.MonkeyPatch, d: int, gamma: float
) -> None:
    """The largest possible grid was reckoned with: a fit of some MiB was refused below 2 GiB."""
    X, y = plane(200, d)
    monkeypatch.setattr("onefold.machine.memory.available_memory", lambda: 300 * 2**20)
    model = LSSVRCV(approximation="grid", gammas=[gamma], alphas=[0.1]).fit(X, y)
    points = np.prod(model.approximation_["selected_with"]["points"])
    assert points < 3000
    narrow = LSSVRCV("matern12", approximation="grid", gammas=[1e3], alphas=[0.1, 1.0, 10.0], cv=10)
    if d > 1:
        with pytest.raises(MemoryError, match="Grid"):
            narrow.fit(X, y)
