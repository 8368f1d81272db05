"""A fit in words: the choice, its scores, its rivals, the search, the approximation.

`onefold tune`, `onefold inspect` and the report all show the lines of `fit_facts`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onefold.facts.criteria import OWN_FUNCTION, criterion_of, score_label, score_text, score_words
from onefold.facts.scores import comparison_words, score_lines
from onefold.facts.words import aligned, counted, number_words, percent, power_of_two, readable

# Candidates other than the chosen one that are printed.
_NEXT_BEST = 4
# Columns whose importance is printed.
_MOST_FEATURES = 6
# The share of a column's importance below which it has no line.
_LEAST_SHARE = 0.01
# Values of alpha, one for each target, that are printed.
_MOST_ALPHAS = 8
_VERDICTS = {
    "applies": "can be trusted",
    "doubtful": "is doubtful",
    "does not apply": "cannot be trusted here",
}


def _group(params: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells groups of candidates apart: family, metric and the round that it was learned in."""
    metric = params.get("metric", "none")
    number = None if metric == "none" else params["round"]
    return params.get("kernel"), metric, number


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


def blend_lines(estimator: Any) -> list[tuple[str, str]]:
    """The members of a blend, and its score next to that of the best of them."""
    members = getattr(estimator, "blend_", None)
    if not members:
        return []
    if len(members) == 1:
        return [("blend", "none; a single model was best")]
    criterion = criterion_of(estimator)
    blended = score_words(criterion, estimator.blend_score_)
    single = score_text(criterion, estimator.best_score_)
    # Blends are chosen by squared error, which an error rate follows only roughly.
    worse = estimator.best_score_ > estimator.blend_score_
    why = ", though worse in squared error" if worse else ""
    return [
        ("blend", f"{blended}  (best single model: {single}{why}), cross-fitted"),
        *(("member", f"{member['weight']:.2f} × {_member_words(member)}") for member in members),
    ]


def _member_words(member: Mapping[str, Any]) -> str:
    """Family, metric, width and ridge of a member of a blend."""
    words = [group_words(member)] if "kernel" in member else []
    return ", ".join([*words, _cell_words(member)])


def _cell_words(params: Mapping[str, Any]) -> str:
    words = [f"alpha {power_of_two(float(params['alpha']))}"]
    if params.get("gamma") is not None:  # relative if there are families, and then no power of two
        width = float(params["gamma"])
        words.insert(0, f"gamma {f'{width:.4g}' if 'kernel' in params else power_of_two(width)}")
    if "spacing" in params:
        words.append(f"spacing {spacing_words(params['spacing'])}")
    return ", ".join(words)


