"""What ran and why: the choice, what it was preferred to, the search, the approximation behind both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.preprocessing import FunctionTransformer

from onefold.estimators.base import on_host
from onefold.facts.criteria import OWN_FUNCTION, criterion_of, score_label, score_text, score_words
from onefold.facts.words import aligned, counted, number_words, percent, power_of_two

_NEXT_BEST = 4
_MOST_FEATURES = 6
_LEAST_SHARE = 0.01  # of a feature that is worth a line
_VERDICTS = {
    "applies": "can be trusted",
    "doubtful": "is doubtful",
    "does not apply": "cannot be trusted here",
}


@dataclass(frozen=True)
class Subject:
    """The estimator of ours behind a model, and what stands before it."""

    estimator: Any
    table: Any = None  # that prepares the rows
    before: list[Any] = field(default_factory=list)  # transformers of the rows
    targets: list[Any] = field(default_factory=list)  # transformers of the targets

    @property
    def classes(self) -> np.ndarray | None:
        """The labels; None for regression."""
        found = getattr(self.estimator, "classes_", None)
        return None if found is None else np.asarray(found)

    @property
    def pairwise(self) -> bool:
        """Whether rows are those of a kernel matrix."""
        return bool(self.estimator.__sklearn_tags__().input_tags.pairwise)

    @property
    def features(self) -> list[str]:
        """Names of the columns of the matrix that the estimator takes."""
        named = getattr(self.estimator, "feature_names_in_", None)
        if self.table is not None:
            named = self.table.get_feature_names_out()
        elif named is None and self.before:
            try:
                named = self.before[-1].get_feature_names_out()
            except (AttributeError, TypeError, ValueError):  # a step does not know
                named = None
        count = int(self.estimator.n_features_in_)
        if named is None or len(named) != count:
            return [f"feature {j}" for j in range(count)]
        return [str(name) for name in named]

    def fitted_target(self, y: np.ndarray) -> np.ndarray:
        """Targets as the estimator fits them; NaN where that does not exist, as the logarithm of 0."""
        for one in self.targets:
            with np.errstate(divide="ignore", invalid="ignore"):
                y = np.asarray(one.transform(y.reshape(len(y), -1))).reshape(y.shape)
            y = np.where(np.isfinite(y), y, np.nan)
        return y

    def in_target_units(self, values: np.ndarray) -> np.ndarray:
        """What the estimator predicts (n, columns), in the units of the target."""
        for one in reversed(self.targets):
            values = np.asarray(one.inverse_transform(values))
        return values


def subject_of(model: Any) -> Subject:
    """Look behind pipelines, tables and transforms of the target."""
    inner = model
    table = None
    before = list[Any]()
    targets = list[Any]()
    while True:
        if hasattr(inner, "steps"):
            before += [inner[:-1]] if len(inner.steps) > 1 else []
            inner = inner.steps[-1][1]
        elif hasattr(inner, "estimator_"):  # of a table
            if getattr(inner, "target_transform", None):
                targets.append(FunctionTransformer(np.log, np.exp))
            table = inner
            inner = inner.estimator_
        elif hasattr(inner, "regressor_"):  # of a TransformedTargetRegressor
            targets.append(inner.transformer_)
            inner = inner.regressor_
        else:
            return Subject(on_host(inner), table, before, targets)


def group_words(params: Mapping[str, Any]) -> str:
    """A family, its metric and the round that it was learned in: ``rbf, full metric, round 2``."""
    words = [str(params["kernel"])] if "kernel" in params else []
    if params.get("metric", "none") != "none":
        words += [f"{params['metric']} metric", f"round {int(params['round'])}"]
    return ", ".join(words)


def parameter_lines(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The chosen candidate, as label and value."""
    lines = [("kernel", group_words(params))] if "kernel" in params else []
    if params.get("gamma") is not None:
        width = float(params["gamma"])
        relative = f"{width:.4g}, relative to the mean distance between rows"
        lines.append(("gamma", relative if "kernel" in params else number_words(width)))
    if "spacing" in params:
        lines.append(("spacing", spacing_words(params["spacing"])))
    return [*lines, ("alpha", number_words(float(params["alpha"])))]


def spacing_words(spacing: Any) -> str:
    """A spacing of a circulant matrix: ``1 × 2``, or ``data``."""
    return spacing if isinstance(spacing, str) else " × ".join(f"{float(h):.4g}" for h in spacing)


