"""Table 1 and Figure 3 of decherchi2010: what a solution costs, counted and measured.

All on one thread, in processor seconds. Levinson's recursion is SciPy's, which is compiled as the
authors' was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from benchmarks.common import peak_memory
from onefold.approximations.toeplitz import diagonal_means
from onefold.kernels import RBF
from onefold.kernels.tiles import gram
from onefold.linalg.dense import add_to_diagonal, cholesky, cholesky_solve
from onefold.machine.threads import use_threads
from papers.decherchi2010_errors import TITLES, found_by_jobs
from papers.decherchi2010_jobs import iterate
from papers.page import Page, PartResult

VARIABLES = 22
GAMMA = 4 / 22
LAMBDA = 1.0
SIZES = (1000, 2000, 4000, 8000)
MANY = 100_000
GE = "GE"
CG = "CG"
TB = "TB"
# Table 1: exponents of n in time (for a fixed number of iterations of CG) and in memory.
PUBLISHED = {GE: ("O(n³)", 3, "O(n²)", 2), CG: ("O(k n²)", 2, "O(n²)", 2), TB: ("O(n²)", 2, "O(n)", 1)}
CLOSE = 0.35  # of two exponents
LIMIT = 300e6  # bytes: what the paper says its method stays below with 100,000 rows


def rows_of(n: int) -> tuple[Any, Any]:
    """Random rows in [−1, 1] and random labels."""
    rng = np.random.default_rng(0)
    return rng.uniform(-1, 1, (n, VARIABLES)), rng.choice([-1.0, 1.0], n)


def eliminated(K: Any, y: Any) -> Any:
    return cholesky_solve(cholesky(add_to_diagonal(K, LAMBDA), overwrite=True), y[:, None])


def whole(method: str, X: Any, y: Any) -> Any:
    """A solution from the rows on, kernel values included."""
    if method == TB:
        column = diagonal_means(RBF(GAMMA), X)[0]
        column[0] += LAMBDA
        return scipy.linalg.solve_toeplitz(column, y)
    K = gram(RBF(GAMMA), X)
    return eliminated(K, y) if method == GE else iterate(K, y, [LAMBDA])[0]


# -- Table 1 -------------------------------------------------------------------------------------------


def levinson(column: Any, y: Any) -> tuple[Any, int]:
    """The solution for a symmetric Toeplitz matrix by the paper's recursion, and its multiply-adds."""
    n = len(y)
    count = 0
    energy = column[0]
    a = np.zeros(n)
    found = np.zeros(n)
    a[0] = 1.0
    found[0] = y[0] / energy
    for m in range(1, n):
        mirrored = column[m:0:-1]
        reflection = -(mirrored @ a[:m]) / energy
        a[1 : m + 1] += reflection * a[:m][::-1]
        energy *= 1 - reflection**2
        missing = y[m] - mirrored @ found[:m]
        found[: m + 1] += missing / energy * a[: m + 1][::-1]
        count += 4 * m + 1
    return found, count


