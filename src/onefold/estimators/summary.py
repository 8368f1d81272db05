"""A fit in a few lines: what was chosen, how well it predicts, what ran and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from onefold.approximations.planning import duration_words
from onefold.linalg import to_numpy

_NAMED = 5  # features, members of a blend

Fact = tuple[str, str]


def summary_of(estimator: Any) -> list[Fact]:
    """What there is to say of a fitted estimator, each as its name and its words."""
    found = [
        ("chosen" if hasattr(estimator, "best_score_") else "fitted", _model_words(estimator)),
        ("members", _blend_words(estimator)),
        _score(estimator),
        ("metric", _metric_words(estimator)),
        ("computed by", _machine_words(estimator)),
        ("trust check", estimator.approximation_.get("trust", {}).get("verdict", "")),
        ("search", _search_words(estimator)),
    ]
    return [(name, words) for name, words in found if words]


def _number(value: Any) -> str:
    return f"{float(value):.4g}"


def _model_words(estimator: Any) -> str:
    """The kernel with its own gamma; the ridge; how many centres."""
    expansion = estimator.expansion_
    if len(getattr(estimator, "blend_", None) or []) > 1:
        return f"a blend of {len(estimator.blend_)}"
    kernel = getattr(expansion, "members", (expansion,))[0].kernel
    gamma = np.ravel(np.asarray(getattr(kernel, "gamma", ())))
    widths = [f"gamma {_number(gamma[0])}"] if gamma.size == 1 else []
    alpha = getattr(estimator, "alpha_", getattr(estimator, "alpha", None))
    learned = _round_words(getattr(estimator, "best_params_", {}))
    words = [f"{type(kernel).__name__}{learned}", *widths]
    if alpha is not None:
        words.append("alpha " + ", ".join(_number(one) for one in np.ravel(to_numpy(alpha))[:_NAMED]))
    if hasattr(estimator, "n_centres_"):
        words.append(f"{estimator.n_centres_} of {estimator.approximation_['first_centres']} centres")
    return ", ".join(words)


def _blend_words(estimator: Any) -> str:
    members = getattr(estimator, "blend_", None) or []
    if len(members) < 2:
        return ""
    words = [
        f"{one.get('kernel', 'kernel')}{_round_words(one)} × {one['weight']:.2f}"
        for one in members[:_NAMED]
    ]
    more = len(members) - len(words)
    return ", ".join([*words, f"{more} more"] if more else words)


def _round_words(cell: dict[str, Any]) -> str:
    """Of a learned metric: which kind, after which round."""
    if cell.get("metric", "none") == "none":
        return ""
    return f" ({cell['metric']} metric, round {cell['round']})"


def _score(estimator: Any) -> Fact:
    """The mean over splits and how far they lie apart, by which criterion."""
    blended = getattr(estimator, "blend_score_", None)
    score = getattr(estimator, "best_score_", None) if blended is None else blended
    if score is None:
        return "score", ""
    table, place = _scores_of(estimator)
    splits = [key for key in table if key.startswith("split") and key.endswith("_test_score")]
    spread = float(table["std_test_score"][place]) if table else np.nan
    words = _number(score)
    if len(splits) > 1 and np.isfinite(spread) and blended is None:
        words += f" ± {spread:.2g} (standard deviation of {len(splits)} splits)"
    name = "held-out score" if splits else "score"
    return name, f"{words}, by {_criterion_words(estimator)}; greater is better"


def _scores_of(estimator: Any) -> tuple[dict[str, Any], int]:
    """The table of scores, and the place of the choice in it; empty where somebody took it away."""
    if hasattr(estimator, "path_") and hasattr(estimator, "n_centres_"):
        path = estimator.path_
        return path, int(np.flatnonzero(path["n_centres"] == estimator.n_centres_)[0])
    if hasattr(estimator, "cv_results_") and hasattr(estimator, "best_index_"):
        return estimator.cv_results_, estimator.best_index_
    return {}, 0


def _criterion_words(estimator: Any) -> str:
    given = estimator.criterion
    first = given[0] if isinstance(given, list | tuple) else given
    if first is None:
        return str(estimator._default_criterion)
    return first if isinstance(first, str) else f"{first!r:.60}"


def _metric_words(estimator: Any) -> str:
    """The features that move the prediction most, by name where they have one."""
    shares = getattr(estimator, "feature_importances_", None)
    if shares is None:
        return ""
    shares = to_numpy(shares)
    names = getattr(estimator, "feature_names_in_", [f"feature {j}" for j in range(shares.size)])
    first = np.argsort(-shares, kind="stable")[:_NAMED]
    words = ", ".join(f"{names[j]} {shares[j]:.0%}" for j in first)
    return f"{words}{' …' if shares.size > _NAMED else ''} of what moves the prediction"


def _machine_words(estimator: Any) -> str:
    """The approximation that selected, the one that fitted if that is another, and why."""
    report = estimator.approximation_
    fitted = report.get("fitted_with", report)
    selected = report.get("selected_with", fitted)
    words = [_report_words(selected)]
    if selected["name"] != fitted["name"]:
        words = [f"selected by {words[0]}", f"fitted by {_report_words(fitted)}"]
    return "; ".join(words)


def _report_words(report: dict[str, Any]) -> str:
    if report["name"] == "sparse":
        return f"pruning ({report['prune']}, size by {report['chosen_by']})"
    size = [f"{report['landmarks']} landmarks"] if "landmarks" in report else []
    why = [report["chosen"]] if "chosen" in report else []
    details = ", ".join(size + why)
    return f"{report['name']} ({details})" if details else str(report["name"])


def _search_words(estimator: Any) -> str:
    """How many kernels, the time they took together, and whether it ended early."""
    history = getattr(estimator, "history_", None)
    if not history:
        return ""
    seconds = sum(one.get("seconds", 0.0) for one in history)
    many = "1 kernel" if len(history) == 1 else f"{len(history)} kernels"
    words = f"{many} in {duration_words(seconds)} of work"
    stopped = getattr(estimator, "search_", {}).get("stopped")
    return f"{words}, ended early: {stopped}" if stopped else words
