"""The page docs/manual/compatibility.md: what goes with what, printed from the table of rules.

``python -m tests.tools.compatibility`` writes it. Every cell is found by asking the rules, for an
estimator with the parameters of the feature; ``tests/compatibility`` fits a model for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from onefold import LSSVR, LSSVRCV
from onefold.approximations import (
    Approximation,
    Auto,
    Circulant,
    ConjugateGradients,
    Exact,
    Grid,
    Nystroem,
    StateSpace,
    Toeplitz,
)
from onefold.compatibility import RULES, Offer, Place, Request, check
from onefold.estimators.fixed import request_of_fit
from onefold.estimators.setup import criteria_of, families_of, is_relative, request_of
from onefold.kernels import RBF, resolve_kernel
from onefold.search.strategies import resolve_strategy

PAGE = Path(__file__).parents[2] / "docs" / "manual" / "compatibility.md"
ROWS = 30  # of the fits that prove the cells
FOLDS = 3
SEVERAL = ["matern32", "matern52"]
GAMMA = 50.0  # of a kernel in its own units, for rows between 0 and 1
FEATURES = 5  # where a feature is that there are several
_MANY = 10**6  # rows or columns beyond which no limit is looked for

Kind = Literal["dense", "sparse", "precomputed", "dask", "streamed"]


@dataclass(frozen=True)
class Feature:
    """Something that is asked for, and how."""

    name: str  # in Markdown
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of LSSVRCV
    alike: tuple[Mapping[str, Any], ...] = ()  # other parameters that the same is true of
    rows: Kind = "dense"
    columns: int = 1
    weighted: bool = False
    objective: bool = False
    single_fit: bool = False  # of LSSVR
    widens: bool = False  # the limit that is looked for is one of columns, not of rows

    def each(self) -> list[Feature]:
        """One for each set of parameters."""
        return [replace(self, parameters=values, alike=()) for values in (self.parameters, *self.alike)]

    def together(self, other: Feature) -> Feature | None:
        """Both at once; None where one excludes the other by what it is."""
        if set(self.parameters) & set(other.parameters) or "dense" not in (self.rows, other.rows):
            return None
        return Feature(
            f"{self.name}, {other.name}",
            {**self.parameters, **other.parameters},
            rows=other.rows if self.rows == "dense" else self.rows,
            weighted=self.weighted or other.weighted,
            objective=self.objective or other.objective,
        )


FITS: tuple[Feature, ...] = tuple(
    replace(feature, single_fit=True)
    for feature in (
        Feature("dense rows of one feature"),
        Feature("several features", columns=FEATURES, widens=True),
        Feature("sparse rows", rows="sparse"),
        Feature("Dask rows", rows="dask"),
        Feature("rows streamed to a device", {"device": "cpu"}, rows="streamed"),
        Feature('`kernel="precomputed"`', {"kernel": "precomputed"}, rows="precomputed"),
        Feature('`kernel="matern"`, `"laplacian"`', {"kernel": "matern"}, ({"kernel": "laplacian"},)),
        Feature('`kernel="rbf"`, `"powexp"`', {"kernel": "rbf"}, ({"kernel": "powexp"},)),
        Feature("a width for each feature", {"kernel": RBF((1.0, 2.0))}, columns=2),
        Feature('`kernel="linear"`, `"polynomial"`', {"kernel": "linear"}, ({"kernel": "polynomial"},)),
        Feature("`sample_weight`, `class_weight`", weighted=True),
        Feature('`loss="mean"`', {"loss": "mean"}),
        Feature(
            '`intervals="cv+"`, `"normalised"`', {"intervals": "cv+"}, ({"intervals": "normalised"},)
        ),
        Feature('`intervals="jackknife+"`', {"intervals": "jackknife+"}),
    )
)
"""The rows of the table of fits with given gamma and alpha."""

SEARCHES: tuple[Feature, ...] = (
    Feature("folds, such as `cv=5`"),
    Feature('`cv="loo"`', {"cv": "loo"}),
    Feature('`criterion="press"`, `"span"`', {"criterion": "press"}, ({"criterion": "span"},)),
    Feature(
        '`criterion="gcv"`, `"evidence"`, `"cost"`',
        {"criterion": "gcv"},
        ({"criterion": "evidence"}, {"criterion": "cost"}),
    ),
    Feature('`criterion="radius_margin"`', {"criterion": "radius_margin"}),
    Feature("a learned metric", {"metric": "diagonal", "max_rounds": 1}),
    Feature("`blend=True`", {"blend": True, "kernel": SEVERAL}),
    Feature('`search="halving"`', {"search": "halving"}),
    Feature('`select="1se"`', {"select": "1se"}),
    Feature('`refit="exact"`', {"refit": "exact"}),
    Feature('`intervals="cv+"`, `"normalised"`', {"intervals": "cv+"}, ({"intervals": "normalised"},)),
    Feature("`objective(X, y)`", objective=True),
)
"""The rows of the table of searches."""

PAIRED: tuple[Feature, ...] = (
    Feature("a learned metric", {"metric": "diagonal", "max_rounds": 1}),
    Feature("`blend=True`", {"blend": True}),
    Feature("several kernels", {"kernel": SEVERAL}),
    Feature('`search="halving"`', {"search": "halving"}),
    Feature('`select="1se"`', {"select": "1se"}),
    Feature("several criteria", {"criterion": ["mse", "r2"]}),
    Feature("a scikit-learn scorer", {"criterion": "r2"}),
    Feature("a criterion without splits", {"criterion": "gcv"}),
    Feature('`cv="loo"`', {"cv": "loo"}),
    Feature('`intervals="normalised"`', {"intervals": "normalised"}),
    Feature('`intervals="jackknife+"`', {"intervals": "jackknife+"}),
    Feature("`objective(X, y)`", objective=True),
    Feature('`loss="mean"`', {"loss": "mean"}),
    Feature("`sample_weight`", weighted=True),
    Feature("sparse rows", rows="sparse"),
    Feature('`kernel="precomputed"`', {"kernel": "precomputed"}, rows="precomputed"),
    Feature("Dask rows", rows="dask"),
    Feature("rows streamed to a device", {"device": "cpu"}, rows="streamed"),
)
"""What a search is asked for together, with ``approximation="auto"``."""

COLUMNS: Mapping[str, Mapping[str, Approximation]] = {
    "exact": {"": Exact()},
    "nystroem": {"": Nystroem(), '`predict="rows"`': Nystroem(predict="rows")},
    "circulant": {"": Circulant()},
    "toeplitz": {
        '`validate="kernel"`': Toeplitz(validate="kernel"),
        '`validate="matrix"`': Toeplitz(validate="matrix"),
    },
    "state_space": {"": StateSpace()},
    "grid": {"": Grid()},
    "cg": {"": ConjugateGradients()},
}
"""Approximations, each with the settings that make a difference."""


def search_of(feature: Feature, approximation: Approximation) -> LSSVRCV:
    """The search that asks for the feature, of a kernel that every approximation takes."""
    settings: dict[str, Any] = {"kernel": "matern32", "alphas": [1.0, 30.0], "cv": FOLDS}
    settings |= {"refit": "same", "intervals": None, "approximation": approximation}
    search = LSSVRCV(**settings | dict(feature.parameters))
    if is_relative(search):
        return search.set_params(gammas=[1.0])  # of the mean distance
    ((_, kernel),) = families_of(search)
    return search.set_params(gammas=[GAMMA] if kernel.has_width else None)


def fit_of(feature: Feature, approximation: Approximation) -> LSSVR:
    """The fit with given gamma and alpha that asks for the feature."""
    settings: dict[str, Any] = {"kernel": "matern32", "gamma": GAMMA, "alpha": 30.0}
    settings |= {"approximation": approximation}
    return LSSVR(**settings | dict(feature.parameters))


def facts(
    feature: Feature, approximation: Approximation, rows: int = ROWS, columns: int | None = None
) -> tuple[Request, Offer]:
    """What is asked and offered, all of it known."""
    place: Place = "memory"
    if feature.rows == "dask" or feature.rows == "streamed":
        place = feature.rows
    final = approximation
    if isinstance(approximation, Auto):
        final = Exact() if place == "memory" else Nystroem()
    offer = Offer(
        approximation,
        final=final,
        place=place,
        precomputed=feature.rows == "precomputed",
        sparse=feature.rows == "sparse",
        rows=rows,
        features=feature.columns if columns is None else columns,
        formed_rows=rows,
    )
    if feature.single_fit:
        fit = fit_of(feature, approximation)
        request = replace(request_of_fit(fit), weighted=feature.weighted)
        return request, replace(
            offer, kernels=[resolve_kernel(fit.kernel, GAMMA, fit.degree, fit.coef0)]
        )
    search = search_of(feature, approximation)
    families = families_of(search)
    criteria = list(criteria_of(search).values())
    request = request_of(search, criteria, resolve_strategy(search.search))
    request = replace(
        request,
        weighted=feature.weighted,
        objective=feature.objective,
        single_rows=request.single_rows or request.leave_one_out,
    )
    offer = replace(
        offer,
        kernels=[kernel for _, kernel in families],
        several_kernels=len(families) > 1,
        splits=1 if request.leave_one_out else FOLDS,
    )
    return request, offer


def refusal(feature: Feature, approximation: Approximation, **size: int) -> str | None:
    """The sentence of the rule that refuses; None where they go together."""
    try:
        check(*facts(feature, approximation, **size))
    except ValueError as error:
        return str(error)
    return None


def largest(goes: Callable[[int], bool], least: int) -> int | None:
    """The largest size that goes, from `least` on; None where there is no limit."""
    if goes(_MANY):
        return None
    most = _MANY
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if goes(middle) else (least, middle)
    return least


def verdict(feature: Feature, approximation: Approximation) -> str:
    """Yes, no, or up to which size; the same for parameters that are alike."""
    words = {_verdict(each, approximation) for each in feature.each()}
    if len(words) > 1:
        raise ValueError(
            f"{feature.name} is several features for {approximation!r}; print a line for each."
        )
    return words.pop()


def _verdict(feature: Feature, approximation: Approximation) -> str:
    if refusal(feature, approximation) is None:
        limit = largest(lambda n: refusal(feature, approximation, rows=n) is None, ROWS)
        return "yes" if limit is None else f"up to {limit:,} rows"
    if feature.widens and refusal(feature, approximation, columns=2) is None:
        return f"up to {largest(lambda d: refusal(feature, approximation, columns=d) is None, 2)}"
    return "no"


def cell(feature: Feature, settings: Mapping[str, Approximation]) -> str:
    """The verdict, and those of other settings where they differ."""
    verdicts = {words: verdict(feature, approximation) for words, approximation in settings.items()}
    first, *others = verdicts.values()
    if all(other == first for other in others):
        return first
    return "; ".join(f"{words}: {each}" if words else each for words, each in verdicts.items())


def pairs() -> list[tuple[Feature, Feature, Feature]]:
    """Two features that can be asked for at once, and both of them."""
    found = [(first, second, first.together(second)) for first, second in combinations(PAIRED, 2)]
    return [(first, second, both) for first, second, both in found if both is not None]


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    written = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in written)


def _shown(template: str) -> str:
    """A sentence with an ellipsis for what differs from case to case."""
    return re.sub(r"\{[^}]*\}", "…", template)


def _by_approximation(features: Sequence[Feature]) -> str:
    lines = [[feature.name, *[cell(feature, each) for each in COLUMNS.values()]] for feature in features]
    return _table(["", *COLUMNS], lines)


def page() -> str:
    """The text of the page."""
    excluded: dict[str, list[str]] = {feature.name: [] for feature in PAIRED}
    for first, second, both in pairs():
        if refusal(both, Auto()) is not None:
            excluded[first.name].append(second.name)
            excluded[second.name].append(first.name)
    together = _table(
        ["", "does not go with"], [[name, ", ".join(names) or "–"] for name, names in excluded.items()]
    )
    sentences = _table(
        ["asked for", "cause", "remedy"],
        [[rule.feature, _shown(rule.cause), _shown(rule.remedy)] for rule in RULES if rule.remedy],
    )
    return f"""# What goes with what

Not every approximation can do everything, and some options exclude each other. What does not go
together raises an error with one sentence, a cause and a remedy, before any long work. This page is
printed from the rules that raise it, and a test fits a model for every entry: it is what the program
does.

## With approximations

Where there is a limit, it is the largest number that is accepted. `approximation="auto"` is whichever it
chooses: exact, state_space or nystroem. A fit with given gamma and alpha:

{_by_approximation(FITS)}

A search of gamma and alpha, of the same rows, kernels and weights:

{_by_approximation(SEARCHES)}

- Conjugate gradients leave out whole folds: they solve for the models of all folds together.
- A circulant matrix needs no kernel matrix for `"radius_margin"` if each of its cells has a row: then
  there is no limit.
- A Toeplitz matrix with `validate="kernel"` leaves out single rows for up to 1,000 rows that are not an
  evenly spaced series.
- Sparse rows also need [a kernel that takes them](kernels.md).
- If there are no models for each fold, a search makes intervals from the final model and the held-out
  residuals, with a warning.

## With each other

In a search with `approximation="auto"`. Everything that is not listed goes together. `checkpoint`,
`time_budget`, `calibration`, `n_jobs` and `random_state` go with everything.

{together}

## The sentences

{sentences}
"""


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
