"""The methods of benchmarks.tables by name; what one needs is imported only when it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from benchmarks.tables_job import Outcome, Run
from benchmarks.tables_lightgbm import lightgbm
from benchmarks.tables_others import catboost, histgb, onefold, svc_grid
from benchmarks.tables_xrfm import xrfm_default, xrfm_tuned


@dataclass(frozen=True)
class Method:
    """A function of a run, the packages it needs, whether it uses a device, and how long it takes.

    `cost` orders the jobs, the longest first: about the seconds at 8000 rows on two cores.
    """

    function: Callable[[Run], Outcome]
    needs: tuple[str, ...]
    cost: float
    on_device: bool = False

    def missing(self) -> str:
        """Why it cannot run here; nothing where it can. The import also keeps it out of the clock."""
        for name in self.needs:
            try:
                import_module(name)
            except ImportError as problem:
                return f"{name} cannot be imported: {problem}"
        return ""


def _onefold(cost: float, **arguments: object) -> Method:
    return Method(partial(onefold, **arguments), ("onefold",), cost, on_device=True)


METHODS = {
    "onefold-isotropic": _onefold(60, kernel="rbf"),
    "onefold-families": _onefold(100, kernel="auto"),
    "onefold-diagonal": _onefold(200, kernel="auto", metric="diagonal"),
    "onefold-full": _onefold(200, kernel="auto", metric="full"),
    "onefold-blend": _onefold(300, kernel="auto", metric="auto", blend=True),
    "lightgbm": Method(lightgbm, ("lightgbm",), 30),
    "xrfm-default": Method(xrfm_default, ("torch", "xrfm"), 30, on_device=True),
    "xrfm": Method(xrfm_tuned, ("torch", "xrfm"), 600, on_device=True),
    "histgb": Method(histgb, ("sklearn",), 3),
    "svc-grid": Method(svc_grid, ("sklearn",), 40),
    "catboost": Method(catboost, ("catboost",), 20),
}
