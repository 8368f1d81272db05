"""Models written in C, compiled by the system's compiler and called through ctypes."""

from __future__ import annotations

import ctypes
import itertools
import re
import shutil
import subprocess

import numpy as np
import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
CPP_COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow", "-O2"]
_NUMBERS = itertools.count()
FLOATS = ctypes.POINTER(ctypes.c_float)


def compiled_library(path):
    """The functions of a file of C, compiled without a warning."""
    if COMPILER is None:
        pytest.skip("this system has no C compiler")
    library = path.with_suffix(f".{next(_NUMBERS)}.so")  # a library of the same name would be kept
    options = ["-std=c99", *WARNINGS, "-Wmissing-prototypes", "-shared", "-fPIC"]
    subprocess.run([COMPILER, *options, path, "-o", library, "-lm"], check=True)
    return ctypes.CDLL(library)


class Compiled:
    """The functions of a model, from the text of its file and a library that holds it."""

    def __init__(self, library, text, name):
        self._library = library
        self.text = text
        self._name = name

    def size(self, what):
        """A macro for a size."""
        pattern = rf"^#define {self._name.upper()}_{what} (\d+)$"
        return int(re.search(pattern, self.text, re.MULTILINE)[1])

    def values(self, X):
        """F at float32 rows, (rows, outputs)."""
        rows = np.ascontiguousarray(X, dtype=np.float32)
        out = np.empty((len(rows), self.size("OUTPUTS")), dtype=np.float32)
        classifier = "_CLASSES" in self.text
        function = self._function("decision" if classifier else "predict")
        if not classifier and out.shape[1] == 1:
            function.restype = ctypes.c_float
            out[:, 0] = [function(row.ctypes.data_as(FLOATS)) for row in rows]
            return out
        for row, place in zip(rows, out):
            function(row.ctypes.data_as(FLOATS), place.ctypes.data_as(FLOATS))
        return out

    def positions(self, X):
        """The position of the label of each row."""
        rows = np.ascontiguousarray(X, dtype=np.float32)
        function = self._function("predict")
        return np.array([function(row.ctypes.data_as(FLOATS)) for row in rows])

    def probabilities(self, X):
        """Probabilities (rows, classes)."""
        rows = np.ascontiguousarray(X, dtype=np.float32)
        out = np.empty((len(rows), self.size("CLASSES")), dtype=np.float32)
        function = self._function("probabilities")
        for row, place in zip(rows, out):
            function(row.ctypes.data_as(FLOATS), place.ctypes.data_as(FLOATS))
        return out

    @property
    def labels(self):
        """The labels, as text."""
        array = ctypes.c_char_p * self.size("CLASSES")
        return [text.decode() for text in array.in_dll(self._library, f"{self._name}_labels")]

    def _function(self, name):
        return getattr(self._library, f"{self._name}_{name}")


def written(model, folder, name="model", **options):
    """A fitted model, written in C and compiled."""
    path = folder / f"{name}.c"
    model.to_c(path, name=name, **options)
    return Compiled(compiled_library(path), path.read_text("ascii"), name)


def expected(model, X):
    """F at float32 rows by the model itself, (rows, outputs)."""
    rows = np.asarray(X, dtype=np.float32).astype(np.float64)
    method = "decision_function" if hasattr(model, "classes_") else "predict"
    return getattr(model, method)(rows).reshape(len(rows), -1)


def rounding(model, X):
    """What float32 may change: a share of Σ_j |c_j k(x, z_j)| + |b|, and of the spread of the values.

    A power of the distance below 1 magnifies what it is wrong by.
    """
    rows = np.asarray(X, dtype=np.float32).astype(np.float64)
    size = sum(
        weight * (abs(part.kernel(rows, part.centres)) @ abs(part.coef) + abs(part.intercept))
        for weight, part in model.expansion_.parts
    )
    powers = [min(1.0, getattr(part.kernel, "power", 1.0)) for _, part in model.expansion_.parts]
    return 8 * 2.0 ** (-24 * min(powers)) * size.max(axis=0) + 1e-6 * np.ptp(expected(model, X), axis=0)


def agree(compiled, model, X):
    """Whether values in C and those of the model differ by rounding alone."""
    difference = np.abs(compiled.values(X) - expected(model, X)).max(axis=0)
    return bool(np.all(difference <= rounding(model, X)))
