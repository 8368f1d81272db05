r"""Our estimators as ONNX models, alone or at the end of a pipeline: outputs, their types, the nodes.

===========  ==================================  ===================================================
regressors   ``variable``                        f(x), (rows, targets)
classifiers  ``label``                           (rows,), int64 or text
..           ``probabilities`` or ``decision``   (rows, classes), the latter without a calibration
..           ``decision``                        also next to probabilities, by the option ``decision``
===========  ==================================  ===================================================

Estimators of whole tables have the outputs of the estimator inside, and one input per column. All are
converters of skl2onnx, which :func:`to_onnx` uses as pipelines do.
"""

from __future__ import annotations

import json
from typing import Any

from sklearn.base import ClassifierMixin, is_classifier
from sklearn.utils.validation import check_is_fitted

from onefold import estimators
from onefold._version import __version__
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
    of_tables = isinstance(estimator, TableModel)
    check_is_fitted(estimator, "estimator_" if of_tables else "expansion_")
    if dtype not in ("float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64"; got {dtype!r}.')
    if decision and not is_classifier(estimator):
        raise ValueError(
            f"{type(estimator).__name__} predicts its decision values already; leave decision out."
        )
    need("onnx")
    skl2onnx, types = need("skl2onnx"), need("skl2onnx.common.data_types")
    _register(type(estimator))
    number = types.FloatTensorType if dtype == "float32" else types.DoubleTensorType
    if isinstance(estimator, TableModel):
        inputs = [
            (part.name, (types.StringTensorType if part.as_text else number)([None, 1]))
            for part in estimator.preparation_.parts
        ]
    else:
        inputs = [("X", number([None, estimator.n_features_in_]))]
    model = skl2onnx.to_onnx(
        estimator,
        name=type(estimator).__name__,
        initial_types=inputs,
        target_opset=target_opset,
        options={id(estimator): {"decision": True}} if decision else None,
    )
    model.producer_name, model.producer_version = "onefold", __version__
    model.doc_string = f"{type(estimator).__name__} of onefold {__version__}"
    if isinstance(estimator, TableModel):  # the graph's own names have letters, digits and _ alone
        columns = json.dumps(estimator.preparation_.columns, ensure_ascii=False)
        need("onnx.helper").set_model_props(model, {"columns": columns})
    return model


def register_converters() -> None:
    """Let skl2onnx convert our estimators, and pipelines that end in one; a second call changes nothing.

    Probabilities are an array, (rows, classes), whatever skl2onnx's option `zipmap` is. The option
    `decision` asks for decision values in addition, `raw_scores` for these in their place.
    """
    for kind in _KINDS:
        _register(kind)


def _register(kind: Any) -> None:
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


def _machine(model: Any) -> Any:
    """The machine itself: of an estimator of whole tables the one inside."""
    return model.estimator_ if isinstance(model, TableModel) else model


def _classifier_outputs(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The outputs of a classifier; their types and shapes are set later, once the inputs' are known."""
    options = scope.get_options(model, {"raw_scores": False, "decision": False})
    types = need("skl2onnx.common.data_types")
    calibrated = getattr(_machine(model), "calibrator_", None) is not None
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
    """Types and shapes of the outputs; raise where the model or its inputs do not suit."""
    model, types = operator.raw_operator, need("skl2onnx.common.data_types")
    check_is_fitted(model, "estimator_" if isinstance(model, TableModel) else "expansion_")
    function, inputs = _machine(model).expansion_, [one.type for one in operator.inputs]
    check_function(function)
    if isinstance(model, TableModel):
        check_preparation(model.preparation_)
        _columns_in(model, operator.inputs)
        # Numbers go out as they come in; float64 of a table of text alone.
        short = any(isinstance(kind, types.FloatTensorType) for kind in inputs)
        number = types.FloatTensorType if short else types.DoubleTensorType
    else:
        _check_inputs(model, inputs, types)
        number = type(types.guess_tensor_type(inputs[0]))
    rows = operator.inputs[0].get_first_dimension()
    if not is_classifier(model):
        operator.outputs[0].set_type(number([rows, function.n_targets]))
        return
    text = label_values(model.classes_).dtype.kind == "U"
    operator.outputs[0].set_type((types.StringTensorType if text else types.Int64TensorType)([rows]))
    for output in operator.outputs[1:]:
        output.set_type(number([rows, len(model.classes_)]))


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
        if isinstance(by_name[part.name].type, types.StringTensorType) != part.as_text:
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
    machine, outputs = _machine(model), operator.outputs
    values = decision_values(graph, machine.expansion_.on_host(), X)

    def write(what: Node, output: Any) -> None:
        kind = need("skl2onnx.common.data_types").guess_proto_type(output.type)
        graph.cast(what, kind, output.full_name)

    if not is_classifier(model):
        logarithm = getattr(model, "target_transform", None) == "log"
        write(graph.node("Exp", values) if logarithm else values, outputs[0])
        return
    n_classes = len(model.classes_)
    write_labels(graph, values, model.classes_, outputs[0].full_name)
    raw = container.get_options(model, {"raw_scores": False})["raw_scores"]
    calibrator = None if raw else getattr(machine, "calibrator_", None)
    if calibrator is None:
        write(class_values(graph, values, n_classes), outputs[1])
    else:
        write(probabilities(graph, calibrator, values, n_classes), outputs[1])
    if len(outputs) > 2:
        write(class_values(graph, values, n_classes), outputs[2])
