"""Exported graphs in ONNX Runtime beside our own predictions: time, and how far apart they are.

    python -m benchmarks.onnx_export [speed] [digits] [--quick]

One thread each, in turn, float32 rows. Digits: the largest difference from our predictions in deviations
of these, as exported (float64 inside) and with every number of the graph turned into float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper
from sklearn.datasets import make_friedman1

from benchmarks.common import Parts, Row, in_turn, run_parts
from onefold import LSSVR
from onefold.kernels import RBF, Kernel, Laplacian, Matern

KERNELS: dict[str, Kernel] = {
    "rbf": RBF(0.3),
    "rbf, narrow": RBF(30.0),
    "matern12": Matern(0.3, nu=0.5),
    "matern52": Matern(0.3, nu=2.5),
    "laplacian": Laplacian(0.3),
}


def fitted(kernel: Kernel, n: int, alpha: float, place: float = 0.0) -> tuple[Any, Any]:
    """A machine of n rows of 10 features, and as many other rows."""
    X, y = make_friedman1(2 * n, noise=1.0, random_state=0)
    model = LSSVR(kernel, alpha=alpha, n_jobs=1).fit(X[:n] + place, y[:n])
    return model, (X[n:] + place).astype(np.float32)


def session(model: Any) -> Any:
    """ONNX Runtime with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def single(model: Any) -> Any:
    """The same graph with float32 wherever it has float64."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    del found.graph.value_info[:]
    for constant in found.graph.initializer:
        if constant.data_type == TensorProto.DOUBLE:
            values = numpy_helper.to_array(constant).astype(np.float32)
            constant.CopyFrom(numpy_helper.from_array(values, constant.name))
    for node in found.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.DOUBLE:
                attribute.i = TensorProto.FLOAT
            for value in [*attribute.g.input, *attribute.g.output]:
                value.type.tensor_type.elem_type = TensorProto.FLOAT
    return found


def speed(quick: bool) -> list[Row]:
    """Milliseconds for some rows at a time."""
    rows: list[Row] = []
    n = 500 if quick else 2000
    for name, kernel in KERNELS.items():
        model, X = fitted(kernel, n, 1.0)
        exported = model.to_onnx()
        graph = session(exported)
        float32 = session(single(exported))
        for count in (1, 100, n):
            some = X[:count]
            times = in_turn(
                {
                    "onefold": lambda some=some, model=model: model.predict(some),
                    "onnx": lambda some=some, graph=graph: graph.run(None, {"X": some}),
                    "onnx, float32 inside": lambda some=some, g=float32: g.run(None, {"X": some}),
                },
                5 if count == n else 30,
            )
            row: Row = {"kernel": name, "centres": n, "rows": count}
            row |= {f"{one} ms": 1e3 * value for one, value in times.items()}
            rows.append(row | {"ratio": times["onnx"] / times["onefold"]})
    return rows


def digits(quick: bool) -> list[Row]:
    """Largest difference from our own predictions, also for rows a million from the origin."""
    rows: list[Row] = []
    for setting, model, X in cases(quick):
        expected = model.predict(X)
        unit = np.std(expected)
        exported = model.to_onnx()
        off = {}
        for label, graph in {"as exported": exported, "float32 inside": single(exported)}.items():
            values = session(graph).run(None, {"X": X})[0][:, 0]
            off[label] = float(np.max(np.abs(values - expected)) / unit)
        size = float(np.abs(model.expansion_.coef).sum())
        rows.append({**setting, "sum of |c|": size, **off})
    return rows


def cases(quick: bool) -> Iterator[tuple[Row, Any, Any]]:
    """Kernel, ridge and place of the rows; the model fitted to them; and rows to predict."""
    n = 300 if quick else 1000
    for name, kernel in KERNELS.items():
        for alpha in (1.0, 1e-3, 1e-6):
            for place in (0.0, 1e6):
                model, X = fitted(kernel, n, alpha, place)
                yield {"kernel": name, "alpha": alpha, "place": place}, model, X


PARTS: Parts = {
    "speed": ("ONNX Runtime beside predict, d = 10, one thread", speed),
    "digits": ("Largest difference from predict, in deviations of its own, d = 10", digits),
}


if __name__ == "__main__":
    run_parts("onnx-export", __doc__, PARTS)
