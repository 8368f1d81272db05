"""From records to figures: means over splits, ranks, wins, ratios of errors and the tests of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range, wilcoxon

Record = dict[str, Any]
Figures = dict[str, dict[str, float]]  # table, method


def means(records: Iterable[Record], key: str) -> Figures:
    """The mean of `key` over the splits that every method of a table has."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for record in records:
        if record.get(key) is not None:
            splits = found.setdefault(record["table"], {}).setdefault(record["method"], {})
            splits[record["split"]] = record[key]
    result: Figures = {}
    for table, methods in found.items():
        if shared := sorted(set.intersection(*map(set, methods.values()))):
            result[table] = {
                method: float(np.mean([splits[split] for split in shared]))
                for method, splits in methods.items()
            }
    return result


def complete(figures: Figures, methods: Sequence[str]) -> list[str]:
    """The tables that have a figure of every method."""
    return [table for table, found in figures.items() if set(methods) <= found.keys()]


@dataclass(frozen=True)
class Comparison:
    """One method against another over the tables both have; a ratio below 1 is for the first."""

    tables: int
    wins: int
    losses: int
    ratio: float  # geometric mean
    p: float  # Wilcoxon's signed ranks of the logarithms of the ratios, two-sided


def compare(
    figures: Figures, first: str, second: str, least: dict[str, float] | None = None
) -> Comparison | None:
    """Who wins where; `least` stands in for smaller figures of a table, as 0 has no ratio."""
    tables = complete(figures, [first, second])
    if not tables:
        return None
    pairs = np.array([[figures[table][first], figures[table][second]] for table in tables])
    floor = np.array([[(least or {}).get(table, 0.0)] for table in tables])
    logs = np.log(np.maximum(pairs, floor)) @ [1.0, -1.0]
    p = float(wilcoxon(logs).pvalue) if np.any(logs) else 1.0
    wins, losses = (int(np.sum(sign * (pairs[:, 0] - pairs[:, 1]) < 0)) for sign in (1, -1))
    return Comparison(len(tables), wins, losses, float(np.exp(logs.mean())), p)


@dataclass(frozen=True)
class Ranks:
    """Mean ranks over tables, 1 the best; two that differ by less than `difference` may be equal."""

    means: dict[str, float]
    tables: int
    p: float  # Friedman's test: whether the methods differ at all
    difference: float  # Nemenyi's, at 5 %

    def groups(self) -> list[list[str]]:
        """The largest groups whose ranks lie within the critical difference."""
        names = sorted(self.means, key=self.means.__getitem__)
        found: list[list[str]] = []
        for i, first in enumerate(names):
            near = [
                name for name in names[i:] if self.means[name] - self.means[first] <= self.difference
            ]
            if len(near) > 1 and not any(set(near) <= set(group) for group in found):
                found.append(near)
        return found


def ranks(figures: Figures, methods: Sequence[str]) -> Ranks:
    """Ranks of three methods or more on the tables that all have; equal figures share theirs."""
    tables = complete(figures, methods)
    values = np.array([[figures[table][method] for method in methods] for table in tables])
    mean = np.mean([rankdata(row) for row in values], axis=0)
    k = len(methods)
    n = len(tables)
    q = studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2)
    return Ranks(
        dict(zip(methods, map(float, mean))),
        n,
        float(friedmanchisquare(*values.T).pvalue),
        float(q * np.sqrt(k * (k + 1) / (6 * n))),
    )


def median_ratio(records: Sequence[Record], key: str, first: str, second: str) -> float | None:
    """The median over tables and splits of one machine and as many threads."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for one in records:
        if one.get(key) is not None and one["device"] == "cpu":
            place = (one["table"], one["split"], one.get("machine"), one["threads"])
            found.setdefault(place, {})[one["method"]] = one[key]
    both = [values for values in found.values() if {first, second} <= values.keys()]
    return float(np.median([values[first] / values[second] for values in both])) if both else None
