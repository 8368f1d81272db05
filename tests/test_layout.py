"""What the layout promises: small files and functions, and array libraries named in two rooms alone."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import onefold

ROOT = Path(onefold.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LONGEST_FILE, LONGEST_FUNCTION = 300, 60
LIBRARIES = re.compile(
    r"^\s*(?:from|import) (?:torch|cupy|triton|numba|array_api_compat|dask|distributed)\b", re.MULTILINE
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short(path):
    text = path.read_text("utf-8")
    assert text.count("\n") <= LONGEST_FILE
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            documentation = ast.get_docstring(node, clean=False) or ""
            length = (node.end_lineno or 0) - node.lineno + 1 - documentation.count("\n")
            assert length <= LONGEST_FUNCTION, f"{node.name} has {length} lines"


def test_array_libraries_are_named_in_linalg_and_rows_alone():
    elsewhere = [path for path in FILES if path.relative_to(ROOT).parts[0] not in ("linalg", "rows")]
    assert not [path for path in elsewhere if LIBRARIES.search(path.read_text("utf-8"))]
    assert LIBRARIES.search((ROOT / "linalg" / "arrays.py").read_text("utf-8"))
