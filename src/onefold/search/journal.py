"""JSON lines for a ledger: a header, then one line per evaluation.

Numbers are exact: Python writes the shortest decimals that give the same float64 back, and what JSON has
no number for is written ``{"float": "nan"}``. A line can be appended to a file at any time; the last one
may be cut off, and is then left out. Reading calls nothing but a JSON parser.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from onefold.machine.replacing import replacing

_VERSION = 1


def write(path: Path, header: dict[str, Any], entries: Iterable[dict[str, Any]]) -> None:
    """Write a file of a header and entries, whole or not at all."""
    with replacing(Path(path)) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.write(line({"onefold_ledger": _VERSION, **header}))
        file.writelines(line(entry) for entry in entries)


def line(values: dict[str, Any]) -> str:
    """A dict of plain values and arrays as one line of strict JSON, its end included."""
    return json.dumps(_plain(values), allow_nan=False) + "\n"


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The header and the entries of a file; raise if it is damaged before its last line."""
    lines = Path(path).read_bytes().split(b"\n")[:-1]  # after the last end of line: nothing, or a rest
    if not lines:
        raise ValueError(f"{path} is no ledger of a search: it has no header; delete it.")
    found = []
    for number, text in enumerate(lines, start=1):
        with damage(path, number):
            values = json.loads(text, object_hook=_float_or_dict, parse_constant=_refuse)
            if not isinstance(values, dict):
                raise ValueError("no object")
            found.append(values)
    version = found[0].pop("onefold_ledger", None)
    if version != _VERSION:
        raise ValueError(
            f"{path} is no ledger that this version of onefold reads (version {version!r}, not "
            f"{_VERSION}); delete it, or use another name."
        )
    return found[0], found[1:]


@contextmanager
def damage(path: Path, number: int) -> Iterator[None]:
    """Whatever goes wrong with a line becomes one sentence that says where."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"line {number} of {path} is damaged ({type(error).__name__}); delete it to search anew."
        ) from error


def _plain(value: Any) -> Any:
    """Values that JSON has a form for; of anything else, its name."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def _float_or_dict(values: dict[str, Any]) -> Any:
    if values.keys() == {"float"} and values["float"] in ("nan", "inf", "-inf"):
        return float(values["float"])
    return values


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
