"""The report of benchmarks.choice: means by table, and the floors that the default has to keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, markdown

METHODS = ("default", "plain", "lightgbm", "catboost")
SHUFFLED = ("plain", "rare")
ALL = ("plain", "rare", "ordered")  # groups


class Records:
    """All records of a folder, by group and table, method and split."""

    def __init__(self, folder: Path) -> None:
        self.tables: dict[tuple[str, str], dict[str, dict[int, Row]]] = {}
        for path in sorted(folder.glob("*-*-*-*.json")):
            one = json.loads(path.read_text("utf-8"))
            methods = self.tables.setdefault((one["group"], one["name"]), {})
            methods.setdefault(one["method"], {})[one["split"]] = one

    def means(self, table: tuple[str, str], key: str, *methods: str) -> list[float] | None:
        """Of each method over the splits that all of them have; None where there are none."""
        found = [self.tables[table].get(method, {}) for method in methods]
        splits = [s for s in found[0] if all(one.get(s, {}).get(key) is not None for one in found)]
        return [float(np.mean([one[s][key] for s in splits])) for one in found] if splits else None

    def every(self, key: str, *methods: str, among: Sequence[str] = ALL) -> Any:
        """The means of all tables of some groups that have them, (methods, tables)."""
        found = [self.means(table, key, *methods) for table in self.tables if table[0] in among]
        return np.array([one for one in found if one is not None]).reshape(-1, len(methods)).T

    def gaps(self, method: str, key: str, among: Sequence[str]) -> Any:
        """Those of all splits of the tables of some groups."""
        found = [m.get(method, {}).values() for table, m in self.tables.items() if table[0] in among]
        return np.array([[gap(one, key) for records in found for one in records]])


def gap(one: Row, key: str = "promised") -> float:
    """The loss on test rows minus the promised one, in standard errors of the difference."""
    return (one["tested"] - one[key]) / max(np.hypot(one["tested error"], one["promised error"]), 1e-12)


def floors(records: Records) -> list[Row]:
    """What the default has to keep, what was measured, of how many tables, and whether it is enough."""
    rows: list[Row] = []

    def add(floor: str, values: Any, figure: Callable[..., Any], met: Callable[[Any], bool]) -> None:
        found = figure(*values) if values.size else None
        said = "not measured" if found is None else "met" if met(found) else "missed"
        rows.append({"floor": floor, "measured": found, "of": values.shape[1], "": said})

    add(
        "rare tables, balanced accuracy within a point of the better of plain and LightGBM, share: 7/8",
        records.every("balanced accuracy", "default", "plain", "lightgbm", among=["rare"]),
        lambda ours, plain, theirs: float(np.mean(ours >= np.maximum(plain, theirs) - 0.01)),
        lambda share: share >= 7 / 8,
    )
    for what, key, among in (
        ("promised and test scores within two standard errors", "promised", ALL),
        ("the same without ordered tables", "promised", SHUFFLED),
        ("the same of best_score_, without ordered tables", "stated", SHUFFLED),
    ):
        for method in ("default", "plain"):
            add(
                f"{what}, share of the splits, {method}: 0.9",
                records.gaps(method, key, among),
                lambda z: float(np.mean(np.abs(z) <= 2)),
                lambda share: share >= 0.9,
            )
    add(
        "rank correlation of importances, mean: 0.8",
        records.every("rank", "default"),
        lambda ranks: float(ranks.mean()),
        lambda mean: mean >= 0.8,
    )
    for what, among in (("", ALL), (", without rare classes", ("plain", "ordered"))):
        add(
            f"share of tables with a log loss below LightGBM's{what}: 0.6, aim 0.75",
            records.every("log loss", "default", "lightgbm", among=among),
            lambda ours, theirs: float(np.mean(ours < theirs)),
            lambda share: share >= 0.6,
        )
    for what, rival in (
        ("LightGBM: no fewer than lost", "lightgbm"),
        ("CatBoost: no floor", "catboost"),
    ):
        add(
            f"tables won and lost against {what}",
            records.every("score", "default", rival),
            lambda ours, theirs: [int(np.sum(ours < theirs)), int(np.sum(ours > theirs))],
            lambda count, rival=rival: count[0] >= count[1] or rival == "catboost",
        )
    add(
        "median time over LightGBM's: 1.2",
        records.every("cpu", "default", "lightgbm"),
        lambda ours, theirs: float(np.median(ours / theirs)),
        lambda ratio: ratio <= 1.2,
    )
    add(
        "tables where simple=True is slower than the default: 0",
        records.every("cpu", "plain", "default"),
        lambda plain, ours: int(np.sum(plain > ours)),
        lambda slower: slower == 0,
    )
    return rows


def report(folder: Path) -> dict[str, list[Row]]:
    """Print the means by table and the floors, and keep them."""
    records = Records(folder)
    found: dict[str, list[Row]] = {"scores": [], "classes": [], "floors": floors(records)}
    for table, methods in sorted(records.tables.items()):
        one = next(iter(next(iter(methods.values())).values()))
        name = {"group": table[0], "table": table[1]}

        def columns(key: str, prefix: str, table: Any = table) -> Row:
            means = {method: records.means(table, key, method) for method in METHODS}
            return {f"{prefix}{method}": None if m is None else m[0] for method, m in means.items()}

        row = name | {"n": one["n"], "d": one["d"]} | columns("score", "") | columns("cpu", "s, ")
        gaps = [gap(record) for record in methods.get("default", {}).values()]
        row["gap, s.e."] = float(np.mean(gaps)) if gaps else None
        row["rank"] = (records.means(table, "rank", "default") or [None])[0]
        found["scores"].append(row)
        if one["task"] == "classification":
            row = name | {"smallest": one["smallest class"]}
            for key in ("error", "balanced accuracy", "log loss", "ECE"):
                row |= columns(key, f"{key}, ")
            found["classes"].append(row)
    for title, rows in found.items():
        print(f"\n## {title}\n\n{markdown(rows)}")
    (folder / "report.json").write_text(json.dumps(found, indent=1), "utf-8")
    return found
