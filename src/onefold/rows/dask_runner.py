r"""Where Dask runs the tasks of a fit: on the workers of a client, or on threads of this process.

Only Dask's public interface is used, and it is imported when it is needed. Waiting is bounded: a
scheduler that is gone for half a minute ends the fit with one sentence.
"""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from onefold.machine.threads import spans, thread_budget
from onefold.machine.warning import warn_user

_LOOK = 2.0  # seconds between two looks at the connection
_PATIENCE = 30.0  # seconds without a scheduler after which it is taken for lost
_CONNECT = 15.0  # seconds to find a scheduler
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


class Runner(ABC):
    """Runs lazy values; what it is given is a graph that can be run again."""

    at_once: ClassVar[int] = 1
    """Models that the caller may work on side by side, each with a thread of its own."""

    @abstractmethod
    def each(self, lazy: Sequence[Any]) -> Iterator[Any]:
        """The values in their order, a few on their way at a time."""

    def one(self, lazy: Any) -> Any:
        """The value of one, which may be any collection of Dask."""
        return next(iter(self.each([lazy])))

    def held(self, lazy: Sequence[Any]) -> list[Any]:
        """The same, made once and kept where they are until let go."""
        return list(lazy)


class Threads(Runner):
    """Threads of this process, as many as the budget has."""

    def each(self, lazy: Sequence[Any]) -> Iterator[Any]:
        workers = thread_budget()
        for part in spans(len(lazy), max(_BATCH, 2 * workers)):
            yield from require_dask().compute(*lazy[part], scheduler="threads", num_workers=workers)


class Cluster(Runner):
    """The workers of a client of ``dask.distributed``; they pass over rows while a model is solved."""

    at_once = 2

    def __init__(self, client: Any) -> None:
        self.client = client
        self._told = False

    def each(self, lazy: Sequence[Any]) -> Iterator[Any]:
        waiting: list[list[Any]] = []
        try:
            for part in spans(len(lazy), _BATCH):
                waiting.append(self._submitted(lazy[part]))
                if len(waiting) > 1:
                    yield from self._results(waiting[0])
                    _let_go(waiting.pop(0))
            while waiting:
                yield from self._results(waiting[0])
                _let_go(waiting.pop(0))
        finally:  # a traceback that somebody keeps must not keep workers busy
            for futures in waiting:
                _let_go(futures)

    def held(self, lazy: Sequence[Any]) -> list[Any]:
        with _quiet():
            return list(self.client.persist(list(lazy)))

    def _submitted(self, lazy: Sequence[Any]) -> list[Any]:
        self._require_scheduler()
        with _quiet():
            return list(self.client.compute(list(lazy)))

    def _results(self, futures: list[Any]) -> list[Any]:
        import distributed

        wait: Any = distributed.wait
        seen = time.monotonic()
        try:
            while True:
                try:
                    with self.client.as_current():
                        wait(futures, timeout=_LOOK)
                    return list(self.client.gather(futures))
                except TimeoutError:
                    if self.client.status == "running":
                        seen = time.monotonic()
                        self._tell_of_no_workers()
                    elif time.monotonic() - seen > _PATIENCE:
                        raise _lost() from None
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

    def _tell_of_no_workers(self) -> None:
        """Warn, once, that nobody is there to do the work."""
        try:
            idle = not self._told and not self.client.nthreads()  # of every worker
        except OSError:  # the scheduler has just gone: the next look will tell
            return
        if idle:
            self._told = True
            warn_user("the Dask cluster has no workers; the fit waits until some come.")

    def _require_scheduler(self) -> None:
        """Raise if the scheduler does not come back."""
        end = time.monotonic() + _PATIENCE
        while self.client.status != "running":
            if self.client.status == "closed" or time.monotonic() > end:
                raise _lost()
            time.sleep(0.1)


def _lost() -> ConnectionError:
    return ConnectionError(
        "the connection to the Dask scheduler is lost, and with it what was under way; start the "
        "cluster and fit again: with checkpoint=... a search goes on where it stopped."
    )


def _let_go(futures: Sequence[Any]) -> None:
    """Tell the scheduler that nobody waits for these any more."""
    for future in futures:
        future.release()


def _quiet() -> Any:
    """Targets travel inside the graph, so that they can be made again; Dask need not warn of it."""
    return require_dask().config.set({_LARGE_GRAPH: "1PiB"})


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """A client of the scheduler at an address while the block runs; None for no address."""
    if address is None:
        yield None
        return
    require_dask()
    import distributed

    open_client: Any = distributed.Client
    try:
        client = open_client(address, timeout=_CONNECT)
    except (OSError, ValueError, TypeError) as error:
        raise ConnectionError(
            f"there is no Dask scheduler at {address} ({type(error).__name__}); start one with `dask "
            "scheduler`, or check the address, as tcp://host:8786."
        ) from error
    with client:
        yield client


def runner_of(client: Any) -> Runner:
    """The client's workers; without a client those of the current one, or else threads."""
    require_dask()
    if client is None:
        # A current client can only be there if its module is.
        distributed = sys.modules.get("distributed")
        if distributed is None:
            return Threads()
        try:
            found = Cluster(distributed.get_client())
        except ValueError:  # there is none
            return Threads()
        _leave_the_pool()
        return found
    if not all(hasattr(client, name) for name in ("compute", "persist", "gather", "status")):
        raise ValueError(
            f"client must be a dask.distributed.Client or None; got {client!r:.60}. Open one with "
            "Client(address)."
        )
    _leave_the_pool()
    return Cluster(client)


def _leave_the_pool() -> None:
    """Inside a task, make room for the tasks that it will wait for: its worker may be the only one."""
    import distributed

    try:
        distributed.secede()  # type: ignore[no-untyped-call]
    except (ValueError, KeyError, AttributeError):  # no task, one that has left already, or a coroutine
        return
