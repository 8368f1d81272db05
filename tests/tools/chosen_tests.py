"""A plugin of pytest that runs the tests of a list in its order, or keeps how long each takes.

pytest -p tests.tools.chosen_tests --keep-seconds FILE.json tests/search
pytest -p tests.tools.chosen_tests --chosen FILE.json tests/search
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two files."""
    parser.addoption("--keep-seconds", help="write {test: seconds} of those that pass")
    parser.addoption("--chosen", help="a JSON list of the tests to run, in this order")


def pytest_configure(config: pytest.Config) -> None:
    """Start to time, where that is wanted."""
    if path := config.getoption("--keep-seconds"):
        config.pluginmanager.register(Timer(Path(path)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the list, in its order."""
    if path := config.getoption("--chosen"):
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in json.loads(Path(path).read_text()) if name in found]


class Timer:
    """Adds up set-up, call and end of every test."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One of the three phases of a test."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """All tests have run."""
        passed = {name: took for name, took in self._seconds.items() if name not in self._failed}
        self._path.write_text(json.dumps(passed))
