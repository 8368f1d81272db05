"""edwards2013: a short version of its tables and figures, and what the study of Table II varies."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_limits

from benchmarks.common import DATA
from onefold import LSSVRCV, KernelRidgeCV
from papers import edwards2013_errors as errors
from papers import edwards2013_times as times
from papers.edwards2013 import PAPER
from papers.ida import Split
from papers.page import VERDICTS, environment
from tests.smoothers.dense_twin import circulant_matrix, circulant_row, refit

needs_data = pytest.mark.skipif(
    not all((DATA / f"{name}.npz").exists() for name in ("ida_thyroid", "energydata_appliances")),
    reason="ida_thyroid and energydata_appliances are not in ONEFOLD_DATA",
)
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((24, 3))
SPLIT = Split(ROWS, np.where(ROWS[:, 0] > 0.3, 1, -1), ROWS[:5], np.ones(5))


@needs_data
def test_a_short_version_writes_the_page(tmp_path: Path) -> None:
    PAPER.run([], True, tmp_path)
    text = (tmp_path / "edwards2013.md").read_text("utf-8")
    assert text.count("eproduced:**") == len(PAPER.parts) + 1  # Table I and Figure 1 are one part
    assert {path.stem for path in tmp_path.glob("images/*")} == {
        f"edwards2013-figure{i}" for i in (1, 2)
    }


@pytest.mark.parametrize("order", errors.ORDERS)
def test_an_order_has_every_row_once(order: str) -> None:
    found = errors.Setting(order=order).order_of(SPLIT)
    assert np.array_equal(np.sort(found), np.arange(24))


def test_interleaved_classes_are_spread_evenly() -> None:
    labels = SPLIT.y[errors.Setting(order="classes interleaved").order_of(SPLIT)]
    share = np.mean(labels == 1)
    assert np.all(np.abs(np.cumsum(labels == 1) - share * np.arange(1, 25)) <= 1)


@pytest.mark.parametrize("shape", errors.SHAPES)
def test_levels_multiply_to_the_number_of_rows(shape: str) -> None:
    assert np.prod(errors.Setting(shape=shape).shape_of(24)) == 24


# -- times ---------------------------------------------------------------------------------------------


def test_growth_is_the_slope_from_2_to_the_13_on_and_that_of_n_log_n() -> None:
    seconds = {str(power): 1e-4 + 1e-8 * power * 2.0**power for power in range(8, 21)}
    ours, expected = times.growth(seconds)
    assert 0.9 < ours < expected < 1.15
    linear, _ = times.growth({power: 2.0**power for power in range(13, 21)})
    assert linear == pytest.approx(1.0)
    few, _ = times.growth({"8": 1.0, "10": 16.0})  # of the sizes that there are
    assert few == pytest.approx(2.0)


def test_the_short_times_are_of_the_public_estimators_and_enter_the_context_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = []

    def counted(limit: int) -> object:
        entered.append(limit)
        return threadpool_limits(limit)

    monkeypatch.setattr(times, "threadpool_limits", counted)
    PAPER.run(["table1", "figure2"], True, tmp_path)
    assert entered == [1, 1]  # once for each part, outside of what is timed
    found = json.loads((tmp_path / "results" / "edwards2013-table1.json").read_text("utf-8"))["found"]
    assert found[times.DIFFERENCE] < 1e-12
    text = (tmp_path / "edwards2013.md").read_text("utf-8")
    assert sum(text.count(f"**{kind}:**") for kind in VERDICTS) == 3
    assert (tmp_path / "images" / "edwards2013-figure2.png").exists()


@pytest.mark.parametrize(("estimator", "intercept"), [(LSSVRCV, True), (KernelRidgeCV, False)])
def test_approximate_leave_one_out_is_a_refit_of_the_circulant_matrix(estimator, intercept) -> None:
    """By the public interface: a search, and an objective for an optimiser of gamma, alpha and H_n.

    The second H_n makes the system indefinite, which the paper solves too.
    """
    X, y = RNG.standard_normal((24, 3)), RNG.standard_normal(24)
    structure = replace(times.CIRCULANT, negative="solve")
    settings = {"alphas": [times.ALPHA], "approximation": structure, "cv": "loo", "refit": "same"}
    model = estimator(times.CELLS, gammas=[1.0], **settings).fit(X, y)
    objective = estimator(times.CELLS, **settings).objective(X, y)
    shape = tuple(model.approximation_["selected_with"]["shape"])
    border = np.ones(24) if intercept else None
    for spacing in (times.CIRCULANT.spacing, (0.4, 0.9)):
        U = circulant_matrix(circulant_row(times.CELLS, shape, spacing))
        definite = np.linalg.eigvalsh(U)[0] + times.ALPHA > 0
        assert definite == (spacing == times.CIRCULANT.spacing)
        alone = [refit(U, y[:, None], border, times.ALPHA, [row])[0, 0] for row in range(24)]
        score = objective(gamma=1.0, alpha=times.ALPHA, spacing=spacing)
        assert_allclose(score, -np.mean((y - alone) ** 2), rtol=1e-9)
        if spacing == times.CIRCULANT.spacing:
            assert_allclose(model.heldout_prediction_, alone, atol=1e-10)


def test_exact_times_of_the_same_machine_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(times, "PAGES", tmp_path)
    assert times.known_exact() == {}
    stored = tmp_path / "results" / "edwards2013-table1.json"
    stored.parent.mkdir()
    kept = {"found": {times.EXACT: {"9": 0.1, "13": 7.0, "15": 300.0}}, "environment": environment()}
    stored.write_text(json.dumps(kept), "utf-8")
    assert times.known_exact() == {13: 7.0, 15: 300.0}
    stored.write_text(json.dumps(kept | {"environment": "another"}), "utf-8")
    assert times.known_exact() == {}
