"""Blocks of the README and the docs run as they stand, each by itself, from a copy of the repository.

`make readme` runs those of the README one after the other, as somebody new would run them.

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
from unittest.mock import patch

import pytest

import onefold.approximations.base as approximations
import onefold.search.strategies as strategies
from onefold.cli import main
from onefold.cli.options import build_parser
from onefold.facts.measures import MEASURES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = (DOCS / "_build", DOCS / "gallery", DOCS / "api" / "generated")
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in DOCS.rglob("*.md") if not set(BUILT) & set(page.parents)),
]
# Blocks of three backticks; those of more, which hold others, are directives of the site.
FENCE = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n+)?^```(?!`)(?P<kind>\{?\w*\}?)[^\n]*\n(?P<text>.*?)^```$",
    re.M | re.S,
)
SHOWN = {"text", "{toctree}", "{include}"}  # kinds that are not run


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
    if "device=" in text:
        pytest.importorskip("torch")
    # Classes find their module by its name; what a block registers is known in that block alone.
    module = ModuleType("block")
    monkeypatch.setitem(sys.modules, "block", module)
    monkeypatch.setattr(approximations, "_BY_NAME", dict(approximations._BY_NAME))
    monkeypatch.setattr(strategies, "STRATEGIES", dict(strategies.STRATEGIES))
    with patch.dict(MEASURES):
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
    assert {match["kind"] for match in FENCE.finditer(_all_text())} <= {"", "shell", "python"} | SHOWN
    assert not re.search(r"^[ \t>]+```", _all_text(), re.M), "blocks that no test would find"
    assert len(blocks("python")) >= 9
    assert sum("onefold " in block.values[0] for block in blocks("shell")) >= 3


def test_commands_in_the_text_are_spelled_right():
    spans = re.findall(
        r"`onefold ((?:tune|predict|plan|report|inspect|compress|demo)(?: [^`]*)?)`", _all_text()
    )
    for span in spans:
        words = shlex.split(span)
        if len(words) > 1 and "--help" not in words:
            assert build_parser().parse_args(words).command == words[0]
    assert any(len(span.split()) > 1 for span in spans)


def test_benchmarks_and_tools_in_the_text_exist():
    named = set(re.findall(r"python -m ((?:benchmarks|papers|tests\.tools)[.\w]*)", _all_text()))
    assert {name.split(".")[0] for name in named} >= {"benchmarks", "papers"}
    for name in named:
        path = ROOT / name.rstrip(".").replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), name


def test_links_lead_somewhere():
    for page in {*PAGES, *ROOT.glob("*.md")}:
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", prose):
            target = (page.parent / link).resolve()
            if target.parent == DOCS / "gallery":  # pages that are made from the examples
                target = ROOT / "examples" / target.with_suffix(".py").name
            assert link.startswith(("http", "mailto:")) or target.exists(), (page.name, link)


def test_the_readme_imports_what_its_installation_brings():
    """`make readme` runs the page from top to bottom in an environment of its own."""
    readme = PAGES[0].read_text(encoding="utf-8")
    assert readme.index("## Installing") < readme.index("## From the shell")
    assert len(readme.splitlines()) <= 120
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["plot"]]
    installed = {re.split(r"[^\w-]", line)[0].lower() for line in requirements}
    installed = {{"scikit-learn": "sklearn"}.get(name, name) for name in installed} | {"onefold"}
    for match in FENCE.finditer(readme):
        if match["kind"] == "python":
            imported = re.findall(r"^(?:import|from) (\w+)", match["text"], re.M)
            assert set(imported) <= installed


def test_every_page_is_in_a_table_of_contents():
    """The site's index leads to each page, and to none that is missing."""
    todo = [DOCS / "index.md"]
    reached = set()
    while todo:
        page = todo.pop()
        if page in reached:
            continue
        reached.add(page)
        for match in FENCE.finditer(page.read_text(encoding="utf-8")):
            if match["kind"] == "{toctree}":
                todo += _entries(page, match["text"])
    assert reached >= set(PAGES[1:])


def _entries(page: Path, toctree: str) -> list[Path]:
    """The pages that a table of contents names; those in reStructuredText have no others."""
    found: list[Path] = []
    for line in toctree.splitlines():
        entry = re.sub(r"^.* <(.+)>$", r"\1", line.strip())  # with a title of its own
        if entry and not entry.startswith(":") and entry not in {"gallery/index", "api/index"}:
            new = sorted(set(page.parent.glob(f"{entry}.md")) - {page})
            assert new, (page.name, entry)
            found += new
    return found


def test_the_start_shows_what_is_printed(clone, capsys):
    """Words exactly, numbers to three digits: the first block of output, and the file of predictions."""
    page = (DOCS / "start.md").read_text(encoding="utf-8")
    tune = next(match["text"] for match in FENCE.finditer(page) if "onefold tune" in match["text"])
    for command in tune.splitlines():
        assert main(shlex.split(command)[1:]) == 0
    printed = capsys.readouterr().out + Path("prices.csv").read_text(encoding="utf-8")
    lines = [_words_and_numbers(line) for line in printed.splitlines()]
    shown = "".join(match["text"] for match in FENCE.finditer(page) if match["kind"] == "text")
    assert len(shown.splitlines()) > 20
    for line in shown.splitlines():
        if line.strip() not in {"", "..."} and not line.startswith("  search time"):
            words, numbers = _words_and_numbers(line)
            near = [found for known, found in lines if known == words]
            assert any(found == pytest.approx(numbers, rel=2e-3) for found in near), line


def _words_and_numbers(line: str) -> tuple[list[str], list[float]]:
    number = r"(?<![\w.^])-?\d+(?:\.\d+)?"
    return re.sub(number, "#", line).split(), [float(one) for one in re.findall(number, line)]


def test_figures_of_the_readme_are_those_of_the_pages_with_measurements():
    readme, peers, large = (
        (ROOT / name).read_text(encoding="utf-8").replace("\xa0", " ")
        for name in ("README.md", "docs/peers/index.md", "docs/studies/large.md")
    )
    found = re.search(
        r"lower test error (on \d+ of \d+ tables); (geometric mean [^|]+ at the median)", readme
    )
    line = next(line for line in peers.splitlines() if line.startswith("- LightGBM"))
    assert all(part in line for part in found.groups())
    on_a_gpu = r"\| %s, ([\d,]+) rows, [^|]+ \| (\d\.\d\d %%) wrong, ([\d.]+) s \|"
    rows, error, seconds = re.search(on_a_gpu % "mnist", readme).groups()
    assert f"| mnist | {rows} | {error}, {seconds} s |" in peers
    rows, error, seconds = re.search(on_a_gpu % "covtype", readme).groups()
    line = next(line for line in large.splitlines() if line.startswith(f"| covtype | {rows} |"))
    measured = line.split(" | ")
    assert [measured[2], measured[4]] == [error, seconds]


def _all_text() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
