"""Criteria that add up: any cut of the held-out rows into blocks gives the score of all rows at once."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold, TimeSeriesSplit

from onefold.approximations import Model, Problem
from onefold.criteria import SumCriterion, Task, resolve_criterion
from onefold.criteria.base import NOT_FINITE
from onefold.heldout import heldout_blocks, make_splits

N = 23
RIDGES = 3
DRAWN_TWICE = [(np.arange(12), np.array([20, 14, 20, 13])), (np.arange(5, N), np.array([1, 0, 1]))]
SPLITTERS = [KFold(4), TimeSeriesSplit(3), RepeatedKFold(n_splits=3, n_repeats=2), DRAWN_TWICE, "loo",
             LeaveOneOut()]  # fmt: skip
LIBRARIES = {
    "numpy": np.asarray,
    "strict": array_api_strict.asarray,
    "torch": lambda values: pytest.importorskip("torch").asarray(values),
}


class GivenPredictions(Model):
    """A model whose held-out predictions are given, cut into blocks as told."""

    def __init__(self, values: list[Any], cuts: Any, library: Any) -> None:
        self.values = values
        self.cuts = cuts
        self.library = library
        self.report = {}

    def leave_one_out(self, alphas: Any) -> Any:
        return self.library(self.values[0])

    def heldout(self, parts: Any, alphas: Any) -> Any:
        return [self.library(values) for values in self.values]

    def heldout_blocks(self, parts: Any, alphas: Any) -> Any:
        generator = np.random.default_rng(self.cuts)
        blocks = []
        for part, values in enumerate(self.values):
            size = values.shape[1]
            inner = np.sort(generator.integers(0, size + 1, generator.integers(0, 5)))
            order = generator.permutation(size)
            for start, stop in zip([0, *inner], [*inner, size]):
                place = slice(start, stop) if self.cuts % 2 else order[start:stop]
                if stop > start:
                    blocks.append((part, place, self.library(values[:, place])))
        yield from (blocks[i] for i in generator.permutation(len(blocks)))

    def expansion(self, alpha: Any) -> Any:
        raise NotImplementedError


def literal(name: str, values: Any, rows: Any, y: Any, classes: Any, weight: Any) -> Any:
    """The criterion's definition on the whole array of one split."""
    w = None if weight is None else weight[rows]
    found = []
    for f in values:
        if name in ("error", "accuracy"):
            label = (f[:, 0] > 0).astype(int) if f.shape[1] == 1 else f.argmax(axis=1)
            found.append((name == "accuracy") - np.average(classes[label] != y[rows], weights=w))
            continue
        true = y[rows].reshape(len(rows), -1)
        square = np.average((true - f) ** 2, axis=0, weights=w)
        if name == "mse":
            found.append(-square.mean())
        elif name == "cov":
            found.append(-np.mean(np.sqrt(square) / np.abs(np.average(true, axis=0, weights=w))))
        else:
            share = np.average(np.abs(true - f) / np.abs(true), axis=0, weights=w)
            found.append(-share.mean())
    return np.array(found)


