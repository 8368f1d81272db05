r"""What a trust check finds, and the rule that judges it.

A regret counts as nothing up to its tolerance: one standard error (over the splits) of the exact
method's best score, or 5 % of the way from the median score of the grid to the best, whichever is
larger. A loss on fresh rows counts as nothing up to one standard error of the paired difference, or 5 %
of what the exact model gains over a constant prediction.

    applies         neither exceeds its tolerance, and the choices are at most 2 steps apart
    does not apply  one exceeds 3 times its tolerance
    doubtful        everything between

With several repeats (subsamples) the reported one is the upper median: half are at least as good.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from onefold.machine.notebook import html_table

Verdict = Literal["applies", "doubtful", "does not apply"]

_ORDER: tuple[Verdict, ...] = ("applies", "doubtful", "does not apply")
_NEAR = 2  # grid steps
_TOO_FAR = 3.0  # times the tolerance


@dataclass(frozen=True)
class Draw:
    """The comparison on one subsample.

    Attributes
    ----------
    rows : int
        Size of the subsample.
    exact, approximate : dict
        The two choices: gamma and alpha, and the kernel where there were several.
    steps : int
        Their distance in grid steps.
    regret, tolerance : float
        Loss of exact score at the approximation's choice, and how much of it counts as nothing.
    loss, loss_tolerance : float or None
        The same for the fitted models on fresh rows; None where the final model is exact.
    """

    rows: int
    exact: dict[str, Any]
    approximate: dict[str, Any]
    steps: int
    regret: float
    tolerance: float
    loss: float | None = None
    loss_tolerance: float | None = None

    @property
    def excess(self) -> float:
        """The larger of regret and loss, each in units of its tolerance."""
        excess = _ratio(self.regret, self.tolerance)
        if self.loss is None or self.loss_tolerance is None:
            return excess
        return max(excess, _ratio(self.loss, self.loss_tolerance))

    @property
    def verdict(self) -> Verdict:
        """By the rule of the module."""
        if self.excess > _TOO_FAR:
            return "does not apply"
        return "applies" if self.excess <= 1 and self.steps <= _NEAR else "doubtful"


@dataclass(frozen=True)
class TrustCheck:
    """What :func:`trust` found: the typical draw's numbers, and every draw.

    Attributes
    ----------
    draws : tuple of Draw
        One per repeat.
    """

    draws: tuple[Draw, ...]

    @property
    def typical(self) -> Draw:
        """The upper median of the draws."""
        ordered = sorted(self.draws, key=lambda d: (_ORDER.index(d.verdict), d.excess, d.steps))
        return ordered[len(ordered) // 2]

    @property
    def verdict(self) -> Verdict:
        """One of: applies, doubtful, does not apply."""
        return self.typical.verdict

    @property
    def exact(self) -> dict[str, Any]:
        """What the exact method chose."""
        return self.typical.exact

    @property
    def approximate(self) -> dict[str, Any]:
        """What the approximation chose."""
        return self.typical.approximate

    @property
    def steps(self) -> int:
        """Distance of the two choices in grid steps."""
        return self.typical.steps

    @property
    def regret(self) -> float:
        """Exact score at the exact choice minus exact score at the approximation's."""
        return self.typical.regret

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as they are kept in ``approximation_["trust"]``."""
        verdicts = [draw.verdict for draw in self.draws]
        return {"verdict": self.verdict, **asdict(self.typical), "verdicts": verdicts}

    def __str__(self) -> str:
        draw = self.typical
        loss = "" if draw.loss is None else f", loss of the fitted model {draw.loss:.3g}"
        return (
            f"{self.verdict}: on {draw.rows} rows the exact method chose {_named(draw.exact)}, the "
            f"approximation {_named(draw.approximate)}, {draw.steps} grid steps apart; "
            f"regret {draw.regret:.3g} (tolerance {draw.tolerance:.3g}){loss}."
        )

    def _repr_html_(self) -> str:
        """The same as a small table, for notebooks."""
        draw = self.typical
        facts = [
            ("exact method", _named(draw.exact)),
            ("approximation", f"{_named(draw.approximate)}, {draw.steps} grid steps apart"),
            ("regret", f"{draw.regret:.3g} (tolerance {draw.tolerance:.3g})"),
        ]
        if draw.loss is not None and draw.loss_tolerance is not None:
            facts += [("loss on fresh rows", f"{draw.loss:.3g} (tolerance {draw.loss_tolerance:.3g})")]
        if len(self.draws) > 1:
            facts += [("subsamples", ", ".join(one.verdict for one in self.draws))]
        return html_table(facts, f"{self.verdict}, on {draw.rows} rows")


def _ratio(value: float, tolerance: float) -> float:
    if value <= 0:
        return 0.0
    return value / tolerance if tolerance > 0 else np.inf


def _named(params: dict[str, Any]) -> str:
    words = {name: value if isinstance(value, str) else f"{value:.3g}" for name, value in params.items()}
    return ", ".join(f"{name} {word}" for name, word in sorted(words.items(), reverse=True))
