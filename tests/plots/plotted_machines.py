"""Small real fits of every kind of search."""

from __future__ import annotations

import warnings

import numpy as np

from onefold import LSSVCCV, LSSVRCV, SparseLSSVC, SparseLSSVR

RNG = np.random.default_rng(3)
X = RNG.normal(size=(150, 3))
Y = np.sign(X[:, 0]) * np.abs(X[:, 1]) + 0.2 * RNG.normal(size=150)
LABELS = np.where(X[:, 0] + 0.5 * RNG.normal(size=150) > 0, "yes", "no")
THREE = np.digitize(X[:, 0] + 0.4 * RNG.normal(size=150), [-0.5, 0.5])
SMALL = {"gammas": [0.03, 0.1, 0.3, 1.0], "alphas": [0.001, 0.01, 0.1, 1.0]}
MACHINES = {
    "plain": (LSSVRCV(), Y),
    "classes": (LSSVCCV(**SMALL), LABELS),
    "three": (LSSVCCV(**SMALL), THREE),
    "blend": (LSSVRCV(["rbf", "laplacian"], metric="auto", blend=True, max_rounds=2), Y + X[:, 2] ** 2),
    "families": (LSSVRCV(["rbf", "laplacian"]), Y),
    "halving": (LSSVRCV(search="halving"), np.tile(Y, 3)),
    "press": (LSSVRCV(criterion="press"), Y),
    "objective": (LSSVRCV(), Y),
    "one gamma": (LSSVRCV(gammas=[0.1]), Y),
    "one alpha": (LSSVRCV(alphas=[0.1]), Y),
    "one cell": (LSSVRCV(gammas=[0.1], alphas=[0.1]), Y),
    "linear": (LSSVRCV("linear"), Y),
    "leave one out": (LSSVRCV(cv="loo", **SMALL), Y),
    "1se": (LSSVRCV(select="1se"), Y),
    "targets": (LSSVRCV(**SMALL), np.column_stack([Y, X[:, 2], -Y])),
    "checked": (LSSVRCV(approximation="nystroem", check=True, **SMALL), Y),
    "sparse": (SparseLSSVR(gammas=[0.3], alphas=[0.01]), Y),
    "sparse classes": (SparseLSSVC(gammas=[0.3], alphas=[0.01]), LABELS),
}
_FITTED: dict[str, object] = {}


def fitted(name: str):
    """The machine of that name, fitted once."""
    if name not in _FITTED:
        machine, y = MACHINES[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of edges of small grids
            if name == "objective":
                _FITTED[name] = _points(machine)
            else:
                _FITTED[name] = machine.fit(np.resize(X, (len(y), 3)), y)
    return _FITTED[name]


def _points(machine: LSSVRCV) -> LSSVRCV:
    """A machine whose candidates are no grid."""
    objective = machine.objective(X, Y)
    for gamma, alpha in 10 ** np.random.default_rng(4).uniform(-3, 0, (12, 2)):
        objective(gamma=gamma, alpha=alpha)
    return objective.fit()
