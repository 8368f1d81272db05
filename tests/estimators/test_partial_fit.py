"""`partial_fit`: in any order and size of batches, the model of one fit of all rows."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

from onefold import LSSVC, LSSVR, KernelRidge, load, save
from onefold.approximations import Nystroem
from onefold.kernels import RBF

RNG = np.random.default_rng(5)
X = RNG.standard_normal((120, 3))
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 1] * X[:, 2]]) + 0.1 * RNG.standard_normal(
    (120, 2)
)
LABELS = np.array(["b", "a", "c"])[np.digitize(Y[:, 0], [-0.7, 0.7])]
LANDMARKS = RNG.standard_normal((25, 3))
NEW = RNG.standard_normal((40, 3))
SETTINGS = {"gamma": 0.3, "alpha": 0.01, "approximation": Nystroem(LANDMARKS)}


def streamed(model, X, y, parts, weight=None, **first):
    """The model after one call for each set of rows."""
    for part in parts:
        own = {} if weight is None else {"sample_weight": weight[part]}
        assert model.partial_fit(X[part], y[part], **own, **first) is model
        first = {}
    return model


def assert_same(left, right, rows=NEW, tolerance=1e-10):
    decide = "decision_function" if hasattr(left, "decision_function") else "predict"
    a, b = (np.asarray(getattr(model, decide)(rows)) for model in (left, right))
    assert a.shape == b.shape
    scale = np.abs(b - b.mean(axis=0)).max()
    np.testing.assert_allclose(a, b, rtol=2e-15, atol=tolerance * scale)


# Against one fit of all rows


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_batches_in_any_order_are_one_fit(data):
    kind = data.draw(st.sampled_from([LSSVR, KernelRidge]))
    seed, n = data.draw(st.integers(0, 99)), data.draw(st.integers(1, 120))
    rng = np.random.default_rng(seed)
    order = rng.permutation(120)[:n]
    cuts = data.draw(st.lists(st.integers(0, n), max_size=6, unique=True))
    parts = [part for part in np.split(order, sorted(cuts)) if part.size]
    y = Y if data.draw(st.booleans()) else Y[:, 0]
    if kind is LSSVR:
        y = y * data.draw(st.sampled_from([1e-12, 1.0, 1e12]))
        y = y + data.draw(st.sampled_from([0.0, 1e3, -1e6])) * np.abs(y).max()
    weight = None
    if data.draw(st.booleans()):
        weight = rng.uniform(0.1, 2, 120) * data.draw(st.sampled_from([1e-12, 1.0, 1e12]))
        weight[rng.random(120) < data.draw(st.sampled_from([0.0, 0.5]))] = 0
        weight[order[0]] = 1.0 if weight[order].max() == 0 else weight[order[0]]
    rows = X.astype(data.draw(st.sampled_from([np.float32, np.float64])))
    alpha = data.draw(st.sampled_from([1e-6, 1e-2, 10.0]))
    model = kind(gamma=0.3, alpha=alpha, approximation=Nystroem(LANDMARKS))
    own = None if weight is None else weight[order]
    whole = clone(model).fit(rows[order], y[order], own)
    got = streamed(model, rows, y, parts, weight)
    # Of targets far from 0 what their own rounding leaves.
    far = 1e-15 * np.abs(y).max() / max(np.ptp(y, axis=0).max(), 1e-300)
    assert_same(got, whole, NEW.astype(rows.dtype), 1e-9 + 100 * far)
    assert got.approximation_["rows"] == (n if own is None else np.count_nonzero(own))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 99), st.sampled_from([2, 3]), st.booleans(), st.lists(st.integers(1, 119), max_size=5)
)
def test_classes_may_come_late_and_apart(seed, count, weighted, cuts):
    rng = np.random.default_rng(seed)
    y = LABELS if count == 3 else np.where(LABELS == "c", "b", LABELS)
    order = np.argsort(y, kind="stable") if seed % 2 else rng.permutation(120)
    weight = rng.integers(0, 3, 120).astype(float) if weighted else None
    given = {"b": 3.0} if seed % 3 else None
    model = LSSVC(**SETTINGS, class_weight=given)
    parts = np.split(order, sorted(set(cuts)))
    got = streamed(model, X, y, parts, weight, classes=np.unique(y)[::-1])
    whole = LSSVC(**SETTINGS, class_weight=given).fit(X, y, weight)
    assert_same(got, whole, tolerance=1e-11)
    assert got.classes_.tolist() == whole.classes_.tolist()
    assert got.predict(NEW).tolist() == whole.predict(NEW).tolist()


def test_one_row_at_a_time_against_a_literal_solution():
    """Min Σ v (y − Φβ − b)² + μ βᵀWβ by one dense solve that shares nothing with the package."""

    def rbf(A, B):
        return np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    v = RNG.uniform(0.5, 2, 120)
    Phi, W = np.hstack([rbf(X, LANDMARKS), np.ones((120, 1))]), rbf(LANDMARKS, LANDMARKS)
    penalty = np.zeros((26, 26))
    penalty[:25, :25] = 0.01 * W
    beta = np.linalg.solve(Phi.T @ (v[:, None] * Phi) + penalty, Phi.T @ (v[:, None] * Y))
    expected = np.hstack([rbf(NEW, LANDMARKS), np.ones((40, 1))]) @ beta
    got = streamed(LSSVR(**SETTINGS), X, Y, np.arange(120)[:, None], v)
    np.testing.assert_allclose(got.predict(NEW), expected, atol=1e-9)
    assert got.approximation_["batches"] == 120


@pytest.mark.parametrize("training", ["whitened sums", "sums"])
@pytest.mark.parametrize("kind", [LSSVR, KernelRidge])
def test_a_fit_from_sums_is_the_same_model(kind, training):
    m, n = (400, 35_000) if training == "whitened sums" else (600, 30_000)
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n, 8))
    y = np.sin(rows[:, 0]) + rows[:, 1] + 0.1 * rng.standard_normal(n)
    model = kind(gamma=0.3, alpha=1.0, approximation=Nystroem(rows[:m]))
    whole = clone(model).fit(rows, y)
    assert whole.approximation_["training"] == training
    got = streamed(model, rows, y, np.array_split(np.arange(n)[::-1], [100, 20_000]))
    assert_same(got, whole, rows[:300], tolerance=1e-8)


def test_batches_in_other_units_and_places():
    """Weights of one batch 1e-12 of the next one's, targets of each about a mean of their own."""
    parts = np.split(np.arange(120), [10, 70])
    weight, y = RNG.uniform(0.5, 2, 120), Y.copy()
    for part, scale, place in zip(parts, (1e-12, 1e12, 1.0), (0.0, 1e9, -1e9)):
        weight[part] *= scale
        y[part] += place
    settings = {**SETTINGS, "alpha": 1e10}
    whole = LSSVR(**settings).fit(X, y, weight)
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        got = streamed(LSSVR(**settings), X, y, [parts[i] for i in order], weight)
        a, b = got.predict(NEW) - 1e9, whole.predict(NEW) - 1e9
        np.testing.assert_allclose(a, b, atol=3e-7)  # a few last digits of 1e9


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e5])
def test_features_far_from_zero_lose_no_more_than_in_a_fit(offset):
    """A linear kernel, whose landmarks span the features: ridge regression about the means."""
    about = X - X.mean(axis=0)
    slopes = np.linalg.solve(about.T @ about + 0.1 * np.eye(3), about.T @ (Y - Y.mean(axis=0)))
    expected = Y.mean(axis=0) + (NEW - X.mean(axis=0)) @ slopes
    kernel = {"kernel": "linear", "alpha": 0.1, "approximation": Nystroem(LANDMARKS + offset)}
    whole = LSSVR(**kernel).fit(X + offset, Y)
    got = streamed(LSSVR(**kernel), X + offset, Y, np.array_split(np.arange(120), 7))
    errors = [np.abs(model.predict(NEW + offset) - expected).max() for model in (got, whole)]
    assert errors[0] <= 5 * errors[1] + 1e-13


