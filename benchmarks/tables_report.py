"""The report of benchmarks.tables: scores, summary, comparisons, times, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, markdown
from benchmarks.tables_data import CAUTIONS, LEFT_OUT, MOST_ROWS
from benchmarks.tables_prototype import PROTOTYPE
from benchmarks.tables_statistics import (
    Figures,
    Record,
    compare,
    complete,
    floors,
    mean_ranks,
    means,
    median_ratio,
    times_best,
)

ORDER = [
    "onefold-isotropic",
    "onefold-families",
    "onefold-diagonal",
    "onefold-full",
    "onefold-blend",
    "lightgbm",
    "xrfm",
    "xrfm-default",
    "catboost",
    "histgb",
    "svc-grid",
]


def in_order(methods: set[str]) -> list[str]:
    """Onefold from plain to blended, then the others; the same method on a device right after."""

    def place(method: str) -> tuple[int, str]:
        plain = method.partition("@")[0]
        return (ORDER.index(plain) if plain in ORDER else len(ORDER), method)

    return sorted(methods, key=place)


def score_text(score: float, task: str) -> str:
    return f"{100 * score:.2f} %" if task == "classification" else f"{score:.4f}"


def score_rows(scores: Figures, methods: list[str], facts: dict[str, Record]) -> list[Row]:
    """One row per table, the best score in bold."""
    rows = []
    for table, found in scores.items():
        fact, best = facts[table], min(found.values())
        row: Row = {"table": table, "n": fact["n_train"], "d": fact["d"]}
        for method in methods:
            text = score_text(found[method], fact["task"]) if method in found else ""
            row[method] = f"**{text}**" if found.get(method) == best else text
        rows.append(row)
    return rows


def summary_rows(scores: Figures, seconds: Figures, methods: list[str]) -> list[Row]:
    ranks, best = mean_ranks(scores, methods), times_best(scores, methods)
    return [
        {
            "method": method,
            "tables": sum(method in found for found in scores.values()),
            "mean rank": ranks.get(method),
            "best on": best[method],
            "median s": float(np.median([f[method] for f in seconds.values() if method in f])),
        }
        for method in methods
    ]


def comparison_rows(
    scores: Figures,
    seconds: Figures,
    focus: str,
    methods: list[str],
    least: dict[str, float],
    full: set[str],
) -> list[Row]:
    """The focus against each other method."""
    rows = []
    for rival in methods:
        found = compare(scores, focus, rival, least)
        if rival == focus or found is None:
            continue
        rows.append(
            {
                f"{focus} against": rival,
                "tables": found.tables,
                "wins": found.wins,
                "ties": found.ties,
                "losses": found.losses,
                "wins %": 100 * found.wins / found.tables,
                "error ratio, geometric mean": found.ratio,
                "p, Wilcoxon": found.p,
                "time ratio, median": median_ratio(seconds, focus, rival, seconds),
                f"the same at {MOST_ROWS} rows": median_ratio(seconds, focus, rival, full),
            }
        )
    return rows


def prototype_rows(scores: Figures, focus: str, facts: dict[str, Record]) -> tuple[list[Row], int]:
    """The focus beside the prototype, and on how many tables it is at most 3 % worse."""
    rows, close = [], 0
    for table, expected in PROTOTYPE.items():
        if focus in scores.get(table, {}):
            ratio = scores[table][focus] / expected
            close += ratio <= 1.03
            texts = [
                score_text(value, facts[table]["task"]) for value in (expected, scores[table][focus])
            ]
            rows.append({"table": table, "prototype": texts[0], focus: texts[1], "ratio": ratio})
    return rows, close


def make_report(records: list[Record], focus: str | None = None) -> str:
    """The whole report as Markdown; the focus is the last of onefold's methods unless it is named."""
    done = [record for record in records if "score" in record]
    if not done:
        raise SystemExit("no record has a score")
    facts = {record["table"]: record for record in done}
    methods = in_order({record["method"] for record in done})
    own = [method for method in methods if method.startswith("onefold")]
    focus = focus or (own or methods)[-1]
    scores, seconds, least = means(done, "score"), means(done, "seconds"), floors(done)
    scores = dict(sorted(scores.items(), key=lambda item: (facts[item[0]]["task"], item[0])))
    full = {table for table, fact in facts.items() if fact["n_train"] == MOST_ROWS}
    sections: dict[str, Any] = {
        "Test scores": score_rows(scores, methods, facts),
        f"Summary (ranks over the {len(complete(scores, methods))} tables that every method has)": (
            summary_rows(scores, seconds, methods)
        ),
        f"{focus} against the others": comparison_rows(scores, seconds, focus, methods, least, full),
        "Seconds": [{"table": table} | {m: seconds[table].get(m) for m in methods} for table in scores],
    }
    expected, close = prototype_rows(scores, focus, facts) if focus in own else ([], 0)
    sections[f"{focus} beside the prototype: at most 3 % worse on {close} of {len(expected)}"] = expected
    failed = [record for record in records if "score" not in record]
    sections["Without a score"] = [
        {key: record[key] for key in ("table", "split", "method", "error")} for record in failed
    ]
    parts = [f"## {title}\n\n{markdown(rows)}" for title, rows in sections.items() if rows]
    return "\n\n".join([*parts, notes(done)]) + "\n"


def notes(done: list[Record]) -> str:
    """How it was measured, and what to mind."""
    threads = sorted({record["threads"] for record in done})
    splits = len({record["split"] for record in done})
    cautions = "; ".join(f"{', '.join(names.split())}: {text}" for names, text in CAUTIONS.items())
    left_out = "; ".join(f"{name}: {text}" for name, text in LEFT_OUT.items())
    versions = sorted({f"{name} {text}" for record in done for name, text in record["versions"].items()})
    return (
        f"Scores: RMSE in deviations of the training targets, or the share of wrong labels, of at most "
        f"{MOST_ROWS} test rows, after training on at most {MOST_ROWS}; {splits} random split(s), the "
        f"same for all methods. Seconds: the search, the fit and the prediction on "
        f"{' or '.join(map(str, threads))} cores of the host, or on the device that is named.\n\n"
        f"Mind: {cautions}.\n\nLeft out: {left_out}.\n\nVersions: {', '.join(versions)}."
    )


def write_report(
    path: Path,
    focus: str | None = None,
    methods: Collection[str] | None = None,
    tables: Collection[str] | None = None,
) -> None:
    """Print the report of a file, of all or of what is named, and write it beside the file."""
    records = [
        record
        for record in json.loads(path.read_text("utf-8"))["records"]
        if (methods is None or record["method"].partition("@")[0] in methods)
        and (tables is None or record["table"] in tables)
    ]
    text = make_report(records, focus)
    print(text)
    path.with_suffix(".md").write_text(text, "utf-8")
