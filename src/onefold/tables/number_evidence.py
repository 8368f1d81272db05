"""How the numbers of a column are written, found from blocks of its values.

A column that could mean two things is refused: 3,033 is three thousand here and three point something
there.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from onefold.tables.errors import Remedy, TableError
from onefold.tables.number_formats import NumberFormat, is_money, unit_of

Seen = tuple[str, int]  # a value and its row
_FIRST = 1000


class FormatFinder:
    """Takes blocks of trimmed text and tells their number format.

    Parameters
    ----------
    name : str
        Of the column.
    decimal : {".", ",", None}
        The decimal mark, if whoever made the table said which.
    cautious : bool
        Whether 3,033 may be three point something as well as three thousand: in tables that
        separate columns by semicolons the comma is free to be a decimal mark.
    """

    def __init__(self, name: str, decimal: str | None, cautious: bool) -> None:
        self.name, self._decimal, self._cautious = name, decimal, cautious
        self.possible = True
        self._units: dict[str, Seen] = {}
        # The formats that fit all values so far, those without separators first.
        self._fitting = {mark: list(_all_forms(mark)) for mark in (".", ",")}
        self._misfit: dict[str, Seen] = {}  # the first value that fits no format with this mark
        self._marked: Seen | None = None  # the first with a comma or a point
        self._marks: set[str] = set()

    def add(self, text: pa.ChunkedArray, start: int, plain: bool) -> None:
        """Take a block; `plain` if all of its values are finite numbers that every program reads."""
        if not self.possible:
            return
        if plain:
            self._add_plain(text, start)
            return
        for scalar in pc.unique(text):  # one by one: the first word in a column of words is enough
            value = scalar.as_py()
            if value is None:
                continue
            unit = unit_of(value)
            if unit is None:
                self.possible = False
                return
            self._add_value(value, unit, text, start)

    def points_may_separate(self) -> Seen | None:
        """The first value with a point, if all points could be between thousands as well."""
        both = NumberFormat(",", ".") in self._fitting[","] and "." in self._marks
        return self._marked if both else None

    def finish(self) -> NumberFormat | None:
        """The format, or None if the column does not hold numbers only.

        Raises
        ------
        TableError
            If the column holds numbers that could mean two things, or that need another `decimal`.
        """
        if not self.possible or not self._units:
            return None
        if len(self._units) > 1:
            raise self._several_units()
        (unit,) = self._units
        point, comma = (self._best(mark, unit) for mark in (".", ","))
        if self._decimal is not None:
            found = point if self._decimal == "." else comma
            if found is None and (point or comma):
                value, row = self._misfit.get(self._decimal) or self._marked or self._units[unit]
                raise TableError(
                    f"column '{self.name}' has '{value}' in data row {row}, which is no number with "
                    f"the decimal mark '{self._decimal}'; leave that out, or write the values alike"
                )
            return found
        if comma is not None and point is None:
            value, row = self._misfit.get(".") or self._marked or self._units[unit]
            what = "a decimal comma" if "," in value else "points between thousands"
            raise TableError(
                f"column '{self.name}' has {what} ('{value}' in data row {row})",
                [Remedy("decimal", ",")],
            )
        if point is not None and comma is not None and self._marked and self._ambiguous(unit):
            value, row = self._marked
            raise TableError(
                f"'{value}' in column '{self.name}' (data row {row}) may have a decimal mark or "
                "separate thousands",
                [Remedy("decimal", "."), Remedy("decimal", ",")],
            )
        return point

    def _add_plain(self, text: pa.ChunkedArray, start: int) -> None:
        points = pc.match_substring(text, ".")
        self._units.setdefault("", (pc.drop_null(text)[0].as_py(), start + 1))
        if _any(points):
            self._note_mark(".", *self._seen(text, points, start))
        for part in (text.slice(0, _FIRST), text):  # a few values mostly settle it
            if self._fitting[","]:
                self._without_misfits(part, start)

    def _without_misfits(self, text: pa.ChunkedArray, start: int) -> None:
        """Drop the formats with a decimal comma that do not fit plain numbers."""
        fits = [pc.fill_null(_matches(text, form), True) for form in self._fitting[","]]
        kept = [form for form, mask in zip(self._fitting[","], fits) if _all(mask)]
        if not kept:
            odd = pc.invert(fits[0])
            for mask in fits[1:]:
                odd = pc.and_(odd, pc.invert(mask))
            where = odd if _any(odd) else pc.invert(fits[0])
            self._misfit.setdefault(",", self._seen(text, where, start))
        self._fitting[","] = kept

    def _add_value(self, value: str, unit: str, text: pa.ChunkedArray, start: int) -> None:
        def seen() -> Seen:
            return value, start + int(pc.index(text, value).as_py()) + 1

        if unit not in self._units:
            self._units[unit] = seen()
        for mark, forms in self._fitting.items():
            self._fitting[mark] = [form for form in forms if _with_unit(form, unit).fits([value])]
            if self._fitting[mark] or mark in self._misfit:
                continue
            if not any(_with_unit(form, unit).fits([value]) for form in _all_forms(mark)):
                self._misfit[mark] = seen()
        for mark in self._fitting:
            if mark in value:
                self._note_mark(mark, *(seen() if self._marked is None else self._marked))

    def _note_mark(self, mark: str, value: str, row: int) -> None:
        self._marks.add(mark)
        self._marked = self._marked or (value, row)

    def _seen(self, text: pa.ChunkedArray, mask: pa.ChunkedArray, start: int) -> Seen:
        place = int(pc.index(pc.fill_null(mask, False), True).as_py())
        return text[place].as_py(), start + place + 1

    def _best(self, mark: str, unit: str) -> NumberFormat | None:
        return _with_unit(self._fitting[mark][0], unit) if self._fitting[mark] else None

    def _ambiguous(self, unit: str) -> bool:
        """Whether values that fit either decimal mark mean other numbers with the other one."""
        if "," in self._marks:
            return "." in self._marks or self._cautious
        # Three digits after a point are an odd amount of money.
        return "." in self._marks and is_money(unit)

    def _several_units(self) -> TableError:
        among = " and ".join(f"'{unit}'" for unit in self._units if unit)
        odd, row = self._units.get("") or list(self._units.values())[1]
        return TableError(
            f"column '{self.name}' has '{odd}' in data row {row} among values with {among}",
            ["write all of them in one unit", Remedy("drop", [self.name])],
        )


@cache
def _all_forms(mark: str) -> tuple[NumberFormat, ...]:
    return tuple(NumberFormat(mark, one) for one in ("", "," if mark == "." else ".", " ", "'"))


@cache
def _with_unit(form: NumberFormat, unit: str) -> NumberFormat:
    return form if not unit else NumberFormat(form.decimal, form.thousands, unit)


def _matches(text: pa.ChunkedArray, form: NumberFormat) -> pa.ChunkedArray:
    return pc.match_substring_regex(text, form.pattern)


def _any(mask: pa.ChunkedArray) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())


def _all(mask: pa.ChunkedArray) -> bool:
    return bool(pc.all(mask, min_count=0).as_py())
