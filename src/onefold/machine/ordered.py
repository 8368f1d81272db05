"""Threads whose results come in the order of the work, so that sums of them have the same digits.

Floating-point sums depend on their order. Whatever is added up from pieces that ran in threads is
added in the order of the pieces, never in the order in which they happened to finish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from threading import Condition
from typing import TypeVar

from onefold.machine.threads import map_threads, thread_budget

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], at_most: int | None = None
) -> Iterator[Result]:
    """Yield ``function(item)`` item after item, on as many threads as the budget has, or `at_most`.

    A piece that lags behind holds the others back: twice as many results as threads wait for it at most.
    """
    workers = thread_budget() if at_most is None else min(thread_budget(), at_most)
    if workers <= 1:
        yield from map_threads(function, items, 1)
        return
    done: set[int] = set()
    change = Condition()
    first = 0  # of the items that have not finished

    def hand_out() -> Iterator[tuple[int, Item]]:
        for index, item in enumerate(items):
            with change:
                # The item waited for was handed out before, and runs: this wait ends.
                while index >= first + 2 * workers:
                    change.wait()
            yield index, item

    def work(pair: tuple[int, Item]) -> tuple[int, Result]:
        nonlocal first
        index, item = pair
        try:
            return index, function(item)
        finally:
            with change:
                done.add(index)
                while first in done:
                    done.remove(first)
                    first += 1
                change.notify_all()

    waiting: dict[int, Result] = {}
    turn = 0
    for index, result in map_threads(work, hand_out(), workers):
        waiting[index] = result
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1
