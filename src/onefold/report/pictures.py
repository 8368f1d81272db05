"""The pictures of a report, as text that a page can hold."""

from __future__ import annotations

import base64
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from onefold import plots
from onefold.plots import figures

_MOST_BYTES = 200_000  # of a drawing; larger ones are pictures of dots
_DOTS = 110


@dataclass(frozen=True)
class Picture:
    """A picture with its words.

    Attributes
    ----------
    title : str
    alt : str
        What it shows, for those who do not see it.
    source : str
        A data URI.
    """

    title: str
    alt: str
    source: str


# Class in `onefold.plots`, whether it takes the targets, title, and what it shows.
_KINDS = (
    ("GridDisplay", False, "The grid", "The criterion over the grid, the choice and the flat region "
     "around it, whose scores lie within one standard error of the best."),
    ("SearchPathDisplay", False, "The search", "The scores in the order in which they were found."),
    ("PredictionDisplay", True, "Prediction against target", "Held-out predictions against targets; the "
     "nearer to the diagonal the better."),
    ("ReliabilityDisplay", True, "Reliability", "How often the class was right among rows with like "
     "held-out probabilities; the nearer to the diagonal the better."),
    ("ImportanceDisplay", False, "Importances", "The share of each feature in what moves the "
     "prediction."),
    ("BlendDisplay", False, "The blend", "The members of the blend and their weights."),
    ("SparsityDisplay", False, "The number of centres", "The held-out score against the number of "
     "centres, and the number that was chosen."),
)  # fmt: skip


def pictures_of(estimator: Any, y: Any = None) -> tuple[list[Picture], str | None]:
    """Every picture that there is something to draw in, and why there is none at all, if so."""
    found: list[Picture] = []
    try:
        figures.new_figure(1.0, 1.0)
    except ImportError as error:
        return [], str(error)
    for name, takes_targets, title, alt in _KINDS:
        kind = getattr(plots, name, None)
        if kind is None or (takes_targets and y is None):
            continue
        try:
            with _quiet_about_letters():
                display = (
                    kind.from_estimator(estimator, y)
                    if takes_targets
                    else kind.from_estimator(estimator)
                )
                found.append(Picture(title, alt, _source(_drawn(display))))
        except ValueError:  # nothing to draw
            continue
    return found, None


def _drawn(display: Any) -> Any:
    """The figure of a display, drawn on one of its own."""
    axes = figures.new_figure(6.4, 4.2).subplots()
    return display.plot(ax=axes).figure_


def _source(figure: Any) -> str:
    drawn = getattr(figures, "as_svg", _as_svg)(figure).encode("utf-8")
    if len(drawn) <= _MOST_BYTES:
        return f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode('ascii')}"
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=_DOTS, bbox_inches="tight")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def _as_svg(figure: Any) -> str:
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "onefold"}):
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    return file.getvalue()


@contextmanager
def _quiet_about_letters() -> Iterator[None]:
    """Letters that the font does not have are drawn as boxes, which speak for themselves."""
    logger = logging.getLogger("matplotlib.mathtext")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*missing from font")
            yield
    finally:
        logger.setLevel(level)
