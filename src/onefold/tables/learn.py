"""Learning the preparation of a table from the rows that a model is tuned on."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csc_matrix

from onefold.tables.columns import (
    as_text,
    inexact_as_number,
    kind_of,
)
from onefold.tables.dates import holds_dates
from onefold.tables.errors import TableError, listing, na_option
from onefold.tables.number_formats import is_number
from onefold.tables.prepare import Preparation, refuse_missing
from onefold.tables.rows import TableRows
from onefold.tables.suspects import unnamed

_MANY_CATEGORIES = 50
_FEW_CATEGORIES = 20
_FEW_NUMBERS = 3
_DECORATED = re.compile(r"[<>~≈(]? *[-+]?[0-9][0-9.,]* *(?P<after>[^0-9]{0,8})")  # 5 kg, <0.1, (12)
# Words that stand where a number is not known.
_MEANS_MISSING = frozenset(
    {
        *("?", "??", "-", "--", "---", ".", "..", "*", "x", "#", "none", "missing", "unknown", "unk"),
        *("undefined", "not available", "na", "n.a.", "nil", "void", "#div/0!", "#value!", "#ref!"),
        *("#name?", "#num!", "#null!", "#error!"),
    }
)
ROUNDING = 1e-13  # of its mean: a spread below it makes a column constant


@dataclass
class _Findings:
    """What is learned column by column, and what is wrong with the columns."""

    numeric: dict[str, tuple[float, float, float]]  # mean, scale, median
    categorical: dict[str, tuple[tuple[str, ...], bool, str]]  # categories, boolean, mode
    constant: list[str]
    gaps: dict[str, int]
    infinite: list[str]


def learn_preparation(
    rows: TableRows,
    exclude: Collection[str] = (),
    missing: Literal["error", "impute"] = "error",
    categorical: Collection[str] = (),
) -> Preparation:
    """Learn how to turn rows of this table into rows of a matrix.

    Parameters
    ----------
    rows : Rows
        The rows a model will be tuned on.
    exclude : collection of str
        Columns that are not features: target, weights, groups, identifiers, dropped ones.
    missing : {"error", "impute"}
        Refuse missing values, or fill them with the median or the most frequent category.
    categorical : collection of str
        Columns whose values are categories, even if they look like numbers or dates.
    """
    if missing not in {"error", "impute"}:
        raise TableError(f"missing is 'error' or 'impute', not '{missing}'")
    if len(rows) == 0:
        raise TableError("the table has no rows")
    if rows.sparse is not None:
        return _learn_sparse(rows)
    names = [name for name in rows.names if name not in exclude and name not in rows.auxiliary]
    if not names:
        raise TableError("the table has no column left to predict from")
    refuse_unusable(rows, [name for name in names if name not in categorical])
    found = _Findings({}, {}, [], {}, [])
    for name in names:
        if name in categorical:
            _learn_categories(rows.text(name), name, found, codes=True)
        elif kind_of(rows.column(name)) == "numeric":
            _learn_numbers(rows.numbers(name), name, found)
        else:
            _learn_categories(rows.column(name), name, found)
    if found.infinite:
        raise TableError(f"infinite values in {listing(found.infinite)}; remove or replace them")
    if missing == "error":
        remedy = "fill them in, drop the columns (--drop COL), or use --missing impute"
        refuse_missing(found.gaps, len(rows), remedy)
    if not found.numeric and not found.categorical:
        raise TableError(f"every column is constant ({listing(found.constant)}): nothing to learn")
    values = np.array(list(found.numeric.values())).reshape(-1, 3)
    return Preparation(
        numeric=tuple(found.numeric),
        mean=values[:, 0].copy(),
        scale=values[:, 1].copy(),
        median=values[:, 2].copy(),
        categorical=tuple(found.categorical),
        categories=tuple(categories for categories, _, _ in found.categorical.values()),
        boolean=tuple(boolean for _, boolean, _ in found.categorical.values()),
        most_frequent=tuple(mode for _, _, mode in found.categorical.values()),
        missing=missing,
        constant=tuple(found.constant),
    )


def refuse_mangled_numbers(text: pa.ChunkedArray, distinct: list[str], name: str) -> None:
    """Refuse a text column that is a column of numbers but for a few values.

    One "?" among the numbers makes the whole column text, and hundreds of "categories" would then
    be learned in silence. A few whole numbers among words are taken for codes.
    """
    numbers = [value for value in distinct if is_number(value)]
    words = [value for value in distinct if not is_number(value)]
    missing = len(numbers) > len(words) and all(word.strip().lower() in _MEANS_MISSING for word in words)
    fractions = len(numbers) >= _FEW_NUMBERS and any("." in value or "," in value for value in numbers)
    many = len(distinct) > _FEW_CATEGORIES
    if len(numbers) < _FEW_NUMBERS or 2 * len(numbers) < len(distinct):
        return
    if not words and many:
        raise TableError(
            f"column '{name}' holds numbers as text, the first being '{numbers[0]}'; store them as "
            f"numbers with a decimal point, or use --categorical {name} if they are codes"
        )
    if not words or not (missing or fractions or many):
        return
    value, position = next(
        (v, i) for i, v in enumerate(text.to_pylist()) if v is not None and not is_number(v)
    )
    raise TableError(
        f"column '{name}' holds numbers but for some values, the first being '{value}' "
        f"in data row {position + 1}; fix it, use {na_option(value)} if it means missing, "
        f"--categorical {name} if the values are codes, or --drop {name}"
    )


def refuse_unusable(rows: TableRows, names: list[str]) -> None:
    """Refuse columns that no matrix can be made of: dates, nested values, identifiers, no name."""
    for name in [name for name in names if name in rows.problems]:
        raise TableError(f"{rows.problems[name]}, or --categorical {name} if the values are codes")
    kinds = {name: kind_of(rows.column(name)) for name in names}
    texts = [name for name, kind in kinds.items() if kind == "text"]
    dates = [name for name, kind in kinds.items() if kind == "date"]
    dates += [name for name in texts if holds_dates(as_text(rows.column(name), name))]
    if dates:
        raise TableError(
            f"dates or times in {listing(dates)}; drop them (--drop COL) or convert them to numbers, "
            "such as days since the first"
        )
    for name in [name for name in names if kinds[name] == "numeric"]:
        position = inexact_as_number(rows.column(name))
        if position is not None:
            raise TableError(too_large(rows, name, position))
    others = [name for name, kind in kinds.items() if kind == "other"]
    if others:
        types = ", ".join(sorted({str(rows.column(name).type) for name in others}))
        encoding = " (is the file saved with UTF-8 encoding?)" if "binary" in types else ""
        raise TableError(
            f"values of type {types} in {listing(others)}{encoding}; "
            "drop them (--drop COL) or convert them"
        )
    nameless = [name for name in names if unnamed(name)]
    if nameless:
        raise TableError(
            f"column {rows.names.index(nameless[0]) + 1} has no name in the header; name it, or leave "
            f"it out with --drop {nameless[0]}"
        )


def too_large(rows: TableRows, name: str, position: int) -> str:
    """The sentence about a whole number that float64 can't hold."""
    return (
        f"column '{name}' has {rows.column(name)[position].as_py()} in data row "
        f"{rows.start + position + 1}, too large for a number with all its digits, like an identifier; "
        f"leave it out with --drop {name}, or use --id {name} or --categorical {name}"
    )


