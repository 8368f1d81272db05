"""scikit-learn's callbacks on the estimators that choose, where the installed version has them."""

from __future__ import annotations

import io
import pickle
import sys
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import onefold
from onefold import LSSVCCV, LSSVRCV, KernelRidgeCV
from onefold.estimators import callbacks
from onefold.search import GridEdgeWarning, SearchStoppedWarning
from onefold.search.remaining import Remaining, duration_words

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=80)
LABELS = (Y > 0).astype(int)
GRID = {"gammas": [0.03, 0.1, 0.3, 1.0], "alphas": [0.01, 0.1, 1.0]}
CASES = [(LSSVCCV, LABELS), (LSSVRCV, Y), (KernelRidgeCV, Y)]

with_callbacks = pytest.mark.skipif(
    not hasattr(LSSVCCV, "set_callbacks"), reason="scikit-learn has no callbacks before 1.9"
)


class Diary:
    """Writes down what it is told; says that it wants no more, or fails, after so many evaluations."""

    def __init__(self, enough: int | None = None, fails: int | None = None) -> None:
        self.lines: list[tuple[str, str]] = []
        self.expected: int | None = -1
        self._enough, self._fails = enough, fails

    def setup(self, estimator, context):
        self.lines.append(("setup", context.task_name))
        self.expected = context.max_subtasks

    def teardown(self, estimator, context):
        self.lines.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.lines.append(("begin", context.task_name))

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.lines.append(("end", context.task_name))
        self.data = X, y, metadata
        self.fitted = fitted_estimator
        ended = self.lines.count(("end", "evaluation"))
        if ended == self._fails:
            raise RuntimeError("the diary is full")
        return self._enough is not None and ended >= self._enough


class Everywhere(Diary):
    """One that meta-estimators hand on."""

    max_propagation_depth = None


ONE = [("begin", "evaluation"), ("end", "evaluation")]


@with_callbacks
@pytest.mark.parametrize(("kind", "y"), CASES)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_one_task_for_each_evaluation_within_that_of_the_fit(kind, y, n_jobs):
    diary, weight = Diary(), np.ones(80)
    model = kind(**GRID, n_jobs=n_jobs).set_callbacks(diary).fit(X, y, sample_weight=weight)
    assert diary.lines == [
        ("setup", "fit"),
        ("begin", "fit"),
        *(4 * ONE),
        ("end", "fit"),
        ("teardown", "fit"),
    ]
    assert diary.expected == 4
    assert (diary.data[0] is X, diary.data[1] is y, diary.data[2]["sample_weight"] is weight) == (
        True,
    ) * 3
    assert_array_equal(diary.fitted.predict(X), model.predict(X))


@with_callbacks
@pytest.mark.parametrize(("kind", "y"), CASES)
def test_callbacks_change_no_result(kind, y):
    told, silent = kind(**GRID).set_callbacks(Diary()).fit(X, y), kind(**GRID).fit(X, y)
    assert told.best_params_ == silent.best_params_
    assert told.search_ == silent.search_
    assert_array_equal(told.heldout_prediction_, silent.heldout_prediction_)
    assert_array_equal(told.predict(X), silent.predict(X))
    assert [name for name in vars(told) if "callback" in name] == ["callback", "_skl_callbacks"]


def test_warnings_still_name_the_line_of_the_user():
    with pytest.warns(GridEdgeWarning) as found:
        LSSVRCV(gammas=[1e-4, 1e-3, 1e-2], alphas=[0.1]).fit(X, Y)
    assert found[0].filename == __file__


@with_callbacks
def test_how_many_rounds_there_will_be_nobody_knows():
    diary, events = Diary(), []
    LSSVRCV(metric="diagonal", callback=events.append).set_callbacks(diary).fit(X, Y)
    assert diary.expected is None
    assert diary.lines.count(("end", "evaluation")) == len(events)


@with_callbacks
def test_what_a_journal_knows_is_no_task(tmp_path):
    LSSVRCV(**{**GRID, "gammas": [0.1, 1.0]}, checkpoint=tmp_path / "a").fit(X, Y)
    diary = Diary()
    LSSVRCV(**GRID, checkpoint=tmp_path / "a").set_callbacks(diary).fit(X, Y)
    assert diary.lines.count(("end", "evaluation")) == 2


@with_callbacks
def test_one_that_fails_ends_the_fit_and_is_torn_down():
    diary = Diary(fails=2)
    model = LSSVRCV(**GRID, n_jobs=1).set_callbacks(diary)
    with pytest.raises(RuntimeError, match="the diary is full"):
        model.fit(X, Y)
    assert diary.lines[-1] == ("teardown", "fit")
    assert not hasattr(model, "best_params_")
    model.set_callbacks().fit(X, Y)


@with_callbacks
def test_wrong_input_is_refused_before_anybody_is_told():
    diary = Diary()
    with pytest.raises(ValueError, match="alphas"):
        LSSVRCV(alphas=[-1.0]).set_callbacks(diary).fit(X, Y)
    assert diary.lines == []


