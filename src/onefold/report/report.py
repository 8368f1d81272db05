"""The report as an object, rendered by templates of Jinja2, with pictures.

Names of columns and labels may have tags, quotes, right-to-left letters or control characters. Jinja2
escapes them; characters that a document must not have, and those that change the writing direction of
the text after them, are replaced by �.
"""

from __future__ import annotations

import base64
import math
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from onefold import plots
from onefold._version import __version__
from onefold.facts import words
from onefold.facts.measures import MEASURES, measured_words, number
from onefold.facts.scores import belief_words, both_scores, comparison_words, score_notes
from onefold.machine.files import atomic_write
from onefold.plots.display import as_png

# Characters that a document must not have: controls, writing directions, surrogates, non-characters.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
# A quoted name with a right-to-left letter.
_QUOTED_RTL = re.compile("(?<=')([^']*[\u0590-\u08ff\ufb1d-\ufdfd\ufe70-\ufefc][^']*)(?=')")
# Candidates of a grid that is drawn: a line between two points shows nothing.
_FEWEST_CELLS = 3
# Displays, whether they take the targets, and their titles. Importances are bars of the page itself.
_PICTURES = (
    (plots.ChoiceDisplay, False, "Choice"),
    (plots.GridDisplay, False, "Grid"),
    (plots.RoundsDisplay, False, "Metric"),
    (plots.PredictionDisplay, True, "Predictions"),
    (plots.ReliabilityDisplay, True, "Calibration"),
)


class Report:
    """Report on a model, as returned by :func:`onefold.write_report`.

    Parameters
    ----------
    facts : dict
        Plain values by section.
    model : estimator, Pipeline or table model
        The model to plot.
    y : ndarray or None
        The targets that the model was fitted on, for plots that need them.
    """

    def __init__(self, facts: dict[str, Any], model: Any, y: Any = None) -> None:
        self._facts = facts
        self._model = model
        self._y = y

    def as_dict(self) -> dict[str, Any]:
        """The report as a dict that can be written as JSON; undefined numbers are None."""
        facts: dict[str, Any] = words.json_value(self._facts)
        return facts

    def text(self) -> str:
        """The report as plain text."""
        return _environment(False).get_template("report.txt.j2").render(facts=self._facts).rstrip()

    def html(self) -> str:
        """The report as one self-contained HTML page."""
        return page(self._facts, *pictures_of(self._model, self._y))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the HTML page to a file, atomically; the folder must exist."""
        with atomic_write(Path(path)) as temporary:
            temporary.write_text(self.html(), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<onefold report: {' '.join(self._facts['summary'])}>"

    def _repr_html_(self) -> str:
        """A few lines for a notebook, in its style."""
        return _environment(True).get_template("compact.html.j2").render(facts=self._facts).strip()


def pictures_of(model: Any, y: Any = None) -> tuple[list[dict[str, str]], str | None]:
    """The pictures that the model has data for, and why one of them could not be drawn, or None."""
    pictures: list[dict[str, str]] = []
    missing = None
    for kind, takes_targets, title in _PICTURES:
        if takes_targets and y is None:
            continue
        try:
            display = kind.from_estimator(model, *([y] if takes_targets else []))
        except ValueError:  # nothing to draw
            continue
        if isinstance(display, plots.GridDisplay) and not _is_grid(display):
            continue
        try:
            data = base64.b64encode(as_png(display)).decode("ascii")
        except ImportError as error:
            return [], str(error)
        except Exception as error:  # noqa: BLE001 (matplotlib may raise anything; the plot is left out)
            missing = f"matplotlib cannot draw '{title}' ({' '.join(str(error).split()):.100} …)"
            continue
        pictures.append(
            {
                "title": title,
                "caption": display.caption(),
                "description": f"{title}. {display.describe()}",
                "source": f"data:image/png;base64,{data}",
            }
        )
    return pictures, missing


def _is_grid(display: plots.GridDisplay) -> bool:
    """Whether a plot shows a grid: finalists of searches on fewer rows are only a few points."""
    return not display.finalists and len(display.scores) >= _FEWEST_CELLS


def page(facts: dict[str, Any], pictures: list[dict[str, str]], no_pictures: str | None) -> str:
    """The whole document."""
    template = _environment(True).get_template("page.html.j2")
    return template.render(facts=facts, pictures=pictures, no_pictures=no_pictures).lstrip() + "\n"


def sentences(name: str, facts: dict[str, Any]) -> list[str]:
    """The sentences of a macro in ``sentences.j2``."""
    macro = getattr(_environment(False).get_template("sentences.j2").module, name)
    return [line for line in str(macro(facts)).splitlines() if line]


class _Undefined(StrictUndefined):
    """An undefined fact may be tested, as in ``if scores.absent``, but not printed."""

    def __bool__(self) -> bool:  # type: ignore[override]
        return False


@cache
def _environment(html: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("onefold.report", "."),
        autoescape=html,
        finalize=_sanitised if html else _one_line,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=_Undefined,
    )
    environment.globals |= {
        name: getattr(words, name)
        for name in ("aligned", "counted", "percent", "quoted", "readable", "shortened")
    } | {
        "MEASURES": MEASURES,
        "belief_words": belief_words,
        "both_scores": both_scores,
        "capital": lambda text: text[:1].upper() + text[1:],
        "comparison_words": comparison_words,
        "measured_words": measured_words,
        "number": number,
        "score_notes": score_notes,
        "score_table": _score_table,
        "sentence": sentence,
        "version": __version__,
        "width": _width,
    }  # fmt: skip
    environment.filters["lines"] = str.splitlines
    return environment


def clean(text: str) -> str:
    """The text without characters that a document must not have."""
    return _FORBIDDEN.sub("\ufffd", text)


def _sanitised(value: Any) -> Any:
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean(value)


def _one_line(value: Any) -> Any:
    """Text in one line, without what would move a terminal's cursor or colour its text."""
    return clean(" ".join(value.splitlines())) if isinstance(value, str) else value


def sentence(text: str) -> Markup:
    """Text in which quoted right-to-left names do not change the direction of the text after them."""
    text = clean(text).replace(" ± ", "\u00a0±\u00a0")
    parts = _QUOTED_RTL.split(text)  # every second part is such a name
    isolated = Markup("<bdi>{}</bdi>")
    return Markup("").join(isolated.format(part) if i % 2 else part for i, part in enumerate(parts))


def _width(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.1f}%" if math.isfinite(share) else "0%"


def _score_table(scores: dict[str, Any]) -> list[list[str]]:
    """A head, then a row for each model: its measures ± standard errors, and the gain over it."""
    names = [name for name in MEASURES if name in scores["model"]["measures"]]
    main = scores["main"]
    measures = [MEASURES[name] for name in names]
    heads = [measure.label + (" ↓" if measure.smaller else "") for measure in measures]
    table = [["", *heads, f"gain in {MEASURES[main].label}"]]
    for model in (scores["model"], *scores["baselines"]):
        measured = model["measures"]
        cells = [measured_words(name, measured[name]) if name in measured else "" for name in names]
        gain = measured_words(main, model["gain"]) if "gain" in model else ""
        table.append([model["name"], *cells, gain])
    return table
