"""Estimators that choose their own hyper-parameters."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import _num_samples

from onefold.approximations import (
    Approximation,
    Problem,
    Workload,
    exact_fit,
    resolve_approximation,
)
from onefold.criteria import resolve_criterion
from onefold.estimators.base import KernelClassifier, KernelMachine, KernelRegressor
from onefold.estimators.validation import (
    as_labels,
    check_alphas,
    check_kernel_matrix,
    check_rows,
    check_squares,
)
from onefold.estimators.weightless import heldout_of_weightless
from onefold.heldout import Splits, make_splits
from onefold.kernels import Kernel, resolve_gamma, resolve_kernel
from onefold.machine.threads import use_threads
from onefold.search import (
    Callback,
    Grid,
    GridEdgeWarning,
    SearchResult,
    edges,
    make_candidates,
    run_search,
)

DEFAULT_GAMMAS = 2.0 ** np.arange(-15, 10, 2)
DEFAULT_ALPHAS = 2.0 ** np.arange(-15, 6, 2)


class _Chosen(KernelMachine):
    """Search the grid in closed form, then fit with what it chose."""

    _default_criterion: str

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
        check: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callback | None = None,
    ) -> None:
        self.kernel = kernel
        self.gammas = gammas
        self.alphas = alphas
        self.degree = degree
        self.coef0 = coef0
        self.approximation = approximation
        self.cv = cv
        self.criterion = criterion
        self.refit = refit
        self.check = check
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose gamma and alpha by cross-validation, then fit with them on all rows.

        One factorisation per gamma serves every alpha and every fold: O(12 n³) per gamma.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or (n, n) with ``kernel="precomputed"``
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            Weights of the training loss, and of the held-out rows in the criterion, as in GridSearchCV.
            Rows of weight 0 are left out: they are neither trained on nor scored, but predicted.
        groups : array (n,), optional
            For grouped splitters.
        """
        classifier = get_tags(self).estimator_type == "classifier"
        alphas = check_alphas(DEFAULT_ALPHAS if self.alphas is None else self.alphas, "alphas")
        name = self._default_criterion if self.criterion is None else self.criterion
        criterion = resolve_criterion(name, classifier=classifier)
        approximation = resolve_approximation(self.approximation)
        if self.refit not in ("auto", "exact", "same"):
            raise ValueError(f'refit must be "auto", "exact" or "same"; got {self.refit!r}.')
        problem, task = self._problem(X, y, sample_weight)
        check_squares(problem.Y)
        kernels, widths = candidate_kernels(self, problem.X)
        for kernel in kernels:
            check_kernel_matrix(kernel, problem.X)
        approximation.check(kernels[0], problem)
        # An iterator serves once, and the trust check needs the splits too.
        cv = list(self.cv) if isinstance(self.cv, Iterator) else self.cv
        n = _num_samples(X)
        trust = self._trust(cv, X, y, sample_weight, groups) if self.check else None
        labels = task.y if classifier else None
        splits = make_splits(cv, X, as_labels(y), n=n, labels=labels, groups=groups, kept=problem.kept)
        load = Workload(
            len(kernels),
            alphas.size,
            1 if splits.leave_one_out else len(splits.tests),
            predictions=splits.leave_one_out or criterion.needs != "squares",
        )
        with use_threads(self.n_jobs):
            approximation = approximation.prepare(kernels[0], problem, load)
        # What cannot be fitted at the end is refused now.
        self._final_approximation(approximation, kernels[0], problem)
        with self._threads(problem):
            scoring = criterion.start(problem, task, splits)
            candidates = make_candidates(approximation, kernels, widths, problem, scoring.parts)
            found = run_search(Grid(candidates, alphas), scoring, self._tell)
            chosen = found.chosen
            final = self._final_approximation(chosen.approximation, chosen.kernel, problem)
            model = found.model if final is chosen.approximation else None
            if model is None:
                model = final.model(chosen.kernel, problem, n_alphas=1, need="coefficients")
            expansion = model.expansion(problem.ridge(found.alpha))
            self.expansion_ = self._finished(expansion, problem, n)
        self._record(found)
        with use_threads(self.n_jobs):
            self.heldout_prediction_ = self._all_heldout(found, problem, splits, X)
        self.approximation_ = {"selected_with": found.report, "fitted_with": model.report}
        if trust is not None:
            self.approximation_["trust"] = trust
        self._warn_of_edges()
        return self

    def _record(self, found: SearchResult) -> None:
        """The choice and the table of the search, in GridSearchCV's words."""
        self.gamma_, self.alpha_ = found.chosen.width, found.alpha
        self.cv_results_ = found.ledger.cv_results()
        self.best_index_ = found.ridge * len(found.ledger.params) + found.index
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.history_ = found.ledger.history

    def _warn_of_edges(self) -> None:
        """The grid ends where the scores still rise: say so."""
        at_edge = edges(self.cv_results_, self.best_index_)
        if at_edge:
            names = " and ".join(f"{edge.split()[1]}s" for edge in at_edge)
            warnings.warn(
                f"the search chose the {' and the '.join(at_edge)} that it tried, and the scores still "
                f"rise there; wider {names} may find better.",
                GridEdgeWarning,
                stacklevel=3,
            )

    def _all_heldout(self, found: SearchResult, problem: Problem, splits: Splits, X: Any) -> Any | None:
        """A held-out prediction for every row of X: (n,), or (n, targets) where there are several."""
        heldout, chosen = found.heldout, found.chosen
        if heldout is None:
            return None
        if problem.kept is not None:
            X = check_rows(self, X, sparse=chosen.kernel.accepts_sparse, fitting=False)
            heldout = heldout_of_weightless(
                chosen.approximation,
                chosen.kernel,
                float(problem.ridge(self.alpha_)),
                problem,
                splits,
                X,
            )
            heldout[problem.kept] = found.heldout
        single = heldout.shape[1] == 1 and getattr(self, "single_target_", True)
        return heldout[:, 0] if single else heldout

    def _trust(self, cv: Any, X: Any, y: Any, sample_weight: Any, groups: Any) -> dict[str, Any]:
        """The trust check's findings; a warning before the long work if they are bad."""
        from onefold.trust_check import trust

        given = type(self)(**self.get_params(deep=False) | {"cv": cv})
        found = trust(given, X, y, random_state=0, sample_weight=sample_weight, groups=groups)
        if found.verdict == "does not apply":
            warnings.warn(
                f"the approximation cannot be trusted with this selection; {found} Use another "
                "approximation, or select exactly on a subsample.",
                UserWarning,
                stacklevel=3,
            )
        return found.as_dict()

    def _tell(self, event: dict[str, Any]) -> None:
        """Progress, to whoever wants it."""
        if self.verbose:
            best = "none yet" if event["best_score"] is None else f"{event['best_score']:.6g}"
            line = f"{event['done']}/{event['total']} kernels, best score {best} {event['best_params']}"
            sys.stderr.write(f"[{type(self).__name__}] {line}\n")
        if self.callback is not None:
            self.callback(event)

    def _final_approximation(
        self, approximation: Approximation, kernel: Kernel, problem: Problem
    ) -> Approximation:
        choice = approximation.refit_for(problem) if self.refit == "auto" else self.refit
        if choice == "same" or approximation.name == "exact":
            return approximation
        final = exact_fit(kernel, problem)
        final.check(kernel, problem)
        return final


