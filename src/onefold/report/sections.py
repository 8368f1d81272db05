"""The sections of the page, each from its own facts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from onefold.report.answer import LABELS, error_number, number, percent_short, smaller_is_better
from onefold.report.kept_aside import test_words
from onefold.report.markup import Markup, element, escaped, joined, named, sentence, table
from onefold.report.words import counted, percent, readable

_SHOWN_SHARES = 15
_SHOWN_ALONE = 10
_OPTIMISTIC = " The model was chosen by such predictions, which makes its scores slightly optimistic."
_LOSSES = {"mean absolute error": "mae", "error rate": "accuracy"}


def question_line(question: dict[str, Any]) -> Markup:
    """What was asked of which rows."""
    target = named(question["target"]) if question["target"] else escaped("the target")
    words = ["Predict ", element("strong", target), f" ({question['task']}"]
    classes = question["classes"]
    if classes:
        words.append(f", {len(classes)} classes")
    words.append(")")
    if question["rows"] is not None:
        words.append(f" from {counted(question['rows'], 'row')}")
    if question["columns"] is not None:
        words.append(f" with {counted(question['columns'], 'column')}")
    words.append(f", as {counted(question['features'], 'feature')}.")
    lines = [element("p", *words)]
    if question.get("assumed"):
        lines.append(element("p", f"The rows are {question['assumed']}.", class_="soft"))
    return joined(lines)


def answer_section(facts: dict[str, Any]) -> Markup:
    """The three sentences."""
    sentences = element("ol", *(element("li", sentence(one)) for one in facts["answer"]))
    return element("div", sentences, class_="answer")


def scores_section(
    scores: dict[str, Any], ran: dict[str, Any], test: dict[str, Any] | None = None
) -> Markup:
    """Measures with intervals beside simple models, as a table and as bars; first those of a test."""
    words = "" if not test else test_words(test)
    parts = [element("p", sentence(f"{words[:1].upper()}{words[1:]}."))] if words else []
    if "absent" in scores:
        parts.append(_absent(scores["absent"]))
        own = ran["score"]
        if own is not None:
            parts.append(element("p", f"What the choice went by: {own['label']} {own['words']}."))
        return joined(parts)
    main = scores["main"]
    untested = scores["untested"]
    how = f"{scores['how']}; {counted(scores['rows'], 'row')}"
    if untested:
        how += f" ({untested} without one: they taught the metric, or have no weight)"
    chosen = "" if ran["score"] is None or scores["new_rows"] else _OPTIMISTIC
    parts.append(element("p", f"From {how}; {scores['splits']}.{chosen}", class_="soft"))
    everyone = [scores["model"], *scores["baselines"]]
    parts.append(_score_bars(everyone, main))
    parts.append(score_table(scores))
    if scores["by_split"]:
        low, high = min(scores["by_split"]), max(scores["by_split"])
        words = f"From split to split the {LABELS[main]} goes from {number(main, low)}"
        parts.append(element("p", f"{words} to {number(main, high)}.", class_="soft"))
    parts += [element("p", f"{note}.", class_="soft") for note in scores["notes"]]
    return joined(parts)


def score_table(scores: dict[str, Any]) -> Markup:
    """Every measure of every model, ± standard errors, and what this model gains."""
    names = [name for name in LABELS if name in scores["model"]["measures"]]
    rows = []
    for one in (scores["model"], *scores["baselines"]):
        cells: list[str] = [one["name"]]
        for name in names:
            measure = one["measures"].get(name)
            cells.append("" if measure is None else _with_error(name, measure))
        gain = one.get("gain")
        cells.append("" if gain is None else _with_error(scores["main"], gain))
        rows.append(cells)
    heads = ["", *(f"{LABELS[name]}{' ↓' if smaller_is_better(name) else ''}" for name in names)]
    heads.append(f"gain in {LABELS[scores['main']]}")
    caption = "Measures ± standard error (↓: smaller is better); gains are paired on the same rows"
    return table(caption, heads, rows, frozenset(range(1, len(heads))))


def importance_section(found: dict[str, Any]) -> Markup:
    """The greatest shares as bars."""
    if "absent" in found:
        return _absent(found["absent"])
    shares = list(found["shares"].items())[:_SHOWN_SHARES]
    largest = max((share for _, share in shares), default=1.0) or 1.0
    rest = len(found["shares"]) - len(shares) + found["more"]
    parts = [element("p", f"The {found['how']}.", class_="soft")]
    parts.append(bars([(named(name), share / largest, percent_short(share)) for name, share in shares]))
    if rest:
        parts.append(element("p", f"{counted(rest, 'other')} beside these.", class_="soft"))
    return joined(parts)


def worst_section(found: dict[str, Any]) -> Markup:
    """Slices and rows."""
    if "absent" in found:
        return _absent(found["absent"])
    what, overall = found["what"], _loss(found["what"], found["overall"])
    looked = f"{counted(found['looked'], 'slice')} of at least {found['fewest_rows']} rows looked at"
    parts = []
    if found["found"]:
        rows = [
            [
                element("span", named(one["column"]), " ", named(one["where"])),
                f"{one['rows']} ({percent(one['share'])})",
                _loss(what, one["loss"]),
                _loss(what, one["rest"]),
            ]
            for one in found["found"]
        ]
        caption = f"Slices that are significantly worse ({looked}; {what} of all rows {overall})"
        heads = ["slice", "rows", what, "all other rows"]
        parts.append(table(caption, heads, rows, frozenset({1, 2, 3})))
        if found["more"]:
            parts.append(element("p", f"{found['more']} more are worse too.", class_="soft"))
    else:
        words = f"No slice is significantly worse than the rest ({looked}; {what} {overall})."
        if not found["looked"]:
            words = f"Too few rows for slices, which take {found['fewest_rows']} ({what} {overall})."
        parts.append(element("p", words))
    if found["rows"]:
        rows = [
            [named(one["row"]), _cell(one["target"]), _cell(one["prediction"])] for one in found["rows"]
        ]
        heads = ["row", "target", "prediction"]
        parts.append(table("The rows that it is most wrong about", heads, rows, frozenset({1, 2})))
    return joined(parts)


def trust_section(found: dict[str, Any]) -> Markup:
    """The verdict, and what it rests on."""
    return element("p", f"{found['words'][:1].upper()}{found['words'][1:]}.")


def data_section(data: dict[str, Any], question: dict[str, Any], cautions: Sequence[str]) -> Markup:
    """Warnings first, then what the columns and the target are like."""
    if "absent" in data:
        return _absent(data["absent"])
    parts = []
    warnings = [*cautions, *data["warnings"]]
    if warnings:
        items = [element("li", sentence(f"{one[:1].upper()}{one[1:]}.")) for one in warnings]
        parts.append(element("ul", *items, class_="warnings"))
    else:
        parts.append(element("p", "Nothing to warn of."))
    copies = data["duplicates"]
    more = f"; {data['more_columns']} more were not looked at" if data["more_columns"] else ""
    lines = [
        ("columns", f"{data['columns']}, {data['numeric']} of them numbers{more}"),
        ("rows with a copy", str(copies["rows"])),
    ]
    if "target" in data:
        target = data["target"]
        lines.append(
            ("target", ", ".join(f"{name} {readable(value)}" for name, value in target.items()))
        )
    parts.append(definitions(lines))
    if "classes" in data:
        total = sum(data["classes"].values()) or 1
        rows = [
            (named(label), count / max(data["classes"].values()), f"{count} ({percent(count / total)})")
            for label, count in list(data["classes"].items())[:_SHOWN_SHARES]
        ]
        parts += [element("h3", "Classes"), bars(rows)]
    alone = [(named(name), share) for name, share in data["alone"].items() if share > 0.01]
    if alone:
        shown = [(name, min(share, 1.0), percent_short(share)) for name, share in alone[:_SHOWN_ALONE]]
        words = "What each column explains all by itself, of what a constant prediction leaves open."
        parts += [element("h3", "Columns alone"), element("p", words, class_="soft"), bars(shown)]
    if data["missing"]:
        gaps = sorted(data["missing"].items(), key=lambda item: -item[1])[:_SHOWN_SHARES]
        rows = [
            (named(n), count / question["rows"], percent(count / question["rows"])) for n, count in gaps
        ]
        parts += [element("h3", "Missing values"), bars(rows)]
    return joined(parts)


def definitions(lines: Sequence[tuple[str, str]]) -> Markup:
    """Labels and values."""
    pairs = [element("dt", label) + element("dd", value) for label, value in lines]
    return element("dl", *(Markup(pair) for pair in pairs))


def bars(rows: Sequence[tuple[Markup, float, str]]) -> Markup:
    """A bar for each of some shares of 1, with its name and its number."""
    items = [
        element(
            "li",
            element("span", name),
            _bar(length, None, own=True),
            element("span", words, class_="value"),
        )
        for name, length, words in rows
    ]
    return element("ul", *items, class_="bars")


def _score_bars(models: list[dict[str, Any]], main: str) -> Markup:
    """The main measure of every model with its interval, on one scale."""
    values = [one["measures"][main] for one in models if main in one["measures"]]
    top = 1.0
    if smaller_is_better(main):
        top = max((one["high"] for one in values if math.isfinite(one["high"])), default=1.0) or 1.0
    items = []
    for one in models:
        measure = one["measures"].get(main)
        if measure is None or not math.isfinite(measure["value"]):
            continue
        span = (measure["low"] / top, measure["high"] / top)
        items.append(
            element(
                "li",
                element("span", one["name"]),
                _bar(measure["value"] / top, span, own="gain" not in one),
                element("span", number(main, measure["value"]), class_="value"),
            )
        )
    words = element("h3", f"{LABELS[main][:1].upper()}{LABELS[main][1:]}, with 95 % intervals")
    return joined([words, element("ul", *items, class_="bars")])


def _bar(length: float, span: tuple[float, float] | None, *, own: bool) -> Markup:
    parts = [element("span", style=f"width:{_share(length)}")]
    if span is not None and all(map(math.isfinite, span)):
        low, high = (min(max(end, 0.0), 1.0) for end in span)
        style = f"left:{_share(low)};width:{_share(high - low)}"
        parts.append(element("span", class_="range", style=style))
    return element("span", *parts, class_="bar own" if own else "bar", aria_hidden="true")


def _share(value: float) -> str:
    return f"{100 * min(max(value, 0.0), 1.0):.1f}%" if math.isfinite(value) else "0%"


def _with_error(name: str, measure: dict[str, float]) -> Markup:
    value = escaped(number(name, measure["value"]))
    if not math.isfinite(measure["error"]):
        return value
    error = error_number(name, measure["error"])
    return Markup(value + element("span", f" ± {error}", class_="error"))


def _loss(what: str, value: float) -> str:
    return number(_LOSSES[what], value)


def _cell(value: Any) -> Markup:
    return escaped(readable(value)) if isinstance(value, float) else named(str(value))


def _absent(why: str) -> Markup:
    return element("p", f"Not here: {why}.", class_="soft")
