"""What goes with what: the one table of what cannot be combined, looked at before any work.

A `Request` says what is asked for, an `Offer` what there is to do it with: the approximation, the rows,
the kernels and the splits. Each `Rule` of `RULES` says what does not go together, in one sentence of a
cause and a remedy. `check` raises the sentence of the first rule that refuses.

An estimator knows its parameters before it reads its rows, and its approximation only after "auto" has
chosen: it checks again as more is known. What is not known yet asks for nothing and offers everything.

Two kinds of checks are elsewhere. What a single parameter may be is checked where it is read. What an
approximation, a criterion or a strategy refuses for reasons of its own is said by its method `check`,
also by those from outside the package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from onefold.kernels import Kernel, kernel_name, listed

if TYPE_CHECKING:
    from onefold.approximations import Approximation

Place = Literal["memory", "streamed", "dask"]
"""Where the rows are: in memory, in host memory on their way to a device, or on Dask's workers."""

# Ridges of the models without each row, for every alpha; each costs as much as a ridge of all rows.
MAX_SINGLE_RIDGES = 64


@dataclass(frozen=True)
class Request:
    """What is asked for; by default a fit with given hyper-parameters, and nothing else."""

    estimator: str = ""  # the name of its class
    chooser: str = ""  # the estimators that choose among several kernels, where it is none
    searches: bool = False  # hyper-parameters are chosen
    weighted: bool = False  # rows have different weights
    n_criteria: int = 1
    holds_out: bool = True  # the criterion that decides scores held-out rows
    all_rows: bool = False  # a criterion needs all rows at once, in memory
    smoother: bool = False  # a criterion needs R(μ) of all rows
    matrix: bool = False  # a criterion needs the kernel matrix
    leave_one_out: bool = False  # the splits hold out single rows
    single_rows: bool = False  # single rows are left out, for the splits, a criterion or intervals
    select: str = "min"
    refit: str = "same"
    strategy: str = "grid"
    full_grid: bool = True  # the strategy evaluates every candidate
    subsamples: bool = False  # the strategy evaluates candidates on some of the rows
    metric: str | None = None
    blend: bool = False
    intervals: str | None = None
    second: bool = False  # what was chosen is also scored by a second splitter
    second_single_rows: bool = False  # which holds out single rows
    objective: bool = False  # a function of the parameters, in place of a search
    prunes: bool = False  # centres are dropped from a full model


@dataclass(frozen=True)
class Offer:
    """What there is to do it with; by default rows in memory of which nothing is known."""

    approximation: Approximation
    final: Approximation | None = None  # what fits the final model; None while that is unknown
    kernels: Sequence[Kernel] = ()
    several_kernels: bool = False  # to choose among
    place: Place = "memory"
    precomputed: bool = False  # the rows are those of a kernel matrix
    sparse: bool = False
    rows: int = 0
    features: int = 0
    formed_rows: int = 0  # of the kernel matrix that is formed for a criterion alone
    splits: int | None = None  # number of splits that hold rows out; None while that is unknown
    single_ridges: int = 1  # number of ridges of the models without each row, for every alpha

    @property
    def untaken(self) -> Kernel | None:
        """The first kernel that the approximation does not take."""
        return next(
            (kernel for kernel in self.kernels if not self.approximation.takes_kernel(kernel)), None
        )

    @property
    def kernel_names(self) -> str:
        """The kernels in words."""
        return ", ".join(kernel_name(kernel) or f"{kernel!r:.40}" for kernel in self.kernels)


@dataclass(frozen=True)
class Rule:
    """What does not go together, and what to do instead."""

    feature: str  # what is asked for, as a heading
    refuses: Callable[[Request, Offer], bool]
    cause: str  # with fields of the request and the offer, as in `str.format`
    remedy: str = ""  # likewise; empty where the cause, a text of the approximation, includes it

    def sentence(self, request: Request, offer: Offer) -> str:
        """The cause and the remedy, for this request and offer."""
        text = f"{self.cause}; {self.remedy}." if self.remedy else self.cause
        return text.format(request=request, offer=offer)


def check(request: Request, offer: Offer) -> None:
    """Raise the sentence of the first rule that refuses."""
    for rule in RULES:
        if rule.refuses(request, offer):
            raise ValueError(rule.sentence(request, offer))


def _learns(request: Request) -> bool:
    """Whether cells of a grid are not all that is learned from held-out rows."""
    return request.metric is not None or request.blend


def _without_folds(request: Request) -> bool:
    return not request.holds_out or request.leave_one_out


