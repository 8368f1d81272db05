r"""A fitted model as one file of C99: constants and arithmetic in float32, nothing but math.h.

The file has only constants and functions: no allocation, and no variables outside functions. Text of the
user, names of features and labels, is escaped so that no letter of it has a meaning in C.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from onefold._version import __version__
from onefold.estimators.base import KernelMachine
from onefold.estimators.validation import check_count
from onefold.expansions import FittedFunction
from onefold.export.c_probabilities import can_write, write_probabilities
from onefold.export.c_terms import SingleFunction, Source, check_function, single_function, some_places
from onefold.linalg import host_array, is_sparse
from onefold.machine.files import atomic_write
from onefold.machine.warning import warn_user
from onefold.tables import TableModel

# Bytes of constants by default: the flash memory of a large microcontroller.
MAX_BYTES = 2**20
# The error of float32, as a share of the spread of f, above which there is a warning.
_INACCURATE = 1e-3
# The spread of f relative to its size, below which f is a constant with rounding errors.
_CONSTANT = 1e-12
# Characters of a string that every C99 compiler accepts (section 5.2.4.1 of the standard).
_LONGEST = 4095
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,30}")
_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-+.,:;=()[]<>{}%&#!|^~'"
)


def to_c(
    estimator: KernelMachine,
    path: str | os.PathLike[str],
    *,
    name: str = "model",
    max_bytes: int = MAX_BYTES,
) -> None:
    r"""Write a fitted model as one C file (C99, float32) for devices that run nothing else.

    The file needs only math.h. It allocates no memory and has no variables outside functions, so any
    number of threads can use it. A comment at its beginning lists the functions, the bytes of constants
    and of stack, and how closely float32 agrees with the model. An existing file is replaced.

    Parameters
    ----------
    estimator : fitted onefold estimator
        One for numeric rows, with kernels of :mod:`onefold.kernels`, their sums and products, or a
        blend. Each centre costs 4 bytes per feature, so a sparse model or one with few landmarks
        is usually what fits.
    path : str or path-like
        The file to write; its folder must exist.
    name : str, default="model"
        What the names in the file begin with: letters, digits and ``_``, at most 31. ``NAME_predict``
        returns the position of the label in ``NAME_labels`` (classifiers) or f(x) (regressors with one
        target; otherwise it writes all of them to its second argument). ``NAME_decision`` writes the
        decision values of a classifier: one for two classes, otherwise one per class.
        ``NAME_probabilities`` writes one probability per class, if the classifier is calibrated, but
        not by isotonic regression.
    max_bytes : int, default=1048576
        Largest size of the constants in bytes; a larger model is refused.

    Raises
    ------
    ValueError
        If the model cannot be written in C, or is too large.
    OSError
        If the file cannot be written; an existing file is then left unchanged.

    Warns
    -----
    UserWarning
        If float32 changes the values of the model by more than a thousandth of their spread.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import SparseLSSVC
    >>> from onefold.export import to_c
    >>> X, y = load_iris(return_X_y=True)
    >>> to_c(SparseLSSVC(n_centres=10).fit(X, y), "iris.c", name="iris")
    >>> with open("iris.c") as file:
    ...     print([line for line in file if line.startswith("int")])
    ['int iris_predict(const float *x);\n', 'int iris_predict(const float *x)\n']
    """
    _check_estimator(estimator)
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(
            "name must begin with a letter and have at most 31 letters of ASCII, digits and _; got "
            f"{name!r:.60}."
        )
    check_count("max_bytes", max_bytes)
    labels = _quoted_labels(estimator)
    f = estimator.expansion_.on_host()
    source = Source(name, int(max_bytes))
    function = single_function(f, source.max_bytes)
    function.write(source)
    difference = _difference(f, function, same_units=labels is not None)
    if not math.isfinite(difference):
        raise ValueError(
            "the kernel of the model has values that float32 cannot hold (up to 3.4e38); scale the "
            "features before fitting, or export the model by to_onnx()."
        )
    if difference > _INACCURATE:
        warn_user(
            f"float32 changes the values of this model by up to {difference:.1g} of their spread at its "
            "centres, because its coefficients are large and cancel, or very small; scale features and "
            "targets, use a larger alpha or fewer centres, or export it by to_onnx(), which is float64."
        )
    text = _file(estimator, source, function, labels, difference)
    with atomic_write(Path(path)) as temporary:
        temporary.write_text(text, encoding="ascii", newline="\n")


def _check_estimator(estimator: Any) -> None:
    """Raise unless it is a fitted estimator that can be written."""
    if isinstance(estimator, TableModel):
        raise ValueError(
            "the preparation of a table cannot be written in C; write the estimator inside, "
            "estimator_.to_c(path), and give it the rows of matrix(X), or use to_onnx()."
        )
    if not isinstance(estimator, KernelMachine):
        raise TypeError(
            f"to_c takes a onefold estimator, not a {type(estimator).__name__}; of a pipeline write the "
            "last step, and prepare the rows on the device as the other steps do."
        )
    check_is_fitted(estimator, "expansion_")
    check_function(estimator.expansion_)


def _quoted_labels(estimator: Any) -> list[str] | None:
    """The labels of a classifier as strings of C; None of a regressor."""
    if not is_classifier(estimator):
        return None
    labels = [f'"{plain(str(label))}"' for label in np.asarray(estimator.classes_).tolist()]
    longest = max(map(len, labels))
    if longest > _LONGEST:
        raise ValueError(
            f"a label takes {longest} characters in C, where strings have at most {_LONGEST}; use "
            "shorter labels."
        )
    return labels


def plain(text: str) -> str:
    """Text that is safe in a C string or comment: letters that are not plain become octal bytes."""
    return "".join(
        letter
        if letter in _PLAIN
        else "".join(f"\\{byte:03o}" for byte in letter.encode("utf-8", "surrogatepass"))
        for letter in text
    )


def _difference(f: FittedFunction, function: SingleFunction, *, same_units: bool) -> float:
    """The largest difference of float32 and float64 at some centres, as a share of the spread of f."""
    rows = np.concatenate([_some_rows(part.centres) for _, part in f.parts]).astype(np.float32)
    if not len(rows):
        return 0.0
    exact = host_array(f.predict(rows.astype(np.float64)))
    differences = np.abs(function.values(rows) - exact).max(axis=0)
    spread = np.ptp(exact, axis=0)
    size = np.abs(exact).max(axis=0)
    spread = np.where(spread > _CONSTANT * size, spread, size)
    if same_units:  # the columns are classes, some of which may have no row here
        spread = np.full_like(spread, spread.max())
    return float(np.max(differences / np.where(spread > 0, spread, 1.0)))


def _some_rows(centres: Any) -> Any:
    """Some of the rows (m, d), evenly spaced, as a dense array."""
    rows = centres[some_places(centres.shape[0])]
    return rows.toarray() if is_sparse(rows) else rows


def _file(
    estimator: Any,
    source: Source,
    function: SingleFunction,
    labels: list[str] | None,
    difference: float,
) -> str:
    """The whole text."""
    n_targets = function.intercept.size
    macros = [
        f"#define {source.features} {function.origin.size}",
        f"#define {source.outputs} {n_targets}",
    ]
    declarations = []
    if labels is not None:
        macros.append(f"#define {source.name.upper()}_CLASSES {len(labels)}")
        declarations.append(f"extern const char *const {source.name}_labels[{len(labels)}];")
        rows = ",\n".join(f"    {label}" for label in labels)
        source.tables.append(f"const char *const {source.name}_labels[{len(labels)}] = {{\n{rows}\n}};")
        heads = _write_classifier(source, n_targets)
        calibrator = getattr(estimator, "calibrator_", None)
        if can_write(calibrator):
            heads.append(write_probabilities(source, calibrator, len(labels)))
    else:
        heads = _write_regressor(source, n_targets)
    declarations += [f"{head};" for head in heads]
    comment = _comment(estimator, source, function, declarations, difference)
    blocks = [
        comment,
        "#include <math.h>",
        "\n".join(macros),
        "\n".join(declarations),
        *source.tables,
        *source.functions,
    ]
    return "\n\n".join(blocks) + "\n"


def _write_classifier(source: Source, n_targets: int) -> list[str]:
    """Add the public functions of a classifier; return how they begin."""
    name = source.name
    outputs = source.outputs
    decision = f"void {name}_decision(const float *x, float *out)"
    source.function(decision, [f"{name}_values(x, out);"])
    predict = f"int {name}_predict(const float *x)"
    if n_targets == 1:
        body = ["return out[0] > 0.0f;"]
    else:
        body = [
            "int largest = 0;",
            f"for (int t = 1; t < {outputs}; t++) {{",
            "    if (out[t] > out[largest]) {",
            "        largest = t;",
            "    }",
            "}",
            "return largest;",
        ]
    source.function(predict, [f"float out[{outputs}];", f"{name}_values(x, out);", *body])
    return [decision, predict]


def _write_regressor(source: Source, n_targets: int) -> list[str]:
    """Add the public function of a regressor; return how it begins."""
    name = source.name
    outputs = source.outputs
    if n_targets > 1:
        predict = f"void {name}_predict(const float *x, float *out)"
        source.function(predict, [f"{name}_values(x, out);"])
    else:
        predict = f"float {name}_predict(const float *x)"
        body = [f"float out[{outputs}];", f"{name}_values(x, out);", "return out[0];"]
        source.function(predict, body)
    return [predict]


def _comment(
    estimator: Any,
    source: Source,
    function: SingleFunction,
    declarations: list[str],
    difference: float,
) -> str:
    """What the file is and how it is used, as the comment at its beginning."""
    parts = estimator.expansion_.parts
    kernels = [f"Kernel, weight {weight:.3g}: {plain(repr(part.kernel))}" for weight, part in parts]
    magnitude = 10.0 ** math.ceil(math.log10(difference)) if difference > 0 else 0.0
    lines = [
        f"{plain(type(estimator).__name__)}, written by onefold {plain(__version__)}.",
        "",
        f"{function.n_centres} centres, {function.origin.size} features, {function.intercept.size} "
        f"outputs; {source.size} bytes of constants,",
        f"{function.stack_bytes} bytes of arrays on the stack.",
        *kernels,
        "",
        f"At its centres, float32 changes its values by about {magnitude:.0e} of their spread.",
        "",
        "C99, single precision; include <math.h> and link the mathematical library (-lm), nothing else.",
        "No memory is allocated, and functions share no variables: threads may call them at once.",
        "x has the features of a row in the order of training, and must not overlap with out.",
        "A NaN in x gives NaN, and of a classifier the first label.",
        "To call the functions from another file, declare",
        "",
        *(f"    {declaration}" for declaration in declarations),
    ]
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        lines += ["", *(f"x[{k}]: {plain(str(feature))}" for k, feature in enumerate(names))]
    return "\n".join(["/*", *(f" * {line}".rstrip() for line in lines), " */"])
