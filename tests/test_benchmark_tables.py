"""The benchmark on real tables, without data: its preparation, and the arithmetic of its report."""

from __future__ import annotations

import json
from math import exp, log

import numpy as np
import pytest

from benchmarks import tables_data
from benchmarks.tables_data import Table, draw, encode, load, standardise
from benchmarks.tables_report import make_report, write_report
from benchmarks.tables_runner import Results, core_groups
from benchmarks.tables_statistics import compare, floors, mean_ranks, means, times_best


def record(table, method, score, split=0, task="regression", **others):
    facts = {"task": task, "n_train": 300, "n_test": 100, "d": 4, "threads": 2, "versions": {}}
    named = {"table": table, "split": split, "method": method, "score": score, "seconds": 1.0}
    return facts | named | others


def test_indicators_stay_constants_go_and_others_are_standardised_by_training_rows():
    X = np.array([[0.0, 5.0, 1.0, 7.0], [1.0, 7.0, 2.0, 7.0], [1.0, 9.0, 1.0, 7.0]])
    X_test = np.array([[0.0, 9.0, 3.0, 8.0]])
    train, test = standardise(X, X_test)
    assert train.shape == (3, 3)
    assert np.array_equal(train[:, 0], X[:, 0])
    assert np.array_equal(test[:, 0], X_test[:, 0])
    assert train[:, 1:].mean(axis=0) == pytest.approx([0, 0])
    assert train[:, 1:].std(axis=0) == pytest.approx([1, 1])
    assert test[0, 1] == pytest.approx(2 / np.std([5, 7, 9]))


def test_a_column_of_one_and_two_is_no_indicator():
    train, _ = standardise(np.array([[1.0], [2.0], [1.0]]), np.array([[2.0]]))
    assert train.mean() == pytest.approx(0)


def test_labels_that_training_lacks_are_errors():
    labels, test = encode(np.array([7, 3, 7]), np.array([3, 5, 7, 9]))
    assert labels.tolist() == [1, 0, 1]
    assert test.tolist() == [0, -1, 1, -1]
    table = Table("t", 0, "classification", np.zeros((3, 1)), labels, np.zeros((4, 1)), test)
    assert table.score([0, 1, 1, 1]) == 0.5


@pytest.mark.parametrize(
    ("n", "train", "test"), [(100, 75, 25), (12_000, 8000, 3000), (50_000, 8000, 8000)]
)
def test_splits_are_disjoint_repeatable_and_bounded(n, train, test):
    first, second = draw(n, 3), draw(n, 3)
    assert [len(part) for part in first] == [train, test]
    assert not set(first[0]) & set(first[1])
    assert np.array_equal(first[0], second[0])
    assert not np.array_equal(first[0], draw(n, 4)[0])


def test_stored_rows_give_the_split_of_the_whole_table(tmp_path, monkeypatch):
    monkeypatch.setitem(tables_data.TASKS, "made_up", "regression")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    (tmp_path / "whole").mkdir()
    np.savez(tmp_path / "whole" / "made_up.npz", X=X, y=y)
    train, test = draw(40, 0)
    rows = np.r_[test, train]
    places = {"bench_test_idx": np.arange(10)[None], "bench_train_idx": np.arange(10, 40)[None]}
    np.savez(tmp_path / "made_up.npz", X=X[rows], y=y[rows], **places)
    whole, stored = load("made_up", 0, tmp_path / "whole"), load("made_up", 0, tmp_path)
    for name in ("X", "y", "X_test", "y_test"):
        assert np.array_equal(getattr(whole, name), getattr(stored, name))


SCORES = {
    "a": {"one": 0.1, "two": 0.2, "three": 0.4},
    "b": {"one": 0.3, "two": 0.3, "three": 0.1},
    "c": {"one": 0.2, "two": 0.1, "three": 0.3},
    "d": {"one": 0.2, "two": 0.8},
}


def test_ranks_and_times_best_count_the_tables_that_all_have():
    methods = ["one", "two", "three"]
    assert mean_ranks(SCORES, methods) == pytest.approx({"one": 5.5 / 3, "two": 5.5 / 3, "three": 7 / 3})
    assert times_best(SCORES, methods) == {"one": 1, "two": 1, "three": 1}


def test_comparison_of_two_methods():
    found = compare(SCORES, "one", "two", {})
    assert (found.tables, found.wins, found.ties, found.losses) == (4, 2, 1, 1)
    assert found.ratio == pytest.approx(exp((log(0.5) + log(1) + log(2) + log(0.25)) / 4))


def test_a_clear_winner_has_the_smallest_p_of_the_test():
    scores = {str(i): {"one": 1.0, "two": 1.1 + i / 10} for i in range(6)}
    assert compare(scores, "one", "two", {}).p == pytest.approx(2 / 2**6)
    assert compare(scores, "one", "one", {}).p == 1
    assert compare(scores, "one", "three", {}) is None


def test_no_errors_count_as_half_a_wrong_label():
    records = [
        record("a", "one", 0.0, task="classification"),
        record("a", "two", 0.02, task="classification"),
    ]
    found = compare(means(records, "score"), "one", "two", floors(records))
    assert found.ratio == pytest.approx(0.005 / 0.02)
    assert found.wins == 1


def test_means_take_the_splits_that_every_method_has():
    records = [record("a", "one", 1.0), record("a", "one", 5.0, split=1), record("a", "two", 2.0)]
    assert means(records, "score") == {"a": {"one": 1.0, "two": 2.0}}
    records += [
        record("a", "two", 4.0, split=1),
        {"table": "a", "split": 2, "error": "x"},
    ]
    assert means(records, "score") == {"a": {"one": 3.0, "two": 3.0}}


def test_report_has_scores_comparison_and_failures(tmp_path, capsys):
    records = [
        record("uci_pol", "onefold-blend", 0.08, seconds=2.0, n_train=8000),
        record("uci_pol", "lightgbm", 0.1, seconds=1.0, n_train=8000),
        record("spambase", "onefold-blend", 0.04, task="classification"),
        record("spambase", "lightgbm", 0.05, task="classification"),
        {"table": "spambase", "split": 0, "method": "catboost", "error": "skipped: not installed"},
    ]
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"records": records}))
    write_report(path)
    text = capsys.readouterr().out
    assert "| uci_pol | 8000 | 4 | **0.0800** | 0.1000 |" in text
    assert "| spambase | 300 | 4 | **4.00 %** | 5.00 % |" in text
    assert "| lightgbm | 2 | 2 | 0 | 0 | 100 | 0.8 | 0.5 | 1.5 | 2 |" in text
    assert "at most 3 % worse on 1 of 2" in text
    assert "| spambase | 0 | catboost | skipped: not installed |" in text
    assert path.with_suffix(".md").read_text().strip() == text.strip()
    with pytest.raises(SystemExit, match="no record"):
        make_report(records[-1:])


def test_results_merge_into_the_file(tmp_path):
    path = tmp_path / "results.json"
    Results(path).add(record("a", "one", 1.0))
    again = Results(path)
    again.add(record("b", "one", 2.0))
    again.add(record("a", "one", 3.0))
    stored = json.loads(path.read_text())["records"]
    assert [(found["table"], found["score"]) for found in stored] == [("a", 3.0), ("b", 2.0)]


def test_workers_share_no_core(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {5, 1, 3, 7}, raising=False)
    assert core_groups(2, 2) == [[1, 3], [5, 7]]
    with pytest.raises(SystemExit, match="more than 4 cores"):
        core_groups(3, 2)
