"""From records to figures: mean scores, ranks, wins, ratios of errors and a paired test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata, wilcoxon

Record = dict[str, Any]
Figures = dict[str, dict[str, float]]  # table, method


def means(records: Iterable[Record], key: str) -> Figures:
    """The mean of `key` over the splits that every method of a table has."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for record in records:
        if "score" in record:
            methods = found.setdefault(record["table"], {})
            methods.setdefault(record["method"], {})[record["split"]] = record[key]
    result: Figures = {}
    for table, methods in found.items():
        shared = set.intersection(*(set(splits) for splits in methods.values()))
        if shared:
            result[table] = {
                method: float(np.mean([splits[split] for split in sorted(shared)]))
                for method, splits in methods.items()
            }
    return result


def floors(records: Iterable[Record]) -> dict[str, float]:
    """Half a wrong label per table, in place of an error rate of 0, which has no ratio."""
    return {
        record["table"]: 0.5 / record["n_test"] if record["task"] == "classification" else 0.0
        for record in records
        if "score" in record
    }


def complete(scores: Figures, methods: Sequence[str]) -> list[str]:
    """The tables that have a score of every method."""
    return [table for table, found in scores.items() if all(method in found for method in methods)]


def mean_ranks(scores: Figures, methods: Sequence[str]) -> dict[str, float]:
    """Mean rank over the complete tables, 1 the best; equal scores share the mean of their ranks."""
    tables = complete(scores, methods)
    if not tables:
        return {}
    ranks = [rankdata([scores[table][method] for method in methods]) for table in tables]
    return dict(zip(methods, map(float, np.mean(ranks, axis=0))))


def times_best(scores: Figures, methods: Sequence[str]) -> dict[str, int]:
    """On how many complete tables nobody is better."""
    lowest = {table: min(scores[table][m] for m in methods) for table in complete(scores, methods)}
    return {m: sum(scores[table][m] == low for table, low in lowest.items()) for m in methods}


@dataclass(frozen=True)
class Comparison:
    """One method against another over the tables both have; a ratio below 1 is for the first."""

    tables: int
    wins: int
    ties: int
    losses: int
    ratio: float  # geometric mean of the ratios of errors
    p: float  # Wilcoxon's signed ranks of the logarithms of the ratios, two-sided


def compare(scores: Figures, first: str, second: str, least: dict[str, float]) -> Comparison | None:
    """exp(mean log(error of first / error of second)), who wins where, and the paired test."""
    tables = complete(scores, [first, second])
    if not tables:
        return None
    pairs = np.array([[scores[table][first], scores[table][second]] for table in tables])
    bounded = np.maximum(pairs, np.array([[least.get(table, 0.0)] for table in tables]))
    logs = np.log(bounded[:, 0] / bounded[:, 1])
    wins, losses = int(np.sum(pairs[:, 0] < pairs[:, 1])), int(np.sum(pairs[:, 0] > pairs[:, 1]))
    p = float(wilcoxon(logs).pvalue) if np.any(logs) else 1.0
    ties = len(tables) - wins - losses
    return Comparison(len(tables), wins, ties, losses, float(np.exp(logs.mean())), p)


def median_ratio(figures: Figures, first: str, second: str, tables: Iterable[str]) -> float | None:
    """The median over tables of the first's figure over the second's."""
    both = [figures[table] for table in tables if {first, second} <= figures.get(table, {}).keys()]
    return float(np.median([found[first] / found[second] for found in both])) if both else None
