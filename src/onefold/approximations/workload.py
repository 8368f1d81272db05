"""How much a fit asks of an approximation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from onefold.smoothers.base import Need

Refit = Literal["auto", "exact", "same"]


@dataclass(frozen=True)
class Workload:
    """What will be asked of the models of a run.

    Attributes
    ----------
    kernels, alphas : int
        Kernels, and ridges for each.
    folds : int
        0 for a fit alone; 1 for leave-one-out, and for criteria of the smoother as a whole.
    groups : int
        Groups of rows that the folds move together, where folds overlap; 0 where each is its own.
    predictions : bool
        Whether the held-out predictions of every ridge are looked at, or squared errors suffice.
    whole : bool
        Whether they are looked at all together; sums over blocks of them need not hold them.
    smoother : bool
        Whether R(μ) as a whole is looked at.
    single : bool
        Whether single rows are left out too, beside folds.
    parts : sequence of int arrays, or None
        The rows left out together, in turn; None where nothing is held out.
    refit : {"auto", "exact", "same"}
        Whether the final model is trained with the true kernel, with the same approximation, or as suits
        the approximation best.
    before : float
        Multiply-adds on a few of the rows that come first, whatever the approximation.
    """

    kernels: int = 1
    alphas: int = 1
    folds: int = 0
    groups: int = field(default=0, kw_only=True)
    predictions: bool = True
    whole: bool = True
    smoother: bool = False
    single: bool = field(default=False, kw_only=True)
    parts: Any = field(default=None, compare=False, repr=False)
    refit: Refit = "same"
    before: float = field(default=0.0, kw_only=True)

    @property
    def need(self) -> Need:
        """Whether solving is enough, or held-out predictions are wanted too."""
        return "heldout" if self.folds else "coefficients"

    def of_one_kernel(self) -> Workload:
        """The share of one kernel."""
        return replace(self, kernels=1)

    def of_final_fit(self, alphas: int = 1) -> Workload:
        """What is left once kernel and ridge are known."""
        return Workload(alphas=alphas)
