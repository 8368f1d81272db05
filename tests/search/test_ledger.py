"""A ledger replayed from its file gives the same table, bit for bit; a damaged one says so."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import onefold.estimators.chosen as selected
from onefold import LSSVCCV, LSSVRCV
from onefold.approximations import Circulant
from onefold.search import Entry, Ledger, best_cell

RNG = np.random.default_rng(2)
X = RNG.standard_normal((40, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(40)
GRID = {"gammas": [0.1, 1.0, 4.0], "alphas": [1e-3, 0.1, 3.0], "cv": 4}


def refuses_flat(estimator: Any, rows: Any, y: Any) -> float:
    predicted = estimator.predict(rows)
    if np.ptp(predicted) < 0.2:
        raise ValueError("nearly constant predictions")
    return -float(np.mean((predicted - y) ** 2))


SEARCHES = {
    "squared error": (LSSVRCV(**GRID), Y),
    "labels": (LSSVCCV(**GRID), np.where(Y > 0, "up", "down")),
    "leave one out": (LSSVRCV(**GRID | {"cv": "loo"}), Y),
    "a scorer": (LSSVRCV(**GRID, criterion="r2"), Y),
    "a scorer with no score for some": (
        LSSVRCV(**GRID | {"alphas": [0.1, 1e4]}, criterion=refuses_flat),
        Y,
    ),
    "no splits": (LSSVRCV(**GRID, criterion="evidence"), Y),
    "no width": (LSSVRCV("linear", alphas=[0.1, 1.0]), Y),
    "variants": (LSSVRCV(**GRID, approximation=Circulant(spacing="search"), refit="same"), Y),
    "cells that cannot be solved": (
        LSSVRCV(
            gammas=[1e-3, 1.5],
            alphas=[1e-4, 2.0],
            approximation=Circulant(spacing=1.0, order="given"),
            cv=3,
        ),
        Y,
    ),
}  # fmt: skip


def search(name: str, monkeypatch: Any) -> tuple[Any, Ledger]:
    """A fitted estimator, and the ledger of its search."""
    found = []

    def noted(*arguments: Any, **named: Any) -> Any:
        found.append(selected.run_search.__wrapped__(*arguments, **named))
        return found[-1]

    noted.__wrapped__ = selected.run_search
    monkeypatch.setattr(selected, "run_search", noted)
    estimator, y = SEARCHES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator.fit(X, y)
    return estimator, found[0].ledger


def same(one: Any, two: Any) -> None:
    """Equal in type, value and bit pattern."""
    assert type(one) is type(two)
    if isinstance(one, np.ndarray):
        assert one.dtype == two.dtype
        assert one.tobytes() == two.tobytes()
    else:
        assert repr(one) == repr(two)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_replayed_search_gives_the_same_table(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    estimator, ledger = search(name, monkeypatch)
    ledger.write(tmp_path / "search.jsonl")
    replayed = Ledger.read(tmp_path / "search.jsonl", ledger.fingerprint)
    assert list(estimator.cv_results_) == list(replayed.cv_results())
    for key, values in replayed.cv_results().items():
        same(values, estimator.cv_results_[key])
    assert repr(replayed.history) == repr(estimator.history_)
    assert replayed.progress() == ledger.progress()
    assert replayed.best() == ledger.best()
    candidate, ridge = replayed.best()
    assert ridge * len(replayed.params) + candidate == estimator.best_index_


@pytest.mark.parametrize("name", ["a scorer with no score for some", "cells that cannot be solved"])
def test_cells_without_a_score_keep_their_reason(name: str, tmp_path: Path, monkeypatch: Any) -> None:
    estimator, ledger = search(name, monkeypatch)
    assert np.isnan(estimator.cv_results_["mean_test_score"]).any()
    ledger.write(tmp_path / "search.jsonl")
    reasons = [entry.why for entry in Ledger.read(tmp_path / "search.jsonl").entries]
    assert reasons == [entry.why for entry in ledger.entries]
    assert any(reasons) or name == "cells that cannot be solved"  # which need no more words


FLOATS = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


@given(values=st.lists(FLOATS, min_size=6, max_size=6), seconds=FLOATS, report=FLOATS)
def test_every_float_comes_back(
    tmp_path_factory: Any, values: Any, seconds: float, report: float
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "search.jsonl"
    ledger = Ledger([{"gamma": 0.1}, {"gamma": np.float64(5e-324)}], [0.1, 1 / 3], 3, fingerprint="ü")
    scores = np.array(values).reshape(2, 3)
    ledger.append(Entry(1, np.arange(2), scores, seconds, None, {"shape": (2, 3), "error": report}))
    ledger.write(path)
    for line in path.read_text("utf-8").splitlines():
        json.loads(line, parse_constant=pytest.fail)
    back = Ledger.read(path)
    assert_array_equal(back.entries[0].scores, scores)
    number = ~np.isnan(scores)
    assert_array_equal(np.signbit(back.entries[0].scores[number]), np.signbit(scores[number]))
    assert_array_equal([back.entries[0].seconds, back.entries[0].report["error"]], [seconds, report])
    assert back.params == ledger.params
    assert_array_equal(back.alphas, ledger.alphas)


def small() -> Ledger:
    ledger = Ledger([{"gamma": 1.0}, {"gamma": 2.0}], [0.5, 2.0], 2, fingerprint="this one")
    for number in range(2):
        scores = np.array([[0.1, np.nan], [0.2, 0.3]])
        ledger.append(Entry(number, np.arange(2), scores, 0.5, "no", {"name": "exact"}))
    return ledger


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    small().write(path)
    whole = path.read_bytes()
    second = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for length in range(second, len(whole)):
        path.write_bytes(whole[:length])
        assert len(Ledger.read(path).entries) == 1
    path.write_bytes(whole)
    assert len(Ledger.read(path).entries) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"candidate": 0', b'"candidate": 7'),
        (b'"candidate": 0', b'"candidate": -1'),
        (b'"candidate": 0', b'"candidate": "0"'),
        (b'"candidate": 0, ', b""),
        (b'"candidate": 0', b'"other": 1, "candidate": 0'),
        (b'"ridges": [0, 1]', b'"ridges": [0, 2]'),
        (b'"ridges": [0, 1]', b'"ridges": [0]'),
        (b'"ridges": [0, 1]', b'"ridges": [0.0, 1.0]'),
        (b'"report": {"name": "exact"}', b'"report": "exact"'),
        (b'"ridges": [0, 1]', b'"ridges": [0.5, 1]'),
        (b"[0.2, 0.3]", b"[0.2]"),
        (b"[0.2, 0.3]", b'[0.2, "x"]'),
        (b"[0.2, 0.3]", b"[0.2, NaN]"),
        (b"[0.2, 0.3]", b"[0.2, " + b"[" * 100_000),
        (b'"seconds": 0.5', b'"seconds": {}'),
        (b'"report": {', b'"report": ['),
        (b'{"candidate": 0', b'\xff{"candidate": 0'),
        (b'"alphas": [0.5, 2.0]', b'"alphas": "many"'),
        (b'"n_scores": 2', b'"n_scores": null'),
        (b'"params": [{', b'"params": [3, {'),
        (b'"fingerprint"', b'"fingerprints"'),
        (b'"candidate": 0', b'"candidate": true'),
        (b'"ridges": [0, 1]', b'"ridges": [0, 0]'),
        (b'"ridges": [0, 1]', b'"ridges": [[0, 1]]'),
        (b'[[0.1, {"float": "nan"}], [0.2, 0.3]]', b'[0.1, 0.2, 0.2, 0.3]'),
        (b'[[0.1, {"float": "nan"}], [0.2, 0.3]]', b'[[0.1, "0.2"], [0.2, 0.3]]'),
        (b'"n_scores": 2', b'"n_scores": -1'),
        (b'"n_scores": 2', b'"n_scores": 2.5'),
        (b'"alphas": [0.5, 2.0]', b'"alphas": [[0.5, 2.0]]'),
        (b'"params": [{"gamma": 1.0}', b'"params": [{"width": 1.0}'),
        (b'"params": [{"gamma": 1.0}', b'"params": [{"gamma": "1.0"}'),
        (b'"per_split": true', b'"per_split": 1'),
    ],
)  # fmt: skip
def test_other_damage_is_one_sentence(before: bytes, after: bytes, tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    small().write(path)
    content = path.read_bytes()
    assert before in content
    path.write_bytes(content.replace(before, after, 1))
    with pytest.raises(ValueError, match=r"^line [12] of .*search.jsonl is damaged \(\w+\); delete it"):
        Ledger.read(path)


def test_files_of_other_searches_and_other_things_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    small().write(path)
    assert Ledger.read(path, "this one").fingerprint == "this one"
    with pytest.raises(ValueError, match="another search"):
        Ledger.read(path, "that one")
    path.write_bytes(path.read_bytes().replace(b'"onefold_ledger": 1', b'"onefold_ledger": 2'))
    with pytest.raises(ValueError, match="version 2, not 1"):
        Ledger.read(path)
    path.write_text('{"a": 1}\n')
    with pytest.raises(ValueError, match="no ledger that this version"):
        Ledger.read(path)
    for content in ("", '{"onefold_ledger": 1'):
        path.write_text(content)
        with pytest.raises(ValueError, match="has no header"):
            Ledger.read(path)


def test_the_best_cell_is_that_of_the_whole_table_in_any_order() -> None:
    rng = np.random.default_rng(5)
    gammas, alphas = [0.5, 4.0, 1.0, 2.0], [3.0, 0.1, 1.0]
    table = rng.integers(0, 3, (4, 3)).astype(float)  # ties abound
    for order in (np.arange(4), rng.permutation(4)):
        ledger = Ledger([{"gamma": g} for g in gammas], alphas, 1)
        assert ledger.progress()["best_score"] is None
        for number in order:
            entry = Entry(int(number), np.arange(3), table[number][:, None], 0.1, None, {})
            ledger.append(entry)
        assert ledger.best() == best_cell(table, gammas, alphas)


def test_the_last_evaluation_of_a_cell_counts() -> None:
    ledger = small()
    ledger.append(Entry(0, np.array([1]), np.array([[5.0, 7.0]]), 0.25, None, {"name": "again"}))
    assert ledger.best() == (0, 1)
    assert ledger.report(0) == {"name": "again"}
    table = ledger.cv_results()
    assert table["mean_test_score"][2] == 6.0
    assert np.isnan(table["mean_test_score"][0])
    assert table["mean_fit_time"][0] == 0.75 / 4
    assert ledger.progress()["done"] == 3
