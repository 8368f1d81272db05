"""Imports point one way, in functions too, and array libraries are named in two folders alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import onefold

ROOT = Path(onefold.__file__).parent
# From the bottom to the top.
LAYERS = """
_version typing docstrings, machine, linalg, rows, kernels, smoothers, basis, expansions,
compatibility approximations, heldout, calibration, criteria, search, trust_check, estimators, facts,
saving, tables, export, plots, report, tuning, cli __main__
"""
LIBRARIES = re.compile(
    r"^\s*(?:from|import) (?:torch|cupy|triton|numba|array_api_compat|dask|distributed)\b", re.MULTILINE
)
DEPTH = {name: depth for depth, layer in enumerate(LAYERS.split(",")) for name in layer.split()}
EXCEPTIONS = {
    # A model is saved by a method of its own, and a file names the estimators that it may build.
    ("estimators/base.py", "saving"),
    # It is exported by a method too.
    ("estimators/base.py", "export"),
    ("tables/estimators.py", "export"),
    # A report is a method of the model that it is on.
    ("estimators/base.py", "report"),
    ("tables/estimators.py", "report"),
    # The rows that a model of tables is tried on are rows of a table.
    ("saving/file.py", "tables"),
}


def _imports(tree: ast.Module) -> set[str]:
    """Top-level onefold parts imported anywhere in the module, inside functions and for types too."""
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "onefold":
            parts |= {alias.name for alias in node.names if alias.name in DEPTH}
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onefold."):
            parts.add(node.module.split(".")[1])
        if isinstance(node, ast.Import):
            parts |= {a.name.split(".")[1] for a in node.names if a.name.startswith("onefold.")}
    return parts


def test_imports_point_one_way() -> None:
    parts = {p.stem if p.is_file() else p.name for p in ROOT.iterdir() if not p.name.startswith("__")}
    assert parts - {"py.typed", "py"} <= set(DEPTH)
    wrong = set()
    for path in ROOT.rglob("*.py"):
        relative = path.relative_to(ROOT)
        part = relative.parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        for imported in _imports(ast.parse(path.read_text("utf-8"))):
            if DEPTH[imported] > DEPTH[part]:
                wrong.add((relative.as_posix(), imported))
    assert wrong == EXCEPTIONS


def test_array_libraries_are_named_and_asked_for_in_linalg_and_rows_alone() -> None:
    asking = re.compile(r"\b(?:is_foreign|is_numpy|to_numpy)\b")
    named = set()
    asked = set()
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        text = path.read_text("utf-8")
        if LIBRARIES.search(text):
            named.add(part)
        if DEPTH.get(part, -1) <= DEPTH["estimators"] and asking.search(text):
            asked.add(part)
    assert named == asked == {"linalg", "rows"}
