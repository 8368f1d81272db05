r"""Where Dask runs the tasks of a fit: on the workers of a client, or on threads of this process.

Only Dask's public interface is used, and it is imported when it is needed. Dask cancels what is under
way when it loses its scheduler: that ends the fit with one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from onefold.machine.threads import spans, thread_budget
from onefold.machine.warning import warn_user

_BATCH = 16  # results on their way at a time
_LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


def require_dask() -> Any:
    """The module ``dask``; raise a sentence that says how to get it."""
    try:
        import dask
    except ImportError as error:
        raise ImportError(
            'rows of Dask need it installed, which it is not; pip install "onefold[dask]", or give rows '
            "in memory."
        ) from error
    return dask


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask; nothing is imported to find out."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


class Runner:
    """Runs lazy values, graphs that can be run again: on the workers of `client`, if None on threads."""

    def __init__(self, client: Any = None) -> None:
        self.client = client
        self._warned = False

    @property
    def at_once(self) -> int:
        """Models to work on side by side: workers pass over rows while one is solved."""
        return 1 if self.client is None else 2

    def each(self, lazy: Sequence[Any]) -> Iterator[Any]:
        """The values in their order, a few on their way at a time."""
        if self.client is None:
            workers = thread_budget()
            for part in spans(len(lazy), max(_BATCH, 2 * workers)):
                yield from require_dask().compute(*lazy[part], scheduler="threads", num_workers=workers)
            return
        waiting: list[list[Any]] = []
        batches = spans(len(lazy), _BATCH)
        try:
            while True:
                for part in islice(batches, 2 - len(waiting)):
                    waiting.append(self._submitted(lazy[part]))
                if not waiting:
                    return
                yield from self._results(waiting[0])
                _release(waiting.pop(0))
        finally:  # a traceback that somebody keeps must not keep workers busy
            for futures in waiting:
                _release(futures)

    def one(self, lazy: Any) -> Any:
        """The value of one, which may be any collection of Dask."""
        return next(iter(self.each([lazy])))

    def held(self, lazy: Sequence[Any]) -> list[Any]:
        """The same, made once and kept on workers until let go."""
        if self.client is None:
            return list(lazy)
        with _quiet():
            return list(self.client.persist(list(lazy)))

    def _submitted(self, lazy: Sequence[Any]) -> list[Any]:
        try:
            alone = not self._warned and self.client.status == "running" and not self.client.nthreads()
        except OSError:  # the scheduler has just been lost
            raise _lost() from None
        if self.client.status != "running":
            raise _lost()
        if alone:
            self._warned = True
            warn_user("the Dask cluster has no workers; the fit waits until some come.")
        with _quiet():
            return list(self.client.compute(list(lazy)))

    def _results(self, futures: list[Any]) -> list[Any]:
        import distributed

        try:
            return list(self.client.gather(futures))
        except distributed.CancelledError as error:
            if self.client.status != "running":
                raise _lost() from error
            raise RuntimeError(
                f"Dask has cancelled or lost rows that it cannot make again ({error!s:.120}); give a "
                "collection that Dask can compute again, not scattered data or those of another client."
            ) from error
        except distributed.KilledWorker as error:
            raise RuntimeError(
                f"workers died again and again on the same partition ({error!s:.120}); use smaller "
                "partitions, fewer landmarks, or workers with more memory."
            ) from error


def _lost() -> ConnectionError:
    return ConnectionError(
        "the connection to the Dask scheduler is lost, and with it what was under way; start the "
        "cluster and fit again: with checkpoint=... a search goes on where it stopped."
    )


def _release(futures: Sequence[Any]) -> None:
    """Nobody waits for these any more."""
    for future in futures:
        future.release()


def _quiet() -> Any:
    """Targets travel inside the graph, so that they can be made again; Dask need not warn of it."""
    return require_dask().config.set({_LARGE_GRAPH: "1PiB"})


def runner_of(client: Any) -> Runner:
    """The client's workers; without a client those of the current one, or else threads."""
    require_dask()
    if client is None:
        # A current client can only be there if its module is.
        known = sys.modules.get("distributed")
        with suppress(ValueError):  # there is none
            client = None if known is None else known.get_client()
    if client is None:
        return Runner()
    if not all(hasattr(client, name) for name in ("compute", "persist", "gather", "status")):
        raise ValueError(
            f"client must be a dask.distributed.Client or None; got {client!r:.60}. Open one with "
            "Client(address)."
        )
    import distributed

    # Inside a task, make room for the tasks that it will wait for: its worker may be the only one. An
    # error says that there is no task, that it has left already, or that this is a coroutine.
    with suppress(ValueError, KeyError, AttributeError):
        distributed.secede()  # type: ignore[no-untyped-call]
    return Runner(client)
