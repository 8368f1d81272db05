"""How values look in the metadata of a model file: JSON beside a dict of NumPy arrays.

Plain JSON values stand for themselves. Everything else is an object with one key that begins with
a dollar sign and says how to read it:

=============  =====================================================================
``$array``     name of a numeric array; ``order`` "F" if it is stored transposed
``$text``      a string array, as an array of code points with one axis more
``$objects``   items and shape of an object array
``$masked``    data, mask and fill value of a masked array
``$csr``       a SciPy CSR matrix or array
``$scalar``    a NumPy scalar
``$float``     nan, inf or -inf, for which JSON has no number
``$tuple``     a tuple
``$dict``      key and value pairs, where some key is not a string
``$slice``     start, stop and step of a slice
``$dtype``     a NumPy dtype
``$type``      a NumPy scalar type, or one of Python's own for numbers
``$object``    an instance of a registered class
``$dropped``   a constructor parameter that could not be saved, as its repr
=============  =====================================================================

Keys of ordinary dicts that begin with a dollar sign get a second one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Node = Any  # a JSON value: None, bool, int, float, str, list or dict of such

MAX_DEPTH = 100  # values inside values; stops cyclic lists and files built to exhaust the stack

# The array types of a file: the name in the safetensors header -> the name in NumPy.
ARRAY_DTYPES = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F16": "float16",
    "F32": "float32",
    "F64": "float64",
}
SCALAR_NAMES = frozenset(ARRAY_DTYPES.values()) | {"str"}

# The types that a parameter such as the dtype of an encoder may be.
TYPES: dict[str, type] = {
    **{name: np.dtype(name).type for name in ARRAY_DTYPES.values()},
    **{f"python {kind.__name__}": kind for kind in (bool, int, float, object)},
}
TYPE_NAMES = {kind: name for name, kind in TYPES.items()}
