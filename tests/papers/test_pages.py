"""The pages of docs/papers are those that the stored numbers give."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from papers import __main__, summary
from papers.page import PAGES, VERDICTS, Page

pytest.importorskip("matplotlib")


def test_the_pages_are_not_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(PAGES / "results", tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["papers", "--pages", "--out", str(tmp_path)])
    __main__.main()
    for name in (*__main__.KEYS, "index"):
        written, kept = (folder / f"{name}.md" for folder in (tmp_path, PAGES))
        assert written.read_text("utf-8") == kept.read_text("utf-8"), (
            f"run python -m papers --pages: {name}"
        )
    pictures = [sorted(path.name for path in folder.glob("images/*")) for folder in (tmp_path, PAGES)]
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("key", __main__.KEYS)
def test_every_table_and_figure_has_results_and_a_verdict(key: str) -> None:
    paper = __main__.paper(key)
    for part in paper.parts:
        assert (PAGES / "results" / f"{key}-{part.name}.json").exists()
    found = list(summary.verdicts(PAGES / f"{key}.md"))
    assert {kind for *_, kind in found} <= set(VERDICTS)
    assert len(found) >= len(paper.parts)


def test_a_heading_of_two_has_two_verdicts_or_one_for_both(tmp_path: Path) -> None:
    page = tmp_path / "some.md"
    page.write_text(
        "## Table I and Figure 1: time\n**Reproduced:** a.\n**Not reproduced:** b.\n", "utf-8"
    )
    assert list(summary.verdicts(page)) == [
        ("Table I", "time", "Reproduced"),
        ("Figure 1", "time", "Not reproduced"),
    ]
    page.write_text("## Table I and Figure 1: time\n**Reproduced:** a.\n## Table 2: x\n", "utf-8")
    assert list(summary.verdicts(page)) == [
        ("Table I and Figure 1", "time", "Reproduced"),
        ("Table 2", "x", "Not run yet"),
    ]


def test_a_verdict_is_one_of_three() -> None:
    with pytest.raises(ValueError, match="a verdict is one of"):
        Page(PAGES).verdict("Perhaps", "who knows")