def case(name: str, targets: int, splitter: Any, weighted: bool, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    classes = None
    weight = rng.uniform(0.1, 3.0, N) if weighted else None
    if name in ("error", "accuracy"):
        classes = np.array(["a", "b", "c"][: 2 if targets == 1 else 3])
        index = np.arange(N) % classes.size
        y = classes[index]
        offset = None
        Y = 2.0 * index[:, None] - 1.0 if targets == 1 else np.where(np.eye(3)[index], 1.0, -1.0)
        targets = Y.shape[1]
    else:
        y = rng.uniform(1.0, 3.0, (N, targets))
        offset = np.full(targets, 2.0)
        Y = y - offset
    task = Task(rng.standard_normal((N, 2)), y, classes, weight)
    splits = make_splits(splitter, task.X, None, n=N)
    values = [rng.standard_normal((RIDGES, len(rows), targets)) for rows in splits.predicted]
    for part in values:
        part[:, 0] = 0.0  # exactly between the classes
    return Problem(task.X, Y, None, True, offset), task, splits, values


def shown_to_scorers(values: list[Any], splits: Any, offset: Any) -> list[Any]:
    """The predictions of each split's test rows, in its order, in the user's units."""
    shift = 0.0 if offset is None else offset
    if splits.leave_one_out:
        return [values[0][:, rows] + shift for rows in splits.tests]
    pairs = zip(values, splits.left_out, splits.tests)
    return [part[:, np.searchsorted(rows, test)] + shift for part, rows, test in pairs]


NAMES = ["error", "accuracy", "mse", "cov", "mape"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("library", LIBRARIES)
@settings(max_examples=30)
@given(
    targets=st.integers(1, 3),
    splitter=st.sampled_from(SPLITTERS),
    weighted=st.booleans(),
    cuts=st.integers(0, 2**16),
    seed=st.integers(0, 2**16),
)
def test_any_cut_gives_the_score_of_all_rows(
    name: str, library: str, targets: int, splitter: Any, weighted: bool, cuts: int, seed: int
) -> None:
    problem, task, splits, values = case(name, targets, splitter, weighted, seed)
    criterion = resolve_criterion(name, classifier=task.classes is not None)
    there = Problem(task.X, LIBRARIES[library](problem.Y), None, True, problem.offset)
    scoring = criterion.start(there, task, splits)
    model = GivenPredictions(values, cuts, LIBRARIES[library])
    scored = scoring.scored(model, np.ones(RIDGES))
    shown = shown_to_scorers(values, splits, problem.offset)
    expected = [
        literal(name, part, rows, task.y, task.classes, task.sample_weight)
        for part, rows in zip(shown, splits.tests)
    ]
    assert scored.reason is None
    assert_allclose(scored.scores, np.array(expected).T, rtol=1e-12, atol=1e-13)
    total = np.zeros_like(problem.Y)
    count = np.zeros(N)
    for part, rows in zip(shown, splits.tests):
        np.add.at(total, rows, part[1])
        np.add.at(count, rows, 1)
    with np.errstate(invalid="ignore"):
        blocks = list(heldout_blocks(model, splits, np.ones(RIDGES)))
        assert_allclose(scoring.heldout(blocks, 1)[0], total / count[:, None], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("splitter", [TimeSeriesSplit(3), KFold(4), "loo", LeaveOneOut()], ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_only_tested_rows_need_finite_predictions(name: str, splitter: Any, bad: float) -> None:
    problem, task, splits, values = case(name, 1, splitter, False, 0)
    criterion = resolve_criterion(name, classifier=task.classes is not None)
    scoring = criterion.start(problem, task, splits)
    asked = np.ones(RIDGES)
    clean = scoring.scored(GivenPredictions(values, 1, np.asarray), asked).scores
    values[0][:, splits.times_tested[0] == 0] = bad
    assert_array_equal(scoring.scored(GivenPredictions(values, 1, np.asarray), asked).scores, clean)
    values[-1][2, np.flatnonzero(splits.times_tested[-1])[0]] = bad
    scored = scoring.scored(GivenPredictions(values, 1, np.asarray), asked)
    assert np.isnan(scored.scores[2]).all()
    assert scored.reason == NOT_FINITE
    assert_array_equal(scored.scores[:2], clean[:2])


def test_rows_in_pieces_are_rows_at_once(monkeypatch) -> None:
    problem, task, splits, values = case("mape", 2, KFold(2), True, 5)
    scoring = resolve_criterion("mape", classifier=False).start(problem, task, splits)
    whole = scoring.scored(GivenPredictions(values, 1, np.asarray), np.ones(RIDGES)).scores
    monkeypatch.setattr("onefold.criteria.heldout._PIECE", 3)
    pieces = scoring.scored(GivenPredictions(values, 1, np.asarray), np.ones(RIDGES)).scores
    assert_allclose(pieces, whole, rtol=1e-13)


def test_the_former_name_of_the_targets_is_called_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="Doubled.truth"):

        class Doubled(SumCriterion):
            def truth(self, problem: Problem, task: Task) -> Any:
                return 2.0 * problem.Y

            def terms(self, predictions: Any, targets: Any) -> Any:
                return abs(predictions - targets[None])

    problem, task, splits, values = case("mse", 1, KFold(4), False, 3)
    scored = (
        Doubled()
        .start(problem, task, splits)
        .scored(GivenPredictions(values, 1, np.asarray), np.ones(RIDGES))
    )
    expected = [
        -abs(part - 2.0 * problem.Y[rows]).mean(axis=(1, 2)) for part, rows in zip(values, splits.tests)
    ]
    assert_allclose(scored.scores, np.array(expected).T, rtol=1e-12)
