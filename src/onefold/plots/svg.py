"""A picture as text that can stand inside a page, beside others, on any background."""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from copy import copy
from html import escape
from typing import TYPE_CHECKING, Any

from onefold.plots.display import Display
from onefold.plots.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 4.8, 3.9  # inches: text is still legible on a page of 360 pixels
_DPI = 110  # of dense layers, which are images
_FONT = "DejaVu Sans"
_SETTINGS = {
    "svg.fonttype": "none",  # letters stay letters: small, and of the page's own fonts
    "svg.hashsalt": "onefold",  # the same picture gives the same text
    "font.family": ["sans-serif"],
    "font.sans-serif": [_FONT],
}


def as_svg(
    picture: Display | Figure, *, title: str | None = None, description: str | None = None
) -> str:
    """A display or a figure as an ``<svg>`` element of its own, without a background.

    Black ink becomes ``currentColor``: text and lines follow the page's, also in its dark mode. Its ids
    are unlike those of other pictures, it loads nothing, and screen readers are told its title and
    description.

    Parameters
    ----------
    picture : Display or matplotlib Figure
        A display is drawn anew, in matplotlib's default style, whatever the caller's.
    title, description : str, optional
        By default those of the display; of a figure, the titles of its axes.

    Returns
    -------
    str
        It begins with ``<svg``.
    """
    figure: Any = picture
    if isinstance(picture, Display):
        title = picture.title if title is None else title
        description = picture.describe() if description is None else description
        figure = new_figure(_WIDTH, _HEIGHT)
    from matplotlib.style import context

    text = io.StringIO()
    with context(["default", _SETTINGS]), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*missing from font"
        )  # the page's fonts may have them
        if isinstance(picture, Display):
            copy(picture).plot(figure.add_subplot())
        figure.savefig(
            text,
            format="svg",
            transparent=True,
            dpi=_DPI,
            metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")),
        )
    return _embedded(text.getvalue(), title or _titles(figure), description or "")


def _titles(figure: Any) -> str:
    titles = [axes.get_title(loc=side) for axes in figure.axes for side in ("left", "center")]
    return "; ".join(" ".join(one.split()) for one in titles if one) or "Picture"


def _embedded(text: str, title: str, description: str) -> str:
    """What matplotlib wrote, fit for a page."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<style[^>]*>.*?</style>", "", text, flags=re.S)  # it would hold for the whole page
    text = re.sub(r"<!--.*?-->", "", text, flags=re.S)
    text = text.replace(f"'{_FONT}'", "sans-serif")
    text = re.sub(r"(stroke|fill): #000000", r"\1: currentColor", text)
    used = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    text = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", text)
    mark = "f" + hashlib.sha256((text + title + description).encode()).hexdigest()[:10]
    text = re.sub(r'( id="|href="#|url\(#)', rf"\1{mark}-", text)
    opening, rest = text.split(">", 1)
    size = re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+) ([\d.]+)"', opening)
    width, height = (float(one) for one in size.groups()) if size else (0.0, 0.0)
    opening = re.sub(r' (?:width|height|version)="[^"]*"', "", opening)
    words = f'<title id="{mark}-title">{escape(title)}</title>'
    words += f'<desc id="{mark}-desc">{escape(description)}</desc>'
    return (
        f'{opening} width="{width * 4 / 3:.0f}" height="{height * 4 / 3:.0f}" role="img" '
        f'aria-labelledby="{mark}-title {mark}-desc" fill="currentColor" stroke-linejoin="round" '
        f'style="max-width:100%;height:auto">{words}{re.sub(chr(10) + " *", chr(10), rest).strip()}'
    )
