"""A paper is a list of parts; a part computes numbers, keeps them as JSON and shows them on a page.

A page of ``docs/papers`` is written from the stored numbers of its parts, so one part can be run again
without the others, and no figure on it was typed by hand.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from benchmarks.common import Row, markdown

PAGES = Path(__file__).parents[1] / "docs" / "papers"
VERDICTS = ("Reproduced", "Not reproduced", "Claims hold", "Claims do not hold", "Cannot be tested")
"""Of numbers, of what is said about them, of what is not at hand; docs/papers/index.md has the rule."""

PartResult = dict[str, Any]
_NUMBERS = re.compile(r"\[[-+.,\deE\s]+\]")  # a list of nothing else, in JSON


@dataclass
class Page:
    """The text of a page, and the folder that it and its pictures are written to."""

    folder: Path
    lines: list[str] = field(default_factory=list)

    def text(self, *paragraphs: str) -> None:
        """Add paragraphs of Markdown."""
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def table(self, rows: Sequence[Row]) -> None:
        """Rows of equal keys as a table."""
        self.text(markdown(rows))

    def figure(self, figure: Any, name: str, description: str) -> None:
        """A matplotlib figure as images/NAME.png; `description` is its alternative text."""
        target = self.folder / "images" / f"{name}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=120, metadata={"Software": None})
        self.text(f"![{description}](images/{name}.png)")

    def verdict(self, kind: str, why: str) -> None:
        """One sentence: one of `VERDICTS`, of what, and why. A part may have several."""
        if kind not in VERDICTS:
            raise ValueError(f"a verdict is one of {', '.join(VERDICTS)}, not {kind!r}")
        self.text(f"**{kind}:** {why}")


@dataclass(frozen=True)
class Part:
    """A table or figure of a paper.

    Parameters
    ----------
    name : str
        As in ``python -m papers KEY NAME``.
    title : str
        Its heading on the page.
    run : callable
        ``run(short)`` → numbers that JSON can hold. `short` is a version of a few seconds for the tests.
    show : callable
        ``show(found, page)`` adds the numbers, beside the published ones, and a verdict to the page.
    """

    name: str
    title: str
    run: Callable[[bool], PartResult]
    show: Callable[[PartResult, Page], None]


@dataclass(frozen=True)
class Paper:
    """A paper: its key, its full reference, what the page says first, and its parts."""

    key: str
    reference: str
    introduction: str
    parts: tuple[Part, ...]
    title: str = ""  # of the page; the key by default

    def run(self, names: Sequence[str], short: bool, folder: Path = PAGES) -> None:
        """Compute the named parts (all where none is named), keep them, write the page."""
        known = [part.name for part in self.parts]
        for name in names:
            if name not in known:
                raise SystemExit(f"{self.key} has no part {name}; there are {', '.join(known)}")
        for part in self.parts:
            if not names or part.name in names:
                print(f"{self.key} {part.name}: {part.title}", flush=True)
                self._keep(part, part.run(short), folder)
                self.write(folder)

    def _keep(self, part: Part, found: PartResult, folder: Path) -> None:
        target = self._stored(part, folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(as_json({"found": found, "environment": environment()}), "utf-8")

    def _stored(self, part: Part, folder: Path) -> Path:
        return folder / "results" / f"{self.key}-{part.name}.json"

    def write(self, folder: Path = PAGES) -> Path:
        """Write KEY.md from what is stored; a part that was not run yet is named as such."""
        page = Page(folder)
        page.text(f"# {self.title or self.key}", self.reference, self.introduction)
        for part in self.parts:
            page.text(f"## {part.title}", f"`python -m papers {self.key} {part.name}`")
            stored = self._stored(part, folder)
            if not stored.exists():
                page.text("Not run yet.")
                continue
            kept = json.loads(stored.read_text("utf-8"))
            part.show(kept["found"], page)
            page.text(f"<small>{kept['environment']}</small>")
        target = folder / f"{self.key}.md"
        target.write_text("\n".join(page.lines).rstrip() + "\n", "utf-8")
        return target


def as_json(payload: dict[str, Any]) -> str:
    """Indented JSON with every list of numbers on one line."""
    text = json.dumps(payload, indent=1, default=float) + "\n"
    return _NUMBERS.sub(lambda match: " ".join(match[0].split()), text)


def columns_of(rows: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """Records of numbers as one list for each key, in six digits."""
    return {key: [float(f"{row[key]:.6g}") for row in rows] for key in rows[0]}


def rows_of(columns: dict[str, list[float]]) -> list[dict[str, float]]:
    """The records of `columns_of`."""
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def environment() -> str:
    """The machine and the versions, in one line."""
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )
