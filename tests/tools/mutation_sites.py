"""Where a Python file can be changed into one that is subtly wrong, and how."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice
from typing import Any

_ARITHMETIC: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult,
}  # fmt: skip
_COMPARISONS: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.Gt), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_NAMES = {
    "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "any": "all", "all": "any",
    "argmax": "argmin", "argmin": "argmax", "sum": "mean", "ones": "zeros", "zeros": "ones",
    "floor": "ceil", "ceil": "floor", "hstack": "vstack", "flatnonzero": "argsort",
}  # fmt: skip
_SYMMETRIC = ("maximum", "minimum", "max", "min", "multiply", "add", "isin", "array_equal", "gcd")
_UNTOUCHED = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Assert)
_FIELDS_LEFT_ALONE = {"annotation", "returns", "decorator_list", "type_params"}

Change = tuple[str, int, ast.AST, str, Any]
"""What kind of change it is, its line, and the node whose field gets another value."""


def changes(source: str) -> Iterator[Change]:
    """Every change that this module knows for a file; messages and annotations are left alone."""
    return _visit(ast.parse(source))


def changed(source: str, number: int | None = None) -> str:
    """The file with one of its `changes` made, without comments; None: as it is."""
    tree = ast.parse(source)
    if number is not None:
        _, _, node, field, value = next(islice(_visit(tree), number, None))
        setattr(node, field, value)
    return ast.unparse(ast.fix_missing_locations(tree))


def _visit(node: ast.AST) -> Iterator[Change]:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    warning = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("warn")  # its words
    if isinstance(node, _UNTOUCHED) or docstring or warning:
        return
    for kind, field, value in _here(node):
        yield kind, node.lineno, node, field, value  # type: ignore[attr-defined]
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in _FIELDS_LEFT_ALONE:
                yield from _visit(child)


def _here(node: ast.AST) -> Iterator[tuple[str, str, Any]]:
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in _ARITHMETIC and not _joins_text(
            node
        ):
            yield "operator", "op", _ARITHMETIC[type(op)]()
        case ast.Compare(ops=[op]):
            for other in _COMPARISONS[type(op)]:
                yield "comparison", "ops", [other()]
        case ast.BoolOp(op=op):
            yield "and/or", "op", ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.USub()):
            yield "sign", "op", ast.UAdd()
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", "operand", ast.UnaryOp(ast.Not(), operand)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "condition", "test", ast.UnaryOp(ast.Not(), test)
        case ast.Constant(value=bool(value)):
            yield "constant", "value", not value
        case ast.Constant(value=int(value)):
            yield "constant", "value", value + 1
        case ast.Constant(value=float(value)):
            yield "constant", "value", value * 2 if value else 1.0
        case ast.Call():
            yield from _call(node)


def _joins_text(node: ast.BinOp | ast.AugAssign) -> bool:
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]
    return any(isinstance(p, ast.JoinedStr) or isinstance(getattr(p, "value", 0), str) for p in parts)


def _call(node: ast.Call) -> Iterator[tuple[str, str, Any]]:
    name = ast.unparse(node.func).split(".")[-1]
    first = node.args[:2]
    starred = any(isinstance(argument, ast.Starred) for argument in first)
    if len(set(map(ast.unparse, first))) == 2 and name not in _SYMMETRIC and not starred:
        yield "arguments", "args", [*first[::-1], *node.args[2:]]
    if isinstance(node.func, ast.Attribute) and name in _NAMES:
        yield "function", "func", ast.Attribute(node.func.value, _NAMES[name], ast.Load())
    elif isinstance(node.func, ast.Name) and name in _NAMES and name not in ("sum", "all", "any"):
        yield "function", "func", ast.Name(_NAMES[name], ast.Load())
