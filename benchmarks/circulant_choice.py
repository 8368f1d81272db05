"""What a search over the spacings of a circulant matrix chooses, what becomes of indefinite systems, and
which final model is the better one.

    python -m benchmarks.circulant_choice [spacing] [negative] [final] [--quick]

On the IDA sets, official partitions where there are some: the default grid of 13 gammas and 11 alphas,
held-out rows predicted with the true kernel (five folds) or by the matrix alone (leave-one-out). Each
search is followed by two fits with the gamma and alpha that it chose: of the circulant matrix, with the
spacing that it chose, and of the kernel matrix. `final` adds an exact fit with what the exact machine
chooses on a quarter of the rows, by the ridge of the mean squared error.
"""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.common import Row, run_parts
from onefold import LSSVC, LSSVCCV
from onefold.approximations import Circulant
from onefold.approximations.circulant import choose_shape, data_spacing, row_order
from papers.ida import TITLES, Split, available, load_splits, signed_rank

SPLITS = 5
FACTORS = (1 / 3, 1.0, 3.0)  # of the data's own spacing along each level: nine spacings
FOLDS = {"kernel": 5, "matrix": "loo"}
EXACT = "exact"
QUARTER = "chosen on a quarter"

Ways = dict[str, Callable[[Split], Circulant]]


def around_the_data(X: Any) -> list[tuple[float, ...]]:
    """The data's own spacings times each factor along each level."""
    shape = choose_shape(len(X), 2)
    spacing = data_spacing(X, row_order("principal", X, shape, 0), shape)
    return [
        tuple(float(h * factor) for h, factor in zip(spacing, factors))
        for factors in itertools.product(FACTORS, repeat=len(spacing))
    ]


def spacings(validate: Any) -> Ways:
    """The spacings that are compared, indefinite matrices clipped."""
    settings: dict[str, Any] = {"validate": validate, "negative": "clip"}
    return {
        "data": lambda _: Circulant(**settings),
        "(1, 2)": lambda _: Circulant(spacing=(1.0, 2.0), **settings),
        "best of 9": lambda split: Circulant(spacing=around_the_data(split.X), **settings),
    }


def treatments(validate: Any) -> Ways:
    """What is done about indefinite matrices, with the data's own spacing."""
    return {
        negative: lambda _, negative=negative: Circulant(validate=validate, negative=negative)
        for negative in ("raise", "clip", "solve")
    }


def sets(quick: bool) -> list[str]:
    """Names of the sets that are at hand."""
    return available(["heart", "thyroid"] if quick else list(TITLES))


def splits_of(name: str, limit: int) -> list[Split]:
    """Official partitions, or random ones where there are none."""
    return load_splits(name, "official", limit) or load_splits(name, "random", limit)


