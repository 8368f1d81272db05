"""Where a Python file can be changed into one that is subtly wrong, and how."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
_COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_NAMES = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "any": "all", "all": "any",
    "argmax": "argmin", "argmin": "argmax", "sum": "mean", "ones": "zeros", "zeros": "ones",
    "floor": "ceil", "ceil": "floor", "hstack": "vstack", "flatnonzero": "argsort",
}  # fmt: skip
_SYMMETRIC = ("maximum", "minimum", "max", "min", "multiply", "add", "isin", "array_equal", "gcd")
_UNTOUCHED = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)


@dataclass(frozen=True)
class Mutation:
    """One replacement in a file, by byte positions of its lines."""

    kind: str
    line: int
    column: int
    end_line: int
    end_column: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """The file with the replacement made."""
        lines = source.splitlines(keepends=True)
        start = sum(map(len, lines[: self.line - 1])) + self.column
        end = sum(map(len, lines[: self.end_line - 1])) + self.end_column
        return source[:start] + self.text.encode() + source[end:]


def mutations(source: bytes) -> list[Mutation]:
    """Every replacement that this module knows for a file; messages and annotations are left alone."""
    return list(_visit(ast.parse(source)))


def _visit(node: ast.AST) -> Iterator[Mutation]:
    if isinstance(node, _UNTOUCHED) or _is_docstring(node) or _warns(node):
        return
    yield from _here(node)
    annotations = {"annotation", "returns", "decorator_list", "type_params"}
    for name, value in ast.iter_fields(node):
        if name in annotations:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _visit(child)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _warns(node: ast.AST) -> bool:
    """A warning or the text of a plan: its words are no results."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")


def _here(node: ast.AST) -> Iterator[Mutation]:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _joins_text(node):
        yield _replaced(node, "operator", op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in _COMPARISONS[type(node.ops[0])]:
            yield _replaced(node, "comparison", ops=[other()])
    elif isinstance(node, ast.BoolOp):
        yield _replaced(node, "and/or", op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        kind = "sign" if isinstance(node.op, ast.USub) else "not"
        yield _segment(node, kind, f"({ast.unparse(node.operand)})")
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield _segment(node.test, "condition", f"(not ({ast.unparse(node.test)}))")
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield _replaced(node, "update", op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Constant):
        yield from _constant(node)
    elif isinstance(node, ast.Call):
        yield from _call(node)


def _joins_text(node: ast.BinOp) -> bool:
    parts = (node.left, node.right)
    return any(isinstance(p, ast.JoinedStr) or _is_text(p) for p in parts)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _constant(node: ast.Constant) -> Iterator[Mutation]:
    value = node.value
    if isinstance(value, bool):
        yield _segment(node, "constant", str(not value))
    elif isinstance(value, int):
        yield _segment(node, "constant", str(value + 1))
    elif isinstance(value, float):
        yield _segment(node, "constant", repr(value * 2 if value else 1.0))


def _call(node: ast.Call) -> Iterator[Mutation]:
    first_two = node.args[:2]
    same = (
        ast.unparse(node.func).split(".")[-1] in _SYMMETRIC or len(set(map(ast.unparse, first_two))) < 2
    )
    if not same and not any(isinstance(a, ast.Starred) for a in first_two):
        yield _replaced(node, "arguments", args=[*first_two[::-1], *node.args[2:]])
    function = node.func
    if (
        isinstance(function, ast.Name)
        and function.id in _NAMES
        and function.id not in ("sum", "all", "any")
    ):
        yield _segment(function, "function", _NAMES[function.id])
    elif isinstance(function, ast.Attribute) and function.attr in _NAMES:
        yield _replaced(function, "function", attr=_NAMES[function.attr])


def _replaced(node: ast.expr | ast.AugAssign, kind: str, **fields: object) -> Mutation:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    text = ast.unparse(changed)
    return _segment(node, kind, text if isinstance(node, ast.AugAssign | ast.Attribute) else f"({text})")


def _segment(node: ast.expr | ast.AugAssign, kind: str, text: str) -> Mutation:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return Mutation(kind, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text)
