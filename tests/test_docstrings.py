"""Every public name has a numpydoc docstring whose parameters are its own and whose examples run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import onefold
import onefold.approximations.base as approximations
import onefold.search.strategies as strategies
from onefold.docstrings import entries

API = Path(__file__).parents[1] / "docs" / "api" / "index.rst"


def listed() -> dict[str, Any]:
    """The names that the API pages list, with what they name."""
    names = {}
    module = ""
    for line in API.read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r" {3}\w+", line):
            names[f"{module}.{line.strip()}"] = getattr(importlib.import_module(module), line.strip())
    return names


def parameters(thing: Any) -> list[str]:
    """The parameters that somebody calling it can give, as the signature names them."""
    if isinstance(thing, type) and "__init__" not in {*vars(thing)} and issubclass(thing, Exception):
        return []
    given = inspect.signature(thing).parameters.values()
    return [f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name for one in given]


LISTED = listed()


def test_the_api_pages_list_every_public_name():
    public = set()
    for name in ["onefold", *{name.rpartition(".")[0] for name in LISTED}]:
        module = importlib.import_module(name)
        if name in {"onefold", "onefold.search", "onefold.plots", "onefold.export", "onefold.saving"}:
            public |= {getattr(module, one) for one in module.__all__ if one != "__version__"}
    assert public <= set(LISTED.values())
    assert {getattr(onefold, name) for name in onefold.__all__ if name != "__version__"} <= public


@pytest.mark.parametrize("name", LISTED)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # What an example registers is known in that example alone.
    monkeypatch.setattr(approximations, "_BY_NAME", dict(approximations._BY_NAME))
    monkeypatch.setattr(strategies, "STRATEGIES", dict(strategies.STRATEGIES))
    pytest.importorskip("matplotlib").use("Agg")
    doc = inspect.getdoc(LISTED[name]) or ""
    assert "\nExamples\n--------\n" in doc, f"{name} has no example"
    test = doctest.DocTestParser().get_doctest(doc, {"__name__": "__main__"}, name, None, None)
    assert test.examples
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)


@pytest.mark.parametrize("name", LISTED)
def test_parameters_are_those_of_the_signature(name):
    doc = inspect.getdoc(LISTED[name]) or ""
    written = [one for names, _ in entries(doc, "Parameters") for one in names]
    fields = [one for names, _ in entries(doc, "Attributes") for one in names]
    missing = [one for one in parameters(LISTED[name]) if one not in written and one not in fields]
    assert not missing
    assert set(written) <= set(parameters(LISTED[name]))
    assert len(written) == len(set(written))
    for _, text in entries(doc, "Parameters"):
        assert "\n    As in " not in text, text
