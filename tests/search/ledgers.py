"""Ledgers of known scores, for the tests of the rules that read them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from onefold.search.ledger import Ledger


def empty_ledger(params: Sequence[dict[str, Any]], alphas: Any, n_scores: int) -> Ledger:
    """A ledger of named candidates without evaluations."""
    scoring: Any = SimpleNamespace(n_scores=n_scores, splits=range(n_scores), others={})
    ledger = Ledger(scoring, alphas)
    for names in params:
        ledger.admit(names)
    return ledger
