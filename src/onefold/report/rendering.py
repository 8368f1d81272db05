"""The facts as a page, as a few lines for a notebook, and as text: three templates of Jinja2.

Text from people may hold anything: tags, quotes, letters from right to left, control characters. Jinja2
escapes all of it; characters that no document may hold, and those that turn the writing direction of
what follows, are shown as �.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from onefold._version import __version__
from onefold.facts.words import counted, percent, readable
from onefold.report.answer import LABELS, error_number, number, percent_short, smaller_is_better
from onefold.report.kept_aside import test_words
from onefold.report.pictures import Picture

_UNFIT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_QUOTED_RTL = re.compile("(?<=')([^']*[\u0590-\u08ff\ufb1d-\ufdfd\ufe70-\ufefc][^']*)(?=')")
_BREAKS = re.compile(r"[\t\r\n\u2028\u2029]+")
_SHOWN = 8  # importances in text
_SECTIONS = (
    ("answer", "Summary"),
    ("scores", "Scores"),
    ("ran", "Model and search"),
    ("pictures", "Pictures"),
    ("importances", "Importances"),
    ("worst", "Where it is worst"),
    ("trust", "Approximation"),
    ("data", "Data"),
    ("environment", "Environment"),
    ("repeat", "Reproduce"),
)


def page(facts: dict[str, Any], pictures: list[Picture], no_pictures: str | None) -> str:
    """The whole document."""
    shown = [one for one in _SECTIONS if one[0] != "pictures" or pictures or no_pictures]
    given = {"facts": facts, "pictures": pictures, "no_pictures": no_pictures, "sections": shown}
    return _environment(True).get_template("page.html.j2").render(given).lstrip() + "\n"


def compact(facts: dict[str, Any]) -> str:
    """A few lines for a notebook, which lends its own style."""
    return _environment(True).get_template("compact.html.j2").render(facts=facts).strip()


def text_of(facts: dict[str, Any]) -> str:
    """Every section that fits into lines; the page has more."""
    return _environment(False).get_template("report.txt.j2").render(facts=facts).rstrip()


@cache
def _environment(html: bool) -> Environment:
    made = Environment(
        loader=PackageLoader("onefold.report", "."),
        autoescape=html,
        finalize=_fit if html else _one_line,
        trim_blocks=html,
        lstrip_blocks=html,
        undefined=_Undefined,
    )
    made.globals |= {
        "LABELS": LABELS,
        "aligned": _aligned,
        "capital": lambda text: text[:1].upper() + text[1:],
        "counted": counted,
        "data_lines": _data_lines,
        "error_number": error_number,
        "importance_lines": _importance_lines,
        "is_finite": math.isfinite,
        "number": number,
        "percent": percent,
        "percent_short": percent_short,
        "readable": readable,
        "score_bars": _score_bars,
        "score_lines": _score_lines,
        "sentence": sentence,
        "smaller_is_better": smaller_is_better,
        "test_words": test_words,
        "version": __version__,
        "width": _width,
    }
    return made


class _Undefined(StrictUndefined):
    """Facts that a section lacks may be asked about, as ``scores.absent``; nothing else."""

    def __bool__(self) -> bool:  # type: ignore[override]
        return False


def clean(text: str) -> str:
    """The text without characters that a document must not hold."""
    return _UNFIT.sub("\ufffd", text)


def _fit(value: Any) -> Any:
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean(value)


def _one_line(value: Any) -> Any:
    """Names may hold line breaks, and what would move a terminal's cursor or colour its text."""
    return (
        clean(re.sub(r"[\t\r\u2028\u2029]+|\n(?!  )", " ", value)) if isinstance(value, str) else value
    )


def sentence(text: str) -> Markup:
    """Text in which quoted names that are written from right to left do not turn what follows."""
    parts = _QUOTED_RTL.split(clean(text))  # every second part is such a name
    made = (Markup("<bdi>{}</bdi>").format(one) if i % 2 else one for i, one in enumerate(parts))
    return Markup("").join(made)


def _width(share: float) -> str:
    return f"{100 * min(max(share, 0.0), 1.0):.1f}%" if math.isfinite(share) else "0%"


def _score_bars(scores: dict[str, Any]) -> list[dict[str, Any]]:
    """The main measure of every model with its interval, on one scale."""
    main = scores["main"]
    models = [one for one in (scores["model"], *scores["baselines"]) if main in one["measures"]]
    values = [one["measures"][main] for one in models]
    top = 1.0
    if smaller_is_better(main):
        top = max((one["high"] for one in values if math.isfinite(one["high"])), default=1.0) or 1.0
    bars = []
    for one, measure in zip(models, values):
        if not math.isfinite(measure["value"]):
            continue
        words = number(main, measure["value"])
        bar = {"name": one["name"], "length": measure["value"] / top, "words": words}
        if math.isfinite(measure["low"]) and math.isfinite(measure["high"]):
            bar["low"], bar["high"] = (min(max(measure[end] / top, 0.0), 1.0) for end in ("low", "high"))
        bars.append(bar | {"own": "gain" not in one})
    return bars


def _score_lines(scores: dict[str, Any]) -> list[str]:
    """A table of the measures with their standard errors, in lines."""
    names = [name for name in LABELS if name in scores["model"]["measures"]]
    rows = [["", *(LABELS[name] for name in names)]]
    for one in (scores["model"], *scores["baselines"]):
        found = [one["measures"].get(name) for name in names]
        cells = [
            "" if m is None else f"{number(name, m['value'])} ± {error_number(name, m['error'])}"
            for name, m in zip(names, found)
        ]
        rows.append([one["name"], *cells])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  " + "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))])
        for row in rows
    ]


def _importance_lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, percent_short(share)) for name, share in list(found["shares"].items())[:_SHOWN]]


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(label) for label, _ in rows), default=0)
    return [f"  {label.ljust(width)}  {text}" for label, text in rows]


def _data_lines(data: dict[str, Any]) -> list[tuple[str, str]]:
    more = f"; {data['more_columns']} more were not looked at" if data["more_columns"] else ""
    lines = [
        ("columns", f"{data['columns']}, {data['numeric']} of them numbers{more}"),
        ("rows with a copy", str(data["duplicates"]["rows"])),
    ]
    if "target" in data:
        words = ", ".join(f"{name} {readable(value)}" for name, value in data["target"].items())
        lines.append(("target", words))
    return lines
