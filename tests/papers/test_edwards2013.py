"""edwards2013: a short version of its tables and figures, and the printed figures of Table II."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_limits

from benchmarks.common import DATA
from onefold import LSSVC, LSSVRCV, KernelRidgeCV
from onefold.approximations import Circulant
from onefold.kernels import RBF
from papers import edwards2013_energy as energy
from papers import edwards2013_errors as errors
from papers import edwards2013_times as times
from papers.edwards2013 import PAPER
from papers.ida import Split
from papers.page import VERDICTS, environment
from tests.smoothers.dense_twin import circulant_matrix, circulant_row, refit

needs_data = pytest.mark.skipif(
    not all((DATA / f"{name}.npz").exists() for name in ("ida_banana", "energydata_appliances")),
    reason="ida_banana and energydata_appliances are not in ONEFOLD_DATA",
)
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((24, 3))
SPLIT = Split(ROWS, np.where(ROWS[:, 0] > 0.3, 1, -1), ROWS[:5], np.ones(5))


@needs_data
def test_a_short_version_writes_the_page(tmp_path: Path) -> None:
    PAPER.run([], True, tmp_path)
    text = (tmp_path / "edwards2013.md").read_text("utf-8")
    parts = [part.split("## Table")[0] for part in text.split("\n## ")[1:]]
    assert len(parts) == len(PAPER.parts)
    assert all(any(f"**{kind}:**" in part for kind in VERDICTS) for part in parts)
    assert "**Reproduced:** mean and deviation" in text
    assert {path.stem for path in tmp_path.glob("images/*")} == {
        f"edwards2013-figure{i}" for i in (1, 2)
    }


# -- Table II ------------------------------------------------------------------------------------------

PRINTED = [  # set, H_n, exponents of γ and μ, mean and deviation in the paper; None is the exact model
    ("banana", (1, 2), 4, -1, (14.10, 1.74)),
    ("banana", (10, 11), 0, -2, (18.98, 1.76)),
    ("image", (1, 2), 2, -5, (17.64, 1.52)),
    ("image", (10, 11), 0, -5, (6.89, 0.73)),
    ("titanic", (1, 2), 1, 2, (23.82, 1.44)),
    ("german", (1, 2), 1, -2, (29.93, 1.61)),
    ("breast_cancer", (1, 2), 2, -1, (29.87, 5.59)),
    ("breast_cancer", None, -4, -1, (25.97, 4.40)),
    ("waveform", None, -4, 0, (9.77, 0.31)),
    ("german", None, -4, -1, (21.87, 1.77)),
]


@pytest.mark.parametrize(("name", "spacing", "gamma", "alpha", "figure"), PRINTED)
def test_printed_figures_of_table_2_by_the_public_interface(
    name: str, spacing: tuple[int, int] | None, gamma: int, alpha: int, figure: tuple[float, float]
) -> None:
    """On the first five official partitions, with the rows as distributed."""
    if not (DATA / f"ida_{name}.npz").exists():
        pytest.skip(f"ida_{name} is not in ONEFOLD_DATA")
    structure = "exact"
    if spacing is not None:
        structure = Circulant(spacing=spacing, order="given", validate="matrix")
    model = LSSVC(
        gamma=np.exp(gamma), alpha=np.exp(alpha), approximation=structure, calibration=None, n_jobs=1
    )
    with np.load(DATA / f"ida_{name}.npz") as stored:
        X = stored["X"].astype(float)
        y = stored["y"]
        parts = list(zip(stored["train_idx"], stored["test_idx"]))[:5]
    wrong = [100 * (1 - model.fit(X[a], y[a]).score(X[b], y[b])) for a, b in parts]
    assert (round(np.mean(wrong), 2), round(np.std(wrong, ddof=1), 2)) == figure


@pytest.mark.parametrize(("name", "exponents"), [("titanic", (-2, 2)), ("breast_cancer", (-4, -1))])
def test_one_rule_chooses_the_pair_of_the_exact_column(name: str, exponents: tuple[int, int]) -> None:
    if not (DATA / f"ida_{name}.npz").exists():
        pytest.skip(f"ida_{name} is not in ONEFOLD_DATA")
    chosen = errors.exact_column(errors.load(name, "official", 5))
    assert (chosen["γ"], chosen["μ"]) == exponents
    for value, figure in zip((chosen["mean"], chosen["std"]), errors.published(name, "exact")):
        assert errors.is_printed(value, figure)


def test_a_scan_is_what_the_public_interface_computes() -> None:
    """Test errors and A-LOO, also where U + μI is indefinite; the first has balanced levels."""
    structures = errors.structures_of(24, (0.7, 1.1))
    splits = [SPLIT, errors.by_class(SPLIT)]
    table = errors.scan(splits, structures)
    assert structures[0].shape == (4, 6)
    assert len(structures) == len({(each.shape, each.spacing) for each in structures}) == 12
    assert not table.definite.all()
    for place in (0, 3, 10):
        expected = errors.leave_one_out(splits, structures[place])
        assert_allclose(table.loo_errors[:, place], expected, atol=1e-9)
        for cell in ((0, 0), (3, 8), (6, 6), (9, 2), (12, 12)):
            tests = errors.test_errors(splits, cell, structures[place])
            assert_allclose(table.tests[(slice(None), place, *cell)], tests, atol=1e-9)


def test_definite_cells_are_those_of_the_dense_matrix() -> None:
    structure = errors.structures_of(24, (0.7, 1.1))[0]
    table = errors.scan([SPLIT], [structure])
    for place, gamma in enumerate(errors.GRID):
        row = circulant_row(RBF(gamma), structure.shape, structure.spacing)
        smallest = np.linalg.eigvalsh(circulant_matrix(row))[0]
        assert np.array_equal(table.definite[0, place], smallest + errors.GRID > 0)


def test_where_the_matrix_is_the_identity_the_model_is_a_window_plus_the_mean() -> None:
    """(4) and (5): no order, level or spacing matters, and A-LOO predicts the larger class."""
    table = errors.scan([SPLIT, errors.by_class(SPLIT)], errors.structures_of(24, (300.0, 200.0)))
    window = errors.window_errors(SPLIT)
    assert np.ptp(window) > 0
    assert_allclose(table.tests, np.broadcast_to(window, table.tests.shape), atol=1e-9)
    smaller = 100 * min(np.mean(SPLIT.y > 0), np.mean(SPLIT.y < 0))
    assert_allclose(table.loo_errors, np.full(table.loo_errors.shape, smaller), atol=1e-9)


def test_first_identity_is_where_the_matrix_has_ones_and_nothing_else() -> None:
    for spacing in (1.0, 10.0):
        exponent = errors.first_identity(spacing)
        for shape in ((5,), (4, 6)):
            row = circulant_row(RBF(np.exp(exponent)), shape, (spacing,) * len(shape))
            matrix = circulant_matrix(row)
            assert np.array_equal(np.float64(1.0) + matrix - np.eye(len(matrix)), np.ones(matrix.shape))
        before = circulant_row(RBF(np.exp(exponent - 1)), (5,), (spacing,))
        assert 1.0 + 2 * np.ravel(before)[1] > 1.0


def test_a_printed_figure_is_rounded_or_cut_off() -> None:
    assert all(errors.is_printed(value, 2.47) for value in (2.465, 2.47, 2.4752, 2.4799))
    assert not any(errors.is_printed(value, 2.47) for value in (2.464, 2.48, 2.481))


def test_a_mean_of_partitions_is_a_whole_number_of_rows() -> None:
    wrong = [17, 20, 22, 25, 27]
    mean = round(100 * np.mean(wrong) / 75, 2)
    assert errors.whole(mean, 75, 5)
    assert not errors.whole(mean, 75, 4)
    best = max(range(1, 11), key=lambda m: errors.fits(m)[0])
    assert best in (5, 10)  # what five partitions fit, ten fit as well
    assert errors.fits(5)[0] > 3 * max(errors.fits(5)[2], 1)


def test_one_partition_apart_from_the_others_and_the_bound_on_the_worst() -> None:
    numbers = np.array([4.0, 4.0, 4.0, 60.0, 4.0])
    figure = (float(numbers.mean()), float(numbers.std(ddof=1)))
    assert_allclose(errors.alone(figure), (4.0, 60.0))
    for _ in range(50):
        numbers = RNG.gamma(0.5, size=5)
        figure = (float(numbers.mean()), float(numbers.std(ddof=1)))
        for least in (0.0, float(numbers.min())):
            shifted = numbers - least
            bound = least + (shifted**2).sum() / shifted.sum()
            assert_allclose(errors.least_maximum(figure, least), bound)
            assert bound <= numbers.max() + 1e-12
    tight = np.array([2.0, 2.0, 5.0, 5.0, 5.0])
    assert_allclose(errors.least_maximum((float(tight.mean()), float(tight.std(ddof=1))), 2.0), 5.0)


def test_rules_of_selection_and_their_ties() -> None:
    scores = np.full((3, 4, 4), 9.0)
    scores[0, 1, 1:] = scores[1, 2, 0] = scores[1, 1, 0] = scores[2, 3, 3] = 1.0
    assert errors.least(scores[0]) == [(1, 3), (1, 2), (1, 1)]
    assert errors.least(scores[1]) == [(2, 0), (1, 0)]
    assert errors.median_cell(scores, largest_alpha=True) == (2, 3)
    assert errors.median_cell(scores, largest_alpha=False) == (2, 1)
    assert errors.where([(10, 5), (8, 5), (8, 6), (9, 5), (9, 6)]) == "e^2 … e^3, e^-1 … e^0; e^4, e^-1"
    assert errors.where([(6, 0), (6, 3)]) == "e^0, e^-6 or e^-3"


# -- Table III -----------------------------------------------------------------------------------------


def test_s1_varied_is_a_search_over_the_spacings() -> None:
    """The best of the structures is what a list of spacings in one search chooses."""
    X = RNG.standard_normal((24, 2))
    y = 5 + X[:, 0] + 0.1 * RNG.standard_normal(24)
    task = energy.Task.of(X, y, slice(0, 18), slice(18, 24))
    spacings = ((1.2, 1.8), (1.6, 1.4))
    varied = energy.vary(task, spacings)
    assert [(row["grid"], row["indefinite"]) for row in varied] == [
        (grid, label) for grid in energy.GRIDS for label in energy.NEGATIVES
    ]
    scores = []
    for shape in ((3, 6), (6, 3)):
        structure = Circulant(
            shape=shape, spacing=list(spacings), order="given", validate="matrix", negative="solve"
        )
        model = LSSVRCV(
            gammas=energy.POWERS_OF_E,
            alphas=energy.POWERS_OF_E,
            approximation=structure,
            cv="loo",
            refit="exact",
            intervals=None,
        )
        with energy.quiet():
            model.fit(task.X, task.y)
        scores.append((model.best_score_, energy.errors(task.y_test, model.predict(task.X_test))))
    assert_allclose(varied[-1]["best"], max(scores)[1], rtol=1e-9)
    assert all(low <= high for row in varied for low, high in zip(row["least"], row["most"]))


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
    X = RNG.standard_normal((24, 3))
    y = RNG.standard_normal(24)
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