def test_duplicated_landmarks_constant_targets_and_a_rank():
    twice = Nystroem(np.vstack([LANDMARKS, LANDMARKS[:10]]))
    parts = np.array_split(np.arange(120), 4)
    for own in (
        {**SETTINGS, "approximation": twice},
        {**SETTINGS, "approximation": Nystroem(LANDMARKS, rank=7)},
        {**SETTINGS, "kernel": "laplacian"},
    ):
        assert_same(streamed(LSSVR(**own), X, Y, parts), LSSVR(**own).fit(X, Y))
    constant = streamed(LSSVR(**SETTINGS), X, np.full(120, 7.0), parts)
    assert np.all(constant.predict(NEW) == 7.0)


def test_each_target_may_have_an_alpha_of_its_own():
    settings = {**SETTINGS, "alpha": [0.01, 3.0]}
    parts = np.array_split(np.arange(120), 3)
    assert_same(streamed(LSSVR(**settings), X, Y, parts), LSSVR(**settings).fit(X, Y))
    with pytest.raises(ValueError, match="one per target"):
        LSSVR(**settings).partial_fit(X, Y[:, 0])


def test_alpha_may_change_on_the_way():
    parts = np.array_split(np.arange(120), 3)
    model = streamed(LSSVR(**SETTINGS), X, Y, parts[:2])
    model.set_params(alpha=5.0).partial_fit(X[parts[2]], Y[parts[2]])
    assert_same(model, LSSVR(**{**SETTINGS, "alpha": 5.0}).fit(X, Y))