def importance_lines(shares: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """The most important columns with their shares; none if no column has a share."""
    largest = [name for name, share in (shares or {}).items() if share > 0][:_MOST_FEATURES]
    if not shares or not largest:
        return []
    names = [name for name in largest if shares[name] >= _LEAST_SHARE] or largest
    lines = [(name, percent(shares[name])) for name in names]
    if len(shares) > len(names):
        remainder = percent(max(0.0, 1.0 - sum(shares[name] for name in names)))
        lines.append((counted(len(shares) - len(names), "other"), f"{remainder} in total"))
    return lines


def choice_rule(estimator: Any) -> str | None:
    """The rule by which a search chose its candidate, in words; None if nothing was searched."""
    results = getattr(estimator, "cv_results_", None)
    if results is None:
        return None
    if (
        getattr(estimator, "metric", None) is not None
        or len({_group(params) for params in results["params"]}) > 1
    ):
        return "the simplest kernel and metric within one standard error of the best, by squared error"
    if getattr(estimator, "select", "min") == "1se":
        return "the largest alpha within one standard error of the best score"
    return "the best score"


def next_best(estimator: Any) -> list[str]:
    """The rivals of the choice with their scores: other cells, or the best of other families."""
    results = estimator.cv_results_
    choice = estimator.best_params_
    criterion = criterion_of(estimator)
    params = results["params"]
    scores = np.asarray(results["mean_test_score"], dtype=float)
    order = [int(i) for i in np.argsort(-scores, kind="stable") if np.isfinite(scores[i])]
    by_family = len({_group(candidate) for candidate in params}) > 1
    key = ("kernel", "metric") if by_family else ("gamma", "alpha", "spacing")
    best: dict[tuple[Any, ...], int] = {}  # of each family, or of each cell if there is one family
    for i in order:
        other_family = _group(params[i]) != _group(choice)
        other_cell = not by_family and params[i] != choice
        if other_family or other_cell:
            best.setdefault(tuple(params[i].get(name) for name in key), i)
    rivals = [*best.values()][:_NEXT_BEST]
    if not rivals:
        return ["  no other candidate has a score"]
    words = group_words if by_family else _cell_words
    lines = aligned([(words(params[i]), score_words(criterion, scores[i])) for i in rivals])
    if scores[rivals[0]] > estimator.best_score_:
        lines.append("  (chosen by squared error: the simplest model within one standard error of the")
        lines.append("  best)")
    return lines


def approximation_lines(approximation: dict[str, Any]) -> list[tuple[str, str]]:
    """What ran at each stage and why; estimators with fixed hyper-parameters have one stage."""
    compressed = compression_lines(approximation)
    if "selected_with" not in approximation:
        return [("method", _method(approximation)), *compressed]
    selected = approximation["selected_with"]
    fitted = approximation["fitted_with"]
    why = selected.get("chosen", "as requested")
    if selected["name"] == "cg":  # which replaced the first choice
        why = selected.get("reason", why)
    lines = [("selected with", f"{_method(selected)} ({why})"), ("fitted with", _method(fitted))]
    if _method(selected) == _method(fitted):
        lines = [("method", f"{_method(selected)} ({why})")]
    if "trust" in approximation:
        lines.append(("trust check", trust_facts(approximation)["words"]))
    return [*lines, *compressed]


def interval_lines(approximation: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Which intervals were chosen, and why; none where the user has chosen."""
    record = approximation.get("intervals", {})
    if record.get("requested") != "auto":
        return []
    width = "normalised" if record["method"] == "normalised" else "of constant width"
    return [("intervals", f"{width}; {record['why']}")]


def compression_lines(approximation: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a compression has left out, and what it changes; none where there was none."""
    record = approximation.get("compressed")
    if record is None:
        return []
    of_classes = record["labels_changed"] is not None
    rows = f"{record['rows']} rows" if record["rows_from"] == "X" else "the other centres"
    if of_classes:
        change = f"{percent(record['labels_changed'])} of the labels of {rows} change"
    else:
        change = f"predictions of {rows} change by {_numbers(record['rms_change'])} (root mean square)"
    lines = [
        ("compressed", f"{record['centres']} of {counted(record['centres_before'], 'centre')} are left"),
        ("change", f"{change}; {percent(max(np.atleast_1d(record['norm_change'])))} of f in its norm"),
    ]
    if record["error_after"] is not None:
        before = percent(record["error_before"]) if of_classes else _numbers(record["error_before"])
        after = percent(record["error_after"]) if of_classes else _numbers(record["error_after"])
        lines.append(
            ("its error rate" if of_classes else "its RMSE", f"{after} on {rows} ({before} before)")
        )
    return lines


def _numbers(values: float | list[float]) -> str:
    """The number of the only target, or those of all."""
    return ", ".join(readable(float(value)) for value in np.atleast_1d(values))


def _method(report: dict[str, Any]) -> str:
    """The name of an approximation and its main numbers."""
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
    """The verdict of the trust check and its numbers, or how to get one."""
    stages = [approximation.get(name, {}).get("name") for name in ("selected_with", "fitted_with")]
    if {*stages} <= {"exact"} or approximation.get("name") == "exact":
        return {"verdict": "exact", "words": "exact method: nothing was approximated"}
    trust = approximation.get("trust")
    if trust is not None:
        words = (
            f"the approximation {_VERDICTS[trust['verdict']]} "
            f"({counted(trust['steps'], 'grid step')} from the exact choice on {trust['rows']} rows, "
            f"regret {trust['regret']:.3g})"
        )
        return {"verdict": trust["verdict"], "words": words}
    if approximation.get("name") == "sparse":
        words = "pruned to few centres; path_ has the score of every size"
        return {"verdict": None, "words": words}
    words = "not checked against the exact method; call onefold.trust(estimator, X, y)"
    if "selected_with" in approximation:
        words += ", or fit with check=True (onefold tune --check)"
    return {"verdict": None, "words": words}


def fit_facts(
    estimator: Any,
    *,
    seconds: float | None = None,
    scores: dict[str, Any] | None = None,
    log_scale: bool = False,
    clip: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The choice, its score and the search, and all of it as pairs of label and value.

    Parameters
    ----------
    estimator : fitted estimator
    seconds : float, optional
        The time of the fit; by default that of its search.
    scores : dict, optional
        Held-out scores, as `score_facts` gives them, to be among the lines.
    log_scale : bool, default=False
        Whether the criterion is one of logarithms of the target, and the scores are not.
    clip : dict, optional
        The range that predictions are kept within, as ``report_["clip"]`` of a table's estimator.
    """
    results = getattr(estimator, "cv_results_", None)
    history = getattr(estimator, "history_", None)
    if seconds is None and history:
        seconds = float(sum(event.get("seconds", 0.0) for event in history))
    search = getattr(estimator, "search_", {})
    candidates = len(results["params"]) if results is not None else 1
    choice = _choice(estimator)
    score = _score(estimator)
    lines = [("estimator", type(estimator).__name__), *choice, *blend_lines(estimator)]
    if getattr(estimator, "loss", "sum") == "mean":
        lines.append(("loss", "the mean squared error, of which alpha is the ridge"))
    unit = "on the log scale" if log_scale else ""
    if clip is not None and clip["changed"]:
        unit += " and before clipping" if log_scale else "before clipping"
    lines += _score_lines(score, scores, unit)
    if clip is not None:
        lines.append(("predictions", f"kept {clip['sentence']}"))
    rule = choice_rule(estimator)
    if rule is not None:
        lines.append(("selection rule", rule))
    lines += approximation_lines(estimator.approximation_)
    lines += interval_lines(estimator.approximation_)
    if search:
        lines.append(("search", _search_words(search, candidates)))
    if seconds is not None:
        lines.append(("search time", f"{seconds:.1f} s"))
    return {
        "estimator": type(estimator).__name__,
        "choice": choice,
        "blend": list(getattr(estimator, "blend_", None) or []),
        "score": score,
        "search": dict(search),
        "candidates": candidates,
        "seconds": seconds,
        "lines": lines,
    }


def _score_lines(
    score: dict[str, Any] | None, scores: dict[str, Any] | None, unit: str
) -> list[tuple[str, str]]:
    """Measures ± standard errors next to the baseline's; the criterion in `unit` unless it is one."""
    of_unit = f", {unit}" if unit else ""
    lines = [] if score is None else [(f"criterion: {score['label']}", f"{score['words']}{of_unit}")]
    if scores is None:
        return lines
    measures = dict(score_lines(scores))
    if score is not None and score["label"] in measures:
        if measures[score["label"]].startswith(score["words"]):
            lines = []
        else:
            words = f"{score['words']}, {unit or 'mean over the folds'}"
            lines = [(f"criterion: {score['label']}", words)]
    lines += measures.items()
    if scores["verdict"]["best"] is not None:
        lines.append(("best simple model", comparison_words(scores, "")))
    return lines


def _search_words(search: Mapping[str, Any], candidates: int) -> str:
    """The strategy of a search, how many candidates it tried, and whether it was stopped."""
    words = f"{search.get('method', 'grid')}, {counted(candidates, 'candidate')}"
    if search.get("stopped"):
        untried = counted(len(search.get("untried", ())), "candidate")
        words += f"; stopped early ({search['stopped'].replace('_', ' ')}), {untried} not tried"
    return words


def _choice(estimator: Any) -> list[tuple[str, str]]:
    """The hyper-parameters of the model, chosen or given."""
    if hasattr(estimator, "best_params_"):
        return parameter_lines(estimator.best_params_)
    if hasattr(estimator, "n_centres_"):
        params = {"gamma": estimator.gamma_, "alpha": estimator.alpha_}
        return [("centres", str(int(estimator.n_centres_))), *parameter_lines(params)]
    alphas = np.atleast_1d(np.asarray(estimator.alpha, dtype=np.float64))
    words = ", ".join(number_words(float(alpha)) for alpha in alphas[:_MOST_ALPHAS])
    kernel = getattr(estimator.expansion_.parts[0][1], "kernel", None)
    width = getattr(kernel, "gamma", None)
    lines = [("kernel", type(kernel).__name__)]
    if isinstance(width, float | int):
        lines.append(("gamma", number_words(float(width))))
    return [*lines, ("alpha", f"{words} (given)")]


def _score(estimator: Any) -> dict[str, Any] | None:
    """The score of the chosen candidate, or of the blend if there is one, with its standard error."""
    if not hasattr(estimator, "best_score_"):
        return None
    criterion = criterion_of(estimator)
    blended = getattr(estimator, "blend_score_", None)
    value = float(estimator.best_score_ if blended is None else blended)
    error = _standard_error(estimator) if blended is None else None
    # If there are held-out predictions, the scores have the standard error.
    has_predictions = getattr(estimator, "heldout_prediction_", None) is not None
    words = score_text(criterion, value, None if has_predictions else error)
    label = OWN_FUNCTION if criterion is None else score_label(criterion)
    return {"criterion": criterion, "value": value, "error": error, "label": label, "words": words}


def _standard_error(estimator: Any) -> float | None:
    """The standard error of the best mean score, from its splits; None with fewer than two."""
    results = getattr(estimator, "cv_results_", None)
    if results is not None:
        row = int(estimator.best_index_)
    else:
        results = estimator.path_
        row = int(np.flatnonzero(results["n_centres"] == estimator.n_centres_)[0])
    splits = [name for name in results if name.startswith("split") and name.endswith("_test_score")]
    scores = np.array([results[name][row] for name in splits], dtype=np.float64)
    return float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None
