"""scikit-learn's own estimator checks, all of them, on all six estimators."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV

# A small grid keeps the checks fast; it changes nothing in the code they reach.
SMALL = {"gammas": [0.01, 0.1], "alphas": [0.01, 1.0], "cv": 3}


_ROWS_AS_KERNEL = "hands over rows, or random numbers, as the kernel matrix: indefinite, so refused"
EXPLAINED = {
    "check_positive_only_tag_during_fit": _ROWS_AS_KERNEL,
    "check_estimators_dtypes": _ROWS_AS_KERNEL,
}


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
    ],
    expected_failed_checks=lambda e: EXPLAINED if e.kernel == "precomputed" else {},
)
def test_scikit_learn_check(estimator: Any, check: Any) -> None:
    check(estimator)
