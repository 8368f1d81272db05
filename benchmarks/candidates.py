"""Which families, which blend, which calibration: all candidates of a search, compared afterwards.

    python -m benchmarks.candidates run DIR --device cuda --workers 8
    python -m benchmarks.candidates report DIR

`run` fits every family with every metric on three splits of each table, 3000 training rows at most, and
keeps the held-out and the test predictions of the best cell of each. `report` compares subsets of the
families, ways to blend and calibrations on them, as test errors and log losses, in JSON and a table.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.optimize import nnls
from sklearn.metrics import log_loss

from benchmarks.common import DATA
from benchmarks.tables_data import TASKS, present, small_split
from onefold import LSSVCCV, LSSVRCV
from onefold.calibration import fit_calibrator
from onefold.estimators.final import with_expansion
from onefold.linalg import asarray_like, host_array
from onefold.search import metric_search
from onefold.search.loop import Search

ROWS = 3000
TESTED = 4000
SPLITS = 3
FAMILIES = ["rbf", "matern12", "powexp", "matern32", "laplacian"]
SETS = {
    "matern12": ("rbf", "matern12", "laplacian"),
    "powexp": ("rbf", "powexp", "laplacian"),
    "both": ("rbf", "matern12", "powexp", "laplacian"),
    "matern32": ("rbf", "matern32", "laplacian"),
    "all": tuple(FAMILIES),
}


def job(given: tuple[str, int, str | None, Path]) -> str:
    """Fit one split of a table and keep the predictions of all leaders."""
    name, split, device, out = given
    warnings.simplefilter("ignore")
    labels = TASKS[name] == "classification"
    A, a, B, b = small_split(DATA / f"{name}.npz", 100 + split, labels, ROWS, TESTED)
    rows = len(a)
    kind = LSSVCCV if labels else LSSVRCV
    estimator = kind(FAMILIES, metric="auto", blend=True, random_state=0, device=device)

    def every(leaders, *_, **__):
        return list(leaders)

    begin = time.perf_counter()
    with (
        mock.patch.object(metric_search, "_LARGEST_LOSS_RATIO", 1e9),
        mock.patch.object(metric_search, "worth_fitting", every),
    ):
        setup = estimator.set_up(A, a)
        with estimator._threads(setup.problem.n):
            found = setup.strategy.run(Search(setup))
            functions = [with_expansion(leader, None).expansion for leader in found.leaders]
    np.savez_compressed(
        out / f"{name}-{split}.npz",
        heldout=np.stack(
            [found.scoring.problem.in_table(leader.held_out.by_row, rows) for leader in found.leaders]
        ),
        tested=np.stack([host_array(f.predict(asarray_like(B, setup.problem.Y))) for f in functions]),
        targets=found.scoring.problem.in_table(found.scoring.targets, rows),
        families=[leader.cell.candidate.params["kernel"] for leader in found.leaders],
        train=a,
        test=b,
        labels=labels,
    )
    return f"{name} {split}: {time.perf_counter() - begin:.1f} s"


def weights(H, Y, *, free: bool):
    """Weights ≥ 0 of held-out predictions; which add up to 1, or free with an intercept."""
    if free:
        means = H.mean(axis=1)
        mean = Y.mean(axis=0)
        columns = (H - means[:, None]).reshape(len(H), -1).T
        found, _ = nnls(columns, (Y - mean).reshape(-1))
        return found, mean - found @ means
    R = np.linalg.qr((H - Y).reshape(len(H), -1).T, mode="r")
    found, _ = nnls(np.vstack([R / np.abs(R).max(), np.ones(len(H))]), np.append(np.zeros(len(R)), 1.0))
    return found / found.sum(), 0.0


def compared(path: Path) -> dict[str, float]:
    """Test errors of every way, and log losses of every calibration of the default."""
    kept = np.load(path)
    H = kept["heldout"]
    T = kept["tested"]
    Y = kept["targets"]
    known = np.isfinite(H).all(axis=(0, 2))
    labels = bool(kept["labels"])
    found = {}
    classes = np.unique(kept["train"])
    for name, families in SETS.items():
        some = np.isin(kept["families"], families)
        for way, free in (("average", False), ("free sum", True)):
            w, b = weights(H[some][:, known], Y[known], free=free)
            values = np.tensordot(w, T[some], 1) + b
            if labels:
                index = values[:, 0] > 0 if values.shape[1] == 1 else values.argmax(axis=1)
                found[f"{name}, {way}"] = float(np.mean(classes[index.astype(int)] != kept["test"]))
            else:
                found[f"{name}, {way}"] = float(np.sqrt(np.mean((values[:, 0] - kept["test"]) ** 2)))
            if labels and (name, free) == ("powexp", False):
                heldout = np.tensordot(w, H[some], 1)[known]
                seen = np.isin(kept["test"], classes)
                index = np.searchsorted(classes, kept["train"][known])
                for calibration in ("log_odds", "temperature", "sigmoid", "isotonic"):
                    p = fit_calibrator(calibration, heldout, index).probabilities(values[seen])
                    loss = log_loss(kept["test"][seen], np.clip(p, 1e-15, 1), labels=classes)
                    found[f"log loss, {calibration}"] = float(loss)
    return found


def report(folder: Path) -> None:
    """Geometric means of ratios to the first way, over tables, with wins and losses."""
    tables: dict[str, list[dict[str, float]]] = {}
    for path in sorted(folder.glob("*.npz")):
        tables.setdefault(path.stem.rsplit("-", 1)[0], []).append(compared(path))
    means = {
        name: {k: np.mean([s[k] for s in every]) for k in every[0]} for name, every in tables.items()
    }
    (folder / "report.json").write_text(json.dumps(means, indent=1))
    for task in ("regression", "classes"):
        chosen = [m for m in means.values() if ("log loss, log_odds" in m) == (task == "classes")]
        for way in chosen[0] if chosen else ():
            base = "log loss, temperature" if way.startswith("log loss") else "matern12, free sum"
            ratio = np.log([(m[way] + 1e-4) / (m[base] + 1e-4) for m in chosen])
            wins = np.sum(ratio < -1e-9)
            losses = np.sum(ratio > 1e-9)
            print(f"| {task} | {way} | {np.exp(ratio.mean()):.4f} | {wins} | {losses} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", help="cuda, say")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--tables", help="with commas (all)")
    options = parser.parse_args()
    if options.what == "run":
        options.folder.mkdir(parents=True, exist_ok=True)
        names = list(present(options.tables.split(",") if options.tables else list(TASKS), DATA))
        jobs = [
            (name, split, options.device, options.folder) for split in range(SPLITS) for name in names
        ]
        with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
            for line in pool.imap_unordered(job, jobs):
                print(line, flush=True)
    report(options.folder)


if __name__ == "__main__":
    main()
