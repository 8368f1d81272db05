"""Predictions of rows that the model which makes them has not seen, from whatever was fitted."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold.criteria import label_index
from onefold.linalg import is_foreign, to_numpy
from onefold.report.folds import Folds, folds_again, own_folds

_MOST_ROWS = 3000  # of which a fixed estimator is given held-out predictions


@dataclass(frozen=True)
class Predictions:
    """Predictions of the rows that a report judges the model by.

    Attributes
    ----------
    values : ndarray (n, targets)
        Numbers, or decision values; NaN for rows without one.
    probabilities : ndarray (n, classes) or None
    folds : Folds
        The splits that they come from, or that simple models are tried on.
    how : str
        What they are, in words.
    """

    values: np.ndarray
    probabilities: np.ndarray | None
    folds: Folds
    how: str

    @property
    def tested(self) -> np.ndarray:
        """Which rows have a prediction."""
        found: np.ndarray = np.isfinite(self.values).all(axis=1)
        return found

    def labels(self, classes: np.ndarray) -> np.ndarray:
        """The class of each row; the first one where there is no prediction."""
        found: np.ndarray = classes[label_index(np.nan_to_num(self.values))]
        return found


def heldout_predictions(
    estimator: Any, X: Any, y: np.ndarray, weight: Any = None, groups: Any = None
) -> Predictions | None:
    """Those that the fit kept, or for given hyper-parameters those of five folds; None without any."""
    kept = getattr(estimator, "heldout_prediction_", None)
    folds = folds_again(estimator, y, groups)
    if kept is not None:
        values = to_numpy(kept) if is_foreign(kept) else np.asarray(kept)
        probabilities = getattr(estimator, "heldout_proba_", None)
        how = "held-out predictions of the fit, each from a model that did not see its row"
        return Predictions(_two(values), _host(probabilities), folds, how)
    return _of_given(estimator, X, y, weight)


def test_predictions(estimator: Any, X: Any, y: np.ndarray) -> Predictions:
    """Predictions of rows that the fit did not have."""
    classifier = hasattr(estimator, "classes_")
    values = _host(estimator.decision_function(X) if classifier else estimator.predict(X))
    calibrated = classifier and getattr(estimator, "calibrator_", None) is not None
    probabilities = _host(estimator.predict_proba(X)) if calibrated else None
    found = own_folds(y, classifier)
    folds = Folds(found.splits, False, f"{len(found.splits)} folds of these rows")
    how = "predictions of these rows, which are taken to be new to the model"
    return Predictions(_two(values), probabilities, folds, how)


def _of_given(estimator: Any, X: Any, y: np.ndarray, weight: Any) -> Predictions | None:
    """Five folds at the hyper-parameters that were given, from one factorisation."""
    given = getattr(estimator, "as_chooser", None)
    if given is None or hasattr(estimator, "cv") or len(y) > _MOST_ROWS or y.ndim > 1:
        return None
    chooser = given(X)
    folds = own_folds(y, hasattr(estimator, "classes_"))
    one_width = None if chooser.gammas is None else [1.0]
    chooser.set_params(gammas=one_width, alphas=[estimator.alpha], cv=folds.splits, client=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            chooser.fit(X, y, sample_weight=weight)
        except (ValueError, MemoryError):
            return None
    how = "held-out predictions of 5 folds, made for this report with the given hyper-parameters"
    same = Folds(folds.splits, True, "the same 5 folds")
    return Predictions(
        _two(_host(chooser.heldout_prediction_)),
        _host(getattr(chooser, "heldout_proba_", None)),
        same,
        how,
    )


def _two(values: Any) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return values.reshape(len(values), -1)


def _host(values: Any) -> Any:
    return to_numpy(values) if values is not None and is_foreign(values) else values
