"""What every approximation promises, asked of each that is registered.

A new approximation inherits the suite: derive a test class from `Conformance` that says which one it is
and what it allows; see ``test_toy.py`` for one from outside the package.
"""

from __future__ import annotations

import json
import warnings
from typing import Any, ClassVar

import numpy as np
import pytest

from onefold import LSSVR, LSSVRCV, load, plan
from onefold.approximations import Approximation, Problem, Run, Workload, registered
from onefold.cli import main
from onefold.kernels import Kernel, resolve_kernel

N = 60
GAMMA = 0.5
ALPHAS = np.array([0.3, 3.0])


class Conformance:
    """The promises. Subclasses set `name`, and what their approximation allows."""

    name: ClassVar[str]
    settings: ClassVar[dict[str, Any]] = {}
    kernel: ClassVar[str] = "rbf"
    tolerance: ClassVar[float] = 1e-8
    """Of held-out predictions against literal refits, relative to the targets' size."""
    literal: ClassVar[Approximation | None] = None
    """What trains without the held-out rows in a literal refit; by default the approximation itself."""

    @pytest.fixture(autouse=True)
    def _quiet(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield

    def rows(self) -> Any:
        """Rows that suit the approximation: equal steps along a line, in one feature."""
        return np.linspace(-3, 3, N)[:, None]

    def targets(self) -> Any:
        x = self.rows()[:, 0]
        return np.column_stack([np.sin(2 * x), x**2 / 4]) + 0.05 * np.cos(40 * x)[:, None]

    def approximation(self) -> Approximation:
        return registered()[self.name](**self.settings)

    def of_width(self, gamma: float) -> Kernel:
        """The kernel of the class."""
        return resolve_kernel(self.kernel, gamma, 3, 1.0)

    def problem(self, weight: Any = None, rows: Any = slice(None)) -> Problem:
        root = None if weight is None else np.sqrt(weight)[rows]
        return Problem(self.rows()[rows], self.targets()[rows], root, fit_intercept=True)

    def run(self, load: Workload, problem: Problem | None = None) -> Run:
        problem = self.problem() if problem is None else problem
        return self.approximation().start(problem, [self.of_width(GAMMA)], load)

    def parts(self) -> list[Any]:
        """Five sets; the outermost rows, which say how far a grid reaches, are in none."""
        return [np.arange(first, N - 1, 5) for first in range(1, 6)]

    def searching(self) -> Workload:
        return Workload(alphas=ALPHAS.size, folds=5, parts=self.parts())

    def test_it_is_found_by_its_name_and_says_what_takes_place(self) -> None:
        X = self.rows()
        y = self.targets()[:, 0]
        fitted = LSSVR(self.kernel, gamma=GAMMA, alpha=10.0, approximation=self.name).fit(X, y)
        assert np.isfinite(fitted.predict(X)).all()
        assert fitted.approximation_["name"]
        assert type(self.approximation()).name == self.name
        run = self.run(Workload())
        assert run.max_parallel_models >= 1
        assert type(run.approximation).name in registered()
        assert run.model(self.of_width(GAMMA)).report["name"]

    def test_held_out_predictions_are_those_of_literal_refits(self) -> None:
        if not self.approximation().selects:
            with pytest.raises(ValueError, match="cannot search"):
                self.run(self.searching())
            return
        found = self.run(self.searching()).model(self.of_width(GAMMA)).heldout(self.parts(), ALPHAS)
        for rows, values in zip(self.parts(), found):
            rest = np.delete(np.arange(N), rows)
            part = self.problem(rows=rest)
            load = Workload(alphas=ALPHAS.size)
            trained_with = self.literal or self.approximation()
            model = trained_with.start(part, [self.of_width(GAMMA)], load).model(self.of_width(GAMMA))
            for k, mu in enumerate(ALPHAS):
                literal = model.expansion(mu).predict(self.rows()[rows])
                np.testing.assert_allclose(values[k], literal, rtol=0, atol=self.tolerance)

    def test_every_target_has_its_own_ridge(self) -> None:
        model = self.run(Workload(alphas=2)).model(self.of_width(GAMMA))
        both = model.expansion(ALPHAS).predict(self.rows())
        for target, mu in enumerate(ALPHAS):
            alone = model.expansion(mu).predict(self.rows())
            np.testing.assert_allclose(both[:, target], alone[:, target], rtol=0, atol=self.tolerance)

    def test_weights_count_or_are_refused(self) -> None:
        weight = np.linspace(0.5, 2.0, N)
        if not self.approximation().supports_weights:
            with pytest.raises(ValueError, match="weights"):
                self.run(Workload(), self.problem(weight))
            return
        plain, weighted = (
            self.run(Workload(), self.problem(w))
            .model(self.of_width(GAMMA))
            .expansion(0.3)
            .predict(self.rows())
            for w in (None, weight)
        )
        assert np.abs(plain - weighted).max() > 1e-6

    def test_the_final_model_is_the_same_or_exact(self) -> None:
        selects = self.approximation().selects
        load = self.searching() if selects else Workload()
        run = self.run(load)
        assert run.refits_exactly == run.approximation.exact
        expansion, report = run.finished(run.final_model(self.of_width(GAMMA), 0.3), 0.3)
        assert report["name"]
        model = run.model(self.of_width(GAMMA))
        again, _ = run.finished(run.final_model(self.of_width(GAMMA), 0.3, model), 0.3)
        np.testing.assert_allclose(
            expansion.predict(self.rows()), again.predict(self.rows()), atol=self.tolerance
        )
        exactly = self.run(Workload(load.kernels, load.alphas, load.folds, refit="exact"))
        assert exactly.refits_exactly
        truth = (
            LSSVR(self.kernel, gamma=GAMMA, alpha=0.3)
            .fit(self.rows(), self.targets())
            .predict(self.rows())
        )
        found = exactly.finished(exactly.final_model(self.of_width(GAMMA), 0.3), 0.3)[0].predict(
            self.rows()
        )
        np.testing.assert_allclose(found, truth, atol=max(1e-8, self.tolerance))

    def test_a_search_saves_and_loads(self, tmp_path: Any) -> None:
        if not self.approximation().selects:
            return
        X = self.rows()
        y = self.targets()[:, 0]
        settings = {"gammas": [0.3, 1.0], "alphas": ALPHAS, "cv": 3}
        found = LSSVRCV(self.kernel, approximation=self.approximation(), **settings).fit(X, y)
        assert {"selected_with", "fitted_with", "intervals"} == set(found.approximation_)
        found.save(tmp_path / "model.onefold")
        loaded = load(tmp_path / "model.onefold")
        assert loaded.approximation == found.approximation
        np.testing.assert_array_equal(loaded.predict(X), found.predict(X))
        np.testing.assert_array_equal(loaded.predict_interval(X, 0.7), found.predict_interval(X, 0.7))

    def test_the_same_seed_gives_the_same_numbers(self) -> None:
        X = self.rows()
        y = self.targets()[:, 0]
        settings = {
            "kernel": self.kernel,
            "gamma": GAMMA,
            "alpha": 0.3,
            "approximation": self.approximation(),
        }
        first, second = (LSSVR(**settings, random_state=7).fit(X, y).predict(X) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        plain = LSSVR(**settings).fit(X, y).predict(X)
        as_set = LSSVR(**settings, random_state=0).fit(X, y).predict(X)
        np.testing.assert_array_equal(plain, as_set)

    def test_it_has_a_plan_on_the_command_line_too(self, tmp_path: Any, capsys: Any) -> None:
        found = plan(LSSVRCV(self.kernel, approximation=self.approximation()), (N, 1))
        assert found.fits
        assert found.reason in str(found)
        table = tmp_path / "t.csv"
        rows = np.hstack([self.rows(), self.targets()[:, :1]])
        np.savetxt(table, rows, "%.17g", ",", header="x,y", comments="")
        assert main(["plan", str(table), "--target", "y", "--json", "--approximation", self.name]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == N
