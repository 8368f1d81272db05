"""docs/papers/index.md: all verdicts, which method to use when, and which claims hold.

Verdicts are read from the pages, figures from the stored results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Row, markdown
from papers import cawley2002, decherchi2010_errors, ding2011, ida
from papers import ding2011_consistency as consistency
from papers.decherchi2010_errors import ALMOST, TITLES, largest
from papers.decherchi2010_times import TB, exponent
from papers.edwards2013_times import EXACT, LSSVM, growth
from papers.page import VERDICTS, PartResult, rows_of

_SECTION = re.compile(r"^## (?P<name>[^\n]+?): (?P<about>[^\n]+)\n(?P<text>.*?)(?=^## |\Z)", re.M | re.S)
_VERDICT = re.compile(rf"^\*\*(?P<kind>{'|'.join(VERDICTS)}):\*\* ", re.M)
_MEANING = {
    VERDICTS[0]: (
        "numbers that the paper prints",
        "They agree: to the last printed digit where rows, partitions and settings are those of the "
        f"paper; mean errors on partitions drawn anew within {ida.TOLERANCE:g} percentage points, as a "
        "mean over the sets; costs by how they grow. Seconds are never compared, because the machines "
        "differ; what the paper says about them is a claim. A page that uses another tolerance states "
        "it.",
    ),
    VERDICTS[1]: ("the same", "They do not."),
    VERDICTS[2]: (
        "what the paper says about its numbers, its curves or its formulas",
        "Each claim is judged by itself, by the measure in the paper (a test, a rate, an inequality) "
        "or, where it has none, by the one that the page states. Those listed hold here.",
    ),
    VERDICTS[3]: ("the same", "Those listed do not hold here."),
    VERDICTS[4]: (
        "numbers or claims for which data, settings or the printed values are not at hand",
        "Nothing is said about them.",
    ),
}
_TOCTREE = """```{toctree}
:glob:
:maxdepth: 1

*
```"""


def verdicts(page: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(table, figure or theorem, what it is about, its different verdicts) of a page, in its order."""
    for section in _SECTION.finditer(page.read_text("utf-8")):
        kinds = dict.fromkeys(_VERDICT.findall(section["text"]))
        yield section["name"], section["about"], tuple(kinds) or ("Not run yet",)


def write(keys: Sequence[str], folder: Path) -> Path:
    """Write index.md from the pages and results that are there."""
    pages = [folder / f"{key}.md" for key in keys if (folder / f"{key}.md").exists()]
    judged = [
        (f"[{page.stem}]({page.name})", name, about, kinds)
        for page in pages
        for name, about, kinds in verdicts(page)
    ]
    table = [
        {"paper": link, "what": name, "about": about, "verdict": "; ".join(kinds)}
        for link, name, about, kinds in judged
    ]
    count = {kind: sum(kind in kinds for *_, kinds in judged) for kind in VERDICTS}
    meaning = [
        {"verdict": kind, "judges": what, "when": when} for kind, (what, when) in _MEANING.items()
    ]
    stored = {
        path.stem: json.loads(path.read_text("utf-8"))["found"] for path in folder.glob("results/*.json")
    }
    lines = [
        "# Papers",
        "onefold's methods come from five papers. We have recomputed every table and figure of their "
        f"experiments, and what can be computed of their theorems, in {len(judged)} parts. A part can "
        f"have several verdicts: printed numbers are reproduced in {count['Reproduced']} parts and not "
        f"in {count['Not reproduced']}; claims hold in {count['Claims hold']} and do not hold in "
        f"{count['Claims do not hold']}; something cannot be tested in {count['Cannot be tested']}. "
        "The pages show our figures next to the published ones, the splits and "
        "seeds, and the reason for each verdict. `make papers` computes everything, which takes hours; "
        "`python -m papers KEY PART` computes one part. Errors that we found in the papers are in the "
        "[errata](errata.md).",
        markdown(table),
        "## What the verdicts mean",
        markdown(meaning),
        "## When to use which method",
        "\n".join(f"- {text}" for text in _advice(stored)),
        "The guides explain the choice with examples: "
        "[which estimator](../guides/which-estimator.md), "
        "[which approximation](../guides/which-approximation.md), "
        "[whether to trust it](../guides/trust.md).",
        "## Which claims of the papers hold today",
        markdown(list(_claims(stored))),
        _TOCTREE,
    ]
    target = folder / "index.md"
    target.write_text("\n\n".join(lines) + "\n", "utf-8")
    return target


