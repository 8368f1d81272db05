"""What a page must be, by the parser of the standard library."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise

EMPTY = {"meta", "img", "br", "hr", "link"}


class Page(HTMLParser):
    """A page taken apart; raises where elements do not close in order."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self._inside: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), names
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def all(self, *tags: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.elements if tag in tags]


def check_page(text: str) -> Page:
    """Well-formed, labelled, in order, from nowhere else."""
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in page.elements if tag in {"h1", "h2", "h3", "h4"}]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.all("html")[0]["lang"] == "en"
    assert all(one.get("alt") for one in page.all("img"))
    assert all(one.get("aria-labelledby") or one.get("aria-label") for one in page.all("svg"))
    assert not page.all("script", "link", "iframe", "object", "form", "base")
    assert len(page.all("main")) == len(page.all("title")[:1]) == 1
    assert len(page.all("table")) == len(page.all("caption"))
    assert all("scope" in one for one in page.all("th"))
    for tag, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href"):
            value = attributes.get(name, "#")
            assert value.startswith(("#", "data:image/")), (tag, value[:60])
        assert attributes.get("href", "#") == "#" or attributes["href"][1:] in ids or tag not in {"a"}
        for reference in attributes.get("aria-labelledby", "").split():
            assert reference in ids
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")
    return page
