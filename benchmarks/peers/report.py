"""The page docs/peers/index.md and its picture from the records, which docs/peers/results.json keeps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from signal import Signals
from typing import Any

import numpy as np

from benchmarks.common import Row, markdown
from benchmarks.peers.jobs import BIG, METHODS, SURFACES
from benchmarks.peers.run import Record, key_of, read
from benchmarks.peers.statistics import Figures, Ranks, compare, complete, means, median_ratio, ranks
from benchmarks.tables_data import CAUTIONS, TASKS

PAGE = Path(__file__).parents[2] / "docs" / "peers"
KEPT = (
    *("job", "table", "split", "method", "device", "threads", "machine", "environment", "failed"),
    *("n", "n_test", "d", "classes", "error", "log loss", "coverage", "width", "seconds", "memory"),
    *("predict seconds", "gpu memory", "gpu", "versions", "promised", "settings", "date"),
    "load",
)
NAMES = {
    "onefold": "onefold",
    "onefold-plain": "onefold, rbf alone",
    "lightgbm": "LightGBM, 25 settings",
    "catboost": "CatBoost, 4 settings",
    "histgb": "HistGradientBoosting",
    "xrfm": "xrfm, 12 settings",
    "xrfm-default": "xrfm, default",
    "neo-ls-svm": "neo-ls-svm",
    "grid": "SVC or KernelRidge, grid",
    "mapie": "MAPIE, HistGradientBoosting",
}
SHORT = {  # where many columns stand side by side
    "onefold-plain": "rbf alone",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
    "histgb": "HistGB",
    "xrfm": "xrfm",
    "grid": "grid",
}
BUSY = 1.5  # processes per core beyond which seconds say nothing
SHARE = 0.9  # a method is ranked where it has so many of the tables


def digits(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def stored(paths: Iterable[Path], folder: Path) -> list[Record]:
    """The records of results.json and of the given files, the latter first in case of doubt."""
    kept = folder / "results.json"
    old = json.loads(kept.read_text("utf-8")) if kept.exists() else []
    found = {_place(one): one for one in old}
    for path in paths:
        for one in read(path).values():
            key = _place(one)
            if "failed" not in one or "seconds" not in found.get(key, {}):
                one |= {
                    name: one["facts"][name]
                    for name in ("promised", "settings")
                    if name in one.get("facts", {})
                }
                found[key] = {name: digits(one[name]) for name in KEPT if one.get(name) is not None}
    records = [found[key] for key in sorted(found, key=str)]
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in records)
    kept.write_text(f"[\n{lines}\n]\n", "utf-8")
    return records


def _place(record: Record) -> tuple[Any, ...]:
    """A job and the machine it ran on."""
    return *key_of(record), record.get("machine", "")


def write(paths: Iterable[Path], folder: Path = PAGE) -> str:
    """Write the page, and return it."""
    records = stored(paths, folder)
    tables = [one for one in records if one.get("job") == "tables"]
    sections = [HEAD, *_summary(tables), *_tables(tables, folder), *_intervals(tables)]
    sections += _big([one for one in records if one.get("job") == "big"])
    for job, (title, text) in GIVEN.items():
        sections += _given([one for one in records if one.get("job") == job], title, text)
    sections += [PUBLISHED, *_notes(records)]
    page = "\n\n".join(sections) + "\n"
    (folder / "index.md").write_text(page, "utf-8")
    return page


# -- tables -------------------------------------------------------------------------------------------


def floors(records: Iterable[Record]) -> dict[str, float]:
    """Half a wrong label per table, in place of an error rate of 0, which has no ratio."""
    labels = [one for one in records if one.get("classes") and "n_test" in one]
    return {one["table"]: 0.5 / one["n_test"] for one in labels}


def against(records: list[Record], key: str) -> list[Row]:
    """Our default against every other method, one row each."""
    rows = []
    least = floors(records) if key == "error" else None
    for name, title in NAMES.items():
        own = [one for one in records if one["method"] in ("onefold", name)]
        found = compare(means(own, key), "onefold", name, least)
        if name == "onefold" or found is None:
            continue
        row: Row = {"against": title, "tables": found.tables, "lower": found.wins}
        row |= {"equal": found.tables - found.wins - found.losses, "higher": found.losses}
        row |= {"ratio": found.ratio, "p": found.p}
        if key == "error":
            row["time ratio"] = median_ratio(own, "seconds", "onefold", name)
        rows.append(row)
    return rows


def _summary(records: list[Record]) -> list[str]:
    """Our errors and seconds beside those of trees, in one sentence each."""
    lines = []
    for row in against(records, "error"):
        if row["against"] in (NAMES["lightgbm"], NAMES["catboost"], NAMES["histgb"]):
            text = f"- {row['against']}: lower on {row['lower']} of {row['tables']} tables, higher on "
            text += f"{row['higher']}; geometric mean of the error ratios {row['ratio']:.2f}"
            if (time := row["time ratio"]) is not None:
                text += f"; {time:.2g} times its seconds at the median"
            lines.append(f"{text}.")
    return ["Test error of onefold compared with boosted trees:", "\n".join(lines)] if lines else []


def ranked(figures: Figures) -> list[str]:
    """The methods that have most tables."""
    counts = {name: sum(name in found for found in figures.values()) for name in NAMES}
    return [name for name, count in counts.items() if count >= SHARE * len(figures) and name != "mapie"]


def picture(found: Ranks, path: Path) -> None:
    """Mean ranks on a line; bars join methods within the critical difference."""
    from matplotlib.figure import Figure

    names = sorted(found.means, key=found.means.__getitem__)
    low = 1
    high = len(names)
    half = (len(names) + 1) // 2
    groups = found.groups()
    bottom = -0.5 * len(groups) - 0.4  # the first line of names
    figure = Figure(figsize=(8, 1.0 + 0.3 * (half + len(groups))), layout="constrained")
    axes = figure.subplots()
    axes.set(xlim=(low - 1.6, high + 1.6), ylim=(bottom - half + 0.5, 1.2))
    axes.axis("off")
    axes.plot([low, high], [0, 0], color="0.2", lw=1)
    for rank in range(low, high + 1):
        axes.plot([rank, rank], [0, 0.15], color="0.2", lw=1)
        axes.text(rank, 0.25, str(rank), ha="center", va="bottom")
    end = low + found.difference
    axes.plot([low, end], [0.95, 0.95], color="0.2", lw=2)
    axes.text(end + 0.08, 0.95, f"critical difference {found.difference:.2f}", va="center", fontsize=9)
    for place, name in enumerate(names):
        left = place < half
        rank = found.means[name]
        y = bottom - (place if left else len(names) - 1 - place)
        x = low - 0.1 if left else high + 0.1
        own = name.startswith("onefold")
        colour = "tab:blue" if own else "0.2"
        axes.plot([rank, rank, x], [0, y, y], color=colour, lw=1)
        text = f"{NAMES[name]} ({rank:.2f})"
        side = "right" if left else "left"
        axes.text(x, y, f" {text} ", ha=side, va="center", color=colour, fontsize=9)
    for place, group in enumerate(groups):
        ends = [found.means[group[0]] - 0.05, found.means[group[-1]] + 0.05]
        axes.plot(ends, [-0.35 - 0.5 * place] * 2, color="tab:red", lw=4, solid_capstyle="butt")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def error_text(error: float | None, percent: bool) -> str:
    if error is None:
        return ""
    return f"{100 * error:.2f}\N{NO-BREAK SPACE}%" if percent else f"{error:.4f}"


def score_rows(figures: Figures, methods: Sequence[str]) -> list[Row]:
    """Errors of every table, the lowest in bold; labels in per cent."""
    rows = []
    for table in [name for name in TASKS if name in figures]:
        found = figures[table]
        percent = TASKS[table] == "classification"
        shown = {name: found[name] for name in methods if name in found}
        row: Row = {"table": table}
        for name in methods:
            text = error_text(shown.get(name), percent)
            title = SHORT.get(name, NAMES[name])
            row[title] = f"**{text}**" if shown.get(name) == min(shown.values()) else text
        rows.append(row)
    return rows


def lost(figures: Figures) -> list[Row]:
    """Where some peer's error is at least 3 % lower than ours, the worst first."""
    rows = []
    for table, scores in figures.items():
        others = {name: value for name, value in scores.items() if not name.startswith("onefold")}
        if "onefold" not in scores or not others:
            continue
        best = min(others, key=others.__getitem__)
        percent = TASKS[table] == "classification"
        if others[best] < 0.97 * scores["onefold"]:
            row: Row = {"table": table, "onefold": error_text(scores["onefold"], percent)}
            row |= {"best peer": NAMES[best], "its error": error_text(others[best], percent)}
            rows.append(row | {"ratio": scores["onefold"] / max(others[best], 1e-12)})
    return sorted(rows, key=lambda row: -row["ratio"])


