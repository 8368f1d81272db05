"""benchmarks/choice.py on small tables: what it draws, measures and says about its floors."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from benchmarks.choice import METHODS, Job, loss_of, perform, table_of
from benchmarks.choice_report import report
from benchmarks.tables_data import Table


@pytest.fixture
def data(tmp_path):
    """Tables of the names that the benchmark knows."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(600, 4))
    y = X[:, 0] + X[:, 1] ** 2 + 0.1 * generator.normal(size=600)
    np.savez(tmp_path / "bike_hourly.npz", X=np.column_stack([X, np.arange(600)]), y=y)
    np.savez(tmp_path / "spambase.npz", X=X, y=np.where(y > 0.8, 1, -1))
    return tmp_path


def test_rare_classes_are_thinned_and_ordered_rows_follow(data):
    jobs = [Job("rare", "spambase", split, "plain", data, data, 300, 300) for split in range(2)]
    rare, other = (table_of(job) for job in jobs)
    for labels in (rare.y, rare.y_test):
        assert 0.03 < labels.mean() < 0.15
    assert rare.X.shape == other.X.shape
    assert not np.allclose(rare.X, other.X)
    for split in range(3):
        table = table_of(Job("ordered", "bike_hourly", split, "plain", data, data, 90, 30))
        times = np.append(table.X[:, 4], table.X_test[:, 4])
        np.testing.assert_allclose(np.diff(times), times[1] - times[0])
        assert (len(table.X), len(table.X_test)) == (90, 30)


def test_the_standard_error_of_a_loss_is_that_of_its_draws():
    generator = np.random.default_rng(0)
    y = np.repeat([0, 1], [900, 60])
    table = Table("", 0, "classification", None, y, None, y)
    wrong = generator.random((400, 960)) < np.where(y == 1, 0.3, 0.1)
    found = np.array([loss_of(y, np.where(one, 1 - y, y), table, balanced=True) for one in wrong])
    assert found[:, 0].mean() == pytest.approx(0.2, abs=0.005)
    assert found[:, 1].mean() == pytest.approx(found[:, 0].std(), rel=0.1)


def test_a_run_and_its_report(data):
    for group, name in (("rare", "spambase"), ("ordered", "bike_hourly")):
        for method, library in METHODS.items():
            if find_spec(library) is not None and method != "catboost":
                job = Job(group, name, 0, method, data, data, 120, 60)
                perform(job)
                assert job.done()
    found = report(data)
    assert [(row["group"], row["table"]) for row in found["scores"]] == [
        ("ordered", "bike_hourly"),
        ("rare", "spambase"),
    ]
    assert all(row["rank"] > 0.5 and np.isfinite(row["gap, s.e."]) for row in found["scores"])
    said = {row["floor"]: row for row in found["floors"]}
    assert said["rank correlation of importances, mean: 0.8"]["of"] == 2
    assert said["tables won and lost against CatBoost: no floor"][""] == "not measured"
    assert (data / "report.json").exists()
