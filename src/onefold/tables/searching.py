"""What is searched: kernels, a learned metric and a blend, or the plain search where they do not go.

By default the kernels of ``"auto"`` compete, each with a learned metric, and the best are blended. Where
another parameter does not go with that, the defaults ``metric="auto"`` and ``blend="auto"`` give way,
with a note; what was asked for by name is refused instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onefold.facts.criteria import WHOLE
from onefold.kernels import Kernel, resolve_kernel
from onefold.search.strategies import resolve_strategy
from onefold.tables.errors import Remedy, TableError, listing

KERNELS = (
    "rbf", "laplacian", "matern", "matern12", "matern32", "matern52", "polynomial", "linear",
)  # fmt: skip
AUTO, PLAIN = "auto", "rbf"
_OF_ONE_KERNEL = ("toeplitz", "circulant", "grid")  # approximations by order or place of the rows


@dataclass(frozen=True)
class Search:
    """What an estimator chooses among, and what the defaults had to give up (`note`)."""

    kernel: Any  # one is the plain search; "auto" and lists are families
    metric: str | None = None
    blend: bool = False
    note: str | None = None

    def parameters(self) -> dict[str, Any]:
        """The parameters of an estimator that chooses."""
        return {"kernel": self.kernel, "metric": self.metric, "blend": self.blend}

    def as_plain(self) -> dict[str, Any]:
        """The same in plain values, for a report."""
        names = self.kernel if isinstance(self.kernel, list) else [self.kernel]
        found = {"kernels": [str(one) for one in names], "metric": self.metric or "none"}
        return found | {"blend": self.blend, "note": self.note}


def search_of(model: Any, *, on_disk: bool = False) -> Search:
    """What the parameters of a table's estimator mean for such rows; raise where they do not agree."""
    found = _search_of(model, on_disk)
    if model.search != "grid" and found.metric is not None:
        raise TableError(
            f"search {model.search!r} goes through a grid of kernels as they are, and a metric is "
            "learned in rounds of its own",
            [Remedy("simple", True), Remedy("metric", "none"), "leave search out"],
        )
    if model.search != "grid" and found.blend:
        raise TableError(
            f"search {model.search!r} leaves out kernels that a blend needs; leave one of the two out"
        )
    if getattr(model, "intervals", None) == "jackknife+" and (found.metric is not None or found.blend):
        raise TableError(
            "intervals 'jackknife+' leave single rows out of one kernel as it is, without a learned "
            "metric or a blend",
            [Remedy("simple", True), Remedy("intervals", "cv+")],
        )
    return found


def named_kernels(model: Any) -> list[Any]:
    """The kernels that were named, each once; none for "auto"."""
    given = model.kernel
    given = list(given) if isinstance(given, list | tuple) else [given]
    found = [one for i, one in enumerate(given) if one not in given[:i]]
    return [] if found == [AUTO] else found


def check_kernels(model: Any) -> None:
    """Raise for kernels and strategies of a search that there are not."""
    if not isinstance(model.kernel, str | list | tuple | Kernel) and not callable(model.kernel):
        raise ValueError(f"kernel must be a name or a list of names; got {model.kernel!r}")
    for one in named_kernels(model) or ([] if model.kernel == AUTO else [""]):
        if isinstance(one, str) and one not in KERNELS:
            raise ValueError(
                f"there is no kernel {one!r} to choose; use auto alone, or one or several of "
                f"{', '.join(KERNELS)}"
            )
    resolve_strategy(model.search)


def _search_of(model: Any, on_disk: bool) -> Search:
    named = named_kernels(model)
    kernels = [resolve_kernel(one, 1.0, 3, 1.0) for one in named]
    if model.gammas is not None and kernels and not any(kernel.has_width for kernel in kernels):
        raise ValueError(f"the {named[0]} kernel has no width: leave gammas out")
    if model.simple:
        return _plain(model, named)
    why = _obstacle(model, on_disk)
    if why is not None:
        return _without_metric(model, named, why, on_disk)
    kinds = {kind for kernel in kernels for kind in kernel.learns}
    learns = not kernels or bool(kinds)
    asked = model.metric if model.metric in ("diagonal", "full") else None
    if kernels and asked is not None and asked not in kinds:
        raise ValueError(
            f"no kernel of {listing(map(str, named))} learns a {asked} metric; rbf and matern learn a "
            "diagonal or a full one, laplacian a diagonal one"
        )
    metric = None if model.metric in (None, "none") or not learns else model.metric
    alone = len(kernels) == 1 and metric is None  # there is nothing to blend it with
    one = alone or (metric is None and model.search != "grid")
    blend = not one if model.blend == "auto" else model.blend
    gave_way = one and not alone and model.blend == "auto"
    note = f"no blend: search {model.search!r} keeps one kernel" if gave_way else None
    return Search(named or AUTO, metric, blend, note)


def _plain(model: Any, named: list[Any]) -> Search:
    """The search of ``simple=True``."""
    for option, given in {
        "several kernels": len(named) > 1,
        "a learned metric": model.metric in ("diagonal", "full"),
        "a blend": model.blend is True,
    }.items():
        if given:
            raise ValueError(f"simple searches one kernel as it is, without {option}; leave one out")
    return Search(named[0] if named else PLAIN)


def _obstacle(model: Any, on_disk: bool) -> str | None:
    """Why nothing can be learned from, or blended by, held-out predictions of folds."""
    if on_disk:
        return "the rows of this table stay on disk"
    if model.approximation in _OF_ONE_KERNEL:
        return f"the approximation {model.approximation!r} takes kernels as they are"
    if isinstance(model.cv, str) and model.cv == "loo":
        return "leave-one-out holds out single rows, not folds"
    if isinstance(model.criterion, str) and model.criterion in WHOLE:
        return f"the criterion {model.criterion!r} holds out no rows"
    return None


def _without_metric(model: Any, named: list[Any], why: str, on_disk: bool) -> Search:
    """What is left of a search that can have neither metric nor blend."""
    for option, given in {
        f"a {model.metric} metric": model.metric in ("diagonal", "full"),
        "a blend": model.blend is True,
    }.items():
        if given:
            raise ValueError(f"{option} is not possible, as {why}; leave one of them out")
    one_kernel = on_disk or model.approximation in _OF_ONE_KERNEL
    if one_kernel and len(named) <= 1:
        kernel = named[0] if named else PLAIN
        return Search(kernel, note=f"plain search of the {kernel} kernel: {why}")
    return Search(named or AUTO, note=f"no metric and no blend: {why}")
