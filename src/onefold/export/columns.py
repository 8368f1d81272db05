r"""The preparation of a table as nodes of a graph: one input per column, one matrix out.

Numeric columns are numbers, NaN where missing; all others are text, "" where missing. The texts of a
column are looked up by ONNX's LabelEncoder, which has a code for each known text, one for unknown texts
and one for missing ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onefold.export.graph import Graph, Node, import_optional
from onefold.tables.kinds import (
    BOOLEANS,
    HALF,
    BooleanColumn,
    CategoryColumn,
    Column,
    NumberColumn,
    Preparation,
    boolean_of,
)


def columns_in(preparation: Preparation, inputs: Any) -> dict[str, Node]:
    """The inputs of a graph by column; raise if one is missing or has the wrong type."""
    text = import_optional("skl2onnx.common.data_types").StringTensorType
    by_name = {o.raw_name: o for o in inputs}
    for part in preparation.parts:
        if type(part) not in _NODES:
            raise ValueError(
                f"column '{part.name}' holds {part.label}, for which ONNX has no type; fit with the "
                "column dropped or converted to numbers, or export the inner estimator with "
                "estimator_.to_onnx() and pass it the rows of matrix(X)."
            )
        if part.name not in by_name:
            raise ValueError(
                f"the graph has no input '{part.name}', a column that the model needs; give it an "
                f"input of shape (rows, 1) for each of {', '.join(preparation.columns)}."
            )
        if isinstance(by_name[part.name].type, text) != part.as_text:
            expected = "text" if part.as_text else "numbers"
            raise ValueError(
                f"the input '{part.name}' of the graph must be {expected}; change its type."
            )
    return {name: variable.full_name for name, variable in by_name.items()}


def prepared(graph: Graph, preparation: Preparation, inputs: Mapping[str, Node]) -> Node:
    """The matrix, float64 (rows, features), of columns (rows, 1)."""
    fill = preparation.missing == "impute"
    features = []  # else missing values are NaN
    for part in preparation.parts:
        values, absent = _NODES[type(part)](graph, part, inputs[part.name], fill)
        features += [] if values is None else [values]
        features += [graph.as_float64(absent)] if part.missing else []
    return features[0] if len(features) == 1 else graph.node("Concat", *features, axis=1)


def _numbers(graph: Graph, part: NumberColumn, column: Node, fill: bool) -> tuple[Node, Node]:
    """(x − mean) / scale, the median for missing ones."""
    values = graph.as_float64(column)
    absent = graph.node("IsNaN", values)
    if fill:
        values = graph.node("Where", absent, graph.constant(part.median), values)
    centred = graph.node("Sub", values, graph.constant(part.mean))
    return graph.node("Div", centred, graph.constant(part.scale)), absent


def _categories(graph: Graph, part: CategoryColumn, column: Node, fill: bool) -> tuple[Node, Node]:
    """One indicator per category, and one for rare categories if there are any."""
    places = {word: place for place, word in enumerate(part.categories)}
    codes, absent = _codes(graph, column, places)
    if fill:
        codes = graph.node("Where", absent, graph.constant(places[part.most_frequent]), codes)
    indicated = [*range(len(places)), *([-1] if part.rare else [])]
    same = graph.node("Equal", codes, graph.constant(np.array(indicated)[None, :]))
    values = graph.as_float64(same)
    return (values if fill else graph.node("Where", absent, graph.constant(np.nan), values)), absent


def _booleans(graph: Graph, part: BooleanColumn, column: Node, fill: bool) -> tuple[Node, Node]:
    """False and true as −½√2 and ½√2, other texts as 0."""
    # Lower case, upper case and capitalised; a graph cannot ignore the case of other spellings.
    forms = {form for word in BOOLEANS for form in (word, word.upper(), word.capitalize())}
    places = {form: int(truth) for form in sorted(forms) if (truth := boolean_of(form)) is not None}
    codes, absent = _codes(graph, column, places)
    gap = (HALF if part.most_frequent else -HALF) if fill else np.nan
    levels = graph.constant(np.array([-HALF, HALF, gap, 0.0]))  # codes −2 and −1 count from the end
    return graph.node("Gather", levels, codes), absent


def _codes(graph: Graph, column: Node, places: Mapping[str, int]) -> tuple[Node, Node]:
    """The place of each text, −1 if it is unknown and −2 if it is missing; and which are missing."""
    codes = graph.node(
        "LabelEncoder",
        column,
        op_domain="ai.onnx.ml",
        op_version=2,
        keys_strings=[*places, ""],
        values_int64s=[*places.values(), -2],
        default_int64=-1,
    )
    return codes, graph.node("Equal", codes, graph.constant(-2))


_NODES: dict[type[Column], Callable[[Graph, Any, Node, bool], tuple[Node | None, Node]]] = {
    NumberColumn: _numbers,
    BooleanColumn: _booleans,
    CategoryColumn: _categories,
    Column: lambda graph, part, column, fill: (None, _codes(graph, column, {})[1]),
}
