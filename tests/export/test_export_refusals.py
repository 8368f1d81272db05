"""What cannot be exported is said, with the remedy; nothing of ONNX is imported before it is needed."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from onefold import LSSVC, LSSVR
from onefold.export import graph as graphs
from onefold.export import register_converters
from onefold.kernels import RBF, Sum

rng = np.random.default_rng(3)
X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)


def test_importing_imports_nothing_of_onnx():
    code = (
        "import sys, onefold.export, onefold.estimators; print({'onnx', 'skl2onnx'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("missing", ["onnx", "skl2onnx"])
def test_the_extra_is_named_where_it_is_missing(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    for work in (LSSVR().fit(X, y).to_onnx, register_converters):
        if missing == "skl2onnx" or work is not register_converters:
            with pytest.raises(ImportError, match=rf'needs {missing}.*pip install "onefold\[onnx\]"'):
                work()


class Own(RBF):
    """A kernel of somebody else."""


class OwnSum(Sum):
    """Another one."""


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("precomputed", "knows no rows to compare with; fit it with rows and a kernel"),
        (lambda A, B: A @ B.T, "a Python function cannot be written to ONNX; fit with a kernel"),
        (OwnSum(RBF(), RBF()), "OwnSum cannot be written to ONNX"),
        (RBF() + RBF() * Own(), "Own cannot be written to ONNX; fit with a kernel of onefold.kernels"),
    ],
)
def test_kernels_without_a_graph(kernel, message):
    pytest.importorskip("skl2onnx")
    model = LSSVR(kernel).fit(np.eye(20) if kernel == "precomputed" else X, y)
    with pytest.raises(ValueError, match=message):
        model.to_onnx()


def test_arguments():
    pytest.importorskip("skl2onnx")
    model = LSSVR().fit(X, y)
    with pytest.raises(NotFittedError):
        LSSVC().to_onnx()
    with pytest.raises(ValueError, match='dtype must be "float32" or "float64"; got \'float16\''):
        model.to_onnx(dtype="float16")
    with pytest.raises(ValueError, match="LSSVR predicts its decision values already"):
        model.to_onnx(decision=True)
    with pytest.raises(ValueError, match="needs opset 13 at least; got target_opset=12"):
        model.to_onnx(target_opset=12)


def test_a_graph_beyond_what_a_file_can_hold(monkeypatch):
    pytest.importorskip("skl2onnx")
    monkeypatch.setattr(graphs, "_LARGEST", 1000)
    with pytest.raises(ValueError, match=r'2 GiB.*approximation="nystroem"'):
        LSSVR().fit(X, y).to_onnx()
