"""Table I and Figures 1 and 2 of edwards2013: the time of leave-one-out, against the number of rows.

One kernel and one ridge value on one thread, random rows. The rows have 20 features: with two, the
kernel matrix has a small numerical rank, which the exact leave-one-out would notice and use.

Times are CPU seconds of the process, which is what a quiet core would take: the least of many calls, in
one context that limits the threads. To enter that context takes milliseconds, and is not timed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from onefold import LSSVRCV, KernelRidgeCV
from onefold.approximations import Approximation, Circulant, Exact, Nystroem, Problem, Workload
from onefold.kernels import RBF, Kernel
from onefold.machine.threads import use_threads
from papers.page import PAGES, Page, PartResult, environment

FEATURES = 20
ALPHA = 0.5
KERNEL = RBF(0.02)
CELLS = RBF(1.0)  # of the rows; of the cells of the circulant matrix
CIRCULANT = Circulant(spacing=(1.3, 1.7), order="given", validate="matrix")
LOW_RANK = 100  # the constant rank of Figure 2
CALLS = 100  # of which the fastest counts
LONG = 13  # powers of two from which E-LOO takes seconds: one call, which is not made twice

EXACT = "E-LOO"
LSSVM = "A-LOO LS-SVM"
RIDGE = "A-LOO KRR"
DIFFERENCE = "difference from the estimators"
# Seconds of Table I: one core of a 2.2 GHz Intel i7, MATLAB 2011b.
PUBLISHED = {
    EXACT: {13: 4.43, 14: 35.25, 15: 281.11},
    LSSVM: dict(zip(range(13, 21), (1.3, 2.6, 5.32, 10.88, 22.45, 47.41, 101.36, 235.83))),
    RIDGE: dict(zip(range(13, 21), (0.54, 1.06, 2.14, 4.3, 8.55, 17.28, 35.39, 68.22))),
}

Timed = Callable[[], object]


def problem_of(n: int, intercept: bool = True) -> Problem:
    """Random rows and targets."""
    rng = np.random.default_rng(0)
    return Problem(rng.standard_normal((n, FEATURES)), rng.standard_normal((n, 1)), None, intercept)


def leave_one_out(problem: Problem, structure: Approximation, kernel: Kernel = KERNEL) -> Any:
    """Predictions (1, n, 1) of every row from all others."""
    model = structure.model(kernel, problem, Workload(folds=1), None)
    return model.leave_one_out(np.array([ALPHA]))


def circulant_functions(n: int) -> dict[str, Timed]:
    """A-LOO with and without an intercept."""
    return {
        LSSVM: partial(leave_one_out, problem_of(n), CIRCULANT, CELLS),
        RIDGE: partial(leave_one_out, problem_of(n, intercept=False), CIRCULANT, CELLS),
    }


def difference_from_estimators(n: int) -> float:
    """The largest difference of what is timed from the held-out predictions of LSSVRCV and of KRR."""
    largest = 0.0
    for estimator, intercept in ((LSSVRCV, True), (KernelRidgeCV, False)):
        problem = problem_of(n, intercept)
        settings = {"alphas": [ALPHA], "approximation": CIRCULANT, "cv": "loo", "refit": "same"}
        model = estimator(CELLS, gammas=[1.0], **settings).fit(problem.X, problem.Y[:, 0])
        timed = leave_one_out(problem, CIRCULANT, CELLS)[0, :, 0]
        largest = max(largest, float(np.abs(timed - model.heldout_prediction_).max()))
    return largest


# -- timing --------------------------------------------------------------------------------------------


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, of Python and of BLAS."""
    with use_threads(1), threadpool_limits(1):
        yield


