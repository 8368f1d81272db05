r"""Estimators as ONNX models, alone or at the end of a pipeline: outputs, their types, the nodes.

===========  ==================================  ===================================================
regressors   ``variable``                        f(x), (rows, targets)
classifiers  ``label``                           (rows,), int64 or text
..           ``probabilities`` or ``decision``   (rows, classes), the latter without a calibration
..           ``decision``                        also next to probabilities, by the option ``decision``
===========  ==================================  ===================================================

Labels are whole numbers or text, as ONNX knows no others. Rows with NaN have NaN for decision values and
probabilities. Estimators of whole tables have the outputs of the estimator inside, and one input per
column. All are converters of skl2onnx, which :func:`to_onnx` uses as pipelines do.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from onefold import estimators
from onefold._version import __version__
from onefold.calibration.probabilities import CERTAINTY
from onefold.estimators.base import KernelMachine
from onefold.export.columns import columns_in, prepared
from onefold.export.functions import check_function, decision_values
from onefold.export.graph import Graph, Node, import_optional
from onefold.tables import TableClassifier, TableModel, TableRegressor

# ONNX's operator set that first takes the axes of ReduceSum and Squeeze as inputs.
FIRST_OPSET = 13
# Pipelines of skl2onnx set the first, its estimators around ours the second.
_OPTIONS = {"zipmap": [True, False], "raw_scores": [True, False], "decision": [True, False]}
_KINDS = (
    *(estimators.LSSVC, estimators.LSSVR, estimators.KernelRidge, estimators.SparseLSSVC),
    *(estimators.LSSVCCV, estimators.LSSVRCV, estimators.KernelRidgeCV, estimators.SparseLSSVR),
    *(TableClassifier, TableRegressor),
)


def to_onnx(
    estimator: KernelMachine | TableModel,
    *,
    dtype: str = "float32",
    target_opset: int | None = None,
    decision: bool = False,
) -> Any:
    """Convert a fitted model to an ONNX graph, which other programs can run without this library.

    Parameters
    ----------
    estimator : fitted onefold estimator
    dtype : {"float32", "float64"}, default="float32"
        Type of inputs and outputs; computations are in float64.
    target_opset : int, optional
        ONNX operator set version, at least 13; None is the latest that skl2onnx supports.
    decision : bool, default=False
        Whether a classifier also outputs its decision values, one column per class.

    Returns
    -------
    model : onnx.ModelProto
        The input is "X", (rows, features), or one input (rows, 1) per column of a table. The output of
        a regressor is "variable", (rows, targets); those of a classifier are "label" and
        "probabilities", or "decision" without a calibration.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from onefold import LSSVC
    >>> from onefold.export import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = to_onnx(LSSVC(gamma=0.1).fit(X, y))
    >>> [output.name for output in model.graph.output]
    ['label', 'probabilities']
    """
    _, preparation = _inside(estimator)
    if dtype not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64"; got {dtype!r}.')
    if decision and not is_classifier(estimator):
        raise ValueError(
            f"decision is for classifiers, but this is a {type(estimator).__name__}; leave it out."
        )
    import_optional("onnx")
    skl2onnx = import_optional("skl2onnx")
    types = import_optional("skl2onnx.common.data_types")
    _register(type(estimator))
    number = types.FloatTensorType if dtype == "float32" else types.DoubleTensorType
    inputs = [("X", number([None, estimator.n_features_in_]))]
    if preparation is not None:
        inputs = [
            (part.name, (types.StringTensorType if part.as_text else number)([None, 1]))
            for part in preparation.parts
        ]
    model = skl2onnx.to_onnx(
        estimator,
        name=type(estimator).__name__,
        initial_types=inputs,
        target_opset=target_opset,
        options={id(estimator): {"decision": True}} if decision else None,
    )
    model.producer_name = "onefold"
    model.producer_version = __version__
    model.doc_string = f"{type(estimator).__name__} of onefold {__version__}"
    if preparation is not None:  # names in the graph have only letters, digits and _
        columns = json.dumps(preparation.columns, ensure_ascii=False)
        import_optional("onnx.helper").set_model_props(model, {"columns": columns})
    return model


def register_converters() -> None:
    """Register converters with skl2onnx for onefold estimators and pipelines that end in one.

    A second call changes nothing. Probabilities are an array, (rows, classes), regardless of skl2onnx's
    option `zipmap`. The option `decision` adds decision values, `raw_scores` outputs them instead.

    Examples
    --------
    >>> from skl2onnx import to_onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from onefold import LSSVC
    >>> from onefold.export import register_converters
    >>> register_converters()
    >>> X, y = load_iris(return_X_y=True)
    >>> model = to_onnx(make_pipeline(StandardScaler(), LSSVC(gamma=0.1)).fit(X, y), X[:1])
    >>> [output.name for output in model.graph.output]
    ['label', 'probabilities']
    """
    for kind in _KINDS:
        _register(kind)


def _register(kind: Any) -> None:
    """Register one class of estimators, which may be derived from one of onefold."""
    classifier = issubclass(kind, ClassifierMixin)
    import_optional("skl2onnx").update_registered_converter(
        kind,
        f"Onefold{kind.__name__}",
        _shapes,
        _convert,
        options=dict(_OPTIONS) if classifier else None,
        parser=_classifier_outputs if classifier else None,
    )


def _inside(model: Any) -> tuple[Any, Any]:
    """The estimator with its expansion, and the preparation of a table estimator or None."""
    of_tables = isinstance(model, TableModel)
    check_is_fitted(model, "estimator_" if of_tables else "expansion_")
    return (model.estimator_, model.preparation_) if of_tables else (model, None)


def _classifier_outputs(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The outputs of a classifier; their types and shapes are set later, once the inputs' are known."""
    options = scope.get_options(model, {"raw_scores": False, "decision": False})
    types = import_optional("skl2onnx.common.data_types")
    calibrated = getattr(_inside(model)[0], "calibrator_", None) is not None
    names = ["probabilities" if calibrated and not options["raw_scores"] else "decision"]
    if options["decision"] and names != ["decision"]:
        names.append("decision")
    operator = scope.declare_local_operator(f"Onefold{type(model).__name__}", model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("label", types.Int64TensorType()))
    for name in names:
        operator.outputs.append(scope.declare_local_variable(name, types.FloatTensorType()))
    return operator.outputs


