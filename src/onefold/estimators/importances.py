"""How much the held-out error rises where a feature is permuted: its importance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.approximations import Exact, Workload
from onefold.estimators.final import Final
from onefold.heldout import sample_rows
from onefold.linalg import HostArray, host_array, rows_like, take_rows
from onefold.search.loop import SearchResult

_PERMUTED_ROWS = 1000
_FEWEST_PERMUTED = 30  # whose features are permuted
_PERMUTED_WORK = 1e10  # multiply-adds of their predictions
_TEACHERS = 2000  # rows at most that the models of importances are fitted to
_EXPONENTIAL = 10  # multiply-adds take as long as the exponential of a kernel value


def heldout_importances(
    found: SearchResult, final: Final, groups: Sequence[Any] | None, seed: int
) -> HostArray | str:
    """The rise of the squared error where features are permuted, in shares of the sum of all rises.

    Of held-out rows, split after split until there are enough, by what was chosen, fitted to rows
    outside the split. `groups` of features, the indicators of one column say, are permuted together and
    share their rise. All are 0 where no feature matters. Returns the reason where there are none: it
    would take longer than a few fits, or the system cannot be solved on these rows.
    """
    scoring = found.scoring
    splits = found.scoring.held_out
    problem = found.scoring.problem
    d = problem.shape[1]
    weights = np.ones(1) if final.blend is None else final.blend.weights
    groups = [np.array([j]) for j in range(d)] if groups is None else groups
    work = len(groups) * (d + _EXPONENTIAL) * min(problem.n, _TEACHERS) * len(weights)
    wanted = min(_PERMUTED_ROWS, int(_PERMUTED_WORK / work))
    rises = np.zeros(d)
    if wanted < _FEWEST_PERMUTED or splits.leave_one_out:
        return f"permuting each of {len(groups)} columns would take longer than a few fits"
    generator = np.random.default_rng([seed, 3])
    for number, left_out in enumerate(splits.left_out):
        rows = sample_rows(np.unique(splits.tests[number]), wanted, generator, scoring.task.labels)
        outside = np.setdiff1d(np.arange(problem.n), left_out)
        own = problem.rows(sample_rows(outside, _TEACHERS, generator, scoring.task.labels)).centred()
        run = Exact().start(own, [], Workload())
        members = []
        for one in final.leaders:
            kernels = one.candidate.part_kernels  # learned without each part, where there are any
            model = run.model(kernels[number] if kernels else one.candidate.kernel)
            ridge = own.ridge(one.alpha)
            # An error here would lose the result of the search, which matters more than importances.
            if not model.usable(None, np.reshape(ridge, -1)).all():
                return "the chosen alpha cannot be used on the rows that importances are computed from"
            members.append(own.restore(model.expansion(ridge)))
        X = host_array(take_rows(problem.X, rows))
        Y = problem.targets[rows]
        v = scoring.training_weights[rows]
        order = generator.permutation(rows.size)

        def loss(X: Any, members: Any = members, v: Any = v, Y: Any = Y) -> float:
            there = rows_like(X, problem.X)
            values = sum(w * host_array(one.predict(there)) for w, one in zip(weights, members))
            return float(v @ np.sum((values - Y) ** 2, axis=1))

        whole = loss(X)
        for group in groups:
            permuted = X.copy()
            permuted[:, group] = X[order][:, group]
            rises[group] += (loss(permuted) - whole) / len(group)
        wanted -= rows.size
        if wanted <= 0:
            break
    shares = np.maximum(rises, 0.0)
    return shares / (shares.sum() or 1.0)
