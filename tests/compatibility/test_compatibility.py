"""The table of what goes with what: a fit for every cell of its page, and what others may refuse."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse

from onefold import LSSVRCV
from onefold.approximations import Approximation, Auto, Exact, registered
from onefold.compatibility import RULES, Offer, Request
from onefold.criteria import _FOR_REGRESSORS, SumCriterion
from onefold.kernels import RBF
from onefold.search import FullGrid, register_strategy
from onefold.search import strategies as registry
from tests.tools import compatibility as table
from tests.tools.compatibility import Feature

pytestmark = pytest.mark.filterwarnings("ignore")  # what the models are worth does not matter

RNG = np.random.default_rng(5)
LINE = np.linspace(0, 1, table.ROWS)[:, None]
Y = np.sin(6 * LINE[:, 0]) + 0.1 * RNG.standard_normal(table.ROWS)
WEIGHTS = RNG.uniform(0.5, 2.0, table.ROWS)


def rows_of(feature: Feature) -> Any:
    """Rows that have what is asked for."""
    others = RNG.uniform(size=(table.ROWS, feature.columns - 1))
    X = np.hstack([LINE, others])
    if feature.rows == "sparse":
        return scipy.sparse.csr_matrix(X)
    if feature.rows == "precomputed":
        return np.exp(-table.GAMMA * (LINE - LINE.T) ** 2)
    if feature.rows == "dask":
        return pytest.importorskip("dask.array").from_array(X, chunks=(10, X.shape[1]))
    if feature.rows == "streamed":
        pytest.importorskip("torch")
    return X


def predictions(feature: Feature, approximation: Approximation) -> Any:
    """What a user would write."""
    X = rows_of(feature)
    weights = WEIGHTS if feature.weighted else None
    if feature.single_fit:
        return table.fit_of(feature, approximation).fit(X, Y, sample_weight=weights).predict(X)
    search = table.search_of(feature, approximation)
    if not feature.objective:
        return search.fit(X, Y, sample_weight=weights).predict(X)
    parameters: dict[str, Any] = {"alpha": 1.0}
    if search.gammas is not None:
        parameters["gamma"] = search.gammas[0]
    if not isinstance(search.kernel, str):
        parameters["kernel"] = search.kernel[0]
    objective = search.objective(X, Y, sample_weight=weights)
    assert np.isfinite(objective(parameters))
    return objective.fit().predict(X)


def agrees(feature: Feature, approximation: Approximation) -> None:
    """A fit is refused with the sentence of the table, or it is not refused."""
    sentence = table.refusal(feature, approximation)
    if sentence is None:
        assert np.isfinite(np.asarray(predictions(feature, approximation))).all()
        return
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        predictions(feature, approximation)


@pytest.fixture(autouse=True)
def _few_rows_are_streamed(monkeypatch) -> None:
    monkeypatch.setattr("onefold.rows._MOVED_AT_ONCE", 0)


def test_the_page_of_the_manual_is_the_one_that_is_printed() -> None:
    """Run ``python -m tests.tools.compatibility`` to print it again."""
    assert table.PAGE.read_text(encoding="utf-8") == table.page()


@pytest.mark.parametrize("name", table.COLUMNS)
@pytest.mark.parametrize("feature", [*table.FITS, *table.SEARCHES], ids=lambda feature: feature.name)
def test_a_fit_for_every_approximation(feature, name) -> None:
    for approximation in table.COLUMNS[name].values():
        for each in feature.each():
            agrees(each, approximation)


def test_the_page_has_every_approximation_and_every_criterion_without_splits() -> None:
    assert set(table.COLUMNS) == set(registered()) - {"auto"}
    searches = [each for feature in table.SEARCHES for each in feature.each()]
    criteria = {str(each.parameters["criterion"]) for each in searches if "criterion" in each.parameters}
    assert criteria == {name for name, each in _FOR_REGRESSORS.items() if not each.holds_out}


@pytest.mark.parametrize(
    "both", [both for _, _, both in table.pairs()], ids=lambda feature: feature.name
)
def test_a_fit_for_every_two_features(both) -> None:
    agrees(both, Auto())


@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_a_sentence_has_a_cause_and_a_remedy(rule) -> None:
    offer = Offer(Approximations(), final=Exact(), kernels=[RBF()])
    sentence = rule.sentence(Request("LSSVR", "LSSVRCV"), offer)
    assert re.fullmatch(r"[^\n{}]+; [^\n{}]+\.", sentence)


@dataclass(frozen=True)
class Approximations(Exact):
    """One from outside that takes little, and refuses more by itself."""

    name = "little"
    takes_sparse = False
    max_features = 2
    takes = "dense rows of two features and a Gaussian kernel"
    no_leave_one_out = "rows come in pairs; use folds of pairs."

    def takes_kernel(self, kernel: Any) -> bool:
        return isinstance(kernel, RBF)

    def check(self, kernel: Any, problem: Any, load: Any) -> None:
        if problem.n % 2:
            raise ValueError("the number of rows is odd; leave one out.")


class Even(SumCriterion):
    """One from outside that refuses by itself."""

    def terms(self, predictions: Any, truth: Any) -> Any:
        return abs(predictions - truth[None])

    def check(self, approximation: Approximation) -> None:
        raise ValueError(f"{approximation!r} is not even; use another one.")


@dataclass(frozen=True)
class Slow(FullGrid):
    """One from outside that refuses by itself."""

    name: ClassVar[str] = "slow"

    def check(self, setup: Any) -> None:
        raise ValueError(f"{setup.rows} rows would take too long; use fewer rows.")


@pytest.mark.parametrize(
    ("settings", "X", "words"),
    [
        ({}, np.ones((30, 3)), "takes dense rows of two features.*, and X has 3 features"),
        (
            {},
            scipy.sparse.csr_matrix(LINE),
            "X is sparse; convert it with X.toarray()",
        ),
        ({"kernel": "laplacian"}, LINE, "takes .* Gaussian kernel, and the kernel is Laplacian"),
        ({"cv": "loo"}, LINE, "rows come in pairs; use folds of pairs"),
        ({}, LINE[:29], "the number of rows is odd"),
        ({"criterion": Even()}, LINE, "is not even"),
        ({"search": Slow()}, LINE, "30 rows would take too long"),
    ],
)
def test_what_comes_from_outside_declares_and_refuses_for_itself(
    settings, X, words, monkeypatch
) -> None:
    monkeypatch.setattr(registry, "STRATEGIES", dict(registry.STRATEGIES))
    register_strategy(Slow)
    with pytest.raises(ValueError, match=words):
        LSSVRCV(approximation=Approximations(), **settings).fit(X, Y[: X.shape[0]])