def _advice(stored: PartResult) -> Iterator[str]:
    if "ding2011-table2" in stored:
        n, exact, approximate, literal = _times(stored["ding2011-table2"], "approximate")
        yield (
            "**A few thousand rows: no approximation.** Exact cross-validation needs one "
            "factorisation per "
            f"kernel width. With {n} rows and 143 candidates it takes {exact:.1f} s ({literal:.1f} s if "
            f"every fold is refitted); a circulant matrix takes {approximate:.2f} s and chooses worse."
        )
    if "ding2012-table2" in stored:
        own, marks = (_worse(stored["ding2012-table2"], key) for key in ("Algorithm 1", "landmarks"))
        yield (
            "**More rows: Nyström with k-means landmarks** (`Nystroem`). With a tenth of the rows as "
            f"landmarks it is significantly worse than exact selection on {marks[0]} of {marks[1]} "
            "sets of "
            f"ding2012, and Algorithm 1 of the paper on {own[0]}. Use more landmarks if that matters."
        )
    if "cawley2002-figure2" in stored:
        few, rows = (
            [reader(stored[f"cawley2002-figure{i}"]) for i in (1, 2)]
            for reader in (cawley2002.fewest_flat, lambda found: found["training rows"])
        )
        yield (
            "**Fast predictions or a small file: pruning as in cawley2002** (`SparseLSSVR`). By its "
            f"default rule, the price, the error stays within 5 % of the full model's with {few[0]} of "
            f"{rows[0]} patterns (motorcycle) and {few[1]} of {rows[1]} (Boston housing)."
        )
    yield (
        "**An evenly spaced series: Toeplitz**, which is exact in this case "
        "([manual](../manual/toeplitz.md)). With a Matérn kernel its "
        "[state space](../manual/state-space.md) is exact for any times."
    )
    if "decherchi2010-figure2" in stored:
        found = stored["decherchi2010-figure2"]
        times = [one["times"] for one in decherchi2010_errors.procedure(found).values()]
        better, of = _nystroem_wins(found)
        yield (
            "**Toeplitz for other data: hardly ever.** At the largest sizes, its error is "
            f"{min(times):.1f} to {max(times):.1f} times that of the exact solution. On shuffled rows "
            "its solution is known in closed form, a Parzen window less a constant, which is within "
            f"{_closed_form_gap(found):.2f} percentage points of it. Nyström needs enough landmarks, "
            f"however: with 1000 of them it is better than Toeplitz on only {better} of {of} sets at "
            "the largest size."
        )
    if "ding2011-table2" in stored:
        worse, of = _worse(stored["ding2011-table2"], "approximate")
        circulant = "approximate, circulant final model"
        sets = [one["random"] for one in stored["ding2011-table2"].values()]
        fewer = sum(one[circulant]["mean"] < one["approximate"]["mean"] for one in sets)
        thyroid = stored["ding2011-table2"]["thyroid"]["random"]
        yield (
            "**Circulant matrices: rarely.** They choose significantly worse hyper-parameters on "
            f"{worse} of {of} sets of ding2011. Neither final model is always the better one: on "
            f"thyroid the circulant model has {thyroid[circulant]['mean']:.1f} % errors and the exact "
            f"one with the same hyper-parameters {thyroid['approximate']['mean']:.1f} %, but on {fewer} "
            f"of {of} sets the circulant model has fewer ([which final "
            "model](../manual/circulant.md#which-final-model))."
        )


