"""What a search chose, and what it preferred that to, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onefold.cli.words import counted, percent, power_of_two, score_text, score_words
from onefold.report.ran import group_words, member_words

_NEXT_BEST = 4
_MOST_FEATURES = 6
_LEAST_SHARE = 0.01  # of a feature that is worth a line


def blend_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The members of a blend and its score beside that of the best of them alone."""
    members, criterion = report.get("blend"), report["criterion"]
    if not members:
        return []
    if len(members) == 1:
        return [("blend", "no other candidate makes it better")]
    if criterion is None:  # a function of the user's
        whole, alone = (f"{report[name]:.6g}" for name in ("blend_score", "best_score"))
    else:
        whole = score_words(criterion, report["blend_score"])
        alone = score_text(criterion, report["best_score"])
    # It goes by the squared error, of which an error rate is a coarse picture.
    why = ", though worse in squared error" if report["best_score"] > report["blend_score"] else ""
    score = f"{whole}  (the choice alone: {alone}{why}; weights of each fold from the other folds)"
    lines = [("blend", score)]
    return lines + [("member", f"{one['weight']:.2f} × {member_words(one)}") for one in members]


def importance_lines(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The columns that the metric weighs most, with their shares."""
    shares = report.get("importances")
    if not shares:
        return []
    shown = [name for name in shares if shares[name] >= _LEAST_SHARE][:_MOST_FEATURES]
    lines = [(name, percent(shares[name])) for name in shown]
    rest = len(shares) - len(shown)
    if rest:
        left = percent(max(0.0, 1.0 - sum(shares[name] for name in shown)))
        lines.append((counted(rest, "other"), f"{left} together"))
    return lines


def next_best(estimator: Any, criterion: str) -> list[str]:
    """The rivals in the measure of the best, which is what the choice went by."""
    results = estimator.cv_results_
    scores = np.asarray(results["mean_test_score"], dtype=float)
    order = [int(i) for i in np.argsort(-scores, kind="stable") if np.isfinite(scores[i])]
    if len({group_words(params) for params in results["params"]}) > 1:
        return _other_groups(estimator, criterion, scores, order)
    others = [i for i in order if results["params"][i] != estimator.best_params_][:_NEXT_BEST]
    alike = ("kernel", "metric", "round")  # in all candidates of one group
    points = [
        {name: power_of_two(value) for name, value in results["params"][i].items() if name not in alike}
        for i in others
    ]
    width = max((len(value) for point in points for value in point.values()), default=0)
    lines = []
    for i, point in zip(others, points):
        place = "  ".join(f"{name} {point[name]:>{width}}" for name in sorted(point, reverse=True))
        lines.append(f"  {place}  {score_words(criterion, scores[i])}")
    return lines or ["  there was no other candidate with a score"]


def _other_groups(estimator: Any, criterion: str, scores: Any, order: list[int]) -> list[str]:
    """The best other cell of every family and kind of metric, the best first."""
    params, chosen = estimator.cv_results_["params"], estimator.best_params_
    best: dict[tuple[Any, Any], int] = {}
    for i in order:
        if group_words(params[i]) != group_words(chosen):
            best.setdefault((params[i]["kernel"], params[i].get("metric")), i)
    rivals = [(group_words(params[i]), scores[i]) for i in best.values()][:_NEXT_BEST]
    if not rivals:
        return ["  there was no other kernel, metric or round with a score"]
    width = max(len(name) for name, _ in rivals)
    lines = [f"  {name.ljust(width)}  {score_words(criterion, score)}" for name, score in rivals]
    if rivals[0][1] > estimator.best_score_:
        lines.append("  (of those within the noise of the comparison the simplest is chosen)")
    return lines
