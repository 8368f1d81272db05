"""Tables of plans and trust checks in notebooks."""

from __future__ import annotations

import numpy as np

from onefold import LSSVRCV, plan, trust
from onefold.approximations import Exact, Nystroem, Plan
from onefold.approximations.auto import html_table

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 2))
Y = np.sin(X[:, 0])
GRID = {"gammas": [0.1, 0.3, 1.0], "alphas": [0.1, 1.0]}


def test_tables_are_escaped() -> None:
    assert html_table([("<a>", "b & c")], "<t>").count("&lt;") == 2
    assert "b &amp; c" in html_table([("<a>", "b & c")], "<t>")


def test_a_plan_as_a_table() -> None:
    found = plan(LSSVRCV("auto", metric="auto", blend=True), (5000, 20))
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
