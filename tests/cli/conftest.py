"""Small tables for the command line, in a directory of their own, and no pictures unless asked for."""

from __future__ import annotations

import pandas as pd
import pytest
from cli_arguments import SMALL, TUNE, two_classes

from onefold.cli import main


@pytest.fixture
def pictures() -> None:
    """Asks for real pictures."""


@pytest.fixture(autouse=True)
def _without_pictures(request, monkeypatch):
    """Pictures take nine tenths of the time of a small `tune`: stubbed unless a test asks for them."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr("onefold.report.report.pictures_of", lambda estimator, y: ([], None))


@pytest.fixture
def table(tmp_path, monkeypatch) -> pd.DataFrame:
    """A working directory with t.csv in it."""
    monkeypatch.chdir(tmp_path)
    frame = two_classes()
    frame.to_csv("t.csv", index=False)
    return frame


@pytest.fixture
def tuned(table, capsys) -> pd.DataFrame:
    """The same with a model of it."""
    assert main([*TUNE, *SMALL, "--quiet"]) == 0
    capsys.readouterr()
    return table


@pytest.fixture
def refused(capsys):
    """Run a command that has to be refused: one line, exit code 2; returns the line."""

    def run(*argv: str) -> str:
        assert main(list(argv)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        lines = [line for line in err.splitlines() if line.startswith("onefold: error: ")]
        assert len(lines) == 1
        assert err.splitlines()[-1] == lines[0]
        assert "Traceback" not in err
        return lines[0]

    return run
