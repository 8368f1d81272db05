"""The constructors of regressors: those of all machines, and `intervals`."""

from __future__ import annotations

import os
from typing import Any

from onefold.approximations import Approximation
from onefold.estimators.chosen import Chosen
from onefold.estimators.intervals import IntervalRegressor
from onefold.search import Callback
from onefold.typing import ArrayLike, CriterionLike, CrossValidation, MaybeArray, RandomState


class GivenRegressor(IntervalRegressor):
    """Hyper-parameters are given; no intervals unless asked for."""

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: MaybeArray = 1.0,
        alpha: ArrayLike = 1.0,
        degree: float = 3,
        coef0: float = 1.0,
        approximation: str | Approximation = "exact",
        intervals: str | None = None,
        device: Any = None,
        client: Any = None,
        random_state: RandomState = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            kernel,
            gamma=gamma,
            alpha=alpha,
            degree=degree,
            coef0=coef0,
            approximation=approximation,
            device=device,
            client=client,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.intervals = intervals


class ChosenRegressor(IntervalRegressor, Chosen):
    """Hyper-parameters are chosen by held-out predictions, which give intervals too."""

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gammas: MaybeArray = None,
        alphas: MaybeArray = None,
        degree: float = 3,
        coef0: float = 1.0,
        approximation: str | Approximation = "auto",
        cv: CrossValidation = 5,
        criterion: CriterionLike = None,
        select: str = "min",
        search: Any = "grid",
        refit: str = "auto",
        metric: str | None = None,
        max_rounds: int = 5,
        metric_rows: int | None = None,
        blend: bool = False,
        intervals: str | None = "cv+",
        check: bool = False,
        time_budget: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        device: Any = None,
        client: Any = None,
        random_state: RandomState = None,
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
            select=select,
            search=search,
            refit=refit,
            metric=metric,
            max_rounds=max_rounds,
            metric_rows=metric_rows,
            blend=blend,
            check=check,
            time_budget=time_budget,
            checkpoint=checkpoint,
            device=device,
            client=client,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callback=callback,
        )
        self.intervals = intervals
