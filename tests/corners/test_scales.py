"""Targets, scores and features of any size: the same choice, or a refusal that says why."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.model_selection import KFold
from sklearn.preprocessing import scale

from onefold import LSSVC, LSSVCCV, LSSVR, LSSVRCV, KernelRidge, SparseLSSVR
from onefold.kernels import RBF, CallableKernel, Linear
from onefold.search import GridEdgeWarning
from onefold.search.ledger import best_cell, edges

RNG = np.random.default_rng(11)
X = RNG.normal(size=(120, 2))
Y = np.sin(2 * X[:, 0]) + 0.05 * RNG.normal(size=120)


@given(st.integers(0, 2**32 - 1), st.floats(-120, 120), st.floats(-3, 3), st.integers(0, 6))
def test_the_best_cell_is_that_of_scaled_and_shifted_scores(seed, decades, shift, hopeless) -> None:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.normal(size=(6, 5)), 1)  # rounded: with ties
    scores.ravel()[rng.choice(30, hopeless, replace=False)] = -(10.0 ** rng.uniform(3, 12, hopeless))
    widths = rng.permutation(6) + 1.0
    ridges = rng.permutation(5) + 1.0
    moved = (scores + shift) * 10.0**decades
    assert best_cell(moved, widths, ridges) == best_cell(scores, widths, ridges)


@pytest.mark.parametrize("kind", [LSSVR(), LSSVRCV(), SparseLSSVR(), KernelRidge("linear")])
def test_features_whose_squares_overflow_are_refused(kind) -> None:
    with pytest.raises(ValueError, match="squares overflow; scale the features"):
        kind.fit(1e200 * X, Y)
    if isinstance(kind, LSSVR | KernelRidge):
        with pytest.raises(ValueError, match="squares overflow"):
            kind.fit(X, Y).predict(1e200 * X)


def test_large_features_in_single_precision_are_no_infinities() -> None:
    single = (1e20 * X).astype(np.float32)
    kernel = RBF(1e-40)
    for approximation in ("exact", "nystroem"):
        one = LSSVR(kernel, alpha=0.1, approximation=approximation).fit(single, Y)
        two = LSSVR(RBF(1.0), alpha=0.1, approximation=approximation).fit(X, Y)
        assert_allclose(one.predict(single), two.predict(X), atol=1e-4)


def test_a_kernel_that_overflows_is_refused_or_left_out() -> None:
    with pytest.raises(ValueError, match="NaN, infinite or very large values; scale the features"):
        LSSVR("polynomial", degree=9).fit(1e60 * X, Y)
    with pytest.warns(UserWarning, match="have no score"):
        found = LSSVRCV("polynomial", gammas=[1e-120, 1e60], alphas=[1.0], degree=3).fit(1e60 * X, Y)
    assert found.gamma_ == 1e-120
    with pytest.raises(ValueError, match="the kernel overflows on these rows"):
        LSSVR("polynomial", degree=9).fit(X, Y).predict(1e60 * X)


def test_a_likelihood_lost_to_rounding_is_none() -> None:
    settings = {"gammas": [0.3, 1.0, 4.0], "alphas": [0.02, 0.3, 2.0], "criterion": "evidence"}
    near = LSSVRCV(**settings).fit(X, Y)
    far = LSSVRCV(**settings).fit(X, Y + 1e8)
    assert near.best_params_ == far.best_params_
    assert_allclose(near.cv_results_["mean_test_score"], far.cv_results_["mean_test_score"], rtol=1e-5)
    exact = LSSVRCV("linear", alphas=[1e-30, 1.0], criterion="evidence")
    with pytest.warns(UserWarning, match="1 of 2 combinations"):
        assert exact.fit(X, X[:, 0]).alpha_ == 1.0
    assert np.isfinite(LSSVRCV(**settings).fit(X, np.full(120, 3.0)).best_score_)


class TestRoundingIsNoIndefiniteness:
    @pytest.mark.filterwarnings("ignore::onefold.search.GridEdgeWarning")
    def test_tables_scaled_or_not_close_together_or_far_from_the_origin(self) -> None:
        rows, labels = load_iris(return_X_y=True)
        assert LSSVCCV("polynomial", cv=3).fit(scale(rows), labels).best_score_ > -0.05
        rows, numbers = (values[:200] for values in load_diabetes(return_X_y=True))
        for table in (rows, scale(rows)):
            found = LSSVRCV("polynomial", cv=3).fit(table, numbers)
            assert np.isfinite(found.cv_results_["mean_test_score"]).all()
            assert found.best_score_ > -3600
        assert np.isfinite(LSSVRCV().fit(1e-3 * X, Y).cv_results_["mean_test_score"]).all()
        near = LSSVRCV("linear").fit(X, Y)
        far = LSSVRCV("linear").fit(X + 1e5, Y)
        assert far.best_score_ == pytest.approx(near.best_score_, rel=1e-3)
        assert np.isfinite(LSSVR("linear", alpha=2.0**-15).fit(X + 1e5, Y).predict(X + 1e5)).all()

    def test_a_kernel_that_truly_cannot_be_solved_does_not_end_the_search(self) -> None:
        class Turning(type(RBF())):
            always_psd = False

            def __call__(self, A, B):
                tile = super().__call__(A, B)
                return tile if self.gamma < 1 else -tile

        with pytest.warns(UserWarning, match=r"2 of 4 combinations .* not positive semi-definite"):
            found = LSSVRCV(Turning(1.0), gammas=[0.5, 2.0], alphas=[0.1, 1.0]).fit(X, Y)
        assert found.gamma_ == 0.5
        assert np.isnan(found.cv_results_["mean_test_score"]).sum() == 2
        with pytest.raises(ValueError, match="not positive semi-definite"):
            LSSVRCV(Turning(1.0), gammas=[2.0], alphas=[0.1, 1.0]).fit(X, Y)
        with pytest.raises(ValueError, match="not positive semi-definite"):
            LSSVC(Turning(2.0)).fit(X, Y > 0)


class TestRidgesBelowTheRoundingOfK:
    """Features that nobody scaled: alpha is less than the rounding of so large a matrix."""

    @pytest.mark.parametrize(("size", "alpha"), [(1e2, 1e-12), (1e2, 1e-3), (1e3, 1.0)])
    def test_a_fit_is_least_squares_on_the_monomials(self, alpha, size) -> None:
        monomials = np.column_stack(
            [X[:, 0] ** i * X[:, 1] ** j for i in range(4) for j in range(4 - i)]
        )
        for kind in (KernelRidge, LSSVR):
            wanted = monomials[:60] @ np.linalg.lstsq(monomials[:60], Y[:60], rcond=None)[0]
            found = kind("polynomial", gamma=1.0, alpha=alpha).fit(size * X[:60], Y[:60])
            assert "below the rounding" in found.approximation_["below_rounding"]
            error = np.mean((found.predict(size * X[:60]) - Y[:60]) ** 2)
            assert error < 1.1 * np.mean((wanted - Y[:60]) ** 2)
        flat = monomials[:, [0, 1, 4]]  # 1, x_2, x_1
        wanted = flat @ np.linalg.lstsq(flat, Y, rcond=None)[0]
        found = LSSVR("linear", alpha=1e-12).fit(10 * size * X, Y)
        assert_allclose(found.predict(10 * size * X), wanted, atol=1e-4)

    @pytest.mark.parametrize("size", [1e2, 1e3])
    def test_folds_are_those_of_refits(self, size) -> None:
        grid = {"gammas": [0.01], "alphas": [1e-8, 1e-6]}
        found = LSSVRCV("polynomial", cv=KFold(4), **grid).fit(size * X, Y)
        assert found.approximation_["selected_with"]["below_rounding"] == "2 of 2 alphas"
        for train, test in KFold(4).split(X):
            fold = LSSVR("polynomial", gamma=0.01, alpha=found.alpha_).fit(size * X[train], Y[train])
            assert_allclose(found.heldout_prediction_[test], fold.predict(size * X[test]), atol=1e-3)
        assert found.best_score_ > -0.1

    def test_the_ridges_above_it_keep_their_scores(self) -> None:
        below = [1e-8, 1e-6]
        above = list(10.0 ** np.arange(1, 10))
        settings = {"gammas": [0.01], "cv": KFold(4)}
        found = LSSVRCV("polynomial", alphas=[above[0], *below, *above[1:]], **settings).fit(1e2 * X, Y)
        assert found.approximation_["selected_with"]["below_rounding"] == "2 of 11 alphas"
        scores = dict(zip(found.cv_results_["param_alpha"], found.cv_results_["mean_test_score"]))
        rounding = np.finfo(float).eps * np.trace(polynomial_kernel(1e2 * X, gamma=0.01)) / above[0]
        for alphas in (above, below):
            other = LSSVRCV("polynomial", alphas=alphas, **settings).fit(1e2 * X, Y).cv_results_
            own = [scores[alpha] for alpha in other["param_alpha"]]
            assert_allclose(own, other["mean_test_score"], rtol=rounding)

    @pytest.mark.parametrize("alphas", [[1e-6], list(10.0 ** np.arange(-30, -6, 1))])
    def test_leave_one_out_of_saturated_rows_has_no_score(self, alphas) -> None:
        """Six rows, ten monomials: without the ridge each row decides its own value."""
        settings = {"gammas": [1.0], "cv": "loo"}
        with pytest.raises(ValueError, match="predictions are not finite; use larger alphas"):
            LSSVRCV("polynomial", alphas=alphas, **settings).fit(1e4 * X[:6], Y[:6])
        with pytest.warns(UserWarning, match="predictions are not finite"):
            found = LSSVRCV("polynomial", alphas=[*alphas, 1e25], **settings).fit(1e4 * X[:6], Y[:6])
        assert found.alpha_ == 1e25


def test_what_a_users_function_returns_is_left_alone() -> None:
    kept = {}

    def linear(A, B):
        return kept.setdefault((A.tobytes(), B.tobytes()), A @ B.T)

    for kernel in (CallableKernel(linear) + RBF(0.5), CallableKernel(linear) * RBF(0.5)):
        first, again = (
            LSSVR(kernel, alpha=0.1).fit(X, Y, np.arange(120) + 1.0).predict(X) for _ in range(2)
        )
        assert_allclose(again, first, rtol=1e-12)
    whole = LSSVR(lambda A, B: (A @ B.T).astype(np.float32) + RBF(0.5)(A, B), alpha=0.1)
    plain = LSSVR(Linear() + RBF(0.5), alpha=0.1)
    assert_allclose(whole.fit(X, Y).predict(X), plain.fit(X, Y).predict(X), atol=1e-4)


# -- a choice at the end of its range ----------------------------------------------------------------


def test_an_end_is_said_an_inner_choice_or_two_values_are_not() -> None:
    words = "the largest gamma .* extend gammas= and alphas=, or standardise the features"
    with pytest.warns(GridEdgeWarning, match=words):
        LSSVRCV(gammas=[1e-4, 1e-3, 1e-2], alphas=[1e-3, 0.01, 100.0]).fit(X, Y)
    noisy = Y + RNG.normal(size=120)
    for grid in ({}, {"gammas": [0.01, 0.1, 1.0, 10.0], "alphas": [1e-3, 0.1]}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", GridEdgeWarning)
            LSSVRCV(**grid).fit(X, noisy)


ALPHAS = np.array([1.0, 2.0, 9.0, 2.0])
KERNELS = np.array(["rbf", "rbf", "rbf", "matern"])


@pytest.mark.parametrize(
    ("scores", "more", "best", "found"),
    [
        ([1.0, 0.5, 0.99999999999999, 0.1], {}, 0, ["smallest alpha"]),  # its neighbour is what counts
        ([0.1, 1.0 - 1e-16, 0.5, 1.0], {}, 3, ["largest alpha"]),
        ([1.0, 1.0, 0.5, 0.1], {}, 0, []),  # a plateau is no edge
        ([0.1, 0.4, 0.45, 0.5], {"param_round": np.zeros(4)}, 3, ["largest alpha"]),
        ([0.1, 0.4, 0.45, 0.5], {"param_gamma": np.arange(1.0, 5.0)}, 3, ["largest gamma"]),
        ([0.1, 0.4, 0.5, 0.5], {"param_gamma": np.arange(1.0, 5.0)}, 3, []),
        # A better cell of another kernel is no neighbour.
        ([-1, -2, -9, 0], {"param_alpha": ALPHAS, "param_kernel": KERNELS}, 0, ["smallest alpha"]),
        # Widths move with rounds.
        ([0.1, 0.4, 0.45, 0.5], {"param_gamma": np.arange(1.0, 5.0), "param_round": np.ones(4)}, 3, []),
    ],
)
def test_edges_of_a_table(scores, more, best, found) -> None:
    alphas = np.ones(4) if "param_gamma" in more else np.arange(1.0, 5.0)
    table = {"mean_test_score": np.array(scores), "param_alpha": alphas} | more
    assert [str(edge) for edge in edges(table, best)] == found
