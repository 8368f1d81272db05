"""What the estimators that choose their own hyper-parameters share: set up, search, fit, record."""

from __future__ import annotations

import os
import time
from typing import Any, ClassVar, Self

from sklearn.utils import get_tags

from onefold.criteria import resolve_criteria
from onefold.estimators.base import KernelMachine, follow
from onefold.estimators.final import Final, finish, finished, metric_of, shares_of
from onefold.estimators.intervals import fit_searched_intervals, searched_parts
from onefold.estimators.objective import Objective
from onefold.estimators.probabilities import calibrate_heldout
from onefold.estimators.setting_up import set_up
from onefold.estimators.validation import check_budget
from onefold.machine.warning import warn_user
from onefold.search import (
    Callback,
    Found,
    GridEdgeWarning,
    Progress,
    Search,
    Setup,
    edges,
    fingerprint,
    open_checkpoint,
)
from onefold.trust_check import check_setup
from onefold.typing import ArrayLike, MaybeArray

_FREE = {
    "gammas",  # a larger grid goes on from a smaller one
    "alphas",
    "approximation",  # which of them runs is noted once it is decided
    "random_state",  # as is the seed
    "cv",  # the splits are
    "class_weight",  # the weights are
    "refit",
    "select",
    "intervals",  # come from what was chosen
    "check",
    "time_budget",
    "checkpoint",
    "client",
    "n_jobs",
    "verbose",
    "callback",
}


