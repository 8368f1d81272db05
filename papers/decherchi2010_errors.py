"""Table 2 and Figure 2 of decherchi2010: the data sets, and test errors against the number of rows."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import data_sets
from papers.decherchi2010_jobs import CG, LAMBDAS, METHODS, OURS, PUBLISHED, WIDTHS, gathered, run_jobs
from papers.page import PAGES, Page, PartResult

TITLES = {
    "mnist": "MNIST 3 vs 8",
    "ijcnn1": "Ijcnn",
    "daimler_mini": "Daimler",
    "w8a": "w8a",
    "covtype": "Covertype",
    "cbcl_faces": "Faces",
}
SHORT = "daimler_mini"  # the set of the short version
# What differs from the paper, where anything does.
DIFFERS = {
    "mnist": "MNIST has fewer threes and eights than the paper used; 80 variables are the first "
    "principal "
    "components, as the paper does not say what it took",
    "daimler_mini": "only a public sample of 700 images is available",
}
ALMOST = 1.25
REASONABLE = 2.0  # times the error of elimination: "almost matched", "a reasonable range"
SERIES = {
    "toeplitz": ("Toeplitz", {"color": "black", "marker": "o"}),
    "cg": ("CG", {"color": "0.6", "marker": "o", "linewidth": 3}),
    "elimination": (
        "elimination",
        {"color": "black", "linestyle": "--", "marker": "s", "markersize": 6, "fillstyle": "none"},
    ),
    "equal diagonals": (
        "closed form of shuffled rows (not in the paper)",
        {"color": "C2", "linewidth": 1, "marker": "+", "markersize": 8},
    ),
    "nystroem": ("Nyström, 1000 rows (not in the paper)", {"color": "C0", "linewidth": 1}),
    "parzen": ("Parzen window (not in the paper)", {"color": "C1", "linewidth": 1, "linestyle": ":"}),
}


# -- Table 2 -------------------------------------------------------------------------------------------


def measure_table2(short: bool) -> PartResult:
    """Rows, variables and the share of the smaller class of what is in the files."""
    found: PartResult = {}
    for name, stored in data_sets([SHORT] if short else list(PUBLISHED)):
        y = stored["y_binary"] if "y_binary" in stored else stored["y"]
        rows = np.isin(y, (3, 8)) if name == "mnist" else np.ones(len(y), dtype=bool)
        positive = float(np.mean(y[rows] == y[rows].max()))
        found[name] = {
            "rows": int(rows.sum()),
            "variables": int(stored["X"].shape[1]),
            "smaller class": min(positive, 1 - positive),
        }
    return found


def thousands(sizes: Any) -> str:
    return ", ".join(f"{n:,}" for n in sizes)


def show_table2(found: PartResult, page: Page) -> None:
    page.text(
        "Training rows, test rows and variables. The columns *available* and *smaller class* refer to "
        "the available rows; the other columns give what is used here and what the paper used."
    )
    same = []
    rows = []
    for name, here in found.items():
        if OURS[name] == PUBLISHED[name]:
            same.append(name)
        sizes, test, variables = OURS[name]
        paper_sizes, paper_test, paper_variables = PUBLISHED[name]
        rows.append(
            {
                "set": TITLES[name],
                "available": f"{here['rows']:,}",
                "smaller class": f"{100 * here['smaller class']:.1f} %",
                "training rows": thousands(sizes),
                "paper": thousands(paper_sizes),
                "test rows": f"{test:,}",
                "paper ": f"{paper_test:,}",
                "variables": _variables(here["variables"], variables),
                "paper  ": paper_variables,
                "differs": DIFFERS.get(name, ""),
            }
        )
    page.table(rows)
    if same:
        page.verdict(
            "Reproduced",
            f"{len(same)} of {len(found)} sets ({', '.join(TITLES[name] for name in same)}) have the "
            "published numbers of rows and variables. Which rows the paper drew is not known.",
        )
    others = [name for name in found if name not in same]
    if others:
        why = "; ".join(f"{TITLES[name]}: {DIFFERS[name]}" for name in others)
        page.verdict("Cannot be tested", f"{len(others)} of {len(found)} sets. {why}.")


def _variables(stored: int, used: int) -> str:
    return str(used) if stored == used else f"{used} of {stored}"


# -- Figure 2 ------------------------------------------------------------------------------------------


def found_by_jobs(short: bool, methods: Sequence[str]) -> PartResult:
    """What the jobs have kept; where there is nothing, those that a host can do are run."""
    if not short:
        return gathered() or run_jobs(METHODS)
    with tempfile.TemporaryDirectory() as folder:
        return run_jobs(methods, scratch=Path(folder), names=[SHORT], largest=OURS[SHORT][0][0])


def best_of(errors: Any) -> PartResult:
    """Of errors (widths, halves of the test rows, λ): the least, and that of an honest choice.

    The paper chooses the width and λ on the test rows; the honest choice is made on one half of them and
    judged on the other, both ways.
    """
    table = np.array(errors)
    mean = table.mean(axis=1)
    width, value = np.unravel_index(mean.argmin(), mean.shape)
    other = []
    for half in (0, 1):
        i, j = np.unravel_index(table[:, half].argmin(), mean.shape)
        other.append(table[i, 1 - half, j])
    return {
        "best": float(mean.min()),
        "honest": float(np.mean(other)),
        "width": float(WIDTHS[width]),
        "lambda": float(LAMBDAS[value]) if mean.shape[1] > 1 else None,
    }


def measure_figure2(short: bool) -> PartResult:
    """By set, n and method: the best test error over the grid, and where it is.

    Numbers of jobs that are not in the scratch folder stay as they are stored.
    """
    methods = ["toeplitz", "selection", "exact_selection", "dense", "nystroem"]
    found: PartResult = {}
    stored = PAGES / "results" / "decherchi2010-figure2.json"
    if not short and stored.exists():
        found = json.loads(stored.read_text("utf-8"))["found"]
    for name, sizes in found_by_jobs(short, methods).items():
        for n, jobs in sizes.items():
            before = found.setdefault(name, {}).setdefault(n, {})
            found[name][n] = before | _errors_of(jobs, before)
    return found


def _errors_of(jobs: PartResult, before: PartResult) -> PartResult:
    found: PartResult = {}
    if "toeplitz" in jobs:
        methods = ("toeplitz", "equal diagonals", "parzen", "uncentred")
        found |= {key: best_of(jobs["toeplitz"][key]) for key in methods}
        own = found["toeplitz"]
        own["indefinite up to"] = jobs["toeplitz"]["indefinite up to"][list(WIDTHS).index(own["width"])]
        earlier = before.get("toeplitz", {})
        if "least eigenvalue" in earlier:
            own["by MINRES"] = earlier["best"]
        elif "by MINRES" in earlier:
            own["by MINRES"] = earlier["by MINRES"]
    if "selection" in jobs:
        found["folds"] = {key: jobs["selection"][key] for key in ("kernel", "matrix")}
        if "trust" in jobs["selection"]:
            found["trust"] = jobs["selection"]["trust"]
    if "exact_selection" in jobs:
        known = found.get("folds", before.get("folds", {}))
        found["folds"] = known | {"exact": jobs["exact_selection"]["exact"]}
    if "dense" in jobs:
        dense = jobs["dense"]
        found |= {key: best_of(dense[key]) for key in ("elimination", "cg") if key in dense}
        found["missed"] = float(np.mean(np.array(dense["residuals"]) > CG["tolerance"]))
        found["device"] = dense["device"]
    if "nystroem" in jobs:
        found |= {"nystroem": {"best": jobs["nystroem"]["nystroem"]}}
        found["constant"] = jobs["nystroem"]["constant"]
    return found


def is_indefinite(own: PartResult) -> bool:
    """Whether T + λI is at the best cell of the grid."""
    if "least eigenvalue" in own:
        return bool(own["least eigenvalue"] + own["lambda"] <= 0)
    return bool(own["lambda"] <= own["indefinite up to"])


def percent(here: PartResult, method: str) -> str | None:
    return f"{100 * here[method]['best']:.2f}" if method in here else None


def largest(sizes: PartResult, *methods: str) -> str | None:
    """The largest n for which all of these methods were run."""
    common = [n for n, here in sizes.items() if all(method in here for method in methods)]
    return max(common, key=int) if common else None


def show_figure2(found: PartResult, page: Page) -> None:
    page.text(
        "Test error of the best machine of the grid, in percent. As in the paper, γ and λ are chosen on "
        "the test rows themselves, except for the Nyström column. *Elimination* is a Cholesky "
        "factorisation, *CG* at most 100 conjugate gradients with Matlab's tolerance of 10⁻⁶. Four "
        "columns are not in the paper. *Closed form* is the solution for a T with one number off its "
        "diagonal, explained below. *Parzen window* is the sign of Σ (y_i − ȳ) k(x, x_i), *uncentred* "
        "the same without ȳ: nothing is solved. "
        "*Nyström* is `LSSVCCV` with 1000 rows drawn as landmarks, γ and λ chosen by three folds of the "
        "training rows. *Constant* always predicts the larger class. The panels end a little above the "
        "paper's methods, so that most of w8a's Parzen window is outside.",
        _computed_by(found),
    )
    page.figure(
        _draw(found),
        "decherchi2010-figure2",
        "Test error in percent against the number of training rows, one panel for each set",
    )
    page.table(
        [
            {"set": TITLES[name], "n": f"{int(n):,}"}
            | {
                label: percent(here, method)
                for method, label in (
                    ("toeplitz", "Toeplitz"),
                    ("elimination", "elimination"),
                    ("cg", "CG"),
                    ("nystroem", "Nyström"),
                    ("equal diagonals", "closed form"),
                    ("parzen", "Parzen window"),
                    ("uncentred", "uncentred"),
                )
            }
            | {"constant": f"{100 * here['constant']:.2f}" if "constant" in here else None}
            for name, sizes in found.items()
            for n, here in sizes.items()
        ]
    )
    page.text(_missing(found), _honest(found))
    _show_closed_form(found, page)
    _show_folds(found, page)
    _show_procedure(found, page)
    _judge(found, page)


def _cells(found: PartResult, *methods: str) -> list[tuple[str, str, PartResult]]:
    """(set, n, numbers) where all of these methods were run."""
    return [
        (name, n, here)
        for name, sizes in found.items()
        for n, here in sizes.items()
        if all(method in here for method in methods)
    ]


def _computed_by(found: PartResult) -> str:
    """Which Toeplitz machines the public estimators trained, and which an earlier program."""
    ours = _cells(found, "toeplitz", "equal diagonals")
    earlier = len(_cells(found, "toeplitz")) - len(ours)
    text = (
        'Toeplitz machines are `KernelRidge(approximation=Toeplitz(negative="solve"))`, fitted to '
        "labels ±1; the paper's machine has no intercept."
    )
    if earlier:
        text += (
            f" Those of {earlier} cases with more rows were computed earlier, by MINRES for the same "
            f"systems; closed forms and uncentred windows were computed for the other {len(ours)} alone."
        )
    gaps = [
        abs(here["toeplitz"]["by MINRES"] - here["toeplitz"]["best"])
        for *_, here in ours
        if "by MINRES" in here["toeplitz"]
    ]
    if gaps:
        text += f" In the {len(gaps)} cases that were computed both ways the best errors " + (
            "are equal." if max(gaps) == 0 else f"differ by at most {100 * max(gaps):.2f} points."
        )
    return text


def _show_closed_form(found: PartResult, page: Page) -> None:
    cells = _cells(found, "toeplitz", "equal diagonals")
    if not cells:
        return

    def gaps(method: str) -> list[float]:
        return [abs(here[method]["best"] - here["toeplitz"]["best"]) for *_, here in cells]

    closed, centred, uncentred = map(gaps, ("equal diagonals", "parzen", "uncentred"))
    widest = TITLES[cells[int(np.argmax(centred))][0]]
    page.text(
        "**Why it works.** The rows are shuffled, so that every diagonal of K is a sample of the same "
        "kernel values, and its mean is nearly the same number c. If it were exactly c (with k on the "
        "main diagonal), T would be (k − c) I + c 11ᵀ, and (T + λI) α = y would have the solution "
        "α_i = (y_i − s) / (k − c + λ) with s = c Σ_j y_j / (k − c + λ + c n): O(n), without a matrix "
        "([theory](../theory/structured.md#toeplitz-matrices)). "
        "This *closed form* is a Parzen window of the labels less a constant s. Its best error is "
        f"{100 * np.mean(closed):.2f} points from the Toeplitz machine's on average and at most "
        f"{100 * max(closed):.2f} in {len(cells)} cases. The window with s = ȳ leaves out "
        "(ȳ − s) Σ_i k(x, x_i), by which the shares of the classes enter the sign: it is up to "
        f"{100 * max(centred):.2f} points away ({widest}), the uncentred one, with s = 0, up to "
        f"{100 * max(uncentred):.2f}. So what training with the averaged diagonals of shuffled rows "
        "gives is a kernel density estimate of each class with a threshold; the rest of T is noise."
    )


def _show_folds(found: PartResult, page: Page) -> None:
    cells = _cells(found, "folds")
    if not cells:
        return
    page.text(
        "**The choice without test rows.** γ and λ chosen by three folds of the training rows, with "
        '`KernelRidgeCV(approximation=Toeplitz(negative="solve"), cv=3, refit="same")` and the error of '
        "the sign: every training part has a Toeplitz matrix of its own, and the held-out rows are "
        "predicted with the true kernel, as in the paper. *From T* predicts them from the Toeplitz "
        'matrix of all rows instead (`validate="matrix"`), which says nothing about the model that '
        "will be used. Test errors in percent, and γ times the number of variables."
    )
    rows = []
    for name, n, here in cells:
        own, matrix, exact = (here["folds"].get(key) for key in ("kernel", "matrix", "exact"))
        row: PartResult = {"set": TITLES[name], "n": f"{int(n):,}"}
        for label, one in (("Toeplitz", own), ("from T", matrix), ("exact", exact)):
            row[label] = f"{100 * one['test error']:.2f}" if one else None
            row[f"width, {label}"] = f"{one['width']:g}" if one else None
        row["held out, Toeplitz"] = f"{100 * own['held-out error']:.2f}" if own else None
        row["best on test rows"] = percent(here, "toeplitz")
        rows.append(row)
    page.table(rows)
    both = [here["folds"] for *_, here in cells if {"kernel", "matrix"} <= here["folds"].keys()]
    better = sum(one["kernel"]["test error"] <= one["matrix"]["test error"] for one in both)
    page.text(
        f"The paper's way to predict held-out rows chooses a model that is at least as good as the one "
        f"chosen from T in {better} of {len(both)} cases."
    )


def _missing(found: PartResult) -> str:
    """Which sizes a method was not run for, and where the dense ones were run."""
    parts = []
    for method, (label, _) in SERIES.items():
        sizes = [
            (n, name)
            for name, own in found.items()
            for n in OURS[name][0]
            if method not in ("parzen", "equal diagonals") and method not in own.get(str(n), {})
        ]
        if sizes:
            names = ", ".join(f"{TITLES[name]} with {n:,} rows" for n, name in sorted(sizes))
            parts.append(f"Not run: {label.split(',')[0]} for {names}.")
    dense = [int(n) for own in found.values() for n, here in own.items() if here.get("device") == "cuda"]
    if dense:
        parts.append(
            "Elimination and CG ran in double precision on one NVIDIA H200; with "
            f"{max(dense):,} rows K takes {8e-9 * max(dense) ** 2:.0f} GB."
        )
    return " ".join(parts) or "Every method was run for every size."


def _honest(found: PartResult) -> str:
    gaps = [
        here[method]["honest"] - here[method]["best"]
        for sizes in found.values()
        for here in sizes.values()
        for method in ("toeplitz", "elimination", "cg")
        if method in here
    ]
    ends = {
        method: [
            TITLES[name]
            for name, sizes in found.items()
            for here in sizes.values()
            if method in here and here[method]["width"] in (WIDTHS[0], WIDTHS[-1])
        ]
        for method in ("toeplitz", "elimination")
    }
    return (
        "Choosing on the test rows is optimistic: if one half of them is used to choose and the other "
        f"to score, errors are {100 * np.mean(gaps):.2f} points higher on average and at most "
        f"{100 * max(gaps):.2f}. The grid itself was moved to narrower kernels after a first run, in "
        "which the Toeplitz machine was often best at the narrow end of the grid. The best width is "
        "still at the edge of the grid "
        + " and ".join(
            f"{'once' if len(names) == 1 else f'{len(names)} times'} for {SERIES[method][0]}"
            + (f" ({', '.join(dict.fromkeys(names))})" if names else "")
            for method, names in ends.items()
        )
        + ". What counts below as almost matching, at most a quarter more errors, and as half of the "
        "experiments, 40 to 60 %, was set after seeing the results, because the paper gives no numbers. "
        "A threshold in percentage points would give another answer for some sets: the table after the "
        "next paragraph shows both."
    )


def _show_procedure(found: PartResult, page: Page) -> None:
    """§4.3: is the width chosen with T that of K on few rows, and does T then do on many?"""
    page.text(
        "**The check of §4.3.** The paper recommends selecting on a few thousand rows with K and with "
        "T, and training with T on all rows if both choose the same σ. *Widths* is γ chosen with T over "
        "γ chosen with K, by three folds of the fewest rows. *Trust* is the verdict of `onefold.trust` "
        "on those rows, for a final model that is trained exactly: what the choice costs. *Excess* is "
        "the error of the Toeplitz machine above that of elimination, or of CG where only that was run, "
        "in points, for the most rows for which both are known."
    )
    page.table(
        [
            {
                "set": TITLES[name],
                "rows": f"{int(one['first']):,}",
                "widths": f"{one['ratio']:g}",
                "trust": one["trust"] or None,
                "rows ": f"{int(one['last']):,}",
                "excess": f"{100 * one['excess']:.2f}",
                "times the error": f"{one['times']:.2f}",
            }
            for name, one in procedure(found).items()
        ]
    )


def procedure(found: PartResult) -> PartResult:
    """By set: the ratio of the widths on the fewest rows, and the excess error on the most."""
    rows: PartResult = {}
    for name, sizes in found.items():
        first = min(sizes, key=int)
        exact = "elimination"
        last = largest(sizes, "toeplitz", "elimination")
        if largest(sizes, "toeplitz", "cg") != last:
            last = largest(sizes, "toeplitz", "cg")
            exact = "cg"
        start = sizes[first]
        end = sizes.get(last, {})
        chosen = start.get("folds", {})
        if last is None or not {"kernel", "exact"} <= chosen.keys():
            continue
        rows[name] = {
            "first": first,
            "last": last,
            "ratio": chosen["kernel"]["width"] / chosen["exact"]["width"],
            "trust": (start.get("trust") or {}).get("verdict", ""),
            "excess": end["toeplitz"]["best"] - end[exact]["best"],
            "times": end["toeplitz"]["best"] / max(end[exact]["best"], 1e-9),
        }
    return rows


def claims(found: PartResult) -> list[tuple[str, str, bool]]:
    """What the paper says of Figure 2, what was found here, and whether that agrees."""
    checked = procedure(found)
    cells = [here for sizes in found.values() for here in sizes.values()]
    made = []
    for name in ("covtype", "daimler_mini"):
        if name in checked:
            one = checked[name]
            said = f"{one['times']:.2f} times its error with {int(one['last']):,} rows"
            made.append(
                (
                    f"almost matches the classical solution on {TITLES[name]}",
                    said,
                    one["times"] <= ALMOST,
                )
            )
    others = {name: one for name, one in checked.items() if name not in ("covtype", "daimler_mini")}
    if others:
        said = ", ".join(f"{TITLES[name]} {one['times']:.1f} times" for name, one in others.items())
        holds = all(one["times"] <= REASONABLE for one in others.values())
        made.append(
            (
                "elsewhere the error stays in a reasonable range (here: at most twice the exact one)",
                said,
                holds,
            )
        )
    cover = found.get("covtype", {})
    if "toeplitz" in cover.get("100000", {}) and "elimination" in cover.get("20000", {}):
        own = cover["100000"]["toeplitz"]["best"]
        less = cover["20000"]["elimination"]["best"]
        said = f"{100 * own:.1f} % against {100 * less:.1f} %"
        if "cg" in cover["100000"]:
            said += f"; but CG with the same 100,000 rows {100 * cover['100000']['cg']['best']:.1f} %"
        made.append(
            ("with 100,000 rows of Covertype it beats elimination with 20,000", said, own < less)
        )
    if checked:
        same = [one["ratio"] == 1 for one in checked.values()]
        well = [one["times"] <= ALMOST for one in checked.values()]
        made.append(
            (
                "T does well on many rows where T and K choose the same σ on few, and only there (here: "
                "at most a quarter more errors)",
                f"the same σ on {sum(same)} of {len(same)} sets, T does well on {sum(well)}",
                same == well,
            )
        )
    missed = [here["missed"] for here in cells if "missed" in here]
    if missed:
        made.append(
            (
                "in half of the experiments (here: 40 to 60 %) CG misses its tolerance in 100 "
                "iterations",
                f"in {100 * np.mean(missed):.0f} % of all widths, λ, sets and sizes; at most "
                f"{100 * max(missed):.0f} % for a set "
                "and size",
                bool(0.4 < np.mean(missed) < 0.6),
            )
        )
    return made


def _judge(found: PartResult, page: Page) -> None:
    made = claims(found)
    page.table([{"claim": a, "here": b, "holds": "yes" if c else "no"} for a, b, c in made])
    cells = [here for sizes in found.values() for here in sizes.values() if "toeplitz" in here]
    indefinite = sum(is_indefinite(here["toeplitz"]) for here in cells)
    last = [sizes[n] for sizes in found.values() if (n := largest(sizes, "toeplitz", "nystroem"))]
    better = sum(here["nystroem"]["best"] < here["toeplitz"]["best"] for here in last)
    ratios = [
        here["toeplitz"]["width"] / here["elimination"]["width"]
        for here in cells
        if "elimination" in here
    ]
    if ratios:
        page.text(
            "**When it works.** T needs narrow kernels, as a Parzen window does: its best γ on the test "
            f"rows is {np.median(ratios):.0f} times that of elimination in the median. At the best cell "
            f"of the grid T + λI is indefinite in {indefinite} of {len(cells)} cases. The Nyström "
            "machine, chosen without the test rows, is better than the Toeplitz one on "
            f"{better} of {len(last)} sets, with the most rows that both were run for."
        )
    for kind, wanted in (("Claims hold", True), ("Claims do not hold", False)):
        named = [claim for claim, _, holds in made if holds == wanted]
        if named:
            page.verdict(kind, f"{len(named)} of {len(made)}: {'; '.join(named)}.")
    page.verdict("Cannot be tested", "the curves themselves: our copy of the paper lacks its pictures.")


def _draw(found: PartResult) -> Any:
    """The paper's form: black for Toeplitz, dashed for elimination, grey for CG."""
    from matplotlib.figure import Figure

    columns = min(3, len(found))
    lines = -(-len(found) // columns)
    figure = Figure(figsize=(3.6 * columns, 2.9 * lines + 0.8), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, (name, sizes) in zip(panels, found.items()):
        top = 0.0
        for method, (label, style) in SERIES.items():
            points = [
                (int(n), 100 * here[method]["best"]) for n, here in sizes.items() if method in here
            ]
            if points:
                axes.plot(*zip(*points), label=label, **{"markersize": 4} | style)
                top = max(top, *(error for _, error in points)) if method != "parzen" else top
        ticks = [int(n) for n in sizes]
        axes.set(title=TITLES[name], xscale="log", ylabel="test error, %", ylim=(0, 1.1 * top))
        axes.set_xticks(ticks, [f"{n / 1000:g}" for n in ticks], minor=False)
        axes.minorticks_off()
        axes.set_xlabel("training rows, thousands")
        axes.grid(alpha=0.3)
    for axes in panels[len(found) :]:
        axes.remove()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9)
    return figure
