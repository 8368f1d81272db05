"""Sentences that name settings as Python does, in the words of the command line.

``drop=['age', 'full name']`` becomes ``--drop age 'full name'``, ``simple=True`` becomes ``--simple``.
"""

from __future__ import annotations

import ast
import re
import shlex

_NAMES = (
    "drop", "categorical", "id", "weight", "groups", "missing", "task", "cv", "ordered", "gap",
    "criterion", "class_weight", "gammas", "alphas", "search", "approximation", "check", "time_budget",
    "simple", "kernel", "metric", "blend", "holdout", "test", "decimal", "delimiter", "encoding",
    "na_values", "sheet", "target", "id_column",
)  # fmt: skip
_TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_SETTING = re.compile(
    rf"(?<![\w.'\"-])(?P<name>{'|'.join(_NAMES)})=(?P<value>\[(?:(?:{_TEXT})(?:, )?)+\]|{_TEXT}|[\w.]+)"
)


def as_options(sentence: str) -> str:
    """The sentence with options in place of settings."""
    return _SETTING.sub(_option, sentence)


def _option(found: re.Match[str]) -> str:
    option = f"--{found['name'].removesuffix('_column').replace('_', '-')}"
    try:
        value = ast.literal_eval(found["value"])
    except (ValueError, SyntaxError):  # a letter that stands for a number, as in cv=N
        value = found["value"]
    if isinstance(value, bool):
        return option if value else option.replace("--", "--no-", 1)
    texts = [str(one) for one in (value if isinstance(value, list) else [value])]
    quoted = [shlex.quote(text) if text != "COL" else text for text in texts]
    if texts[0].startswith("-"):
        return f"{option}={' '.join(quoted)}"
    return f"{option} {' '.join(quoted)}"
