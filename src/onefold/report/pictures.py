"""The pictures of a report, as text that a page can hold."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

from onefold import plots
from onefold.plots import figures
from onefold.report.markup import Markup, element

_MOST_LETTERS = 250_000  # of a drawing
_DOTS = 110


@dataclass(frozen=True)
class Picture:
    """A picture with its words.

    Attributes
    ----------
    title : str
    words : str
        What it shows.
    body : Markup
        An ``svg`` or an ``img`` element, with the words for those who do not see it.
    """

    title: str
    words: str
    body: Markup


# Class in `onefold.plots`, whether it takes the targets, title, and how to read it. Importances are not
# among them: the page has a section of bars for these, by the names that people know.
_KINDS = (
    ("GridDisplay", False, "The grid", "The criterion over the grid, the choice, and the flat region "
     "whose scores lie within one standard error of the best."),
    ("SearchPathDisplay", False, "The search", "The scores in the order in which they were found."),
    ("RoundsDisplay", False, "Round by round", "What learning the metric has brought, round by round."),
    ("PredictionDisplay", True, "Prediction against target", "Held-out predictions; the nearer to the "
     "diagonal the better."),
    ("ReliabilityDisplay", True, "Reliability", "How often the class was right among rows with like "
     "held-out probabilities; the nearer to the diagonal the better."),
    ("BlendDisplay", False, "The blend", "Its members, their scores and their weights."),
    ("SparsityDisplay", False, "The number of centres", "The held-out score against the number of "
     "centres, and the number that was chosen."),
    ("TrustDisplay", False, "The trust check", "What was found, in units of what counts as nothing."),
)  # fmt: skip


def pictures_of(estimator: Any, y: Any = None) -> tuple[list[Picture], str | None]:
    """Every picture that there is something to draw in, and why one is missing that should be there."""
    found: list[Picture] = []
    missing = None
    try:
        figures.new_figure(1.0, 1.0)
    except (ImportError, ValueError) as error:
        return [], str(error)
    for name, takes_targets, title, words in _KINDS:
        if takes_targets and y is None:
            continue
        if name == "BlendDisplay" and len(getattr(estimator, "blend_", None) or ()) == 1:
            continue  # one member is no blend
        try:
            display = getattr(plots, name).from_estimator(estimator, *([y] if takes_targets else []))
        except ValueError:  # nothing to draw
            continue
        try:
            with figures.quiet_about_letters():
                found.append(Picture(title, words, _body(display, title, words)))
        except Exception as error:  # noqa: BLE001 (matplotlib raises whatever it likes; none of it matters)
            missing = f"matplotlib can't draw '{title}' ({' '.join(str(error).split()):.100} …)"
    return found, missing


def _body(display: Any, title: str, words: str) -> Markup:
    """The drawing itself, or where it is large a picture of dots."""
    drawn = plots.as_svg(display)
    if len(drawn) <= _MOST_LETTERS:
        return Markup(drawn)
    figure = display.plot(ax=figures.new_figure(6.4, 4.2).subplots()).figure_
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DOTS, bbox_inches="tight")
    source = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    return element("img", src=source, alt=f"{title}. {words}")
