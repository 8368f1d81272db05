"""A blend is the weighted sum of its members, in every library, and tells of itself as one expansion."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from onefold import LSSVC, KernelRidge
from onefold.expansions import Blend, Expansion
from onefold.expansions import kernel as kernel_room
from onefold.kernels import RBF, Laplacian, Linear, Matern, Precomputed
from onefold.linalg import to_numpy

RNG = np.random.default_rng(3)
D, M = 3, 12
ROWS = RNG.standard_normal((20, D))
CENTRES = RNG.standard_normal((M, D))
KERNELS = (RBF(0.4, metric=RNG.standard_normal((D, D))), Matern(0.3, nu=0.5), Laplacian(0.2))
WEIGHTS = np.array([0.6, 0.3, 0.25])
INTERCEPT = np.array([0.5, -2.0])


def member(kernel, centres=CENTRES, targets=2):
    coef = np.random.default_rng(len(repr(kernel))).standard_normal((centres.shape[0], targets))
    return Expansion(kernel, centres, coef, np.arange(targets) + 1.0)


def blend(kernels=KERNELS, weights=WEIGHTS, intercept=INTERCEPT, centres=CENTRES):
    return Blend(tuple(member(k, centres) for k in kernels), weights, intercept)


def moved(expansion, xp):
    arrays = (expansion.centres, expansion.coef, expansion.intercept)
    return Expansion(expansion.kernel, *(xp.asarray(a) for a in arrays))


def terms(expansion, X):
    """The sum over members and centres, written out."""
    values = np.tile(INTERCEPT, (X.shape[0], 1))
    for w, part in zip(WEIGHTS, expansion.members):
        values += w * (part.kernel(X, part.centres) @ part.coef + part.intercept)
    return values


def test_values_are_the_weighted_sum() -> None:
    assert_allclose(blend().predict(ROWS), terms(blend(), ROWS), rtol=1e-12, atol=1e-12)
    assert blend().predict(ROWS, n_jobs=2).tolist() == blend().predict(ROWS).tolist()
    assert blend().predict(ROWS[:0]).shape == (0, 2)


def test_the_members_keep_their_values() -> None:
    """Weights are multiplied in place: into arrays of the blend's own."""
    held = blend()
    before = [(part.coef.copy(), part.predict(ROWS)) for part in held.members]
    rows = ROWS.copy()
    held.predict(rows), held.gradient(rows)
    assert np.array_equal(rows, ROWS)
    for part, (coef, values) in zip(held.members, before):
        assert np.array_equal(part.coef, coef)
        assert np.array_equal(part.predict(ROWS), values)