def test_the_same_digits_for_any_number_of_threads():
    rows = np.random.default_rng(0).standard_normal((20_000, 3))
    models = [LSSVR(**SETTINGS, n_jobs=jobs).partial_fit(rows, rows[:, 0]) for jobs in (1, 2)]
    assert np.array_equal(models[0].expansion_.coef, models[1].expansion_.coef)


# Weights of zero


@pytest.mark.parametrize("kind", [LSSVR, LSSVC])
def test_a_batch_without_weight_changes_nothing(kind):
    y, first = (Y[:, 0], {}) if kind is LSSVR else (LABELS, {"classes": ["a", "b", "c"]})
    model = kind(**SETTINGS).partial_fit(X, y, sample_weight=np.zeros(120), **first)
    with pytest.raises(NotFittedError):
        model.predict(NEW)
    model.partial_fit(X[:60], y[:60])
    before = model.expansion_
    model.partial_fit(X[60:] * 100, y[60:], sample_weight=np.zeros(60, dtype=int))
    assert model.expansion_ is before
    model.partial_fit(X[60:], y[60:])
    assert_same(model, kind(**SETTINGS).fit(X, y))


def test_a_batch_without_weight_is_still_checked():
    model = LSSVR(**SETTINGS).partial_fit(X, Y)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], Y, sample_weight=np.zeros(120))
    with pytest.raises(ValueError, match="targets"):
        model.partial_fit(X, Y[:, 0], sample_weight=np.zeros(120))


# Life of a model


def test_fit_starts_anew():
    model = LSSVR(**SETTINGS).partial_fit(X, 100 * Y).fit(X[:50], Y[:50, 0])
    assert_same(model, LSSVR(**SETTINGS).fit(X[:50], Y[:50, 0]))
    with pytest.raises(ValueError, match="fitted by fit"):
        model.partial_fit(X, Y[:, 0])


