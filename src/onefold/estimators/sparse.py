"""Sparse least-squares support vector machines: few centres, pruned (cawley2002)."""

from __future__ import annotations

from typing import Any

from onefold.estimators.base import KernelClassifier, KernelRegressor
from onefold.estimators.pruned import Pruned
from onefold.typing import ClassWeight, CrossValidation, MaybeArray, RandomState, Scorer


class SparseLSSVR(KernelRegressor, Pruned):
    r"""Least-squares support vector regression with few centres [cawley2002]_.

    f(x) = Σ_{j∈S} β_j k(x, z_j) + b, penalty βᵀK_SSβ, all residuals in the loss. gamma and alpha are
    chosen for the full model; then the centres with the smallest |β| are dropped, a twentieth at a time.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, cv, n_jobs
        As in :class:`LSSVRCV`. One gamma and one alpha: nothing is tuned. No metric is learned here; one
        that was learned elsewhere goes into the kernel: ``kernel=RBF(metric=fitted.metric_)``.
    n_centres : int, optional
        Prune to this many centres.
    tolerance : float, optional
        Prune while the held-out score is within this share of the best: 0.05 allows 5 % more error.
        With neither, the knee is taken: the fewest centres within one standard error of the best.
    weights : {None, "robust"}, default=None
        "robust" weighs rows down by their residual's robust distance, refitting until it settles.
    max_centres : int, default=1000
        First centres: all rows up to this many, otherwise chosen by randomly pivoted Cholesky.
    drop : float, default=0.05
        Share of the centres dropped at each step.
    criterion : str or scorer, default="mse"
    device : str, torch device or None, default=None
        As in :class:`LSSVC`.
    random_state : int, RandomState, Generator or None, default=0
        Of the first centres where not all rows are; None: 0.

    Attributes
    ----------
    path_ : dict
        ``n_centres``, ``mean_test_score``, ``std_test_score`` and ``split*_test_score``: the held-out
        score at each size that the training parts can judge, each pruned on its own.
    n_centres_, best_score_, gamma_, alpha_, expansion_, approximation_
        ``alpha_`` is the ridge for all rows: the one that the folds chose times n over the number of
        rows they trained on.
    robust_weights_ : array (n,)
        With ``weights="robust"``; 0 for rows of weight 0.
    """

    _default_criterion = "mse"


class SparseLSSVC(KernelClassifier, Pruned):
    r"""Least-squares support vector classifier with few centres [cawley2002]_.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, cv, n_jobs
        As in :class:`LSSVCCV`. One gamma and one alpha: nothing is tuned. No metric is learned here; one
        that was learned elsewhere goes into the kernel: ``kernel=RBF(metric=fitted.metric_)``.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class, in the loss and in the scores.
    calibration : {"temperature", "sigmoid", "isotonic"} or None, default="temperature"
        As in :class:`LSSVCCV`, fitted to the held-out decision values at the chosen size.
    n_centres, tolerance, weights, max_centres, drop, device, random_state
        As in :class:`SparseLSSVR`.
    criterion : str or scorer, default="error"

    Attributes
    ----------
    classes_, calibrator_
        As in :class:`LSSVC`.
    path_, n_centres_, best_score_, gamma_, alpha_, expansion_, approximation_
        As in :class:`SparseLSSVR`.
    """

    _default_criterion = "error"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gammas: MaybeArray = None,
        alphas: MaybeArray = None,
        degree: float = 3,
        coef0: float = 1.0,
        n_centres: int | None = None,
        tolerance: float | None = None,
        weights: str | None = None,
        max_centres: int = 1000,
        drop: float = 0.05,
        cv: CrossValidation = 5,
        criterion: str | Scorer | None = None,
        class_weight: ClassWeight = None,
        calibration: str | None = "temperature",
        device: Any = None,
        random_state: RandomState = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel, gammas=gammas, alphas=alphas, degree=degree, coef0=coef0, n_centres=n_centres,
            tolerance=tolerance, weights=weights, max_centres=max_centres, drop=drop,
            cv=cv, criterion=criterion, device=device, random_state=random_state, n_jobs=n_jobs,
        )  # fmt: skip
        self.class_weight = class_weight
        self.calibration = calibration
