"""docs/reference/json.md lists the fields of ``--json``: all that appear, and none that do not."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.cli import main
from onefold.facts.measures import MEASURES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")


def sections() -> dict[str, dict[str, str | None]]:
    """Fields by the heading above them; the section that one refers to, where it does."""
    found: dict[str, dict[str, str | None]] = {}
    for heading, text in re.findall(r"^##+ `([^`]+)`$(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL):
        for names, content in re.findall(r"^\| (`.*?`) \| (.*?) ?\|$", text, re.MULTILINE):
            whole = re.search(r"\]\(#(\w+)\)", content)
            for name in re.findall(r"`([^`]+)`", names):
                found.setdefault(heading, {})[name] = whole and whole[1]
    return found


FIELDS = sections()


def pattern(name: str) -> str:
    written = re.escape(name).replace("<measure>", f"({'|'.join(MEASURES)})")
    return re.sub("<(class|column)>", "[^.]+", written)


def fields(value: Any, section: str, path: str = "") -> Iterator[tuple[str, str]]:
    """(section, field) of everything in a value, with the page's own names for what is known."""
    listed = FIELDS[section]
    known = [name for name in listed if re.fullmatch(pattern(name), path)]
    deeper = any(name.startswith((f"{known[0]}.", f"{known[0]}[]")) for name in listed if known)
    if known:
        yield section, known[0]
        if (other := listed[known[0]]) is not None and value is not None:
            rest = {}
            if isinstance(value, dict):  # a field of this section besides those of the other
                own = {key for key in value if f"{path}.{key}" in listed}
                rest = {key: value[key] for key in own}
                value = {key: one for key, one in value.items() if key not in own}
            yield from fields(value, other)
            for key, one in rest.items():
                yield from fields(one, section, f"{path}.{key}")
            return
    if path and known and not deeper:
        return
    if isinstance(value, dict):
        for key, one in value.items():
            yield from fields(one, section, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
        for one in value:
            yield from fields(one, section, f"{path}[]")
    elif path and not known and value != []:
        yield section, f"not on the page: {path}"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    """What commands print: numbers and classes, a test, dates, gaps and a slice of large errors."""
    folder = tmp_path_factory.mktemp("json")
    shutil.copytree(ROOT / "examples", folder / "examples")
    rng = np.random.default_rng(0)
    lines = ["day,flag,kind,size,y"]
    for place in range(120):
        kind = "ab"[place % 2]
        size = rng.standard_normal()
        y = size + (6 * rng.standard_normal() if kind == "a" else 0.0)
        gap = "" if place % 9 == 0 else f"{size:.6f}"
        lines.append(
            f"2024-{1 + place % 12:02}-{1 + place % 28:02},{place % 3 == 0},{kind},{gap},{y:.6f}"
        )
    (folder / "made.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = ["shop,size,y"]
    for place in range(160):
        level = 3 * np.sin(7.0 * (place % 20))
        size = rng.standard_normal()
        lines.append(f"s{place % 20},{size:.6f},{level + size + 0.1 * rng.standard_normal():.6f}")
    (folder / "shops.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    houses = "examples/houses.csv"
    made = "made.csv"
    few = ["--gammas", "0.1,1", "--alphas", "0.01,1"]
    landmarks = ["--approximation", "nystroem", "--check", "--simple"]
    commands = [
        ["tune", houses, "--target", "price", "--id", "house", "--holdout", "0.2", *few],
        ["tune", houses, "--target", "heating", "--id", "house", "--out", "classes", *few],
        ["tune", made, "--target", "y", "--out", "made", *few, *landmarks],
        ["tune", "shops.csv", "--target", "y", "--simple", *few],
        ["predict", "houses-onefold", "examples/new_houses.csv", "--interval", "0.9"],
        ["predict", "houses-onefold", houses, "--score"],
        ["predict", "classes", houses, "--score", "--proba", "--decision", "--out", "classes.csv"],
        ["plan", houses, "--target", "price"],
        ["compress", "houses-onefold", "--centres", "99", "--out", "small.onefold"],
        *(["inspect", model] for model in ("houses-onefold", "classes", "made", "small.onefold")),
        ["inspect", "shops-onefold"],
        ["report", "shops-onefold", "shops.csv"],
        ["report", "houses-onefold", houses],
        ["report", "classes", houses],
        ["report", "made", made],
    ]
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in commands:
            found.append((f"onefold {command[0]}", _run([*command, "--json"])))
    return found


def _run(command: list[str]) -> Any:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        assert main(command) == 0
    return json.loads(out.getvalue())


def test_every_field_is_on_the_page(printed: list[tuple[str, Any]]) -> None:
    seen = {one for command, value in printed for one in fields(value, command)}
    assert not [f"{where}: {name}" for where, name in sorted(seen) if name.startswith("not on")]


def test_every_field_of_the_page_appears(printed: list[tuple[str, Any]]) -> None:
    seen = {one for command, value in printed for one in fields(value, command)}
    listed = {(section, name) for section, names in FIELDS.items() for name in names}
    assert not sorted(listed - seen)
    assert len(listed) > 150