def shortened(records: list[Record]) -> str:
    """Where time ended the search for a setting early, with the settings that were tried."""
    parts = []
    for name, asked in (("lightgbm", 25), ("xrfm", 12)):
        own = [one for one in records if one["method"] == name and one.get("settings", asked) < asked]
        tried = {one["table"]: one["settings"] for one in own}
        if tried:
            found = ", ".join(f"{table} ({count})" for table, count in sorted(tried.items()))
            parts.append(f"{SHORT[name]} on {found}")
    return f"The time limit allowed fewer random settings for {'; '.join(parts)}." if parts else ""


def _tables(records: list[Record], folder: Path) -> list[str]:
    figures = means_all(records, "error")
    if not figures:
        return []
    methods = [name for name in NAMES if any(name in found for found in figures.values())]
    sections = ["## Forty tables", TABLES, f"Errors:\n\n{markdown(against(records, 'error'))}"]
    if losses := against(records, "log loss"):
        sections.append(f"Log losses on classification tables:\n\n{markdown(losses)}")
    chosen = ranked(figures)
    shared = means([one for one in records if one["method"] in chosen], "error")
    if len(chosen) > 2 and len(complete(shared, chosen)) > 1:
        found = ranks(shared, chosen)
        picture(found, folder / "images" / "ranks.png")
        sections.append(
            "![Mean ranks of the methods](images/ranks.png)\n\nMean ranks over the "
            f"{found.tables} tables that all of these methods have (1 is the best). Friedman's test: "
            f"p = {found.p:.2g}. A red bar joins methods that do not differ by Nemenyi's test at 5 %."
        )
    if behind := lost(figures):
        sections.append(
            f"**Where we lose.** On {len(behind)} of {len(figures)} tables the best of all peers has an "
            f"error at least 3 % lower than ours:\n\n{markdown(behind)}"
        )
    shown = [name for name in methods if name != "mapie"]
    sections.append(f"Every table:\n\n{markdown(score_rows(figures, shown))}")
    cautions = "; ".join(f"{', '.join(names.split())}: {text}" for names, text in CAUTIONS.items())
    return [*sections, f"Cautions: {cautions}.", *filter(None, [shortened(records)])]


