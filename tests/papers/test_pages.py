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
    for name in (*__main__.ALL, "index"):
        written, kept = (folder / f"{name}.md" for folder in (tmp_path, PAGES))
        assert written.read_text("utf-8") == kept.read_text("utf-8"), (
            f"run python -m papers --pages: {name}"
        )
    pictures = [sorted(path.name for path in folder.glob("images/*")) for folder in (tmp_path, PAGES)]
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("key", __main__.ALL)
def test_every_part_has_results(key: str) -> None:
    for part in __main__.paper(key).parts:
        assert (PAGES / "results" / f"{key}-{part.name}.json").exists()


@pytest.mark.parametrize("key", __main__.KEYS)
def test_every_table_figure_and_theorem_has_a_verdict(key: str) -> None:
    judged = list(summary.verdicts(PAGES / f"{key}.md"))
    assert len(judged) == len(__main__.paper(key).parts)
    assert all(set(kinds) <= set(VERDICTS) for *_, kinds in judged)


def test_a_part_has_every_kind_of_verdict_once(tmp_path: Path) -> None:
    page = tmp_path / "some.md"
    page.write_text(
        "# Some\n## Table I and Figure 1: time\n**Reproduced:** a.\n\n**Claims hold:** b.\n"
        "## Table 2: x\n**Cannot be tested:** c.\n\n**Reproduced:** d.\n\n**Reproduced:** e.\n"
        "## Figure 3: y\n**Perhaps:** f.\n",
        "utf-8",
    )
    assert list(summary.verdicts(page)) == [
        ("Table I and Figure 1", "time", ("Reproduced", "Claims hold")),
        ("Table 2", "x", ("Cannot be tested", "Reproduced")),
        ("Figure 3", "y", ("Not run yet",)),
    ]


def test_the_index_counts_parts_and_states_the_rule() -> None:
    text = (PAGES / "index.md").read_text("utf-8")
    parts = [row for key in __main__.KEYS for row in summary.verdicts(PAGES / f"{key}.md")]
    reproduced = sum("Reproduced" in kinds for *_, kinds in parts)
    assert f"in {len(parts)} parts" in text
    assert f"printed numbers are reproduced in {reproduced} parts" in text
    for kind in VERDICTS:
        assert f"| {kind} |" in text


def test_a_verdict_is_one_of_five() -> None:
    with pytest.raises(ValueError, match="a verdict is one of"):
        Page(PAGES).verdict("Perhaps", "who knows")
