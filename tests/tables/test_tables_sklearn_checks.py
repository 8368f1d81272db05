"""scikit-learn's own estimator checks on the estimators of whole tables."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import TableClassifier, TableRegressor

# The plain search with few folds keeps the checks fast; it changes nothing in the code of tables.
SMALL = {"simple": True, "cv": 3}
EXPLAINED = {
    "check_class_weight_classifiers": (
        "weights enter the fit, and widths are chosen by errors that count alike: on pure noise a "
        "narrow kernel, which heeds no weights, may win"
    ),
}


@parametrize_with_checks(
    [TableClassifier(**SMALL), TableRegressor(**SMALL)],
    expected_failed_checks=lambda model: EXPLAINED if isinstance(model, TableClassifier) else {},
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
