"""Save a fitted model to one file, load it, or read the metadata of a file.

The file holds some rows with the model's predictions, which are computed again and compared on loading.
The rows of an estimator are a few of its centres: the first, the last, and those with the largest
entries. The rows of a table model or a preparation are made from what was learned about its columns:
usual values, an unknown category, and a missing value if it imputes them.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from onefold._version import __version__
from onefold.expansions import FittedFunction, GridExpansion
from onefold.linalg import is_sparse, to_numpy
from onefold.saving import classes, container
from onefold.saving.codec import Decoder, Encoder
from onefold.saving.container import DAMAGED, UPGRADE, BadContent, CannotSave

FORMAT = "onefold-model"
# The version that is written, and the newest that is read; the first is 1.
FORMAT_VERSION = 1

_ENTRIES: dict[str, type] = {"onefold_version": str, "estimator": str, "model": dict}
# Other machines round differently: the allowed difference, relative to the values, ...
_RELATIVE = 1e-6
# ... and relative to the terms that values are sums of, by the bytes of a number in the rows.
_ROUNDING = {8: 1e-9, 4: 1e-5}
# The coverage at which prediction intervals are tested.
_COVERAGE = 0.9
_KEYS = ("values", "predictions", "probabilities", "bounds")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file; an existing file is replaced only once the new one is complete.

    Saving the same model again gives the same file, byte for byte. So does an equal fit, unless it
    searches, because the file records the time of each step (``cv_results_``, ``history_``,
    ``report_``). Constructor parameters that are needed only for fitting and cannot be stored (a scorer
    function, a custom splitter, a random generator, a callback) are recorded by their repr, and those
    that are specific to this computer (`checkpoint`, `client`, `scratch`) by their type; the loaded
    estimator has the defaults instead, and the records in ``dropped_params_``.

    Parameters
    ----------
    model : object
        A fitted onefold estimator, including those of tables and TablePreparation. Save a scikit-learn
        ``Pipeline`` around one with skops or joblib.
    path : str or path-like
        The file to write; its folder must exist.

    Raises
    ------
    TypeError
        If prediction needs Python code, such as a kernel function.
    ValueError
        If the parts of the model are inconsistent.
    OSError
        If the file cannot be written; an existing file is then left unchanged.

    Examples
    --------
    >>> import onefold
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> onefold.save(onefold.LSSVC(gamma=0.1).fit(X, y), "iris.onefold")
    >>> onefold.load("iris.onefold").score(X, y) > 0.9
    True
    """
    name = classes.name_of(model)
    if name is None:
        search = "save its best_estimator_, or " if hasattr(model, "best_estimator_") else ""
        raise CannotSave(
            f"cannot save a {type(model).__name__}, which is not a onefold estimator; {search}save "
            "pipelines and other estimators with skops or joblib."
        )
    if isinstance(model, BaseEstimator):
        check_is_fitted(model)
    encoder = Encoder()
    try:
        metadata = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "onefold_version": __version__,
            "estimator": name,
            "model": encoder.encode(model, name),
            "test": encoder.encode(_recorded(model), "test"),
        }
    except BadContent as error:
        remedy = "fit it again" if error.remedy == DAMAGED else error.remedy
        raise ValueError(f"cannot save this {name}: {error.cause}; {remedy}.") from error
    text = json.dumps(metadata, separators=(",", ":"), allow_nan=False)
    container.write(Path(path), text, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that was written by `save`; no code in the file is ever run.

    Everything that prediction uses is checked, and the model is tested on rows stored in the file.
    Records of the fit, such as ``cv_results_``, are returned as they were written.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator
        Fitted, ready to predict.

    Raises
    ------
    ModelFileError
        If the file is not a onefold model, is damaged, or comes from a newer version.
    FileNotFoundError
        If the file does not exist.

    Examples
    --------
    >>> import onefold
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> onefold.save(onefold.LSSVC(gamma=0.1).fit(X, y), "iris.onefold")
    >>> model = onefold.load("iris.onefold")
    >>> model.predict(X[:3])
    array([0, 0, 0])
    """
    with container.opened(Path(path)) as file:
        metadata = _checked(file.text)
        decoder = Decoder(file.arrays())
        model = decoder.decode(metadata["model"])
        test = decoder.decode(metadata.get("test"))
        decoder.finish()
        name = classes.name_of(model)
        if name is None or name != metadata["estimator"]:
            raise BadContent("its content is not the model named in its metadata")
        verify(model, test)
    return model


def peek(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the metadata of a model file without building the model; raises the errors of `load`.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    dict
        ``format``, ``format_version``, ``onefold_version``, ``estimator``, the undecoded ``model``
        (see `onefold.saving.codec`), and ``arrays``: dtype and shape by name.

    Examples
    --------
    >>> import onefold
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> onefold.save(onefold.LSSVC(gamma=0.1).fit(X, y), "iris.onefold")
    >>> from onefold.saving import peek
    >>> peek("iris.onefold")["estimator"]
    'LSSVC'
    """
    with container.opened(Path(path)) as file:
        return {**_checked(file.text), "arrays": file.describe_arrays()}


def _checked(text: str) -> dict[str, Any]:
    """The metadata, if this version can read it."""
    metadata = container.parse_json(text, "metadata")
    if metadata.get("format") != FORMAT:
        raise BadContent("its metadata is not that of a onefold model")
    version = metadata.get("format_version")
    if type(version) is not int or version < 1:
        raise BadContent("its metadata has no format version")
    if version > FORMAT_VERSION:
        writer = metadata.get("onefold_version")
        raise BadContent(
            f"it was written by a newer onefold, {writer!s:.40}, in format version {version}, but this "
            f"onefold {__version__} reads format versions up to {FORMAT_VERSION}",
            UPGRADE,
        )
    for key, kind in _ENTRIES.items():
        if type(metadata.get(key)) is not kind:
            raise BadContent(f"its metadata has no {key}")
    return metadata


def _recorded(model: Any) -> dict[str, Any] | None:
    """Rows with their predictions; None for an object that takes no rows, such as a kernel."""
    function = _function(model)
    if hasattr(model, "preparation_"):
        rows: Any = _example_rows(model.preparation_)
    elif function is not None:
        rows = _test_rows(function.on_host())
    else:
        return None
    return {"rows": rows, **_outputs(model, rows)[1]}


def verify(model: Any, stored: Any) -> None:
    """Raise BadContent unless the model reproduces the stored values."""
    function = _function(model)
    if function is None and not hasattr(model, "preparation_"):
        return
    if type(stored) is not dict or stored.keys() != {"rows", *_KEYS}:
        raise BadContent("it has no rows to test the model on")
    itemsize, outputs = _outputs(model, stored["rows"])
    inner = _inner(model)
    with np.errstate(all="ignore"):
        rounding = 0.0 if function is None else _ROUNDING.get(itemsize, 0.0) * term_size(model)
        same = [_close(outputs[key], stored[key], rounding) for key in ("values", "bounds")]
        # They follow from the values, by an exponential if the logarithm of the target was fitted.
        same.append(_close(outputs["predictions"], stored["predictions"], rounding, max(1e-3, rounding)))
        if outputs["probabilities"] is not None and same[0]:
            # From equal decision values, because a calibration may be arbitrarily steep.
            probabilities = inner.calibrator_.probabilities(stored["values"])
            same.append(_close(probabilities, stored["probabilities"], 0.0))
    if not all(same) or (outputs["probabilities"] is None) != (stored["probabilities"] is None):
        raise BadContent("its predictions differ from those made when it was saved")


def _inner(model: Any) -> Any:
    """The inner estimator of a table model; any other model itself."""
    return getattr(model, "estimator_", model)


def _function(model: Any) -> FittedFunction | None:
    """f(x), that of the inner estimator of a table model."""
    function = getattr(_inner(model), "expansion_", model)
    return function if isinstance(function, FittedFunction) else None


def _close(actual: Any, expected: Any, rounding: float, relative: float = 0.0) -> bool:
    if actual is None or type(expected) is not np.ndarray or expected.dtype != np.float64:
        return actual is expected is None
    if actual.shape != expected.shape or np.isnan(expected).any():
        return False
    largest = np.abs(expected, where=np.isfinite(expected), out=np.zeros_like(expected)).max()
    return np.allclose(actual, expected, rtol=relative, atol=_RELATIVE * largest + rounding)


def term_size(model: Any) -> float:
    """The size of the terms whose sums are the values of a fitted model and of its fold models."""
    inner = _inner(model)
    folds = getattr(getattr(inner, "fold_models_", None), "terms", ())
    functions = [function for function in (_function(model), *folds) if function is not None]
    return max(map(_size, functions))


def _size(function: FittedFunction) -> float:
    """Σ |c_j| times a bound on |k| near the centres."""
    total = 0.0
    for weight, part in function.parts:
        largest = 1.0
        if not isinstance(part, GridExpansion) and part.centres is not None:
            reached = float(np.abs(part.kernel.diagonal(part.centres)).max())
            largest = reached if math.isfinite(reached) else 1.0
        total += weight * float(np.abs(part.coef).sum(axis=0).max()) * largest
    return total


def _outputs(model: Any, rows: Any) -> tuple[int, dict[str, Any]]:
    """Bytes of a number in the rows, and the model's outputs by `_KEYS`, None for those it lacks."""
    inner = _inner(model)
    of_tables = hasattr(model, "preparation_")
    labels: Any = None
    predictions = probabilities = bounds = None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            matrix = model.matrix(_table(rows)) if of_tables else rows
            predicts = hasattr(inner, "predict")
            values = matrix  # of a preparation
            if predicts:
                values = _host(getattr(inner, "decision_function", inner.predict)(matrix))
            if predicts and isinstance(inner, BaseEstimator):
                labels = _host(inner.predict(matrix))
                if of_tables and not hasattr(inner, "classes_"):  # may have another unit than f
                    predictions = _host(model.predict(_table(rows)))
                if getattr(inner, "calibrator_", None) is not None:
                    probabilities = _host(inner.predict_proba(matrix))
                if getattr(inner, "intervals_", None) is not None and inner.intervals is not None:
                    bounds = _host(inner.predict_interval(matrix, _COVERAGE))
    except BadContent:
        raise
    except Exception as error:  # a damaged state may raise anything
        reason = f"{type(error).__name__}: {error!s:.200}".replace("\n", " ")
        raise BadContent(f"it cannot predict rows made from its own state ({reason})") from error
    if hasattr(inner, "classes_") and not np.isin(labels, inner.classes_).all():
        raise BadContent("it predicts labels that are not among its classes")
    if values.size == 0 or not np.isfinite(values).all():
        raise BadContent("its predictions of its own rows are infinite or undefined")
    values = np.ascontiguousarray(values.reshape(values.shape[0], -1), dtype=np.float64)
    return matrix.dtype.itemsize, dict(zip(_KEYS, (values, predictions, probabilities, bounds)))


def _host(values: Any) -> Any:
    return np.ascontiguousarray(to_numpy(values))


def _test_rows(function: Any) -> Any:
    """Some centres; or the middle of a grid and points beyond its ends; or precomputed kernel values."""
    _, part = function.parts[0]
    if isinstance(part, GridExpansion):
        shares = np.array([0.5, -0.5, 1.5])
        return part.lower + shares[:, None] * part.step * np.array(part.counts)
    if part.centres is None:
        return np.stack([np.ones(part.n_centres), np.eye(1, part.n_centres)[0]])
    # Largest |entry| of each row, without a copy of the centres.
    ends = [part.centres.max(axis=1), part.centres.min(axis=1)]
    most, least = (end.toarray().ravel() if is_sparse(end) else end for end in ends)
    widest = np.maximum(most, -least)
    return part.centres[[0, widest.size - 1, int(np.argmax(widest)), int(np.argmin(widest))]]


def _example_rows(preparation: Any) -> dict[str, Any]:
    missing = [None] if preparation.missing == "impute" else []
    columns = [part.examples() + missing for part in preparation.parts]
    length = max((len(values) for values in columns), default=0)
    padded = [[values[i % len(values)] for i in range(length)] for values in columns]
    return {"names": list(preparation.columns), "columns": padded}


def _table(rows: Any) -> Any:
    import pyarrow

    from onefold.tables.rows import TableRows

    return TableRows(pyarrow.table(dict(zip(rows["names"], rows["columns"]))))
