"""The IDA benchmark sets (Rätsch et al.) of ding2011, ding2012 and edwards2013, and how methods compare.

The papers use 100 published partitions of each set, 20 for image and splice. Of these *official*
partitions ten can be had for seven of the sets, nine for image, none for the other five. For every set
there are as many *random* partitions of the same sizes as the papers have; they are not the papers' own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import spearmanr, wilcoxon
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from benchmarks.common import DATA
from onefold import LSSVC, LSSVCCV
from onefold.approximations import Circulant
from onefold.estimators.setup import DEFAULT_ALPHAS, DEFAULT_GAMMAS
from papers.page import Page, PartResult

Kind = Literal["official", "random"]

# By the number of training rows, as in the tables of the papers.
TITLES = {
    "thyroid": "Thyroid",
    "titanic": "Titanic",
    "heart": "Heart",
    "breast_cancer": "Breast",
    "banana": "Banana",
    "ringnorm": "Ringnorm",
    "twonorm": "Twonorm",
    "waveform": "Waveform",
    "diabetis": "Diabetes",
    "flare_solar": "Flare solar",
    "german": "German",
    "splice": "Splice",
    "image": "Image",
}
SIGNIFICANT = 1.64  # of the z statistic, as in the papers: one-sided, 95 %
LEVEL = 0.05  # of the Wilcoxon signed-rank test
TOLERANCE = 0.5  # percentage points by which mean errors may differ from published ones, over all sets


@dataclass(frozen=True)
class Split:
    """Training and test rows, standardised by the mean and deviation of the training rows."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any


def load_splits(name: str, kind: Kind, limit: int | None = None) -> list[Split]:
    """Up to `limit` partitions of a set; none where there are none of this kind.

    Parameters
    ----------
    name : str
        A key of ``TITLES``.
    kind : {"official", "random"}
    limit : int or None
        None is all of them.
    """
    prefix = "" if kind == "official" else "rand_"
    with np.load(DATA / f"ida_{name}.npz") as stored:
        if f"{prefix}train_idx" not in stored:
            return []
        X = stored["X"].astype(np.float64)
        y = np.where(stored["y"] > 0, 1, -1)
        pairs = list(zip(stored[f"{prefix}train_idx"], stored[f"{prefix}test_idx"]))[:limit]
    return [_standardised(X, y, train, test) for train, test in pairs]


def _standardised(X: Any, y: Any, train: Any, test: Any) -> Split:
    mean = X[train].mean(axis=0)
    deviation = X[train].std(axis=0)
    deviation[deviation == 0] = 1.0
    scaled = (X - mean) / deviation
    return Split(scaled[train], y[train], scaled[test], y[test])


def available(names: Iterable[str]) -> list[str]:
    """The sets that are there; the others are said to be skipped."""
    there = []
    for name in names:
        if (DATA / f"ida_{name}.npz").exists():
            there.append(name)
        else:
            print(f"skipped {name}: ida_{name}.npz is not in {DATA}", flush=True)
    return there


@dataclass
class Scores:
    """Test errors in percent and seconds of one method on one set, split by split."""

    errors: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, model: Any, split: Split, seconds: float) -> None:
        self.errors.append(100 * (1 - model.score(split.X_test, split.y_test)))
        self.seconds.append(seconds)

    def summary(self) -> PartResult:
        """What is kept: mean and standard deviation of the error, number of splits, mean seconds."""
        several = len(self.errors) > 1
        return {
            "mean": float(np.mean(self.errors)),
            "std": float(np.std(self.errors, ddof=1)) if several else 0.0,
            "splits": len(self.errors),
            "seconds": float(np.mean(self.seconds)),
        }


def text(found: PartResult) -> str:
    """A summary as ``mean ± std``."""
    return f"{found['mean']:.2f} ± {found['std']:.2f}"


def z_statistic(a: PartResult, b: PartResult) -> float:
    """Of the difference in mean error of two summaries; positive where `a` is worse.

    z = (ā − b̄) / √(e_a² + e_b²), e the standard error of a mean, as ding2011 and ding2012 define it.
    """
    variance = a["std"] ** 2 / a["splits"] + b["std"] ** 2 / b["splits"]
    return float((a["mean"] - b["mean"]) / np.sqrt(variance)) if variance else 0.0


def signed_rank(a: Sequence[float], b: Sequence[float]) -> float:
    """p of Wilcoxon's signed-rank test, two-sided, over the sets; NaN for fewer than six."""
    return float(wilcoxon(a, b).pvalue) if len(a) > 5 else float("nan")


def select(split: Split, approximation: Any, cv: Any, refit: str = "exact") -> Any:
    """Choose from the default grid, 13 × 11 as in ding2011, by the number of errors on one thread."""
    with warnings.catch_warnings():
        # Candidates whose matrix is indefinite are expected on the papers' grid.
        warnings.filterwarnings("ignore", message=".*have no score.*")
        warnings.filterwarnings("ignore", message="the search chose")  # an edge of the grid
        model = LSSVCCV(approximation=approximation, cv=cv, refit=refit, calibration=None, n_jobs=1)
        return model.fit(split.X, split.y)


def selection_seconds(model: Any) -> float:
    """The time of the search alone, without the final fit."""
    return float(sum(entry["seconds"] for entry in model.history_))


def circulant_again(model: Any) -> LSSVC:
    """The same choice, with the circulant matrix in the final model: what refit="same" gives."""
    chosen = model.approximation_["selected_with"]
    structure = Circulant(
        shape=tuple(chosen["shape"]), spacing=tuple(chosen["spacing"]), order=chosen["order"]
    )
    return fixed(model, structure)