def multiply_adds(method: str, n: int, iterations: int = 1) -> int:
    """Of one solution, kernel values not counted: the bounds of the loops, summed."""
    if method == TB:
        return sum(4 * m + 1 for m in range(1, n))
    if method == CG:
        return iterations * (n * n + 5 * n)
    left = np.arange(n - 1, -1, -1)  # rows below each pivot
    return int(np.sum(left + left * (left + 1) // 2)) + n * n  # and two triangular systems


def numbers_kept(method: str, n: int) -> int:
    """Numbers in memory: K, or the vectors of the recursion."""
    return {GE: n * n + n, CG: n * n + 4 * n, TB: 5 * n}[method]


def measure_table1(short: bool) -> PartResult:
    """By method and n: processor seconds of a solution, iterations, and bytes of peak memory."""
    found: PartResult = {method: {"seconds": {}, "bytes": {}} for method in PUBLISHED}
    found[CG]["iterations"] = {}
    sizes = (200, 400) if short else SIZES
    with use_threads(1), threadpool_limits(1):
        for n in sizes:
            for method, taken in _seconds(n, 1 if short else 3, found).items():
                found[method]["seconds"][str(n)] = taken
    for method in PUBLISHED:
        many = [MANY] if method == TB else []
        for n in sizes[-1:] if short else (*sizes, *many):
            found[method]["bytes"][str(n)] = peak_memory(_CODE.format(method=method, n=n, root=_ROOT))
            print(f"  {method} {n}", flush=True)
    return found


def _seconds(n: int, repeats: int, found: PartResult) -> dict[str, float]:
    X, y = rows_of(n)
    K = gram(RBF(GAMMA), X)
    column = diagonal_means(RBF(GAMMA), X)[0]
    column[0] += LAMBDA
    *_, found[CG]["iterations"][str(n)] = iterate(K, y, [LAMBDA])
    functions: dict[str, Callable[[], Any]] = {
        TB: lambda: scipy.linalg.solve_toeplitz(column, y),
        CG: lambda: iterate(K, y, [LAMBDA]),
    }
    best = {
        name: min(_clocked(function) for _ in range(repeats)) for name, function in functions.items()
    }
    copies = (K.copy() for _ in range(repeats))  # the factor takes the place of the matrix
    best[GE] = min(_clocked(lambda copy=copy: eliminated(copy, y)) for copy in copies)
    return best


def _clocked(function: Callable[[], Any]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


_ROOT = str(Path(__file__).parents[1])
_CODE = """
import sys
sys.path.insert(0, {root!r})
from papers.decherchi2010_times import rows_of, whole
def setup():
    whole({method!r}, *rows_of(64))  # what the first call alone takes
    return rows_of({n})
def run(rows):
    whole({method!r}, *rows)
"""


def exponent(values: dict[str, float], last: int = 0) -> float:
    """Of n: the slope on logarithmic axes, over the `last` sizes or all of them."""
    sizes = sorted(values, key=int)[-last:]
    if len(sizes) < 2:
        return float("nan")
    return float(np.polyfit(np.log([int(n) for n in sizes]), np.log([values[n] for n in sizes]), 1)[0])


def show_table1(found: PartResult, page: Page) -> None:
    last = max(found[TB]["seconds"], key=int)
    n = int(last)
    iterations = found[CG]["iterations"]
    page.text(
        "GE is elimination (Cholesky factors), CG conjugate gradients with k iterations, TB the "
        f"Toeplitz matrix with Levinson's recursion. Random rows (seed 0) with {VARIABLES} variables, "
        f"γ = 4/{VARIABLES}, λ = 1, one thread. *Counted* are multiply-adds of one solution (the bounds "
        "of the loops, summed; kernel values apart) and numbers of 8 bytes. *Measured* are processor "
        "seconds of one solution, and the growth of a fresh process's peak memory, kernel values "
        "included.",
        "Exponents are slopes on logarithmic axes: of time over "
        f"{_span(found[TB]['seconds'])} rows, of memory over the two largest sizes, as blocks of kernel "
        "values take some MB at any size. CG needed "
        f"{', '.join(str(k) for k in iterations.values())} iterations with "
        f"{', '.join(f'{int(m):,}' for m in iterations)} rows; its exponents are those of one "
        "iteration.",
    )
    times = {}
    costs = []
    memories = []
    for method, (cost, _, storage, _) in PUBLISHED.items():
        own = found[method]
        seconds = {
            m: value / (iterations[m] if method == CG else 1) for m, value in own["seconds"].items()
        }
        counts = {m: multiply_adds(method, int(m)) for m in seconds}
        times[method] = exponent(seconds)
        costs.append(
            {
                "method": method,
                "cost (paper)": cost,
                "exponent, counted": f"{exponent(counts):.2f}",
                "exponent, measured": f"{times[method]:.2f}",
                f"multiply-adds, n = {n:,}": f"{multiply_adds(method, n, iterations[last]):.3g}",
                f"seconds, n = {n:,}": f"{own['seconds'][last]:.3g}",
            }
        )
        kept = {m: 8 * numbers_kept(method, int(m)) for m in own["bytes"]}
        most = max(own["bytes"], key=int)
        memories.append(
            {
                "method": method,
                "storage (paper)": storage,
                "exponent, counted": f"{exponent(kept, 2):.2f}",
                "exponent, measured": f"{exponent(own['bytes'], 2):.2f}",
                f"MB counted, n = {n:,}": f"{kept[last] / 1e6:.3g}",
                f"MB measured, n = {n:,}": f"{own['bytes'][last] / 1e6:.3g}",
                f"MB measured, n = {MANY:,}": f"{own['bytes'][most] / 1e6:.3g}"
                if int(most) == MANY
                else None,
            }
        )
    page.table(costs)
    page.table(memories)
    _judge_table1(found, times, page)


def _span(values: dict[str, Any]) -> str:
    sizes = sorted(int(n) for n in values)
    return f"{sizes[0]:,} to {sizes[-1]:,}"


def _judge_table1(found: PartResult, times: dict[str, float], page: Page) -> None:
    agree = [abs(times[method] - PUBLISHED[method][1]) < CLOSE for method in PUBLISHED]
    agree += [abs(exponent(found[m]["bytes"], 2) - PUBLISHED[m][3]) < CLOSE for m in (GE, CG)]
    slopes = ", ".join(f"{method} as n^{times[method]:.1f}" for method in PUBLISHED)
    why = (
        f"the time of a solution grows for {slopes}, and the memory of GE and CG as n^"
        + " and n^".join(f"{exponent(found[m]['bytes'], 2):.1f}" for m in (GE, CG))
    )
    many = found[TB]["bytes"].get(str(MANY))
    if many is not None:
        total = many + 8 * MANY * (VARIABLES + 1)
        agree.append(total < LIMIT)
        less = [value for m, value in found[TB]["bytes"].items() if int(m) < MANY]
        why += (
            f"; TB needs {min(less) / 1e6:.0f} to {max(less) / 1e6:.0f} MB at the smaller sizes, "
            "blocks of "
            f"kernel values for the most part, and {many / 1e6:.0f} MB with {MANY:,} rows, "
            f"{total / 1e6:.0f} MB with the rows themselves (paper: less than 300 MB)"
        )
    page.verdict("Reproduced" if all(agree) else "Not reproduced", why + ".")


# -- Figure 3 ------------------------------------------------------------------------------------------


def measure_figure3(short: bool) -> PartResult:
    """By set and n: processor seconds of each step."""
    return {
        name: {n: jobs["times"] for n, jobs in sizes.items() if "times" in jobs}
        for name, sizes in found_by_jobs(short, ["times"]).items()
    }


def speed_ups(steps: PartResult) -> PartResult:
    """Of Levinson's recursion over the others: for the solution alone, and with kernel values."""
    if "CG" not in steps:
        return {}
    own = steps["Levinson"]
    values = steps["diagonal means"]
    return {
        method: {
            "alone": steps[key] / own,
            "whole": (steps[key] + steps["kernel matrix"]) / (own + values),
        }
        for method, key in ((GE, "elimination"), (CG, "CG"))
    }


def show_figure3(found: PartResult, page: Page) -> None:
    page.text(
        "The paper's speed-up is the time of elimination or of CG over that of Levinson's recursion, "
        "kernel values not counted. *Whole* counts them: K for the former, the means of its diagonals "
        "for the latter. *FFT* solves the same Toeplitz system by MINRES with fast Fourier transforms. "
        "Processor seconds of a single run on one thread of a busy machine, γ = 4 / variables, λ = 1. "
        "Elimination and CG are timed up to 10,000 rows; the published picture is missing, so its "
        "figures cannot be put beside ours."
    )
    page.figure(
        _draw(found),
        "decherchi2010-figure3",
        "Speed-up of Levinson's recursion over elimination and conjugate gradients against rows",
    )
    rows = []
    for name, sizes in found.items():
        for n, steps in sizes.items():
            ratios = speed_ups(steps)
            row: PartResult = {"set": TITLES[name], "n": f"{int(n):,}"}
            for key in ("elimination", "CG", "kernel matrix", "Levinson", "FFT", "diagonal means"):
                row[f"{key}, s"] = f"{steps[key]:.2g}" if key in steps else None
            row["k"] = steps.get("CG iterations")
            for method in (GE, CG):
                for kind in ("alone", "whole"):
                    own = ratios.get(method)
                    row[f"{method} / TB, {kind}"] = f"{own[kind]:.2g}" if own else None
            rows.append(row)
    page.table(rows)
    _judge_figure3(found, page)


def _judge_figure3(found: PartResult, page: Page) -> None:
    cells = [
        (int(n), steps, speed_ups(steps))
        for sizes in found.values()
        for n, steps in sizes.items()
        if "CG" in steps
    ]
    most = max(n for n, *_ in cells) // 2  # MNIST ends a little below 10,000
    large = [(steps, ratios) for n, steps, ratios in cells if n > most]
    alone, total = (_range([r[GE][kind] for _, r in large]) for kind in ("alone", "whole"))
    by_cg, by_cg_whole = (_range([r[CG][kind] for _, r in large]) for kind in ("alone", "whole"))
    growth = exponent_of_pairs([(n, r[GE]["alone"]) for n, _, r in cells if n >= 1000])
    per_iteration = [r[CG]["alone"] / s["CG iterations"] for s, r in large]
    faster = all(r[m]["alone"] > 1 for _, r in large for m in (GE, CG))
    fft = _range([steps["Levinson"] / steps["FFT"] for steps, _ in large])
    why = (
        f"with the most rows that all were timed for, Levinson's recursion is {alone} times faster than "
        f"elimination and {by_cg} times faster than CG"
    )
    if np.isfinite(growth):
        why += f"; over elimination the speed-up grows as n^{growth:.1f} (Table 1: n)"
    why += (
        f"; over CG it is {_range(per_iteration)} times the number of iterations (the paper: roughly "
        f"proportional). With kernel values counted it is {total} and {by_cg_whole} times: they "
        "are not a "
        f"detail. An iterative solution by FFT is {fft} times faster still than Levinson's recursion"
    )
    page.verdict("Claims hold" if faster and growth > 0.5 else "Claims do not hold", why + ".")
    page.verdict("Cannot be tested", "the curves themselves: our copy of the paper lacks its pictures.")


def exponent_of_pairs(pairs: Sequence[tuple[int, float]]) -> float:
    if len({n for n, _ in pairs}) < 2:
        return float("nan")
    return float(np.polyfit(*np.log(np.array(pairs)).T, 1)[0])


def _range(values: Sequence[float]) -> str:
    low = f"{min(values):.2g}"
    high = f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"


_TICKS = (250, 500, 1000, 5000, 10_000)
_RATIOS = (1, 2, 5, 10, 20, 50)


def _draw(found: PartResult) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, method, title in zip(panels, (GE, CG), ("over elimination", "over CG")):
        for colour, (name, sizes) in enumerate(found.items()):
            points = [(int(n), speed_ups(steps)) for n, steps in sizes.items() if "CG" in steps]
            for kind, style in (("alone", "o-"), ("whole", "o:")):
                axes.plot(
                    [n for n, _ in points],
                    [ratios[method][kind] for _, ratios in points],
                    style,
                    color=f"C{colour}",
                    markersize=4,
                    label=TITLES[name] if kind == "alone" else None,
                )
        axes.axhline(1, color="0.5", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="training rows", title=f"speed-up {title}")
        axes.set_xticks(_TICKS, [f"{n:,}" for n in _TICKS])
        axes.set_yticks(_RATIOS, [f"{ratio}" for ratio in _RATIOS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("times faster; dotted: kernel values counted")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    return figure
