r"""One estimator as an ONNX model, by the converter that pipelines use too."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from onefold._version import __version__
from onefold.estimators.base import KernelMachine
from onefold.export.extra import need
from onefold.export.registration import register


def to_onnx(
    estimator: KernelMachine,
    *,
    dtype: str = "float32",
    target_opset: int | None = None,
    decision: bool = False,
) -> Any:
    """See :meth:`onefold.LSSVC.to_onnx`."""
    check_is_fitted(estimator, "expansion_")
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
        initial_types=[("X", kind([None, estimator.n_features_in_]))],
        target_opset=target_opset,
        options={id(estimator): {"decision": True}} if decision else None,
    )
    model.producer_name, model.producer_version = "onefold", __version__
    return model
