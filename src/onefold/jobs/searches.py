"""What is searched: kernels, a learned metric and a blend, or the plain search where they do not go.

Without being told, a job chooses among the kernels of ``"auto"``, each with a learned metric, and blends
the best. Where a setting does not go with that, the default gives way, with a note; what was asked for
by name is refused instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onefold.jobs.criterion import WHOLE
from onefold.jobs.settings import Settings
from onefold.kernels import Kernel, resolve_kernel
from onefold.tables.errors import listing, setting

AUTO, PLAIN = "auto", "rbf"
_OF_ONE_KERNEL = ("toeplitz", "circulant", "grid")  # approximations by order or place of the rows


@dataclass(frozen=True)
class Search:
    """What an estimator is told to choose among.

    Attributes
    ----------
    kernel : str or list of str
        One name is the plain search; "auto" and lists are families.
    metric : {"diagonal", "full", "auto"} or None
    blend : bool
    note : str or None
        What the default had to give up, and why.
    """

    kernel: str | list[str]
    metric: str | None = None
    blend: bool = False
    note: str | None = None

    @property
    def plain(self) -> bool:
        """Whether it is one kernel over a grid of absolute widths."""
        return isinstance(self.kernel, str) and self.kernel != AUTO

    def parameters(self) -> dict[str, Any]:
        """The parameters of an estimator that chooses."""
        return {"kernel": self.kernel, "metric": self.metric, "blend": self.blend}

    def as_plain(self) -> dict[str, Any]:
        """The same in plain values, for a report."""
        names = [self.kernel] if isinstance(self.kernel, str) else list(self.kernel)
        found = {"kernels": names, "metric": self.metric or "none", "blend": self.blend}
        return found | {"note": self.note}


def search_of(settings: Settings, *, on_disk: bool = False) -> Search:
    """What the settings mean for such rows; refuse what does not go together."""
    found = _search_of(settings, on_disk)
    asked = setting("search", settings.search)
    if settings.search != "grid" and found.metric is not None:
        raise ValueError(
            f"{asked} goes through a grid of kernels as they are, and a metric is learned in rounds of "
            "its own; add simple=True or metric='none', or leave search out"
        )
    if settings.search != "grid" and found.blend:
        raise ValueError(
            f"{asked} does not evaluate every kernel as a blend wants it; leave blend=True or search out"
        )
    return found


def _search_of(settings: Settings, on_disk: bool) -> Search:
    named = settings.kernel_names()
    kernels = {name: _kernel(name) for name in named if name != AUTO}
    _check_widths(settings, kernels)
    if settings.simple:
        return _plain(settings, named)
    why = _obstacle(settings, on_disk)
    if why is not None:
        return _without_metric(settings, named, why, on_disk)
    kinds = {kind for kernel in kernels.values() for kind in kernel.learns}
    learns = not kernels or bool(kinds)
    metric = None if settings.metric == "none" or not learns else settings.metric or "auto"
    if kernels and settings.metric in ("diagonal", "full", "auto") and not kinds & _meant(metric):
        raise ValueError(
            f"no kernel of {listing(named)} learns what {setting('metric', settings.metric)} asks for; "
            "rbf and matern learn a diagonal or a full one, laplacian a diagonal one"
        )
    alone = len(kernels) == 1 and metric is None  # there is nothing to blend it with
    one = alone or (metric is None and settings.search != "grid")
    blend = not one if settings.blend is None else settings.blend
    gave_way = one and not alone and settings.blend is None
    note = f"no blend: {setting('search', settings.search)} keeps one kernel" if gave_way else None
    return Search(list(kernels) or AUTO, metric, blend, note)


def _kernel(name: str) -> Kernel:
    return resolve_kernel(name, 1.0, 3, 1.0)


def _meant(metric: str | None) -> set[str]:
    """The kinds of metric that a setting stands for."""
    return {"diagonal", "full"} if metric == "auto" else set() if metric is None else {metric}


def _plain(settings: Settings, named: list[str]) -> Search:
    """The search of ``simple=True``."""
    for option, given in {
        setting("kernel", ",".join(named)): len(named) > 1 or named == [AUTO],
        setting("metric", settings.metric): settings.metric not in (None, "none"),
        "blend=True": settings.blend is True,
    }.items():
        if given:
            raise ValueError(
                f"simple=True searches one kernel as it is; leave simple=True or {option} out"
            )
    return Search(named[0] if named else PLAIN)


def _obstacle(settings: Settings, on_disk: bool) -> str | None:
    """Why nothing can be learned from, or blended by, held-out predictions of folds."""
    if on_disk:
        return "the rows of this table stay on disk"
    if settings.approximation in _OF_ONE_KERNEL:
        return f"{setting('approximation', settings.approximation)} takes kernels as they are"
    if settings.cv == "loo":
        return "cv='loo' holds out single rows, not folds"
    if settings.criterion in WHOLE:
        return f"{setting('criterion', settings.criterion)} holds out no rows"
    return None


def _without_metric(settings: Settings, named: list[str], why: str, on_disk: bool) -> Search:
    """What is left of a search that can have neither metric nor blend."""
    for option, given in {
        setting("metric", settings.metric): settings.metric not in (None, "none"),
        "blend=True": settings.blend is True,
    }.items():
        if given:
            raise ValueError(f"{option} is not possible, as {why}; leave {option} out")
    one_kernel = on_disk or settings.approximation in _OF_ONE_KERNEL
    if one_kernel and len(named) <= 1 and named != [AUTO]:
        kernel = named[0] if named else PLAIN
        note = f"plain search of the {kernel} kernel, as with simple=True: {why}"
        return Search(kernel, note=note)
    return Search(named if named and named != [AUTO] else AUTO, note=f"no metric and no blend: {why}")


def _check_widths(settings: Settings, kernels: dict[str, Kernel]) -> None:
    widthless = [name for name, kernel in kernels.items() if not kernel.has_width]
    if settings.gammas is not None and kernels and len(widthless) == len(kernels):
        raise ValueError(f"the {widthless[0]} kernel has no width: leave gammas out")
