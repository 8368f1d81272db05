r"""What every fitted model can be asked.

A model is a problem solved with one kernel, for every ridge value. It answers two questions, whatever is
inside: the predictions of rows held out of training, and the expansion to predict with. Search and
estimators know nothing more; criteria of the whole smoother ask a `WholeModel`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold.approximations.problem import Parts, Problem
from onefold.expansions import Expansion, FoldModels
from onefold.linalg import Array, HostArray, asarray_like, host_array, namespace, take_rows
from onefold.rows import FIFTHS, Rows, interleaved_fifths
from onefold.smoothers import Smoother
from onefold.smoothers.base import Flags


class Model(ABC):
    """A problem solved with one kernel, for any μ; parameters named `alphas` hold values of μ.

    Examples
    --------
    :doc:`/extending/approximation` writes one; `heldout` and `expansion` are what it must have.

    >>> from onefold.approximations import Model
    >>> sorted(Model.__abstractmethods__)
    ['expansion', 'heldout']
    """

    problem: Problem
    report: dict[str, Any]  # what ran and why; becomes ``approximation_``
    keep: bool = False  # the best one of a search is held on to, and serves the final fit
    one_by_one = False  # each μ has a factorisation of its own, held until the next μ is asked for
    one_pass = False  # one pass over the rows serves all the parts that are asked about together
    # Why single rows have no closed form, and what to do: raised where they are asked for.
    no_leave_one_out: str = ""
    leaves_out_fifths = False  # `left_out` predicts each row from four fifths of all rows all the same

    def usable(self, parts: Parts | None, alphas: ArrayLike) -> Any:
        """Whether each μ can be solved with for these held-out parts; None where there are none."""
        return np.ones(np.size(alphas), dtype=bool)

    def leave_one_out(self, alphas: ArrayLike) -> Array:
        """Each row predicted from all others: (μ, n, targets)."""
        raise ValueError(
            self.no_leave_one_out
            or f"{type(self).__name__} does not support leave-one-out; use folds, such as cv=5."
        )

    def left_out(self, rows: Any, alpha: float) -> tuple[Any, Array]:
        """Rows each predicted from all others at one μ, and their numbers: all where a pass gives all.

        Otherwise those of `rows`. Without a closed form each is predicted from four fifths of all rows.
        """
        if not self.no_leave_one_out:
            values = self.leave_one_out([alpha])[0, ...]
            return np.arange(values.shape[0]), values
        return self.left_out_in_fifths(rows, alpha)

    def left_out_in_fifths(self, rows: Any, alpha: float) -> tuple[Any, Array]:
        """Some rows, each predicted from four fifths of all rows at one μ."""
        fifths = interleaved_fifths(np.arange(self.problem.n))
        parts = [fifths[number] for number in np.unique(rows % FIFTHS)]
        rows_by_part = [rows[rows % FIFTHS == part[0]] for part in parts]
        predictions = self.heldout(parts, [alpha])
        values = [
            take_rows(f[0, ...], numbers // FIFTHS) for f, numbers in zip(predictions, rows_by_part)
        ]
        return np.concatenate(rows_by_part), namespace(values[0]).concat(values)

    @abstractmethod
    def heldout(self, parts: Parts, alphas: ArrayLike) -> list[Array]:
        """Each set of rows J predicted by the model trained on all other rows: (μ, rows, targets)."""

    def heldout_blocks(self, parts: Parts, alphas: ArrayLike) -> Iterator[tuple[int, Any, Array]]:
        """Predictions by blocks in a fixed order: (number of J, positions in J, (μ, positions, t))."""
        for number, values in enumerate(self.heldout(parts, alphas)):
            yield number, slice(None), values

    def heldout_sums(
        self, left_out: Parts, tests: Parts, alphas: ArrayLike, terms: Any, targets_by_row: Rows
    ) -> list[Array] | None:
        """Sums over each split's `tests`, made where the rows are; None to predict here instead.

        `terms` is a function of predictions (μ, rows, targets) and of the targets of `targets_by_row`.
        """
        return None

    def heldout_squared_error(self, left_out: Parts, tests: Parts, alphas: ArrayLike) -> Any | None:
        """Weighted mean squared held-out error (μ, splits), where it is known without predictions."""
        return None

    @abstractmethod
    def expansion(self, alpha: ArrayLike) -> Expansion:
        """The model at one μ, or at one μ per target."""

    def final_report(self, alpha: ArrayLike, expansion: Expansion) -> dict[str, Any]:
        """The report with what is too costly for any but the final model; `expansion` is its own."""
        return self.report

    def fold_models(self, parts: Parts, alpha: ArrayLike) -> FoldModels | None:
        """The models trained without each set of rows, for new rows; None where they need refits."""
        return None


class WholeModel(Model):
    """A model that knows what criteria of the whole R_b(μ) are made of.

    S is the diagonal of √weights: R_b is that of S K S with the border S1, for the targets S Y.

    Examples
    --------
    What such a model must have besides `heldout` and `expansion`:

    >>> from onefold.approximations import Model, WholeModel
    >>> sorted(WholeModel.__abstractmethods__ - Model.__abstractmethods__)
    ['least_costs', 'logdet', 'residual_squares', 'trace']
    """

    @abstractmethod
    def residual_squares(self, alphas: ArrayLike) -> HostArray:
        """‖R_b S Y‖² of every target: (μ, targets)."""

    @abstractmethod
    def least_costs(self, alphas: ArrayLike) -> HostArray:
        """Yᵀ S R_b S Y of every target, the least of what is minimised: (μ, targets)."""

    @abstractmethod
    def trace(self, alphas: ArrayLike) -> HostArray:
        """The trace of R_b: (μ,)."""

    @abstractmethod
    def logdet(self, alphas: ArrayLike) -> HostArray:
        """The number log det (S K S + μI), with an intercept on the complement of the border: (μ,).

        NaN where the matrix is not positive definite.
        """

    def definite(self, alphas: ArrayLike) -> Flags:
        """Whether S K S + μI is positive definite, for each μ; most models solve no other systems."""
        return np.ones(np.size(alphas), dtype=np.bool_)

    def kernel_matrix(self) -> Array:
        """K without weights (n, n), an array of its own; see `Approximation.max_rows_for_matrix`."""
        raise NotImplementedError(f"{type(self).__name__} does not form its kernel matrix")

    def squared_radii(self, alphas: ArrayLike) -> HostArray | None:
        """R̃² of the smallest ball around the rows in the space of K + μV⁻¹, where symmetry gives it."""
        return None


class SmoothingModel(WholeModel):
    """A model that gives access to R(μ) itself."""

    smoother: Smoother

    def residual_squares(self, alphas: ArrayLike) -> HostArray:
        residuals = self.smoother.residuals(self.problem.scaled_targets(), alphas)
        return host_array(namespace(residuals).sum(residuals**2, axis=1))

    def least_costs(self, alphas: ArrayLike) -> HostArray:
        residuals = self.smoother.residuals(self.problem.scaled_targets(), alphas)
        Y = asarray_like(self.problem.scaled_targets(), residuals)  # some smoothers answer on the host
        return host_array(namespace(residuals).sum(Y[None, ...] * residuals, axis=1))

    def trace(self, alphas: ArrayLike) -> HostArray:
        return self.smoother.trace(alphas)

    def logdet(self, alphas: ArrayLike) -> HostArray:
        return self.smoother.logdet(alphas)

    def definite(self, alphas: ArrayLike) -> Flags:
        return self.smoother.definite(alphas)


class InnerWholeModel(WholeModel):
    """A model with another inside, which answers for R_b(μ)."""

    _inner: WholeModel

    def residual_squares(self, alphas: ArrayLike) -> HostArray:
        return self._inner.residual_squares(alphas)

    def least_costs(self, alphas: ArrayLike) -> HostArray:
        return self._inner.least_costs(alphas)

    def trace(self, alphas: ArrayLike) -> HostArray:
        return self._inner.trace(alphas)

    def logdet(self, alphas: ArrayLike) -> HostArray:
        return self._inner.logdet(alphas)

    def definite(self, alphas: ArrayLike) -> Flags:
        return self._inner.definite(alphas)

    def kernel_matrix(self) -> Array:
        return self._inner.kernel_matrix()

    def squared_radii(self, alphas: ArrayLike) -> HostArray | None:
        return self._inner.squared_radii(alphas)
