"""Test errors on the ten benchmark sets: ding2011 Table 2, edwards2013 Table II, and a study."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from benchmarks.circulant_sets import (
    DING2011,
    DING2011_REPLICATIONS,
    EDWARDS2013,
    Scores,
    Split,
    available,
    load_splits,
)
from benchmarks.common import Row, report
from onefold import LSSVC, LSSVCCV
from onefold.approximations import Circulant

SIGNIFICANT = 1.64  # of the z statistic, as in ding2011


def fit(split: Split, approximation: Any, cv: Any) -> Any:
    with warnings.catch_warnings():
        # Candidates whose matrix is indefinite are expected on the papers' grid.
        warnings.filterwarnings("ignore", message=".*have no score.*")
        return LSSVCCV(approximation=approximation, cv=cv, refit="exact", n_jobs=1).fit(split.X, split.y)


def circulant_again(model: Any) -> LSSVC:
    """The same choice, with the circulant matrix in the final model: what refit="same" gives."""
    chosen = model.approximation_["selected_with"]
    structure = Circulant(
        shape=tuple(chosen["shape"]), spacing=tuple(chosen["spacing"]), order=chosen["order"]
    )
    return LSSVC(gamma=model.gamma_, alpha=model.alpha_, approximation=structure, n_jobs=1)


def score(splits: list[Split], approximation: Any, cv: Any) -> tuple[Scores, Scores]:
    """Errors with the exact final model, with the circulant one, and seconds of the selection."""
    exact, same = Scores(), Scores()
    for split in splits:
        model = fit(split, approximation, cv)
        seconds = sum(entry["seconds"] for entry in model.history_)
        exact.add(model, split, seconds)
        if approximation != "exact":
            same.add(circulant_again(model).fit(split.X, split.y), split, seconds)
    return exact, same


def z_statistic(a: tuple[float, float, int], b: tuple[float, float, int]) -> float:
    """The z of a difference in mean error of (mean, deviation, replications); positive: a is worse."""
    return (a[0] - b[0]) / float(np.sqrt(a[1] ** 2 / a[2] + b[1] ** 2 / b[2]))


def ding2011(limit: int) -> None:
    rows: list[Row] = []
    means: list[tuple[float, float]] = []
    for name in available(DING2011):
        title, paper_exact, paper_approximate = DING2011[name]
        official, splits = load_splits(name, limit)
        reference, _ = score(splits, "exact", 5)
        chosen, same = score(splits, Circulant(validate="kernel"), 5)
        there = (*paper_approximate, DING2011_REPLICATIONS.get(name, 100))
        here = (chosen.mean, chosen.std, len(splits))
        means.append((reference.mean, chosen.mean))
        rows.append(
            {
                "set": title,
                "splits": f"{len(splits)} {'official' if official else 'random'}",
                "exact 5-fold %": reference.text(),
                "select s": float(np.mean(reference.seconds)),
                "circulant, refit exact %": chosen.text(),
                "circulant select s": float(np.mean(chosen.seconds)),
                "refit same %": same.text(),
                "z to exact": z_statistic(here, (reference.mean, reference.std, len(splits))),
                "z to paper": z_statistic(here, there),
                "paper exact %": "{} ± {}".format(*paper_exact),
                "paper approximate %": "{} ± {}".format(*paper_approximate),
            }
        )
        print(rows[-1], flush=True)
    notes = ""
    if len(means) > 5:
        p = float(wilcoxon(*zip(*means)).pvalue)
        worse = [row["set"] for row in rows if row["z to paper"] > SIGNIFICANT]
        beaten = [row["set"] for row in rows if row["z to exact"] > SIGNIFICANT]
        notes = (
            f"\nWilcoxon signed rank test, exact against circulant with exact refit: p = {p:.3f}.\n"
            f"Significantly worse than the paper's approximate column: {', '.join(worse) or 'none'}.\n"
            f"Significantly worse than exact selection here: {', '.join(beaten) or 'none'}."
        )
    report("circulant_ding2011", "ding2011 Table 2: test error, validate='kernel'", rows, notes)


def edwards2013(limit: int) -> None:
    """Leave-one-out from the matrix alone and a circulant final model, as the paper has it."""
    rows: list[Row] = []
    structures = {
        "h in (1, 2)": Circulant(spacing=(1.3, 1.7), order="given", validate="matrix"),
        "h in (10, 11)": Circulant(spacing=(10.3, 10.7), order="given", validate="matrix"),
        "principal order, data": Circulant(spacing="data", order="principal", validate="matrix"),
    }
    for name in available(EDWARDS2013):
        title, *paper = EDWARDS2013[name]
        official, splits = load_splits(name, limit)
        row: Row = {"set": title, "splits": f"{len(splits)} {'official' if official else 'random'}"}
        for label, structure in structures.items():
            exact, same = score(splits, structure, "loo")
            row[f"{label} %"] = same.text()
            if label.startswith("principal"):
                row[f"{label}, refit exact %"] = exact.text()
        row["exact LOO %"] = score(splits, "exact", "loo")[0].text()
        for label, (mean, deviation) in zip(("h in (1, 2)", "h in (10, 11)", "exact"), paper):
            row[f"paper {label}"] = f"{mean} ± {deviation}"
        rows.append(row)
        print(row, flush=True)
    report("circulant_edwards2013", "edwards2013 Table II: test error, validate='matrix'", rows)


def study(limit: int) -> None:
    """Which order and spacing are best when the final model is circulant: mean over the sets."""
    splits = {name: load_splits(name, limit)[1] for name in available(DING2011)}
    rows: list[Row] = []
    settings = itertools.product(
        (("kernel", 5), ("matrix", "loo")),
        ("given", "random", "principal"),
        (1.0, "data"),
    )
    for (validate, cv), order, spacing in settings:
        structure = Circulant(validate=validate, order=order, spacing=spacing)  # type: ignore[arg-type]
        results = {name: score(parts, structure, cv) for name, parts in splits.items()}
        row: Row = {
            "validate": validate,
            "order": order,
            "spacing": str(spacing),
            "mean, refit same %": float(np.mean([same.mean for _, same in results.values()])),
            "mean, refit exact %": float(np.mean([exact.mean for exact, _ in results.values()])),
        }
        row |= {DING2011[name][0]: f"{same.mean:.1f}" for name, (_, same) in results.items()}
        rows.append(row)
        print(row, flush=True)
    report("circulant_study", "Order and spacing: test error in % of the circulant final model", rows)
