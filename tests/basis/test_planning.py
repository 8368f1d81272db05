"""The automatic choice and its estimates."""

from __future__ import annotations

import json

import numpy as np
import pytest

import onefold.approximations.planning as planning
from onefold import LSSVR, LSSVRCV, load, plan, trust
from onefold.approximations import Auto, ConjugateGradients, Exact, Nystroem, Problem, Workload
from onefold.cli import main
from onefold.speed import Speed, _read, machine_speed, measure

FAST = Speed(multiply_adds=4e10, exponentials=1e9)


@pytest.fixture(autouse=True)
def _known_machine(monkeypatch):
    monkeypatch.setattr(planning, "machine_speed", lambda: FAST)
    monkeypatch.setattr(planning, "available_memory", lambda: 16 * 2**30)


def test_exact_for_few_rows_and_landmarks_for_many():
    assert plan((1500, 10)).approximation == Exact()
    many = plan((500_000, 20))
    assert isinstance(many.approximation, Nystroem)
    assert "exact machine would need" in many.reason
    assert many.fits


def test_budget_and_memory_decide(monkeypatch):
    assert plan((5000, 10), seconds=1e6).approximation == Exact()
    assert "would take" in plan((5000, 10), seconds=10).reason
    rich = plan((100_000, 10), seconds=1e6).approximation.n_components
    poor = plan((100_000, 10), seconds=120).approximation.n_components
    assert rich > poor
    assert "still would take" in plan((10**7, 10), seconds=1).reason
    monkeypatch.setattr(planning, "available_memory", lambda: 2**30)
    assert plan((100_000, 10), seconds=1e6).approximation.n_components < rich


def test_estimates_grow_with_the_work():
    one, search = Workload(1, 1, 0), Workload(13, 11, 5)
    for kind in (Exact(), Nystroem(500)):
        small, large = (kind.duration(n, 10, 1, search, FAST) for n in (10**3, 10**6))
        assert small < large
        assert kind.duration(3000, 10, 1, one, FAST) < kind.duration(3000, 10, 1, search, FAST)
        assert kind.memory(10**3, 10, 1, search) < kind.memory(10**6, 10, 1, search)
        assert kind.memory(3000, 10, 1, one) < kind.memory(3000, 10, 1, search)
        assert kind.memory(3000, 10, 1, search) < kind.memory(3000, 10, 500, search)


def test_plan_of_a_given_approximation_and_its_words():
    given = plan(np.zeros((3000, 4)), approximation="exact")
    assert given.approximation == Exact()
    assert given.reason == "as asked for"
    assert "3000 rows, 4 features" in str(given)
    assert plan((10, 2), approximation=ConjugateGradients()).seconds is None
    too_much = plan((10**6, 2), approximation="exact")
    assert not too_much.fits
    assert "not enough" in str(too_much)
    with pytest.raises(ValueError, match="rows"):
        plan((0, 3))


def test_fits_say_what_was_chosen_and_why(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = np.sin(X).sum(axis=1)
    exact = LSSVRCV(gammas=[0.1], cv=3).fit(X, y)
    assert "2000 rows" in exact.approximation_["fitted_with"]["chosen"]
    monkeypatch.setattr(planning, "_ALWAYS_EXACT", 100)
    basis = LSSVRCV(gammas=[0.1], cv=3, approximation=Auto(seconds=1e-9)).fit(X, y)
    told = basis.approximation_["fitted_with"]
    assert told["name"] == "nystroem"
    assert "would take" in told["chosen"]
    assert basis.expansion_.n_centres <= 75
    assert basis.score(X, y) > 0.95
    assert LSSVR(approximation=Auto(seconds=1e-9)).fit(X, y).expansion_.n_centres <= 75
    basis.save(tmp_path / "model.onefold")
    assert load(tmp_path / "model.onefold").approximation == Auto(seconds=1e-9)


def test_trust_checks_what_would_run(monkeypatch):
    monkeypatch.setattr(planning, "_ALWAYS_EXACT", 300)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 2))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(1200)
    chooser = LSSVRCV(gammas=[0.1, 1.0], cv=3, approximation=Auto(seconds=1e-9))
    found = trust(chooser, X, y, size=200, random_state=0)
    assert found.verdict in {"applies", "doubtful"}
    assert chooser.approximation.settle(Problem(X, y[:, None], None, True)) == Nystroem(300)


def test_a_basis_that_does_not_fit_is_refused_before_it_starts(monkeypatch):
    monkeypatch.setattr("onefold.memory.available_memory", lambda: 10_000)
    X = np.random.default_rng(0).standard_normal((100, 2))
    with pytest.raises(MemoryError, match="fewer landmarks"):
        LSSVR(approximation=Nystroem(50)).fit(X, X[:, 0])


def test_speed_is_measured_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine_speed.cache_clear()
    first = machine_speed()
    files = list(tmp_path.rglob("speed-*.json"))
    assert len(files) == 1
    machine_speed.cache_clear()
    assert machine_speed() == first
    files[0].write_text("nonsense")
    assert _read(files[0]) is None
    assert measure().multiply_adds > 1e6


def test_command(tmp_path, capsys):
    table = tmp_path / "t.csv"
    rows = "\n".join(f"{i},{i % 7},{i % 3}" for i in range(50))
    table.write_text(f"a,b,y\n{rows}\n")
    assert main(["plan", str(table)]) == 0
    assert "50 rows, 2 features: Exact()" in capsys.readouterr().out
    assert main(["plan", str(table), "--json", "--approximation", "nystroem"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == 50
    assert facts["fits"] is True


def test_command_knows_the_columns(tmp_path, capsys):
    table = tmp_path / "t.csv"
    table.write_text("a,b,c,y\n" + "\n".join(f"{i},{i % 7},1,{i % 3}" for i in range(50)) + "\n")
    assert main(["plan", str(table), "--target", "y", "--drop", "c"]) == 0
    assert "50 rows, 2 features" in capsys.readouterr().out
    for option in ("--target", "--drop"):
        assert main(["plan", str(table), option, "z"]) != 0
        assert f"{option}: t.csv has no column 'z'" in capsys.readouterr().err
