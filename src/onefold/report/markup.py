"""HTML in which no text can become markup: the function that makes elements escapes what it is given.

Text from people may hold anything: tags, quotes, letters from right to left, control characters. Those
that no document may hold, and those that turn the writing direction of what follows, are shown as �.
"""

from __future__ import annotations

import html
import re

_UNFIT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
_QUOTED_RTL = re.compile("(?<=')([^']*[\u0590-\u08ff\ufb1d-\ufdfd\ufe70-\ufefc][^']*)(?=')")
_EMPTY = frozenset({"img", "meta", "br", "hr", "link"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def clean(text: str) -> str:
    """The text without characters that a document must not hold."""
    return _UNFIT.sub("\ufffd", text)


def escaped(text: str) -> Markup:
    """Text as it reads, whatever it holds."""
    return text if isinstance(text, Markup) else Markup(html.escape(clean(text)))


def element(name: str, /, *children: str, **attributes: str | None) -> Markup:
    """An element; children are escaped unless they are Markup, attributes always.

    Underscores in names of attributes become hyphens, and one at the end goes: ``class_``.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(clean(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _EMPTY:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{''.join(map(escaped, children))}</{name}>")


def joined(parts: list[Markup]) -> Markup:
    """Several pieces, one after the other."""
    return Markup("\n".join(parts))


def named(name: str) -> Markup:
    """A name of somebody's, in its own writing direction."""
    return element("bdi", name)


def sentence(text: str) -> Markup:
    """Text in which quoted names that are written from right to left do not turn what follows."""
    parts = _QUOTED_RTL.split(text)  # every second part is such a name
    return Markup("".join(named(part) if i % 2 else escaped(part) for i, part in enumerate(parts)))


def table(
    caption: str, heads: list[str], rows: list[list[str]], numbers: frozenset[int] = frozenset()
) -> Markup:
    """A table that scrolls by itself where it is too wide; the first cell of each row names it.

    `numbers` are the columns that are set to the right.
    """
    kind = ["number" if j in numbers else None for j in range(len(heads))]
    top = element("tr", *(element("th", h, scope="col", class_=c) for h, c in zip(heads, kind)))
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=c) for cell, c in zip(row[1:], kind[1:])),
        )
        for row in rows
    ]
    whole = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", top),
        element("tbody", *body),
    )
    return element("div", whole, class_="scroll", role="region", aria_label=caption, tabindex="0")