@pytest.mark.parametrize("through", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_copies_go_on_by_themselves(through):
    model = LSSVC(**SETTINGS).partial_fit(X[:50], LABELS[:50], classes=["a", "b", "c"])
    other = through(model)
    before = model.decision_function(NEW)
    other.partial_fit(X[50:], LABELS[50:])
    assert_same(other, LSSVC(**SETTINGS).fit(X, LABELS))
    assert np.array_equal(model.decision_function(NEW), before)
    assert not hasattr(clone(other), "expansion_")


def test_a_saved_model_predicts_and_says_that_it_cannot_go_on(tmp_path):
    model = LSSVR(**SETTINGS).partial_fit(X, Y)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(loaded.predict(NEW), model.predict(NEW))
    assert loaded.approximation_ == model.approximation_
    with pytest.raises(ValueError, match="read from a file"):
        loaded.partial_fit(X, Y)
    again = clone(loaded).partial_fit(X[:50], Y[:50]).partial_fit(X[50:], Y[50:])
    assert_same(again, model)


def test_a_batch_that_is_refused_leaves_the_model_as_it_was():
    model = LSSVR(**SETTINGS).partial_fit(X[:60], Y[:60])
    with pytest.raises(ValueError):
        model.partial_fit(np.full((5, 3), np.nan), Y[:5])
    with pytest.raises(ValueError):
        model.partial_fit(X[:5], np.full((5, 2), np.inf))
    with pytest.raises(ValueError, match="not finite"), np.errstate(all="ignore"):
        model.partial_fit(X[:5], np.full((5, 2), [1e308, -1e308]) * [[1], [-1], [1], [-1], [1]])
    model.partial_fit(X[60:], Y[60:])
    assert_same(model, LSSVR(**SETTINGS).fit(X, Y))


def test_a_first_batch_that_is_refused_leaves_a_new_model():
    model = LSSVC(**SETTINGS)
    with pytest.raises(ValueError, match="'d'"):
        model.partial_fit(X[:3], ["a", "b", "d"], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="landmark rows must have shape"):
        model.partial_fit(X[:, :2], LABELS, classes=["x", "a", "b", "c"])
    got = streamed(model, X, LABELS, np.array_split(np.arange(120), 2), classes=["a", "b", "c"])
    assert_same(got, LSSVC(**SETTINGS).fit(X, LABELS))


def test_landmarks_of_the_user_may_be_written_to_in_between():
    own = LANDMARKS.copy()
    settings = {**SETTINGS, "approximation": Nystroem(own)}
    model = LSSVR(**settings).partial_fit(X[:60], Y[:60])
    own[:] = 0
    assert_same(model.partial_fit(X[60:], Y[60:]), LSSVR(**SETTINGS).fit(X, Y))


# Rows of other kinds


def test_rows_may_be_sparse_or_of_another_library_and_change_from_batch_to_batch():
    torch = pytest.importorskip("torch")
    kinds = [np.asarray, sparse.csr_matrix, torch.as_tensor, lambda rows: rows.astype(np.float32)]
    exact = X.astype(np.float32).astype(np.float64)
    settings = {**SETTINGS, "approximation": Nystroem(exact[:25])}
    whole = LSSVR(**settings).fit(exact, Y)
    parts = np.array_split(np.arange(120), 4)
    for shift in range(4):
        model = LSSVR(**settings)
        for part, kind in zip(parts, kinds[shift:] + kinds[:shift]):
            model.partial_fit(kind(exact[part]), Y[part])
        assert_same(model, whole, tolerance=1e-9)
    tensors = LSSVR(**settings)
    for part in parts:
        tensors.partial_fit(torch.as_tensor(exact[part]), torch.as_tensor(Y[part]))
    found = tensors.predict(torch.as_tensor(NEW))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), whole.predict(NEW), atol=1e-10)
    moved = streamed(LSSVR(**settings, device="cpu"), exact, Y, parts)
    assert_same(moved, whole)


def test_rows_that_are_streamed_to_a_device(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr("onefold.rows.moving._MOVED_AT_ONCE", 0)
    weight = RNG.uniform(0.5, 2, 120)
    parts = np.array_split(np.arange(120), 3)
    got = streamed(LSSVR(**SETTINGS, device="cpu"), X, Y, parts, weight)
    assert_same(got, LSSVR(**SETTINGS).fit(X, Y, weight))


def test_rows_of_a_strict_library():
    strict = pytest.importorskip("array_api_strict")
    model = LSSVR(**SETTINGS)
    for part in np.array_split(np.arange(120), 3):
        model.partial_fit(strict.asarray(X[part]), strict.asarray(Y[part]))
    assert_same(model, LSSVR(**SETTINGS).fit(X, Y))


def test_data_frames_and_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = LSSVR(**SETTINGS).partial_fit(frame[:60], Y[:60, 0]).partial_fit(frame[60:], Y[60:, 0])
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert_same(model, LSSVR(**SETTINGS).fit(frame, Y[:, 0]), pandas.DataFrame(NEW, columns=list("abc")))
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[["b", "a", "c"]], Y[:, 0])


