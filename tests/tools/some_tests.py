"""A plugin of pytest: the tests of some files first, a sample of all others, until a limit of seconds.

    pytest -p tests.tools.some_tests --processor-seconds 90 tests/smoothers tests/toeplitz --first dense

Seconds are those of the processor, so that a busy machine runs the same tests.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

_PASSES = 8  # through the files, each with as many tests of a file as the others


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options."""
    parser.addoption(
        "--first", nargs="*", default=[], help="words in the paths of the files to begin with"
    )
    parser.addoption("--processor-seconds", type=float, default=float("inf"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put them in order."""
    words, seen = config.getoption("--first"), Counter[str]()
    order = {}
    for item in items:
        file = item.location[0]
        order[item] = 0 if any(word in file for word in words) else 1 + seen[file] % _PASSES
        seen[file] += 1
    items.sort(key=lambda item: order[item])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what comes past the limit."""
    if sum(os.times()[:4]) > item.config.getoption("--processor-seconds"):
        pytest.skip("past the limit")
