"""Blends: importances, weights of 0, and when one is used; test_literal.py has them by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import (
    KFold,
    RepeatedKFold,
    StratifiedKFold,
)

from onefold import LSSVCCV, LSSVRCV
from onefold.search import choice
from onefold.search.crossfit import Cell, CrossFit, Predictions

pytestmark = pytest.mark.filterwarnings("ignore:the search chose")
RNG = np.random.default_rng(3)
N = 70
X = RNG.standard_normal((N, 3))
NEW = RNG.standard_normal((9, 3))
SIGNAL = np.sin(2 * X[:, 0]) + 0.5 * np.abs(X[:, 1]) + 0.3 * RNG.standard_normal(N)
WEIGHTS = RNG.uniform(0.2, 3.0, N)
GRID = {"gammas": [0.3, 1.0, 3.0], "alphas": [0.05, 0.5], "max_rounds": 2}
CLASSES = np.digitize(SIGNAL, [0.0, 0.7])


@pytest.mark.parametrize("kind", [LSSVRCV, LSSVCCV])
@pytest.mark.parametrize("some", [None, 30], ids=["crossfitted", "subsample"])
def test_rows_of_weight_0_change_nothing(kind, some) -> None:
    y = SIGNAL if kind is LSSVRCV else CLASSES
    weights = np.ones(N)
    weights[::7] = 0.0
    kept = np.flatnonzero(weights)
    pairs = list(KFold(4, shuffle=True, random_state=0).split(X))
    place = np.full(N, -1)
    place[kept] = np.arange(kept.size)
    inside = [(place[np.intersect1d(a, kept)], place[np.intersect1d(b, kept)]) for a, b in pairs]
    options = {"metric": "auto", "blend": True, "metric_rows": some, **GRID}
    whole = kind("auto", cv=pairs, **options).fit(X, y, weights)
    part = kind("auto", cv=inside, **options).fit(X[kept], y[kept])
    assert whole.best_params_ == part.best_params_
    assert_allclose(whole.heldout_prediction_[kept], part.heldout_prediction_, rtol=1e-9, atol=1e-9)
    assert_allclose(whole.expansion_.predict(NEW), part.expansion_.predict(NEW), rtol=1e-9, atol=1e-9)
    assert np.isnan(whole.heldout_prediction_[weights == 0]).all()


SAME_ROWS = [(np.arange(30), np.arange(50, N)), (np.arange(20, 50), np.arange(50, N))]


@pytest.mark.parametrize(
    ("y", "settings"),
    [
        (RNG.standard_normal(N), {"kernel": "auto", "gammas": [1.0], "alphas": [1e6], "cv": 4}),
        (
            SIGNAL,
            {"kernel": "rbf", "cv": RepeatedKFold(n_splits=2, n_repeats=4, random_state=1), **GRID},
        ),
        # Both splits test the same rows: no blend of them could have an honest score.
        (SIGNAL, {"kernel": "auto", "metric": "auto", "cv": SAME_ROWS, **GRID}),
    ],
    ids=["no weights help", "one member", "no other rows"],
)
def test_the_chosen_one_alone(y, settings) -> None:
    model, alone = (LSSVRCV(blend=blend, **settings).fit(X, y) for blend in (True, False))
    assert [one["weight"] for one in model.blend_] == [1.0]
    assert_allclose([model.blend_score_, model.best_score_], alone.best_score_, rtol=1e-12)
    assert alone.blend_ is None
    assert alone.blend_score_ is None
    assert_allclose(model.predict(NEW), alone.predict(NEW), rtol=1e-12)
    assert_allclose(model.heldout_prediction_, alone.heldout_prediction_)


# -- a lower loss is not enough where the criterion falls by more than noise -------------------------
ROWS = np.arange(200)
EVEN = ROWS % 2
RARE = (ROWS % 20 == 0).astype(int)
FEW = ROWS[::25]
OTHERS = ROWS[3::25]
MANY = ROWS[1::9]
COMMON = ROWS[1::20]
HALF = ROWS[RARE == 1][::2]
BALANCED = {"class_weight": "balanced"}
TENTH = {"sample_weight": np.where(ROWS % 10 == 0, 0.1, 1.0)}


def scoring_of(y, criterion=None, class_weight=None, sample_weight=None):
    model = LSSVCCV(cv=StratifiedKFold(4), class_weight=class_weight, criterion=criterion)
    return model.set_up(ROWS[:, None] * 1.0, y, sample_weight).scoring


def deciding(y, wrong, size=1.0):
    """Decision values with the wrong sign in some rows."""
    return (np.where(np.isin(ROWS, wrong), -1.0, 1.0) * size * (2 * y - 1))[:, None]


REFUSED = [  # labels, rows where the blend is wrong, rows where the single one is, settings, refused?
    *(
        (EVEN, blended, single, {"criterion": criterion}, blended is MANY)
        for criterion in (None, "accuracy", "balanced_accuracy")
        for blended, single in ((MANY, FEW), (FEW, MANY), (FEW, FEW), (FEW, OTHERS), (OTHERS, FEW))
    ),
    # Falls of 0.4, 0, 0 and −0.02: 0.095 ± 0.088, and ± 0.102 with one degree of freedom less.
    (EVEN, ROWS[:20], ROWS[150:151], {"criterion": "balanced_accuracy"}, False),
    (EVEN, [*ROWS[:20], 50, 100, 150], [], {"criterion": "balanced_accuracy"}, True),
    # Half of the rare class right, at the price of some of the common one, is what weights ask for.
    (RARE, COMMON, HALF, {}, True),
    (RARE, COMMON, HALF, BALANCED, False),
    (RARE, HALF, COMMON, BALANCED, True),
    (RARE, HALF, COMMON, {}, False),
    (EVEN, ROWS[::10], ROWS[1::25], {}, True),
    (EVEN, ROWS[::10], ROWS[1::25], TENTH, False),
]


@pytest.mark.parametrize(("y", "blended", "single", "options", "refused"), REFUSED)
def test_errors_beyond_the_noise_of_the_comparison(y, blended, single, options, refused) -> None:
    one, other = (Predictions(deciding(y, wrong)) for wrong in (blended, single))
    assert choice._scores_worse(one, other, scoring_of(y, **options)) == refused


def test_a_lower_loss_with_more_errors_is_no_blend(monkeypatch) -> None:
    """Decision values near 0 on the right side against ones that are sure, and wrong in some rows."""
    scoring = scoring_of(EVEN)
    wrong = ROWS[::5]
    right = deciding(EVEN, [], np.where(ROWS % 3 == 0, 0.02, 1.8))
    sure = deciding(EVEN, wrong, np.where(ROWS % 5 == 0, 0.3, 1.0))
    leaders = [
        CrossFit((Cell(None, 1.0, number),), predictions=Predictions(values))
        for number, values in enumerate([right, sure])
    ]
    assert choice.choose_mixture(leaders, leaders[0], scoring) is None
    assert choice.mean_score(leaders[0].predictions, scoring) == 0.0
    monkeypatch.setattr(choice, "_scores_worse", lambda *given: False)
    blended = choice.blended(leaders, choice.choose_mixture(leaders, leaders[0], scoring))
    assert 1 in [cell.index for cell in blended.cells]
    assert choice.mean_score(blended.predictions, scoring) < -0.02
