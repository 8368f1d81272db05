"""What to tune and how."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from onefold.estimators.validation import check_budget
from onefold.search.strategies import resolve_strategy
from onefold.tables import TableRows, TableSource
from onefold.tables.errors import setting
from onefold.tables.target import TargetKind

KERNELS = (
    "rbf", "laplacian", "matern", "matern12", "matern32", "matern52", "polynomial", "linear",
)  # fmt: skip
METRICS = ("none", "diagonal", "full", "auto")
_WORDS = {
    "task": (None, "classification", "regression"),
    "missing": ("impute", "error"),
    "class_weight": (None, "balanced"),
    "metric": (None, *METRICS),
}


@dataclass(frozen=True)
class Settings:
    """What to tune and how; the options of ``onefold tune`` under the same names.

    `kernel`, `metric` and `blend` are None where nothing is said: a blend of the automatic kernels in
    learned metrics, as far as the other settings allow (:mod:`onefold.jobs.searches`). `kernel` is
    "auto", a name, or several as a list or with commas. `simple` is the plain search of one kernel;
    `gammas` are absolute there and relative to the mean distance of the rows everywhere else. `search`,
    `time_budget` and `checkpoint` are those of the estimators. `holdout` is a share of the rows that is
    kept away from everything and scored at the end, `test` another table to score.
    """

    target: str
    task: TargetKind | None = None
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    id: str | None = None
    weight: str | None = None
    groups: str | None = None
    missing: Literal["error", "impute"] = "impute"
    simple: bool = False
    kernel: str | Sequence[str] | None = None
    metric: Literal["none", "diagonal", "full", "auto"] | None = None
    blend: bool | None = None
    cv: int | Literal["loo"] = 5
    ordered: bool = False
    gap: int = 0
    criterion: str | None = None
    class_weight: Literal["balanced"] | None = None
    gammas: list[float] | None = None
    alphas: list[float] | None = None
    search: str = "grid"
    approximation: str = "auto"
    check: bool = False
    time_budget: float | None = None
    checkpoint: str | Path | None = None
    holdout: float | None = None
    test: Any = None
    jobs: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in _WORDS.items():
            if getattr(self, name) not in allowed:
                words = " or ".join(map(repr, allowed))
                raise ValueError(f"{name} must be {words}; got {getattr(self, name)!r}")
        for name in ("drop", "categorical"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is a list of columns; use {name}=[{getattr(self, name)!r}]")
        for option, column in self.named_columns().items():
            if not isinstance(column, str):
                raise ValueError(f"columns go by their names; use {option}={str(column)!r}")
        if self.cv != "loo" and not (isinstance(self.cv, numbers.Integral) and self.cv >= 2):
            raise ValueError(f"cv must be a number of folds, at least 2, or 'loo'; got {self.cv!r}")
        if self.gap and not self.ordered:
            raise ValueError("gap=N goes with ordered=True: give both or none")

        if self.holdout is not None and not 0 < self.holdout < 1:
            raise ValueError(f"holdout is a share of the rows between 0 and 1; got {self.holdout!r}")
        if self.holdout is not None and self.test is not None:
            raise ValueError(
                f"{setting('holdout', self.holdout)} and a table to test on both keep rows away from "
                "tuning: give one of them"
            )
        self._check_search()

    def _check_search(self) -> None:
        for name, allowed in {"simple": (True, False), "blend": (None, True, False)}.items():
            if not any(getattr(self, name) is value for value in allowed):
                raise ValueError(f"{name} must be True or False; got {getattr(self, name)!r}")
        if not isinstance(self.kernel, str | list | tuple | None):
            raise ValueError(f"kernel must be a name or a list of names; got {self.kernel!r}")
        resolve_strategy(self.search)
        check_budget(self.time_budget)
        names = self.kernel_names()
        for name in names:
            if name not in KERNELS and names != ["auto"]:
                raise ValueError(
                    f"there is no kernel {name!r} to choose; use auto alone, or one or several of "
                    f"{', '.join(KERNELS)}"
                )

    def kernel_names(self) -> list[str]:
        """The kernels that were named; none where nothing was said."""
        if self.kernel is None:
            return []
        given = self.kernel.split(",") if isinstance(self.kernel, str) else self.kernel
        return list(dict.fromkeys(str(name).strip() for name in given)) or [""]

    def named_columns(self) -> dict[str, str]:
        """Every column that a setting names, with the setting."""
        named = {"target": self.target, "id": self.id, "weight": self.weight, "groups": self.groups}
        return {option: name for option, name in named.items() if name is not None}

    def not_features(self) -> set[str]:
        """The columns that are named for another purpose than to learn from them."""
        return {*self.named_columns().values(), *self.drop}

    def check_columns(self, table: TableSource | TableRows) -> None:
        """Refuse columns that the table does not have, or that two options name."""
        named = [*self.named_columns().items(), *(("drop", name) for name in self.drop)]
        for option, name in named:
            if option != "target" and name in self.categorical:
                codes = setting("categorical", [name])
                raise ValueError(f"{_naming(option, name)} and {codes} are one column; choose one")
        named += [("categorical", name) for name in self.categorical]
        for option, name in named:
            table.require(name, option)
            if option != "target" and name == self.target:
                where = _naming(option, name)
                raise ValueError(f"{where} is the target column; choose another column")


def _naming(option: str, name: str) -> str:
    """The setting that names a column."""
    return setting(option, [name] if option in ("drop", "categorical") else name)
