"""Mutated files of every kind of model: refused, or as good as the model they came from."""

from __future__ import annotations

import json

import pytest

from onefold.saving import container, file
from onefold.saving.rules import State
from tests.tools.fuzz_cases import CASES
from tests.tools.fuzz_models import Original, fuzz, judge

MUTANTS = 8


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CASES))
def test_whatever_loads_predicts(tmp_path, name):
    outcomes, findings = fuzz([name], MUTANTS, 0, tmp_path)
    assert findings == []
    assert outcomes["refused"] > 0
    assert sum(outcomes.values()) == MUTANTS


def test_the_fuzzer_finds_what_goes_unchecked(tmp_path, monkeypatch):
    monkeypatch.setattr(State, "check", lambda state, value, name: None)
    outcomes, findings = fuzz(["lssvc"], 60, 0, tmp_path)
    assert outcomes["misbehaved"] == len(findings) > 0


def test_the_fuzzer_finds_what_goes_untested(tmp_path, monkeypatch):
    original = Original(CASES["table"](), tmp_path)
    metadata = json.loads(original.text)
    part = metadata["model"]["fitted"]["preparation_"]["fields"]["parts"]["$tuple"][0]
    part["fields"]["scale"] *= 2.0
    container.write(tmp_path / "mutant", json.dumps(metadata), original.arrays)
    assert judge(tmp_path / "mutant", original.case) is None
    monkeypatch.setattr(file.selftest, "verify", lambda model, stored: None)
    assert judge(tmp_path / "mutant", original.case) is not None


def test_the_original_works(tmp_path):
    original = Original(CASES["table-gaps"](), tmp_path)
    assert judge(original.path, original.case) == ""
