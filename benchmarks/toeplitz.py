"""Toeplitz kernels: exact series, Levinson, and the approximation of decherchi2010.

    python -m benchmarks.toeplitz [--quick] [--only series|memory|levinson|paper]

The unit of time for series is one real FFT of length 2n, measured beside it in the same process.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from scipy.fft import next_fast_len, rfft
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.metrics import make_scorer

from benchmarks.common import DATA, RESULTS, Row, peak_memory, report, seconds
from onefold import LSSVCCV, KernelRidgeCV, trust
from onefold.approximations import Toeplitz
from onefold.approximations.toeplitz import diagonal_means
from onefold.kernels import RBF
from onefold.kernels.tiles import gram
from onefold.smoothers.toeplitz import ToeplitzSmoother

ALPHAS = np.geomspace(3e-5, 1.0, 11)
STEP = 0.01


def series(n: int) -> tuple[Any, Any]:
    x = STEP * np.arange(n)
    return x, np.sin(x / 3) + 0.3 * np.random.default_rng(0).normal(size=n)


def cpu_seconds(function: Callable[[], object]) -> float:
    """Processor time of one call on one thread: other processes do not count."""
    start = time.process_time()
    function()
    return time.process_time() - start


def fft_seconds(n: int) -> float:
    values = np.random.default_rng(0).normal(size=next_fast_len(2 * n, real=True))
    rfft(values)
    return float(np.median([cpu_seconds(lambda: rfft(values)) for _ in range(9)]))


def long_series(sizes: list[int], gammas: list[float]) -> list[Row]:
    """Leave-one-out over 11 μ, in FFTs per μ, and the growth from one size to the next."""
    rows: list[Row] = []
    for gamma in gammas:
        before: tuple[int, float] | None = None
        for n in sizes:
            x, y = series(n)
            facts: dict[str, Any] = {}
            smoother = ToeplitzSmoother(
                np.exp(-gamma * x**2), intercept=True, semidefinite=True, report=facts
            )
            unit = fft_seconds(n)
            spent = cpu_seconds(lambda s=smoother, t=y: s.leave_one_out(t[:, None], ALPHAS))
            unit = (unit + fft_seconds(n)) / 2
            growth = None
            if before is not None:
                growth = (spent / before[1]) ** (np.log(2) / np.log(n / before[0]))
            before = (n, spent)
            rows.append(
                {
                    "n": n,
                    "gamma": gamma,
                    "CPU seconds per alpha": spent / ALPHAS.size,
                    "FFTs per alpha": spent / ALPHAS.size / unit,
                    "iterations": facts["iterations"],
                    "residual": facts["residual"],
                    "growth per doubling": growth,
                }
            )
    return rows


def memory(n: int) -> list[Row]:
    """Peak memory of the whole estimator, in arrays of n."""
    code = (
        "import numpy as np\nfrom onefold import LSSVRCV\n"
        "def fit(n):\n"
        f"    x = {STEP} * np.arange(n)\n"
        "    y = np.sin(x / 3) + 0.3 * np.random.default_rng(0).normal(size=n)\n"
        "    return x[:, None], y\n"
        "def search(X, y):\n"
        "    LSSVRCV(gammas=[1.0], alphas=np.geomspace(3e-5, 1, 11), approximation='toeplitz',\n"
        "            cv='loo', n_jobs=1).fit(X, y)\n"
        "def setup():\n"
        f"    search(*fit(3000))\n    return fit({n})\n"
        "def run(value):\n    search(*value)\n"
    )
    return [{"n": n, "arrays of n": peak_memory(code) / (8 * n)}]


def against_levinson(n: int) -> list[Row]:
    """Eleven μ: SciPy's recursion on y and 1, against everything that leave-one-out needs."""
    x, y = series(n)
    column = np.exp(-(x**2))

    def levinson() -> None:
        for alpha in ALPHAS:
            first = column.copy()
            first[0] += alpha
            scipy.linalg.solve_toeplitz(first, np.stack([y, np.ones(n)], axis=1))

    facts: dict[str, Any] = {}
    smoother = ToeplitzSmoother(column, intercept=True, semidefinite=True, report=facts)
    ours = min(seconds(lambda: smoother.leave_one_out(y[:, None], ALPHAS)) for _ in range(2))
    theirs = seconds(levinson)
    return [
        {
            "n": n,
            "solve_toeplitz, s": theirs,
            "onefold, s": ours,
            "ratio": theirs / ours,
            "residual": facts["residual"],
        }
    ]


