"""The estimators in scikit-learn's HTML diagrams: a summary of the fit, escaped, and no broken link."""

from __future__ import annotations

import copy
import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.fixes import parse_version

import onefold
from onefold import (
    LSSVC,
    LSSVCCV,
    LSSVR,
    LSSVRCV,
    KernelRidge,
    KernelRidgeCV,
    SparseLSSVC,
    SparseLSSVR,
)
from onefold.estimators.base import KernelMachine
from onefold.estimators.summary import summary_of

RNG = np.random.default_rng(2)
X = pd.DataFrame(RNG.standard_normal((60, 3)), columns=["age", "<b>bold</b>", "height"])
NUMBERS = np.sin(2 * X["age"].to_numpy()) + 0.1 * RNG.standard_normal(60)
LABELS = (NUMBERS > 0).astype(int)
GRID = {"gammas": [0.1, 1.0, 10.0], "alphas": [0.01, 0.1, 1.0]}
ALL = [
    (LSSVC(), LABELS),
    (LSSVR(approximation="nystroem"), NUMBERS),
    (KernelRidge(alpha=[0.1, 1.0]), np.column_stack([NUMBERS, NUMBERS**2])),
    (LSSVCCV(**GRID), LABELS),
    (LSSVRCV(**GRID), NUMBERS),
    (KernelRidgeCV("linear", alphas=[0.1, 1.0], criterion="r2"), NUMBERS),
    (SparseLSSVC(**GRID), LABELS),
    (SparseLSSVR(**GRID, n_centres=5), NUMBERS),
]
EVERY = pytest.mark.parametrize(("estimator", "y"), ALL, ids=lambda v: type(v).__name__)
shown = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"),
    reason="diagrams of older versions do not ask for fitted attributes",
)


@EVERY
@shown
def test_a_fitted_estimator_has_a_summary_and_others_have_none(estimator, y) -> None:
    assert "Summary of the fit" not in estimator_html_repr(estimator)
    model = clone(estimator).fit(X, y)
    page = estimator_html_repr(model)
    for _, words in summary_of(model):
        assert words.replace("<", "&lt;").replace(">", "&gt;") in page
    assert "Fitted attributes" in page
    inside = estimator_html_repr(make_pipeline(StandardScaler(), clone(estimator)).fit(X, y))
    assert inside.count("Summary of the fit") == 1


@EVERY
def test_the_text_is_as_it_was(estimator, y) -> None:
    assert repr(clone(estimator).fit(X, y)) == repr(estimator)


def test_the_choice_its_score_and_what_ran() -> None:
    model = LSSVRCV(**GRID).fit(X, NUMBERS)
    facts, place = dict(summary_of(model)), model.best_index_
    assert facts["chosen"] == f"RBF, gamma {model.gamma_:.4g}, alpha {model.alpha_:.4g}"
    spread = model.cv_results_["std_test_score"][place]
    assert facts["held-out score"].startswith(f"{model.best_score_:.4g} ± {spread:.2g} (standard dev")
    assert "5 splits), by mse" in facts["held-out score"]
    assert facts["computed by"] == "exact (at most 2000 rows: exact)"
    assert re.fullmatch(r"3 kernels in \S+ s of work", facts["search"])


def test_blends_metrics_and_checks() -> None:
    model = LSSVRCV(["rbf", "laplacian"], metric="diagonal", blend=True).fit(X, NUMBERS)
    facts = dict(summary_of(model))
    assert facts["metric"].startswith("age ")
    assert facts["held-out score"].startswith(f"{model.blend_score_:.4g}, by mse")
    if len(model.blend_) > 1:
        assert facts["chosen"] == f"a blend of {len(model.blend_)}"
        assert facts["members"].endswith(f"× {model.blend_[-1]['weight']:.2f}")
    checked = dict(summary_of(LSSVRCV(**GRID, approximation="nystroem", check=True).fit(X, NUMBERS)))
    assert checked["trust check"] == "applies"
    assert checked["computed by"] == "nystroem (60 landmarks)"


def test_the_rest_of_the_words() -> None:
    pruned = dict(summary_of(SparseLSSVR(**GRID, n_centres=5).fit(X, NUMBERS)))
    assert pruned["chosen"].endswith("5 of 60 centres")
    assert pruned["computed by"] == "pruning (improved, size by n_centres)"
    whole = dict(summary_of(LSSVRCV(**GRID, criterion=["gcv", "mse"]).fit(X, NUMBERS)))
    assert whole["score"].endswith(", by gcv; greater is better")
    scorer = dict(summary_of(LSSVRCV(**GRID, criterion=make_scorer(r2_score)).fit(X, NUMBERS)))
    assert "by make_scorer(r2_score" in scorer["held-out score"]
    assert "held-out score" not in dict(summary_of(LSSVR().fit(X, NUMBERS)))


@shown
def test_everything_is_escaped() -> None:
    page = estimator_html_repr(LSSVRCV(metric="diagonal", max_rounds=1).fit(X, NUMBERS))
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>bold</b>" not in page


def test_a_refused_fit_and_a_loaded_model_are_shown(tmp_path) -> None:
    model = LSSVRCV(**GRID)
    with pytest.raises(ValueError, match="must match row by row"):
        model.fit(X, NUMBERS[:5])
    assert "LSSVRCV" in estimator_html_repr(model)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, NUMBERS).save(tmp_path / "model.onefold")
    assert summary_of(onefold.load(tmp_path / "model.onefold")) == summary_of(model)


def test_there_is_a_link_once_there_is_an_address(monkeypatch) -> None:
    assert "Documentation for" not in estimator_html_repr(LSSVC())
    address = "https://docs.example/{estimator_name}.html"
    monkeypatch.setattr(KernelMachine, "_doc_link_template", address)
    assert 'href="https://docs.example/LSSVC.html"' in estimator_html_repr(LSSVC())


@EVERY
@shown
def test_attributes_that_somebody_took_away_are_not_missed(estimator, y) -> None:
    model = clone(estimator).fit(X, y)
    for name in [name for name in vars(model) if name.endswith("_")]:
        less = copy.copy(model)
        delattr(less, name)
        assert type(model).__name__ in estimator_html_repr(less)
