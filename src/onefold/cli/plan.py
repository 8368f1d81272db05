"""``onefold plan``: what tune would run on a table, its time and its memory."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from onefold.approximations import Auto, resolve_approximation
from onefold.cli.tableoptions import open_asked
from onefold.cli.tune import chosen
from onefold.cli.words import json_text
from onefold.estimators import LSSVCCV, LSSVRCV
from onefold.estimators.setup import plan
from onefold.tables import TableRegressor, TableSource, learn_preparation, learn_target
from onefold.tables.matrix import learn_from_disk
from onefold.tables.searching import AUTO, Search, search_of
from onefold.tables.training import larger_than_memory


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    source = open_asked(arguments)
    if arguments.target is not None:
        source.require(arguments.target, "target")
    for name in arguments.drop:
        source.require(name, "drop")
    for name in arguments.categorical:
        source.require(name, "categorical")
    rows, features, classes = table_shape(
        source, arguments.target, arguments.drop, arguments.categorical
    )
    classes = classes if arguments.targets is None else arguments.targets
    search = search_of(_unfitted(arguments), on_disk=larger_than_memory(source))
    approximation = resolve_approximation(arguments.approximation)
    if isinstance(approximation, Auto):
        approximation = replace(approximation, seconds=arguments.seconds)
    # Of a grid, as of labels, only how many there are counts.
    grids: dict[str, Any] = {
        name: None if count is None else np.geomspace(0.1, 10.0, count)
        for name, count in (("gammas", arguments.gammas), ("alphas", arguments.alphas))
    }
    estimator: Any = (LSSVCCV if classes else LSSVRCV)(
        **search.parameters(), **grids, approximation=approximation, cv=arguments.cv
    )
    found = plan(estimator, (rows, features), np.arange(classes) if classes else None)
    if not arguments.json:
        print(f"{found}\nsearch  {_search_words(search)}")
        return
    facts = {
        "rows": found.rows,
        "features": found.features,
        "approximation": repr(found.approximation),
        "reason": found.reason,
        "search": search.as_plain(),
        "seconds": found.seconds,
        "bytes": found.bytes,
        "free_bytes": found.free_bytes,
        "fits": found.fits,
    }
    print(json_text(facts))


def _unfitted(arguments: argparse.Namespace) -> TableRegressor:
    """An estimator of tables that would search the same."""
    names = ("simple", "cv", "approximation")
    return TableRegressor(**chosen(arguments), **{name: getattr(arguments, name) for name in names})


def _search_words(search: Search) -> str:
    """What tune would choose among."""
    names = search.as_plain()["kernels"]
    kernels = "the kernels of auto" if names == [AUTO] else ", ".join(names)
    words = [kernels]
    if search.metric is not None:
        words.append(f"metric {search.metric}")
    if search.blend:
        words.append("a blend")
    return ", ".join(words) + (f" ({search.note})" if search.note else "")


def table_shape(
    source: TableSource, target: str | None, drop: Collection[str], categorical: Collection[str] = ()
) -> tuple[int, int, int]:
    """Rows, features and classes (0 for none) of the matrix that tune would make of a table.

    The preparation is tune's own: constant columns go, text becomes a feature for each category. Where
    no target is named, and the format has none by convention, any one feature is taken for it.
    """
    target = target or source.default_target
    named = [target] if target else []
    if larger_than_memory(source):
        learner, beside, _ = learn_from_disk(source, named, drop, "impute", categorical)
        preparation, n = learner.finish(), learner.rows
    else:
        beside = source.read()
        preparation = learn_preparation(beside, {*drop, *named}, "impute", categorical)
        n = len(beside)
    features = len(preparation.feature_names)
    if target is None:
        return n, max(1, features - 1), 0
    found = learn_target(beside, target)
    return n, features, len(np.unique(found.values)) if found.task == "classification" else 0