def fixed(model: Any, approximation: Any) -> LSSVC:
    """The chosen gamma and alpha with another approximation, not yet fitted."""
    return LSSVC(
        gamma=model.gamma_,
        alpha=model.alpha_,
        approximation=approximation,
        calibration=None,
        n_jobs=1,
    )


def score_circulant(splits: Sequence[Split], structure: Circulant, cv: Any) -> tuple[Scores, Scores]:
    """Select with a circulant matrix: errors with the exact final model, and with the circulant one."""
    exact = Scores()
    same = Scores()
    for split in splits:
        model = select(split, structure, cv)
        seconds = selection_seconds(model)
        exact.add(model, split, seconds)
        same.add(circulant_again(model).fit(split.X, split.y), split, seconds)
    return exact, same


def literal_cv(split: Split) -> Any:
    """Held-out error (13, 11) by 5 × 143 separate fits of O(n³), the papers' 5-fold cross-validation."""
    found = np.zeros((len(DEFAULT_GAMMAS), len(DEFAULT_ALPHAS)))
    folds = list(StratifiedKFold(5).split(split.X, split.y))
    for g, gamma in enumerate(DEFAULT_GAMMAS):
        K = rbf_kernel(split.X, gamma=gamma)
        for train, test in folds:
            ones_and_y = np.column_stack([np.ones(len(train)), split.y[train]])
            for a, alpha in enumerate(DEFAULT_ALPHAS):
                matrix = K[np.ix_(train, train)]
                matrix[np.diag_indices_from(matrix)] += alpha
                rho, nu = cho_solve(cho_factor(matrix, overwrite_a=True), ones_and_y).T
                b = nu.sum() / rho.sum()
                values = K[np.ix_(test, train)] @ (nu - b * rho) + b
                found[g, a] += np.mean(np.where(values > 0, 1, -1) != split.y[test]) / len(folds)
    return found


Measure = Callable[[Split], dict[str, tuple[Any, float]]]


def run_sets(names: Iterable[str], measure: Measure, short: bool) -> PartResult:
    """Every set, on all of its random and official partitions; two of each when `short`.

    Parameters
    ----------
    names : iterable of str
        Keys of ``TITLES``; a set that is not there is skipped.
    measure : callable
        ``measure(split)`` → the fitted model and the seconds of its selection, by label.
    short : bool
    """
    found: PartResult = {}
    for name in available(names):
        first, *_ = load_splits(name, "random", 1)
        start = perf_counter()
        literal_cv(first)
        found[name] = {"n": len(first.y), "literal seconds": perf_counter() - start}
        for kind in ("random", "official"):
            scores: dict[str, Scores] = {}
            for split in load_splits(name, kind, 2 if short else None):
                for label, (model, seconds) in measure(split).items():
                    scores.setdefault(label, Scores()).add(model, split, seconds)
            found[name][kind] = {label: one.summary() for label, one in scores.items()}
        errors = {label: text(one) for label, one in found[name]["random"].items()}
        print(f"  {name}: {errors}", flush=True)
    return found


def rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Spearman's, of pairs."""
    return float(spearmanr(*zip(*pairs)).statistic)


def sentence(names: Sequence[str]) -> str:
    """Names in a sentence: "none", "A", "A and B", "A, B and C"."""
    if len(names) < 2:
        return "".join(names) or "none"
    return f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True)
class Claim:
    """A claim of a paper in a few words, what was found here, and whether the claim holds."""

    claim: str
    here: str
    holds: bool


def judge(page: Page, claims: Sequence[Claim]) -> None:
    """The claims as a table, and a verdict on those that hold and one on those that do not."""
    page.table([{"claim": c.claim, "here": c.here, "holds": "yes" if c.holds else "no"} for c in claims])
    for kind, holds in (("Claims hold", True), ("Claims do not hold", False)):
        named = [claim.claim for claim in claims if claim.holds == holds]
        if named:
            page.verdict(kind, f"{len(named)} of {len(claims)}: {'; '.join(named)}.")


Points = dict[str, list[tuple[float, float]]]


def figure(ratios: Points, errors: Points) -> Figure:
    """Left, (n, how many times faster); right, (error of exact selection, error of the approximate one).

    Series of the same place in either have the same colour and marker.
    """
    drawn = Figure(figsize=(9.5, 4.2), layout="constrained")
    left, right = drawn.subplots(1, 2)
    for axes, series in ((left, ratios), (right, errors)):
        for (label, points), marker in zip(series.items(), "so^D"):
            axes.plot(*zip(*sorted(points)), marker, label=label, alpha=0.8)
        axes.set(xscale="log", yscale="log")
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3, which="both")
    left.axhline(1, color="0.4", lw=1)
    left.set(xlabel="training rows n", ylabel="exact / approximate selection time")
    exact = [x for points in errors.values() for x, _ in points]
    right.plot([min(exact), max(exact)], [min(exact), max(exact)], color="0.4", lw=1)
    right.set(xlabel="test error %, exact selection", ylabel="test error %, approximate selection")
    for axis in (right.xaxis, right.yaxis, left.yaxis, left.xaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    ticks = [2, 3, 5, 10, 20, 40]
    right.set(xticks=ticks, yticks=ticks)
    left.set_xticks([150, 200, 400, 700, 1300])
    return drawn
