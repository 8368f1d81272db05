r"""Our estimators among those that skl2onnx converts: outputs, their types and shapes, the nodes.

===========  ==================================  ===================================================
regressors   ``variable``                        f(x), (rows, targets)
classifiers  ``label``                           (rows,), int64 or text
..           ``probabilities`` or ``decision``   (rows, classes), the latter without a calibration
..           ``decision``                        also beside probabilities, by the option ``decision``
===========  ==================================  ===================================================

Estimators of whole tables have the outputs of the estimator inside, and one input per column.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import ClassifierMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from onefold.estimators import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
)
from onefold.estimators.base import KernelMachine
from onefold.export.classes import class_values, label_values, probabilities, write_labels
from onefold.export.columns import check_preparation, prepared
from onefold.export.functions import check_function, decision_values
from onefold.export.graph import Graph, Node, need
from onefold.tables import TableClassifier, TableModel, TableRegressor

FIRST_OPSET = 13  # from which on sums and shapes are given as these graphs give them
# Pipelines of skl2onnx set the first, its estimators around ours the second.
_OPTIONS = {"zipmap": [True, False], "raw_scores": [True, False], "decision": [True, False]}
_KINDS = (
    *(LSSVC, LSSVR, KernelRidge, LSSVCCV, LSSVRCV, KernelRidgeCV, SparseLSSVC, SparseLSSVR),
    *(TableClassifier, TableRegressor),
)


def register_converters() -> None:
    """Let skl2onnx convert our estimators, and pipelines that end in one; a second call changes nothing.

    Probabilities are an array, (rows, classes), whatever skl2onnx's option `zipmap` is. The option
    `decision` asks for decision values beside them, `raw_scores` for these in their place.
    """
    for kind in _KINDS:
        register(kind)


def register(kind: type[KernelMachine | TableModel]) -> None:
    """The same for one class of estimators, which may be derived from one of ours."""
    classifier = issubclass(kind, ClassifierMixin)
    need("skl2onnx").update_registered_converter(
        kind,
        f"Onefold{kind.__name__}",
        _shapes,
        _convert,
        options=dict(_OPTIONS) if classifier else None,
        parser=_classifier_outputs if classifier else None,
    )


def _classifier_outputs(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The outputs of a classifier; their types and shapes are set later, once the inputs' are known."""
    options = scope.get_options(model, {"raw_scores": False, "decision": False})
    types = need("skl2onnx.common.data_types")
    names = ["decision" if options["raw_scores"] or _calibrator(model) is None else "probabilities"]
    if options["decision"] and names != ["decision"]:
        names.append("decision")
    operator = scope.declare_local_operator(f"Onefold{type(model).__name__}", model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable("label", types.Int64TensorType()))
    for name in names:
        operator.outputs.append(scope.declare_local_variable(name, types.FloatTensorType()))
    return operator.outputs


def machine_in(model: Any) -> Any:
    """The machine itself: of an estimator of whole tables the one inside."""
    return model.estimator_ if isinstance(model, TableModel) else model


def _calibrator(model: Any) -> Any:
    return getattr(machine_in(model), "calibrator_", None)


def _shapes(operator: Any) -> None:
    """Types and shapes of the outputs; raise where the model or its inputs do not suit."""
    model, types = operator.raw_operator, need("skl2onnx.common.data_types")
    check_is_fitted(model, "estimator_" if isinstance(model, TableModel) else "expansion_")
    machine = machine_in(model)
    check_function(machine.expansion_)
    if isinstance(model, TableModel):
        check_preparation(model.preparation_)
        _columns_in(model, operator.inputs)
    else:
        _check_inputs(model, [one.type for one in operator.inputs], types)
    rows = operator.inputs[0].get_first_dimension()
    kind = _type_out(model, [one.type for one in operator.inputs], types)
    if not is_classifier(model):
        operator.outputs[0].set_type(kind([rows, machine.expansion_.n_targets]))
        return
    text = label_values(model.classes_).dtype.kind == "U"
    operator.outputs[0].set_type((types.StringTensorType if text else types.Int64TensorType)([rows]))
    for output in operator.outputs[1:]:
        output.set_type(kind([rows, len(model.classes_)]))


