"""``random_state`` reaches everything that is random, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from onefold import LSSVC, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVR, load
from onefold.approximations import Auto, Circulant, ConjugateGradients, Nystroem
from onefold.estimators.validation import seed_of

RNG = np.random.default_rng(0)
X = RNG.standard_normal((150, 2))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.standard_normal(150)
FEW = Nystroem(8, method="uniform")


@pytest.mark.parametrize(
    "estimator",
    [
        LSSVR(gamma=0.5, approximation=FEW),
        KernelRidge(gamma=0.5, approximation=FEW),
        LSSVRCV(gammas=[0.5], alphas=[0.1], approximation=FEW),
        KernelRidgeCV(gammas=[0.5], alphas=[0.1], approximation=FEW),
        SparseLSSVR(gammas=[0.5], alphas=[0.1], max_centres=20, n_centres=10),
    ],
    ids=lambda e: type(e).__name__,
)
def test_seeds_choose_the_landmarks(estimator):
    def fitted(state):
        return clone(estimator).set_params(random_state=state).fit(X, Y).predict(X)

    np.testing.assert_array_equal(fitted(None), estimator.fit(X, Y).predict(X))
    np.testing.assert_array_equal(fitted(0), fitted(None))  # the approximation's own default
    for one, other in ((3, 3), (np.random.RandomState(3), np.random.RandomState(3))):
        np.testing.assert_array_equal(fitted(one), fitted(other))
    assert np.abs(fitted(3) - fitted(4)).max() > 1e-6
    first, second = (fitted(np.random.default_rng(seed)) for seed in (1, 2))
    assert np.abs(first - second).max() > 1e-6


def test_the_settings_of_the_approximation_stand_where_nothing_is_given():
    fixed = LSSVR(gamma=0.5, approximation=Nystroem(8, method="uniform", random_state=5)).fit(X, Y)
    seeded = LSSVR(gamma=0.5, approximation=FEW, random_state=5).fit(X, Y)
    np.testing.assert_array_equal(fixed.predict(X), seeded.predict(X))


@pytest.mark.parametrize(
    ("approximation", "setting"),
    [
        (Auto(), "random_state"),
        (Nystroem(3), "random_state"),
        (ConjugateGradients(), "random_state"),
        (Circulant(), "seed"),
    ],
)
def test_every_random_choice_has_a_seed(approximation, setting):
    assert getattr(approximation.seeded(9), setting) == 9
    assert approximation.seeded(getattr(approximation, setting)) == approximation


def test_the_check_looks_at_the_rows_that_the_seed_chooses():
    settings = {"gammas": [0.1, 1.0], "alphas": [0.1, 1.0], "approximation": FEW, "check": True}
    many = np.random.default_rng(1).standard_normal((400, 2))
    y = np.sin(many[:, 0]) + 0.3 * many[:, 1]
    one, same, other = (
        LSSVRCV(**settings, random_state=state).fit(many, y).approximation_["trust"]
        for state in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_states_are_ints_generators_or_nothing(tmp_path):
    assert seed_of(None) is None
    assert seed_of(np.int64(4)) == 4
    np.random.seed(0)  # noqa: NPY002 (scikit-learn takes the module for its generator)
    assert seed_of(np.random) == np.random.RandomState(0).randint(2**31)
    with pytest.raises(ValueError, match="cannot be used to seed"):
        LSSVC(random_state="now").fit(X, Y > 0)
    model = LSSVR(gamma=0.5, approximation=FEW, random_state=7).fit(X, Y)
    model.save(tmp_path / "seeded.onefold")
    assert load(tmp_path / "seeded.onefold").random_state == 7
    model.set_params(random_state=np.random.RandomState(0)).save(tmp_path / "state.onefold")
    loaded = load(tmp_path / "state.onefold")
    assert loaded.random_state is None
    assert "random_state" in loaded.dropped_params_
