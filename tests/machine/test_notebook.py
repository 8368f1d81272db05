"""Tables and progress in notebooks, with a stand-in for IPython's kernel."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from onefold import LSSVRCV, plan, trust
from onefold.approximations import Exact, Nystroem, Plan
from onefold.machine.notebook import LiveLine, html_table, in_notebook

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.sin(X[:, 0])
GRID = {"gammas": [0.1, 0.3, 1.0], "alphas": [0.1, 1.0]}


class Kernel:
    """IPython as a notebook has it: a shell with a kernel, and displays that can be updated."""

    def __init__(self, monkeypatch, *, kernel: object | None) -> None:
        self.shown: list[dict[str, str]] = []
        self.begun = 0
        display = SimpleNamespace(display=self._display)
        shell = SimpleNamespace(kernel=kernel)
        fake = SimpleNamespace(get_ipython=lambda: shell, display=display)
        monkeypatch.setitem(sys.modules, "IPython", fake)

    def _display(self, data, *, raw, display_id):
        assert (raw, display_id) == (True, True)
        self.begun += 1
        self.shown.append(data)
        return self

    def update(self, data, *, raw):
        assert raw
        self.shown.append(data)


def test_only_a_kernel_is_a_notebook(monkeypatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    Kernel(monkeypatch, kernel=None)  # IPython in a terminal
    assert not in_notebook()
    Kernel(monkeypatch, kernel=object())
    assert in_notebook()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())  # half-way through its import
    assert not in_notebook()


def test_verbose_rewrites_one_line_in_a_notebook(monkeypatch, capsys) -> None:
    notebook = Kernel(monkeypatch, kernel=object())
    LSSVRCV(**GRID, verbose=1).fit(X, Y)
    assert capsys.readouterr().err == ""
    assert (notebook.begun, len(notebook.shown)) == (1, 3)
    assert notebook.shown[-1]["text/plain"].startswith("[LSSVRCV] 3/3 kernels, best score ")
    assert 'value="1.000"' in notebook.shown[-1]["text/html"]
    LSSVRCV(**GRID, verbose=1).fit(X, Y)  # a line of its own
    assert notebook.begun == 2


def test_lines_elsewhere_are_as_before(monkeypatch, capsys) -> None:
    notebook = Kernel(monkeypatch, kernel=None)
    LSSVRCV(**GRID, verbose=1).fit(X, Y)
    assert len(capsys.readouterr().err.splitlines()) == 3
    assert notebook.shown == []


def test_a_line_is_escaped(monkeypatch) -> None:
    notebook = Kernel(monkeypatch, kernel=object())
    LiveLine().show("<script>", 0.5)
    assert "<code>&lt;script&gt;</code>" in notebook.shown[0]["text/html"]


def test_the_real_ipython_shows_it() -> None:
    """A shell of IPython, told that it has a kernel, publishes one display and updates of it."""
    pytest.importorskip("IPython")
    code = """
import numpy as np
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import RichOutput, capture_output
shell = InteractiveShell.instance()
shell.kernel = object()
from onefold import LSSVRCV
X = np.random.default_rng(0).standard_normal((40, 2))
with capture_output() as found:
    LSSVRCV(gammas=[0.1, 0.3, 1.0], alphas=[0.1, 1.0], verbose=1).fit(X, X[:, 0])
ids = {one.transient["display_id"] for one in found.outputs}
assert len(found.outputs) == 3 and len(ids) == 1, found.outputs
assert [one.update for one in found.outputs] == [False, True, True]
assert "<progress" in found.outputs[-1].data["text/html"]
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_ipython_is_not_imported() -> None:
    code = """
import sys
import numpy as np
from onefold import LSSVRCV
X = np.random.default_rng(0).standard_normal((40, 2))
LSSVRCV(gammas=[0.1], alphas=[0.1], verbose=1).fit(X, X[:, 0])
assert not any(name.split(".")[0] == "IPython" for name in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


# Tables


def test_tables_are_escaped() -> None:
    assert html_table([("<a>", "b & c")], "<t>").count("&lt;") == 2
    assert "b &amp; c" in html_table([("<a>", "b & c")])
    assert "caption" not in html_table([])


def test_a_plan_as_a_table() -> None:
    found = plan((5000, 20), kernel="auto", metric="auto", blend=True)
    page = found._repr_html_()
    assert page.startswith("<table")
    for line in str(found).splitlines()[1:]:
        assert line[:8].strip() in page
        assert line[8:].split(";")[0] in page
    assert f'<caption style="text-align:left;font-weight:bold">{str(found).splitlines()[0]}' in page
    odd = Plan(Exact(), 1, 1, None, None, None, "<why>")
    assert "&lt;why&gt;" in odd._repr_html_()
    assert repr(odd).startswith("Plan(approximation=Exact()")


def test_a_trust_check_as_a_table() -> None:
    found = trust(LSSVRCV(**GRID, approximation=Nystroem(20)), X, Y, size=30, repeats=2, random_state=0)
    page = found._repr_html_()
    assert f"{found.verdict}, on 30 rows" in page
    assert "loss on fresh rows" in page
    assert "subsamples" in page
    exact = trust(LSSVRCV(**GRID, approximation="nystroem", refit="exact"), X, Y, random_state=0)
    assert "loss on fresh rows" not in exact._repr_html_()
    assert str(found).startswith(found.verdict)