def blend_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The members of a blend and its score next to that of the best of them alone."""
    members = report.get("blend")
    criterion = report["criterion"]
    if not members:
        return []
    if len(members) == 1:
        return [("blend", "none; a single model was best")]
    whole = score_words(criterion, report["blend_score"])
    alone = score_text(criterion, report["best_score"])
    # It goes by the squared error, of which an error rate is a coarse picture.
    why = ", though worse in squared error" if report["best_score"] > report["blend_score"] else ""
    score = f"{whole}  (best single model: {alone}{why}), cross-fitted"
    return [("blend", score), *member_lines(members)]


def member_lines(members: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The members of a blend: weight, family, metric, width and ridge."""
    lines = []
    for one in members:
        words = [group_words(one), _cell_words(one)] if "kernel" in one else [_cell_words(one)]
        lines.append(("member", f"{one['weight']:.2f} × {', '.join(words)}"))
    return lines


def _cell_words(params: Mapping[str, Any]) -> str:
    words = [f"alpha {power_of_two(float(params['alpha']))}"]
    if params.get("gamma") is not None:  # relative among families: no power of two of any unit
        width = float(params["gamma"])
        words.insert(0, f"gamma {f'{width:.4g}' if 'kernel' in params else power_of_two(width)}")
    if "spacing" in params:
        words.append(f"spacing {spacing_words(params['spacing'])}")
    return ", ".join(words)


