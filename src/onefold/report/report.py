"""The report as an object: its facts, and the forms that they take."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from onefold.facts.words import plain
from onefold.machine.files import replacing
from onefold.report.pictures import Picture, pictures_of
from onefold.report.rendering import compact, page, text_of


class Report:
    """What :func:`onefold.report.gather` found out about a model.

    Parameters
    ----------
    facts : dict
        Plain values by section.
    estimator : estimator
        For the pictures.
    y : ndarray or None
        The targets that it was fitted on, for the pictures that need them.
    """

    def __init__(self, facts: dict[str, Any], estimator: Any, y: Any = None) -> None:
        self._facts = facts
        self._estimator = estimator
        self._y = y

    def as_dict(self) -> dict[str, Any]:
        """The facts in what JSON has; undefined numbers are None."""
        found: dict[str, Any] = plain(self._facts)
        return found

    def text(self) -> str:
        """The facts for a terminal."""
        return text_of(self._facts)

    def html(self) -> str:
        """The page: one document that needs nothing but a browser."""
        pictures, missing = self._pictures
        return page(self._facts, pictures, missing)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, whole or not at all; the folder must exist."""
        refuse_place(path)
        text = self.html()
        with replacing(Path(path)) as temporary:
            temporary.write_text(text, encoding="utf-8")

    @cached_property
    def _pictures(self) -> tuple[list[Picture], str | None]:
        return pictures_of(self._estimator, self._y)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<onefold report: {' '.join(self._facts['answer'])}>"

    def _repr_html_(self) -> str:
        return compact(self._facts)


def refuse_place(path: str | os.PathLike[str]) -> None:
    """Raise if nothing can be written there, before any long work."""
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"{place} is a directory; name a file in it, as {place / 'report.html'}.")
    if not place.parent.is_dir():
        raise ValueError(
            f"there is no directory {place.parent} to write {place.name} in; make it first."
        )
