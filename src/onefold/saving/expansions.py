"""Can an expansion be evaluated, and are its values finite? And how a blend of them lies in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.expansions import Blend, Expansion
from onefold.expansions.grid import LARGEST_DIMENSION
from onefold.kernels import Kernel, Precomputed
from onefold.linalg import all_finite, is_foreign, is_sparse
from onefold.saving.errors import NONSENSE, BadContent

_LARGEST = 1e300  # sums of a few such numbers are still finite


def check_expansion(expansion: Any) -> None:
    """Raise BadContent unless f(x) is finite at rows of the expansion's own.

    Shapes were compared by its constructor.
    """
    _check_numbers(expansion.intercept, "the intercepts")
    for _, part in expansion.parts:
        if not isinstance(part.kernel, Kernel):
            raise BadContent("the kernel of its expansion is not a kernel")
        _check_numbers(part.coef, "the coefficients")
        _check_numbers(part.intercept, "the intercepts")
        if part.n_centres == 0 or part.n_targets == 0:
            raise BadContent("its expansion is empty")
    expansion = expansion.on_host()
    try:
        tried = [_rows_of(part) for _, part in expansion.parts]
        with np.errstate(all="ignore"):
            numbers = [np.abs(expansion.intercept, dtype=np.float64)]
            for weight, part in expansion.parts:
                reach = np.abs(part.coef).sum(axis=0, dtype=np.float64)
                numbers.append(weight * (reach + np.abs(part.intercept, dtype=np.float64)))
            values = [expansion.predict(rows, 1) for rows in tried]
    except BadContent:
        raise
    except NONSENSE as error:
        raise BadContent(f"its expansion cannot be evaluated ({error!s:.200})") from error
    small = all(np.all(reach <= _LARGEST) for reach in numbers)
    if not small or not all(np.isfinite(found).all() for found in values):
        raise BadContent("its expansion gives infinite or undefined values")


def shared_members(expansions: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The centres of several expansions, each once, and the expansions without them."""
    own = [member.centres for member in expansions if isinstance(member, Expansion)]
    centres = list({id(rows): rows for rows in own}.values())
    numbers = {id(rows): i for i, rows in enumerate(centres)}
    members = [
        {
            "kernel": member.kernel,
            "centres": numbers[id(member.centres)],
            "coef": member.coef,
            "intercept": member.intercept,
        }
        if isinstance(member, Expansion)
        else member
        for member in expansions
    ]
    return centres, members


def build_members(centres: list[Any], members: list[Any]) -> list[Any]:
    """The expansions behind `shared_members`; what was shared is so again."""
    used = {member["centres"] for member in members if type(member) is dict}
    if {type(number) for number in used} - {int} or used != set(range(len(centres))):
        raise BadContent("the members of its blend do not fit its centres")
    return [
        Expansion(**{**member, "centres": centres[member["centres"]]})
        if type(member) is dict
        else member
        for member in members
    ]


def blend_fields(blend: Blend) -> dict[str, Any]:
    """What is written of a blend: centres that its members share only once."""
    centres, members = shared_members(blend.members)
    given = {"weights": blend.weights, "intercept": blend.intercept}
    return {"centres": centres, "members": members, **given}


def build_blend(centres: list[Any], members: list[Any], weights: Any, intercept: Any) -> Blend:
    """The blend behind `blend_fields`."""
    return Blend(tuple(build_members(centres, members)), weights, intercept)


def _check_numbers(value: Any, what: str) -> None:
    if not (type(value) is np.ndarray or is_sparse(value) or is_foreign(value)):
        raise BadContent(f"{what} of its expansion are not an array")
    if not is_foreign(value) and value.dtype.kind != "f":
        raise BadContent(f"{what} of its expansion have dtype {value.dtype}, not floating point")
    if not all_finite(value):
        raise BadContent(f"{what} of its expansion are not all finite")


def _rows_of(part: Any) -> Any:
    return _rows_of_grid(part) if hasattr(part, "counts") else _rows_of_centres(part)


def _rows_of_centres(expansion: Any) -> Any:
    """Some centres: the first, the last, and those that reach furthest."""
    kernel, centres = expansion.kernel, expansion.centres
    if (centres is None) != isinstance(kernel, Precomputed):
        raise BadContent("its expansion has centres without need, or lacks them")
    if centres is None:
        return np.stack([np.ones(expansion.n_centres), np.eye(1, expansion.n_centres)[0]])
    _check_numbers(centres, "the centres")
    if centres.ndim != 2 or centres.shape[1] == 0:
        raise BadContent("the centres of its expansion are not a table of rows")
    if is_sparse(centres) and not kernel.accepts_sparse:
        raise BadContent("its centres are sparse and its kernel takes dense rows only")
    kernel.check_features(centres.shape[1])
    # Largest |entry| of each row, without a copy of the centres.
    ends = [centres.max(axis=1), centres.min(axis=1)]
    most, least = (end.toarray().ravel() if is_sparse(end) else end for end in ends)
    widest = np.maximum(most, -least)
    return centres[[0, centres.shape[0] - 1, int(np.argmax(widest)), int(np.argmin(widest))]]


def _rows_of_grid(expansion: Any) -> Any:
    """The middle of the grid, where f is interpolated, and a place beyond each end."""
    counts = expansion.counts
    if type(counts) is not tuple or not 1 <= len(counts) <= LARGEST_DIMENSION:
        raise BadContent("the grid of its expansion has no or too many axes")
    for name in ("lower", "step", "values"):
        _check_numbers(getattr(expansion, name), f"the {name}")
    if float(np.abs(expansion.values).max()) > _LARGEST:
        raise BadContent("the values on its grid are too large")
    if not (expansion.step > 0).all():
        raise BadContent("the steps of its grid are not all positive")
    expansion.kernel.check_features(len(counts))
    reach = expansion.step * np.array(counts)
    shares = np.array([0.5, -0.5, 1.5])
    return expansion.lower + shares[:, None] * reach
