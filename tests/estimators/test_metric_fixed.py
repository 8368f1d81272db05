"""A metric learned at given hyper-parameters: rounds of fit, gradients, fit again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    KernelRidge,
    SparseLSSVC,
    SparseLSSVR,
    load,
    trust,
)
from onefold.approximations import Auto, Nystroem
from onefold.kernels import RBF, Laplacian, Linear, Matern

RNG = np.random.default_rng(3)
X = RNG.standard_normal((120, 4))
y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.standard_normal(120)
labels = np.where(y > 0.4, "up", np.where(y < -0.4, "down", "flat"))
KINDS = [
    (RBF(0.3), "full"),
    (RBF(0.3), "diagonal"),
    (Matern(0.2, nu=0.5), "full"),
    (Matern(0.2, nu=2.5), "diagonal"),
    (Laplacian(0.4), "diagonal"),
]


def differences(function, rows, step=1e-5):
    """∇f (rows, d, targets) by central differences, term by term."""
    columns = []
    for j in range(rows.shape[1]):
        shift = np.zeros(rows.shape[1])
        shift[j] = step
        up, down = function(rows + shift), function(rows - shift)
        columns.append((up - down).reshape(len(rows), -1) / (2 * step))
    return np.stack(columns, axis=1)


def suggested(gradients, kind, weight=None):
    """S or its weights: the mean outer product of gradients, scaled as the theory has it."""
    weight = np.ones(len(gradients)) if weight is None else weight
    M = np.einsum("i,iat,ibt->ab", weight, gradients, gradients) / weight.sum()
    M = M / np.diagonal(M).max() + 1e-6 * np.eye(len(M))
    if kind == "diagonal":
        return np.sqrt(np.diagonal(M))
    values, vectors = np.linalg.eigh(M)
    return (vectors * np.sqrt(values)) @ vectors.T


def mean_exponent(kernel, rows, weight=None):
    """Weighted mean of −log k over all pairs of rows, for kernels that are an exponential."""
    weight = np.ones(len(rows)) if weight is None else weight
    return -np.average(np.log(kernel(rows, rows)), weights=np.outer(weight, weight))


def in_metric(kernel, values, wanted, rows, weight=None):
    """The kernel in a metric at the width that brings the mean exponent to `wanted`."""
    moved = type(kernel)(
        kernel.gamma, metric=values, **({"nu": kernel.nu} if "nu" in vars(kernel) else {})
    )
    order = 2 if isinstance(kernel, Matern) else 1
    return moved.scaled((wanted / mean_exponent(moved, rows, weight)) ** order)


@pytest.mark.parametrize(
    ("kernel", "kind"), [k for k in KINDS if getattr(k[0], "nu", 0.5) == 0.5], ids=repr
)
def test_a_literal_loop_gives_the_same_model(kernel, kind):
    wanted, own = mean_exponent(kernel, X), kernel
    for _ in range(2):
        fitted = LSSVR(own, alpha=0.2).fit(X, y)
        if isinstance(kernel, RBF):  # the others have no derivative at the centres themselves
            gradients = differences(fitted.predict, X)
        else:
            gradients = fitted.expansion_.gradient(X)
        own = in_metric(kernel, suggested(gradients, kind), wanted, X)
    literal = LSSVR(own, alpha=0.2).fit(X, y)
    learned = LSSVR(kernel, alpha=0.2, metric=kind, max_rounds=2).fit(X, y)
    at = RNG.standard_normal((20, 4))
    np.testing.assert_allclose(learned.predict(at), literal.predict(at), rtol=0, atol=1e-6)
    np.testing.assert_allclose(learned.metric_, np.asarray(own.metric), rtol=0, atol=1e-6)
    assert learned.expansion_.kernel.gamma == pytest.approx(own.gamma, rel=1e-6)


def test_weights_targets_and_a_ridge_for_each():
    weight = RNG.uniform(0.2, 2.0, len(X))
    Y, alpha = np.stack([y, X[:, 2] ** 2], axis=1), np.array([0.1, 0.7])
    kernel = RBF(0.3)
    first = KernelRidge(kernel, alpha=alpha).fit(X, Y, sample_weight=weight)
    values = suggested(first.expansion_.gradient(X), "full", weight)
    own = in_metric(kernel, values, mean_exponent(kernel, X, weight), X, weight)
    literal = KernelRidge(own, alpha=alpha).fit(X, Y, sample_weight=weight)
    learned = KernelRidge(kernel, alpha=alpha, metric="full", max_rounds=1)
    learned.fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(learned.predict(X), literal.predict(X), rtol=0, atol=1e-8)


@pytest.mark.parametrize("approximation", ["exact", Nystroem(60), "cg", Auto()], ids=str)
@pytest.mark.parametrize(("kernel", "kind"), KINDS, ids=repr)
def test_every_way_of_fitting_learns_what_matters(approximation, kernel, kind):
    made = LSSVR(kernel, alpha=0.1, approximation=approximation, metric=kind).fit(X, y)
    assert made.metric_.shape == ((4,) if kind == "diagonal" else (4, 4))
    assert made.feature_importances_.sum() == pytest.approx(1.0)
    assert made.feature_importances_[:2].sum() > 0.8
    told = made.approximation_["rounds"]
    assert [one["round"] for one in told] == [0, 1, 2, 3]
    assert told[-1]["gamma"] == made.expansion_.kernel.gamma
    assert np.array_equal(made.expansion_.kernel.metric.values, made.metric_)
    assert np.mean((made.predict(X) - y) ** 2) < 0.3 * np.var(y)


def test_landmarks_follow_the_metric():
    settings = {"alpha": 0.1, "approximation": Nystroem(15)}
    learned = LSSVR(RBF(0.3), metric="diagonal", max_rounds=1, **settings).fit(X, y)
    given = LSSVR(learned.expansion_.kernel, **settings).fit(X, y)
    assert np.array_equal(learned.expansion_.centres, given.expansion_.centres)
    plain = LSSVR(RBF(0.3), **settings).fit(X, y)
    assert not np.array_equal(learned.expansion_.centres, plain.expansion_.centres)


def test_without_a_metric_nothing_is_learned():
    plain = LSSVR(gamma=0.3, alpha=0.1).fit(X, y)
    assert plain.metric_ is None
    assert plain.feature_importances_ is None
    assert "rounds" not in plain.approximation_
    own = LSSVR(gamma=[0.4, 0.3, 0.2, 0.1]).fit(X, y)
    assert own.metric_ is not None
    assert own.feature_importances_ is None


def test_labels_of_several_classes_sum_their_gradients():
    made = LSSVC(RBF(0.3), alpha=0.1, metric="full", max_rounds=1).fit(X, labels)
    isotropic = LSSVC(RBF(0.3), alpha=0.1).fit(X, labels)
    expected = suggested(isotropic.expansion_.gradient(X), "full")
    np.testing.assert_allclose(made.metric_, expected, rtol=0, atol=1e-8)
    assert made.score(X, labels) > 0.9


def test_sparse_rows_learn_the_diagonal_of_dense_ones():
    rows = sparse.random(150, 8, density=0.4, format="csr", random_state=0)
    target = np.asarray(rows[:, 1].todense()).ravel() ** 2
    settings = {"gamma": 1.0, "alpha": 0.1, "metric": "diagonal"}
    thin, dense = LSSVR(**settings).fit(rows, target), LSSVR(**settings).fit(rows.toarray(), target)
    np.testing.assert_allclose(thin.metric_, dense.metric_, rtol=1e-6)
    assert np.argmax(thin.feature_importances_) == 1
    with pytest.raises(ValueError, match="a full metric mixes all features"):
        LSSVR(metric="full").fit(rows, target)


def test_torch_rows_learn_the_same():
    torch = pytest.importorskip("torch")
    settings = {"gamma": 0.3, "alpha": 0.1, "metric": "full"}
    there = LSSVR(**settings).fit(torch.asarray(X), torch.asarray(y))
    here = LSSVR(**settings).fit(X, y)
    assert isinstance(there.predict(torch.asarray(X)), torch.Tensor)
    np.testing.assert_allclose(there.metric_, here.metric_, rtol=0, atol=1e-8)


def test_a_metric_or_widths_of_its_own_are_where_it_starts():
    weights = np.array([2.0, 1.0, 0.1, 0.1])
    by_gamma = LSSVR(gamma=weights**2, metric="diagonal", max_rounds=1).fit(X, y)
    by_metric = LSSVR(RBF(1.0, metric=weights), metric="diagonal", max_rounds=1).fit(X, y)
    np.testing.assert_allclose(by_gamma.metric_, by_metric.metric_)
    first = LSSVR(RBF(1.0, metric=weights)).fit(X, y)
    expected = suggested(first.expansion_.gradient(X), "diagonal")
    np.testing.assert_allclose(by_metric.metric_, expected, rtol=0, atol=1e-8)
    before = mean_exponent(first.expansion_.kernel, X)
    assert mean_exponent(by_metric.expansion_.kernel, X) == pytest.approx(before)


def test_a_function_of_few_directions_is_found():
    """Σ_{j≤5} sin(w_j·x) and noise, in R^20."""
    rng = np.random.default_rng(0)
    directions = 1.5 * rng.standard_normal((5, 20)) / np.sqrt(20)
    rows = rng.standard_normal((1600, 20))
    target = np.sin(rows @ directions.T).sum(axis=1) + 0.1 * rng.standard_normal(1600)
    train, test = slice(0, 1000), slice(1000, None)

    def error(metric):
        made = LSSVR(gamma=0.02, alpha=0.03, metric=metric).fit(rows[train], target[train])
        return np.sqrt(np.mean((made.predict(rows[test]) - target[test]) ** 2)), made

    isotropic, _ = error(None)
    learned, made = error("full")
    assert learned < 0.7 * isotropic
    squares = np.linalg.eigvalsh(made.metric_ @ made.metric_)
    assert squares[-5:].sum() > 0.95 * squares.sum()


def test_the_seed_and_nothing_else_moves_it():
    many = RNG.standard_normal((1700, 3))  # more rows than gradients are taken at
    target = np.sin(many[:, 0])
    settings = {"gamma": 0.3, "approximation": Nystroem(50), "metric": "full", "max_rounds": 1}
    one, same = (LSSVR(random_state=5, **settings).fit(many, target).metric_ for _ in range(2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, LSSVR(random_state=6, **settings).fit(many, target).metric_)


@pytest.mark.parametrize("kind", [LSSVC, LSSVR, KernelRidge])
def test_choices_are_left_to_the_estimator_that_chooses(kind):
    target = labels if kind is LSSVC else y
    for settings in ({"metric": "auto"}, {"kernel": "auto"}, {"kernel": ["rbf", "matern"]}):
        with pytest.raises(ValueError, match=f"use {kind.__name__}CV"):
            kind(**settings).fit(X, target)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"metric": "round"}, "got 'round'"),
        ({"metric": np.eye(4)}, "got array"),
        ({"metric": "full", "max_rounds": 0}, "max_rounds must be a whole number"),
        ({"metric": "full", "max_rounds": True}, "max_rounds must be a whole number"),
        ({"metric": "full", "kernel": "laplacian"}, 'no full metric; use metric="diagonal"'),
        ({"metric": "full", "kernel": Linear()}, "has a metric to learn"),
        ({"metric": "full", "kernel": RBF() + RBF()}, "has a metric to learn"),
        ({"metric": "full", "approximation": "toeplitz"}, "no metric is learned with a toeplitz matrix"),
    ],
)
def test_what_cannot_be_learned_is_refused_in_a_sentence(settings, words):
    with pytest.raises(ValueError, match=words):
        LSSVR(**settings).fit(X, y)


def test_a_learned_metric_is_saved_and_cloned(tmp_path):
    made = LSSVC(gamma=0.3, alpha=0.1, metric="full", max_rounds=2).fit(X, labels)
    made.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert (loaded.metric, loaded.max_rounds) == ("full", 2)
    assert np.array_equal(loaded.metric_, made.metric_)
    assert np.array_equal(loaded.feature_importances_, made.feature_importances_)
    assert loaded.approximation_["rounds"] == made.approximation_["rounds"]
    assert np.array_equal(loaded.decision_function(X), made.decision_function(X))
    assert clone(made).get_params() == made.get_params()


def test_the_trust_check_takes_the_kernel_as_it_is_given():
    made = LSSVR(gamma=0.3, alpha=0.1, approximation=Nystroem(40), metric="full")
    assert made.as_chooser(X).metric is None
    assert trust(made, X, y, size=80, random_state=0).verdict in (
        "applies",
        "doubtful",
        "does not apply",
    )


def test_sparse_machines_take_a_metric_that_was_learned():
    """They prune centres of one kernel; a metric of their own would change it at every size."""
    learned = LSSVR(gamma=0.3, alpha=0.1, metric="diagonal").fit(X, y)
    kernel = RBF(learned.expansion_.kernel.gamma, metric=learned.metric_)
    assert kernel == learned.expansion_.kernel
    settings = {"gammas": [1.0], "alphas": [1e-3], "n_centres": 15}
    in_it, without = (
        SparseLSSVR(kernel=k, **settings).fit(X, y).score(X, y) for k in (kernel, RBF(0.3))
    )
    assert in_it > without
    chosen = LSSVCCV("rbf", metric="diagonal").fit(X, labels)
    few = SparseLSSVC(kernel=RBF(metric=chosen.metric_), n_centres=15).fit(X, labels)
    assert few.n_centres_ == 15
    assert np.array_equal(few.expansion_.kernel.metric.values, chosen.metric_)