def cpu_seconds(function: Timed) -> float:
    """CPU time of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def least_seconds(functions: dict[str, Timed], calls: int) -> dict[str, float]:
    """The least CPU time of each function, which take turns, so that noise hits all of them alike."""
    least = dict.fromkeys(functions, float("inf"))
    for _ in range(calls):
        for name, function in functions.items():
            least[name] = min(least[name], cpu_seconds(function))
    return least


def measure_table1(short: bool) -> PartResult:
    """Seconds by method and power of two."""
    found: PartResult = {LSSVM: {}, RIDGE: {}, EXACT: {}}
    with one_thread():
        for power in (8, 10, 12) if short else range(8, 21):
            least = least_seconds(circulant_functions(2**power), 5 if short else CALLS)
            for name, value in least.items():
                found[name][str(power)] = value
        known = {} if short else known_exact()
        for power in (8, 9) if short else range(8, 16):
            found[EXACT][str(power)] = known.get(power) or exact_seconds(power)
    found[DIFFERENCE] = difference_from_estimators(2**8)
    return found


def exact_seconds(power: int) -> float:
    """CPU seconds of the exact leave-one-out for 2^power rows."""
    function = partial(leave_one_out, problem_of(2**power), Exact())
    return least_seconds({EXACT: function}, 10 if power < LONG else 1)[EXACT]


def known_exact() -> dict[int, float]:
    """E-LOO of the sizes that take minutes, from the stored results of this machine and versions.

    Take them out of the file to measure them again.
    """
    stored = PAGES / "results" / "edwards2013-table1.json"
    results = json.loads(stored.read_text("utf-8")) if stored.exists() else {}
    if results.get("environment") != environment():
        return {}
    times = {int(power): value for power, value in results["found"].get(EXACT, {}).items()}
    return {power: value for power, value in times.items() if power >= LONG}


def measure_figure2(short: bool) -> PartResult:
    """Seconds by method for 500 to 5000 rows; low-rank leave-one-out in O(n r²) for two ranks."""
    found: PartResult = {}
    with one_thread():
        for n in (500, 1000) if short else range(500, 5001, 500):
            least = least_seconds(circulant_functions(n), 5 if short else CALLS)
            low_rank: dict[str, Timed] = {}
            for label, rank in (("low rank, r = n/2", n // 2), (f"low rank, r = {LOW_RANK}", LOW_RANK)):
                structure = Nystroem(n_components=rank, method="uniform")
                low_rank[label] = partial(leave_one_out, problem_of(n), structure)
            least |= least_seconds(low_rank, 2 if short else 5)
            for name, value in least.items():
                found.setdefault(name, {})[str(n)] = value
    return found


# -- on the page ---------------------------------------------------------------------------------------


def slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Of time against size on logarithmic axes."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def growth(times: dict[Any, float], first: int = 13) -> tuple[float, float]:
    """Slopes over sizes of 2^first and more, of the times and of n log n; all sizes if one is larger."""
    by_power = {int(power): value for power, value in times.items()}
    large = [power for power in sorted(by_power) if power >= first]
    powers = large if len(large) > 1 else sorted(by_power)
    sizes = 2.0 ** np.array(powers)
    return slope(sizes, [by_power[power] for power in powers]), slope(sizes, sizes * np.log(sizes))


def milliseconds(value: float) -> str:
    """A time in words: ``0.23 ms``."""
    return f"{1000 * value:.2g} ms"


def show_table1(found: PartResult, page: Page) -> None:
    powers = sorted({int(power) for name in PUBLISHED for power in found[name]})
    rows = []
    for power in powers:
        row: dict[str, Any] = {"n": f"2^{power}"}
        for name in (EXACT, LSSVM, RIDGE):
            row[f"{name}, s"] = found[name].get(str(power))
            row[f"{name}, s (paper)"] = PUBLISHED[name].get(power)
        rows.append(row)
    page.text(
        "CPU seconds of leave-one-out for one kernel and one ridge value, one thread, random rows "
        "(seed 0): the least of many calls, so that other work on the machine does not count; E-LOO "
        f"from 2^{LONG} on is a single call on a quiet machine. E-LOO is the exact leave-one-out of an "
        "LS-SVM, O(n³): a Cholesky factorisation of the kernel matrix and the diagonal of its inverse. "
        "A-LOO replaces "
        "the matrix by a two-level circulant one, O(n log n). The paper prints 2^13 and more; it used "
        "one core of a 2.2 GHz Intel i7 and MATLAB 2011b. What is timed are the held-out predictions of "
        '`LSSVRCV(approximation=Circulant(validate="matrix", ...), cv="loo")` and of `KernelRidgeCV` '
        f"(largest difference: {found[DIFFERENCE]:.1g})."
    )
    page.table(rows)
    ours, theirs = ({name: growth(one[name])[0] for name in PUBLISHED} for one in (found, PUBLISHED))
    page.table(
        [
            {
                "slope in log-log, from 2^13 on": name,
                "here": f"{ours[name]:.2f}",
                "paper": f"{theirs[name]:.2f}",
            }
            for name in PUBLISHED
        ]
    )
    last = str(max(map(int, found[LSSVM])))
    first = "13" if "13" in found[LSSVM] else str(powers[0])
    ratio = found[LSSVM][last] / found[RIDGE][last]
    published_ratio = PUBLISHED[LSSVM][20] / PUBLISHED[RIDGE][20]
    page.text(
        f"A-LOO of an LS-SVM takes {milliseconds(found[LSSVM][first])} at 2^{first} and "
        f"{ratio:.2f} times as long as that of kernel ridge regression at 2^{last}, against "
        f"{published_ratio:.1f} times in the paper: here the intercept costs one number of the "
        "spectrum, not several more transforms."
    )
    expected = growth(found[LSSVM])[1]
    linear = all(abs(ours[name] - expected) < 0.25 for name in (LSSVM, RIDGE))
    published = PUBLISHED[LSSVM].get(int(last))
    in_paper = "" if published is None else f", {published:.3g} s in the paper"
    page.verdict(
        "Claims hold" if linear and ours[EXACT] > 2 else "Claims do not hold",
        f"from 2^{first} to 2^{last} rows leave-one-out with a circulant matrix grows as "
        f"n^{ours[LSSVM]:.2f} with and n^{ours[RIDGE]:.2f} without an intercept (n log n: "
        f"n^{expected:.2f}), the exact one as n^{ours[EXACT]:.2f}. A-LOO of an LS-SVM takes "
        f"{found[LSSVM][last]:.2g} s at 2^{last}{in_paper}; seconds cannot be reproduced, as the "
        "machine and the program are others.",
    )
    _show_figure1(found, page)


def _show_figure1(found: PartResult, page: Page) -> None:
    page.figure(
        draw(
            {name: {2 ** int(p): t for p, t in found[name].items()} for name in (EXACT, LSSVM, RIDGE)},
            {name: {2**p: t for p, t in PUBLISHED[name].items()} for name in PUBLISHED},
        ),
        "edwards2013-figure1",
        "Seconds against rows on logarithmic axes: exact and circulant leave-one-out, here and "
        "published",
    )
    exact, with_intercept, without = (growth(found[name])[0] for name in (EXACT, LSSVM, RIDGE))
    shared = [power for power in PUBLISHED[LSSVM] if str(power) in found[LSSVM]]
    apart = [PUBLISHED[LSSVM][power] / PUBLISHED[RIDGE][power] for power in PUBLISHED[LSSVM]]
    here = [found[LSSVM][str(p)] / found[RIDGE][str(p)] for p in shared or map(int, found[LSSVM])]
    parallel = abs(with_intercept - without) < 0.15 < exact - with_intercept
    page.verdict(
        "Claims hold" if parallel else "Claims do not hold",
        f"the lines of the two A-LOO are parallel (slopes {with_intercept:.2f} and {without:.2f}) and "
        f"the exact one is steeper ({exact:.2f}). The paper's two lines are a factor of "
        f"{min(apart):.1f} to {max(apart):.1f} apart, those here of {min(here):.2f} to {max(here):.2f}.",
    )


def show_figure2(found: PartResult, page: Page) -> None:
    sizes = sorted(int(n) for n in found[LSSVM])
    page.text(
        "An et al. cross-validate a kernel matrix of rank r in O(n r²). Their times are in another "
        "paper, so the same thing is measured here, as for Table I: leave-one-out of a Nyström model, "
        f"with the largest rank that edwards2013 mentions, r = n/2, and with r = {LOW_RANK} throughout."
    )
    page.figure(
        draw({name: {int(n): t for n, t in times.items()} for name, times in found.items()}, {}),
        "edwards2013-figure2",
        "Seconds against 500 to 5000 rows on logarithmic axes: circulant and low-rank leave-one-out",
    )
    slopes = {name: slope(sizes, [times[str(n)] for n in sizes]) for name, times in found.items()}
    first = str(sizes[0])
    last = str(sizes[-1])
    page.table(
        [
            {
                "method": name,
                f"n = {first}, s": found[name][first],
                f"n = {last}, s": found[name][last],
                "slope in log-log": f"{slopes[name]:.2f}",
            }
            for name in found
        ]
    )
    half, constant = (name for name in found if name.startswith("low rank"))
    times = {name: found[name][last] / found[LSSVM][last] for name in (constant, half)}
    holds = slopes[LSSVM] <= min(slopes[half], slopes[constant]) + 0.1 and min(times.values()) > 1
    page.verdict(
        "Claims hold" if holds else "Claims do not hold",
        f"A-LOO of an LS-SVM (slope {slopes[LSSVM]:.2f}) scales no worse than low-rank leave-one-out "
        f"with r = {LOW_RANK} (slope {slopes[constant]:.2f}) and than with r = n/2 (slope "
        f"{slopes[half]:.2f}), and takes {times[constant]:.0f} and {times[half]:.0f} times less at "
        f"n = {last}."
        if holds
        else f"A-LOO of an LS-SVM has the slope {slopes[LSSVM]:.2f}, low-rank leave-one-out "
        f"{slopes[constant]:.2f} with r = {LOW_RANK} and {slopes[half]:.2f} with r = n/2; they take "
        f"{times[constant]:.1f} and {times[half]:.1f} times as long at n = {last}.",
    )


def draw(measured: dict[str, dict[int, float]], published: dict[str, dict[int, float]]) -> Any:
    """Seconds against rows on logarithmic axes; the published ones are dotted."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    for colour, name in enumerate(measured):
        style = {"color": f"C{colour}", "markersize": 4}
        below = {"linewidth": 4, "alpha": 0.4} if name == LSSVM else {}  # the next line covers it
        axes.plot(*zip(*sorted(measured[name].items())), "o-", label=name, **style, **below)
        if name in published:
            axes.plot(*zip(*published[name].items()), "o:", label=f"{name}, edwards2013", **style)
    axes.set_xscale("log", base=2 if published else 10)
    if not published:
        ticks = [n for n in (500, 1000, 2000, 3000, 5000) if n in next(iter(measured.values()))]
        axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
        axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_xlabel("rows n")
    axes.set_ylabel("seconds, one thread")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
