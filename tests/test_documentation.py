"""Blocks of the README and the docs run as they stand, each by itself, from a copy of the repository.

Those of the README also run one after the other, as somebody new would run them.

A block that should not be run has a line ``<!-- not run: REASON -->`` before it.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import onefold.approximations.base as approximations
import onefold.search.strategies as strategies
from onefold.cli import main
from onefold.cli.options import build_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n+)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.M | re.S
)


def blocks(kind: str) -> list:
    """The blocks of one kind (unmarked ones are for the shell), named by page and line."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start("text")) + 1
            if (match["kind"] or "shell") == kind:
                where = f"{page.relative_to(ROOT)}:{line}"
                found.append(pytest.param(match["text"], match["why"], id=where))
    return found


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A directory with the sample tables, as a clone has."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("text", "why"), blocks("python"))
def test_python_blocks(clone, monkeypatch, text, why):
    if why:
        pytest.skip(why)
    # Classes find their module by its name; what a block registers is known in that block alone.
    module = ModuleType("block")
    monkeypatch.setitem(sys.modules, "block", module)
    monkeypatch.setattr(approximations, "_BY_NAME", dict(approximations._BY_NAME))
    monkeypatch.setattr(strategies, "STRATEGIES", dict(strategies.STRATEGIES))
    exec(compile(text, "block", "exec"), module.__dict__)


@pytest.mark.parametrize(("text", "why"), blocks("shell"))
def test_shell_blocks(clone, capsys, text, why):
    commands = [line for line in text.splitlines() if line.startswith("onefold ")]
    if why:
        pytest.skip(why)
    for command in commands:
        assert main(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err
    # Whatever else stands in a block is a target of the Makefile or part of the installation.
    others = [line for line in text.splitlines() if line not in commands]
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    for line in others:
        known = any(re.match(rf"make {target}\b", line) for target in targets)
        assert known or line.startswith(("python3 -m venv .venv", "pip install ")), line


def test_there_are_blocks_of_both_kinds():
    assert {match["kind"] for match in FENCE.finditer(_all_text())} <= {"", "shell", "python"}
    assert len(blocks("python")) >= 9
    assert sum("onefold " in block.values[0] for block in blocks("shell")) >= 3


def test_commands_in_the_text_are_spelled_right():
    spans = re.findall(r"`onefold ((?:tune|predict|plan|report|inspect|demo)(?: [^`]*)?)`", _all_text())
    for span in spans:
        words = shlex.split(span)
        if len(words) > 1 and "--help" not in words:
            assert build_parser().parse_args(words).command == words[0]
    assert any(len(span.split()) > 1 for span in spans)


def test_benchmarks_and_tools_in_the_text_exist():
    named = set(re.findall(r"python -m (benchmarks\.\w+|tests\.tools\.\w+)", _all_text()))
    assert named
    for name in named:
        assert (ROOT / f"{name.replace('.', '/')}.py").exists(), name


def test_links_lead_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("http") or (page.parent / link).exists(), (page.name, link)


def test_the_readme_from_top_to_bottom(clone, capsys):
    """In one new folder, in the order of the page, with nothing but what its installation brings."""
    readme = PAGES[0].read_text(encoding="utf-8")
    assert readme.index("## Installing") < readme.index("## From the shell")
    assert len(readme.splitlines()) <= 125
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [*project["dependencies"], *project["optional-dependencies"]["plot"]]
    brought = {re.split(r"[^\w-]", line)[0].lower() for line in named}
    brought = {{"scikit-learn": "sklearn"}.get(name, name) for name in brought} | {"onefold"}
    for match in FENCE.finditer(readme):
        if match["kind"] == "python":
            imported = re.findall(r"^(?:import|from) (\w+)", match["text"], re.M)
            assert set(imported) <= brought
            exec(compile(match["text"], "block", "exec"), {"__name__": "block"})
        for command in match["text"].splitlines():
            if command.startswith("onefold "):
                assert main(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        where = page.relative_to(ROOT / "docs")
        assert page.name == "README.md" or f"]({where})" in index, where


def _all_text() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