def test_gradient_is_the_limit_of_differences() -> None:
    got, h = blend().gradient(ROWS), 1e-5
    assert got.shape == (20, D, 2)
    for j in range(D):
        step = h * np.eye(D)[j]
        slope = (blend().predict(ROWS + step) - blend().predict(ROWS - step)) / (2 * h)
        assert_allclose(got[:, j], slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_one_member_of_weight_1_is_the_member(kernel) -> None:
    one = blend((kernel,), np.ones(1), np.zeros(2))
    assert one.predict(ROWS).tobytes() == member(kernel).predict(ROWS).tobytes()
    assert one.gradient(ROWS).tobytes() == member(kernel).gradient(ROWS).tobytes()


def test_single_precision_rows_and_centres() -> None:
    rows, centres = ROWS.astype(np.float32), CENTRES.astype(np.float32)
    got = blend(centres=centres).predict(rows)
    assert got.dtype == np.float64
    wide = blend(centres=centres.astype(float))
    assert_allclose(got, terms(wide, rows.astype(float)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("library", ["strict", "torch"])
def test_other_libraries(library) -> None:
    xp = array_api_strict if library == "strict" else pytest.importorskip("torch")
    host = blend()
    there = Blend(tuple(moved(part, xp) for part in host.members), xp.asarray(WEIGHTS), INTERCEPT)
    own = Blend(there.members, WEIGHTS, xp.asarray(INTERCEPT))
    rows = xp.asarray(ROWS)
    for held in (host, there, own):
        for got, expected in [
            (held.predict(rows), host.predict(ROWS)),
            (held.gradient(rows), host.gradient(ROWS)),
        ]:
            assert type(got) is type(rows)
            assert_allclose(to_numpy(got), expected, atol=1e-6)
        assert type(held.predict(ROWS)) is np.ndarray
        assert_allclose(held.predict(ROWS), host.predict(ROWS), atol=1e-6)


def test_on_host_members_go_on_sharing_their_centres() -> None:
    torch = pytest.importorskip("torch")
    centres, other = torch.asarray(CENTRES), torch.asarray(CENTRES + 1.0)
    parts = [member(k) for k in KERNELS]
    members = tuple(
        Expansion(p.kernel, z, torch.asarray(p.coef), torch.asarray(p.intercept))
        for p, z in zip(parts, (centres, other, centres))
    )
    host = Blend(members, torch.asarray(WEIGHTS), torch.asarray(INTERCEPT)).on_host()
    first, second, third = (part.centres for part in host.members)
    assert first is third
    assert np.array_equal(second, CENTRES + 1.0)
    arrays = [a for p in host.members for a in (p.centres, p.coef, p.intercept)]
    assert all(type(a) is np.ndarray for a in [*arrays, host.weights, host.intercept])
    assert_allclose(host.predict(ROWS), Blend(members, WEIGHTS, INTERCEPT).predict(ROWS), atol=1e-6)


def test_sparse_rows_and_a_grid_among_the_members() -> None:
    X = ROWS[:, :2]
    grid = KernelRidge(RBF(0.3), alpha=0.1, approximation="grid").fit(X, X[:, 0]).expansion_
    single = Expansion(RBF(0.2), X, RNG.standard_normal((20, 1)), np.zeros(1))
    both = Blend((grid, single), [0.5, 2.0], np.ones(1))
    expected = 0.5 * grid.predict(X) + 2.0 * single.predict(X) + 1.0
    assert_allclose(both.predict(X), expected, rtol=1e-12)
    assert_allclose(both.predict(sp.csr_array(X)), expected, rtol=1e-10)
    assert both.n_centres == grid.n_centres + 20


def test_what_it_tells_of_itself() -> None:
    held = blend()
    assert (held.n_targets, held.n_features, held.n_centres) == (2, D, 3 * M)
    assert held.parts == tuple(zip(WEIGHTS.tolist(), held.members))
    one = held.members[0]
    assert (one.n_targets, one.n_features, one.n_centres) == (2, D, M)
    assert one.parts == ((1.0, one),)
    given = Expansion(Precomputed(), None, np.ones((4, 1)), np.zeros(1))
    assert (given.n_targets, given.n_features, given.n_centres) == (1, None, 4)


def test_sparse_rows_where_every_member_takes_them() -> None:
    assert blend((RBF(0.4), Linear()), WEIGHTS[:2]).accepts_sparse
    assert not blend((RBF(0.4), Laplacian(0.4)), WEIGHTS[:2]).accepts_sparse


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_finite_is_every_member_and_the_intercept(bad) -> None:
    assert blend().finite
    assert not blend(intercept=np.array([0.0, bad])).finite
    broken = member(KERNELS[0])
    broken.coef[3, 1] = bad
    assert not broken.finite
    assert not Blend((member(KERNELS[1]), broken), [0.5, 0.5], INTERCEPT).finite


@pytest.mark.parametrize(
    ("members", "weights", "match"),
    [
        ((), [], "one at least"),
        ((blend(),), [1.0], "must be expansions"),
        ((KERNELS[0],), [1.0], "must be expansions"),
        ((member(RBF(1.0)),), [0.0], "positive and finite"),
        ((member(RBF(1.0)),), [-1.0], "positive and finite"),
        ((member(RBF(1.0)),), [np.nan], "positive and finite"),
        ((member(RBF(1.0)),), [np.inf], "positive and finite"),
        ((member(RBF(1.0)),), [0.5, 0.5], "1 members do not match"),
        ((member(RBF(1.0)),), [[1.0]], "1 members do not match"),
        ((member(RBF(1.0)), member(RBF(1.0), targets=1)), [0.5, 0.5], "targets"),
        ((member(RBF(1.0)), member(RBF(1.0), CENTRES[:, :2])), [0.5, 0.5], "same features"),
        (
            (Expansion(Precomputed(), None, np.ones((3, 2)), np.zeros(2)),),
            [1.0],
            "precomputed kernel",
        ),
    ],
)
def test_what_is_no_blend_is_refused(members, weights, match) -> None:
    with pytest.raises(ValueError, match=match):
        Blend(members, weights, INTERCEPT)


def test_an_estimator_predicts_with_a_blend() -> None:
    labels = np.array(["a", "b", "c"])[np.arange(20) % 3]
    model = LSSVC(RBF(0.3)).fit(ROWS, labels)
    other = LSSVC(Matern(0.3)).fit(ROWS, labels)
    parts = (model.expansion_, other.expansion_)
    values = 0.75 * model.decision_function(ROWS) + 0.25 * other.decision_function(ROWS)
    model.expansion_ = Blend(parts, [0.75, 0.25], np.zeros(3))
    assert_allclose(model.decision_function(ROWS), values, rtol=1e-12, atol=1e-12)
    assert model.predict(ROWS).tolist() == model.classes_[values.argmax(axis=1)].tolist()
    assert_allclose(model.decision_function(sp.csr_array(ROWS)), values, rtol=1e-8, atol=1e-8)


def test_an_accelerator_keeps_the_work_of_every_member(monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    there = Blend(tuple(moved(part, torch) for part in blend().members), WEIGHTS, INTERCEPT)
    monkeypatch.setattr(kernel_room, "on_accelerator", torch.is_tensor)
    seen, inner = [], Expansion._values
    monkeypatch.setattr(Expansion, "_values", lambda self, rows: seen.append(rows) or inner(self, rows))
    values = there.predict(ROWS)
    assert type(values) is np.ndarray
    assert [type(rows) for rows in seen] == [torch.Tensor] * 3
    assert_allclose(values, terms(blend(), ROWS), atol=1e-10)
