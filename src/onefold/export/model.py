r"""One estimator as an ONNX model, by the converter that pipelines use too."""

from __future__ import annotations

import json
from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from onefold._version import __version__
from onefold.estimators.base import KernelMachine
from onefold.export.graph import need
from onefold.export.registration import register
from onefold.tables import TableModel


def to_onnx(
    estimator: KernelMachine | TableModel,
    *,
    dtype: str = "float32",
    target_opset: int | None = None,
    decision: bool = False,
) -> Any:
    """The fitted model as a graph of ONNX, which other programs run without this library.

    Parameters
    ----------
    estimator : one of ours, fitted
    dtype : {"float32", "float64"}, default="float32"
        Of the rows that come in and the values that go out; what is between them is float64.
    target_opset : int, optional
        Version of ONNX's operators, 13 at least; None is the latest that skl2onnx knows.
    decision : bool, default=False
        Whether a classifier gives its decision values too, one column per class.

    Returns
    -------
    model : onnx.ModelProto
        From "X", (rows, features), or from one input (rows, 1) for each column of a table, to
        "variable", (rows, targets); of a classifier to "label" and "probabilities", or "decision" where
        nothing was calibrated.
    """
    check_is_fitted(estimator, "estimator_" if isinstance(estimator, TableModel) else "expansion_")
    if dtype not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64"; got {dtype!r}.')
    if decision and not is_classifier(estimator):
        raise ValueError(
            f"{type(estimator).__name__} predicts its decision values already; leave decision out."
        )
    need("onnx")
    skl2onnx, types = need("skl2onnx"), need("skl2onnx.common.data_types")
    register(type(estimator))
    kind = types.FloatTensorType if dtype == "float32" else types.DoubleTensorType
    model = skl2onnx.to_onnx(
        estimator,
        name=type(estimator).__name__,
        initial_types=_inputs(estimator, kind, types.StringTensorType),
        target_opset=target_opset,
        options={id(estimator): {"decision": True}} if decision else None,
    )
    model.producer_name, model.producer_version = "onefold", __version__
    model.doc_string = f"{type(estimator).__name__} of onefold {__version__}"
    if isinstance(estimator, TableModel):  # the graph's own names have letters, digits and _ alone
        columns = json.dumps(estimator.preparation_.columns, ensure_ascii=False)
        need("onnx.helper").set_model_props(model, {"columns": columns})
    return model


def _inputs(estimator: Any, number: Any, text: Any) -> list[tuple[str, Any]]:
    """Names and types of what goes into the graph."""
    if not isinstance(estimator, TableModel):
        return [("X", number([None, estimator.n_features_in_]))]
    parts = estimator.preparation_.parts
    return [(part.name, (text if part.as_text else number)([None, 1])) for part in parts]
