"""The trust check: its verdicts on cases built to deserve them, and what it promises to keep equal."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

import onefold
from onefold import LSSVC, LSSVCCV, LSSVRCV, KernelRidge, KernelRidgeCV
from onefold.approximations import Approximation, Exact, Nystroem, Run
from onefold.cli import main
from onefold.criteria import Task
from onefold.trust_check import TrustCheck, _loss_on, _steps

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
GAMMAS = 2.0 ** np.arange(-7, 8, 2)
ALPHAS = 2.0 ** np.arange(-9, 4, 2)
RNG = np.random.default_rng(5)
X = RNG.standard_normal((160, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(160)


@dataclass(frozen=True)
class Distorted(Approximation):
    """The exact method with its widths multiplied, and a final model that may be worthless."""

    factor: float = 1.0
    refit_as: str = "exact"
    name = "distorted"

    def prefers_exact_refit(self, problem: Any) -> bool:
        return self.refit_as == "exact"

    def model(self, kernel: Any, problem: Any, load: Any, shared: Any) -> Any:
        model = Exact().model(kernel.scaled(self.factor), problem, load, shared)
        if self.refit_as == "worthless":
            honest = model.expansion
            model.expansion = lambda alpha: replace(honest(alpha), coef=0 * honest(alpha).coef)
        return model


def wave(n: int, noise: float = 0.3, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(-3, 3, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + noise * generator.normal(size=n)


GRID = {"gammas": GAMMAS, "alphas": ALPHAS}


def test_the_state_space_of_a_series_is_the_exact_method() -> None:
    settings = GRID | {"approximation": "state_space", "intervals": None}
    found = onefold.trust(LSSVRCV("matern", **settings), X[:, :1], Y, size=60, random_state=0)
    assert str(found) == "nothing to check: the exact method is used for these rows."


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(LSSVRCV, GRID), (LSSVRCV, {"kernel": "auto"}), (LSSVCCV, {"kernel": ["linear", "rbf"]})],
)
def test_where_the_exact_method_runs_there_is_nothing_to_check(kind: Any, settings: Any) -> None:
    found = onefold.trust(kind(**settings), X, Y if kind is LSSVRCV else Y > 0, size=90, random_state=0)
    assert (found.verdict, found.steps, found.regret, found.rows) == ("applies", 0, 0.0, 90)
    assert found.exact == found.approximate
    assert str(found) == "nothing to check: the exact method is used for these rows."
    assert json.loads(json.dumps(found.as_dict()))["exact"] == found.exact


@pytest.mark.parametrize(
    ("estimator", "verdict"),
    [
        (KernelRidgeCV(**GRID, approximation=Distorted(4.0**5)), "does not apply"),
        (KernelRidgeCV(**GRID, approximation=Distorted(4.0**-4)), "does not apply"),
        # Given hyper-parameters are checked on a grid around them.
        (KernelRidge(gamma=2.0, alpha=0.1), "applies"),
        (KernelRidge(gamma=[2.0], alpha=0.1, approximation=Distorted(4.0**-5)), "does not apply"),
    ],
)
def test_a_distorted_kernel_is_found_out(estimator: Any, verdict: str) -> None:
    """It chooses a width so that width × factor is right: that many steps away from the truth."""
    found = onefold.trust(estimator, *wave(300, noise=0.05), size=150, random_state=1)
    assert found.verdict == verdict
    assert (found.steps >= 3) == (verdict != "applies")


def test_a_model_trained_with_a_bad_approximation_is_judged_on_fresh_rows() -> None:
    X, y = wave(400, noise=0.05)
    same = LSSVRCV(**GRID, approximation=Distorted(refit_as="worthless"))
    found = onefold.trust(same, X, y, size=150, random_state=0)
    assert found.regret == 0.0
    assert found.loss > 0.1
    assert found.verdict == "does not apply"
    exactly = same.set_params(refit="exact")
    assert onefold.trust(exactly, X, y, size=150, random_state=0).verdict == "applies"


@pytest.mark.parametrize(
    ("steps", "regret", "loss", "verdict"),
    [
        (2, 1.0, None, "applies"),
        (3, 0.0, None, "doubtful"),
        (0, 1.5, None, "doubtful"),
        (0, 3.1, None, "does not apply"),
        (0, 0.0, 1.2, "doubtful"),
        (0, 0.0, 3.2, "does not apply"),
    ],
)
def test_the_rule(steps: int, regret: float, loss: Any, verdict: str) -> None:
    draw = TrustCheck(10, {}, {}, steps, regret, 1.0, loss, None if loss is None else 1.0)
    assert draw.verdict == verdict


def test_without_any_tolerance_every_regret_is_too_much() -> None:
    found = [TrustCheck(10, {}, {}, 0, regret, 0.0).verdict for regret in (0.0, 1e-3)]
    assert found == ["applies", "does not apply"]


def test_the_upper_median_of_the_repeats_is_reported() -> None:
    good, fair, bad = (TrustCheck(10, {}, {}, 0, r, 1.0) for r in (0.0, 2.0, 9.0))
    assert TrustCheck.of([good, bad, good]).verdict == "applies"
    assert TrustCheck.of([bad, good]).verdict == "does not apply"
    three = TrustCheck.of([fair, good, bad])
    assert three.regret == 2.0
    assert three.as_dict()["verdicts"] == ["doubtful", "applies", "does not apply"]


def test_regret_is_the_exact_score_at_the_other_choice() -> None:
    X, y = wave(120)
    gammas = [0.01, 0.1, 1.0, 10.0]
    alphas = [0.01, 0.1, 1.0]
    estimator = LSSVRCV(gammas=gammas, alphas=alphas, approximation=Distorted(100.0), cv=4)
    found = onefold.trust(estimator, X, y, size=500)
    other = estimator.fit(X, y)
    exact = LSSVRCV(gammas=gammas, alphas=alphas, cv=4).fit(X, y)
    scores = exact.cv_results_["mean_test_score"]
    assert found.exact == exact.best_params_
    assert found.approximate == other.best_params_
    assert found.regret == pytest.approx(scores.max() - scores[other.best_index_])
    widths = [gammas.index(c["gamma"]) for c in (found.exact, found.approximate)]
    ridges = [alphas.index(c["alpha"]) for c in (found.exact, found.approximate)]
    assert found.steps == max(abs(widths[0] - widths[1]), abs(ridges[0] - ridges[1]))


def test_both_methods_see_the_same_rows_and_splits() -> None:
    X, y = wave(200)
    shuffled = KFold(4, shuffle=True)  # a new order each time it is asked
    assert onefold.trust(LSSVRCV(**GRID, cv=shuffled), X, y, size=90).regret == 0.0
    chooser = LSSVRCV(**GRID, approximation=Nystroem(10))
    one, two = (
        onefold.trust(chooser, X, y, size=30, random_state=np.random.default_rng(3)) for _ in "ab"
    )
    assert one == two


def test_classes_keep_their_shares_and_rare_ones_stay() -> None:
    generator = np.random.default_rng(2)
    X = generator.normal(size=(600, 2))
    y = np.array(["common"] * 588 + ["rare"] * 12)
    X[588:] += 2
    estimator = LSSVCCV(gammas=[0.1, 1.0], alphas=[0.1, 1.0], approximation=Distorted(2.0))
    found = onefold.trust(estimator, X, y, size=100, repeats=3, random_state=3)
    assert len(found.draws) == 3
    assert found.rows == 103  # 98 common, and one rare row for each of the 5 folds


@pytest.mark.parametrize("cv", ["loo", 3])
def test_check_keeps_the_verdict_and_warns_when_it_is_bad(cv: Any) -> None:
    X, y = wave(150, noise=0.05)
    settings = GRID | {"check": True, "cv": cv}
    good = LSSVRCV(**settings).fit(X, y)
    assert good.approximation_["trust"]["verdict"] == "applies"
    with pytest.warns(UserWarning, match="the trust check says that the approximation does not apply"):
        bad = LSSVRCV(approximation=Distorted(4.0**5), **settings).fit(X, y)
    assert bad.approximation_["trust"]["verdict"] == "does not apply"
    assert "trust" not in LSSVRCV(gammas=[1.0], alphas=[1.0]).fit(X, y).approximation_
    with pytest.warns(UserWarning, match="the trust check says .* the exact method chose kernel"):
        few = LSSVRCV("auto", approximation=Nystroem(3), refit="same", check=True, cv=cv).fit(X, y)
    assert few.approximation_["trust"]["verdict"] == "does not apply"


def test_a_precomputed_kernel_is_cut_to_the_subsample() -> None:
    X, y = wave(120)
    K = np.asfortranarray(np.exp(-((X - X.T) ** 2)))
    estimator = LSSVRCV("precomputed", alphas=ALPHAS)
    found = onefold.trust(estimator, K, y, size=60, random_state=0)
    assert found.verdict == "applies"
    assert set(found.exact) == {"alpha"}


def test_clear_refusals() -> None:
    X, y = wave(50)

    class Own(LSSVC):
        pass

    for estimator, size, words in [
        (LSSVRCV(cv=[(np.arange(49), [49])]), 2, "none of the given splits"),
        (LSSVRCV(), 1, "at least 2"),
        (LSSVRCV(), "all", "size must be a whole number"),
        (Own(), 40, "does not support Own"),
    ]:
        with pytest.raises(ValueError, match=words):
            onefold.trust(estimator, X, y, random_state=0, size=size)


def test_the_approximation_of_the_subsample_has_the_share_of_the_rows() -> None:
    """Of 600 rows 150 are looked at: 80 landmarks for all of them are 20 for those."""
    sizes: list[int] = []

    @dataclass(frozen=True, eq=False)
    class Watched(Nystroem):
        def start(self, problem: Any, kernels: Any, load: Any) -> Run:
            sizes.append(self.n_components)
            return super().start(problem, kernels, load)

    X, y = wave(600)
    chooser = LSSVRCV(gammas=[0.1, 1.0], alphas=[0.1, 1.0], approximation=Watched(80, rank=40))
    assert onefold.trust(chooser, X, y, size=150, random_state=0).rows == 150
    assert sizes == [80, 20]  # the run that would take place, and the subsample's
    assert Nystroem(80, rank=40).for_subsample(150 / 600) == Nystroem(20, rank=10)
    assert Nystroem(2, rank=1).for_subsample(0.01) == Nystroem(1, rank=1)
    assert Nystroem(X[:9]).for_subsample(1 / 3) == Nystroem(X[:9])


def test_another_kernel_is_a_step_whatever_the_widths() -> None:
    names = [("linear", {}), ("rbf", {"gamma": 0.3}), ("rbf", {"gamma": 1.0})]
    cells = [{"alpha": a, "kernel": name} | gamma for a in (0.1, 1.0, 10.0) for name, gamma in names]
    for one, other, steps in ((0, 0, 0), (1, 2, 1), (0, 2, 1), (1, 7, 2), (0, 8, 2)):
        assert _steps(cells, one, other) == _steps(cells, other, one) == steps


# -- the command line, and the extra loss by hand ----------------------------------------------------


def test_the_verdict_is_printed_and_kept(tmp_path: Any, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    t = np.arange(80)
    pd.DataFrame({"time": t, "level": np.sin(t / 9)}).to_csv("s.csv", index=False)
    argv = ["tune", "s.csv", "--target", "level", "--approximation", "toeplitz", "--check"]
    argv += ["--gammas", "0.1,1", "--alphas", "0.01,1", "--ordered", "--force"]
    words = "the approximation can be trusted (0 grid steps from the exact choice on 53 rows, regret"
    for call in (argv, ["inspect", "s-onefold/model.onefold"]):
        assert main(call) == 0
        assert words in capsys.readouterr().out
    assert main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["approximation"]["trust"]["verdict"] == "applies"


def test_the_extra_loss_by_hand() -> None:
    """Mean squared errors, and errors, of two models and of a constant on fresh rows."""
    y = np.array([3.0, 5.0, 4.0, 1.0, 2.0, 6.0])
    fresh = np.array([3, 4, 5])
    rows = np.array([0, 1, 2])
    exact = np.array([1.5, 2.0, 6.0])
    other = np.array([0.0, 3.0, 5.0])
    extra = (other - y[fresh]) ** 2 - (exact - y[fresh]) ** 2
    gain = np.mean((4.0 - y[fresh]) ** 2 - (exact - y[fresh]) ** 2)
    loss, tolerance = _loss_on([exact, other], fresh, rows, Task(None, y, None, None))
    assert loss == pytest.approx(extra.mean())
    assert tolerance == pytest.approx(max(extra.std(ddof=1) / np.sqrt(3), 0.05 * gain))
    labels = np.array(["a", "a", "b", "b", "a", "b"])
    kinds = np.array(["a", "b"])
    right = np.array(["b", "a", "b"])
    wrong = np.array(["b", "b", "a"])
    task = Task(None, labels, kinds, None)
    assert _loss_on([right, wrong], fresh, rows, task)[0] == pytest.approx(2 / 3)
