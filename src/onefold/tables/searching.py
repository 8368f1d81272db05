"""What the search for a table chooses among, and by which splits.

`search_of` decides kernels, metric, blend and strategy from the parameters of an estimator, and
`splitting_of` the splits. Both raise where the parameters do not agree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    check_cv,
)

from onefold.approximations import resolve_approximation
from onefold.criteria import resolve_criteria
from onefold.facts.criteria import WHOLE
from onefold.facts.words import quoted
from onefold.heldout import GapKFold, past_splits, past_splitter
from onefold.kernels import Kernel, resolve_kernel
from onefold.search.strategies import resolve_strategy
from onefold.tables.errors import Remedy, TableError, listing
from onefold.tables.structure import Structure

KERNELS = (
    "rbf", "powexp", "laplacian", "matern", "matern12", "matern32", "matern52", "polynomial", "linear",
)  # fmt: skip
AUTO = "auto"
# The kernel of a plain search.
PLAIN_KERNEL = "rbf"
# Approximations that need the order or the place of the rows, and search a single kernel.
_SINGLE_KERNEL_APPROXIMATIONS = ("toeplitz", "circulant", "grid", "state_space")
# The plain kernel of approximations that do not have rbf.
_PLAIN_KERNEL_OF = {"state_space": "matern52"}


# Splits

SplittingKind = Literal["leave-one-out", "folds", "groups", "blocks", "past", "given"]


@dataclass(frozen=True)
class Splitting:
    """The splits of a search.

    Parameters
    ----------
    kind : {"leave-one-out", "folds", "groups", "blocks", "past", "given"}
        Single rows; folds of shuffled rows; folds that keep groups together; blocks of consecutive rows;
        the same, trained on earlier rows only; or a splitter that was passed.
    cv : int, "loo", splitter or list of splits
        The parameter of the estimator inside.
    folds : int or None
        How many folds there are, where a number was asked for.
    gap : int
        How many rows, or moments, are left out around each block, or before it.
    groups : str, tuple of str or None
        The column of the groups, or the columns, if they are any.
    time : tuple of str or None
        The columns of the moments that blocks consist of; None for blocks of rows as they come.
    """

    kind: SplittingKind
    cv: Any
    folds: int | None = None
    gap: int = 0
    groups: str | tuple[str, ...] | None = None
    time: tuple[str, ...] | None = None

    @property
    def description(self) -> str:
        """The splits in words."""
        if self.kind == "given":
            return "folds as given"
        if self.kind in ("blocks", "past"):
            unit = f"moments of {_quoted(self.time)}" if self.time else "rows"
            left_out = "moments" if self.time else "rows"
            if self.kind == "past":
                gap = f" with {self.gap} {left_out} left out before each" if self.gap else ""
                return f"{self.folds} blocks of consecutive {unit}, trained on earlier ones only{gap}"
            gap = f" with {self.gap} {left_out} left out around each" if self.gap else ""
            return f"{self.folds} blocks of consecutive {unit}{gap}"
        if self.kind == "groups":
            groups = "groups" if self.groups is None else f"groups of {_quoted(self.groups)}"
            return f"{self.folds}-fold, {groups} kept together"
        return f"{self.folds}-fold" if self.kind == "folds" else "leave-one-out"

    def as_plain(self) -> dict[str, Any]:
        """The same in plain values, for a report."""
        groups = list(self.groups) if isinstance(self.groups, tuple) else self.groups
        facts = {"kind": self.kind, "folds": self.folds, "gap": self.gap, "groups": groups}
        return facts if self.time is None else facts | {"time": list(self.time)}


def _quoted(names: str | tuple[str, ...]) -> str:
    """One column or several, in quotation marks."""
    return quoted([names] if isinstance(names, str) else names)


def splitting_of(
    model: Any, y: np.ndarray | None, groups: Any, group_column: str | tuple[str, ...] | None
) -> Splitting:
    """The splits that the parameters of a table's estimator mean for rows with these targets and groups.

    A number of folds is shuffled by `random_state`, evenly by class for a classifier, unless rows of one
    group stay together, or rows are `ordered`: then folds are blocks with a `gap` around each. With
    ``ordered="auto"`` rows are taken for unordered here, and :func:`acting_on` decides.
    """
    if y is None:
        return Splitting("given", model.cv)
    cv = model.cv
    if isinstance(cv, str) and cv == "loo":
        if groups is not None or model.ordered is True:
            raise TableError("groups and ordered rows need a number of folds", [Remedy("cv", 5)])
        return Splitting("leave-one-out", "loo")
    classes = model.task == "classification"
    past = past_splits(cv)
    if past is not None:
        if groups is not None:
            raise TableError("groups and a split that trains on the past cannot be combined; use one")
        if past >= len(y):
            remedies: list[Remedy | str] = ["add rows"]
            if len(y) > 2:
                remedies.append(Remedy("cv", f"past:{len(y) - 1}"))
            raise TableError(
                f"{past} blocks of later rows need at least {past + 1} rows, but the table has {len(y)} "
                f"(n_samples={len(y)})",
                remedies,
            )
        return Splitting("past", past_splitter(cv, model.gap), past, model.gap)
    if isinstance(cv, bool) or not isinstance(cv, int | np.integer):
        return Splitting("given", _same_every_time(check_cv(cv, y, classifier=classes), y, groups))
    folds = int(cv)
    ordered = model.ordered is True
    if groups is not None and ordered:
        raise TableError("ordered rows and groups cannot be combined; leave one of them out")
    _refuse_many_folds(folds, y, groups, by_class=classes and groups is None and not ordered)
    if groups is not None:
        return Splitting("groups", GroupKFold(folds), folds, groups=group_column)
    if ordered:
        return Splitting("blocks", GapKFold(folds, model.gap), folds, model.gap)
    splitter = StratifiedKFold if classes else KFold
    return Splitting("folds", splitter(folds, shuffle=True, random_state=model.random_state), folds)


def acting_on(
    structure: Structure, splitting: Splitting, model: Any, *, groups: bool
) -> Splitting | None:
    """The splits that keep a noticed structure together, where groups or order are "auto"; else None."""
    if structure.kind == "groups":
        return _grouped(structure, splitting) if groups and splitting.kind == "folds" else None
    if not _is_auto(model.ordered):
        return None
    return in_time(structure.codes, structure.columns, replace(splitting, gap=model.gap))


def second_of(structure: Structure, splitting: Splitting) -> Splitting:
    """The splits by which a model that was chosen by random folds is also scored."""
    if structure.kind == "groups":
        return _grouped(structure, splitting)
    return in_time(structure.codes, structure.columns, splitting)


def _grouped(structure: Structure, splitting: Splitting) -> Splitting:
    """Folds that keep noticed groups together, no more than there are groups."""
    codes = structure.codes
    count = min(splitting.folds or 0, int(np.unique(codes).size))
    folds = np.empty(len(codes), dtype=np.intp)
    for number, (_, test) in enumerate(GroupKFold(count).split(codes, groups=codes)):
        folds[test] = number
    columns = structure.columns
    name = columns[0] if len(columns) == 1 else columns or None
    return Splitting("groups", PredefinedSplit(folds), count, groups=name)


def in_time(ranks: np.ndarray, columns: tuple[str, ...], splitting: Splitting) -> Splitting:
    """Blocks of consecutive moments, or those that train on earlier ones; `ranks` may have ties."""
    size = int(ranks.max()) + 1
    past = splitting.kind == "past"
    least = 1 if past else 0  # moments that are only trained on
    count = min(splitting.folds or 0, size - least)
    if count < 2:
        names = _quoted(columns) if columns else "the rows"
        raise TableError(
            f"blocks of moments need at least {2 + least} of them, but {names} has {size}", ["add rows"]
        )
    gap = splitting.gap
    splitter: Any = TimeSeriesSplit(count, gap=gap) if past else GapKFold(count, gap)
    rows = np.arange(len(ranks))
    splits = [
        (rows[np.isin(ranks, train)], rows[np.isin(ranks, test)])
        for train, test in splitter.split(np.zeros((size, 1)))
    ]
    cv: Any = splits
    if not past and not gap:  # in a few numbers
        folds = np.empty(len(ranks), dtype=np.intp)
        for number, (_, test) in enumerate(splits):
            folds[test] = number
        cv = PredefinedSplit(folds)
    if not columns and len(ranks) == size and bool((np.diff(ranks) == 1).all()):
        cv = splitter
    return Splitting("past" if past else "blocks", cv, count, gap, time=columns or None)


def cannot_be_scored(splitting: Splitting, y: np.ndarray, weight: Any, *, classes: bool) -> str | None:
    """Why the models without each fold would have nothing to learn or to predict; None if they do."""
    positive = np.ones(len(y), dtype=bool) if weight is None else np.asarray(weight) > 0
    cv = splitting.cv
    for train, test in cv.split(np.zeros((len(y), 1))) if hasattr(cv, "split") else cv:
        trained = np.asarray(train)[positive[train]]
        if not trained.size or not positive[test].any():
            return "a fold has only rows of weight 0"
        if classes and np.unique(y[trained]).size < 2:
            return "without one of its folds there is only one class"
    return None


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def _same_every_time(cv: Any, y: np.ndarray, groups: Any) -> Any:
    """A splitter, or its splits where it would make others every time."""
    seed = getattr(cv, "random_state", 0)
    if getattr(cv, "shuffle", True) and not isinstance(seed, Integral):
        return list(cv.split(np.zeros((len(y), 1)), y, groups))
    return cv


def _refuse_many_folds(folds: int, y: np.ndarray, groups: Any, by_class: bool) -> None:
    """Refuse more folds than there are rows, groups, or rows of the largest class."""
    remedies: list[Remedy | str] = ["add rows"]
    most = len(y)
    available = f"rows, but the table has {len(y)} (n_samples={len(y)})"
    if groups is not None:
        most = len(np.unique(groups))
        available = f"groups, but there {'is only' if most == 1 else 'are only'} {most}"
        remedies = []
    elif by_class and folds <= len(y):
        most = int(np.unique(y, return_counts=True)[1].max())
        available = f"rows of one class, but the largest class has {most}"
        remedies = []
    if folds <= most:
        return
    if most > 1:
        remedies.append(Remedy("cv", most))
    if by_class and folds <= len(y):
        remedies.append(Remedy("cv", "loo"))
    raise TableError(f"{folds} folds need at least {folds} {available}", remedies)


# Kernels, metric, blend and strategy


@dataclass(frozen=True)
class SearchSettings:
    """What an estimator chooses among, and what the defaults had to give up.

    Parameters
    ----------
    kernel : str, kernel or list
        A single kernel is the plain search; "auto" and lists are families.
    metric : {"auto", "diagonal", "full"} or None
    blend : bool
    note : str or None
        Which default gave way, and why.
    search : str or strategy
        How the grid of a search without a metric is gone through.
    """

    kernel: Any
    metric: str | None = None
    blend: bool = False
    note: str | None = None
    search: Any = "grid"

    def as_plain(self) -> dict[str, Any]:
        """The same in plain values, for a report."""
        kernels = self.kernel if isinstance(self.kernel, list) else [self.kernel]
        return {
            "kernels": [str(kernel) for kernel in kernels],
            "metric": self.metric or "none",
            "blend": self.blend,
            "note": self.note,
        }


def search_of(model: Any, *, on_disk: bool = False) -> SearchSettings:
    """What the parameters of a table's estimator mean for such rows; raise where they do not agree.

    By default the kernels of "auto" compete, each with a learned metric, and the best are blended. If
    another parameter cannot be combined with that, the defaults of `metric` and `blend` are switched
    off, with a note; values that were set explicitly raise an error instead.
    """
    named = named_kernels(model)
    kernels = [resolve_kernel(kernel, 1.0, 3, 1.0) for kernel in named]
    if model.gammas is not None and kernels and not any(kernel.has_width for kernel in kernels):
        raise ValueError(f"the {named[0]} kernel has no width; leave gammas out")
    reason = _why_neither_metric_nor_blend(model, on_disk)
    if reason is not None:
        return _without_metric(model, named, reason, on_disk)
    metrics = {metric for kernel in kernels for metric in kernel.learns}
    if kernels and model.metric in ("diagonal", "full") and model.metric not in metrics:
        raise ValueError(
            f"a {model.metric} metric cannot be learned with {listing(map(str, named))}; rbf and matern "
            "can learn a diagonal or a full one, laplacian a diagonal one"
        )
    learns = model.metric not in (None, "none") and (not kernels or bool(metrics))
    has_one_candidate = len(kernels) == 1 and not learns  # there is nothing to blend it with
    strategy = "grid" if model.search == "auto" else model.search
    keeps_one = has_one_candidate or (not learns and strategy != "grid")
    blend = not keeps_one if model.blend == "auto" else model.blend
    if strategy != "grid" and learns:
        raise TableError(
            f"search {model.search!r} cannot be combined with a learned metric",
            [Remedy("simple", True), Remedy("metric", "none"), "leave search out"],
        )
    if strategy != "grid" and blend:
        raise TableError(
            f"search {model.search!r} cannot be combined with a blend, because it discards candidates "
            "that a blend needs; drop one of the two"
        )
    if getattr(model, "intervals", None) == "jackknife+" and (learns or blend):
        raise TableError(
            "intervals 'jackknife+' are not available with a learned metric or a blend",
            [Remedy("simple", True), Remedy("intervals", "cv+")],
        )
    gave_way = keeps_one and not has_one_candidate and model.blend == "auto"
    note = f"no blend: search {model.search!r} keeps one kernel" if gave_way else None
    if has_one_candidate and not blend and model.search == "auto" and _supports_halving(model):
        strategy = "halving"
    return SearchSettings(named or AUTO, model.metric if learns else None, blend, note, strategy)


def _without_metric(model: Any, named: list[Any], reason: str, on_disk: bool) -> SearchSettings:
    """The settings of a search that can have neither metric nor blend."""
    for option, is_set in {
        f"a {model.metric} metric": model.metric in ("diagonal", "full"),
        "a blend": model.blend is True,
        "a list of kernels": model.simple and len(named) > 1,
    }.items():
        if is_set:
            raise ValueError(f"{option} is not available: {reason}; drop one of the two")
    kernel = named[0] if named else _PLAIN_KERNEL_OF.get(str(model.approximation), PLAIN_KERNEL)
    strategy = "grid" if model.search == "auto" else model.search
    if model.simple:
        halves = model.search == "auto" and not on_disk and _supports_halving(model)
        return SearchSettings(kernel, search="halving" if halves else strategy)
    if len(named) <= 1 and (on_disk or model.approximation in _SINGLE_KERNEL_APPROXIMATIONS):
        note = f"plain search of the {kernel} kernel: {reason}"
        return SearchSettings(kernel, note=note, search=strategy)
    return SearchSettings(named or AUTO, note=f"no metric and no blend: {reason}", search=strategy)


def _supports_halving(model: Any) -> bool:
    """Whether some of the rows make a problem of the same kind, and the criterion holds rows out."""
    approximation = resolve_approximation(model.approximation)
    classifier = model.task == "classification"
    criterion = model.criterion
    if criterion is None:
        criterion = "error" if classifier else "mse"
    first, *_ = resolve_criteria(criterion, classifier=classifier).values()
    return approximation.selects and approximation.learns_metrics and first.holds_out


def _why_neither_metric_nor_blend(model: Any, on_disk: bool) -> str | None:
    """Why nothing can be learned from, or blended by, held-out predictions of folds."""
    if model.simple:
        return "a simple search uses one kernel without a metric"
    if on_disk:
        return "the rows of this table are kept on disk"
    if model.approximation in _SINGLE_KERNEL_APPROXIMATIONS:
        return f"the approximation {model.approximation!r} does not support metrics or blends"
    if isinstance(model.cv, str) and model.cv == "loo":
        return "leave-one-out holds out single rows, not folds"
    if isinstance(model.criterion, str) and model.criterion in WHOLE:
        return f"the criterion {model.criterion!r} does not hold out rows"
    return None


def takes_axis(approximation: Any) -> bool:
    """Whether an approximation works on one feature, such as the time, or on few."""
    return resolve_approximation(approximation).name in _SINGLE_KERNEL_APPROXIMATIONS


def named_kernels(model: Any) -> list[Any]:
    """The kernels that were named, each once; none for "auto"."""
    kernels = list(model.kernel) if isinstance(model.kernel, list | tuple) else [model.kernel]
    distinct = [kernel for i, kernel in enumerate(kernels) if kernel not in kernels[:i]]
    return [] if distinct == [AUTO] else distinct


def check_kernels(model: Any) -> None:
    """Raise for unknown kernels and search strategies."""
    if not isinstance(model.kernel, str | list | tuple | Kernel) and not callable(model.kernel):
        raise ValueError(f"kernel must be a name or a list of names; got {model.kernel!r}")
    for kernel in named_kernels(model) or ([] if model.kernel == AUTO else [""]):
        if isinstance(kernel, str) and kernel not in KERNELS:
            raise ValueError(
                f"unknown kernel {kernel!r}; use auto alone, or one or more of {', '.join(KERNELS)}"
            )
    if model.search != "auto":
        resolve_strategy(model.search)