def _closed_folds(approximation: Approximation | None) -> bool:
    """Whether it is, or may be, an exact method with a closed form for models without a row."""
    if approximation is None:
        return True
    of_folds = approximation.exact and approximation.fold_models == "closed"
    return of_folds and not approximation.no_leave_one_out


RULES: tuple[Rule, ...] = (
    # -- kernels --------------------------------------------------------------------------------------
    Rule(
        "several kernels",
        lambda request, offer: offer.several_kernels and bool(request.chooser),
        "{request.estimator} takes one kernel, and several were given",
        "use {request.chooser}, to choose among several",
    ),
    Rule(
        "several kernels",
        lambda request, offer: offer.several_kernels and offer.precomputed,
        "a precomputed kernel matrix cannot be one of several kernels",
        "give it alone",
    ),
    # -- rows that stay in partitions -----------------------------------------------------------------
    Rule(
        "Dask rows",
        lambda request, offer: offer.place == "dask" and request.prunes,
        "{request.estimator} needs all rows in memory, and X is a Dask collection",
        'fit X.compute(), or use LSSVRCV or LSSVCCV with approximation="nystroem"',
    ),
    Rule(
        "Dask rows",
        lambda request, offer: offer.place == "dask" and offer.precomputed,
        "a precomputed kernel matrix must be in memory, and X is a Dask collection",
        "fit X.compute(), or pass rows and a kernel",
    ),
    Rule(
        "Dask rows",
        lambda request, offer: offer.place == "dask" and not offer.approximation.streams,
        "{offer.approximation!r} needs all rows in memory, and Dask rows stay on their workers",
        'use approximation="nystroem", or fit X.compute() if it fits in memory',
    ),
    Rule(
        "Dask rows",
        lambda request, offer: offer.place == "dask" and request.all_rows,
        "the criterion needs all rows in memory, and Dask rows stay on their workers",
        'use criterion="mse", "error", "accuracy", "cov", "mape", "gcv" or "evidence"',
    ),
    Rule(
        "Dask rows",
        lambda request, offer: offer.place == "dask" and request.leave_one_out,
        "leave-one-out is not available for Dask rows",
        "use folds, such as cv=5",
    ),
    Rule(
        "Dask rows",
        lambda request, offer: offer.place == "dask" and request.refit == "exact",
        'refit="exact" needs all rows in memory, and Dask rows stay on their workers',
        'use refit="auto" or "same"',
    ),
    Rule(
        "Dask rows",
        lambda request, offer: offer.place == "dask" and request.intervals == "normalised",
        "normalised intervals need all rows in memory, and Dask rows stay on their workers",
        'use intervals="cv+"',
    ),
    # -- what an approximation takes ------------------------------------------------------------------
    Rule(
        "a precomputed kernel",
        lambda request, offer: offer.precomputed and not offer.approximation.takes_precomputed,
        'approximation="{offer.approximation.name}" takes {offer.approximation.takes}, and a '
        "precomputed kernel matrix has no rows",
        'use approximation="exact"',
    ),
    Rule(
        "sparse rows",
        lambda request, offer: offer.sparse and not offer.approximation.takes_sparse,
        'approximation="{offer.approximation.name}" takes {offer.approximation.takes}, and X is sparse',
        "convert it with X.toarray(), or {offer.approximation.alternative}",
    ),
    Rule(
        "several features",
        lambda request, offer: offer.features > offer.approximation.max_features,
        'approximation="{offer.approximation.name}" takes {offer.approximation.takes}, and X has '
        "{offer.features} features",
        "{offer.approximation.alternative}",
    ),
    Rule(
        "kernels",
        lambda request, offer: offer.untaken is not None,
        'approximation="{offer.approximation.name}" takes {offer.approximation.takes}, and the kernel '
        "is {offer.untaken!r:.80}",
        "use another kernel, or {offer.approximation.alternative}",
    ),
    Rule(
        "weights",
        lambda request, offer: request.weighted and not offer.approximation.supports_weights,
        'approximation="{offer.approximation.name}" does not support sample or class weights',
        'leave them out, or use approximation="exact", "nystroem" or "auto"',
    ),
    Rule(
        "rows streamed to a device",
        lambda request, offer: offer.place == "streamed" and not offer.approximation.streams,
        "{offer.approximation!r} needs all rows on the device, and they are to be streamed there",
        'use approximation="nystroem", fewer rows, or device=None',
    ),
    # -- what an approximation knows of its models ----------------------------------------------------
    Rule(
        "a search",
        lambda request, offer: (
            request.searches and request.metric is None and not offer.approximation.selects
        ),
        'approximation="{offer.approximation.name}" fits a single model and cannot search',
        'use approximation="nystroem" and refit="exact"',
    ),
    Rule(
        "criteria of the smoother",
        lambda request, offer: request.smoother and not offer.approximation.smooths,
        "the criterion needs the residual operator of all rows, which {offer.approximation!r} does not "
        "have",
        'use approximation="exact" or "nystroem", or criterion="mse" or "error"',
    ),
    Rule(
        "criteria of the kernel matrix",
        lambda request, offer: request.matrix and not offer.approximation.max_rows_for_matrix,
        "the criterion needs the kernel matrix, which {offer.approximation!r} does not form",
        'use approximation="exact", or another criterion',
    ),
    Rule(
        "criteria of the kernel matrix",
        lambda request, offer: (
            request.matrix and offer.formed_rows > offer.approximation.max_rows_for_matrix
        ),
        "the criterion needs the kernel matrix, which {offer.approximation!r} forms for up to "
        "{offer.approximation.max_rows_for_matrix:,} rows only, and there are {offer.formed_rows:,}",
        'use fewer rows, or the criterion "mse", "error" or "evidence"',
    ),
    Rule(
        "leave-one-out",
        lambda request, offer: request.single_rows and bool(offer.approximation.no_leave_one_out),
        "{offer.approximation.no_leave_one_out}",
    ),
    # -- learned metrics and blends -------------------------------------------------------------------
    Rule(
        "a learned metric or a blend",
        lambda request, offer: _learns(request) and request.objective,
        "an objective scores one model at a time, so that it cannot learn a metric or blend models",
        "use metric=None and blend=False, or fit",
    ),
    Rule(
        "a learned metric or a blend",
        lambda request, offer: _learns(request) and request.select == "1se",
        'select="1se" chooses one cell of a grid, which does not work with a learned metric or a blend',
        'use select="min", or metric=None and blend=False',
    ),
    Rule(
        "a learned metric",
        lambda request, offer: request.metric is not None and request.n_criteria > 1,
        "a search with a learned metric takes one criterion",
        "pass one instead of a list",
    ),
    Rule(
        "a learned metric",
        lambda request, offer: request.metric is not None and not request.full_grid,
        'search="{request.strategy}" cannot be used with a learned metric, whose search starts on '
        "few rows anyway",
        'use search="grid", or metric=None',
    ),
    Rule(
        "a learned metric",
        lambda request, offer: request.metric is not None and not offer.approximation.learns_metrics,
        'a metric cannot be learned with approximation="{offer.approximation.name}"',
        'use metric=None, or approximation="exact", "nystroem", "cg" or "auto"',
    ),
    Rule(
        "a learned metric",
        lambda request, offer: request.metric is not None and offer.place == "streamed",
        "a metric cannot be learned from rows that are streamed to a device",
        "use fewer rows, or device=None",
    ),
    Rule(
        "a learned metric",
        lambda request, offer: request.metric is not None and _without_folds(request),
        "metric needs held-out predictions of whole folds",
        'use folds, such as cv=5, and a criterion of held-out rows, such as "mse" or "error"',
    ),
    Rule(
        "a blend",
        lambda request, offer: request.blend and _without_folds(request),
        "blend needs held-out predictions of whole folds",
        'use folds, such as cv=5, and a criterion of held-out rows, such as "mse" or "error"',
    ),
    Rule(
        "a blend",
        lambda request, offer: request.blend and offer.precomputed,
        "a blend is made of functions of rows, and a precomputed kernel matrix has none",
        "use blend=False, or pass rows and kernels",
    ),
    Rule(
        "a learned metric",
        lambda request, offer: (
            request.metric == "full"
            and offer.sparse
            and any("full" in kernel.learns for kernel in offer.kernels)
        ),
        "a full metric mixes all features, which would make sparse rows dense",
        'use metric="diagonal", or dense rows',
    ),
    Rule(
        "a learned metric",
        lambda request, offer: (
            request.metric is not None
            and len(offer.kernels) > 0
            and not any(kernel.learns for kernel in offer.kernels)
        ),
        "no metric can be learned for kernel {offer.kernel_names}",
        f"use {listed(lambda kind: kind.learns)}, or metric=None",
    ),
    # -- strategies and selection ---------------------------------------------------------------------
    Rule(
        'search="halving"',
        lambda request, offer: request.subsamples and request.blend,
        'search="{request.strategy}" cannot be used with blend, which needs all kernels',
        'use search="grid", or blend=False',
    ),
    Rule(
        'search="halving"',
        lambda request, offer: request.subsamples and not request.holds_out,
        'search="{request.strategy}" needs a criterion of held-out rows',
        'use "mse" or "error", for example, or search="grid"',
    ),
    Rule(
        'search="halving"',
        lambda request, offer: (
            request.subsamples
            and not (offer.approximation.selects and offer.approximation.learns_metrics)
        ),
        'search="{request.strategy}" cannot be used with approximation="{offer.approximation.name}", '
        "which needs all rows",
        'use search="grid", or approximation="exact" or "nystroem"',
    ),
    Rule(
        'select="1se"',
        lambda request, offer: (
            request.select == "1se"
            and (not request.holds_out or (offer.splits is not None and offer.splits < 2))
        ),
        'select="1se" needs the scores of at least two splits',
        'use folds, such as cv=5, and a criterion of held-out rows, such as "mse" or "error", or '
        'select="min"',
    ),
    # -- pruned models --------------------------------------------------------------------------------
    Rule(
        "pruned models",
        lambda request, offer: request.prunes and (request.n_criteria > 1 or not request.holds_out),
        "the criterion does not score held-out predictions, which choose the number of centres",
        'use "mse", "error" or a scikit-learn scorer',
    ),
    Rule(
        "pruned models",
        lambda request, offer: request.prunes and request.leave_one_out,
        'cv="loo" would prune once for every row',
        "use folds, such as cv=10",
    ),
    Rule(
        "pruned models",
        lambda request, offer: request.prunes and offer.precomputed,
        "a precomputed kernel matrix has no rows to use as centres",
        "pass rows and a kernel",
    ),
    # -- leave-one-out and intervals ------------------------------------------------------------------
    Rule(
        "leave-one-out",
        lambda request, offer: request.single_rows and offer.single_ridges > MAX_SINGLE_RIDGES,
        'leave-one-out with loss="mean" would need {offer.single_ridges} ridges for every alpha, as the '
        "rows have {offer.single_ridges} different weights",
        'use folds, such as cv=5, or loss="sum"',
    ),
    Rule(
        "jackknife+ intervals",
        lambda request, offer: (
            request.intervals == "jackknife+" and (_learns(request) or not _closed_folds(offer.final))
        ),
        'intervals="jackknife+" needs the exact method, without a learned metric or a blend',
        'use approximation="exact", metric=None and blend=False, or intervals="cv+"',
    ),
    # -- a second splitter ----------------------------------------------------------------------------
    Rule(
        "a second splitter",
        lambda request, offer: request.second and request.second_single_rows,
        "second_cv scores what was chosen by whole folds, not by single rows",
        "use folds, such as second_cv=GroupKFold(5)",
    ),
    Rule(
        "a second splitter",
        lambda request, offer: request.second and not request.holds_out,
        "second_cv scores held-out rows, which the criterion does not",
        'use a criterion of held-out rows, such as "mse" or "error", or second_cv=None',
    ),
    Rule(
        "a second splitter",
        lambda request, offer: request.second and request.intervals == "jackknife+",
        'intervals="jackknife+" leaves out single rows, and intervals follow the folds of second_cv',
        'use intervals="cv+", or second_cv=None',
    ),
    Rule(
        "a second splitter",
        lambda request, offer: request.second and offer.place == "dask",
        "second_cv needs rows in memory, and Dask rows stay on their workers",
        "use second_cv=None, or fit X.compute()",
    ),
    Rule(
        "a second splitter",
        lambda request, offer: request.second and not offer.approximation.selects,
        'approximation="{offer.approximation.name}" makes no held-out predictions for second_cv',
        'use second_cv=None, or approximation="exact", "nystroem" or "auto"',
    ),
    Rule(
        "intervals of a single fit",
        lambda request, offer: (
            request.intervals is not None and not request.searches and offer.place == "dask"
        ),
        "intervals need models trained without each fold, which a single fit does not make for rows of "
        "Dask",
        "use {request.estimator}CV",
    ),
    Rule(
        "intervals of a single fit",
        lambda request, offer: (
            request.intervals is not None
            and not request.searches
            and offer.final is not None
            and not offer.final.has_folds(offer.rows)
        ),
        "intervals need models trained without each fold, which a single fit does not make for "
        "{offer.final!r:.60} and {offer.rows} rows",
        'use approximation="exact" or "nystroem", or {request.estimator}CV',
    ),
)