def _learn_numbers(values: np.ndarray, name: str, found: _Findings) -> None:
    present = values[~np.isnan(values)]
    if np.isinf(present).any():
        found.infinite.append(name)
        return
    if len(present) < len(values):
        found.gaps[name] = len(values) - len(present)
    if len(present) == 0:
        found.constant.append(name)
        return
    median = float(np.median(present))
    # In units of a power of two near the largest, so that no square over- or underflows.
    unit = np.ldexp(1.0, np.frexp(np.abs(present).max() or 1.0)[1] - 1)
    filled = np.where(np.isnan(values), median, values) / unit
    mean, scale = float(filled.mean()), float(filled.std())
    if scale <= ROUNDING * abs(mean) or scale * unit < np.finfo(float).tiny:
        found.constant.append(name)
    else:
        found.numeric[name] = (mean * unit, scale * unit, median)


def _learn_categories(column: pa.ChunkedArray, name: str, found: _Findings, codes: bool = False) -> None:
    """Learn the categories of a column; `codes` are taken as they are, whatever they look like."""
    text = as_text(column, name)
    if text.null_count:
        found.gaps[name] = int(text.null_count)
    counted = pc.value_counts(pc.drop_null(text)).to_pylist()
    counts: dict[str, int] = {item["values"]: item["counts"] for item in counted}
    categories = tuple(sorted(counts))
    if len(categories) <= 1:
        found.constant.append(name)
        return
    if not codes:
        refuse_mangled_numbers(text, list(categories), name)
    if not codes:
        _refuse_decorated_numbers(categories, name)
    if len(categories) > _MANY_CATEGORIES and 2 * len(categories) > len(text):
        raise TableError(
            f"column '{name}' has {len(categories)} different texts in {len(text)} rows, like an "
            f"identifier; leave it out with --drop {name}, or --id {name} to keep it beside "
            "predictions"
        )
    mode = max(categories, key=lambda category: counts[category])
    found.categorical[name] = (categories, kind_of(column) == "boolean", mode)


def _refuse_decorated_numbers(categories: tuple[str, ...], name: str) -> None:
    """Refuse numbers with a unit that is not understood, which many "categories" would hide."""
    found = [match for value in categories if (match := _DECORATED.fullmatch(value.strip()))]
    suffixes = {match["after"] for match in found}
    few_suffixes = len(suffixes) <= _FEW_NUMBERS
    if len(categories) > _FEW_CATEGORIES and 2 * len(found) > len(categories) and few_suffixes:
        raise TableError(
            f"column '{name}' has numbers with something around them, such as '{found[0][0]}'; write "
            f"the numbers alone and in one unit, or use --categorical {name} if they are codes"
        )


def _learn_sparse(rows: TableRows) -> Preparation:
    X = csc_matrix(rows.sparse)
    if not np.isfinite(X.data).all():
        raise TableError("the table has missing or infinite feature values; remove them")
    largest = np.asarray(abs(X).max(axis=0).todense()).ravel()
    kept = np.flatnonzero(largest > 0)
    if len(kept) == 0:
        raise TableError("every feature of the table is zero: nothing to learn")
    return Preparation(sparse_kept=kept, sparse_scale=largest[kept])
