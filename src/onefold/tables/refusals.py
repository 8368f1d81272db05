"""Columns that look like something else than they are stored as, refused with a remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onefold.tables.errors import Remedy, TableError
from onefold.tables.number_formats import is_number

MOST_CATEGORIES = 2000  # that are counted, let alone made features of
MANY_CATEGORIES = 50  # in fewer rows than twice as many they tell rows apart
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


def refuse_mangled_numbers(first: Mapping[str, int], name: str) -> None:
    """Refuse a text column that is a column of numbers but for a few values.

    One "?" among the numbers makes the whole column text, and hundreds of "categories" would then
    be learned in silence. A few whole numbers among words are taken for codes. `first` has the row in
    which each value appeared first.
    """
    numbers = [value for value in first if is_number(value)]
    words = [value for value in first if not is_number(value)]
    missing = len(numbers) > len(words) and all(word.strip().lower() in _MEANS_MISSING for word in words)
    fractions = len(numbers) >= _FEW_NUMBERS and any("." in value or "," in value for value in numbers)
    many = len(first) > _FEW_CATEGORIES
    if len(numbers) < _FEW_NUMBERS or 2 * len(numbers) < len(first):
        return
    codes = Remedy("categorical", [name], "if they are codes")
    if not words and many:
        raise TableError(
            f"column '{name}' holds numbers as text, the first being '{min(numbers)}'",
            ["store them as numbers with a decimal point", codes],
        )
    if not words or not (missing or fractions or many):
        return
    value = min(words, key=lambda word: first[word])
    raise TableError(
        f"column '{name}' holds numbers but for some values, the first being '{value}' "
        f"in data row {first[value]}",
        ["fix it", Remedy("na_values", [value], "if it means missing"), codes, Remedy("drop", [name])],
    )


def refuse_decorated_numbers(categories: tuple[str, ...], name: str) -> None:
    """Refuse numbers with a unit that is not understood, which many "categories" would hide."""
    found = [match for value in categories if (match := _DECORATED.fullmatch(value.strip()))]
    suffixes = {match["after"] for match in found}
    few_suffixes = len(suffixes) <= _FEW_NUMBERS
    if len(categories) > _FEW_CATEGORIES and 2 * len(found) > len(categories) and few_suffixes:
        raise TableError(
            f"column '{name}' has numbers with something around them, such as '{found[0][0]}'",
            [
                "write the numbers alone and in one unit",
                Remedy("categorical", [name], "if they are codes"),
            ],
        )


def too_large(name: str, value: object, row: int) -> TableError:
    """The error about a whole number that float64 can't hold."""
    return TableError(
        f"column '{name}' has {value} in data row {row}, too large for a number with all its digits, "
        "like an identifier",
        [Remedy("drop", [name]), Remedy("categorical", [name]), Remedy("id_column", name)],
    )


def not_dates(name: str, value: str, row: int) -> TableError:
    """The error about a column of dates in which one value is none, or not clearly one."""
    return TableError(
        f"dates or times in '{name}' that are not understood, the first being '{value}' in data row "
        f"{row}",
        [
            "write them like 2024-12-31 or 2024-12-31 23:59",
            Remedy("drop", [name]),
            Remedy("categorical", [name], "if they are codes"),
        ],
    )