# What is refused


@pytest.mark.parametrize(
    "approximation",
    ["exact", "auto", "nystroem", Nystroem(50), Nystroem(LANDMARKS, predict="rows"), "nonsense", None],
    ids=repr,
)
def test_partial_fit_is_there_for_given_landmarks_alone(approximation):
    model = LSSVR(approximation=approximation)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"use approximation=Nystroem\(rows\)"):
        model.partial_fit(X, Y)
    with pytest.raises(AttributeError, match=r"use approximation=Nystroem\(rows\)"):
        LSSVR.partial_fit(model, X, Y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gamma": "scale"}, "give a number"),
        ({"metric": "full"}, "use metric=None"),
        ({"kernel": "precomputed"}, "precomputed"),
        ({"kernel": "auto"}, "unknown kernel"),
        ({"gamma": [1.0, 2.0]}, "widths"),
        ({"alpha": -1.0}, "alpha"),
        ({"class_weight": "balanced"}, "give a dict"),
        ({"class_weight": {"a": -1.0}}, "class_weight"),
    ],
)
def test_what_depends_on_all_rows_or_is_wrong_is_refused(settings, message):
    model = LSSVC(**{**SETTINGS, **settings})
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, LABELS, classes=["a", "b", "c"])


def test_widths_that_need_no_rows():
    kernel = RBF(0.3)
    for own in ({"gamma": None}, {"kernel": kernel, "gamma": "scale"}, {"gamma": [0.1, 0.2, 0.3]}):
        model = LSSVR(**{**SETTINGS, **own})
        got = streamed(model, X, Y, np.array_split(np.arange(120), 3))
        assert_same(got, clone(model).fit(X, Y))


def test_classes_are_named_once_and_kept():
    with pytest.raises(ValueError, match="requires y"):
        LSSVC(**SETTINGS).partial_fit(X, None, classes=["a", "b"])
    with pytest.raises(ValueError, match="first call"):
        LSSVC(**SETTINGS).partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="two classes"):
        LSSVC(**SETTINGS).partial_fit(X, LABELS, classes=["a"])
    model = LSSVC(**SETTINGS).partial_fit(X[:3], ["a"] * 3, classes=["a", "b"])
    assert model.predict(NEW).tolist() == ["a"] * 40
    model.partial_fit(X, np.where(LABELS == "c", "a", LABELS), classes=["b", "a"])
    with pytest.raises(ValueError, match="not those of the first call"):
        model.partial_fit(X, LABELS, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"not among the classes: \['c'\]"):
        model.partial_fit(X, LABELS)
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X[:2], [0, 1])


@pytest.mark.parametrize("changed", [{"gamma": 0.4}, {"approximation": Nystroem(LANDMARKS[:20])}])
def test_another_kernel_or_other_landmarks_are_refused(changed):
    model = LSSVR(**SETTINGS).partial_fit(X, Y)
    with pytest.raises(ValueError, match="not those of the batches before"):
        model.set_params(**changed).partial_fit(X, Y)
    model.set_params(gamma=0.3, approximation=Nystroem(LANDMARKS.copy())).partial_fit(X, Y)
    assert_same(model, LSSVR(**SETTINGS).fit(np.vstack([X, X]), np.vstack([Y, Y])))


@pytest.mark.parametrize("kind", [LSSVC, LSSVR, KernelRidge])
@pytest.mark.parametrize(
    ("check", "features"),
    [
        ("check_estimators_partial_fit_n_features", 2),
        ("check_n_features_in_after_fitting", 4),
        ("check_dataframe_column_names_consistency", 8),
    ],
)
def test_scikit_learn_checks_of_partial_fit(kind, check, features):
    rows = np.random.default_rng(0).standard_normal((5, features))
    getattr(estimator_checks, check)(kind.__name__, kind(approximation=Nystroem(rows)))
