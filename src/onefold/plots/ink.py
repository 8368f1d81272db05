"""One hand for all pictures: colours, ticks, titles, legends.

Text, ticks and frames keep matplotlib's own colours, so that a style such as ``dark_background`` holds;
data have colours that stand out from white and from black, and that colour-blind eyes tell apart
(Okabe and Ito's). What must be neither is a translucent grey.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ACCENT, GREEN = "#1a80bb", "#d55e00", "#009e73"
SERIES = (BLUE, GREEN, "#cc79a7", "#e69f00", "#56b4e9", "#8c6d46", "#8f8f8f")
FAINT = (0.5, 0.5, 0.5, 0.25)
FAINTER = (0.5, 0.5, 0.5, 0.16)
MUTED = "#808080"
RING: dict[str, Any] = {"marker": "o", "linestyle": "none", "fillstyle": "none", "markersize": 13}

_FAMILIES = {"rbf": BLUE, "matern12": GREEN, "laplacian": "#e69f00"}
_OTHERS = ("#cc79a7", "#8c6d46", "#56b4e9", "#8f8f8f")
_LONGEST_NAME = 24
_MOST_TICKS = 13
_LETTER = 0.58  # widths of a letter, in sizes of its font
_HANDLE = 6.5  # letters that a legend's sign and its gaps take
_LINE = 13.0  # points
_TICK = 5  # letters
_TALLEST_MARK = 8.0  # points, in a legend


def ink() -> str:
    """The colour of text in the style that is in use."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


def line_style(style: dict[str, Any], **own: Any) -> dict[str, Any]:
    """Settings of a line: the caller's before ours, by whichever of their names."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    return {**normalize_kwargs(own, Line2D), **normalize_kwargs(style, Line2D)}


def plain_text(text: str) -> str:
    """The text with its dollar signs as such, not as borders of mathematics."""
    return text.replace("$", r"\$")


def shortened(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name of at most `longest` letters, as plain text."""
    name = " ".join(str(name).split())
    return plain_text(name if len(name) <= longest else name[: longest - 1] + "…")


def family_colour(name: str, families: Sequence[str]) -> str:
    """The colour of a kernel among those of a picture."""
    others = [one for one in families if one not in _FAMILIES]
    return _FAMILIES.get(name) or _OTHERS[others.index(name) % len(_OTHERS)]


def exponent_label(value: float) -> str:
    """A value as a power of two: ``2⁻³`` in mathtext, with one decimal where it isn't whole."""
    exponent = np.log2(value)
    rounded = round(exponent)
    return f"$2^{{{rounded if abs(exponent - rounded) < 1e-6 else format(exponent, '.1f')}}}$"


def power_ticks(axis: Any, values: np.ndarray) -> None:
    """Ticks at powers of two on an axis of logarithms, as many as there is room for."""
    room = int(_letters(axis.axes, 1.0) / _TICK) if axis.axis_name == "x" else _MOST_TICKS
    step = -(-len(values) // max(1, min(room, _MOST_TICKS)))
    axis.set_ticks(np.log2(values[::step]), labels=[exponent_label(v) for v in values[::step]])


def counted(number: int, word: str) -> str:
    """``1 kernel``, ``2,000 kernels``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def whole_powers(values: np.ndarray) -> np.ndarray:
    """Powers of two with whole exponents from the least value to the greatest, not too many."""
    first, last = np.floor(np.log2(values[0])), np.ceil(np.log2(values[-1]))
    step = max(1, int(-(-(last - first + 1) // _MOST_TICKS)))
    return 2.0 ** np.arange(first, min(last, 1023.0) + 1, step)


def score_limits(scores: Any) -> tuple[float, float]:
    """Limits of colours or heights: three times the distance from the best to the upper third's last.

    Hopeless candidates, which every grid has, would otherwise leave one colour for all the rest.
    """
    scores = np.asarray(scores, dtype=float)
    finite = scores[np.isfinite(scores)]
    high, lowest = float(finite.max()), float(finite.min())
    spread = high - float(np.quantile(finite, 2 / 3))
    low = max(lowest, high - 3.0 * spread) if spread > 0 else lowest
    if low == high:
        low = high - max(1e-3 * abs(high), 1e-12)
    return low, high


def tidy(axes: Axes, lines: Literal["x", "y", "both"] = "y") -> None:
    """Faint lines along an axis, no frame above and on the right."""
    axes.grid(axis=lines, color=FAINT, lw=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def crown(axes: Axes, title: str, more: str = "", *, legend: bool = True) -> None:
    """The title, what goes on beside or below it, and under both, outside the axes, the legend."""
    lines, (handles, labels) = 0, axes.get_legend_handles_labels()
    if legend and handles:
        columns = _columns(labels, _letters(axes, 0.833))
        lines = -(-len(labels) // columns)
        drawn = axes.legend(
            handles,
            labels,
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=columns,
            frameon=False,
            fontsize="small",
            borderaxespad=0.2,
            borderpad=0.1,
            handletextpad=0.5,
            columnspacing=1.2,
            labelspacing=0.3,
        )
        for handle in drawn.legend_handles:
            if getattr(handle, "get_markersize", float)() > _TALLEST_MARK:
                handle.set_markersize(_TALLEST_MARK)  # type: ignore[union-attr]
    visible = len(re.sub(r"[${}^\\]", "", f"{title} {more}"))
    between = " " if visible <= _letters(axes, 1.0) else "\n"
    words = f"{title}{between}{more}" if more else title
    axes.set_title(words, loc="left", fontsize="medium", pad=7.0 + _LINE * lines)


def _letters(axes: Axes, size: float) -> float:
    """How many letters go into the width of the axes; `size` of the font, in those of plain text."""
    import matplotlib as mpl

    figure: Any = axes.get_figure(root=True)
    inches = axes.get_position().width * figure.get_size_inches()[0]
    return float(72.0 * inches / (size * _LETTER * mpl.rcParams["font.size"]))


def _columns(labels: Sequence[str], room: float) -> int:
    """How many columns of a legend go into so many letters; matplotlib fills the first ones first."""
    for columns in range(len(labels), 1, -1):
        widths = [max(map(len, own)) for own in np.array_split(labels, columns)]
        if sum(widths) + _HANDLE * columns <= room:
            return columns
    return 1
