"""docs/reference/errors.md has every message of errors and warnings that a user can meet."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from onefold import LSSVCCV, LSSVRCV

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "onefold"
PAGE = ROOT / "docs" / "reference" / "errors.md"

MAKERS = re.compile(r"(\w*Error|BadContent|CannotSave|StopSearch|warn|warn_user)")
SHORTEST = 8  # letters of a message that can be searched for

# Files and messages that no user meets, and why.
NOT_FOR_USERS = {
    "__init__.py": "a name that the module does not have: Python's own words",
    "linalg/dense.py": "LAPACK's return codes, which callers turn into other errors",
    '"auto" knows what its models can do when it has chosen; ask its run.': "the library asks its run",
    "None is no criterion": "caught at once, for the message about an unknown criterion",
    "… is no score of held-out rows": "a search asks criteria that hold no rows out for none",
    "… takes no predictions": "likewise",
    "the parts are not those that the metrics were learned without.": "the search asks for its own",
    "a cross-fitted model only predicts held-out rows; the final one is the run's.": "likewise",
    "rows that stay in their partitions keep their order; sort the numbers.": "callers sort",
    "held-out rows must be in ascending order.": "callers sort",
    "not positive definite": "caught at once, for the message about the Toeplitz matrix",
    "the kernel matrix is not positive semi-definite": "caught at once, in favour of an iteration",
}


def assigned(nodes: Sequence[ast.stmt]) -> dict[str, ast.expr]:
    """Texts by the names that they are given, where they are given once."""
    found: dict[str, list[ast.expr]] = {}
    for node in (inner for one in nodes for inner in ast.walk(one)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def template(node: ast.AST, named: dict[str, ast.expr]) -> str:
    """The text of an expression, with … for what is known at run time only."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part, named) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return template(node.value, named)
    if isinstance(node, ast.Name) and isinstance(named.get(node.id), ast.Constant | ast.JoinedStr):
        return template(named[node.id], {})
    if isinstance(node, ast.BoolOp):  # text or a default
        return template(node.values[-1], named)
    return "…"


def calls(tree: ast.Module) -> Iterator[tuple[ast.Call, dict[str, ast.expr]]]:
    """Errors that are made, raised or not, and warnings; and the texts that have names there."""
    of_module = assigned([one for one in tree.body if isinstance(one, ast.Assign)])
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    for function in functions:
        named = of_module | assigned(function.body)
        for node in ast.walk(function):
            maker = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2]
            if isinstance(node, ast.Call) and node.args and maker and MAKERS.fullmatch(maker):
                yield node, named


def messages() -> dict[str, str]:
    """The templates of all messages, by file and line."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        if where in NOT_FOR_USERS:
            continue
        for call, named in calls(ast.parse(path.read_text(encoding="utf-8"))):
            text = template(call.args[0], named)
            if len(longest(text)) >= SHORTEST and text not in NOT_FOR_USERS:
                found[f"{where}:{call.lineno}"] = text
    return found


def longest(text: str) -> str:
    return max(text.split("…"), key=len).strip()


def test_every_message_is_on_the_page() -> None:
    page, found = PAGE.read_text(encoding="utf-8"), messages()
    assert len(found) > 300
    assert not {where: text for where, text in found.items() if longest(text) not in page}


def test_every_message_of_the_page_is_in_the_source() -> None:
    """Those of tables, and of the list of damaged files."""
    cells = re.findall(r"^(?:- |\| )(`.*?`)(?: \||$)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    shown = [text.replace("\\|", "|") for cell in cells for text in re.findall("`([^`]+)`", cell)]
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py"))
    written = {
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    source = "\n".join([*written, *messages().values()])
    assert len(shown) > 300
    assert not [text for text in shown if longest(text) not in source]


def test_words_of_scikit_learn_are_on_the_page() -> None:
    quoted = re.findall(r"^- \*(.+?)\*:", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6) + 0.5
    wrong = [
        lambda: LSSVRCV().fit(np.where(X > 8, np.nan, X), y),
        lambda: LSSVRCV().fit(X, np.where(y > 4, np.nan, y)),
        lambda: LSSVRCV().fit(X, y.astype(str)),
        lambda: LSSVCCV().fit(X, y),
        lambda: LSSVRCV().fit(X[:, 0], y),
    ]
    assert len(quoted) == len(wrong)
    for words, fit in zip(quoted, wrong):
        with pytest.raises(ValueError, match=re.escape(words)):
            fit()


def test_what_is_left_out_exists() -> None:
    source = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}
    joined = re.sub(r'"\s*\n\s*f?"', "", "\n".join(source.values()))
    for one in NOT_FOR_USERS:
        assert one in source or one.removeprefix("… ") in joined, one
