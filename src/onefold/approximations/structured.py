r"""Models of a structured matrix T in place of the kernel matrix, and how they predict held-out rows.

A structured matrix depends on the rows through their order alone, so "the rows J predicted from all
others" has two meanings:

    matrix   f_J = T_JO α + b    α, b solve the system of T_OO: the identity of the smoother
    kernel   f_J = K_JO α + b    α, b solve the system of the matrix that the rows O have by themselves

where O are the rows outside J and K is the true kernel. The second is what a model trained with the
structured matrix predicts for new rows ([ding2011]_, [decherchi2010]_). The first takes no kernel values
between J and O; it is the same only where T is K.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.model import SmoothingModel
from onefold.approximations.problem import Parts, Problem, TargetRidges
from onefold.basis import predictions_of
from onefold.expansions import Expansion, FoldModels
from onefold.kernels import Kernel, Precomputed
from onefold.kernels.tiles import kernel_product
from onefold.linalg import Array, HostArray, Index, as_vector, namespace, scattered, take_rows, zeros
from onefold.smoothers.base import UnsolvableError

Validate = Literal["kernel", "matrix"]


@dataclass(frozen=True)
class Trained:
    """The coefficients of a model of some of the rows, for every ridge value."""

    rows: Index  # the training rows, in the order of the coefficients
    dual: Array  # (μ, rows, targets)
    intercepts: Array  # (μ, targets)


class StructuredModel(SmoothingModel):
    """A model whose held-out rows are predicted by its matrix, or by the true kernel."""

    validate: Validate
    kernel: Kernel

    @abstractmethod
    def trained_without(self, part: Index, alphas: ArrayLike) -> Trained:
        """The model of all rows outside the part, with a matrix of its own."""

    def ridges_of_all_rows(self, parts: Parts, alphas: ArrayLike) -> HostArray:
        """The μ of all rows for the μ of models without these parts, all of the same share."""
        return as_vector(alphas) / float(self.problem.shares(parts)[0])

    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        if self.validate == "matrix":
            return self.heldout_by_matrix(parts, alphas)
        return [self._predict(np.asarray(part), alphas) for part in parts]

    def heldout_by_matrix(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        """Held-out rows by the identity of the smoother."""
        return self.smoother.heldout(self.problem.Y, parts, alphas)

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        if self.validate == "matrix":
            return self.leave_one_out_by_matrix(alphas)
        rows = [np.array([i]) for i in range(self.problem.n)]
        return namespace(self.problem.Y).concat(self.heldout(rows, alphas), axis=1)

    def leave_one_out_by_matrix(self, alphas: ArrayLike) -> Array:
        """Each row by the identity of the smoother."""
        return self.smoother.leave_one_out(self.problem.Y, alphas)

    def left_out(self, rows: Index, alpha: float) -> tuple[Index, Array]:
        """Single rows by the manner of the other predictions; NaN where a part's matrix is refused."""
        if self.validate == "matrix":
            return super().left_out(rows, alpha)
        try:
            return self.left_out_by_kernel(rows, alpha)
        except UnsolvableError:  # of a part, unlike that of all rows
            shape = (len(rows), self.problem.Y.shape[1])
            return rows, zeros(shape, self.problem.Y) * float("nan")

    def left_out_by_kernel(self, rows: Index, alpha: float) -> tuple[Index, Array]:
        """Some rows, each predicted by the true kernel from all others."""
        predictions = self.heldout([np.array([row]) for row in rows], [alpha])
        return rows, namespace(self.problem.Y).concat(predictions, axis=1)[0, ...]

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels | None:
        """The models that predicted the parts, side by side on all rows; None where the matrix did."""
        if self.validate == "matrix":
            return None
        n, targets = self.problem.Y.shape
        ridges = TargetRidges(alpha, targets)
        coef = zeros((n, len(parts) * targets), self.problem.Y)
        intercept = zeros(len(parts) * targets, self.problem.Y)
        for number, part in enumerate(parts):
            trained = self.trained_without(np.asarray(part), ridges.distinct)
            columns = slice(number * targets, (number + 1) * targets)
            coef[:, columns] = scattered(ridges.pick(trained.dual), trained.rows, n)
            intercept[columns] = ridges.pick(trained.intercepts)
        centres = None if isinstance(self.kernel, Precomputed) else self.problem.X
        return FoldModels.of(Expansion(self.kernel, centres, coef, intercept), len(parts))

    def _predict(self, part: Index, alphas: ArrayLike) -> Array:
        """The part predicted with the true kernel by the model of all other rows."""
        trained = self.trained_without(part, alphas)
        xp = namespace(trained.dual)
        columns = xp.reshape(xp.permute_dims(trained.dual, (1, 0, 2)), (len(trained.rows), -1))
        values = kernel_values_times(self.kernel, self.problem, part, trained.rows, columns)
        return predictions_of(values, trained.intercepts)


def check_choices(settings: Any, choices: Mapping[str, Sequence[str]]) -> None:
    """Raise for a setting that is none of its choices."""
    for name, allowed in choices.items():
        value = getattr(settings, name)
        if value not in allowed:
            names = " or ".join(repr(choice) for choice in allowed)
            raise ValueError(f"{name} must be {names}; got {value!r}.")


def kernel_values_times(
    kernel: Kernel, problem: Problem, rows: Index, centres: Index, coef: Array
) -> Array:
    """[k(x_i, x_j)] coef for the numbers i in `rows` and j in `centres`."""
    X: Any = take_rows(problem.X, rows)
    if isinstance(kernel, Precomputed):
        return take_rows(X.T, centres).T @ coef
    return kernel_product(kernel, X, take_rows(problem.X, centres), coef)
