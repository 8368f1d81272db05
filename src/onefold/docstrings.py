"""Parameters that several classes share are described once; each class shows all of its own.

An entry of a docstring whose text is "As in :class:`X`." takes the entries of these names from X.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TypeVar

Class = TypeVar("Class", bound=type)

_SECTION = re.compile(r"(?:^|\n\n)(Parameters|Attributes)\n-+\n(.*?)(?=\n\n\w|\Z)", re.DOTALL)
# One line of names, or several that end with a comma, and the lines that are indented below.
_ENTRY = re.compile(r"((?:\S.*,\n)*\S.*)((?:\n(?: .*)?)*)(?:\n|\Z)")


def entries(doc: str, section: str) -> list[tuple[tuple[str, ...], str]]:
    """The entries of a section of a numpydoc docstring: the names, and the whole text of each."""
    body = next((text for name, text in _SECTION.findall(doc) if name == section), "")
    section_entries = []
    for head, text in _ENTRY.findall(body):
        names = tuple(re.split(r",\s+", head.partition(" : ")[0].strip()))
        section_entries.append((names, head + text.rstrip()))
    return section_entries


def shared_docs(*sources: type) -> Callable[[Class], Class]:
    """Fill in the entries of a class that say "As in" one of `sources`."""
    by_name = {source.__name__: source for source in sources}

    def complete(cls: Class) -> Class:
        if not cls.__doc__:  # python -OO
            return cls
        doc = inspect.cleandoc(cls.__doc__)
        for section in ("Parameters", "Attributes"):
            for names, text in entries(doc, section):
                place = re.search(r"\n +As in :class:`(\w+)`\.\Z", text)
                if place is not None and place[1] in by_name:
                    source = by_name[place[1]]
                    shared = entries(inspect.cleandoc(source.__doc__ or ""), section)
                    parts = [part for shared_names, part in shared if set(shared_names) & set(names)]
                    doc = doc.replace(text, "\n".join(parts))
        cls.__doc__ = doc
        return cls

    return complete