def _shapes(operator: Any) -> None:
    """Set types and shapes of the outputs; raise if the model or its inputs cannot be converted."""
    model = operator.raw_operator
    types = import_optional("skl2onnx.common.data_types")
    inner, preparation = _inside(model)
    kinds = [variable.type for variable in operator.inputs]
    check_function(inner.expansion_)
    calibrator = getattr(inner, "calibrator_", None)
    if calibrator is not None and calibrator.name not in _CALIBRATIONS:
        raise ValueError(
            f"the calibration {calibrator.name!r} cannot be exported to ONNX; fit with calibration="
            '"log_odds", "temperature", "sigmoid" or "isotonic", or with None for decision values.'
        )
    if preparation is not None:
        columns_in(preparation, operator.inputs)
        # Outputs have the type of the inputs, float64 if all columns are text.
        is_single = any(isinstance(kind, types.FloatTensorType) for kind in kinds)
        number = types.FloatTensorType if is_single else types.DoubleTensorType
    else:
        widths = [kind.shape[1] for kind in kinds if len(kind.shape) == 2 and kind.shape[1]]
        text = any(isinstance(kind, types.StringTensorType) for kind in kinds)
        if text or (len(widths) == len(kinds) and sum(widths) != model.n_features_in_):
            raise ValueError(
                f"{type(model).__name__} takes {model.n_features_in_} numeric features, but its input "
                f"in the graph has {'text' if text else sum(widths)}; change the input."
            )
        number = type(types.guess_tensor_type(kinds[0]))
    rows = operator.inputs[0].get_first_dimension()
    if not is_classifier(model):
        operator.outputs[0].set_type(number([rows, inner.expansion_.n_targets]))
        return
    text = _label_values(model.classes_).dtype.kind == "U"
    operator.outputs[0].set_type((types.StringTensorType if text else types.Int64TensorType)([rows]))
    for output in operator.outputs[1:]:
        output.set_type(number([rows, len(model.classes_)]))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """The nodes between inputs and outputs."""
    model = operator.raw_operator
    graph = Graph(scope, container)
    outputs = operator.outputs
    opset = container.target_opset_any_domain("")
    if opset < FIRST_OPSET:
        raise ValueError(f"target_opset must be at least {FIRST_OPSET}; got {opset}.")
    inner, preparation = _inside(model)
    if preparation is not None:
        X = prepared(graph, preparation, columns_in(preparation, operator.inputs))
    else:
        rows = [graph.as_float64(variable.full_name) for variable in operator.inputs]
        X = rows[0] if len(rows) == 1 else graph.node("Concat", *rows, axis=1)
    values = decision_values(graph, inner.expansion_.on_host(), X)
    if is_classifier(model):
        label, *outputs = outputs
        n_classes = len(model.classes_)
        raw = container.get_options(model, {"raw_scores": False})
        calibrator = None if raw["raw_scores"] else getattr(inner, "calibrator_", None)
        _write_labels(graph, values, model.classes_, label.full_name)
        results = []
        if calibrator is not None:
            results.append(_CALIBRATIONS[calibrator.name](graph, calibrator, values, n_classes))
        if len(results) < len(outputs):
            results.append(_class_values(graph, values, n_classes))
    else:
        if getattr(model, "target_transform", None) == "log":
            values = graph.node("Exp", values)
        results = [_clipped(graph, values, getattr(model, "clip_", None))]
    for output, node in zip(outputs, results, strict=True):
        kind = import_optional("skl2onnx.common.data_types").guess_proto_type(output.type)
        graph.node_as(output.full_name, "Cast", node, to=kind)