def candidate_kernels(estimator: Any, X: Any) -> tuple[list[Kernel], list[float | None]]:
    """The kernels to try and the number that names each; one unnamed kernel if it has no width."""
    base = resolve_kernel(estimator.kernel, 1.0, estimator.degree, estimator.coef0)
    if not base.has_width:
        if estimator.gammas is not None:
            raise ValueError("this kernel has no width to search; leave gammas=None.")
        return [base], [None]
    given = DEFAULT_GAMMAS if estimator.gammas is None else estimator.gammas
    numbers = [resolve_gamma(g, X) if isinstance(g, str) else g for g in np.atleast_1d(_listed(given))]
    widths: list[float | None] = [float(g) for g in check_alphas(numbers, "gammas")]
    return [base.scaled(g) for g in widths if g is not None], widths


def _listed(values: Any) -> Any:
    """A list as an object array, so that "scale" and numbers may stand side by side."""
    return np.array(list(values), dtype=object) if isinstance(values, list | tuple) else values


class LSSVCCV(KernelClassifier, _Chosen):
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
        check: bool = False,
        class_weight: Any = None,
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
            check=check,
            n_jobs=n_jobs,
            verbose=verbose,
            callback=callback,
        )
        self.class_weight = class_weight


class LSSVRCV(KernelRegressor, _Chosen):
    r"""Least-squares support vector regression that chooses gamma and alpha itself.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, approximation, cv, refit, check, n_jobs, verbose, callback
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


class KernelRidgeCV(KernelRegressor, _Chosen):
    r"""Kernel ridge regression (no intercept) that chooses gamma and alpha itself.

    Parameters
    ----------
    kernel, gammas, alphas, degree, coef0, approximation, cv, criterion, refit, check, n_jobs,
    verbose, callback
        As in :class:`LSSVRCV`.

    Attributes
    ----------
    gamma_, alpha_, best_params_, best_score_, best_index_, cv_results_, history_,
    heldout_prediction_, expansion_, approximation_
        As in :class:`LSSVRCV`.
    """

    _fit_intercept = False
    _default_criterion = "mse"
