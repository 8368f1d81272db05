"""What a search chooses among; the one place of this folder that asks an approximation for anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onefold.approximations import Model, Run
from onefold.kernels import Kernel
from onefold.learned_metrics import CrossFitted


@dataclass(frozen=True)
class Candidate:
    """A kernel, the run that makes its model, and what to call the pair in a table."""

    run: Run
    kernel: Kernel
    params: dict[str, Any]
    lineage: tuple[Any, ...] = ()
    """The cells that its metric was learned from, after the number of rows where that is not clear."""

    @property
    def width(self) -> float | None:
        """The number that names the kernel; None where it has no width."""
        return self.params.get("gamma")

    @property
    def group(self) -> tuple[Any, ...]:
        """Its family, kind of metric and round, whatever its width: what is compared with others."""
        return tuple(self.params.get(name) for name in ("kernel", "metric", "round"))

    @property
    def complexity(self) -> tuple[int, int]:
        """Its round, then whether its metric is diagonal or full."""
        kind = self.params.get("metric", "none")
        return int(self.params.get("round", 0)), ("none", "diagonal", "full").index(kind)

    def model(self, n_alphas: int) -> Model:
        """The candidate solved for `n_alphas` values of μ, to be asked for held-out predictions."""
        return self.run.with_ridges(n_alphas).model(self.kernel)

    def diagnose(self) -> dict[str, Any]:
        """What is worth knowing of the chosen candidate, and too dear for every one."""
        return self.run.diagnose(self.kernel)


@dataclass(frozen=True)
class CrossFittedCandidate(Candidate):
    """A candidate whose every fold has a kernel of its own; `kernel` is that of the final model."""

    parts: Sequence[Any] = ()
    part_kernels: Sequence[Kernel] = ()

    def model(self, n_alphas: int) -> Model:
        return CrossFitted(self.run, self.parts, self.part_kernels)


def make_candidates(
    run: Run, kernels: Sequence[Kernel], names: Sequence[dict[str, Any]]
) -> list[Candidate]:
    """One candidate per kernel."""
    return [Candidate(run, kernel, dict(params)) for kernel, params in zip(kernels, names)]


def models_side_by_side(candidates: Sequence[Candidate]) -> int:
    """How many models may run at once."""
    runs = {id(candidate.run): candidate.run for candidate in candidates}
    return min(run.at_once for run in runs.values())