def means_all(records: list[Record], key: str) -> Figures:
    """Means of the methods that have all splits of a table: one that lacks some costs no other one."""
    splits = {(one["table"], one["split"]) for one in records if one.get(key) is not None}
    result: Figures = {}
    for name in NAMES:
        own = [one for one in records if one["method"] == name and one.get(key) is not None]
        there = {(one["table"], one["split"]) for one in own}
        whole = {table for table, _ in there} - {table for table, _ in splits - there}
        for table, found in means(own, key).items():
            if table in whole:
                result.setdefault(table, {}).update(found)
    return result


def _intervals(records: list[Record]) -> list[str]:
    """Coverage of 90 % intervals and their width beside ours, over the tables that all have."""
    cover = means_all(records, "coverage")
    width = means_all(records, "width")
    names = [name for name in NAMES if any(name in found for found in cover.values())]
    names = [name for name in names if name != "onefold-plain"]
    tables = complete(cover, names)
    if not tables or "onefold" not in names:
        return []
    rows = []
    for name in names:
        values = np.array([cover[table][name] for table in tables])
        ratio = np.exp(np.mean([np.log(width[t][name] / width[t]["onefold"]) for t in tables]))
        row: Row = {"method": NAMES[name], "coverage, mean": f"{100 * values.mean():.1f} %"}
        row |= {"lowest": f"{100 * values.min():.1f} %", "highest": f"{100 * values.max():.1f} %"}
        rows.append(row | {"width / onefold's": float(ratio)})
    text = f"Intervals with a nominal coverage of 90 %, on {len(tables)} regression tables:"
    return ["## Intervals", f"{text}\n\n{markdown(rows)}"]


# -- jobs with given hyper-parameters, and large tables -------------------------------------------------


