"""Are the reported scores honest where there is nothing to learn?

python -m benchmarks.honesty noise    50 draws of noise: held-out scores beside those of a constant
python -m benchmarks.honesty bias     a metric that saw the fold it is scored on, and one that did not

On noise no model can be better than a constant in truth, so a reported score that is better by more
than two standard errors claims what is not there. The score is that of the best of some hundred cells:
a little optimism is left in any search.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.common import Row, data_sets, run_parts
from onefold import LSSVCCV, LSSVRCV
from onefold.estimators.setup import RELATIVE_GAMMAS
from onefold.kernels import RBF
from onefold.search.choice import blended, choose_mixture, mean_score, paired_difference
from onefold.search.learned_metric import gradient_metric
from onefold.search.loop import Search

DRAWS = 50
FEATURES = 8
FOLDS = 5
SIZES = ((200, None), (1000, 400))
KINDS = ("random labels", "rare labels", "random numbers", "skewed numbers")


def draw(kind: str, n: int, seed: int, features: int = FEATURES) -> tuple[Any, Any]:
    """Features, and a target that has nothing to do with them."""
    rng = np.random.default_rng([seed, n])
    X = rng.standard_normal((n, features))
    if kind == "random labels":
        return X, rng.permutation(np.arange(n) % 2)
    if kind == "rare labels":
        return X, (rng.random(n) < 0.2).astype(int)
    y = rng.standard_normal(n)
    return X, y if kind == "random numbers" else np.exp(y)


def estimator(kind: str, seed: int, **settings: Any) -> Any:
    """Everything on: families, metrics and the blend."""
    labels = kind.endswith("labels")
    folds = StratifiedKFold if labels else KFold
    cv = folds(FOLDS, shuffle=True, random_state=seed)
    return (LSSVCCV if labels else LSSVRCV)("auto", metric="auto", blend=True, cv=cv, **settings)


def losses_of_constant(y: Any, cv: Any, tested: Any) -> Any:
    """The loss of every tested row for the mean, or the commonest label, of the other folds."""
    losses = np.full(len(y), np.nan)
    for train, test in cv.split(np.zeros((len(y), 1)), y):
        if y.dtype.kind == "i":
            losses[test] = y[test] != np.bincount(y[train]).argmax()
        else:
            losses[test] = (y[test] - y[train].mean()) ** 2
    return losses[tested]


def heldout_losses(model: Any, X: Any, y: Any) -> dict[str, tuple[float, Any]]:
    """The reported score of the choice and of the blend, and their losses row by row."""
    setup = model.set_up(X, y)
    found = setup.strategy.run(Search(setup))
    scoring = found.scoring
    chosen = found.chosen
    mixture = choose_mixture(found.leaders, chosen, scoring)
    fits = {
        "choice": chosen,
        "blend": chosen if mixture is None else blended(found.leaders, mixture),
    }
    losses = scoring.row_errors if isinstance(model, LSSVCCV) else scoring.row_losses
    rows = {
        what: (
            mean_score(fit.held_out, scoring),
            scoring.problem.in_table(losses(fit.held_out.by_row)[:, None], len(y))[:, 0],
        )
        for what, fit in fits.items()
    }
    return rows | {"round": chosen.cell.candidate.params["round"]}


def one_draw(kind: str, n: int, metric_rows: int | None, seed: int, **settings: Any) -> Row:
    """By how many standard errors the reported scores are better than a constant's.

    In standard errors of the constant's mean loss, and of the paired difference from it.
    """
    X, y = draw(kind, n, seed)
    model = estimator(kind, seed, metric_rows=metric_rows, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the grid ends is no news on noise
        found = heldout_losses(model, X, y)
    gains: Row = {"round": found.pop("round")}
    for what, (score, losses) in found.items():
        tested = np.isfinite(losses)
        constant = losses_of_constant(y, model.cv, tested)
        mean, error = paired_difference(constant, losses[tested], None)
        gains[what] = (score + constant.mean()) / (constant.std(ddof=1) / np.sqrt(constant.size))
        gains[f"{what}, paired"] = mean / error if error else 0.0
    return gains


def shares(kind: str, n: int, metric_rows: int | None, draws: int, **settings: Any) -> list[Row]:
    """What happened in all draws of one kind of noise: a row for the choice, one for the blend."""
    found = [one_draw(kind, n, metric_rows, seed, **settings) for seed in range(draws)]
    rows = []
    for what in ("choice", "blend"):
        gains = np.array([one[what] for one in found])
        paired = np.array([one[f"{what}, paired"] for one in found])
        rows.append(
            {
                "noise": kind,
                "rows": n,
                "metric from": metric_rows or n,
                "score of": what,
                "draws": draws,
                "within 2 of the constant's errors": float(np.mean(np.abs(gains) <= 2)),
                "better by more": float(np.mean(gains > 2)),
                "mean gain": float(gains.mean()),
                "largest gain": float(gains.max()),
                "within 2 paired errors": float(np.mean(np.abs(paired) <= 2)),
                "mean gain, paired": float(paired.mean()),
                "metric chosen": float(np.mean([one["round"] > 0 for one in found])),
            }
        )
    return rows


def noise(quick: bool) -> list[Row]:
    """Every kind of noise, small tables and ones whose metric comes from some of the rows."""
    draws = 5 if quick else DRAWS
    rows = []
    for n, metric_rows in SIZES[:1] if quick else SIZES:
        for kind in KINDS:
            rows += shares(kind, n, metric_rows, draws)
            print(rows[-2], rows[-1], sep="\n", flush=True)
    return rows


# The bias that each fold's own metric avoids


def seen_metric(X: Any, y: Any, rounds: int, cv: Any) -> list[tuple[float, Any]]:
    """Score and model of every round where all folds share a metric learned from all rows."""
    kernel: Any = RBF(1.0)
    tuned = LSSVCCV if y.dtype.kind == "i" else LSSVRCV
    found = []
    for number in range(rounds + 1):
        mean = kernel.mean_exponent(X[:500])
        gammas = [width / mean for width in RELATIVE_GAMMAS]
        model = tuned(kernel, gammas=gammas, cv=cv).fit(X, y)
        found.append((model.best_score_, model))
        generator = np.random.default_rng(number)
        kernel = RBF(
            1.0, metric=gradient_metric(model.expansion_, X, None, kind="full", generator=generator)
        )
    return found


def ringnorm(n: int, seed: int) -> tuple[Any, Any]:
    """Two normal clouds about nearly the same place, one of twice the width, in 20 dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    wide = 2.0 * rng.standard_normal((n, 20))
    narrow = rng.standard_normal((n, 20)) + 2 / np.sqrt(20)
    return np.where(y[:, None] == 1, wide, narrow), y


def tables(quick: bool) -> Any:
    """(name, training rows, test rows) of noise, ringnorm and spambase."""
    for kind in ("random labels", "random numbers"):
        X, y = draw(kind, 2200, 0, features=30)
        yield kind, train_test_split(X, y, train_size=200, random_state=0)
    n = 300 if quick else 800
    X, y = ringnorm(n + 3000, 0)
    yield "ringnorm", train_test_split(X, y, train_size=n, random_state=0)
    for name, data in data_sets(["spambase"]):
        X = np.log1p(data["X"])
        y = data["y"].astype(int)
        yield name, train_test_split(X, y, train_size=n, random_state=0, stratify=y)


def bias(quick: bool) -> list[Row]:
    """Loss that each way reports, and on rows that no fit has seen, round by round."""
    rows = []
    rounds = 2 if quick else 4
    for name, (X, X_test, y, y_test) in tables(quick):
        scaler = StandardScaler().fit(X)
        X = scaler.transform(X)
        X_test = scaler.transform(X_test)
        labels = y.dtype.kind == "i"
        cv = (StratifiedKFold if labels else KFold)(FOLDS, shuffle=True, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = seen_metric(X, y, rounds, cv)
            kind = LSSVCCV if labels else LSSVRCV
            own = kind("rbf", metric="full", max_rounds=rounds, cv=cv, metric_rows=len(X)).fit(X, y)

        def loss(model: Any, X: Any = X_test, y: Any = y_test) -> float:
            predicted = model.predict(X)
            return float(
                np.mean(predicted != y) if y.dtype.kind == "i" else np.mean((predicted - y) ** 2)
            )

        honest = {one["round"]: one["score"] for one in own.metric_history_}
        for number, (score, model) in enumerate(seen):
            rows.append(
                {
                    "table": name,
                    "round": number,
                    "reported, metric saw the fold": -score,
                    "reported, metric of its own": -honest[number] if number in honest else None,
                    "test loss of that round": loss(model),
                }
            )
        best = max(range(len(seen)), key=lambda i: seen[i][0])
        chosen = {"table": name, "round": f"chosen: {best}, honestly {own.best_params_['round']}"}
        chosen["reported, metric saw the fold"] = -seen[best][0]
        chosen["reported, metric of its own"] = -own.best_score_
        chosen["test loss of that round"] = loss(seen[best][1])
        rows.append(chosen | {"test loss, honest choice": loss(own)})
        print(*rows[-len(seen) - 1 :], sep="\n", flush=True)
    return rows


if __name__ == "__main__":
    run_parts(
        "honesty",
        __doc__,
        {
            "noise": ("Reported scores on noise, beside a constant's", noise),
            "bias": ("A metric that saw the fold it is scored on", bias),
        },
    )
