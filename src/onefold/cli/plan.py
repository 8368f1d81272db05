"""``onefold plan``: what tune would run on a table, its time and its memory."""

from __future__ import annotations

import argparse

from onefold.cli.tune import asked
from onefold.estimators.setup import plan
from onefold.facts.words import json_text
from onefold.tables.training import AUTO, Search
from onefold.tuning import tuning


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    source, options = asked(arguments)
    with tuning(source, **options) as job:
        search = job.training.search
        estimator = job.model.inner_estimator(search, cv=job.training.cv)
        found = plan(estimator, job.training.X, job.training.y)
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


def _search_words(search: Search) -> str:
    """What tune would choose among."""
    names = search.as_plain()["kernels"]
    words = ["the kernels of auto" if names == [AUTO] else ", ".join(names)]
    if search.metric is not None:
        words.append(f"metric {search.metric}")
    if search.blend:
        words.append("a blend")
    return ", ".join(words) + (f" ({search.note})" if search.note else "")
