"""The trust check: its verdicts on cases built to deserve them, and what it promises to keep equal."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import onefold
from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, SparseLSSVR
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
    """The exact method with its widths multiplied, and its targets shuffled among rows."""

    factor: float = 1.0
    refit_as: str = "exact"
    name = "distorted"

    def prefers_exact_refit(self, problem: Any) -> bool:
        return self.refit_as == "exact"

    def model(self, kernel: Any, problem: Any, load: Any, shared: Any) -> Any:
        return Exact().model(kernel.scaled(self.factor), problem, load, shared)


def wave(n: int, noise: float = 0.3, seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(-3, 3, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + noise * generator.normal(size=n)


GRID = {"gammas": GAMMAS, "alphas": ALPHAS}


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(LSSVRCV, GRID), (LSSVRCV, {"kernel": "auto"}), (LSSVCCV, {"kernel": ["linear", "rbf"]})],
)
def test_the_exact_method_is_trusted_and_agrees_with_itself(kind: Any, settings: Any) -> None:
    found = onefold.trust(kind(**settings), X, Y if kind is LSSVRCV else Y > 0, size=90, random_state=0)
    assert (found.verdict, found.steps, found.regret, found.rows) == ("applies", 0, 0.0, 90)
    assert found.exact == found.approximate
    assert f"kernel {found.exact.get('kernel', '')}" in str(found) or settings is GRID
    assert json.loads(json.dumps(found.as_dict()))["exact"] == found.exact


@pytest.mark.parametrize(
    ("estimator", "verdict"),
    [
        (KernelRidgeCV(**GRID, approximation=Distorted()), "applies"),
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


def test_far_choices_without_regret_are_doubtful() -> None:
    # Pure noise: every width is as good, so that a distorted one costs nothing and proves nothing.
    generator = np.random.default_rng(2)
    X, y = generator.normal(size=(300, 2)), generator.normal(size=300)
    estimator = LSSVRCV(**GRID, approximation=Distorted(4.0**-4))
    found = onefold.trust(estimator, X, y, size=200, random_state=0)
    assert found.steps > 2
    assert found.verdict == "doubtful"


def test_a_model_trained_with_a_bad_approximation_is_judged_on_fresh_rows() -> None:
    X, y = wave(400, noise=0.05)

    @dataclass(frozen=True)
    class Shrunk(Distorted):
        """Selects exactly, but its expansion is worthless."""

        def model(self, kernel: Any, problem: Any, load: Any, shared: Any) -> Any:
            model = Exact().model(kernel, problem, load, shared)
            honest = model.expansion

            def worthless(alpha: Any) -> Any:
                fitted = honest(alpha)
                return replace(fitted, coef=0 * fitted.coef)

            model.expansion = worthless
            return model

    same = LSSVRCV(**GRID, approximation=Shrunk(refit_as="same"))
    found = onefold.trust(same, X, y, size=150, random_state=0)
    assert found.regret == 0.0
    assert found.loss > 0.1
    assert found.verdict == "does not apply"
    exactly = same.set_params(refit="exact")
    assert onefold.trust(exactly, X, y, size=150, random_state=0).verdict == "applies"


@pytest.mark.parametrize(
    ("steps", "regret", "tolerance", "loss", "verdict"),
    [
        (0, 0.0, 1.0, None, "applies"),
        (2, 1.0, 1.0, None, "applies"),
        (3, 0.0, 1.0, None, "doubtful"),
        (0, 1.5, 1.0, None, "doubtful"),
        (0, 3.1, 1.0, None, "does not apply"),
        (0, 0.0, 1.0, 0.2, "applies"),
        (0, 0.0, 1.0, 1.2, "doubtful"),
        (0, 0.0, 1.0, 3.2, "does not apply"),
        (0, 1e-3, 0.0, None, "does not apply"),  # without any tolerance every regret is too much
        (0, 0.0, 0.0, None, "applies"),
    ],
)
def test_the_rule(steps: int, regret: float, tolerance: float, loss: Any, verdict: str) -> None:
    draw = TrustCheck(10, {}, {}, steps, regret, tolerance, loss, None if loss is None else 1.0)
    assert draw.verdict == verdict


def test_the_upper_median_of_the_repeats_is_reported() -> None:
    good, fair, bad = (TrustCheck(10, {}, {}, 0, r, 1.0) for r in (0.0, 2.0, 9.0))
    assert TrustCheck.of([good, bad, good]).verdict == "applies"
    assert TrustCheck.of([bad, good]).verdict == "does not apply"
    three = TrustCheck.of([fair, good, bad])
    assert three.regret == 2.0
    assert three.as_dict()["verdicts"] == ["doubtful", "applies", "does not apply"]


def test_regret_is_the_exact_score_at_the_other_choice() -> None:
    X, y = wave(120)
    gammas, alphas = [0.01, 0.1, 1.0, 10.0], [0.01, 0.1, 1.0]
    estimator = LSSVRCV(gammas=gammas, alphas=alphas, approximation=Distorted(100.0), cv=4)
    found = onefold.trust(estimator, X, y, size=500)
    exact = LSSVRCV(gammas=gammas, alphas=alphas, cv=4).fit(X, y)
    other = LSSVRCV(gammas=gammas, alphas=alphas, cv=4, approximation=Distorted(100.0)).fit(X, y)
    scores = exact.cv_results_["mean_test_score"]
    assert found.exact == exact.best_params_
    assert found.approximate == other.best_params_
    assert found.regret == pytest.approx(scores.max() - scores[other.best_index_])
    places = [gammas.index(c["gamma"]) for c in (found.exact, found.approximate)]
    ridges = [alphas.index(c["alpha"]) for c in (found.exact, found.approximate)]
    assert found.steps == max(abs(places[0] - places[1]), abs(ridges[0] - ridges[1]))


def test_both_methods_see_the_same_rows_and_splits() -> None:
    X, y = wave(200)
    shuffled = KFold(4, shuffle=True)  # a new order each time it is asked
    found = onefold.trust(LSSVRCV(**GRID, cv=shuffled), X, y, size=90)
    assert found.regret == 0.0
    few = {"gammas": [0.5, 2.0, 8.0], "alphas": [0.01, 0.1, 1.0], "approximation": Nystroem(10)}
    one, two, three = (
        onefold.trust(LSSVRCV(**few, cv=cv), X, y, size=30, random_state=np.random.default_rng(3))
        for cv in (5, 5, None)
    )
    assert one == two == three


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
    with pytest.warns(UserWarning, match="cannot be trusted"):
        bad = LSSVRCV(approximation=Distorted(4.0**5), **settings).fit(X, y)
    assert bad.approximation_["trust"]["verdict"] == "does not apply"
    assert "trust" not in LSSVRCV(gammas=[1.0], alphas=[1.0]).fit(X, y).approximation_
    with pytest.warns(UserWarning, match="cannot be trusted .* the exact method chose kernel"):
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

    for estimator, settings, words in [
        (LSSVRCV(cv=[(np.arange(49), [49])]), {"size": 2}, "leaves nothing of the given splits"),
        (LSSVRCV(), {"size": 1}, "at least 2"),
        (LSSVRCV(), {"size": 2.5}, "size must be a whole number"),
        (LSSVRCV(), {"size": "all"}, "size must be a whole number"),
        (Own(), {}, "does not know Own"),
        (SparseLSSVR(), {}, "does not know SparseLSSVR; give it one of"),
        (make_pipeline(StandardScaler(), SparseLSSVR()), {}, "that ends in SparseLSSVR; give it one of"),
        (make_pipeline(StandardScaler(), "passthrough"), {}, "that ends in passthrough; give it one of"),
    ]:
        with pytest.raises(ValueError, match=words):
            onefold.trust(estimator, X, y, random_state=0, **settings)


def test_the_approximation_of_the_subsample_has_the_share_of_the_rows() -> None:
    """Of 600 rows 150 are looked at: 80 landmarks for all of them are 20 for those."""
    shares: list[float] = []
    sizes: list[int] = []

    @dataclass(frozen=True, eq=False)
    class Watched(Nystroem):
        def for_subsample(self, share: float) -> Approximation:
            shares.append(share)
            return super().for_subsample(share)

        def start(self, problem: Any, kernels: Any, load: Any) -> Run:
            sizes.append(self.n_components)
            return super().start(problem, kernels, load)

    X, y = wave(600)
    chooser = LSSVRCV(gammas=[0.1, 1.0], alphas=[0.1, 1.0], approximation=Watched(80, rank=40))
    found = onefold.trust(chooser, X, y, size=150, random_state=0)
    assert found.rows == 150
    assert shares == [150 / 600]
    assert sizes == [80, 20]  # the run that would take place, and the subsample's
    assert Nystroem(80, rank=40).for_subsample(150 / 600) == Nystroem(20, rank=10)
    assert Nystroem(2, rank=1).for_subsample(0.01) == Nystroem(1, rank=1)
    assert Nystroem(X[:9]).for_subsample(1 / 3) == Nystroem(X[:9])


@pytest.mark.parametrize("table", [list, pd.DataFrame, csr_matrix])
@pytest.mark.parametrize("gamma", ["scale", None])
def test_the_width_of_given_hyper_parameters_may_follow_any_table(table: Any, gamma: Any) -> None:
    X, y = wave(60)
    machine = LSSVR(gamma=gamma, approximation=Exact())
    plain = onefold.trust(machine, X, y, size=30, random_state=0)
    assert onefold.trust(machine, table(X), y, size=30, random_state=0).exact == plain.exact
    assert not hasattr(machine, "n_features_in_")


# -- steps between cells of several kernels -----------------------------------------------------------
CELLS = [
    {"alpha": alpha, "kernel": kernel} | gamma
    for alpha in (0.1, 1.0, 10.0, 100.0)
    for kernel, gamma in (("linear", {}), ("rbf", {"gamma": 0.3}), ("rbf", {"gamma": 1.0}))
]


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [(0, 0, 0), (1, 2, 1), (1, 7, 2), (0, 1, 1), (0, 2, 1), (0, 11, 3), (3, 10, 2)],
)
def test_steps_between_cells_of_different_kernels(one: int, other: int, steps: int) -> None:
    """A step for the kernel, whatever the widths; ridges count as ever."""
    assert _steps(CELLS, one, other) == _steps(CELLS, other, one) == steps


# -- the command line, and the extra loss by hand ----------------------------------------------------


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    t = np.arange(80)
    rows = [f"{i},{np.sin(i / 9):.6f}" for i in t]
    Path("s.csv").write_text("time,level\n" + "\n".join(rows) + "\n", encoding="utf-8")


def test_the_verdict_is_printed_and_kept(series: Any, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["tune", "s.csv", "--target", "level", "--approximation", "toeplitz", "--check"]
    argv += ["--gammas", "0.1,1", "--alphas", "0.01,1", "--ordered", "--force"]
    assert main(argv) == 0
    words = "the approximation applies (0 grid steps from the exact choice on 53 rows, regret"
    assert re.search(f"trust check +{re.escape(words)}", capsys.readouterr().out)
    assert main(["inspect", "s-onefold/model.onefold"]) == 0
    assert words in capsys.readouterr().out
    assert main([*argv, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["approximation"]["trust"]["verdict"] == "applies"


def test_the_extra_loss_by_hand() -> None:
    """Mean squared errors, and errors, of two models and of a constant on fresh rows."""
    y = np.array([3.0, 5.0, 4.0, 1.0, 2.0, 6.0])
    fresh, rows = np.array([3, 4, 5]), np.array([0, 1, 2])
    exact, other = np.array([1.5, 2.0, 6.0]), np.array([0.0, 3.0, 5.0])
    extra = (other - y[fresh]) ** 2 - (exact - y[fresh]) ** 2
    gain = np.mean((4.0 - y[fresh]) ** 2 - (exact - y[fresh]) ** 2)
    loss, tolerance = _loss_on([exact, other], fresh, rows, Task(None, y, None, None))
    assert loss == pytest.approx(extra.mean())
    assert tolerance == pytest.approx(max(extra.std(ddof=1) / np.sqrt(3), 0.05 * gain))
    labels, kinds = np.array(["a", "a", "b", "b", "a", "b"]), np.array(["a", "b"])
    right, wrong = np.array(["b", "a", "b"]), np.array(["b", "b", "a"])
    task = Task(None, labels, kinds, None)
    assert _loss_on([right, wrong], fresh, rows, task)[0] == pytest.approx(2 / 3)