def importance_lines(shares: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """The most important columns, with their shares; none where no column has one."""
    first = [name for name, share in (shares or {}).items() if share > 0][:_MOST_FEATURES]
    if not shares or not first:
        return []
    shown = [name for name in first if shares[name] >= _LEAST_SHARE] or first
    lines = [(name, percent(shares[name])) for name in shown]
    if len(shares) > len(shown):
        left = percent(max(0.0, 1.0 - sum(shares[name] for name in shown)))
        lines.append((counted(len(shares) - len(shown), "other"), f"{left} in total"))
    return lines


def choice_rule(estimator: Any) -> str | None:
    """By which rule a search chose among its candidates, in words; None where nothing was searched."""
    results = getattr(estimator, "cv_results_", None)
    if results is None:
        return None
    if (
        getattr(estimator, "metric", None) is not None
        or len({group_words(one) for one in results["params"]}) > 1
    ):
        return "the simplest kernel and metric within one standard error of the best, by squared error"
    if getattr(estimator, "select", "min") == "1se":
        return "the largest alpha within one standard error of the best score"
    return "the best score"


def next_best(estimator: Any, criterion: str | None) -> list[str]:
    """The rivals of the choice with their scores: other cells, or the best of other families."""
    results = estimator.cv_results_
    chosen = estimator.best_params_
    params = results["params"]
    scores = np.asarray(results["mean_test_score"], dtype=float)
    order = [int(i) for i in np.argsort(-scores, kind="stable") if np.isfinite(scores[i])]
    families = len({group_words(one) for one in params}) > 1
    key = ("kernel", "metric") if families else ("gamma", "alpha", "spacing")
    best: dict[tuple[Any, ...], int] = {}  # of every family, or every cell of the only one
    for i in order:
        if group_words(params[i]) != group_words(chosen) or (not families and params[i] != chosen):
            best.setdefault(tuple(params[i].get(name) for name in key), i)
    rivals = [*best.values()][:_NEXT_BEST]
    if not rivals:
        return ["  no other candidate has a score"]
    names = [group_words(params[i]) if families else _cell_words(params[i]) for i in rivals]
    lines = aligned([(name, score_words(criterion, scores[i])) for name, i in zip(names, rivals)])
    if scores[rivals[0]] > estimator.best_score_:
        lines.append("  (chosen by squared error: the simplest model within one standard error of the")
        lines.append("  best)")
    return lines


def approximation_lines(approximation: dict[str, Any]) -> list[tuple[str, str]]:
    """What ran at each stage and why; estimators with given hyper-parameters have one stage."""
    if "selected_with" not in approximation:
        return [("method", _method(approximation))]
    selected = approximation["selected_with"]
    fitted = approximation["fitted_with"]
    why = selected.get("chosen", "as requested")
    if selected["name"] == "cg":  # in the place of what was chosen first
        why = selected.get("reason", why)
    lines = [("selected with", f"{_method(selected)} ({why})"), ("fitted with", _method(fitted))]
    if _method(selected) == _method(fitted):
        lines = [("method", f"{_method(selected)} ({why})")]
    if "trust" in approximation:
        lines.append(("trust check", trust_facts(approximation)["words"]))
    return lines


def _method(report: dict[str, Any]) -> str:
    """An approximation by its name and what says most about it."""
    words = ["cg, conjugate gradients" if report["name"] == "cg" else str(report["name"])]
    if "landmarks" in report:
        words.append(counted(int(report["landmarks"]), "landmark"))
    if "points" in report:
        words.append(f"{' × '.join(str(count) for count in report['points'])} points")
    if "diagonals" in report:
        words.append(f"diagonals {report['diagonals']}")
    if "distance" in report:
        words.append(f"differs from the kernel matrix by {percent(float(report['distance']))}")
    return ", ".join(words)


def trust_facts(approximation: dict[str, Any]) -> dict[str, Any]:
    """The verdict on the approximation and what it rests on, or how to get one."""
    stages = [approximation.get(name, {}).get("name") for name in ("selected_with", "fitted_with")]
    if {*stages} <= {"exact"} or approximation.get("name") == "exact":
        return {"verdict": "exact", "words": "exact method: nothing was approximated"}
    found = approximation.get("trust")
    if found is not None:
        words = (
            f"the approximation {_VERDICTS[found['verdict']]} "
            f"({counted(found['steps'], 'grid step')} from the exact choice on {found['rows']} rows, "
            f"regret {found['regret']:.3g})"
        )
        return {"verdict": found["verdict"], "words": words}
    if approximation.get("name") == "sparse":
        words = "pruned to few centres; path_ has the score of every size"
        return {"verdict": None, "words": words}
    words = "not checked against the exact method; call onefold.trust(estimator, X, y)"
    if "selected_with" in approximation:
        words += ", or fit with check=True (onefold tune --check)"
    return {"verdict": None, "words": words}


def ran_facts(estimator: Any, seconds: float | None = None) -> dict[str, Any]:
    """The choice, its score and the search, and all of it as label and value."""
    results = getattr(estimator, "cv_results_", None)
    history = getattr(estimator, "history_", None)
    if seconds is None and history:
        seconds = float(sum(one.get("seconds", 0.0) for one in history))
    members = list(getattr(estimator, "blend_", None) or [])
    search = getattr(estimator, "search_", {})
    choice = _choice(estimator)
    score = _score(estimator)
    candidates = len(results["params"]) if results is not None else 1
    rule = choice_rule(estimator)
    alone = " of the best single model" if len(members) > 1 else ""
    lines = [("estimator", type(estimator).__name__)]
    lines += [(f"{label}{alone}", value) for label, value in choice]
    lines += member_lines(members) if len(members) > 1 else []
    if getattr(estimator, "loss", "sum") == "mean":
        lines.append(("loss", "the mean squared error, of which alpha is the ridge"))
    if score is not None:
        lines.append((f"criterion: {score['label']}", score["words"]))
    if rule is not None:
        lines.append(("selection rule", rule))
    lines += approximation_lines(estimator.approximation_)
    if search:
        words = f"{search.get('method', 'grid')}, {counted(candidates, 'candidate')}"
        if search.get("stopped"):
            untried = counted(len(search.get("untried", ())), "candidate")
            words += f"; stopped early ({search['stopped'].replace('_', ' ')}), {untried} not tried"
        lines.append(("search", words))
    if seconds is not None:
        lines.append(("search time", f"{seconds:.1f} s"))
    return {
        "estimator": type(estimator).__name__,
        "choice": choice,
        "blend": members,
        "score": score,
        "search": dict(search),
        "candidates": candidates,
        "seconds": seconds,
        "lines": lines,
    }


def _choice(estimator: Any) -> list[tuple[str, str]]:
    if hasattr(estimator, "best_params_"):
        return parameter_lines(estimator.best_params_)
    if hasattr(estimator, "n_centres_"):
        given = {"gamma": estimator.gamma_, "alpha": estimator.alpha_}
        return [("centres", str(int(estimator.n_centres_))), *parameter_lines(given)]
    alphas = np.atleast_1d(np.asarray(estimator.alpha, dtype=np.float64))
    words = ", ".join(number_words(float(alpha)) for alpha in alphas[:8])
    kernel = getattr(estimator.expansion_.parts[0][1], "kernel", None)
    width = getattr(kernel, "gamma", None)
    lines = [("kernel", type(kernel).__name__)]
    if isinstance(width, float | int):
        lines.append(("gamma", number_words(float(width))))
    return [*lines, ("alpha", f"{words} (given)")]


def _score(estimator: Any) -> dict[str, Any] | None:
    """The score that the choice went by, of the blend where there is one, with its standard error."""
    if not hasattr(estimator, "best_score_"):
        return None
    criterion = criterion_of(estimator)
    blended = getattr(estimator, "blend_score_", None)
    value = float(estimator.best_score_ if blended is None else blended)
    error = None
    if blended is None:
        if (table := getattr(estimator, "cv_results_", None)) is not None:
            place = int(estimator.best_index_)
        else:
            table = estimator.path_
            place = int(np.flatnonzero(table["n_centres"] == estimator.n_centres_)[0])
        splits = [n for n in table if n.startswith("split") and n.endswith("_test_score")]
        scores = np.array([table[name][place] for name in splits], dtype=np.float64)
        error = float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None
    # Where there are held-out predictions the standard error is theirs, among the scores.
    known = getattr(estimator, "heldout_prediction_", None) is not None
    words = score_text(criterion, value, None if known else error)
    label = OWN_FUNCTION if criterion is None else score_label(criterion)
    return {"criterion": criterion, "value": value, "error": error, "label": label, "words": words}
