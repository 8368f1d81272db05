"""What can be wrong with a model file, and with a value one tries to save."""

from __future__ import annotations

DAMAGED = "save the model again or fetch a fresh copy of the file"
UPGRADE = "upgrade with `pip install --upgrade onefold`"

# What constructors and checks may raise when they are handed nonsense by a damaged file.
NONSENSE = (
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    LookupError,
    RecursionError,
    MemoryError,
)


class ModelFileError(ValueError):
    """A file that is not a usable onefold model; the message says why and what to do."""


class CannotSave(TypeError):
    """A value that a model file has no room for, such as a Python function."""


class BadContent(ValueError):
    """What a reader found wrong inside a file; becomes a `ModelFileError` once the path is known.

    Parameters
    ----------
    cause : str
        What is wrong, without the path.
    remedy : str
        What the user can do about it.
    """

    def __init__(self, cause: str, remedy: str = DAMAGED) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy
