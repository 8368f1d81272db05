"""The trust check and `plan` of estimators of whole tables: what is inside them, on prepared rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from onefold import TableClassifier, TableRegressor, plan, trust

rng = np.random.default_rng(0)
N = 90
FRAME = pd.DataFrame({"a": rng.standard_normal(N), "c": rng.choice(["u", "v", "w"], N)})
FRAME.loc[::9, "a"] = np.nan
NUMBERS = (FRAME["c"] == "u") + np.sin(FRAME["a"].fillna(0.0))
LABELS = pd.Series(np.where(NUMBERS > 0.3, "high", "low"))
CASES = [(TableRegressor, NUMBERS), (TableClassifier, LABELS)]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(("kind", "y"), CASES)
def test_unfitted_ones_are_looked_at_on_prepared_rows(kind, y, wrapped):
    model = kind(simple=True, approximation="nystroem")
    asked = make_pipeline(model) if wrapped else model
    found = plan(asked, FRAME, y)
    assert (found.rows, found.features) == (N, 5)  # a, a is missing, u, v, w
    assert trust(asked, FRAME, y, size=50, random_state=0).draws[0].rows == 50
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize(("kind", "y"), CASES)
def test_fitted_ones_give_what_copies_of_them_do(kind, y):
    fitted = kind(simple=True, approximation="nystroem").fit(FRAME, y)
    for one in (fitted, clone(fitted)):
        assert plan(one, FRAME, y).features == 5
    checks = [trust(one, FRAME, y, size=50, random_state=0) for one in (fitted, clone(fitted))]
    assert checks[0] == checks[1]


def test_target_weights_and_groups_may_be_columns():
    weight, group = rng.uniform(0.5, 2.0, N), rng.integers(0, 12, N)
    whole = FRAME.assign(y=NUMBERS, w=weight, g=group)
    model = TableRegressor(simple=True, approximation="nystroem")
    by_name = trust(model, whole, "y", sample_weight="w", groups="g", size=50, random_state=0)
    by_array = trust(model, FRAME, NUMBERS, sample_weight=weight, groups=group, size=50, random_state=0)
    assert by_name == by_array
    assert plan(model, whole.drop(columns=["w", "g"]), "y").features == 5


def test_a_plan_needs_no_target_but_rows():
    assert plan(TableRegressor(), FRAME).features == 5
    for asked in (TableRegressor(), make_pipeline(TableRegressor())):
        with pytest.raises(ValueError, match="needs rows to be fitted to; give X"):
            plan(asked, (100, 3))
