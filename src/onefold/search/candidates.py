"""What a search chooses among; the one place of this folder that asks an approximation for anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onefold.approximations import Model, Run
from onefold.kernels import Kernel


@dataclass(frozen=True)
class Candidate:
    """A kernel, the run that makes its model, and what to call the pair in a table."""

    run: Run
    kernel: Kernel
    params: dict[str, Any]

    @property
    def width(self) -> float | None:
        """The number that names the kernel; None where it has no width."""
        return self.params.get("gamma")

    def model(self, n_alphas: int) -> Model:
        """The candidate solved for `n_alphas` values of μ, to be asked for held-out predictions."""
        return self.run.with_ridges(n_alphas).model(self.kernel)

    def diagnose(self) -> dict[str, Any]:
        """What is worth knowing of the chosen candidate, and too dear for every one."""
        return self.run.diagnose(self.kernel)


def make_candidates(
    run: Run, kernels: Sequence[Kernel], widths: Sequence[float | None]
) -> list[Candidate]:
    """One candidate per width, or several where the run comes in variants."""
    variants = run.variants()
    return [
        Candidate(variant, kernel, ({} if width is None else {"gamma": width}) | variant.params)
        for kernel, width in zip(kernels, widths)
        for variant in variants
    ]


def models_side_by_side(candidates: Sequence[Candidate]) -> int:
    """How many models may run at once."""
    runs = {id(candidate.run): candidate.run for candidate in candidates}
    return min(run.at_once for run in runs.values())
