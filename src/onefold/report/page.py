"""The page: one document in plain HTML and CSS, without scripts, fonts or pictures from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from onefold._version import __version__
from onefold.report.markup import Markup, element, joined, sentence
from onefold.report.pictures import Picture
from onefold.report.sections import (
    answer_section,
    data_section,
    definitions,
    importance_section,
    question_line,
    score_table,
    scores_section,
    trust_section,
    worst_section,
)

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


def page(facts: dict[str, Any], pictures: list[Picture], no_pictures: str | None) -> str:
    """The whole document."""
    sections = [
        ("answer", "The answer", answer_section(facts)),
        ("scores", "How good it is", scores_section(facts["scores"], facts["ran"], facts["test"])),
        ("ran", "What ran and why", definitions(facts["ran"]["lines"])),
        ("pictures", "Pictures", _pictures(pictures, no_pictures)),
        ("importances", "What matters", importance_section(facts["importances"])),
        ("worst", "Where it is worst", worst_section(facts["worst"])),
        ("trust", "Can the approximation be trusted", trust_section(facts["trust"])),
        ("data", "The rows", data_section(facts["data"], facts["question"], facts["cautions"])),
        ("environment", "The environment", definitions(facts["environment"])),
        ("repeat", "To repeat it", element("pre", element("code", "\n".join(facts["repeat"])))),
    ]
    sections = [one for one in sections if one[0] != "pictures" or pictures or no_pictures]
    body = [
        element("a", "Skip to the report", href="#main", class_="skip"),
        element("header", element("h1", facts["title"]), question_line(facts["question"])),
        _contents([(key, heading) for key, heading, _ in sections]),
        element("main", *(_section(*one) for one in sections), id="main"),
        element("footer", element("p", f"Written by onefold {__version__}. Nothing here is loaded "
                                       "from elsewhere.")),
    ]  # fmt: skip
    head = [
        Markup('<meta charset="utf-8">'),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", facts["title"]),
        Markup(f"<style>\n{_style()}</style>"),
    ]
    whole = element("html", element("head", joined(head)), element("body", joined(body)), lang="en")
    return f"<!doctype html>\n{whole}\n"


def compact(facts: dict[str, Any]) -> str:
    """A few lines for a notebook, which lends its own style."""
    sentences = element("ol", *(element("li", sentence(one)) for one in facts["answer"]))
    scores = facts["scores"]
    table = Markup("") if "absent" in scores else score_table(scores)
    return element("div", element("strong", facts["title"]), sentences, table)


def _style() -> str:
    return files("onefold.report").joinpath("page.css").read_text("utf-8")


def _section(key: str, heading: str, content: Markup) -> Markup:
    name = f"{key}-heading"
    return element("section", element("h2", heading, id=name), content, id=key, aria_labelledby=name)


def _contents(entries: list[tuple[str, str]]) -> Markup:
    links = [element("li", element("a", heading, href=f"#{key}")) for key, heading in entries]
    return element("nav", element("ul", *links), aria_label="Sections")


def _pictures(pictures: list[Picture], missing: str | None) -> Markup:
    note = [] if missing is None else [element("p", f"Not here: {missing}.", class_="soft")]
    figures = [
        element(
            "figure",
            element("h3", one.title),
            one.body,
            element("figcaption", one.caption),
        )
        for one in pictures
    ]
    return joined([*note, element("div", *figures, class_="figures")])
