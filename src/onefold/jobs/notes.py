"""What a person should know about a result before believing it."""

from __future__ import annotations

from typing import Any

from onefold.jobs.criterion import shown
from onefold.jobs.leaks import leak_note
from onefold.search.ledger import edges

_NAMED = 6  # candidates that were not tried are named, if they are no more


def notes_of(report: dict[str, Any], estimator: Any, target: str) -> list[str]:
    """Sentences about the held-out score, the columns and the grid; empty if all is well."""
    notes = [stopped_note(report["search"]), constant_note(report), edge_note(estimator)]
    if report["suspicious_columns"]:
        notes.append(leak_note(report["suspicious_columns"], target))
    return [note for note in notes if note is not None]


def stopped_note(search: dict[str, Any]) -> str | None:
    """Why a search ended early, and what it has not tried."""
    if search["stopped"] is None:
        return None
    why = (
        "ended with its time budget"
        if search["stopped"] == "time_budget"
        else f"was {search['stopped']}"
    )
    untried = [
        ", ".join(f"{name} {_short(value)}" for name, value in one.items()) for one in search["untried"]
    ]
    if not untried:
        return f"the search {why}; what would have followed was not tried"
    count = f"{len(untried)} candidate{'s were' if len(untried) > 1 else ' was'} not tried"
    listed = f" ({'; '.join(untried)})" if all(untried) and len(untried) <= _NAMED else ""
    return f"the search {why}, and {count}{listed}"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def constant_note(report: dict[str, Any]) -> str | None:
    """A warning if the model is no better than a constant prediction, or not clearly so."""
    held = report["heldout"]
    if held is None:
        return None
    constant, gain, error, measure = "the mean", held["gain"], held["gain_error"], ""
    if report["task"] == "classification":
        constant = f"'{held['baseline_class']}'"
        if shown(report["criterion"]).label != "accuracy":
            # Whoever chooses by another score may well give up accuracy for it.
            gain = held["balanced_accuracy"] - held["baseline_balanced_accuracy"]
            error, measure = held["balanced_gain_error"], " in balanced accuracy"
    if gain <= 1e-12:
        return f"no better than always {constant}{measure}"
    if gain <= error:
        return f"hardly better than always {constant}{measure}: within one standard error"
    return None


def edge_note(estimator: Any) -> str | None:
    """A warning if the best value lies at the end of a grid, beyond which there may be better."""
    # Rounds, and a search that was stopped, try a few cells: their ends are no ends of a grid.
    if estimator.metric is not None or estimator.search_["stopped"] is not None:
        return None
    at_edge = [edge.split()[1] for edge in edges(estimator.cv_results_, estimator.best_index_)]
    if not at_edge:
        return None
    wider = " and ".join(f"{name}s" for name in at_edge)
    last = "are the last ones" if len(at_edge) > 1 else "is the last one"
    return f"the best {' and '.join(at_edge)} {last} tried; wider {wider} may find better"
