"""scikit-learn's own estimator checks, all of them, on all eight estimators."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
)

# A small grid keeps the checks fast; it changes nothing in the code they reach.
SMALL = {"gammas": [0.01, 0.1], "alphas": [0.01, 1.0], "cv": 3}


_ROWS_AS_KERNEL = "hands over rows, or random numbers, as the kernel matrix: indefinite, so refused"
_ANY_LIBRARY = "wants an error for rows of another library than in fit: they are predicted, in their own"
_LEFT_OUT_ALONE = "is calibrated on rows left out one by one: a copy of the row stays, a weight does not"
_TIED_CENTRES = "rows far apart make centres of equal strength: the folds drop those that come first"


def explained(estimator: Any) -> dict[str, str]:
    """The checks that cannot hold, and why."""
    libraries = {"check_array_api_same_namespace": _ANY_LIBRARY}
    if estimator.kernel == "precomputed":
        return libraries | {
            "check_positive_only_tag_during_fit": _ROWS_AS_KERNEL,
            "check_estimators_dtypes": _ROWS_AS_KERNEL,
        }
    if isinstance(estimator, LSSVC):
        return libraries | {
            "check_sample_weight_equivalence_on_dense_data": _LEFT_OUT_ALONE,
            "check_sample_weight_equivalence_on_sparse_data": _LEFT_OUT_ALONE,
        }
    if isinstance(estimator, SparseLSSVC):
        return libraries | {
            "check_sample_weight_equivalence_on_dense_data": _TIED_CENTRES,
            "check_sample_weight_equivalence_on_sparse_data": _TIED_CENTRES,
        }
    return libraries


@parametrize_with_checks(
    [
        LSSVC(),
        LSSVR(),
        KernelRidge(),
        LSSVCCV(**SMALL),
        LSSVRCV(**SMALL),
        KernelRidgeCV(**SMALL),
        LSSVC(kernel="linear"),
        LSSVR(kernel="laplacian"),
        KernelRidge(kernel="precomputed"),
        SparseLSSVC(),
        SparseLSSVR(),
    ],
    expected_failed_checks=explained,
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
