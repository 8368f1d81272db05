"""The pictures of a report, as images inside the page."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from onefold import plots
from onefold.plots.display import as_png


@dataclass(frozen=True)
class Picture:
    """A picture with its caption."""

    title: str
    caption: str
    source: str  # a data URL
    description: str  # for those who do not see it


# Class in `onefold.plots`, whether it takes the targets, title, and how to read it. Importances are not
# among them: the page has a section of bars for these, by the names that people know.
_KINDS = (
    ("GridDisplay", False, "The grid", "The criterion over the grid, the choice, and the flat region "
     "whose scores lie within one standard error of the best."),
    ("RoundsDisplay", False, "Round by round", "What learning the metric has brought, round by round."),
    ("PredictionDisplay", True, "Prediction against target", "Held-out predictions; the nearer to the "
     "diagonal the better."),
    ("ReliabilityDisplay", True, "Reliability", "How often the class was right among rows with like "
     "held-out probabilities; the nearer to the diagonal the better."),
)  # fmt: skip


def pictures_of(estimator: Any, y: Any = None) -> tuple[list[Picture], str | None]:
    """Every picture that there is something to draw in, and why one is missing that should be there."""
    found: list[Picture] = []
    missing = None
    for name, takes_targets, title, caption in _KINDS:
        if takes_targets and y is None:
            continue
        try:
            display = getattr(plots, name).from_estimator(estimator, *([y] if takes_targets else []))
        except ValueError:  # nothing to draw
            continue
        try:
            data = base64.b64encode(as_png(display)).decode("ascii")
        except ImportError as error:
            return [], str(error)
        except Exception as error:  # noqa: BLE001 (matplotlib raises whatever it likes; none of it matters)
            missing = f"matplotlib can't draw '{title}' ({' '.join(str(error).split()):.100} …)"
            continue
        words = f"{title}. {display.describe()}"
        found.append(Picture(title, caption, f"data:image/png;base64,{data}", words))
    return found, missing
