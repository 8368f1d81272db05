"""What ran and why: the choice, what it was preferred to, the search, the approximation behind both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onefold.facts.criteria import criterion_of, score_label, score_text, score_words
from onefold.facts.words import aligned, counted, error_number, number_words, percent, power_of_two

_NEXT_BEST = 4
_MOST_FEATURES = 6
_LEAST_SHARE = 0.01  # of a feature that is worth a line
_UNCHECKED = "not checked; call onefold.trust(estimator, X, y)"


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
        # Among families the widths are relative: no power of two of any unit.
        relative = f"{width:.4g}, relative to the mean distance of the rows"
        lines.append(("gamma", relative if "kernel" in params else number_words(width)))
    return [*lines, ("alpha", number_words(float(params["alpha"])))]


def blend_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The members of a blend and its score next to that of the best of them alone."""
    members, criterion = report.get("blend"), report["criterion"]
    if not members:
        return []
    if len(members) == 1:
        return [("blend", "none, one model was best")]
    if criterion is None:  # a function of the user's
        whole, alone = (f"{report[name]:.6g}" for name in ("blend_score", "best_score"))
    else:
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
        words = [group_words(one)] if "kernel" in one else []
        if one.get("gamma") is not None:
            words.append(f"gamma {float(one['gamma']):.4g}")
        words.append(f"alpha {power_of_two(float(one['alpha']))}")
        lines.append(("member", f"{one['weight']:.2f} × {', '.join(words)}"))
    return lines