def paper_sets() -> dict[str, Any]:
    """The large sets of decherchi2010 that are present, as (X, labels ±1), features in [−1, 1]."""
    found = {}
    for name in ("ijcnn1", "covtype", "w8a", "mnist"):
        path = DATA / f"{name}.npz"
        if not path.exists():
            continue
        with np.load(path, allow_pickle=False) as file:
            X = file["X"]
            y = file["y_binary"] if "y_binary" in file else file["y"]
        if name == "mnist":
            pick = np.isin(y, (3, 8))
            X = X[pick]
            y = np.where(y[pick] == 3, 1, -1)
        order = np.random.default_rng(0).permutation(len(y))[:30_000]
        X = X[order].astype(np.float64)
        y = y[order]
        span = np.ptp(X, axis=0)
        X = 2 * (X - X.min(axis=0)) / np.where(span > 0, span, 1) - 1
        found[name] = (X, np.where(y == np.max(y), 1, -1))
    return found


def paper(sizes: list[int], folds: int) -> list[Row]:
    """Test errors of what folds choose, time of one solve, and the trust check's verdict."""
    rows: list[Row] = []
    by_kernel = Toeplitz(negative="solve")
    by_matrix = Toeplitz(validate="matrix", negative="solve")
    for name, (X, y) in paper_sets().items():
        d = X.shape[1]
        grid = {"gammas": list(4.0 ** np.arange(-1, 7) / d), "alphas": list(4.0 ** np.arange(-3, 3))}
        test = slice(len(y) - 3000, len(y))

        def chosen(kind: Any, n: int, approximation: Any, refit: str = "same") -> Any:
            model = kind(approximation=approximation, cv=folds, refit=refit, **grid)  # noqa: B023
            if kind is KernelRidgeCV:
                model.set_params(criterion=make_scorer(right_signs), intervals=None)
            return model.fit(X[:n], y[:n])  # noqa: B023

        def error(model: Any) -> float:
            return 100 * float(np.mean(np.where(model.predict(X[test]) > 0, 1, -1) != y[test]))  # noqa: B023

        for n in sizes:
            if n > len(y) - 3000:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                chooser = LSSVCCV(approximation=by_kernel, cv=folds, refit="exact", **grid)
                verdict = trust(chooser, X[:n], y[:n], size=min(n, 1000), random_state=0)
                exact = chosen(LSSVCCV, n, "exact")
                trained = chosen(LSSVCCV, n, by_kernel)
                rows.append(
                    {
                        "set": name,
                        "n": n,
                        "exact %": error(exact),
                        "trained with T %": error(trained),
                        "from T %": error(chosen(LSSVCCV, n, by_matrix)),
                        "without intercept %": error(chosen(KernelRidgeCV, n, by_kernel)),
                        "selected with T %": error(chosen(LSSVCCV, n, by_kernel, "exact")),
                        "constant %": 100 * min(np.mean(y[test] == 1), np.mean(y[test] == -1)),
                        "gamma ratio": trained.gamma_ / exact.gamma_,
                        "trust": verdict.verdict,
                        "regret %": 100 * verdict.regret,
                        **_solve_times(RBF(exact.gamma_), X[:n], y[:n], 1.0),
                    }
                )
            print(rows[-1], flush=True)
    return rows


def right_signs(y: Any, values: Any) -> float:
    """The share of labels ±1 that are the sign of a value."""
    return float(np.mean(np.where(values > 0, 1, -1) == y))


