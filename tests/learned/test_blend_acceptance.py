"""When a blend is used: a lower loss is not enough where the criterion falls by more than noise."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from onefold import LSSVCCV
from onefold.search import choice
from onefold.search.choice import Leader

N = 200
ROWS = np.arange(N)
EVEN = ROWS % 2
RARE = (ROWS % 20 == 0).astype(int)


def scoring_of(y, criterion=None, class_weight=None, sample_weight=None):
    model = LSSVCCV(cv=StratifiedKFold(4), class_weight=class_weight, criterion=criterion)
    return model.set_up(ROWS[:, None] * 1.0, y, sample_weight).scoring


def deciding(y, wrong, size=1.0):
    """Decision values with the wrong sign in some rows."""
    return (np.where(np.isin(ROWS, wrong), -1.0, 1.0) * size * (2 * y - 1))[:, None]


def worse(y, blended, single, **options):
    """Whether a blend that is wrong in these rows is refused."""
    one, other = ((deciding(y, wrong), None) for wrong in (blended, single))
    return choice._scores_worse(one, other, scoring_of(y, **options))


@pytest.mark.parametrize("criterion", [None, "accuracy", "balanced_accuracy"])
def test_errors_beyond_the_noise_of_the_comparison(criterion) -> None:
    few, others, many = ROWS[::25], ROWS[3::25], ROWS[1::9]
    assert worse(EVEN, many, few, criterion=criterion)
    assert not worse(EVEN, few, many, criterion=criterion)
    assert not worse(EVEN, few, few, criterion=criterion)
    assert not worse(EVEN, few, others, criterion=criterion)
    assert not worse(EVEN, others, few, criterion=criterion)


def test_the_noise_of_four_splits_is_that_of_a_sample() -> None:
    """Falls of 0.4, 0, 0 and −0.02: 0.095 ± 0.088, and ± 0.102 with one degree of freedom less."""
    assert not worse(EVEN, ROWS[:20], ROWS[150:151], criterion="balanced_accuracy")
    assert worse(EVEN, [*ROWS[:20], 50, 100, 150], [], criterion="balanced_accuracy")


def test_errors_count_by_the_weights_of_their_classes() -> None:
    """Half of the rare class right, at the price of some of the common one, is what weights ask for."""
    common, rare = ROWS[1::20], ROWS[RARE == 1][::2]
    assert worse(RARE, common, rare)
    assert not worse(RARE, common, rare, class_weight="balanced")
    assert worse(RARE, rare, common, class_weight="balanced")
    assert not worse(RARE, rare, common)


def test_errors_count_by_the_weights_of_their_rows() -> None:
    some, others = ROWS[::10], ROWS[1::25]
    assert worse(EVEN, some, others)
    assert not worse(EVEN, some, others, sample_weight=np.where(ROWS % 10 == 0, 0.1, 1.0))


def test_a_lower_loss_with_more_errors_is_no_blend(monkeypatch) -> None:
    """Decision values near 0 on the right side against ones that are sure, and wrong in some rows."""
    scoring, wrong = scoring_of(EVEN), ROWS[::5]
    right = deciding(EVEN, [], np.where(ROWS % 3 == 0, 0.02, 1.8))
    sure = deciding(EVEN, wrong, np.where(ROWS % 5 == 0, 0.3, 1.0))
    leaders = [Leader(None, number, 0, 1.0, values) for number, values in enumerate([right, sure])]
    kept = choice.blend_leaders(leaders, leaders[0], scoring)
    assert [one.index for one in kept.members] == [0]
    assert kept.weights.tolist() == [1.0]
    assert kept.score == 0.0
    monkeypatch.setattr(choice, "_scores_worse", lambda *given: False)
    blended = choice.blend_leaders(leaders, leaders[0], scoring)
    assert 1 in [one.index for one in blended.members]
    assert blended.score < -0.02
