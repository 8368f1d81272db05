"""The one list of approximations: their names, saved files and the command line all read it."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from onefold.approximations.base import Approximation

Class = TypeVar("Class", bound="type[Approximation]")

_BY_NAME: dict[str, type[Approximation]] = {}


def register(cls: Class) -> Class:
    """Let an approximation be asked for by its name, saved and loaded; usable as a decorator.

    Its settings are those of a dataclass, and all have defaults. It must be registered again before a
    file that names it is loaded.
    """
    from onefold.approximations.base import Approximation  # which reads the registry

    name, derived = getattr(cls, "name", None), isinstance(cls, type) and issubclass(cls, Approximation)
    if not derived or not is_dataclass(cls) or not isinstance(name, str):
        raise TypeError(
            f"{cls!r} cannot be registered: make it a dataclass derived from Approximation, with a name."
        )
    try:
        cls()
    except TypeError as error:
        raise TypeError(
            f"{cls!r} cannot be registered ({error}); define its model, and give all settings defaults."
        ) from error
    for other in _BY_NAME.values():
        same = (other.__module__, other.__qualname__) == (cls.__module__, cls.__qualname__)
        if not same and (other.name == name or other.__name__ == cls.__name__):
            raise ValueError(
                f"another approximation is registered as {other.name!r}, {other.__name__}; "
                "rename this one."
            )
    _BY_NAME[name] = cls
    return cls


def registered() -> dict[str, type[Approximation]]:
    """Every approximation by its name, in alphabetical order."""
    return dict(sorted(_BY_NAME.items()))