def _solve_times(kernel: Any, X: Any, y: Any, alpha: float) -> Row:
    """One solve after the kernel values are there, as the paper counts it."""
    n = len(y)
    column = diagonal_means(kernel, X)[0]
    smoother = ToeplitzSmoother(column, intercept=False, negative="solve")
    ours = seconds(lambda: smoother.residuals(y[:, None].astype(float), [alpha]))
    if n > 5000:
        return {"dense / Toeplitz": None, "CG / Toeplitz": None}
    K = gram(kernel, X)
    K.ravel()[:: n + 1] += alpha
    operator = LinearOperator((n, n), matvec=lambda v: K @ v)
    iterated = seconds(lambda: cg(operator, y.astype(float), rtol=1e-6, maxiter=100))
    dense = seconds(lambda: scipy.linalg.solve(K, y.astype(float), assume_a="pos"))
    return {"dense / Toeplitz": dense / ours, "CG / Toeplitz": iterated / ours}


def draw(rows: list[Row]) -> None:
    """Figures 2 and 3: error and speed-up against n, the verdict as the marker."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["set"] for row in rows))
    figure, axes = plt.subplots(2, len(names), figsize=(3.4 * len(names), 6), squeeze=False)
    markers = {"applies": "o", "doubtful": "s", "does not apply": "x"}
    for column, name in enumerate(names):
        mine = [row for row in rows if row["set"] == name]
        top = axes[0, column]
        bottom = axes[1, column]
        for key, colour in (
            ("exact %", "C0"),
            ("trained with T %", "C1"),
            ("without intercept %", "C3"),
            ("selected with T %", "C2"),
            ("constant %", "0.7"),
        ):
            values = [np.nan if row[key] is None else row[key] for row in mine]
            top.plot([row["n"] for row in mine], values, color=colour, label=key.removesuffix(" %"))
        for row in mine:
            top.plot(row["n"], row["trained with T %"], markers[row["trust"]], color="C1")
        for key in ("dense / Toeplitz", "CG / Toeplitz"):
            values = [np.nan if row[key] is None else row[key] for row in mine]
            bottom.plot([row["n"] for row in mine], values, "o-", label=key)
        top.set(title=name, xscale="log", ylabel="test error, %" if column == 0 else "")
        bottom.set(xscale="log", yscale="log", xlabel="training rows")
        bottom.set_ylabel("time of a solve, ratio" if column == 0 else "")
        for axis in (top, bottom):
            sizes = [row["n"] for row in mine]
            axis.set_xticks(sizes, [str(n) for n in sizes])
            axis.minorticks_off()
        top.set_ylim(0, 1.08 * max(row["constant %"] for row in mine))
    axes[0, 0].legend(fontsize=7)
    axes[1, 0].legend(fontsize=7)
    figure.suptitle("decherchi2010; markers: circle applies, square doubtful, cross does not apply")
    figure.tight_layout()
    figure.savefig(RESULTS / "toeplitz_paper.png", dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--only", choices=["series", "memory", "levinson", "paper"])
    arguments = parser.parse_args()
    quick = arguments.quick
    only = arguments.only
    start = time.perf_counter()
    if only in (None, "series"):
        sizes = [25_000, 50_000] if quick else [100_000, 200_000, 400_000, 1_000_000]
        gammas = [1.0] if quick else [0.03, 1.0, 30.0]
        report("toeplitz_series", "Exact leave-one-out on a series", long_series(sizes, gammas))
    if only in (None, "memory"):
        report("toeplitz_memory", "Peak memory", memory(100_000 if quick else 1_000_000))
    if only in (None, "levinson"):
        report("toeplitz_levinson", "Against Levinson", against_levinson(5000 if quick else 20_000))
    if only in (None, "paper"):
        rows = paper([500, 1000] if quick else [1000, 2000], 3)
        if rows:
            report("toeplitz_paper", "decherchi2010, figures 2 and 3", rows)
            draw(rows)
        else:
            print(f"no data sets under {DATA}; set ONEFOLD_DATA")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
