"""The splits of a fit once more, so that simple models can be tried on the same held-out rows."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn import model_selection
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold, check_cv

from onefold.heldout import GapKFold

_SPLITTERS = (
    "KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "RepeatedKFold",
    "RepeatedStratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit",
    "TimeSeriesSplit", "LeaveOneOut", "LeaveOneGroupOut",
)  # fmt: skip
_OWN = 5


@dataclass(frozen=True)
class Folds:
    """Training and test rows of each split.

    Attributes
    ----------
    splits : list of (train, test) arrays
    same : bool
        Whether they are those that the held-out predictions of the fit come from.
    words : str
        What they are.
    comparable : bool
        Whether other models on them are as far from their rows as the model was from those of the fit.
    """

    splits: list[tuple[np.ndarray, np.ndarray]]
    same: bool
    words: str
    comparable: bool = True

    @property
    def tests(self) -> list[np.ndarray]:
        """The rows that are tested together."""
        return [test for _, test in self.splits]


def folds_again(estimator: Any, y: np.ndarray, groups: Any = None) -> Folds:
    """The estimator's splits of these rows; five folds of our own where they cannot be had again.

    A splitter that shuffles without a seed, an iterator and missing groups are such cases.
    """
    classifier = hasattr(estimator, "classes_")
    cv, why = _splitter(estimator, groups)
    if why is None and (cv == "loo" or isinstance(cv, LeaveOneOut)):
        found = own_folds(y, classifier, count=10)
        words = "10 folds, as refitting for every single row would take long"
        return Folds(found.splits, False, words)
    if why is None:
        try:
            splitter = check_cv(cv, _labels(y), classifier=classifier)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of rare classes: the fit has spoken of them
                pairs = list(splitter.split(np.zeros((len(y), 1)), _labels(y), groups))
        except (TypeError, ValueError, IndexError):
            pairs, why = [], "the splitter does not take these rows"
        if why is None and len(pairs) >= _scored(estimator):
            splits = [(_numbers(train), _numbers(test)) for train, test in pairs]
            return Folds(splits, True, f"the same {len(splits)} splits as the model")
        why = why or "the splitter gives fewer splits than the fit had"
    own = own_folds(y, classifier)
    alike = not hasattr(cv, "split") and "group" not in str(why)
    words = f"{len(own.splits)} folds of their own: {why}"
    return Folds(own.splits, False, words, comparable=alike)


def own_folds(y: np.ndarray, classifier: bool, count: int = _OWN) -> Folds:
    """Shuffled folds, evenly by class where that is possible."""
    count = max(2, min(count, len(y)))
    kind: Any = KFold
    if classifier and np.unique(y, return_counts=True)[1].max() >= count:
        kind = StratifiedKFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cv = kind(count, shuffle=True, random_state=0)
        return Folds(list(cv.split(np.zeros((len(y), 1)), _labels(y))), False, f"{count} folds")


def _splitter(estimator: Any, groups: Any) -> tuple[Any, str | None]:
    """What the estimator was told, or why that does not lead to the same splits again."""
    noted = getattr(estimator, "dropped_params_", {}).get("cv")
    cv = getattr(estimator, "cv", None) if noted is None else _spelled(noted)
    if cv is None:
        return None, "those of the fit are not known"
    if isinstance(cv, Integral | str | list | tuple):
        return cv, None
    if not hasattr(cv, "split"):
        return None, "those of the fit came from an iterator, which serves once"
    if "Group" in type(cv).__name__ and groups is None:
        return None, "those of the fit kept groups together; give them as groups="
    if getattr(cv, "shuffle", True) and hasattr(cv, "random_state") and cv.random_state is None:
        return None, "those of the fit were shuffled without a seed; give the splitter a random_state"
    if isinstance(getattr(cv, "random_state", None), np.random.RandomState):
        return None, "those of the fit came from a random generator; give the splitter a number"
    return cv, None


def _spelled(text: str) -> Any | None:
    """The splitter that a model file notes by its repr; None for anything but a known one."""
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            return None
        options = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        name = call.func.id
        if name == "GapKFold":
            return GapKFold(**options)
        return getattr(model_selection, name)(**options) if name in _SPLITTERS else None
    except (SyntaxError, TypeError, ValueError):
        return None


def _scored(estimator: Any) -> int:
    """How many splits have scores in the fit's own table."""
    table = getattr(estimator, "cv_results_", None) or getattr(estimator, "path_", None) or {}
    return sum(name.startswith("split") and name.endswith("_test_score") for name in table)


def _labels(y: np.ndarray) -> np.ndarray:
    return y if y.ndim == 1 else y[:, 0]


def _numbers(rows: Any) -> np.ndarray:
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows
