r"""A basis model of rows that come batch by batch: the factor of all rows so far is all that is kept.

    F(all rows) = triangle of F(rows so far) on top of F(batch)

F is the triangular factor of [1 V Y], each row times √weight, V the whitened features
(:mod:`onefold.statistics.factor`): as exact as `fit` from factors, in any order and size of batches.

Every batch is a problem in units of its own, with weights of mean 1 and targets about their mean. The
larger of two units serves both, so that nothing overflows. Where there is an intercept, targets are put
about the mean of both: a shift of targets touches the first row of F alone, so that their digits are
kept wherever the means of batches lie.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from onefold.approximations.alphas import target_ridges
from onefold.approximations.footprint import stream_bytes
from onefold.approximations.nystroem.basis import landmark_coefficients
from onefold.approximations.nystroem.coordinates import Coordinates
from onefold.approximations.problem import Problem, ridge_in
from onefold.expansions import Expansion
from onefold.kernels import Kernel
from onefold.landmarks import given_rows
from onefold.linalg import double, like, namespace
from onefold.machine.memory import require_memory
from onefold.machine.threads import limit_blas
from onefold.rows import Block
from onefold.statistics import Design
from onefold.statistics.factor import Factor, FactorPath
from onefold.statistics.finite import finite_kernel


@dataclass(frozen=True)
class Stream:
    """What is left of the batches so far; a batch more makes another one.

    Attributes
    ----------
    settings : Nystroem
        Whose landmarks are given.
    coordinates : Coordinates
        With the landmarks beside the rows of the first batch; later ones may lie elsewhere.
    targets : int
    factor : Factor or None
        Of all rows so far, in host memory; None before the first.
    offset : NumPy array (targets,)
        What was subtracted from the user's targets; 0 without an intercept.
    unit : float
        What the user's weights were divided by.
    batches, rows : int
        How many there were.
    """

    settings: Any
    coordinates: Coordinates
    targets: int
    factor: Factor | None = None
    offset: Any = 0.0
    unit: float = 1.0
    batches: int = 0
    rows: int = 0

    @property
    def kernel(self) -> Kernel:
        """The kernel of all batches."""
        return self.coordinates.design.kernel

    def with_rows(self, batch: Problem) -> Stream:
        """The same with the rows of one more batch. O((n + m) m²) time."""
        if not batch.on_device:
            m = self.coordinates.basis.size
            what = f"a batch of {batch.n} rows with {m} landmarks"
            require_memory(stream_bytes(batch.n, m), what, self.settings.remedy)
        batch = batch.about_its_mean()
        with limit_blas(1):  # the same digits whatever the number of threads
            found = self._factor_of(batch)
            offset = np.zeros(self.targets) if batch.offset is None else batch.offset
            counted = replace(self, batches=self.batches + 1, rows=self.rows + batch.n)
            if self.factor is None:
                return replace(counted, factor=found, offset=offset, unit=batch.alpha_unit)
            unit = max(self.unit, batch.alpha_unit)
            known, found = self.factor.scaled(self.unit / unit), found.scaled(batch.alpha_unit / unit)
            if found.border:
                share = found.weight / (known.weight + found.weight)
                middle = self.offset + share * (offset - self.offset)
                known, found = known.about(middle - self.offset), found.about(middle - offset)
                offset = middle
            return replace(counted, factor=Factor.union([known, found]), offset=offset, unit=unit)

    def _factor_of(self, batch: Problem) -> Factor:
        """The factor of the batch, in its own units, block after block in the order of the rows."""
        design = self._design_beside(batch)
        T = like(self.coordinates.T, design.landmarks)

        def factorised(block: Block) -> Factor:
            features = finite_kernel(design.features(block.X) @ T)
            factor = Factor.of(features, block.Y, block.root, fit_intercept=batch.fit_intercept)
            return factor.on_host()

        total: Factor | None = None
        for *_, found in batch.source.map(factorised, at_most=design.threads):
            total = found if total is None else Factor.union([total, found])
        if total is None:
            raise ValueError("a batch needs at least one row; leave it out.")
        return total

    def _design_beside(self, batch: Problem) -> Design:
        """The design in the library of the batch's rows and where they are worked on.

        Landmarks keep their values: features are float64 whatever the rows are.
        """
        design = self.coordinates.design
        here = given_rows(design.landmarks, double(batch.X[:1, :])).rows
        return replace(design, landmarks=batch.source.placed(here))

    def expansion(self, alpha: Any) -> Expansion:
        """The model of all rows so far at the user's alpha, one or one per target. O(20 m³) time."""
        if self.factor is None:
            raise ValueError("there are no rows yet; add a batch of rows with positive weights.")
        design, ridges = self.coordinates.design, target_ridges(alpha, self.targets)
        mu = ridge_in(self.unit, ridges.distinct)
        with limit_blas(1):
            theta, intercept = FactorPath(self.factor).coefficients(mu)
            theta = like(theta, design.landmarks)
            beta = landmark_coefficients(design, self.coordinates.T, theta)
        coef = ridges.own(namespace(beta).permute_dims(beta, (1, 0, 2)))
        intercept = like(ridges.own(intercept) + self.offset, design.landmarks)
        return Expansion(design.kernel, design.landmarks, coef, intercept)

    def report(self) -> dict[str, Any]:
        """What the model is made of."""
        return self.coordinates.report | {"batches": self.batches, "rows": self.rows}