def _clipped(graph: Graph, values: Node, bounds: Any) -> Node:
    """Predictions (rows, targets) within their bounds (targets, 2); None stands for no bounds."""
    if bounds is None:
        return values
    low, high = np.asarray(bounds, dtype=np.float64).T
    if np.isfinite(low).any():
        values = graph.node("Max", values, graph.constant(low[None]))
    if np.isfinite(high).any():
        values = graph.node("Min", values, graph.constant(high[None]))
    return values


def _label_values(classes: Any) -> Any:
    """The sorted labels as int64 or as text; raise if they are neither."""
    labels = np.asarray(classes).tolist()
    if all(isinstance(label, str) for label in labels):
        return np.array(labels)
    if all(isinstance(label, int | float) and label % 1 == 0 for label in labels) and (
        -(2**63) <= min(labels) <= max(labels) < 2**63
    ):
        return np.array([int(label) for label in labels], dtype=np.int64)
    raise ValueError(
        f"ONNX labels must be 64-bit whole numbers or text, but the classes are {labels!r:.60}; encode "
        "y before fitting, for instance with scikit-learn's LabelEncoder."
    )


def _write_labels(graph: Graph, decision: Node, classes: Any, output: Node) -> None:
    """The label of each row; a decision value of exactly 0 is the first class."""
    if len(classes) == 2:
        second = graph.as_int64(graph.node("Greater", decision, graph.constant(0.0)))
        index = graph.node("Squeeze", second, graph.constant([1]))
    else:
        index = graph.node("ArgMax", decision, axis=1, keepdims=0)
    graph.node_as(output, "Gather", graph.constant(_label_values(classes)), index)


def _class_values(graph: Graph, decision: Node, n_classes: int) -> Node:
    """Decision values, one column per class: (−f, f) of two classes, whose larger one is the label's."""
    if n_classes > 2:
        return decision
    return graph.node("Concat", graph.node("Neg", decision), decision, axis=1)


