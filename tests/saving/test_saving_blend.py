"""Blends of expansions through a file, and files with blends that fit nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from saving_standins import forge, metadata_of, through_file
from scipy import sparse

from onefold import LSSVC, LSSVR, KernelRidge, saving
from onefold.cli import main
from onefold.expansions import Blend, Expansion
from onefold.kernels import RBF, CallableKernel, Laplacian, Linear, Matern, Polynomial, Precomputed
from onefold.saving import ModelFileError, container
from onefold.saving.codec import Encoder

RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 3))
Y = np.stack([np.sin(X[:, 0]), X[:, 1] ** 2], axis=1)
KERNELS = (
    RBF(0.2, metric=RNG.normal(size=(3, 3))),
    Matern(0.3, nu=0.5, metric=[1.0, 0.0, 2.0]),
    Laplacian(0.2),
    Linear(),
)


def blend(rows=X, y=Y, kernels=KERNELS):
    """Members as they are fitted: with one and the same table for their centres."""
    members = [LSSVR(kernel, alpha=0.1).fit(rows, y).expansion_ for kernel in kernels]
    shared = [Expansion(m.kernel, members[0].centres, m.coef, m.intercept) for m in members]
    weights = np.linspace(0.1, 0.5, len(shared))
    return Blend(tuple(shared), weights, np.arange(members[0].n_targets) / 7)


def stored_shapes(path):
    with container.opened(path) as file:
        return sorted(array.shape for array in file.arrays().values())


def test_predictions_and_gradients_keep_their_bits(tmp_path):
    for rows in (X, X.astype(np.float32), np.asfortranarray(X)):
        held = blend(rows)
        loaded = through_file(held, tmp_path)
        assert type(loaded) is Blend
        assert [m.kernel for m in loaded.members] == list(KERNELS)
        assert loaded.members[0].centres.dtype == rows.dtype
        assert loaded.predict(rows).tobytes() == held.predict(rows).tobytes()
        assert loaded.gradient(rows).tobytes() == held.gradient(rows).tobytes()


def test_shared_centres_are_stored_once_and_come_back_shared(tmp_path):
    held = blend()
    loaded = through_file(held, tmp_path)
    assert stored_shapes(tmp_path / "model").count(X.shape) == 1
    assert all(m.centres is loaded.members[0].centres for m in loaded.members)
    first, *others = held.members
    apart = Expansion(first.kernel, X[:7], first.coef[:7], first.intercept)
    loaded = through_file(Blend((apart, *others), held.weights, held.intercept), tmp_path)
    assert stored_shapes(tmp_path / "model").count(X.shape) == 1
    assert loaded.members[0].centres.shape == (7, 3)
    assert loaded.members[1].centres is loaded.members[3].centres


@pytest.mark.parametrize("build", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_centres(tmp_path, build):
    rows = build(np.where(X > 0, X, 0.0))
    held = blend(rows, kernels=(RBF(0.2), Linear()))
    loaded = through_file(held, tmp_path)
    assert type(loaded.members[0].centres) is type(held.members[0].centres)
    assert loaded.members[0].centres is loaded.members[1].centres
    assert loaded.predict(rows).tobytes() == held.predict(rows).tobytes()


def test_a_blend_of_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    host = blend()
    centres = torch.asarray(X)
    parts = [(m.kernel, torch.asarray(m.coef), torch.asarray(m.intercept)) for m in host.members]
    members = tuple(Expansion(k, centres, coef, b) for k, coef, b in parts)
    there = Blend(members, torch.asarray(host.weights), torch.asarray(host.intercept))
    loaded = through_file(there, tmp_path)
    assert stored_shapes(tmp_path / "model").count(X.shape) == 1
    assert loaded.predict(X).tobytes() == host.predict(X).tobytes()


def test_a_grid_among_the_members(tmp_path):
    rows, y = X[:, :2], X[:, 0]
    grid = KernelRidge(RBF(0.2), alpha=0.1, approximation="grid").fit(rows, y).expansion_
    single = LSSVR(Laplacian(0.2)).fit(rows, y).expansion_
    held = Blend((grid, single), [0.5, 0.5], np.zeros(1))
    assert through_file(held, tmp_path).predict(rows).tobytes() == held.predict(rows).tobytes()


def with_blend(model, y):
    """A fitted estimator whose expansion is a blend."""
    model.fit(X, y)
    last = model[-1] if hasattr(model, "steps") else model
    rows = last.expansion_.centres
    kernels = (last.expansion_.kernel, Laplacian(0.3), Polynomial(0.2, 2))
    fits = [type(last)(kernel, alpha=0.1).fit(rows, y).expansion_ for kernel in kernels]
    shared = tuple(Expansion(m.kernel, rows, m.coef, m.intercept) for m in fits)
    last.expansion_ = Blend(shared, [0.5, 0.3, 0.2], np.zeros(shared[0].n_targets))
    return model


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (LSSVC(), np.where(X[:, 0] > 0, "yes", "no")),
        (LSSVC(), np.arange(40) % 3),
        (LSSVR(), Y[:, 0]),
        (KernelRidge(), Y),
    ],
    ids=["two", "three", "regression", "targets"],
)
def test_estimators_with_a_blend(tmp_path, model, y, capsys):
    held = with_blend(model, y)
    loaded = through_file(held, tmp_path)
    assert loaded.predict(X).tolist() == held.predict(X).tolist()
    assert main(["inspect", str(tmp_path / "model")]) == 0
    shown = capsys.readouterr().out
    assert "a blend of 3 kernels" in shown
    assert "0.3 × Laplacian(gamma=0.3)" in shown
    assert "120 centres, 3 features" in shown
    assert main(["inspect", str(tmp_path / "model"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["blend"][1] == {"weight": 0.3, "kernel": "Laplacian(gamma=0.3)"}


def test_a_blend_that_does_not_fit_its_estimator_is_not_saved(tmp_path):
    model = with_blend(LSSVC(), np.arange(40) % 3)
    model.classes_ = np.array(["a", "b"])
    with pytest.raises(ValueError, match="classes_ of its LSSVC"):
        saving.save(model, tmp_path / "m")


def test_a_kernel_function_in_a_member_is_refused_before_writing(tmp_path):
    own = Expansion(CallableKernel(lambda A, B: A @ B.T), X, Y, np.zeros(2))
    with pytest.raises(TypeError, match=r"kernel.*Python code"):
        saving.save(Blend((own,), [1.0], np.zeros(2)), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def forged(path, centres=None, members=None, **changes):
    """A blend written field by field, past the checks of the class and of `save`."""
    encoder = Encoder()
    fields = {
        "centres": [np.ones((3, 2))] if centres is None else centres,
        "members": [member(), member(kernel=Laplacian(1.0))] if members is None else members,
        "weights": np.array([1.0, 2.0]),
        "intercept": np.zeros(1),
        **changes,
    }
    nodes = {key: encoder.encode(value, key) for key, value in fields.items() if value is not ...}
    return forge(path, metadata_of({"$object": "Blend", "fields": nodes}), encoder.arrays)


def member(**changes):
    parts = {"kernel": RBF(1.0), "centres": 0, "coef": np.ones((3, 1)), "intercept": np.ones(1)}
    return {key: value for key, value in {**parts, **changes}.items() if value is not ...}


NESTED = Blend((Expansion(RBF(1.0), np.ones((3, 2)), np.ones((3, 1)), np.ones(1)),), [1.0], np.ones(1))


def test_the_unchanged_forgery_loads(tmp_path):
    loaded = saving.load(forged(tmp_path / "m"))
    assert loaded.predict(np.ones((1, 2))).tolist() == [[12.0]]
    assert loaded.members[0].centres is loaded.members[1].centres


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"weights": np.array([1.0, -2.0])}, "positive and finite"),
        ({"weights": np.array([1.0, 0.0])}, "positive and finite"),
        ({"weights": np.array([1.0, np.nan])}, "positive and finite"),
        ({"weights": np.array([1.0, np.inf])}, "positive and finite"),
        ({"weights": np.ones(3)}, "2 members do not match"),
        ({"weights": np.ones((2, 1))}, "2 members do not match"),
        ({"weights": np.array(["1", "2"])}, "not valid"),
        ({"weights": None}, "not valid"),
        ({"weights": ...}, "not valid"),
        ({"weights": np.array([1.0, 1e305])}, "infinite or undefined"),
        ({"intercept": np.array([np.nan])}, "intercepts .* not all finite"),
        ({"intercept": np.array([1e305])}, "infinite or undefined"),
        ({"intercept": np.zeros(2)}, "targets"),
        ({"intercept": np.zeros((1, 1))}, "targets"),
        ({"intercept": np.zeros(1, dtype=int)}, "not floating"),
        ({"intercept": 0.0}, "not valid"),
        ({"members": [], "weights": np.empty(0), "centres": []}, "one at least"),
        ({"members": []}, "do not fit its centres"),
        ({"members": 2}, "not valid"),
        ({"members": [member(), None]}, "must be expansions"),
        ({"members": [member(), NESTED]}, "must be expansions"),
        ({"members": [member(), member(centres=1)]}, "do not fit its centres"),
        ({"members": [member(), member(centres=-1)]}, "do not fit its centres"),
        ({"members": [member(), member(centres=0.0)]}, "not valid"),
        ({"members": [member(), member(centres=[0])]}, "not valid"),
        ({"members": [member(), member(centres=None)]}, "do not fit its centres"),
        ({"members": [member(), member(centres=...)]}, "not valid"),
        ({"members": [member(), member(coef=np.ones((4, 1)))]}, "3 centres do not match 4"),
        ({"members": [member(), member(coef=np.full((3, 1), np.nan))]}, "not all finite"),
        ({"members": [member(), member(coef=np.full((3, 1), 1.7e308))]}, "infinite or undefined"),
        ({"members": [member(), member(intercept=np.full(1, np.inf))]}, "not all finite"),
        ({"members": [member(), member(coef=np.ones((3, 2)), intercept=np.ones(2))]}, "targets"),
        ({"members": [member(), member(kernel="rbf")]}, "not a kernel"),
        ({"members": [member(), member(kernel=Precomputed())]}, "centres without need"),
        ({"members": [member(), member(kernel=RBF((1.0, 1.0, 1.0)))]}, "3 widths"),
        ({"members": [member(), member(colour=1)]}, "not valid"),
        ({"centres": [np.ones((3, 2)), np.ones((3, 2))]}, "do not fit its centres"),
        ({"centres": [None]}, "precomputed"),
        ({"centres": [np.full((3, 2), np.nan)]}, "not all finite"),
        ({"centres": [np.ones(3)]}, "not valid"),
        ({"centres": ["rows"]}, "not valid"),
        ({"centres": None, "colour": 1}, "has no parameter 'colour'"),
        (
            {"centres": [np.ones((3, 2)), np.ones((3, 4))], "members": [member(), member(centres=1)]},
            "same features",
        ),
        ({"centres": [sparse.csr_array(np.ones((3, 2)))]}, "takes dense rows only"),
    ],
)
def test_blends_that_do_not_hold_together_are_refused(tmp_path, changes, match):
    with pytest.raises(ModelFileError, match=match):
        saving.load(forged(tmp_path / "m", **changes))