@with_callbacks
@pytest.mark.parametrize("rows", [None, 40])
def test_one_that_wants_no_more_keeps_the_best_so_far(rows):
    """It goes on saying so in the parts that are left, which is no second interruption."""
    options = {"metric": "diagonal", "metric_rows": rows} if rows else GRID
    with pytest.warns(SearchStoppedWarning):
        model = LSSVRCV(**options, n_jobs=1).set_callbacks(Diary(enough=2)).fit(X, Y)
    assert model.search_["stopped"] == "interrupted"
    if not rows:
        assert len(model.search_["untried"]) == 2


@with_callbacks
def test_they_are_cloned_and_pickled_as_scikit_learn_does_it():
    diary = Diary()
    model = LSSVRCV(**GRID).set_callbacks(diary).fit(X, Y)
    before = len(diary.lines)
    clone(model).fit(X, Y)
    assert len(diary.lines) == 2 * before
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@with_callbacks
def test_a_saved_model_has_none(tmp_path):
    model = LSSVRCV(**GRID).set_callbacks(Diary()).fit(X, Y)
    model.save(tmp_path / "m.onefold")
    loaded = onefold.load(tmp_path / "m.onefold")
    assert not hasattr(loaded, "_skl_callbacks")
    assert_array_equal(loaded.predict(X), model.predict(X))


@with_callbacks
def test_meta_estimators_hand_them_on():
    diary = Everywhere()
    make_pipeline(StandardScaler(), LSSVRCV(**GRID)).set_callbacks(diary).fit(X, Y)
    assert diary.lines.count(("end", "evaluation")) == 4
    diary = Everywhere()
    search = GridSearchCV(LSSVRCV(**GRID), {"kernel": ["rbf", "laplacian"]}, cv=2).set_callbacks(diary)
    search.fit(X, Y)
    assert diary.lines.count(("end", "evaluation")) == 4 * (2 * 2 + 1)
    diary = Diary()
    cross_val_score(LSSVRCV(**GRID).set_callbacks(diary), X, Y, cv=2)
    assert diary.lines.count(("end", "evaluation")) == 4 * 2


@with_callbacks
@pytest.mark.parametrize("options", [GRID, {"metric": "diagonal"}])
def test_the_bar_of_scikit_learn_is_shown_and_completes(options):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    shown = io.StringIO()
    with redirect_stdout(shown):
        LSSVRCV(**options).set_callbacks(ProgressBar()).fit(X, Y)
    assert "LSSVRCV - fit" in shown.getvalue()
    assert "100%" in shown.getvalue()


def test_versions_without_callbacks_do_without(monkeypatch):
    """The module as it is where there is no ``sklearn.callback``."""
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    spec = spec_from_file_location("callbacks_of_old", callbacks.__file__)
    assert spec is not None
    assert spec.loader is not None
    old = module_from_spec(spec)
    spec.loader.exec_module(old)
    assert not hasattr(old.CallbackSupportMixin, "set_callbacks")
    tasks = old.Tasks(object(), X, Y, None, evaluations=3)
    assert tasks.evaluated() is False
    tasks.end()
    assert old.with_callbacks(len) is len


# Lines and times


def test_verbose_names_the_part_and_the_time_left(capsys):
    LSSVRCV(**GRID, verbose=1, n_jobs=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == [f"[LSSVRCV] {i}/4 kernels" for i in (1, 2, 3, 4)]
    assert all(line.endswith(" s left") for line in lines[:3])
    assert "left" not in lines[3]
    LSSVRCV(metric="diagonal", metric_rows=40, verbose=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("[LSSVRCV] rounds: 1/6 kernels, best score ")
    assert lines[-1].startswith("[LSSVRCV] all rows: ")


def test_the_time_left_is_that_of_the_part_at_its_own_pace():
    def event(part, done, total, seconds):
        return {"part": part, "done": done, "total": total, "seconds": seconds}

    remaining = Remaining()
    assert remaining.seconds(event("rounds", 1, 5, 2.0)) == 8.0
    assert remaining.seconds(event("rounds", 2, 5, 6.0)) == 9.0
    assert remaining.seconds(event("rounds", 5, 5, 9.0)) == 0.0
    # Six of the next part came from a journal, at no cost.
    assert remaining.seconds(event("all rows", 7, 10, 19.0)) == 30.0
    assert remaining.seconds(event("all rows", 9, 10, 29.0)) == pytest.approx(20 / 3)
    assert remaining.seconds(event("all rows", 12, 10, 30.0)) == 0.0


def test_durations_in_words():
    seconds = [0.2, 8.4, 59.9, 60, 61, 3569, 3600, 4800, 90000]
    assert [duration_words(one) for one in seconds] == [
        "1 s", "8 s", "60 s", "1 min", "1 min", "59 min", "1 h", "1 h 20 min", "25 h",
    ]  # fmt: skip
