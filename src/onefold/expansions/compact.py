"""Expansions of rows that are mostly indicators: their centres as CSR.

A column of text becomes as many indicators as it has categories, one of which is 1 in each row. As an
array, every centre takes 8 bytes of each of them, and every kernel value a multiplication; as CSR it
takes 12 bytes of each number that is not 0, and products are those of `onefold.linalg.indicators`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from onefold.expansions.kernel import Expansion
from onefold.expansions.sums import Blend, FoldModels, Member
from onefold.kernels import Kernel, Laplacian, Linear, Polynomial, Product, Radial, Sum

# Fewest columns with which products of CSR centres are faster: with fewer, a kernel value takes longer
# than the product that it is computed from. Measured with one and with several columns of categories: as
# fast at 36 columns, 1.5 times as fast at 68, 16 times at 800.
_FEWEST_COLUMNS = 64
# Largest share of the numbers that may differ from 0: at it, the centres take a tenth of the bytes.
# Measured at 1/50, where products of ten columns of categories are five times as fast as those of
# arrays, and at 1/10, where they are as fast.
_LARGEST_SHARE = 1 / 16


def with_sparse_centres(functions: Sequence[Any]) -> list[Any]:
    """Functions of the same rows, expansions, blends or fold models, with CSR centres where that pays.

    All or none of them; centres that several share are shared afterwards. None stays None.
    """
    members = [member for function in functions for member in _members(function)]
    distinct = {id(member.centres): member.centres for member in members if type(member) is Expansion}
    if not all(map(_can_be_sparse, members)) or not all(map(_is_sparse_enough, distinct.values())):
        return list(functions)
    converted = {key: csr_array(centres) for key, centres in distinct.items()}
    return [_converted(function, converted) for function in functions]


def _members(function: Any) -> Sequence[Member]:
    if function is None:
        return ()
    if isinstance(function, FoldModels):
        return function.terms
    return [part for _, part in function.parts]


def _converted(function: Any, converted: dict[int, Any]) -> Any:
    if isinstance(function, Blend):
        return replace(function, members=tuple(_converted(f, converted) for f in function.members))
    if isinstance(function, FoldModels):
        return replace(function, terms=tuple(_converted(f, converted) for f in function.terms))
    return None if function is None else replace(function, centres=converted[id(function.centres)])


def _can_be_sparse(member: Member) -> bool:
    """Whether a member has its centres in an array, and a kernel that takes CSR centres."""
    if type(member) is not Expansion or not isinstance(member.centres, np.ndarray):
        return False
    return _takes_sparse_centres(member.kernel)


def _takes_sparse_centres(kernel: Kernel) -> bool:
    """Whether a kernel is one of onefold's: a function of the user may need arrays."""
    if isinstance(kernel, Sum | Product):
        return _takes_sparse_centres(kernel.left) and _takes_sparse_centres(kernel.right)
    return isinstance(kernel, Radial | Laplacian | Linear | Polynomial)


def _is_sparse_enough(centres: np.ndarray) -> bool:
    if centres.shape[1] < _FEWEST_COLUMNS:
        return False
    return int(np.count_nonzero(centres)) <= _LARGEST_SHARE * centres.size
