"""cawley2002: short versions of both figures, and conventional pruning, which throws data away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import KFold

from benchmarks.common import DATA
from onefold import LSSVR, LSSVRCV
from onefold.kernels import RBF
from papers.cawley2002 import (
    _ALPHAS,
    _GAMMAS,
    PAPER,
    _claims,
    conventional,
    fewest_flat,
    improved,
    progression,
    prune,
)
from papers.page import Page

RNG = np.random.default_rng(0)
X = RNG.standard_normal((90, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(90)
GRID = {"gammas": [0.1, 0.5], "alphas": [0.01, 0.3]}


@pytest.mark.skipif(
    not all((DATA / f"{name}.npz").exists() for name in ("mcycle", "boston")),
    reason="mcycle and boston are not in ONEFOLD_DATA",
)
def test_a_short_version_writes_the_page(tmp_path: Path) -> None:
    PAPER.run([], True, tmp_path)
    text = (tmp_path / "cawley2002.md").read_text("utf-8")
    assert text.count("**Claims hold:**") + text.count("**Claims do not hold:**") >= 2
    assert {path.stem for path in tmp_path.glob("images/*")} == {f"cawley2002-figure{i}" for i in (1, 2)}


def test_a_size_is_the_machine_of_the_strongest_rows_of_the_size_before() -> None:
    first, second = prune(X, Y, [90, 30], **GRID)
    kept = np.sort(np.argsort(-np.abs(first.expansion_.coef[:, 0]))[:30])
    literal = LSSVR(gamma=second.gamma, alpha=second.alpha).fit(X[kept], Y[kept])
    assert np.array_equal(second.expansion_.centres, X[kept])
    assert np.array_equal(second.predict(X), literal.predict(X))


def test_it_is_worse_than_keeping_every_residual() -> None:
    splits = list(KFold(3, shuffle=True, random_state=0).split(X))
    sizes, own = improved(X, Y, splits, 0.4)
    theirs = conventional(X, Y, [60, *sizes[1:]], splits)
    assert sizes == sorted(sizes, reverse=True)
    assert np.isfinite(own).all()
    assert np.isfinite(theirs).all()
    smaller = [k for k, size in enumerate(sizes) if 5 < size < 30]
    assert smaller
    assert all(theirs[k].mean() > own[k].mean() for k in smaller)


@pytest.mark.parametrize("rule", ["coefficients", "price"])
def test_the_improved_machine_is_the_public_one_with_the_rule(rule: str) -> None:
    """A path of one split, trained on the training rows alone by the paper's formulas."""
    y = np.sin(4 * X[:, 0]) + np.sin(4 * X[:, 1]) + 0.1 * RNG.standard_normal(90)  # narrow kernels
    train, test = next(iter(KFold(3, shuffle=True, random_state=0).split(X)))
    sizes, errors = improved(X, y, [(train, test)], 0.4, rule)
    tuned = {"gammas": list(_GAMMAS), "alphas": list(_ALPHAS), "loss": "mean", "intervals": None}
    chosen = LSSVRCV(**tuned, cv=KFold(4, shuffle=True, random_state=0)).fit(X[train], y[train])
    K = RBF(chosen.gamma_)
    centres = train
    for k, size in enumerate(sizes):
        while True:  # Ω of the paper without the intercept's border; ℓ/2γ = αℓ, and a tiny ridge
            C = K(X[train], X[centres])
            W = K(X[centres], X[centres])
            border = C.sum(axis=0)
            mean = y[train].mean()
            omega = chosen.alpha_ * len(train) * W + C.T @ C - np.outer(border, border) / len(train)
            inverse = np.linalg.inv(omega + 1e-11 * np.trace(omega) / len(omega) * np.eye(len(omega)))
            beta = inverse @ (C.T @ y[train] - border * mean)
            if len(centres) <= size:
                break
            strength = np.abs(beta) / (np.sqrt(np.diag(inverse)) if rule == "price" else 1.0)
            centres = centres[np.sort(np.argsort(strength)[len(centres) - size :])]
        values = K(X[test], X[centres]) @ beta + mean - border @ beta / len(train)
        np.testing.assert_allclose(errors[k, test].mean(), ((y[test] - values) ** 2).mean(), rtol=1e-5)
    assert len(centres) == sizes[-1] == 2


def test_the_fewest_patterns_are_those_before_the_error_first_rises() -> None:
    found = {"sizes": [50, 20, 10, 5], "price": [1.0, 1.04, 1.2, 1.01], "improved": [1.0, 0.9, 0.9, 0.9]}
    assert fewest_flat(found) == 20
    assert fewest_flat(found, "improved") == 5


def test_verdicts_follow_from_the_numbers(tmp_path: Path) -> None:
    found = {"sizes": [50, 20, 10], "improved": [1.0, 1.1, 2.0], "conventional": [1.0, 1.2, 3.0]}
    found["seconds"] = {"improved": 1.0, "conventional": 2.0}
    assert progression(found) == pytest.approx(1.0)
    page = Page(tmp_path)
    _claims(found, "its shape", True, page)
    assert [line.split(":**")[0] for line in page.lines if line] == ["**Claims hold"]
    page = Page(tmp_path)
    _claims(found | {"conventional": [1.0, 1.0, 3.0]}, "its shape", False, page)
    assert "**Claims hold:** it takes 0.50 of the time." in page.lines
    missed = "**Claims do not hold:** the improved error is the lower one at 1 of 2 sizes; its shape."
    assert missed in page.lines
