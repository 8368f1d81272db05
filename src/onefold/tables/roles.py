"""What rows have besides features: targets, weights, groups and identifiers, as columns or as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from onefold.tables.errors import TableError
from onefold.tables.rows import Table
from onefold.tables.target import plain_array

if TYPE_CHECKING:
    from onefold.tables.preparation import TableEstimator

# The word for groups that are noticed.
AUTO_GROUPS = "auto"
# Types of Arrow that no .csv file can hold, by the names of ``pyarrow.types.is_…``.
_NOT_IN_CSV = ("nested", "binary", "large_binary", "fixed_size_binary", "duration", "interval")


@dataclass(frozen=True)
class Roles:
    """The roles of columns that are not features.

    Parameters
    ----------
    target, sample_weight : str, array or None
        The name of a column, or one value per row.
    groups : str, tuple of str, array or None
        The same, or the names of several columns: rows are in one group if they agree in all of them.
    id_column : str or None
        The column that identifies the rows.
    notices_groups : bool
        Whether folds are to keep groups together that are noticed.
    """

    target: Any = None
    sample_weight: Any = None
    groups: Any = None
    id_column: str | None = None
    notices_groups: bool = False

    @property
    def columns(self) -> list[tuple[str, str]]:
        """The columns, each with its role."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return [
            (role, name)
            for role, value in values.items()
            for name in (value if isinstance(value, tuple) else (value,))
            if isinstance(name, str)
        ]

    @property
    def names(self) -> list[str]:
        """The columns."""
        return [name for _, name in self.columns]

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The columns of the groups; none where these are an array."""
        return tuple(name for role, name in self.columns if role == "groups")

    @property
    def row_columns(self) -> list[str]:
        """The columns of targets, weights and groups."""
        return [name for role, name in self.columns if role != "id_column"]

    def where(self, mask: np.ndarray) -> Roles:
        """The same with the values of some rows in place of those of all."""
        return Roles(
            _values_where(mask, self.target),
            _values_where(mask, self.sample_weight),
            _values_where(mask, self.groups),
            self.id_column,
            self.notices_groups,
        )


def _values_where(mask: np.ndarray, values: Any) -> Any:
    """The values of some rows of an array; names of columns, numbers and None stay as they are."""
    if values is None or isinstance(values, str | tuple):
        return values
    array = plain_array(values)
    if not array.ndim:
        return values
    if len(array) != len(mask):
        raise TableError(
            f"sample_weight or groups has {len(array)} values, and the table has {len(mask)} rows; "
            "give one for every row, also for those without a target"
        )
    return array[mask]


def groups_among(table: Table, groups: Any) -> tuple[Any, bool]:
    """Groups as `Roles` take them, and whether they are to be noticed.

    A list of names of columns is told from a list of groups by its first name. Names may also come as
    one text with commas, as on the command line.
    """
    if isinstance(groups, str) and groups == AUTO_GROUPS and AUTO_GROUPS not in table.names:
        return None, True
    if isinstance(groups, str) and groups not in table.names:
        parts = groups.split(",")
        groups = parts if len(parts) > 1 and set(parts) <= set(table.names) else groups
    listed = isinstance(groups, list | tuple) and len(groups) > 0
    if listed and all(isinstance(name, str) for name in groups) and groups[0] in table.names:
        return (groups[0] if len(groups) == 1 else tuple(groups)), False
    return groups, False


def check_columns(model: TableEstimator, table: Table, roles: Sequence[tuple[str, str]]) -> None:
    """Refuse columns that the table does not have, or that two parameters name.

    `roles` are the names of the parameters that columns were passed as, each with its column.
    """
    target = next((name for role, name in roles if role == "target"), None)
    listed = [("drop", name) for name in model.drop]
    for option, name in [*roles, *listed]:
        for kind, names in (("categorical", model.categorical), ("numeric", model.numeric)):
            if option != "target" and name in names:
                raise TableError(f" both name column '{name}'; choose one", (), [option, kind])
    for name in model.numeric:
        if name in model.categorical:
            raise TableError(f" both name column '{name}'; choose one", (), ["numeric", "categorical"])
    listed += [("categorical", name) for name in model.categorical]
    listed += [("numeric", name) for name in model.numeric]
    for option, name in [*roles, *listed]:
        table.require(name, option)
        if option != "target" and name == target:
            raise TableError(f" names the target column '{name}'; choose another column", (), [option])


def check_id(name: str | None, table: Table) -> None:
    """Refuse an ID column that is not there, or that no .csv file can hold."""
    if name is None:
        return
    table.require(name)
    first = next(table.batches(1, [name]), None)
    kind = pa.null() if first is None else first.columns.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    unsuitable = any(getattr(pa.types, f"is_{type_name}")(kind) for type_name in _NOT_IN_CSV)
    if unsuitable or isinstance(kind, pa.BaseExtensionType):
        raise ValueError(f"the ID column '{name}' must hold text, numbers or dates; got {kind} values")


def refuse_clash(name: str | None, outputs: Iterable[str]) -> None:
    """Refuse an ID column with the name of another column of the predictions."""
    if name in set(outputs):
        raise ValueError(f"the ID column '{name}' clashes with an output column; rename it")
