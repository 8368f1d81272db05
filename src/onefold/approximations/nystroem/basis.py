r"""A basis model: f(x) = Σ_{j∈S} β_j k(x, z_j) + b, the penalty βᵀK_SSβ, all n residuals in the loss.

What the ways of training it share: the expansion and the report. Small
problems are trained from factors of their rows (`factored`), large ones from sums over them (`summed`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.approximations.base import Model
from onefold.approximations.nystroem.bound import decision_bound, kernel_error
from onefold.approximations.nystroem.coordinates import Coordinates
from onefold.approximations.problem import Problem, target_ridges
from onefold.expansions import Expansion, FoldModels
from onefold.linalg import Array, namespace, take_rows, to_numpy
from onefold.machine.threads import limit_blas
from onefold.machine.warning import warn_user
from onefold.rows import Groups
from onefold.statistics import Design

Solution = tuple[Any, Any]
"""β of the landmarks (m, μ, targets) and b (μ, targets)."""


class BasisModel(Model):
    """One kernel, its landmarks and every μ. Nothing is collected before it is first needed."""

    keep = True

    def __init__(self, problem: Problem, coordinates: Coordinates) -> None:
        self.coordinates, self.design = coordinates, coordinates.design
        self.report = dict(coordinates.report)
        self.problem, self.source = problem, problem.source

    # BLAS runs on one thread in all of them, so that digits do not depend on the number of threads.

    def leave_one_out(self, alphas: Any) -> Array:
        with limit_blas(1):
            return self._leave_one_out(alphas)

    def heldout(self, parts: Sequence[Any], alphas: Any) -> list[Array]:
        with limit_blas(1):
            return self._heldout([np.asarray(rows) for rows in parts], alphas)

    def heldout_squared_error(
        self, left_out: Sequence[Any], tests: Sequence[Any], alphas: Any
    ) -> Any | None:
        """From sums or factors alone; None where that is not possible or has lost its digits.

        They count a row once: a splitter that tests rows repeatedly is not served.
        """
        groups = self.source.grouped_by([*left_out, *tests])
        if groups.repeats:
            return None
        with limit_blas(1):
            return self._squared_error(groups, len(left_out), alphas)

    def expansion(self, alpha: Any) -> Expansion:
        with limit_blas(1):
            beta, intercept, mu = self.solve_each(alpha)
            self.report_error(mu, intercept)
        return Expansion(self.design.kernel, self.design.landmarks, beta, intercept)

    def fold_models(self, parts: Sequence[Any], alpha: Any) -> FoldModels | None:
        """The coefficients of the landmarks without each part, from what a search has collected."""
        if not self.trains_without(parts):
            return None
        ridges = target_ridges(alpha, self.problem.Y.shape[1])
        found = self.solve_without(parts, ridges.distinct)
        xp = namespace(found[0][0])
        coef = [ridges.own(xp.permute_dims(beta, (1, 0, 2))) for beta, _ in found]
        intercept = [ridges.own(b) for _, b in found]
        together = xp.concat(coef, axis=1), xp.concat(intercept)
        return FoldModels.of(Expansion(self.design.kernel, self.design.landmarks, *together), len(parts))

    @abstractmethod
    def solve(self, alphas: Any) -> Solution:
        """The model of all rows."""

    @abstractmethod
    def trains_without(self, parts: Sequence[Any]) -> bool:
        """Whether the sets are few enough for a model without each."""

    @abstractmethod
    def solve_without(self, parts: Sequence[Any], alphas: Any) -> list[Solution]:
        """The models without each set of rows."""

    @abstractmethod
    def _leave_one_out(self, alphas: Any) -> Any: ...

    @abstractmethod
    def _heldout(self, parts: list[Any], alphas: Any) -> list[Any]: ...

    @abstractmethod
    def _squared_error(self, groups: Groups, parts: int, alphas: Any) -> Any | None:
        """Of `parts` models; the groups were made from what they leave out, then from what they test."""

    def root_of(self, rows: Any) -> Any:
        """√weights of the rows with these numbers."""
        root = self.problem.root_weight
        return np.ones(len(rows)) if root is None else take_rows(root, rows)

    def report_error(self, alpha: Any, intercept: Any) -> None:
        """Add ‖K − K̃‖₂ and ding2012's bound to the report; warn of a ridge that rounding hides."""
        found = kernel_error(self.design, self.coordinates.T, self.source, seed=0)
        bound = decision_bound(found, to_numpy(self.problem.Y), to_numpy(intercept), alpha)
        self.report |= {
            "kernel_error": found["kernel_error"],
            "kernel_error_rows": found["kernel_error_rows"],
            "decision_bound": bound,
        }
        smallest, rounding = float(np.min(alpha)), self.report.get("rounding_ridge", 0.0)
        unit = self.problem.alpha_unit
        if smallest < rounding:
            warn_user(
                f"alpha={smallest * unit:.2g} is below {rounding * unit:.1e}, the ridge that rounding "
                f"errors look like in sums over {self.problem.n} rows, so that predictions may be "
                "off; use a larger alpha, fewer landmarks, or a larger gamma.",
            )

    def solve_each(self, alpha: Any) -> tuple[Any, Any, Any]:
        """β (m, t), b (t,), and μ (t,), for one μ or one per target."""
        t = self.problem.Y.shape[1]
        ridges = target_ridges(alpha, t)
        beta, intercept = self.solve(ridges.distinct)
        coef = ridges.own(namespace(beta).permute_dims(beta, (1, 0, 2)))
        return coef, ridges.own(intercept), ridges.each


def landmark_coefficients(design: Design, T: Any, theta: Any) -> Any:
    """θ (μ, r, t) in the coordinates of T as coefficients of the landmarks, (m, μ, t)."""
    beta = T @ flattened(theta)
    beta = beta if design.mix is None else design.mix @ beta
    return namespace(beta).reshape(beta, (beta.shape[0], theta.shape[0], theta.shape[2]))


def flattened(theta: Any) -> Any:
    """θ (μ, r, t) as (r, μ·t)."""
    xp, (count, r, t) = namespace(theta), theta.shape
    return xp.reshape(xp.permute_dims(theta, (1, 0, 2)), (r, count * t))
