"""Importances, rounds, the blend, the sparsity path and the trust check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from plotted_machines import MACHINES, X

from onefold import trust
from onefold.plots import (
    BlendDisplay,
    ImportanceDisplay,
    RoundsDisplay,
    SparsityDisplay,
    TrustDisplay,
)
from onefold.trust_check import TrustCheck

pytestmark = pytest.mark.filterwarnings("error")


def test_shares_as_bars(fit):
    machine = fit("blend")
    drawn = ImportanceDisplay.from_estimator(machine).plot()
    widths = [bar.get_width() for bar in drawn.ax_.patches]
    np.testing.assert_allclose(widths, 100 * np.sort(machine.feature_importances_)[::-1])
    first = int(np.argmax(machine.feature_importances_))
    assert drawn.ax_.get_yticklabels()[0].get_text() == f"feature {first}"
    assert f"feature {first}" in drawn.describe()


def test_names_of_features_are_short_plain_and_distinct(fit):
    names = ["price in $ or $", "x" * 90, "x" * 90]
    drawn = ImportanceDisplay.from_estimator(fit("blend"), names=names, most=2).plot()
    assert len(drawn.importances) == 3
    labels = [label.get_text() for label in drawn.ax_.get_yticklabels()]
    assert len(labels) == 2
    assert all(len(label) <= 26 for label in labels)
    assert "the greatest 2 of 3" in drawn.ax_.get_title(loc="left")
    with pytest.raises(ValueError, match="names has 1 entries, and there are 3"):
        ImportanceDisplay.from_estimator(fit("blend"), names=["a"])
    with pytest.raises(ValueError, match="most"):
        ImportanceDisplay.from_estimator(fit("blend"), most=0)


def test_names_of_a_table_and_shares_of_a_tables_estimator(fit):
    pandas = pytest.importorskip("pandas")
    machine, y = MACHINES["blend"]
    from sklearn.base import clone

    named = clone(machine).set_params(kernel="rbf", gammas=[1.0], alphas=[0.1], blend=False)
    named.fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y)
    assert set(ImportanceDisplay.from_estimator(named).importances) == {"a", "b", "c"}

    class TableRegressor:
        estimator_ = named
        importances_ = {"colour": 0.75, "size": 0.25}  # noqa: RUF012

    assert ImportanceDisplay.from_estimator(TableRegressor()).importances == TableRegressor.importances_
    assert RoundsDisplay.from_estimator(TableRegressor()).chosen[0] == "rbf"


def test_scores_round_by_round(fit):
    machine = fit("blend")
    display = RoundsDisplay.from_estimator(machine)
    assert display.scores == {
        (one["kernel"], one["metric"], one["round"]): one["score"] for one in machine.metric_history_
    }
    drawn = display.plot()
    lines = {line.get_label(): line.get_xydata() for line in drawn.ax_.lines}
    for (kernel, metric), points in ((tuple(k.split(", ")), v) for k, v in lines.items() if "," in k):
        rounds = sorted(r for k, m, r in display.scores if (k, m) == (kernel, metric))
        assert points[:, 0].tolist() == [0, *rounds]
        assert points[1:, 1].tolist() == [display.scores[kernel, metric, r] for r in rounds]


def test_members_beside_the_blend(fit):
    machine = fit("blend")
    display = BlendDisplay.from_estimator(machine)
    assert len(display.members) == len(machine.blend_) > 1
    results = machine.cv_results_
    for member, weight, score in zip(machine.blend_, display.weights, display.scores):
        row = results["params"].index({k: v for k, v in member.items() if k != "weight"})
        assert score == results["mean_test_score"][row]
        assert weight == member["weight"]
    drawn = display.plot()
    np.testing.assert_allclose(drawn.ax_.lines[0].get_xdata(), machine.blend_score_)
    assert f"weight {display.weights[0]:.2f}" in drawn.ax_.get_yticklabels()[0].get_text()


@pytest.mark.parametrize("name", ["sparse", "sparse classes"])
def test_the_path_of_a_sparse_machine(fit, name):
    machine = fit(name)
    display = SparsityDisplay.from_estimator(machine)
    folds = np.stack([v for k, v in machine.path_.items() if k.startswith("split")])
    np.testing.assert_allclose(display.mean, folds.mean(axis=0))
    np.testing.assert_allclose(display.error, folds.std(axis=0) / np.sqrt(len(folds)))
    drawn = display.plot()
    drawn.figure_.draw_without_rendering()
    ring = next(line for line in drawn.ax_.lines if str(line.get_label()).startswith("chosen"))
    at = int(np.flatnonzero(machine.path_["n_centres"] == machine.n_centres_)[0])
    assert ring.get_xydata().tolist() == [[machine.n_centres_, display.mean[at]]]
    # The knee: the fewest centres on the plateau, which ends below the dashed line.
    best = np.argmax(display.mean)
    assert display.mean[at] >= display.mean[best] - display.error[best]


def test_the_check_of_an_estimator(fit):
    machine = fit("checked")
    display = TrustDisplay.from_estimator(machine)
    known = machine.approximation_["trust"]
    assert display.typical.verdict == known["verdict"]
    drawn = display.plot()
    drawn.figure_.draw_without_rendering()
    assert known["verdict"] in drawn.ax_.get_title(loc="left")
    assert known["verdict"] in drawn.describe()


CHOICES = {"gamma": 0.5, "alpha": 0.01}, {"gamma": 2.0, "alpha": 1e-4}
DRAW = TrustCheck(500, *CHOICES, 3, 0.05, 0.02, 0.4, 0.1)


def test_findings_in_units_of_what_counts_as_nothing():
    others = replace(DRAW, regret=0.0, loss=0.0, steps=0), replace(DRAW, tolerance=0.0)
    finding = TrustCheck.of([others[0], DRAW, others[1]])
    display = TrustDisplay.from_finding(finding)
    measures = display.measures
    np.testing.assert_allclose(measures["regret of the choice"], [0.0, 2.5, np.inf])
    np.testing.assert_allclose(measures["loss of the fitted model"], [0.0, 4.0, 4.0])
    np.testing.assert_allclose(measures["distance of the choices"], [0.0, 1.5, 1.5])
    assert display.typical == DRAW
    drawn = display.plot()
    drawn.figure_.draw_without_rendering()
    assert "3 subsamples" in drawn.ax_.get_title(loc="left")


def test_findings_of_exact_models_and_of_plain_values(fit):
    exact = TrustCheck.of([replace(DRAW, loss=None, loss_tolerance=None)])
    display = TrustDisplay.from_finding(exact)
    assert list(display.measures) == ["regret of the choice", "distance of the choices"]
    again = TrustDisplay.from_finding(exact.as_dict())
    assert again.typical == display.typical
    machine, y = MACHINES["checked"]
    found = TrustDisplay.from_finding(trust(machine, X, y)).plot()
    assert found.typical.verdict in ("applies", "doubtful", "does not apply")


@pytest.mark.parametrize(
    ("display", "name", "words"),
    [
        (ImportanceDisplay, "plain", 'metric="auto"'),
        (RoundsDisplay, "plain", 'metric="auto"'),
        (BlendDisplay, "plain", "blend=True"),
        (SparsityDisplay, "plain", "fit SparseLSSVR"),
        (TrustDisplay, "plain", "check=True"),
        (TrustDisplay, "sparse", "check=True"),
    ],
)
def test_what_has_nothing_to_draw(fit, display, name, words):
    with pytest.raises(ValueError, match=words):
        display.from_estimator(fit(name))
    with pytest.raises(ValueError, match="not fitted yet"):
        display.from_estimator(type(fit(name))())


def test_what_is_no_finding():
    with pytest.raises(ValueError, match=r"what onefold\.trust gave"):
        TrustDisplay.from_finding({"verdict": "applies"})
