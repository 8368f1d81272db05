"""Models written in C: how far they are from our predictions, their size, and their time.

    python -m benchmarks.c_export [digits] [devices] [--quick]

Digits: the models and rows of benchmarks.onnx_export, the largest difference from our predictions in
deviations of these. Devices: models of Boston housing, pruned and full, of half of the rows, with the
bytes of their constants and of their machine code by `cc -Os`, and the time of a prediction on this
machine, one row after another, by `cc -O2`.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Parts, Row, data_sets, run_parts, seconds
from benchmarks.onnx_export import cases
from onefold import LSSVRCV, SparseLSSVR

_REPEATS = 200
_LOOP = """
#include "{name}.c"

void predict_all(const float *rows, int n, float *out);
void predict_all(const float *rows, int n, float *out)
{{
    for (int i = 0; i < n; i++) {{
        out[i] = {name}_predict(rows + i * {upper}_FEATURES);
    }}
}}
"""


def predictor(model: Any, folder: Path) -> Any:
    """A function of float32 rows and an array for the predictions of a model with one target."""
    model.to_c(folder / "model.c", max_bytes=2**26)
    loop = folder / "loop.c"
    loop.write_text(_LOOP.format(name="model", upper="MODEL"))
    library = Path(tempfile.mkstemp(suffix=".so", dir=folder)[1])
    subprocess.run(["cc", "-std=c99", "-O2", "-shared", "-fPIC", loop, "-o", library, "-lm"], check=True)
    function = ctypes.CDLL(str(library)).predict_all

    def predict(rows: Any) -> Any:
        out = np.empty(len(rows), dtype=np.float32)
        function(rows.ctypes.data_as(ctypes.c_void_p), len(rows), out.ctypes.data_as(ctypes.c_void_p))
        return out

    return predict


def digits(quick: bool) -> list[Row]:
    """Largest difference from our own predictions, also for rows a million from the origin."""
    rows: list[Row] = []
    for setting, model, X in cases(quick):
        expected = model.predict(X)
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "float32 changes")
            predictions = predictor(model, Path(folder))(X)
        difference = float(np.max(np.abs(predictions - expected)) / np.std(expected))
        rows.append({**setting, "in C": difference})
    return rows


def devices(quick: bool) -> list[Row]:
    """A pruned model and the full one: error on the other half, bytes and time."""
    rows: list[Row] = []
    for _, data in data_sets(["boston"]):
        X = data["X"].astype(float)
        y = data["y"].astype(float)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        order = np.random.default_rng(0).permutation(len(X))
        train = order[::2]
        test = order[1::2]
        models = {
            "32 centres": SparseLSSVR(n_centres=32),
            "64 centres": SparseLSSVR(n_centres=64),
            "knee": SparseLSSVR(),
            "full": LSSVRCV(intervals=None),
        }
        held_out = X[test].astype(np.float32)
        # Different rows, of which a processor cannot learn how exponentials branch.
        noise = np.random.default_rng(1).normal(scale=0.1, size=(1 if quick else 40, *held_out.shape))
        many = (held_out + noise).reshape(-1, X.shape[1]).astype(np.float32)
        for name, model in models.items():
            model.fit(X[train], y[train])
            with tempfile.TemporaryDirectory() as folder:
                predict = predictor(model, Path(folder))
                predictions = predict(held_out)
                best = min(seconds(partial(predict, many)) for _ in range(_REPEATS))
                exact = model.predict(held_out.astype(float))
                object_file = Path(folder) / "model.o"
                command = ["cc", "-std=c99", "-Os", "-c", Path(folder) / "model.c", "-o", object_file]
                subprocess.run(command, check=True)
                sizes = subprocess.run(["size", object_file], check=True, capture_output=True, text=True)
                total = int(sizes.stdout.splitlines()[1].split()[0])
                centres = model.expansion_.n_centres
            error = np.sqrt(np.mean((predictions - y[test]) ** 2))
            rows.append(
                {
                    "model": name,
                    "centres": centres,
                    "features": X.shape[1],
                    "RMSE": float(error),
                    "code and constants": total,
                    "microseconds": 1e6 * best / len(many),
                    "difference": float(np.max(np.abs(predictions - exact)) / np.ptp(exact)),
                }
            )
    return rows


PARTS: Parts = {
    "digits": ("Largest difference from predict, in deviations of its own, d = 10", digits),
    "devices": ("Boston housing, half of the rows", devices),
}


if __name__ == "__main__":
    run_parts("c-export", __doc__, PARTS)