def chosen(split: Split, approximation: Any, cv: Any) -> dict[str, float]:
    """Test errors in percent of both fits, seconds of the search, and whether it found anything."""
    model = LSSVCCV(approximation=approximation, cv=cv, refit="same", calibration=None, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no score, or the edge of the grid
        start = time.process_time()
        model.fit(split.X, split.y)
        seconds = time.process_time() - start
    exact = LSSVC(gamma=model.gamma_, alpha=model.alpha_, calibration=None, n_jobs=1)
    exact.fit(split.X, split.y)
    scores = model.cv_results_["mean_test_score"]
    return {
        "fitted with K": 100 * (1 - exact.score(split.X_test, split.y_test)),
        "fitted with U": 100 * (1 - model.score(split.X_test, split.y_test)),
        "seconds": seconds,
        "no score": 100 * float(np.isnan(scores).mean()),
    }


def compare(ways: Callable[[Any], Ways], quick: bool) -> Iterator[tuple[str, Any, str, list[Any]]]:
    """Set, manner of validation, way, and what every split gave."""
    for name in sets(quick):
        splits = splits_of(name, 2 if quick else SPLITS)
        reference = [chosen(split, "exact", 5) for split in splits]
        yield name, EXACT, EXACT, reference
        for validate, cv in FOLDS.items():
            for label, approximation in ways(validate).items():
                yield (
                    name,
                    validate,
                    label,
                    [chosen(split, approximation(split), cv) for split in splits],
                )
        print(f"{name}: done", flush=True)


def table(ways: Callable[[Any], Ways], quick: bool) -> list[Row]:
    """Mean test errors of every set; then their means over the sets, and the seconds."""
    cells = [
        (name, validate, label, {key: float(np.mean([r[key] for r in results])) for key in results[0]})
        for name, validate, label, results in compare(ways, quick)
    ]
    rows = list[Row]()
    for name in dict.fromkeys(cell[0] for cell in cells):
        row: Row = {"set": name}
        for _, validate, label, means in (cell for cell in cells if cell[0] == name):
            head = EXACT if label == EXACT else f"{validate}, {label}"
            row[head] = means["fitted with K"]
            if label != EXACT:
                row[f"{head}, U"] = means["fitted with U"]
        rows.append(row)
    for key in ("seconds", "no score"):
        row = {"set": f"mean {key}"}
        for validate, label in dict.fromkeys(cell[1:3] for cell in cells):
            values = [cell[3][key] for cell in cells if cell[1:3] == (validate, label)]
            row[EXACT if label == EXACT else f"{validate}, {label}"] = float(np.mean(values))
        rows.append(row)
    return rows + comparisons(rows, next(iter(ways("kernel"))))


def comparisons(rows: Sequence[Row], base: str) -> list[Row]:
    """On how many sets every way has fewer and more errors than the first one, and Wilcoxon's p."""
    sets = [row for row in rows if not row["set"].startswith("mean")]
    means: Row = {"set": "mean error"}
    better: Row = {"set": f"fewer / more errors than {base}, p"}
    for head in [key for key in sets[0] if key != "set"]:
        values = [row[head] for row in sets]
        means[head] = float(np.mean(values))
        base_head = f"{head.split(',')[0]}, {base}" + (", U" if head.endswith(", U") else "")
        if head in (EXACT, base_head):
            continue
        against = [row[base_head] for row in sets]
        fewer = sum(value < other for value, other in zip(values, against))
        more = sum(value > other for value, other in zip(values, against))
        p = signed_rank(values, against) if values != against else 1.0
        better[head] = f"{fewer} / {more}, {p:.2g}"
    return [means, better]


def of_a_quarter(split: Split) -> float:
    """Test error in percent of the exact machine with its own choice on a quarter of the rows."""
    quarter = np.random.default_rng(0).permutation(len(split.y))[: len(split.y) // 4]
    settings: dict[str, Any] = {"loss": "mean", "calibration": None, "n_jobs": 1}
    search = LSSVCCV(approximation=EXACT, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the edge of the grid
        search.fit(split.X[quarter], split.y[quarter])
    machine = LSSVC(gamma=search.gamma_, alpha=search.alpha_, **settings).fit(split.X, split.y)
    return 100 * (1 - machine.score(split.X_test, split.y_test))


def final_models(quick: bool) -> list[Row]:
    """Mean test errors of every set with each final model, and their means over the sets."""
    rows = list[Row]()
    for name in sets(quick):
        splits = splits_of(name, 2 if quick else SPLITS)
        exact = [chosen(split, EXACT, 5)["fitted with K"] for split in splits]
        circulant = [chosen(split, Circulant(), 5) for split in splits]
        errors = {
            EXACT: exact,
            "kernel, K": [one["fitted with K"] for one in circulant],
            "kernel, U": [one["fitted with U"] for one in circulant],
            QUARTER: [of_a_quarter(split) for split in splits],
        }
        rows.append({"set": name} | {head: float(np.mean(found)) for head, found in errors.items()})
        print(f"{name}: done", flush=True)
    means = {head: float(np.mean([row[head] for row in rows])) for head in rows[0] if head != "set"}
    fewer = {
        head: f"{sum(row[QUARTER] < row[head] for row in rows)} / "
        f"{sum(row[QUARTER] > row[head] for row in rows)}, "
        f"{signed_rank([row[QUARTER] for row in rows], [row[head] for row in rows]):.2g}"
        for head in means
        if head != QUARTER
    }
    return [*rows, {"set": "mean error"} | means, {"set": f"fewer / more if {QUARTER}, p"} | fewer]


def main() -> None:
    run_parts(
        "circulant-choice",
        __doc__,
        {
            "spacing": ("Spacings", lambda quick: table(spacings, quick)),
            "negative": ("Indefinite matrices", lambda quick: table(treatments, quick)),
            "final": ("Final models", final_models),
        },
    )


if __name__ == "__main__":
    main()
