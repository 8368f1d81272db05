"""Table I and Figures 1 and 2 of edwards2013: the time of leave-one-out, against the number of rows.

One kernel and one ridge value on one thread, random rows. The rows have 20 features: with two, the
kernel matrix has a small numerical rank, which the exact leave-one-out would notice and use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.common import RESULTS, in_turn, seconds
from onefold.approximations import Circulant, Exact, Nystroem, Problem, Workload
from onefold.kernels import RBF
from onefold.machine.threads import use_threads
from papers.page import Found, Page

FEATURES, ALPHA = 20, 0.5
KERNEL, CELLS = RBF(0.02), RBF(1.0)  # of the rows; of the cells of the circulant matrix
CIRCULANT = Circulant(spacing=(1.3, 1.7), order="given", validate="matrix")
LOW_RANK = 100  # the constant rank of Figure 2

EXACT, LSSVM, RIDGE = "E-LOO", "A-LOO LS-SVM", "A-LOO KRR"
# Seconds of Table I: one core of a 2.2 GHz Intel i7, MATLAB 2011b.
PUBLISHED = {
    EXACT: {13: 4.43, 14: 35.25, 15: 281.11},
    LSSVM: dict(zip(range(13, 21), (1.3, 2.6, 5.32, 10.88, 22.45, 47.41, 101.36, 235.83))),
    RIDGE: dict(zip(range(13, 21), (0.54, 1.06, 2.14, 4.3, 8.55, 17.28, 35.39, 68.22))),
}


def problem_of(n: int, intercept: bool = True) -> Problem:
    rng = np.random.default_rng(0)
    return Problem(rng.standard_normal((n, FEATURES)), rng.standard_normal((n, 1)), None, intercept)


def leave_one_out(problem: Problem, structure: Any, kernel: Any = KERNEL) -> Any:
    """Predictions (1, n, 1) of every row from all others, on one thread."""
    with use_threads(1), threadpool_limits(1):
        model = structure.model(kernel, problem, Workload(folds=1), None)
        return model.leave_one_out(np.array([ALPHA]))


def circulant_functions(n: int) -> dict[str, Callable[[], object]]:
    return {
        LSSVM: partial(leave_one_out, problem_of(n), CIRCULANT, CELLS),
        RIDGE: partial(leave_one_out, problem_of(n, intercept=False), CIRCULANT, CELLS),
    }


def measure_table1(short: bool) -> Found:
    """Seconds by method and power of two; the best of several rounds, one for the large exact ones."""
    found: Found = {LSSVM: {}, RIDGE: {}}
    for power in (8, 10, 12) if short else range(8, 21):
        times = in_turn(circulant_functions(2**power), 5 if short else 40)
        for name, best in times.items():
            found[name][str(power)] = best
    found[EXACT] = {str(p): _exact(p) for p in (8, 9)} if short else _exact_kept(range(8, 16))
    return found


def _exact(power: int) -> float:
    problem = problem_of(2**power)
    return min(seconds(lambda: leave_one_out(problem, Exact())) for _ in range(3 if power <= 12 else 1))


def _exact_kept(powers: Sequence[int]) -> dict[str, float]:
    """Each size is kept when it is done, under benchmarks/results: the last takes many minutes."""
    stored = RESULTS / "edwards2013-exact.json"
    times: dict[str, float] = json.loads(stored.read_text("utf-8")) if stored.exists() else {}
    for power in powers:
        if str(power) not in times:
            times[str(power)] = _exact(power)
            RESULTS.mkdir(exist_ok=True)
            stored.write_text(json.dumps(times), "utf-8")
    return times


def measure_figure2(short: bool) -> Found:
    """Seconds by method for 500 to 5000 rows; low-rank leave-one-out in O(n r²) for two ranks."""
    found: Found = {}
    for n in (500, 1000) if short else range(500, 5001, 500):
        functions = circulant_functions(n)
        for label, rank in (("low rank, r = n/2", n // 2), (f"low rank, r = {LOW_RANK}", LOW_RANK)):
            structure = Nystroem(n_components=rank, method="uniform")
            functions[label] = partial(leave_one_out, problem_of(n), structure)
        for name, best in in_turn(functions, 2 if short else 5).items():
            found.setdefault(name, {})[str(n)] = best
    return found


# -- on the page ---------------------------------------------------------------------------------------


def slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Of time against size on logarithmic axes."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


LARGEST = 3  # sizes that the slope of large n is taken over


def growth(times: dict[Any, float]) -> tuple[float, float]:
    """Over sizes of 2^13 and more where there are several, and over the largest ones alone."""
    by_power = {int(power): seconds for power, seconds in times.items()}
    powers = sorted(by_power)
    many = [power for power in powers if power >= 13]
    some = [many if len(many) > 1 else powers, powers[-LARGEST:]]
    all_, large = (slope([2.0**p for p in part], [by_power[p] for p in part]) for part in some)
    return all_, large


def show_table1(found: Found, page: Page) -> None:
    powers = sorted({int(power) for times in found.values() for power in times})
    rows = []
    for power in powers:
        row: dict[str, Any] = {"n": f"2^{power}"}
        for name in (EXACT, LSSVM, RIDGE):
            row[f"{name}, s"] = found[name].get(str(power))
            row[f"{name}, s (paper)"] = PUBLISHED[name].get(power)
        rows.append(row)
    page.text(
        "Seconds of leave-one-out for one kernel and one ridge value, one thread, random rows "
        "(seed 0). E-LOO "
        "is the exact leave-one-out of an LS-SVM, O(n³): a Cholesky factorisation of the kernel "
        "matrix and the diagonal of its inverse. A-LOO replaces the matrix by a two-level circulant "
        "one, O(n log n). Each is the best of several runs, E-LOO beyond 2^12 a single one. The paper "
        "prints 2^13 and more; it used one core of a 2.2 GHz Intel i7 and MATLAB 2011b."
    )
    page.table(rows)
    ours, theirs = ({name: growth(one[name]) for name in PUBLISHED} for one in (found, PUBLISHED))
    page.table(
        [
            {
                "slope in log-log": name,
                "from 2^13 on": f"{ours[name][0]:.2f}",
                "paper": f"{theirs[name][0]:.2f}",
                f"last {LARGEST} sizes": f"{ours[name][1]:.2f}",
                "paper ": f"{theirs[name][1]:.2f}",
            }
            for name in PUBLISHED
        ]
    )
    first, last = str(powers[0]), str(powers[-1])
    large = f"2^{powers[-LARGEST]} to 2^{last}"
    ratio = found[LSSVM][last] / found[RIDGE][last]
    published_ratio = PUBLISHED[LSSVM][20] / PUBLISHED[RIDGE][20]
    page.text(
        f"A call of A-LOO has a fixed cost, {1000 * found[LSSVM][first]:.1f} ms here, which hides the "
        "growth with n except at the largest sizes: the slope from 2^13 on says little, that of "
        f"{large} is the one to compare. A-LOO of an LS-SVM takes {ratio:.2f} times as long as that of "
        f"kernel ridge regression at 2^{last}, against {published_ratio:.1f} times in the paper: "
        "here the "
        "intercept costs one number of the spectrum, not several more transforms."
    )
    sizes = 2.0 ** np.array(powers[-LARGEST:])
    expected = slope(sizes, sizes * np.log(sizes))
    linear = all(0.8 < ours[name][1] < 1.4 for name in (LSSVM, RIDGE))
    faster = f" A-LOO of an LS-SVM takes {found[LSSVM][last]:.2g} s at 2^{last}"
    if int(last) in PUBLISHED[LSSVM]:
        faster += f", {PUBLISHED[LSSVM][int(last)]:.3g} s in the paper"
    page.verdict(
        "Reproduced" if linear and ours[EXACT][1] > 2 else "Partly reproduced",
        f"over {large} rows, leave-one-out with a circulant matrix grows as n^{ours[LSSVM][1]:.2f} with "
        f"and n^{ours[RIDGE][1]:.2f} without an intercept (n log n: n^{expected:.2f}); below, its fixed "
        f"cost dominates. The exact one grows as n^{ours[EXACT][1]:.2f}.{faster}; the absolute "
        "times are "
        "those of another machine and another program.",
    )
    _show_figure1(found, page)


def _show_figure1(found: Found, page: Page) -> None:
    page.figure(
        draw(
            {name: {2 ** int(p): t for p, t in found[name].items()} for name in (EXACT, LSSVM, RIDGE)},
            {name: {2**p: t for p, t in PUBLISHED[name].items()} for name in PUBLISHED},
        ),
        "edwards2013-figure1",
        "Seconds against rows on logarithmic axes: exact and circulant leave-one-out, here and "
        "published",
    )
    exact, with_intercept, without = (growth(found[name])[1] for name in (EXACT, LSSVM, RIDGE))
    page.verdict(
        "Reproduced"
        if abs(with_intercept - without) < 0.15 < exact - with_intercept
        else "Not reproduced",
        f"at the largest sizes the lines of the two A-LOO are parallel (slopes {with_intercept:.2f} and "
        f"{without:.2f}) and the exact one is steeper ({exact:.2f}). Here the two A-LOO coincide, one "
        "covering the other in the picture, and are flat where their fixed cost dominates; the "
        "paper's are "
        "straight and a factor of 2.4 to 3.5 apart.",
    )


def show_figure2(found: Found, page: Page) -> None:
    sizes = sorted(int(n) for n in found[LSSVM])
    page.text(
        "An et al. cross-validate a kernel matrix of rank r in O(n r²). Their times are in another "
        "paper, so the same thing is measured here: leave-one-out of a Nyström model, with the "
        f"largest rank that edwards2013 mentions, r = n/2, and with r = {LOW_RANK} throughout."
    )
    page.figure(
        draw({name: {int(n): t for n, t in times.items()} for name, times in found.items()}, {}),
        "edwards2013-figure2",
        "Seconds against 500 to 5000 rows on logarithmic axes: circulant and low-rank leave-one-out",
    )
    slopes = {name: slope(sizes, [times[str(n)] for n in sizes]) for name, times in found.items()}
    last = str(sizes[-1])
    page.table(
        [
            {
                "method": name,
                f"n = {sizes[0]}, s": found[name][str(sizes[0])],
                f"n = {last}, s": found[name][last],
                "slope in log-log": f"{slopes[name]:.2f}",
            }
            for name in found
        ]
    )
    half, constant = (name for name in found if name.startswith("low rank"))
    holds = slopes[LSSVM] <= min(slopes[half], slopes[constant]) + 0.1
    page.verdict(
        "Reproduced" if holds else "Partly reproduced",
        f"A-LOO of an LS-SVM (slope {slopes[LSSVM]:.2f}) scales no worse than low-rank leave-one-out "
        f"with r = {LOW_RANK} (slope {slopes[constant]:.2f})"
        + ("" if holds else ", within the fixed costs of so few rows")
        + f", far better than with r = n/2 (slope {slopes[half]:.2f}), and takes "
        f"{found[constant][last] / found[LSSVM][last]:.0f} and "
        f"{found[half][last] / found[LSSVM][last]:.0f} times less time at n = {last}. With so few "
        "rows the "
        "time of A-LOO is fixed cost for the most part.",
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