def _given(records: list[Record], title: str, text: str) -> list[str]:
    """One table for each machine: seconds of two machines are not compared."""
    sections = [f"## {title}", text] if records else []
    machines = sorted({one["machine"] for one in records}, key=lambda name: -_count(records, name))
    for machine in machines:
        rows = given_rows([one for one in records if one["machine"] == machine])
        head = f"{machine}:\n\n" if len(machines) > 1 else ""
        sections.append(head + markdown(rows))
    crashed = [one for one in records if "crashed" in reason(one)]
    sections += [
        f"scikit-learn's {one['method']} does not survive {SURFACES[one['table']][0]:,} rows: the "
        f"process {reason(one)}. The likely cause is the threaded Cholesky factorisation of OpenBLAS, "
        "in current wheels, which corrupts memory above about 16,000 rows; onefold factorises by panels "
        "instead."
        for one in crashed
    ]
    return sections


def reason(record: Record) -> str:
    """What a job failed with; "exit -11" is a signal."""
    text = str(record.get("failed", ""))
    if text.startswith("exit -"):
        return f"crashed ({Signals(int(text[6:].split(':')[0])).name})"
    return text


def _count(records: list[Record], machine: str) -> int:
    return sum(one["machine"] == machine for one in records)


def given_rows(records: list[Record]) -> list[Row]:
    """The fastest first; ratios are to the first of our own methods on the same rows."""
    order = list(METHODS)
    done = [
        one | ({"seconds": np.nan} if one.get("load", 0) > BUSY else {})
        for one in records
        if "seconds" in one
    ]
    ours = [one for one in done if one["method"].startswith("onefold")]
    ours.sort(key=lambda one: -order.index(one["method"]))
    base = {one["table"]: one["seconds"] for one in ours}
    rows: list[Row] = []
    for one in sorted(done, key=lambda one: (one["n"], one["seconds"])):
        row: Row = {"method": one["method"], "rows": f"{one['n']:,}", "seconds": f"{one['seconds']:.1f}"}
        row["time ratio"] = f"{one['seconds'] / base.get(one['table'], np.nan):.2g}"
        row["error"] = "" if one.get("error") is None else f"{one['error']:.4f}"
        row["peak memory, GiB"] = f"{one['memory'] / 2**30:.2f}" if "memory" in one else ""
        rows.append({name: "" if text == "nan" else text for name, text in row.items()})
    for one in [one for one in records if "failed" in one]:
        size, _ = SURFACES.get(one["table"], (1300, 0))
        rows.append({"method": one["method"], "rows": f"{size:,}", "seconds": reason(one)})
    return rows


def _big(records: list[Record]) -> list[str]:
    rows = []
    for table, (_, task, _) in BIG.items():
        own = {one["method"]: one for one in records if one["table"] == table}
        done = [one for one in own.values() if "seconds" in one]
        labels = task == "classification"
        if not done:
            continue
        row: Row = {"table": table, "rows": f"{done[0]['n']:,}"}
        for name in ("onefold", "xrfm", "lightgbm"):
            one = own.get(name, {})
            text = reason(one)
            if "seconds" in one:
                text = f"{error_text(one['error'], labels)}, {one['seconds']:.1f}\N{NO-BREAK SPACE}s"
                text += f", {one['settings']}\N{NO-BREAK SPACE}tried" if "settings" in one else ""
            row[SHORT.get(name, name)] = text
        ours = own.get("onefold", {})
        row["promised"] = error_text(ours.get("promised"), labels)
        row["GPU memory, GiB"] = f"{ours['gpu memory'] / 2**30:.0f}" if "gpu memory" in ours else ""
        rows.append(row)
    return ["## Large tables", LARGE, markdown(rows)] if rows else []


def _notes(records: list[Record]) -> list[str]:
    failed = [one for one in records if "environment" in one and "failed" in one]
    texts = [f"{one['environment']}: {one['failed']}" for one in failed]
    found: dict[str, set[str]] = {}
    for one in records:
        for name, text in one.get("versions", {}).items():
            found.setdefault(name, set()).add(text)
    machines = sorted({one[name] for one in records for name in ("machine", "gpu") if name in one})
    dates = sorted({one["date"] for one in records if "date" in one})
    versions = ", ".join(f"{name} {' and '.join(sorted(of))}" for name, of in sorted(found.items()))
    lines = [f"Not installed: {'; '.join(texts) or 'none of those that were tried'}."]
    broken = sorted(
        {
            f"{NAMES.get(one['method'], one['method'])} on {one['table']}: {reason(one)}"
            for one in records
            if one.get("job") == "tables" and "failed" in one
        }
    )
    if broken:
        lines.append(f"Failed on tables: {'; '.join(broken)}.")
    return [
        "## Notes",
        "\n\n".join(
            [
                *lines,
                f"Machines: {'; '.join(machines)}. Date: {' and '.join(dates)}.",
                f"Versions: {versions}.",
            ]
        ),
    ]


