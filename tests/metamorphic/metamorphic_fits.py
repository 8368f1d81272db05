"""Data for a case, a fit of it, the comparison of two fits that must agree, and what makes it a test."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from metamorphic_cases import CASES, Case
from numpy.testing import assert_allclose

EPS = np.finfo(float).eps
GAMMAS = [0.3, 1.0, 4.0]
ALPHAS = [0.02, 0.3, 2.0]
FOLDS = 3


@dataclass(frozen=True)
class Data:
    """Rows, targets, rows to predict, and landmarks: all that a fit sees besides its settings."""

    X: Any
    y: Any
    Z: Any
    anchor: Any
    weight: Any = None
    cv: Any = None
    groups: Any = None
    square: float = 1.0
    absolute: float = 1.0
    """By how much squared and absolute distances have grown since the data were drawn."""

    def rows(self, index: Any) -> Data:
        """Some of the rows, perhaps more than once, with the folds of these rows."""
        index = np.asarray(index)
        weight = None if self.weight is None else self.weight[index]
        cv = None
        if self.cv is not None:
            cv = [tuple(np.flatnonzero(np.isin(index, part)) for part in pair) for pair in self.cv]
        return replace(self, X=self.X[index], y=self.y[index], weight=weight, cv=cv)

    def features(self, change: Callable[[Any], Any], square: float = 1.0, absolute: float = 1.0) -> Data:
        """Every row changed alike; distances grow as told."""
        moved = {name: change(getattr(self, name)) for name in ("X", "Z", "anchor")}
        return replace(self, **moved, square=self.square * square, absolute=self.absolute * absolute)

    def weighted(self, seed: int) -> Data:
        """With weights between 0.2 and 3."""
        return replace(self, weight=np.random.default_rng(seed).uniform(0.2, 3.0, len(self.y)))


def folds_of(fold: Any) -> list[Any]:
    """(train, test) of every fold, whose number each row has."""
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(FOLDS)]


def stratified(y: Any) -> list[Any]:
    """Folds whose training parts keep every class."""
    fold = np.empty(len(y), dtype=int)
    fold[np.argsort(y, kind="stable")] = np.arange(len(y)) % FOLDS
    return folds_of(fold)


def draw(case: Case, number: int, n: int = 24) -> Data:
    """Rows of the kind that the case needs, on a lattice of 2⁻¹² so that moving them rounds nothing."""
    rng = np.random.default_rng([number, zlib.crc32(str(case).encode())])
    X = rng.normal(size=(n, 2))
    if case.way.series:
        X = np.linspace(0.0, 6.0, n + 1)[:n, None]
    X = np.round(X * 4096) / 4096
    extent = np.ptp(X, axis=0)
    Z = np.round((X.min(axis=0) + rng.uniform(0.05, 0.95, (7, X.shape[1])) * extent) * 4096) / 4096
    anchor = np.round(rng.uniform(-1.8, 1.8, size=(8, X.shape[1])) * 4096) / 4096
    signal = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, -1] + 0.3 * rng.normal(size=n)
    cv = folds_of(rng.permutation(np.arange(n) % FOLDS))
    if case.machine.classifies:
        y = (signal > np.median(signal)).astype(int)
        return Data(X, y, Z, anchor, cv=stratified(y))
    return Data(X, signal + 0.5, Z, anchor, cv=cv)


@dataclass(frozen=True)
class Outcome:
    """What a fit leaves: the model, its values at Z, its choice, its scores."""

    model: Any
    values: Any
    slack: float
    """Bound on the rounding of `values`, in units of the targets' size."""
    choice: Any = None
    scores: Any = None
    heldout: Any = None

    def read(self, change: Callable[[Any], Any]) -> Outcome:
        """Values and held-out predictions read in other units."""
        heldout = None if self.heldout is None else change(self.heldout)
        return replace(self, values=change(self.values), heldout=heldout)


def alphas_of(case: Case) -> list[float]:
    """The grid of a case before its units."""
    return [case.way.ridge * alpha for alpha in ALPHAS]


def estimator(case: Case, data: Data, *, ridge: float = 1.0, **extra: Any) -> Any:
    """The estimator of a case; `ridge` multiplies every alpha."""
    ridge = ridge * case.way.ridge * data.square**case.kernel.alpha_power
    parameters: dict[str, Any] = {"n_jobs": 1}
    if case.machine.prunes:
        parameters["drop"] = 0.3
    else:
        parameters["approximation"] = case.way.approximation(data.anchor)
    if case.machine.searches:
        parameters |= {"alphas": [a * ridge for a in ALPHAS], "cv": data.cv}
        parameters |= {"gammas": GAMMAS} if case.kernel.has_width else {}
    else:
        parameters |= {"alpha": 0.1 * ridge}
    parameters["kernel"] = case.kernel.build(data.square, data.absolute)
    return case.machine.kind(**(parameters | extra))


def inputs(case: Case, data: Data) -> tuple[Any, Any]:
    """What `fit` and `predict` are given: rows, or matrices of a fixed kernel."""
    if case.kernel.name != "precomputed":
        return data.X, data.Z
    return _matrix(data.X, data.X, data.square), _matrix(data.Z, data.X, data.square)


def _matrix(A: Any, B: Any, square: float) -> Any:
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(axis=-1) / square)