class Chosen(KernelMachine):
    """Search kernels, ridges and metrics by held-out predictions, then fit with what was chosen."""

    _default_criterion: ClassVar[str]

    gammas: Any
    alphas: Any
    degree: float
    coef0: float
    approximation: Any
    cv: Any
    criterion: Any
    select: Any
    search: Any
    refit: Any
    metric: str | None
    max_rounds: int
    metric_rows: int | None
    blend: bool
    check: bool
    time_budget: float | None
    checkpoint: str | os.PathLike[str] | None
    client: Any
    random_state: Any
    verbose: int
    callback: Callback | None

    @property
    def _criterion_name(self) -> Any:
        """The criterion as it was given, or the default."""
        return self._default_criterion if self.criterion is None else self.criterion

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Self:
        """Choose by cross-validation, then fit what was chosen, or the blend, on all rows.

        One factorisation per kernel serves every alpha and every fold: O(12 n³) for the exact machine.
        With metrics of their own the k folds share nothing: O(k n³) for each width of a round, and as
        much for the next metrics. Beyond `metric_rows` this is paid on a subsample, and on all rows one
        Cholesky factor, O(n³/3), for each kernel with a metric that is left.

        Parameters
        ----------
        X : array or CSR matrix (n, d), or (n, n) with ``kernel="precomputed"``
        y : array (n,) or, for regression, (n, targets)
        sample_weight : array (n,), optional
            Weights of the training loss, and of the held-out rows in the criterion, as in GridSearchCV.
            Rows of weight 0 are left out: they are neither trained on nor scored.
        groups : array (n,), optional
            For grouped splitters.
        """
        seconds, began = check_budget(self.time_budget), time.monotonic()
        with open_checkpoint(self.checkpoint) as checkpoint:
            setup = set_up(self, X, y, sample_weight, groups, decided=checkpoint.decided)
            checkpoint.begin(lambda: fingerprint(setup, self._decisive()), setup.run.chosen_because)
            trust = self._trust(setup) if self.check else None
            progress = Progress(type(self).__name__, self.verbose, self.callback)
            search = Search(setup, progress, seconds=seconds, began=began, checkpoint=checkpoint)
            with self._threads(setup.problem.n):
                found = setup.strategy.run(search)
                search.warn_if_stopped()
                self._finish(found, setup)
        self.search_ = {"method": setup.strategy.name, **found.record, **search.summary()}
        if trust is not None:
            self.approximation_["trust"] = trust
        # Rounds, and a search that was stopped, try a few cells: their ends are no ends of a grid.
        if self.metric is None and search.stopped is None:
            self._warn_of_edges()
        follow(self, X)
        return self

    def objective(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Objective:
        """The held-out score as a function of the parameters, for drivers from elsewhere.

        The arguments are those of `fit`. ``objective(gamma=0.1, alpha=1e-3)`` is a number, greater is
        better; ``objective.fit()`` the estimator fitted with the best that was asked.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from onefold import LSSVCCV
        >>> objective = LSSVCCV().objective(*load_iris(return_X_y=True))
        >>> objective(gamma=0.1, alpha=0.01) > -0.05
        True
        >>> objective.fit().best_params_
        {'alpha': 0.01, 'gamma': 0.1}
        """
        return Objective(self, X, y, sample_weight, groups)

    def _decisive(self) -> dict[str, Any]:
        """The settings that a single evaluation may depend on, beside the data and the splits."""
        given, classifier = self.get_params(deep=False), get_tags(self).estimator_type == "classifier"
        criteria = resolve_criteria(self._criterion_name, classifier=classifier).values()
        if not any(one.asks_probabilities for one in criteria):
            given.pop("calibration", None)
        decisive = {name: value for name, value in given.items() if name not in _FREE}
        return {"estimator": type(self).__name__, **decisive}

    def _finish(self, found: Found, setup: Setup) -> None:
        """Fit what was chosen on all rows, and record everything."""
        parts = searched_parts(getattr(self, "intervals", None), found)
        final = finish(found, setup, blend=self.blend, parts=parts)
        self.expansion_ = finished(final.expansion, setup.problem, setup.rows)
        self._record(found, final)
        self.metric_history_ = found.history
        self.feature_importances_ = None
        if self.metric is not None:
            self.feature_importances_ = shares_of(self.expansion_, setup.problem, setup.seed)
        self.heldout_prediction_ = self._all_heldout(found, final, setup)
        if hasattr(self, "calibration"):
            calibrate_heldout(self, found, final, setup)
        self.approximation_ = {"selected_with": found.report, "fitted_with": final.report}
        if hasattr(self, "intervals"):
            fit_searched_intervals(self, found, final, setup)

    def as_chooser(self, X: ArrayLike) -> Chosen:
        """A silent copy, for the trust check; a callback may hold what cannot be cloned."""
        silent: dict[str, Any] = dict.fromkeys(("callback", "metric", "checkpoint", "time_budget"))
        silent |= {"check": False, "verbose": 0, "blend": False, "search": "grid"}
        return type(self)(**self.get_params(deep=False) | silent)

    def set_up(
        self, X: ArrayLike, y: ArrayLike, sample_weight: MaybeArray = None, groups: MaybeArray = None
    ) -> Setup:
        """The search that `fit` would make of the same data."""
        return set_up(self, X, y, sample_weight, groups)

    def _record(self, found: Found, final: Final) -> None:
        """The choice and the table of the search, in GridSearchCV's words."""
        chosen = found.leader.candidate
        width = getattr(chosen.kernel, "gamma", None) if "kernel" in chosen.params else chosen.width
        self.gamma_, self.alpha_ = width, found.leader.alpha
        self.kernel_ = chosen.params.get("kernel", self.kernel if isinstance(self.kernel, str) else None)
        self.cv_results_ = found.ledger.cv_results()
        self.best_index_ = found.ledger.index_of(found.leader.index, found.leader.ridge)
        self.best_params_ = dict(self.cv_results_["params"][self.best_index_])
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.history_ = found.ledger.history
        self.metric_ = metric_of(chosen.kernel)
        self.blend_, self.blend_score_ = final.members(), final.score

    def _warn_of_edges(self) -> None:
        """The grid ends where the scores still rise: say so."""
        at_edge = edges(self.cv_results_, self.best_index_)
        if at_edge:
            names = " and ".join(f"{edge.split()[1]}s" for edge in at_edge)
            warn_user(
                f"the search chose the {' and the '.join(at_edge)} that it tried, and the scores still "
                f"rise there; wider {names} may find better.",
                GridEdgeWarning,
            )

    def _all_heldout(self, found: Found, final: Final, setup: Setup) -> Any | None:
        """A held-out prediction for every row of X, NaN where there is none: (n,) or (n, targets)."""
        heldout = found.in_order(final.heldout)
        if heldout is None or found.scoring.splits is None:
            return None
        heldout = setup.of_all_rows(heldout)
        single = heldout.shape[1] == 1 and getattr(self, "single_target_", True)
        return heldout[:, 0] if single else heldout

    def _trust(self, setup: Setup) -> dict[str, Any]:
        """The trust check's findings; a warning before the long work if they are bad."""
        found = check_setup(self.as_chooser(setup.table), setup, random_state=setup.seed or 0)
        if found.verdict == "does not apply":
            warn_user(
                f"the approximation cannot be trusted with this selection; {found} Use another "
                "approximation, or select exactly on a subsample."
            )
        return found.as_dict()
