"""Estimators that choose their own hyper-parameters."""

from __future__ import annotations

from typing import Any

from onefold.estimators.base import KernelClassifier, KernelRegressor
from onefold.estimators.chosen import Chosen
from onefold.search import Callback


class LSSVCCV(KernelClassifier, Chosen):
    r"""Least-squares support vector classifier that chooses gamma and alpha itself.

    Every fold and every alpha come from one factorisation per gamma: the scores of
    ``GridSearchCV(LSSVC(), ...)`` without refitting.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        As in :class:`LSSVC`. The widths of a Kernel object are multiplied by each of `gammas`.
    gammas : list of float or "scale", default=None
        Widths to try; None is 2^-15, 2^-13, …, 2^9, meant for standardised features [ding2011]_.
    alphas : list of float, default=None
        Ridges μ to try; None is 2^-15, 2^-13, …, 2^5.
    degree, coef0 : float, default=3, 1.0
        Of the polynomial kernel.
    approximation : str or object from :mod:`onefold.approximations`, default="auto"
    cv : int, "loo", splitter or iterable of (train, test), default=5
        An integer is stratified folds. ``"loo"`` scores all left-out predictions together.
    criterion : str or scorer, default="error"
        "error" (its negative is the score), "press", "gcv", "evidence", "cost", the name of a
        scikit-learn scorer, or a scorer.
    refit : {"auto", "exact", "same"}, default="auto"
        Fit the final model with the true kernel, or with the approximation that selected it.
    check : bool, default=False
        Run :func:`onefold.trust` on a subsample of 1000 rows first; its verdict is kept in
        ``approximation_["trust"]``, and "does not apply" warns.
    class_weight : dict, "balanced" or None, default=None
        Multiplies the weight of each row by that of its class; "balanced" counts the classes once,
        in all rows. A class of weight 0 is neither trained on nor scored.
    device : str, torch device or None, default=None
        Move the rows there, as in :class:`LSSVC`.
    random_state : int, RandomState, Generator or None, default=None
        Of the landmarks, of other random choices of the approximation, and of the subsample that
        `check` looks at; None leaves them to the approximation's own settings, which are fixed too.
    n_jobs : int or None, default=None
        As in :class:`LSSVC`.
    verbose : int, default=0
        1 writes a line to the standard error stream after each gamma.
    callback : function, optional
        Called after each gamma with a dict: done, total, best_score, best_params.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_
        The choice; ties go to the largest gamma, then the largest alpha.
    cv_results_ : dict
        As in ``GridSearchCV``.
    heldout_prediction_ : array (n,) or (n, classes)
        Decision values at the choice, each from a model that did not see its row.
    history_ : list of dict
        Scores and time of each gamma, in the order they finished.
    classes_, expansion_, approximation_
        As in :class:`LSSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import LSSVCCV
    >>> X, y = load_iris(return_X_y=True)
    >>> LSSVCCV().fit(X, y).best_score_ > -0.05
    True
    """

    _default_criterion = "error"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gammas: Any = None,
        alphas: Any = None,
        degree: float = 3,
        coef0: float = 1.0,
        approximation: Any = "auto",
        cv: Any = 5,
        criterion: Any = None,
        refit: str = "auto",
        metric: str | None = None,
        max_rounds: int = 5,
        metric_rows: int | None = None,
        blend: bool = False,
        check: bool = False,
        class_weight: Any = None,
        device: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        super().__init__(
            kernel,
            gammas=gammas,
            alphas=alphas,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            cv=cv,
            criterion=criterion,
            refit=refit,
            metric=metric,
            max_rounds=max_rounds,
            metric_rows=metric_rows,
            blend=blend,
            check=check,
            device=device,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callback=callback,
        )
        self.class_weight = class_weight


class LSSVRCV(KernelRegressor, Chosen):
    r"""Least-squares support vector regression that chooses gamma and alpha itself.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, approximation, cv, refit, check, device, random_state,
    n_jobs, verbose, callback
        As in :class:`LSSVCCV`; integer `cv` is unshuffled folds, as in scikit-learn.
    criterion : str or scorer, default="mse"
        "mse", "cov" (root mean square error over the mean of y) or "mape" (their negatives are the
        scores), "press", "gcv", "evidence", "cost", the name of a scikit-learn scorer, or a scorer.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_, cv_results_, history_
        As in :class:`LSSVCCV`.
    heldout_prediction_ : array (n,) or (n, targets)
        Predictions at the choice, each from a model that did not see its row.
    expansion_, approximation_
        As in :class:`LSSVR`.
    """

    _default_criterion = "mse"


class KernelRidgeCV(KernelRegressor, Chosen):
    r"""Kernel ridge regression (no intercept) that chooses gamma and alpha itself.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, approximation, cv, criterion, refit, check, device,
    random_state, n_jobs, verbose, callback
        As in :class:`LSSVRCV`.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_, cv_results_, history_,
    heldout_prediction_, expansion_, approximation_
        As in :class:`LSSVRCV`.
    """

    _fit_intercept = False
    _default_criterion = "mse"