def _type_out(model: Any, kinds: list[Any], types: Any) -> Any:
    """The type of numbers that go out: that of those that come in; float64 of a table of text alone."""
    if isinstance(model, TableModel):
        short = any(isinstance(kind, types.FloatTensorType) for kind in kinds)
        return types.FloatTensorType if short else types.DoubleTensorType
    return type(types.guess_tensor_type(kinds[0]))


def _columns_in(model: Any, inputs: Any) -> dict[str, Any]:
    """The inputs of a graph by the columns that they are; raise where one is missing or of no use."""
    types = need("skl2onnx.common.data_types")
    by_name = {one.raw_name: one for one in inputs}
    for part in model.preparation_.parts:
        if part.name not in by_name:
            raise ValueError(
                f"the graph has no input '{part.name}', a column that the model needs; give it one "
                f"input (rows, 1) for each of {', '.join(model.preparation_.columns)}."
            )
        text = isinstance(by_name[part.name].type, types.StringTensorType)
        if text != part.as_text:
            wanted = "text" if part.as_text else "numbers"
            raise ValueError(f"the input '{part.name}' of the graph must be {wanted}; change its type.")
    return by_name


def _check_inputs(model: Any, kinds: list[Any], types: Any) -> None:
    numbers = (types.FloatTensorType, types.DoubleTensorType, types.Int64TensorType)
    if not all(
        isinstance(kind, (*numbers, types.BooleanTensorType, types.Int32TensorType)) for kind in kinds
    ):
        raise ValueError(
            f"{type(model).__name__} takes numbers, and its input in the graph is of the type "
            f"{type(kinds[0]).__name__}; encode text in a step of the pipeline before it."
        )
    known = [kind.shape[1] for kind in kinds if len(kind.shape) == 2 and kind.shape[1]]
    if len(known) == len(kinds) and sum(known) != model.n_features_in_:
        raise ValueError(
            f"{type(model).__name__} was fitted to {model.n_features_in_} features, and its input in "
            f"the graph has {sum(known)}; give the shape of the rows that it was fitted to."
        )


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """The nodes between inputs and outputs."""
    model, graph, onnx = operator.raw_operator, Graph(scope, container), need("onnx")
    opset = container.target_opset_any_domain("")
    if opset < FIRST_OPSET:
        raise ValueError(f"the graph needs opset {FIRST_OPSET} at least; got target_opset={opset}.")
    if isinstance(model, TableModel):
        columns = {name: one.full_name for name, one in _columns_in(model, operator.inputs).items()}
        X = prepared(graph, model.preparation_, columns)
    else:
        rows = [graph.cast(one.full_name, onnx.TensorProto.DOUBLE) for one in operator.inputs]
        X = rows[0] if len(rows) == 1 else graph.node("Concat", *rows, axis=1)
    values = decision_values(graph, machine_in(model).expansion_.on_host(), X)
    outputs = operator.outputs
    if is_classifier(model):
        write_labels(graph, values, model.classes_, outputs[0].full_name)
        raw = container.get_options(model, {"raw_scores": False})["raw_scores"]
        _write(graph, _second(graph, model, values, raw), outputs[1])
        if len(outputs) > 2:
            _write(graph, class_values(graph, values, len(model.classes_)), outputs[2])
    else:
        logarithm = getattr(model, "target_transform", None) == "log"
        _write(graph, graph.node("Exp", values) if logarithm else values, outputs[0])


def _second(graph: Graph, model: Any, values: Node, raw: bool) -> Node:
    """Probabilities where they are calibrated and not unwanted, otherwise the decision values."""
    calibrator = None if raw else _calibrator(model)
    if calibrator is None:
        return class_values(graph, values, len(model.classes_))
    return probabilities(graph, calibrator, values, len(model.classes_))


def _write(graph: Graph, values: Node, output: Any) -> None:
    kind = need("skl2onnx.common.data_types").guess_proto_type(output.type)
    graph.cast(values, kind, output.full_name)
