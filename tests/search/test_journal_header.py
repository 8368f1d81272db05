"""Whatever an evaluation depends on tells one journal from another: settings, rows, learned metrics."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array
from sklearn.metrics import make_scorer, mean_absolute_error, mean_squared_error

from onefold import LSSVRCV
from onefold.approximations import Nystroem
from onefold.rows import rows_of
from onefold.search.describing import described
from onefold.search.fingerprint import rows_checksum

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60)
SMALL = {"gammas": [0.1, 1.0], "alphas": [0.01, 0.1]}
FACTOR = 1.0


def fitted(path: Path, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return LSSVRCV(**SMALL | settings, checkpoint=path).fit(X, Y)


def scaled(factor: float) -> Callable[..., float]:
    def error(y: Any, predicted: Any) -> float:
        return -factor * float(np.abs(y - predicted).mean())

    return error


def by_global(y: Any, predicted: Any) -> float:
    return -FACTOR * float(np.abs(y - predicted).mean())


def with_factor(factor: float, estimator: Any, X: Any, y: Any) -> float:
    return -factor * float(np.abs(y - estimator.predict(X)).mean())


def gaussian(width: float) -> Callable[[Any, Any], Any]:
    return lambda A, B: np.exp(-width * ((A[:, None] - B[None]) ** 2).sum(axis=-1))


class Error:
    """A scorer with a setting."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        return with_factor(self.factor, estimator, X, y)


PAIRS: dict[str, tuple[Any, Any]] = {
    "steps": (
        lambda e, X, y: -abs(e.predict(X) - y).mean(),
        lambda e, X, y: -abs(e.predict(X) - y).max(),
    ),
    "names": (
        lambda e, X, y: -mean_absolute_error(y, e.predict(X)),
        lambda e, X, y: -mean_squared_error(y, e.predict(X)),
    ),
    "names within": (
        lambda e, X, y: (lambda p: -mean_absolute_error(y, p))(e.predict(X)),
        lambda e, X, y: (lambda p: -mean_squared_error(y, p))(e.predict(X)),
    ),
    "defaults": (lambda e, X, y, k=1: k * e.predict(X)[0], lambda e, X, y, k=2: k * e.predict(X)[0]),
    "closed over": (make_scorer(scaled(1.0)), make_scorer(scaled(2.0))),
    "lambdas of scorers": (
        make_scorer(lambda y, p: -abs(y - p).mean()),
        make_scorer(lambda y, p: -((y - p) ** 2).mean()),
    ),
    "held": (Error(1.0), Error(2.0)),
    "partial": (partial(with_factor, 1.0), partial(with_factor, 2.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_scorers_that_compute_something_else_are_others(name: str, tmp_path: Path) -> None:
    one, other = PAIRS[name]
    first = fitted(tmp_path / "search", criterion=one)
    assert fitted(tmp_path / "search", criterion=one).best_score_ == first.best_score_
    with pytest.raises(ValueError, match="differs in criterion"):
        fitted(tmp_path / "search", criterion=other)


def test_a_constant_of_the_module_is_part_of_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(tmp_path / "search", criterion=make_scorer(by_global))
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 2.0)
    with pytest.raises(ValueError, match="differs in criterion"):
        fitted(tmp_path / "search", criterion=make_scorer(by_global))


def test_kernels_that_close_over_other_widths_are_others(tmp_path: Path) -> None:
    fitted(tmp_path / "search", kernel=gaussian(1.0), gammas=None)
    fitted(tmp_path / "search", kernel=gaussian(1.0), gammas=None)
    with pytest.raises(ValueError, match="differs in kernel"):
        fitted(tmp_path / "search", kernel=gaussian(2.0), gammas=None)


PROCESS = """
from sklearn.metrics import make_scorer, mean_absolute_error, get_scorer
from onefold.search.describing import described

def score(estimator, X, y, *, kinds=frozenset("abc")):
    return max(len(label) for label in y if label in {"one", "two", "three"} | {*"xyz"})

found = [score, make_scorer(mean_absolute_error), get_scorer("roc_auc"), {"b", "a"}, object()]
print(described([*found, {"of": lambda x: (lambda z: z)(x)}]))
"""


def test_a_description_is_the_same_in_another_process() -> None:
    def run(seed: str) -> str:
        call, env = [sys.executable, "-c", PROCESS], os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(call, capture_output=True, text=True, env=env, check=True).stdout

    assert run("1") == run("2") != ""


def test_what_holds_itself_is_described() -> None:
    held: list[Any] = [1]
    held.append(held)
    assert described(held) == [1, "list again"]


def test_the_checksum_tells_columns_of_zeros_and_ones_apart() -> None:
    """The bits of 1.0 are all at the upper end: of a factor, a product modulo 2⁶⁴ keeps twelve."""
    d, columns = 10_000, [*range(100), 9477, 9986]  # two of whose factors end with twelve zeros

    def checksum(rows: Any) -> str:
        return rows_checksum(rows_of(rows, np.zeros((2, 1)), None, None), d)

    seen = {checksum(csr_array((2, d)))}
    for value in (1.0, 2.0, 3.0, -1.0):
        for column in columns:
            rows = csr_array(([value], ([0], [column])), shape=(2, d))
            seen.add(checksum(rows))
            assert checksum(rows.toarray()) in seen
    assert len(seen) == 1 + 4 * len(columns)


def test_auto_does_not_take_over_what_was_asked_for(tmp_path: Path) -> None:
    fitted(tmp_path / "search", approximation=Nystroem(5))
    with pytest.raises(ValueError, match="differs in approximation"):
        fitted(tmp_path / "search", approximation="auto")


def test_a_metric_of_more_rows_is_another_on_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that is stopped goes to all rows with metrics of few; the one that goes on, of more."""
    import onefold.search.learning as learning

    monkeypatch.setattr(learning, "FIRST_ROWS", 100)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 3))
    y = np.sin(2 * rows[:, 0]) * rows[:, 1] + rng.standard_normal(400)
    settings = {"metric": "diagonal", "max_rounds": 1, "gammas": [1.0], "alphas": [1.0]}
    settings |= {"metric_rows": 300, "random_state": 0}
    events: list[Any] = []

    def stop(event: dict[str, Any]) -> None:
        events.append(event)
        if len(events) == rounds:
            raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        parts: list[str] = []
        whole = LSSVRCV(**settings, callback=lambda event: parts.append(event["part"])).fit(rows, y)
        rounds = parts.count("rounds")
        assert "paths gone again" in parts
        path = tmp_path / "search"
        stopped = LSSVRCV(**settings, checkpoint=path, callback=stop, n_jobs=1).fit(rows, y)
        again = LSSVRCV(**settings, checkpoint=path).fit(rows, y)
    assert stopped.search_["stopped"] == "interrupted"
    assert again.best_params_ == whole.best_params_
    np.testing.assert_allclose(
        again.cv_results_["mean_test_score"], whole.cv_results_["mean_test_score"], rtol=1e-12
    )
    assert_array_equal(again.predict(rows), whole.predict(rows))
