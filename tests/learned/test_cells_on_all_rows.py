"""Beyond `metric_rows`, up to some thousand rows, a cross of cells is tried on all rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from onefold import LSSVR, LSSVRCV


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_every_cell_is_that_of_refits_without_the_folds_set_aside(kind: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 4))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=90)
    cv = KFold(5, shuffle=True, random_state=1)
    found = LSSVRCV(metric=kind, metric_rows=40, cv=cv, random_state=0).fit(X, y)
    table, best = found.cv_results_, found.expansion_.kernel
    scored = sum(name.endswith("_test_score") and name.startswith("split") for name in table)
    folds = list(cv.split(X))[-scored:]
    assert len(table["params"]) >= 5
    for place, cell in enumerate(table["params"]):
        kernel = best.scaled(cell["gamma"] / found.best_params_["gamma"])
        for number, (train, test) in enumerate(folds):
            literal = LSSVR(kernel, alpha=cell["alpha"]).fit(X[train], y[train]).predict(X[test])
            score = table[f"split{number}_test_score"][place]
            assert score == pytest.approx(-np.mean((literal - y[test]) ** 2), rel=1e-7)
    tested = np.concatenate([test for _, test in folds])
    assert np.isfinite(found.heldout_prediction_[tested]).all()
    assert np.isnan(np.delete(found.heldout_prediction_, tested)).all()


def test_the_order_of_the_ridges_does_not_matter() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(90, 3))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=90)
    alphas, cv = 4.0 ** np.arange(-6, 2), KFold(5, shuffle=True, random_state=1)
    settings = {"metric": "diagonal", "metric_rows": 40, "cv": cv, "random_state": 0}
    one = LSSVRCV(alphas=alphas, **settings).fit(X, y)
    two = LSSVRCV(alphas=alphas[::-1], **settings).fit(X, y)
    assert one.best_params_ == two.best_params_
    assert one.best_score_ == pytest.approx(two.best_score_, rel=1e-9)
