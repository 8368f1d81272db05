"""Commands that are printed to be copied work in the shell that printed them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_arguments import SMALL, TUNE

from onefold.cli import output

SCRIPT = f"#!{sys.executable}\nimport sys\nfrom onefold.cli import main\nsys.exit(main())\n"


def shell(line: str, path: str) -> str:
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def installed(table) -> None:
    """The program under .venv/bin, as `make demo` leaves it; not in the search path."""
    Path(".venv/bin").mkdir(parents=True)
    Path(".venv/bin/onefold").write_text(SCRIPT)
    Path(".venv/bin/onefold").chmod(0o755)


def test_what_tune_prints(installed):
    path = "/usr/bin:/bin"
    out = shell(" ".join([".venv/bin/onefold", *TUNE, *SMALL, "--out", "'a b'"]), path)
    follow_up = re.search(r"the model: (.*) NEW_TABLE", out)[1]
    assert follow_up == ".venv/bin/onefold predict 'a b/model.onefold'"
    assert shell(f"{follow_up} t.csv", path).startswith("who,prediction\n")


def test_names_of_the_program(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert output.command_line("inspect", "m") == "onefold inspect m"
    # Another program of the same name in the search path is not this one.
    (tmp_path / "onefold").write_text("#!/bin/sh\n")
    (tmp_path / "onefold").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["env/bin/onefold"])
    assert output.command_line("demo") == "env/bin/onefold demo"
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "onefold")])
    assert output.command_line("demo") == "onefold demo"
    monkeypatch.setattr(sys, "argv", ["somewhere/onefold/__main__.py"])
    assert output.command_line("demo") == f"{sys.executable} -m onefold demo"
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert output.command_line("demo") == f"{Path(sys.executable).name} -m onefold demo"
