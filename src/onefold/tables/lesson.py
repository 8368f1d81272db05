"""What an estimator of whole tables is taught: a matrix, targets, weights and groups from a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sklearn.utils.multiclass import check_classification_targets

from onefold.estimators.validation import check_length, check_weights
from onefold.rows import to_host
from onefold.tables.answers import as_target
from onefold.tables.beside import groups_in, weights_in
from onefold.tables.errors import TableError
from onefold.tables.frames import as_array, is_frame, rows_of_array, rows_of_frame
from onefold.tables.learn import Learner
from onefold.tables.rows import TableRows
from onefold.tables.target import learn_target

if TYPE_CHECKING:
    from onefold.tables.model import TableModel


@dataclass(frozen=True)
class Lesson:
    """Rows of a table, and what is known of each beside its features.

    Attributes
    ----------
    rows : TableRows
    named : tuple of str
        The columns that are target, weights or groups.
    y : array (n,) or (n, targets), or None
    sample_weight, groups : array (n,) or None
    """

    rows: TableRows
    named: tuple[str, ...]
    y: Any
    sample_weight: Any
    groups: Any

    @property
    def columns(self) -> list[str]:
        """The columns that may become features."""
        beside = {*self.named, *self.rows.auxiliary}
        return [name for name in self.rows.names if name not in beside]

    def learner(self, model: TableModel) -> Learner:
        """What is learned of the columns."""
        learner = Learner({*self.named, *model.drop}, model.missing, model.categorical)
        learner.add(self.rows)
        return learner


def lesson_of(model: TableModel, X: Any, y: Any, sample_weight: Any, groups: Any) -> Lesson:
    """The table as rows, with target, weights and groups as arrays; raise where they do not suit."""
    X = X if is_frame(X) else as_array(X)
    rows = rows_of_frame(X) if is_frame(X) else rows_of_array(X)
    named = tuple(value for value in (y, sample_weight, groups) if isinstance(value, str))
    for name in (*named, *model.drop, *model.categorical):
        rows.require(name)
    if not rows.names:
        raise TableError("the table has no columns; pass one that has some")
    if len(rows) < 2:
        raise TableError(f"the table has {len(rows)} rows (n_samples={len(rows)}); add rows")
    target = learn_target(rows, y, model.task).values if isinstance(y, str) else y
    if target is not None:
        target = as_target(target)
        check_length(target, len(rows))
        if model.task == "classification":
            check_classification_targets(target)
    weight = weights_in(rows, sample_weight) if isinstance(sample_weight, str) else sample_weight
    check_weights(to_host(weight), len(rows))
    return Lesson(
        rows, named, target, weight, groups_in(rows, groups) if isinstance(groups, str) else groups
    )
