"""The facts as text for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from onefold.report.answer import LABELS, error_number, number, percent_short
from onefold.report.kept_aside import test_words
from onefold.report.markup import clean
from onefold.report.words import counted, percent

_SHOWN = 8


def text_of(facts: dict[str, Any]) -> str:
    """Every section that fits into lines; the page has more."""
    lines = [facts["title"], "", *facts["answer"]]
    assumed = facts["question"].get("assumed")
    if assumed:
        lines += ["", f"The rows are {assumed}."]
    for heading, body in (
        ("How good it is", [*_test(facts["test"]), *_scores(facts["scores"])]),
        ("What ran and why", _aligned(facts["ran"]["lines"])),
        ("What matters", _importances(facts["importances"])),
        ("Where it is worst", _worst(facts["worst"])),
        ("Trust", [f"  {facts['trust']['words']}"]),
        ("The rows", _data(facts["data"], facts["cautions"])),
        ("The environment", _aligned(facts["environment"])),
        ("To repeat it", [f"  {part}" for line in facts["repeat"] for part in line.split("\n")]),
    ):
        lines += ["", heading, *body]
    return "\n".join(_one_line(line) for line in lines)


def _one_line(text: str) -> str:
    """Names may hold line breaks, and what would move a terminal's cursor or colour its text."""
    return clean(re.sub(r"[\t\r\n\u2028\u2029]+", " ", text))


def _test(test: dict[str, Any] | None) -> list[str]:
    return [f"  {test_words(test)}"] if test else []


def _scores(scores: dict[str, Any]) -> list[str]:
    if "absent" in scores:
        return [f"  not here: {scores['absent']}"]
    names = [name for name in LABELS if name in scores["model"]["measures"]]
    rows = [["", *(LABELS[name] for name in names)]]
    for one in (scores["model"], *scores["baselines"]):
        cells = [_measure(name, one["measures"].get(name)) for name in names]
        rows.append([one["name"], *cells])
    return [*_table(rows), f"  ({scores['how']}; {scores['splits']})"]


def _measure(name: str, measure: dict[str, float] | None) -> str:
    if measure is None:
        return ""
    return f"{number(name, measure['value'])} ± {error_number(name, measure['error'])}"


def _importances(found: dict[str, Any]) -> list[str]:
    if "absent" in found:
        return [f"  not here: {found['absent']}"]
    shares = list(found["shares"].items())[:_SHOWN]
    return _aligned([(name, percent_short(share)) for name, share in shares])


def _worst(found: dict[str, Any]) -> list[str]:
    if "absent" in found:
        return [f"  not here: {found['absent']}"]
    what, name = found["what"], "mae" if found["what"] != "error rate" else "accuracy"
    lines = [
        (
            f"{one['column']} {one['where']}",
            f"{what} {number(name, one['loss'])} against {number(name, one['rest'])} of the others "
            f"({percent(one['share'])} of the rows)",
        )
        for one in found["found"]
    ]
    none = f"no slice of {found['looked']} is significantly worse"
    if not found["looked"]:
        none = f"too few rows for slices, which take {found['fewest_rows']}"
    text = _aligned(lines) if lines else [f"  {none}"]
    if found["rows"]:
        text.append(f"  most wrong: rows {', '.join(str(one['row']) for one in found['rows'])}")
    return text


def _data(data: dict[str, Any], cautions: Sequence[str]) -> list[str]:
    if "absent" in data:
        return [f"  not here: {data['absent']}"]
    warnings = [f"  warning: {one}" for one in [*cautions, *data["warnings"]]]
    words = f"  {counted(data['columns'], 'column')}, {data['numeric']} of them numbers"
    if data["more_columns"]:
        words += f"; {data['more_columns']} more were not looked at"
    return [words, *(warnings or ["  nothing to warn of"])]


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(label) for label, _ in rows), default=0)
    return [f"  {label.ljust(width)}  {text}" for label, text in rows]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return [
        "  " + "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))])
        for row in rows
    ]