def importance_lines(shares: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """The most important columns, with their shares."""
    if not shares:
        return []
    shown = [name for name in shares if shares[name] >= _LEAST_SHARE][:_MOST_FEATURES]
    lines = [(name, percent(shares[name])) for name in shown]
    if len(shares) > len(shown):
        left = percent(max(0.0, 1.0 - sum(shares[name] for name in shown)))
        lines.append((counted(len(shares) - len(shown), "other"), f"{left} together"))
    return lines


def next_best(estimator: Any, criterion: str) -> list[str]:
    """The rivals of the choice with their scores: other cells, or the best of other families."""
    results, chosen = estimator.cv_results_, estimator.best_params_
    params, scores = results["params"], np.asarray(results["mean_test_score"], dtype=float)
    order = [int(i) for i in np.argsort(-scores, kind="stable") if np.isfinite(scores[i])]
    if len({group_words(one) for one in params}) == 1:
        rivals = [i for i in order if params[i] != chosen][:_NEXT_BEST]
        axes = [name for name in ("gamma", "alpha") if name in chosen]
        cells = [[power_of_two(params[i][name]) for name in axes] for i in rivals]
        width = max((len(value) for cell in cells for value in cell), default=0)
        names = ["  ".join(f"{a} {value:>{width}}" for a, value in zip(axes, cell)) for cell in cells]
    else:
        best: dict[tuple[Any, Any], int] = {}
        for i in order:
            if group_words(params[i]) != group_words(chosen):
                best.setdefault((params[i]["kernel"], params[i].get("metric")), i)
        rivals = [*best.values()][:_NEXT_BEST]
        names = [group_words(params[i]) for i in rivals]
    if not rivals:
        return ["  there was no other candidate with a score"]
    lines = aligned([(name, score_words(criterion, scores[i])) for name, i in zip(names, rivals)])
    if scores[rivals[0]] > estimator.best_score_:
        lines.append("  (models are compared by squared error: the simplest within one standard error")
        lines.append("  of the best is chosen)")
    return lines


def approximation_lines(approximation: dict[str, Any]) -> list[tuple[str, str]]:
    """What ran at each stage and why; estimators with given hyper-parameters have one stage."""
    if "selected_with" not in approximation:
        return [("method", _method(approximation))]
    selected, fitted = approximation["selected_with"], approximation["fitted_with"]
    why = selected.get("chosen", "as asked for")
    lines = [("selected with", f"{_method(selected)} ({why})"), ("fitted with", _method(fitted))]
    if _method(selected) == _method(fitted):
        lines = [("method", f"{_method(selected)} ({why})")]
    if "trust" in approximation:
        lines.append(("trust check", trust_facts(approximation)["words"]))
    return lines


def _method(report: dict[str, Any]) -> str:
    """An approximation by its name and what says most about it."""
    words = [str(report["name"])]
    if "landmarks" in report:
        words.append(counted(int(report["landmarks"]), "landmark"))
    if "points" in report:
        words.append(f"{' × '.join(str(count) for count in report['points'])} points")
    if "diagonals" in report:
        words.append(f"diagonals {report['diagonals']}")
    if "distance" in report:
        words.append(f"{percent(float(report['distance']))} away from the kernel matrix")
    return ", ".join(words)


def trust_facts(approximation: dict[str, Any]) -> dict[str, Any]:
    """The verdict on the approximation and what it rests on, or how to get one."""
    found = approximation.get("trust")
    if found is not None:
        words = (
            f"the approximation {found['verdict'].replace('doubtful', 'is doubtful')} "
            f"({counted(found['steps'], 'grid step')} from the exact choice on {found['rows']} rows, "
            f"regret {found['regret']:.3g})"
        )
        return {"verdict": found["verdict"], "words": words, "found": found}
    stages = [approximation.get(name, {}).get("name") for name in ("selected_with", "fitted_with")]
    if {*stages} <= {"exact"} or approximation.get("name") == "exact":
        return {"verdict": "exact", "words": "the exact method: nothing was approximated", "found": None}
    words = _UNCHECKED
    if "selected_with" in approximation:
        words += ", or fit with check=True (onefold tune --check)"
    if approximation.get("name") == "sparse":
        words = "pruned to few centres; the scores of every size say what that costs"
    return {"verdict": None, "words": words, "found": None}


def ran_facts(estimator: Any, seconds: float | None = None) -> dict[str, Any]:
    """The choice, its score and the search, and all of it as label and value."""
    results, history = getattr(estimator, "cv_results_", None), getattr(estimator, "history_", None)
    if seconds is None and history:
        seconds = float(sum(one.get("seconds", 0.0) for one in history))
    members, search = list(getattr(estimator, "blend_", None) or []), getattr(estimator, "search_", {})
    choice, score = _choice(estimator), _score(estimator)
    candidates = len(results["params"]) if results is not None else 1
    alone = " of the best single model" if len(members) > 1 else ""
    lines = [("estimator", type(estimator).__name__)]
    lines += [(f"{label}{alone}", value) for label, value in choice]
    lines += member_lines(members) if len(members) > 1 else []
    if score is not None:
        lines.append((f"criterion: {score['label']}", score["words"]))
    lines += approximation_lines(estimator.approximation_)
    if search:
        words = f"{search.get('method', 'grid')}, {counted(candidates, 'candidate')}"
        if search.get("stopped"):
            untried = counted(len(search.get("untried", ())), "candidate")
            words += f"; stopped early ({search['stopped'].replace('_', ' ')}), {untried} not tried"
        lines.append(("search", words))
    if seconds is not None:
        lines.append(("time of the search", f"{seconds:.1f} s"))
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
    criterion, blended = criterion_of(estimator), getattr(estimator, "blend_score_", None)
    value, error = float(estimator.best_score_ if blended is None else blended), None
    if blended is None:
        if (table := getattr(estimator, "cv_results_", None)) is not None:
            place = int(estimator.best_index_)
        else:
            table = estimator.path_
            place = int(np.flatnonzero(table["n_centres"] == estimator.n_centres_)[0])
        splits = [n for n in table if n.startswith("split") and n.endswith("_test_score")]
        scores = np.array([table[name][place] for name in splits], dtype=np.float64)
        error = float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None
    found = {"criterion": criterion, "value": value, "error": error}
    if criterion is None:
        words = f"{value:.6g}" + ("" if error is None else f" ± {error_number('', error)}")
        return found | {"label": "a function of your own", "words": words}
    # Where there are held-out predictions the standard error is theirs, among the scores.
    known = getattr(estimator, "heldout_prediction_", None) is not None
    words = score_text(criterion, value, None if known else error)
    return found | {"label": score_label(criterion), "words": words}
