"""The stages of a metric search, what they cost, and the paths that lead from one to the next."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from numpy.testing import assert_allclose

from onefold.approximations import Workload
from onefold.kernels import RBF, Laplacian
from onefold.search import metric_search
from onefold.search.learned_metric import Fitted, Round, Track
from onefold.search.metric_search import MetricSearch, fit_cost, learned_load
from onefold.search.paths import Path, Step

FULL = Track("rbf", RBF(1.0), "full")
DIAGONAL = Track("rbf", RBF(1.0), "diagonal")
LAPLACIAN = Track("laplacian", Laplacian(1.0), "diagonal")
WIDTHS = [0.1, 0.3, 1.0, 3.0]
FEATURES = 5


def strategy(metric_rows, *, blend=False, tracks=(FULL, DIAGONAL, LAPLACIAN)):
    return MetricSearch(list(tracks), WIDTHS, 5, metric_rows, 1500, blend)


# -- the list -----------------------------------------------------------------------------------------
ROUNDS = ["RoundsOnFewRows"]
KEEP = ["KeepWorthFitting"]
REPEAT = [*KEEP, "Repeat", *KEEP]


@pytest.mark.parametrize(
    ("n", "metric_rows", "first", "training", "names"),
    [
        (769, 769, 1000, 769, ["RoundsOnAllFolds"]),
        (770, 770, 1000, 770, ["FirstLook", "RoundsOnAllFolds"]),
        (1000, 1000, 1000, 1000, ["FirstLook", "RoundsOnAllFolds"]),
        (1001, 1001, 1000, 801, ["FirstLook", *ROUNDS, "CrossOnAllFolds"]),
        (1625, 1625, 1000, 1300, ["FirstLook", *ROUNDS, "CrossOnAllFolds"]),
        (1626, 1626, 1000, 1301, ["FirstLook", *ROUNDS, *REPEAT, "CellOnAllFolds"]),
        (300, 100, 1000, 100, [*ROUNDS, *KEEP, "ReservedFolds"]),
        (1500, 600, 1000, 600, ["FirstLook", *ROUNDS, *KEEP, "ReservedFolds"]),
        (9000, 4000, 1000, 4000, ["FirstLook", *ROUNDS, *REPEAT, "ReservedFolds"]),
        (9000, 4000, 4000, 4000, ["FirstLook", *ROUNDS, *KEEP, "ReservedFolds"]),  # on a GPU
    ],
)
def test_it_follows_from_the_numbers_of_rows(n, metric_rows, first, training, names) -> None:
    stages = strategy(metric_rows).stages(n, first, training)
    assert [type(stage).__name__ for stage in stages] == names


# -- what it costs ------------------------------------------------------------------------------------
FOLDS = 5
RIDGES = 11


def metric(rows):
    """A model of so many rows, and its gradients at 1500 of them."""
    return fit_cost(rows, FEATURES) + min(rows, 1500) * rows * (FEATURES + 1) * 2


def metrics_of_folds(n):
    """Four rounds: of the rows outside each fold, 1500 at most, and of 4000 rows for the final model."""
    return 4 * (FOLDS * metric(min(0.8 * n, 1500)) + metric(min(n, 4000)))


@pytest.mark.parametrize("blend", [False, True])
def test_a_search_costs_what_its_stages_cost(blend) -> None:
    """Two families and three tracks, each number counted by hand."""
    members = 3 if blend else 2
    finals = 3 if blend else 1
    load = Workload(1, RIDGES, FOLDS)
    look = 2 * 4 * fit_cost(500, FEATURES, 6)
    few = 2 * 9 * fit_cost(1000, FEATURES) + 4 * 3 * (5 * fit_cost(1000, FEATURES) + metric(1000))
    slower = {"heldout": True, "overhead_rows": 0}

    def counted(n, metric_rows):
        given = learned_load(load, strategy(metric_rows, blend=blend), (n, FEATURES, 1))
        assert given.alphas == 1
        return given.kernels, given.preliminary_operations

    def kernels(operations, n):
        return int(
            np.ceil((operations + finals * fit_cost(n, FEATURES)) / fit_cost(n, FEATURES, **slower))
        )

    # On all folds from the start: round 0 in closed form, then crosses of five cells.
    closed = 2 * 4 * RIDGES * fit_cost(700, FEATURES, heldout=True)
    crosses = 3 * (4 * 5 * FOLDS * fit_cost(560.0, FEATURES) + metrics_of_folds(700))
    assert counted(700, 700) == (kernels(closed + crosses, 700), 0)
    # A first look finds where round 0 begins: nine cells.
    closed = 2 * 9 * fit_cost(900, FEATURES, heldout=True)
    crosses = 3 * (4 * 5 * FOLDS * fit_cost(720.0, FEATURES) + metrics_of_folds(900))
    assert counted(900, 900) == (kernels(closed + crosses, 900), look)
    # Paths of 1000 rows in a cross on all folds.
    closed = 2 * 5 * fit_cost(1300, FEATURES, heldout=True)
    crosses = 3 * (5 * FOLDS * fit_cost(1040.0, FEATURES) + metrics_of_folds(1300))
    assert counted(1300, 1300) == (kernels(closed + crosses, 1300), look + few)
    # Paths repeated on 2400 rows, then one cell of each member.
    again = 3 * (metric(2400) + 5 * fit_cost(2400, FEATURES))
    cells = members * (metrics_of_folds(3000) + FOLDS * fit_cost(2400.0, FEATURES))
    assert_allclose(counted(3000, 3000), (kernels(cells, 3000), look + few + again))
    # Paths repeated on 4000 rows, then a kernel for each member and the reserved folds.
    again = 3 * (metric(4000) + 5 * fit_cost(4000, FEATURES))
    assert_allclose(counted(9000, 4000), (members, look + few + again))


def test_rounds_on_few_of_few_rows_are_counted() -> None:
    """They were not, where `metric_rows` was given and there are at most 1000 rows."""
    load = learned_load(Workload(1, RIDGES, FOLDS), strategy(100), (300, FEATURES, 1))
    rows = int(0.6 * 300)
    cells = 2 * 4 * 6 * fit_cost(rows, FEATURES)
    assert_allclose(
        load.preliminary_operations,
        cells + 4 * 3 * (5 * fit_cost(rows, FEATURES) + metric(rows)),
    )


# -- paths --------------------------------------------------------------------------------------------
ZERO = Round(FULL, Fitted(FULL.kernel, 1.0))


def path_of(ranks, track=FULL):
    path = Path(track)
    for rank in ranks:
        path = path.extended(Step(ZERO, (1.0, 0), rank))
    return path


@pytest.mark.parametrize(
    ("ranks", "gained"),
    [
        ([-1.0], True),
        ([-1.0, -0.9], True),
        ([-1.0, -0.996], False),
        ([-1.0, -0.5, -0.7], False),  # better than one of those before, not than all
        ([0.5, 0.51], True),  # R²: the loss is 1 − R²
        ([0.5, 0.502], False),
        ([-0.5, 0.1], True),
        ([None, -1.0], True),  # ranks of other rows do not count
        ([None, -1.0, -0.999], False),
    ],
)
def test_a_path_may_continue_while_its_last_round_gains(ranks, gained) -> None:
    path = path_of(ranks)
    assert path.gained == gained
    assert path.may_continue(len(ranks)) == gained
    assert not path.may_continue(len(ranks) - 1)
    assert not path_of(ranks, Track("linear", FULL.kernel, "none")).may_continue(9)


def test_paths_are_values() -> None:
    path = path_of([-1.0, -0.5])
    longer = path.extended(Step(ZERO, (2.0, 3), -0.4))
    assert (len(path.steps), len(longer.steps)) == (2, 3)
    assert (path.group, longer.group) == (("rbf", "full", 1), ("rbf", "full", 2))
    assert path_of([-1.0]).group == ("rbf", "none", 0)
    assert longer.point == (2.0, 3)
    assert [step.rank for step in longer.before(2).steps] == [None, None]
    assert [step.point for step in longer.before(2).steps] == [step.point for step in path.steps]
    with pytest.raises(FrozenInstanceError):
        path.steps = ()


def test_every_stage_is_in_the_list_of_some_search() -> None:
    searches = [(800, 800, 0), (1300, 1300, 0), (3000, 3000, 2400), (300, 100, 100)]
    lists = [strategy(rows).stages(n, 1000, training) for n, rows, training in searches]
    kinds = {type(stage) for stages in lists for stage in stages}
    defined = metric_search.MetricStage.__subclasses__()
    assert kinds == {kind for kind in defined if kind.__module__ == metric_search.__name__}
