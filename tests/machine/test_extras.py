"""Messages about packages that are missing name packages that can be installed."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from onefold.export.graph import import_optional
from onefold.linalg import torch_device
from onefold.machine.extras import PACKAGES, pip_install
from onefold.plots.display import _MISSING
from onefold.rows.dask import require_dask
from onefold.tables import open_table

ROOT = Path(__file__).parents[2]


def test_the_packages_are_those_of_the_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    names = {extra: tuple(one.split(">=")[0] for one in given) for extra, given in extras.items()}
    assert names == PACKAGES


@pytest.mark.parametrize(
    ("module", "call", "command"),
    [
        ("torch", lambda path: torch_device("cpu"), "pip install torch"),
        ("dask", lambda path: require_dask(), 'pip install "dask[array,dataframe,distributed]"'),
        ("onnx", lambda path: import_optional("onnx"), "pip install onnx skl2onnx"),
        ("python_calamine", lambda path: open_table(path), "pip install python-calamine"),
    ],
)
def test_messages_name_packages_that_can_be_installed(module, call, command, monkeypatch, tmp_path):
    """They advised to install extras of onefold, which whoever has a clone can't get from an index."""
    path = tmp_path / "t.xlsx"
    path.write_bytes(b"PK\x03\x04")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=re.escape(command)):
        call(path)
    assert f"plots need matplotlib: {pip_install('plot')}" == _MISSING


def test_no_message_advises_to_install_an_extra():
    advice = re.compile(r"pip install \\?\"onefold\[")
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    assert len(files) > 100
    assert [path.name for path in files if advice.search(path.read_text(encoding="utf-8"))] == []
