"""How a search is conducted: its callback, when it ends early, and what it keeps."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onefold.machine.warning import warn_user
from onefold.search.keeping import Keeping
from onefold.search.ledger import Ledger
from onefold.search.strategies import Proposal

Callback = Callable[[dict[str, Any]], None]

TIME_IS_UP = "time_budget"
INTERRUPTED = "interrupted"
BY_CALLBACK = "stopped by the callback"
_NAMED = 6  # candidates that were not tried are named, if they are no more


class StopSearch(Exception):
    """Raised by a callback: nothing more is begun, and the best so far is used."""


class Conduct:
    """Of one search, whatever the number of its parts.

    Parameters
    ----------
    callback : function of a dict, optional
        Called after each evaluation; stops the search by raising `StopSearch`.
    seconds : float, optional
        After which nothing more is begun. The first evaluation of each part is always finished.
    keeping : Keeping, optional

    Attributes
    ----------
    stopped : str or None
        Why the search ended early.
    untried : list of dict
        What names the candidates that were proposed and not evaluated.
    """

    def __init__(
        self,
        callback: Callback | None = None,
        *,
        seconds: float | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        self._callback, self._start = callback, time.monotonic()
        self._seconds = seconds
        self.keeping = Keeping() if keeping is None else keeping
        self._parts = 0  # that have ended
        self.stopped: str | None = None
        self.untried: list[dict[str, Any]] = []

    def goes_on(self) -> bool:
        """Whether more may be begun."""
        limit = math.inf if self._seconds is None else self._seconds
        if self.stopped is None and time.monotonic() - self._start >= limit:
            self.stopped = TIME_IS_UP
        return self.stopped is None

    def handed_out(self, proposals: Sequence[Proposal], ledger: Ledger) -> Iterator[Proposal]:
        """The proposals, one after the other, for as long as the search goes on."""
        for proposal in proposals:
            if not self.goes_on() and ledger.has_score:
                return
            yield proposal

    def interrupt(self, error: KeyboardInterrupt, ledger: Ledger) -> None:
        """Go on with what has been found, here or in an earlier part; raise where that is nothing.

        A second interruption is raised, too.
        """
        again = self.stopped == INTERRUPTED or isinstance(error.__context__, KeyboardInterrupt)
        if again or not (ledger.has_score or self._parts):
            raise error
        self.stopped = INTERRUPTED

    def end_part(self, proposals: Sequence[Proposal], ledger: Ledger) -> None:
        """Note which of the last proposals were not evaluated."""
        done = {entry.candidate for entry in ledger.entries}
        left = [one.candidate for one in proposals if one.candidate not in done]
        self.untried += [dict(ledger.params[number]) for number in left if number < len(ledger.params)]
        self._parts += 1

    def tell(self, ledger: Ledger, part: str) -> None:
        """Call the callback, which may stop the search."""
        if self._callback is None:
            return
        try:
            self._callback(ledger.progress() | {"part": part, "seconds": time.monotonic() - self._start})
        except StopSearch:
            self.stopped = self.stopped or BY_CALLBACK

    def summary(self) -> dict[str, Any]:
        """Whether the search ended early, and what it has not tried."""
        return {"stopped": self.stopped, "untried": self.untried}

    def report(self) -> None:
        """Warn of an early end."""
        if self.stopped is None:
            return
        why = f"the search was {self.stopped}"
        if self.stopped == TIME_IS_UP:
            why = f"the search ended with its time_budget of {self._seconds:g} s"
        names = [", ".join(f"{k}={v}" for k, v in one.items()) for one in self.untried]
        listed = f": {'; '.join(names)}" if 0 < len(names) <= _NAMED else ""
        many = (
            f"{len(names)} candidate{'s' if len(names) > 1 else ''}"
            if names
            else "what would have followed"
        )
        what = f"{many} {'were' if len(names) > 1 else 'was'} not tried{listed}"
        warn_user(f"{why}; the best so far is used, and {what}.", SearchStoppedWarning)


class SearchStoppedWarning(UserWarning):
    """The search ended before it had tried everything."""