def fit(case: Case, data: Data, *, ridge: float = 1.0, **extra: Any) -> Outcome:
    """Fit a case to data that it must leave alone, silencing what is said of an approximation."""
    X, Z = inputs(case, data)
    for array in (X, Z, data.y, data.weight):
        if array is not None:
            array.setflags(write=False)
    groups = {} if data.groups is None else {"groups": data.groups}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = estimator(case, data, ridge=ridge, **extra).fit(X, data.y, data.weight, **groups)
        return outcome(case, data, model, Z, ridge)


def values_of(case: Case, model: Any, Z: Any) -> Any:
    """Decision values, or predictions."""
    return model.decision_function(Z) if case.machine.classifies else model.predict(Z)


def outcome(case: Case, data: Data, model: Any, Z: Any, ridge: float = 1.0) -> Outcome:
    """What to compare of a fitted model."""
    found: dict[str, Any] = {"values": values_of(case, model, Z), "slack": _slack(case, data, ridge)}
    if case.machine.prunes:
        found |= {"choice": (model.gamma_, model.n_centres_), "scores": model.path_["mean_test_score"]}
    elif case.machine.searches:
        found |= {"choice": model.best_index_, "scores": model.cv_results_["mean_test_score"]}
        found["heldout"] = model.heldout_prediction_
    return Outcome(model, **found)


def _slack(case: Case, data: Data, ridge: float) -> float:
    """Machine epsilon · n · condition of K + alpha, with K's trace for its norm."""
    kernel = case.kernel.build(data.square, data.absolute)
    diagonal = np.ones(len(data.X))
    if hasattr(kernel, "diagonal"):
        wide = kernel.scaled(max(GAMMAS)) if case.kernel.has_width else kernel
        diagonal = wide.diagonal(np.asarray(data.X, dtype=float))
    weight = 1.0 if data.weight is None else data.weight
    smallest = ALPHAS[0] * ridge * case.way.ridge * data.square**case.kernel.alpha_power
    condition = 1.0 + float(np.sum(diagonal * weight)) / smallest
    return case.way.same_digits * EPS * len(data.X) * condition


def agree(one: Outcome, two: Outcome, *, size: float, rounding: float = 0.0, rows: Any = None) -> None:
    """Values, held-out predictions and choice of two fits agree.

    `size` is that of the targets in the model's eyes (their spread, or their largest value where
    there is no intercept); `rounding` is added, for inputs that were rounded themselves; `rows`
    are those of the first whose held-out predictions the second made.
    """
    assert one.choice == two.choice
    bound = max(one.slack, two.slack) * size + rounding
    assert bound < 0.01 * size, "a bound this loose would see nothing"
    assert_allclose(two.values, one.values, rtol=0, atol=bound)
    if one.heldout is not None and two.heldout is not None:
        before = one.heldout if rows is None else one.heldout[rows]
        assert_allclose(two.heldout, before, rtol=0, atol=bound)


def spread(case: Case, y: Any) -> float:
    """The size of the targets: their range for a machine with an intercept."""
    if case.machine.classifies:
        return 1.0
    return float(np.ptp(y) if case.machine.intercept else np.max(np.abs(y)))


ALL = "ONEFOLD_METAMORPHIC" in os.environ
EXPLORES = bool(os.environ.get("ONEFOLD_EXPLORE"))
MORE = 20  # examples where new ones are looked for


def relation(
    keep: Callable[[Case], bool] = lambda case: True,
    *,
    share: int = 1,
    criterion: Sequence[Any] = (),
    **drawn: Sequence[Any],
) -> Any:
    """A test for every case of the table that a relation holds for, on drawn data.

    Estimators that differ in their targets alone take turns: of each approximation with each kernel
    a relation sees one that fits, one that searches and one that prunes, and the next relation sees
    others. A relation that asks little sees one in `share` of these. With ``ONEFOLD_METAMORPHIC=all``
    in the environment every relation sees everything. A relation of criteria sees all of its cases
    with each `criterion`.

    Values `drawn` from take turns, too: every case sees one of them. With `make explore` many are drawn
    anew, and with them the rows.
    """

    def decorate(body: Any) -> Any:
        turn = zlib.crc32(body.__name__.encode())
        groups = {}
        for case in filter(keep, CASES):
            groups.setdefault((case.machine.searches, case.way, case.kernel), []).append(case)
        chosen = []
        for number, group in enumerate(groups.values()):
            if ALL or criterion:
                chosen += group
            elif (turn + number) % share == 0:
                chosen.append(group[(turn + number // share) % len(group)])
        each = [(case, {"criterion": one}) for case, one in product(chosen, criterion)]
        each = each or [(case, {}) for case in chosen]
        names = ["-".join(map(str, (case, *more.values()))) for case, more in each]
        turns = [(*one, turn) for turn, one in enumerate(each)]

        @pytest.mark.hypothesis  # the name under which `make explore` finds what draws examples
        @pytest.mark.parametrize(("case", "more", "turn"), turns, ids=names)
        def test(case: Case, more: dict[str, Any], turn: int) -> None:
            rng = np.random.default_rng()
            examples = rng.integers(2**16, size=(MORE, 2)).tolist() if EXPLORES else [(0, turn)]
            for number, place in examples:
                given = {name: values[place % len(values)] for name, values in drawn.items()}
                try:
                    body(case, draw(case, number), **more, **given)
                except Exception as error:
                    error.add_note(f"with the rows of number {number} and {given}")
                    raise

        test.__doc__ = body.__doc__
        return test

    return decorate
