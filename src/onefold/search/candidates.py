"""What a search chooses among; the one place of this folder that asks an approximation for anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onefold.approximations import Approximation, Model, Problem, models_at_once
from onefold.kernels import Kernel
from onefold.linalg import is_foreign


@dataclass(frozen=True)
class Candidate:
    """A kernel, how its matrix is represented, and what to call the pair in a table."""

    approximation: Approximation
    kernel: Kernel
    params: dict[str, Any]

    @property
    def width(self) -> float | None:
        """The number that names the kernel; None where it has no width."""
        return self.params.get("gamma")


def make_candidates(
    approximation: Approximation,
    kernels: Sequence[Kernel],
    widths: Sequence[float | None],
    problem: Problem,
    parts: Any | None,
) -> list[Candidate]:
    """One candidate per width, or several where the approximation comes in variants."""
    variants = approximation.variants(problem, parts)
    several = len(variants) > 1
    return [
        Candidate(
            variant,
            kernel,
            ({} if width is None else {"gamma": width}) | (variant.variant_params if several else {}),
        )
        for kernel, width in zip(kernels, widths)
        for variant in variants
    ]


def make_model(candidate: Candidate, problem: Problem, n_alphas: int) -> Model:
    """The candidate solved for `n_alphas` values of μ, to be asked for held-out predictions."""
    return candidate.approximation.model(candidate.kernel, problem, n_alphas=n_alphas, need="heldout")


def diagnose(candidate: Candidate, problem: Problem) -> dict[str, Any]:
    """What is worth knowing of the chosen candidate, and too dear for every one."""
    return candidate.approximation.diagnose(candidate.kernel, problem)


def models_side_by_side(candidates: Sequence[Candidate], problem: Problem) -> int:
    """How many models may run at once: one on a GPU, which has its own parallelism."""
    if is_foreign(problem.Y):
        return 1
    kinds = {id(c.approximation): c.approximation for c in candidates}
    return min(models_at_once(kind, problem.n) for kind in kinds.values())
