"""Does the approximation choose as the exact method would? The verdict and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from onefold.plots.display import Display
from onefold.plots.fitted import machine_of, searched
from onefold.plots.ink import ACCENT, BLUE, crown, line_style, plain_text
from onefold.trust_check import TrustCheck

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ZONES = (
    ("applies", 0.0, 1.0, BLUE),
    ("doubtful", 1.0, 3.0, "#e69f00"),
    ("does not apply", 3.0, 4.5, ACCENT),
)
_END = 4.5
_NEAR = 2.0  # grid steps


@dataclass(eq=False)
class TrustDisplay(Display):
    """Regret, loss and distance of the choices in units of what counts as nothing.

    Parameters
    ----------
    draws : tuple of TrustCheck
        Every subsample that is known.
    typical : TrustCheck
        The one that the verdict is of.
    """

    title: ClassVar[str] = "Does the approximation choose as the exact method?"

    draws: tuple[TrustCheck, ...]
    typical: TrustCheck

    @classmethod
    def from_finding(cls, finding: TrustCheck | Mapping[str, Any]) -> Self:
        """What :func:`onefold.trust` gave, or its plain values, as in ``approximation_["trust"]``."""
        if isinstance(finding, TrustCheck):
            return cls(finding.draws, replace(finding, draws=()))
        names = TrustCheck.__dataclass_fields__
        try:
            draw = TrustCheck(**{name: finding[name] for name in names if name in finding})
        except TypeError as error:
            raise ValueError(
                f"this is no finding of a trust check ({error}); pass what onefold.trust gave."
            ) from error
        return cls((draw,), draw)

    @classmethod
    def from_estimator(cls, estimator: Any) -> Self:
        """The check of a machine that was fitted with ``check=True``."""
        machine = machine_of(estimator)
        report = searched(machine, "approximation_", "fit a machine that searches, with check=True.")
        if "trust" not in report:
            raise ValueError(
                f"this {type(machine).__name__} was not checked; fit with check=True, or draw "
                "TrustDisplay.from_finding(onefold.trust(...))."
            )
        return cls.from_finding(report["trust"])

    @property
    def measures(self) -> dict[str, list[float]]:
        """For every draw what it found, in units of what counts as nothing."""
        found = {"regret of the choice": [replace(one, loss=None).excess for one in self.draws]}
        if self.typical.loss is not None:
            found["loss of the fitted model"] = [replace(one, regret=0.0).excess for one in self.draws]
        return found | {"distance of the choices": [one.steps / _NEAR for one in self.draws]}

    def describe(self) -> str:
        """What the picture shows, in a sentence or two."""
        return str(self.typical)

    def _draw(self, axes: Axes, style: dict[str, Any]) -> None:
        measures, own = self.measures, self.draws.index(self.typical)
        for number, (name, values) in enumerate(measures.items()):
            place = len(measures) - 1 - number
            for zone, start, end, colour in _ZONES:
                if name.startswith("distance") and zone == "does not apply":
                    colour = _ZONES[1][3]  # far choices alone refute nothing
                axes.barh(place, end - start, 0.5, start, color=colour, alpha=0.28, lw=0)
            shown = np.minimum(values, _END - 0.12)
            axes.plot(
                shown, np.full(len(shown), place), "o", color=BLUE, ms=5, alpha=0.6, mew=0, clip_on=False
            )
            look = line_style(style, marker="D", ms=9, color=BLUE, mec="white", mew=1.2, ls="none")
            axes.plot([shown[own]], [place], **look, zorder=4, clip_on=False)
            beyond = " →" if values[own] > _END else ""
            words = self._number(name) + beyond
            axes.text(0, place + 0.28, words, fontsize="small", va="bottom")
        names = [one.replace(" of ", "\nof ") for one in measures]
        axes.set_yticks(range(len(names))[::-1], labels=names)
        axes.set_ylim(-0.5, len(measures) - 0.25)
        axes.set_xlim(0, _END)
        axes.set_xticks([0, 1, 2, 3, 4])
        axes.set_xlabel("times what counts as nothing")
        top = axes.secondary_xaxis("top")
        top.set_xticks([(a + b) / 2 for _, a, b, _ in _ZONES], labels=[zone for zone, *_ in _ZONES])
        top.tick_params(length=0)
        for spine in (*axes.spines.values(), *top.spines.values()):
            spine.set_visible(False)
        axes.tick_params(axis="y", length=0)
        crown(axes, self._words(), legend=False)

    def _words(self) -> str:
        draw = self.typical
        of = f", {len(self.draws)} subsamples" if len(self.draws) > 1 else ""
        return plain_text(
            f"{draw.verdict} ({draw.rows:,} rows{of})\nexact: {_named(draw.exact)}\n"
            f"approximate: {_named(draw.approximate)}"
        )

    def _number(self, name: str) -> str:
        draw = self.typical
        if name.startswith("distance"):
            return f"{draw.steps} grid steps, {_NEAR:g} allowed"
        value, limit = draw.regret, draw.tolerance
        if name.startswith("loss"):
            value, limit = float(draw.loss or 0.0), float(draw.loss_tolerance or 0.0)
        return f"{value:.3g}, tolerance {limit:.3g}"


def _named(params: Mapping[str, Any]) -> str:
    words = {k: v if isinstance(v, str) else f"{v:.3g}" for k, v in params.items() if v is not None}
    return ", ".join(f"{name} {word}" for name, word in sorted(words.items(), reverse=True))