def _exponential(graph: Graph, calibrator: Any, decision: Node, n_classes: int) -> Node:
    """exp(β f), or exp(β f + δ z) with z the log-odds of (1 + f)/2 within its limits, over the sum."""
    values = _class_values(graph, decision, n_classes)
    unit = graph.constant(1.0)
    steep = graph.node("Mul", values, graph.constant(calibrator.slope))
    if calibrator.name == "temperature":
        return graph.node("Softmax", steep, axis=1)
    share = graph.node("Div", graph.node("Add", values, unit), graph.constant(2.0))
    share = graph.node("Max", share, graph.constant(CERTAINTY))
    share = graph.node("Min", share, graph.constant(1.0 - CERTAINTY))
    odds = graph.node("Log", graph.node("Div", share, graph.node("Sub", unit, share)))
    total = graph.node("Add", steep, graph.node("Mul", odds, graph.constant(calibrator.odds)))
    if calibrator.shift is not None:
        total = graph.node("Sub", total, graph.constant(calibrator.shift[None, :]))
    return graph.node("Softmax", total, axis=1)


def _sigmoid(graph: Graph, calibrator: Any, decision: Node, n_classes: int) -> Node:
    """1 / (1 + exp(−(a f + b))) of every column, normalised."""
    steep = graph.node("Mul", decision, graph.constant(calibrator.slope[None, :]))
    logits = graph.node("Add", steep, graph.constant(calibrator.intercept[None, :]))
    # ONNX Runtime's Sigmoid loses the digits of small values, which are divided by their sum.
    unit = graph.constant(1.0)
    exponentials = graph.node("Exp", graph.node("Neg", logits))
    shares = graph.node("Div", unit, graph.node("Add", unit, exponentials))
    return _one_against_rest(graph, shares, n_classes)


def _isotonic(graph: Graph, calibrator: Any, decision: Node, n_classes: int) -> Node:
    """Straight lines between the corners x_i of every column, constant beyond them."""
    # The last corner x_i ≤ f is found by halving, so that no array is rows × corners. Each column is
    # filled up to a power of two with corners that are never reached.
    steps = max(1, *((len(x) - 1).bit_length() for x in calibrator.inputs))
    shape = len(calibrator.inputs), 2**steps
    x = np.full(shape, np.inf)
    p = np.zeros(shape)
    slope = np.zeros(shape)
    for i, (inputs, outputs) in enumerate(zip(calibrator.inputs, calibrator.outputs)):
        x[i, : len(inputs)] = inputs
        p[i, : len(inputs)] = outputs
        slope[i, : len(inputs) - 1] = np.diff(outputs) / np.diff(inputs)
    ends = [np.array([[inputs[end] for inputs in calibrator.inputs]]) for end in (0, -1)]
    within = graph.node("Min", decision, graph.constant(ends[1]))
    within = graph.node("Max", within, graph.constant(ends[0]))
    table = graph.constant(x.ravel())
    place = graph.constant(2**steps * np.arange(len(x))[None, :])
    for step in reversed(range(steps)):
        further = graph.node("Add", place, graph.constant(2**step))
        reached = graph.node("LessOrEqual", graph.node("Gather", table, further), within)
        place = graph.node("Where", reached, further, place)
    beyond = graph.node("Sub", within, graph.node("Gather", table, place))
    rise = graph.node("Mul", beyond, graph.node("Gather", graph.constant(slope.ravel()), place))
    shares = graph.node("Add", graph.node("Gather", graph.constant(p.ravel()), place), rise)
    return _one_against_rest(graph, shares, n_classes)


def _one_against_rest(graph: Graph, shares: Node, n_classes: int) -> Node:
    """Shares of all classes with sum 1; a single column is that of the second class."""
    if n_classes == 2:
        first = graph.node("Sub", graph.constant(1.0), shares)
        return graph.node("Concat", first, shares, axis=1)
    total = graph.sum_columns(shares)
    none = graph.node("Equal", total, graph.constant(0.0))  # false for NaN, which the shares propagate
    return graph.node("Where", none, graph.constant(1.0 / n_classes), graph.node("Div", shares, total))


# Calibrations by name, from decision values (rows, t), t = 1 for two classes, to (rows, classes).
_CALIBRATIONS: dict[str, Callable[[Graph, Any, Node, int], Node]] = {
    "log_odds": _exponential,
    "temperature": _exponential,
    "sigmoid": _sigmoid,
    "isotonic": _isotonic,
}