def _claims(stored: PartResult) -> Iterator[Row]:
    if "ding2011-table2" in stored:
        n, exact, approximate, literal = _times(stored["ding2011-table2"], "approximate")
        worse, of = _worse(stored["ding2011-table2"], "approximate")
        yield _claim(
            "ding2011",
            "approximate selection is faster, and more so with more rows",
            "yes" if min(literal, exact) > approximate else "no",
            f"{literal / approximate:.0f} times faster than literal refits and "
            f"{exact / approximate:.0f} times "
            f"faster than onefold's exact selection, with {n} rows",
        )
        yield _claim(
            "ding2011",
            "it is not less accurate",
            "no" if worse else "yes",
            f"significantly worse on {worse} of {of} sets, and on {_published_worse()} by the "
            "paper's own figures",
        )
    if "ding2011-theorems" in stored:
        yield from _consistency_claims(stored["ding2011-theorems"])
    if "ding2012-table2" in stored:
        n, exact, approximate, literal = _times(stored["ding2012-table2"], "Algorithm 1")
        worse, of = _worse(stored["ding2012-table2"], "Algorithm 1")
        yield _claim(
            "ding2012",
            "Nyström selection is faster",
            "yes" if min(literal, exact) > approximate else "no",
            f"{literal / approximate:.0f} times faster than literal refits and "
            f"{exact / approximate:.0f} times "
            f"faster than exact selection, with {n} rows",
        )
        yield _claim(
            "ding2012",
            "it is worse on Splice only",
            "no" if worse > 1 else "yes",
            f"significantly worse on {worse} of {of} sets",
        )
    if "ding2012-theorem3" in stored:
        sets = stored["ding2012-theorem3"].values()
        cells = [cell for data_set in sets for cell in rows_of(data_set["cells"])]
        ratios = [cell["bound"] / cell["change"] for cell in cells if cell["change"] > 0]
        yield _claim(
            "ding2012",
            "the change of the model is bounded (Theorem 3)",
            "yes, but of little use" if min(ratios) >= 1 else "no",
            f"the median ratio of the bound to the change is {np.median(ratios):,.0f}",
        )
    if "edwards2013-table1" in stored:
        times = stored["edwards2013-table1"]
        exact, circulant = (max(times[key], key=int) for key in (EXACT, LSSVM))
        yield _claim(
            "edwards2013",
            "leave-one-out in O(n log n)",
            "yes" if growth(times[LSSVM])[0] < 1.4 else "no",
            f"{times[LSSVM][circulant]:.2g} s with 2^{circulant} rows; exact leave-one-out takes "
            f"{times[EXACT][exact]:.0f} s with 2^{exact}",
        )
    if "edwards2013-table3" in stored:
        beaten, of = _beaten(stored["edwards2013-table3"]["targets"])
        yield _claim(
            "edwards2013",
            "it chooses good models for energy data",
            "no" if beaten > of / 2 else "yes",
            f"a linear regression or the last value has a lower error on {beaten} of {of} targets",
        )
    if "cawley2002-figure1" in stored and "cawley2002-figure2" in stored:
        figures = [stored[f"cawley2002-figure{i}"] for i in (1, 2)]
        ratios = [one["seconds"]["conventional"] / one["seconds"]["improved"] for one in figures]
        lower = [cawley2002.lower(one) for one in figures]
        yield _claim(
            "cawley2002",
            "keeping every residual gives lower errors than Suykens' pruning, in less time",
            "yes" if all(won == of for won, of in lower) and min(ratios) > 1 else "partly",
            f"lower at {sum(won for won, _ in lower)} of {sum(of for _, of in lower)} sizes, "
            f"{ratios[0]:.0f} and {ratios[1]:.0f} times faster",
        )
    if "decherchi2010-table1" in stored:
        own = stored["decherchi2010-table1"][TB]
        time = exponent(own["seconds"])
        storage = exponent(own["bytes"], 2)
        most = max(own["bytes"], key=int)
        yield _claim(
            "decherchi2010",
            "O(n²) time and O(n) memory",
            "yes" if time < 2.35 and storage < 1.35 else "no",
            f"a solution's time grows as n^{time:.1f}; {own['bytes'][most] / 1e6:.0f} MB with "
            f"{int(most):,} rows",
        )
    if "decherchi2010-figure2" in stored:
        yield from _toeplitz_claims(stored["decherchi2010-figure2"])