HEAD = """# Other libraries on the same data

`make peers` fits onefold and other libraries to the same rows. Each library is installed in its own
environment; on the 16-core machine below, all of them are installed in one environment (`--here`).
`python -m benchmarks.peers report` writes this page from the records in `results.json`.

**Which to choose.** On tables of up to about 10,000 rows, and of up to 460,000 rows with a GPU (the
largest that were compared), onefold usually has the lower error, especially if the target is a smooth
function. Choose boosted trees if training time matters: one fit takes seconds at these sizes, and their
time is proportional to the number of rows."""

TABLES = """At most 8000 training rows and 8000 test rows; three random splits of tables with fewer than
5000 rows, one of the others. The error is the test RMSE divided by the standard deviation of the
target, or the fraction of wrong labels. *Lower*, *equal* and *higher* count the tables on which the
error of onefold (`kernel="auto", metric="auto", blend=True`) is lower, equal or higher; *ratio* is the
geometric mean of the error ratios, below 1 if onefold is better; *p* is from Wilcoxon's test of the
logarithms. The *time ratio* is the median ratio of the time of search and fit, with one thread each on
the same machine; it is empty if the other method ran on another machine or on a GPU.

LightGBM and xrfm try random settings, validate them on 20 % of the training rows, and refit the best;
CatBoost tries its default and three random settings. The time limit for random settings is 200 s for
LightGBM, 60 s for xrfm on a GPU and 300 s on a CPU. Methods with fewer tables ran out of time; the grid
of scikit-learn was run only up to 2000 training rows, and neo-ls-svm supports only two classes. Two
methods are compared on the tables and splits that both have."""

LARGE = """The training set has four fifths of the shuffled table, or the number of rows in the table
below, and the test set up to 20,000 other rows. onefold and xrfm ran on a GPU and two CPU cores,
LightGBM on four cores, on eight for the two largest. xrfm tried settings for 15 s and LightGBM for 30 s,
100 s for the two largest (a setting that was started in this time was completed), and the best was
refitted; *tried* is the number of settings, for xrfm in addition to its default. Each cell has the error
and the total time in seconds; empty cells were not run for lack of time. *Promised* is the
cross-validated error of onefold, of models that were fitted without the rows that they are scored on.
All models of onefold are fitted to all rows ([how](../studies/large.md))."""

GIVEN = {
    "small": (
        "A small grid",
        "1300 rows of `make_classification`, 18 columns; an rbf kernel with 13 widths and 11 ridges, "
        "five folds, two threads. The error is the cross-validated error of the best candidate. "
        "GPyTorch takes 100 steps on the marginal likelihood instead of a grid; Nystroem has 500 "
        "centres and leave-one-out. The *time ratio* is relative to onefold on the same rows and "
        "machine. Times are omitted if the machine was busy; other empty cells were not measured.",
    ),
    "medium": (
        "One fit of 10,000 rows",
        "y = Σ_j sin(x · w_j) + 0.1 ε with five directions in 20 columns; γ = 0.02, ridge 0.01; 5000 "
        "test rows, two threads. neo-ls-svm chooses its own hyper-parameters; GPyTorch computes in "
        "float32. KernelRidge and onefold also fit 20,000 rows.",
    ),
    "large": (
        "One fit of 500,000 rows",
        "The same function and hyper-parameters, 1000 centres, 50,000 test rows, two threads. "
        "neo-ls-svm chooses its own hyper-parameters.",
    ),
}

PUBLISHED = """## Libraries that were not measured again

Two libraries for the same task cannot be installed with current Python versions. RLScore 0.8.1 does not
build: its setup needs NumPy, which pip's isolated builds do not provide, and without isolation its C
files include a header that Python 3.11 no longer has. liquidSVM needs an old Python version and a
download that fails. These are times for the small grid, measured on 2026-11-15 on another machine with
two cores, where scikit-learn's grid with KernelRidge took 22.2 s:

| method | seconds | relative to KernelRidge |
| --- | --- | --- |
| liquidSVM, hinge loss | 2.5 | 0.11 |
| RLScore, leave-one-out | 5.3 | 0.24 |
| liquidSVM, least squares | 5.8 | 0.26 |
| RLScore, five folds | 10.5 | 0.47 |"""
