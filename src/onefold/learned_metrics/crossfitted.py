r"""Held-out predictions by literally training without the rows that are predicted.

Each part J has a kernel of its own, learned from the other rows only, so the parts share no matrix and
no closed form holds across them. What is left is the definition itself: for each part one model of the
other rows, and all ridges from its one factorisation or one each. O(k) times the work of a fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onefold.approximations import Model, Problem, Run, Workload
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel
from onefold.linalg import Array, namespace, take_rows
from onefold.machine.threads import check_stop


def model_of(run: Run, part: Problem, kernel: Kernel, n_alphas: int) -> Model:
    """The model of some of a run's rows, with landmarks of its own where it has any."""
    return replace(run, shared=None).on(part, Workload(alphas=n_alphas)).model(kernel)


class CrossFitted(Model):
    """Models that were each trained without one part, with a kernel learned without it.

    Parameters
    ----------
    run : Run
    parts : sequence of int arrays
        The rows left out together, in turn.
    kernels : sequence of Kernel
        One for each part.
    """

    def __init__(self, run: Run, parts: Sequence[Any], kernels: Sequence[Kernel]) -> None:
        self._run, self._parts, self._kernels = run, parts, kernels
        self.report: dict[str, Any] = {
            "name": run.approximation.name,
            "route": "refitted",
            "reason": "every fold has a metric of its own",
            **run.report,
        }

    def leave_one_out(self, alphas: Any) -> Array:
        raise ValueError("a metric of its own for every row is not learned; use folds.")

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        return [values for _, _, values in self.heldout_blocks(parts, alphas)]

    def heldout_blocks(self, parts: Sequence[Any], alphas: Any) -> Iterator[tuple[int, Any, Array]]:
        if parts is not self._parts:
            raise ValueError("the parts are not those that the metrics were learned without.")
        for number, (rows, kernel) in enumerate(zip(parts, self._kernels)):
            check_stop()
            yield number, slice(None), self._predicted(rows, kernel, np.asarray(alphas).reshape(-1))

    def _predicted(self, rows: Any, kernel: Kernel, alphas: Any) -> Array:
        """The rows (μ, |J|, targets) in the problem's units, NaN where a μ cannot be solved with."""
        problem = self._run.problem
        part = problem.without(rows)
        model = model_of(self._run, part, kernel, alphas.size)
        usable = model.usable(None, alphas)
        found = [part.restore(model.expansion(mu)) for mu in alphas[usable]]
        xp, targets = namespace(problem.Y), problem.Y.shape[1]
        values = xp.full_like(xp.asarray(problem.Y[:1, :] + 0.0), xp.nan)
        values = xp.broadcast_to(values[None, ...], (alphas.size, len(rows), targets)) + 0.0
        if found:  # all ridges share their centres, and so one product with the kernel
            together = replace(
                found[0],
                coef=xp.concat([f.coef for f in found], axis=1),
                intercept=xp.concat([f.intercept for f in found]),
            )
            predicted = together.predict(take_rows(problem.X, rows))
            predicted = xp.reshape(predicted, (len(rows), len(found), targets))
            for place, number in enumerate(np.flatnonzero(usable).tolist()):
                values[number, ...] = predicted[:, place, :]
        return values

    def fold_models(self, parts: Sequence[Any], alpha: Any) -> FoldModels:
        """One more fit without each part, at one μ."""
        fitted = []
        for rows, kernel in zip(parts, self._kernels):
            check_stop()
            part = self._run.problem.without(rows)
            model = model_of(self._run, part, kernel, np.unique(alpha).size)
            fitted.append(part.restore(model.expansion(alpha)))
        return FoldModels.each(fitted)

    def expansion(self, alpha: Any) -> Expansion:
        raise ValueError("a cross-fitted model only predicts held-out rows; the final one is the run's.")