def _consistency_claims(results: PartResult) -> Iterator[Row]:
    largest_grid = max(consistency.on_grid(results, 2), key=lambda row: row["n_min"])
    cells = f"{largest_grid['n_min']} × {largest_grid['n_min']} cells"
    yield _claim(
        "ding2011",
        "the cost with U has the limit of the cost with K (Theorems 6 and 7)",
        "yes, on regular grids that grow",
        f"V differs by {100 * largest_grid['V difference'] / largest_grid['V']:.1f} % and M by "
        f"{largest_grid['M difference'] / largest_grid['M']:.0e} of itself on {cells}",
    )
    yield _claim(
        "ding2011",
        "the change of the decision function is bounded (equation 26)",
        "no",
        "the bound grows exponentially with the number of rows",
    )
    yield _claim(
        "edwards2013",
        "A-LOO is consistent (conjectured)",
        "yes, on regular grids that grow",
        f"PRESS differs by {largest_grid['PRESS difference']:.3f} for targets ±1 on {cells}; the "
        "difference falls like one over the cells of a level",
    )


def _toeplitz_claims(found: PartResult) -> Iterator[Row]:
    checked = decherchi2010_errors.procedure(found)
    close = [TITLES[name] for name, one in checked.items() if one["times"] <= ALMOST]
    yield _claim(
        "decherchi2010",
        "the error almost matches the exact solution's on some sets",
        "yes" if close else "no",
        f"at most a quarter more errors on {len(close)} of {len(checked)} sets with the most rows"
        + (f" ({', '.join(close)})" if close else ""),
    )
    most = {name: int(largest(sizes, "toeplitz", "elimination") or 0) for name, sizes in found.items()}
    name = max(most, key=lambda name: most[name])
    if most[name] > 20_000:
        cell = found[name][str(most[name])]
        exact, own = (100 * cell[key]["best"] for key in ("elimination", "toeplitz"))
        yield _claim(
            "decherchi2010",
            "exact methods end at 20,000 rows",
            "no longer",
            f"elimination on one GPU takes {most[name]:,} rows of {TITLES[name]}: {exact:.1f} % "
            "errors, Toeplitz "
            f"{own:.1f} %",
        )


def _claim(key: str, claim: str, holds: str, here: str) -> Row:
    return {"paper": f"[{key}]({key}.md)", "claim": claim, "holds": holds, "here": here}


# -- figures out of the stored results -----------------------------------------------------------------


def _times(found: PartResult, method: str) -> tuple[int, float, float, float]:
    """Rows of the largest set, and seconds there: exact, approximate, literal."""
    one = max(found.values(), key=lambda one: one["n"])
    seconds = [one["random"][key]["seconds"] for key in ("exact", method)]
    return one["n"], *seconds, one["literal seconds"]


def _worse(found: PartResult, method: str) -> tuple[int, int]:
    """On how many sets a selection is significantly worse than the exact one, and of how many."""
    pairs = [(one["random"][method], one["random"]["exact"]) for one in found.values()]
    return sum(ida.z_statistic(*pair) > ida.SIGNIFICANT for pair in pairs), len(pairs)


def _published_worse() -> int:
    return _worse(
        {name: {"random": ding2011.published(name)} for name in ding2011.PUBLISHED}, "approximate"
    )[0]


def _beaten(found: PartResult) -> tuple[int, int]:
    """On how many energy targets a baseline has a lower CoV than A-LOO, and of how many."""
    cov: dict[str, dict[str, Any]] = {
        title: {method: float(np.mean(values, axis=0)[0]) for method, values in blocks.items()}
        for title, blocks in found.items()
    }
    baselines = {
        t: min(one["linear regression"], one.get("last value", np.inf)) for t, one in cov.items()
    }
    return sum(one["A-LOO"] > baselines[title] for title, one in cov.items()), len(cov)


def _nystroem_wins(found: PartResult) -> tuple[int, int]:
    last = [sizes[n] for sizes in found.values() if (n := largest(sizes, "toeplitz", "nystroem"))]
    return sum(one["nystroem"]["best"] < one["toeplitz"]["best"] for one in last), len(last)


def _closed_form_gap(found: PartResult) -> float:
    """The largest difference of best errors, in percentage points, from the Toeplitz machine."""
    cells = [one for sizes in found.values() for one in sizes.values() if "equal diagonals" in one]
    return 100 * max(abs(one["toeplitz"]["best"] - one["equal diagonals"]["best"]) for one in cells)
