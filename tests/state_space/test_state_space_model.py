"""The state space behind the estimators, against the exact method: any times, weights and criteria."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit, TimeSeriesSplit

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, KernelRidgeCV, load, plan, trust
from onefold.approximations import Problem, StateSpace, registered
from onefold.approximations import state_space as module
from onefold.cli import main
from onefold.criteria.closed import GeneralisedCV, RadiusMargin
from onefold.estimators.setup import workload
from onefold.expansions import LineExpansion
from onefold.heldout import GapKFold
from onefold.kernels import RBF, Laplacian, Matern, line

pytest.importorskip("numba")
pytestmark = pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")

KERNELS = ["laplacian", "matern12", "matern32", "matern52"]
GRID: dict[str, Any] = {"gammas": [0.05, 0.5], "alphas": [2.0**-9, 0.1, 2.0]}


def series(n: int = 90, seed: int = 0) -> tuple[Any, Any, Any]:
    """Times in no order with repeats and a gap, targets, and weights with zeros."""
    rng = np.random.default_rng(seed)
    times = rng.exponential(0.5, n).cumsum()
    times[n // 2 :] += 25.0
    times[5] = times[4]
    times[40:44] = times[40]
    rng.shuffle(times)
    y = np.sin(times / 2) + 0.2 * rng.standard_normal(n)
    weight = rng.uniform(0.1, 3.0, n)
    weight[::11] = 0.0
    return times[:, None], y, weight


def both(
    kind: Any, kernel: Any, X: Any, y: Any, *, weight: Any = None, groups: Any = None, **given: Any
):
    """The estimator fitted by its state space and by the matrix."""
    more = {} if groups is None else {"groups": groups}
    return [
        kind(kernel, approximation=name, **given).fit(X, y, sample_weight=weight, **more)
        for name in ("state_space", "exact")
    ]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", [LSSVR, KernelRidge])
@pytest.mark.parametrize("weighted", [False, True])
def test_fits_are_those_of_the_exact_method(kind, kernel, weighted) -> None:
    X, y, weight = series()
    y = np.stack([y, 100 + np.cos(y)], axis=1)
    found, exact = both(
        kind, kernel, X, y, weight=weight if weighted else None, gamma=0.3, alpha=[0.01, 0.5]
    )
    new = np.linspace(-10, 90, 201)[:, None]
    assert_allclose(found.predict(new), exact.predict(new), rtol=1e-10, atol=1e-10)
    coefs = (model.expansion_.coef for model in (found, exact))
    assert_allclose(*coefs, rtol=0, atol=1e-9)
    assert found.approximation_["name"] == "state_space"


SEARCHES = [
    {"cv": "loo"}, {"cv": LeaveOneOut()}, {"cv": 4}, {"cv": KFold(3, shuffle=True, random_state=0)},
    {"cv": GapKFold(3, 2)}, {"cv": TimeSeriesSplit(3)}, {"cv": ShuffleSplit(3, random_state=0)},
    {"criterion": "gcv"}, {"criterion": "evidence"}, {"criterion": "press"}, {"criterion": "span"},
    {"criterion": "cost"},
]  # fmt: skip


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: str(search)[:40])
@pytest.mark.parametrize(
    ("kind", "kernel", "weighted"),
    [
        (LSSVRCV, "matern12", False),
        (LSSVRCV, "matern52", True),
        (KernelRidgeCV, "matern32", False),
        (KernelRidgeCV, "laplacian", True),
    ],
)
def test_searches_are_those_of_the_exact_method(kind, kernel, weighted, search) -> None:
    X, y, weight = series()
    found, exact = both(kind, kernel, X, y, weight=weight if weighted else None, **GRID, **search)
    scores = (model.cv_results_["mean_test_score"] for model in (found, exact))
    assert_allclose(*scores, rtol=1e-8)
    assert found.best_params_ == exact.best_params_
    new = np.linspace(-10, 90, 60)[:, None]
    assert_allclose(found.predict(new), exact.predict(new), rtol=0, atol=1e-9)
    if "cv" in search:
        assert_allclose(found.heldout_prediction_, exact.heldout_prediction_, rtol=0, atol=1e-9)


def test_groups_and_several_kernels() -> None:
    X, y, _ = series()
    groups = np.arange(len(y)) // 7
    found, exact = both(
        LSSVRCV, ["laplacian", "matern52"], X, y, groups=groups, cv=GroupKFold(3),
        gammas=[0.3, 3.0], alphas=[0.01, 0.5],
    )  # fmt: skip
    assert found.best_params_ == exact.best_params_
    scores = (model.cv_results_["mean_test_score"] for model in (found, exact))
    assert_allclose(*scores, rtol=1e-9)


@pytest.mark.parametrize("intervals", ["cv+", "jackknife+", "normalised"])
@pytest.mark.parametrize("kind", [LSSVR, KernelRidge])
def test_intervals_are_those_of_the_exact_method(kind, intervals) -> None:
    X, y, weight = series()
    found, exact = both(kind, "matern32", X, y, weight=weight, gamma=0.3, alpha=0.2, intervals=intervals)
    new = np.linspace(-5, 80, 50)[:, None]
    assert_allclose(found.predict_interval(new), exact.predict_interval(new), rtol=1e-9, atol=1e-9)


def test_intervals_of_a_search() -> None:
    X, y, _ = series()
    found, exact = both(LSSVRCV, "matern52", X, y, cv=KFold(4, shuffle=True, random_state=1), **GRID)
    new = np.linspace(-5, 80, 50)[:, None]
    assert_allclose(found.predict_interval(new), exact.predict_interval(new), rtol=0, atol=1e-9)
    assert (
        found.approximation_["intervals"]["predictions"]
        == exact.approximation_["intervals"]["predictions"]
    )


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_and_their_probabilities(classes) -> None:
    X, y, _ = series()
    labels = np.digitize(y, [0.0] if classes == 2 else [-0.4, 0.4])
    given = {"class_weight": "balanced"}
    new = np.linspace(-5, 80, 50)[:, None]
    for kind, settings in [(LSSVC, {"gamma": 0.3, "alpha": 0.1}), (LSSVCCV, GRID)]:
        found, exact = both(kind, "matern32", X, labels, **settings, **given)
        assert_allclose(found.decision_function(new), exact.decision_function(new), rtol=0, atol=1e-9)
        assert_allclose(found.predict_proba(new), exact.predict_proba(new), rtol=0, atol=1e-7)


# -- corners -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_any_unit_of_time(kernel, scale) -> None:
    X, y, _ = series()
    power = 1 if kernel == "laplacian" else 2
    plain = LSSVR(kernel, gamma=0.3, alpha=0.01, approximation="state_space").fit(X, y)
    moved = LSSVR(kernel, gamma=0.3 / scale**power, alpha=0.01, approximation="state_space")
    found = moved.fit(X * scale, y).predict(X * scale)
    assert_allclose(found, plain.predict(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_seconds_since_1970_in_small_steps(kernel) -> None:
    start = 1_700_000_000.0
    offset = np.round(np.random.default_rng(0).uniform(0, 60, 80) * 64) / 64  # exact in both
    y = np.sin(offset / 3)
    near = LSSVR(kernel, gamma=0.3, alpha=1e-4, approximation="state_space").fit(offset[:, None], y)
    far = LSSVR(kernel, gamma=0.3, alpha=1e-4, approximation="state_space")
    far.fit(start + offset[:, None], y)
    assert_array_equal(far.predict(start + offset[:, None]), near.predict(offset[:, None]))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", [LSSVR, KernelRidge])
def test_few_rows(kind, kernel, n) -> None:
    X, y, _ = series(50)
    found, exact = both(kind, kernel, X[:n], y[:n], gamma=0.3, alpha=0.01)
    assert_allclose(found.predict(X), exact.predict(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_rows_at_the_same_time_and_constant_targets(kernel) -> None:
    X, y, weight = series()
    same = np.full_like(X, 3.5)
    given = {"gamma": 0.3, "alpha": 0.01}
    found, exact = both(LSSVR, kernel, same, y, weight=weight, **given)
    assert_allclose(found.predict(X), exact.predict(X), rtol=0, atol=1e-9)
    constant = LSSVR(kernel, approximation="state_space", **given).fit(X, np.full(len(X), 7.25))
    assert_allclose(constant.predict(X), 7.25, rtol=1e-15)
    searched = LSSVRCV(kernel, approximation="state_space", **GRID).fit(same, y)
    assert np.isfinite(searched.best_score_)


def literal_function(times: Any, y: Any, dimension: int, rate: Any, mu: float, new: Any) -> Any:
    """f at new times by the dense system in extended precision."""
    n = len(times)

    def kernel(a: Any, b: Any) -> Any:
        s = rate * abs(a - b)
        return {1: 1, 2: 1 + s, 3: 1 + s + s * s / 3}[dimension] * mp.exp(-s)

    with mp.workdps(50):
        points = [mp.mpf(float(t)) for t in times]
        system = mp.matrix(n + 1, n + 1)
        for i, j in np.ndindex(n, n):
            system[i, j] = kernel(points[i], points[j]) + (mp.mpf(mu) if i == j else 0)
        for i in range(n):
            system[i, n] = system[n, i] = 1
        solved = mp.lu_solve(system, mp.matrix([*map(mp.mpf, map(float, y)), 0]))
        values = [
            solved[n] + sum(solved[j] * kernel(mp.mpf(float(t)), points[j]) for j in range(n))
            for t in new
        ]
        return np.array(values, dtype=float)


@pytest.mark.parametrize("ridge", [2.0**-21, 2.0**-9])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_tiny_ridges_and_steps_of_every_size(dimension, ridge) -> None:
    rng = np.random.default_rng(4)
    times = np.cumsum(10.0 ** rng.uniform(-6, 3, 30))
    y = np.sin(np.arange(30) / 4.0) + 0.1 * rng.standard_normal(30)
    new = np.concatenate([times[::3], times[:-1] + 0.3 * np.diff(times), [times[0] - 1.0]])
    kernel = Matern(1.0, nu=dimension - 0.5)
    found = LSSVR(kernel, alpha=ridge, approximation="state_space").fit(times[:, None], y)
    with mp.workdps(50):
        rate = mp.sqrt(4 * (mp.mpf(dimension) - mp.mpf(0.5)))
    truth = literal_function(times, y, dimension, rate, ridge, new)
    assert_allclose(found.predict(new[:, None]), truth, rtol=0, atol=1e-9 * y.std())


def test_single_precision_and_frames() -> None:
    X, y, _ = series()
    single = X.astype(np.float32)
    given = {"gamma": 0.3, "alpha": 0.01, "approximation": "state_space"}
    found = LSSVR("matern52", **given).fit(single, y)
    wide = LSSVR("matern52", **given).fit(single.astype(np.float64), y)
    assert_allclose(found.predict(single), wide.predict(single.astype(np.float64)), rtol=0, atol=1e-5)
    frame = pd.DataFrame({"t": X[:, 0]})
    framed = LSSVR("matern52", **given).fit(frame, pd.Series(y))
    assert framed.feature_names_in_.tolist() == ["t"]
    assert_array_equal(framed.predict(frame), LSSVR("matern52", **given).fit(X, y).predict(X))


@pytest.mark.parametrize("criterion", ["mse", "gcv", "evidence", "press"])
def test_tensors(criterion) -> None:
    torch = pytest.importorskip("torch")
    X, y, _ = series()
    tensors = torch.asarray(X), torch.asarray(y)
    given = {"approximation": "state_space", "criterion": criterion, **GRID}
    found = LSSVRCV("matern52", **given).fit(*tensors)
    plain = LSSVRCV("matern52", **given).fit(X, y)
    assert found.best_params_ == plain.best_params_
    assert_allclose(np.asarray(found.predict(tensors[0])), plain.predict(X), rtol=0, atol=1e-9)


def test_the_same_digits_on_any_number_of_threads() -> None:
    X, y, weight = series(300)
    found = [
        LSSVRCV("matern52", approximation="state_space", n_jobs=jobs, **GRID).fit(X, y, weight)
        for jobs in (1, 3)
    ]
    for name in ("mean_test_score", "std_test_score"):
        assert_array_equal(*(model.cv_results_[name] for model in found))
    new = np.linspace(-5, 80, 50)[:, None]
    assert_array_equal(*(model.predict(new) for model in found))
    assert_array_equal(*(model.predict_interval(new) for model in found))


# -- around the model ----------------------------------------------------------------------------------


def test_many_rows_save_load_and_predict_like_the_sum_itself(tmp_path) -> None:
    rng = np.random.default_rng(2)
    times = rng.uniform(0, 500, 3000)
    times[::50] = times[1::50]
    y = np.sin(times) + 0.1 * rng.standard_normal(3000)
    model = LSSVRCV("matern52", approximation="state_space", gammas=[0.3], alphas=[0.1])
    model.fit(times[:, None], y)
    new = np.concatenate([rng.uniform(-20, 520, 200), times[:100]])[:, None]
    expansion = model.expansion_
    kernel = Matern(0.3, nu=2.5)
    summed = kernel(new, times[:, None]) @ expansion.coef + expansion.intercept
    assert_allclose(model.predict(new), summed[:, 0], rtol=0, atol=1e-10)
    one_by_one = [model.predict(row[None])[0] for row in new[::20]]
    assert_array_equal(model.predict(new)[::20], one_by_one)
    model.save(tmp_path / "series.onefold")
    loaded = load(tmp_path / "series.onefold")
    assert loaded.approximation == "state_space"
    assert_array_equal(loaded.predict(new), model.predict(new))
    assert_array_equal(loaded.predict_interval(new), model.predict_interval(new))


def test_it_is_exported_as_the_plain_sum() -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    X, y, _ = series()
    model = LSSVR("matern52", gamma=0.3, alpha=0.01, approximation="state_space").fit(X, y)
    graph = model.to_onnx(dtype="float64").SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    new = np.linspace(-5, 80, 50)[:, None]
    [values] = session.run(None, {session.get_inputs()[0].name: new})
    assert_allclose(np.ravel(values), model.predict(new), rtol=0, atol=1e-9)


def test_a_table_of_times_and_values(tmp_path) -> None:
    X, y, _ = series(60)
    table = tmp_path / "readings.csv"
    pd.DataFrame({"t": X[:, 0], "y": y}).to_csv(table, index=False)
    command = ["tune", str(table), "--target", "y", "--approximation", "state_space"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    fitted = load(tmp_path / "out" / "model.onefold")
    assert fitted.estimator_.approximation_["selected_with"]["name"] == "state_space"
    assert fitted.estimator_.kernel == "matern52"


def test_a_search_is_resumed(tmp_path) -> None:
    X, y, _ = series()
    given = {"approximation": "state_space", "checkpoint": tmp_path / "search", **GRID}
    first = LSSVRCV("matern32", **given).fit(X, y)
    again = LSSVRCV("matern32", **given).fit(X, y)
    assert_array_equal(first.cv_results_["mean_test_score"], again.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    "search",
    [{"search": "halving"}, {"metric": "diagonal", "max_rounds": 1}, {"blend": True, "intervals": None}],
    ids=lambda search: next(iter(search)),
)
def test_other_searches_are_those_of_the_exact_method(search) -> None:
    X, y, _ = series()
    kernel = "matern32" if "search" in search else ["laplacian", "matern32"]
    found, exact = both(LSSVRCV, kernel, X, y, cv=3, gammas=[0.1, 1.0], alphas=[0.01, 0.1], **search)
    new = np.linspace(-5, 80, 50)[:, None]
    assert_allclose(found.predict(new), exact.predict(new), rtol=0, atol=1e-7)


def test_the_gradient_of_what_was_fitted() -> None:
    X, y, _ = series()
    found, exact = both(LSSVR, "matern52", X, np.stack([y, y**2], axis=1), gamma=0.3, alpha=0.01)
    new = np.linspace(-5, 80, 50)[:, None]
    slopes = (model.expansion_.gradient(new) for model in (found, exact))
    assert_allclose(*slopes, rtol=0, atol=1e-9)


def test_the_same_function_without_numba(monkeypatch) -> None:
    X, y, _ = series()
    found = LSSVR("matern52", gamma=0.3, alpha=0.01, approximation="state_space").fit(X, y)
    new = np.linspace(-5, 80, 50)[:, None]
    expected = found.predict(new), found.expansion_.gradient(new)
    monkeypatch.setattr(line, "_loops", lambda: None)
    assert_allclose(found.predict(new), expected[0], rtol=0, atol=1e-11)
    assert_allclose(found.expansion_.gradient(new), expected[1], rtol=0, atol=1e-10)


def test_trust_and_plan() -> None:
    X, y, _ = series()
    model = LSSVRCV("matern32", approximation=StateSpace(), **GRID)
    assert trust(model, X, y, size=60, random_state=0).verdict == "applies"
    small, large = (plan(model, (n, 1)) for n in (10_000, 1_000_000))
    assert small.approximation == StateSpace()
    assert large.seconds == pytest.approx(100 * small.seconds, rel=0.1)
    assert large.bytes < 5 * 10**9


@pytest.mark.parametrize(
    ("kernel", "X"),
    [
        (RBF(1.0), np.zeros((5, 1))),
        (Matern(1.0), np.zeros((5, 2))),
        (Laplacian(1.0) + Matern(1.0), np.zeros((5, 1))),
        (Matern(1.0), scipy.sparse.csr_array(np.ones((5, 1)))),
    ],
    ids=["rbf", "two features", "sum", "sparse"],
)
def test_what_has_no_state_space_is_refused(kernel, X) -> None:
    with pytest.raises(ValueError, match='takes one dense feature and a kernel "matern12"'):
        LSSVR(kernel, approximation="state_space").fit(X, np.arange(5.0))


def test_radius_and_margin_need_a_matrix() -> None:
    X, y, _ = series()
    labels = np.where(y > 0, 1, -1)
    with pytest.raises(ValueError, match="needs the kernel matrix"):
        LSSVCCV("matern32", approximation="state_space", criterion="radius_margin").fit(X, labels)


def test_auto_knows_that_a_criterion_needs_the_matrix() -> None:
    X, y, _ = series()
    problem = Problem(X, y[:, None], None, True)
    loads = [workload(problem, 1, 1, None, [one]) for one in (RadiusMargin(), GeneralisedCV())]
    assert [load.matrix for load in loads] == [True, False]


def test_a_line_has_one_feature() -> None:
    with pytest.raises(ValueError, match="one feature"):
        LineExpansion(Matern(1.0), np.zeros((3, 2)), np.ones((3, 1)), np.zeros(1))


def test_without_numba_it_says_what_to_install(monkeypatch) -> None:
    monkeypatch.setattr(module, "missing_numba", lambda: "there is no Numba; pip install numba")
    with pytest.raises(ImportError, match="pip install numba"):
        LSSVR("matern32", approximation="state_space").fit(np.zeros((3, 1)), np.arange(3.0))


def test_it_is_registered_by_its_name() -> None:
    assert registered()["state_space"] is StateSpace
