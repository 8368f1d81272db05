"""What ran and why: the choice, the search that found it, the approximation behind both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onefold.facts.words import counted, number_words, percent, power_of_two, readable, rough


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


def member_words(member: Mapping[str, Any]) -> str:
    """A member of a blend: family, metric, width and ridge."""
    words = [group_words(member)] if "kernel" in member else []
    if member.get("gamma") is not None:
        words.append(f"gamma {float(member['gamma']):.4g}")
    return ", ".join([*words, f"alpha {power_of_two(float(member['alpha']))}"])


def trust_words(found: dict[str, Any]) -> str:
    """The verdict of the trust check, and what it rests on."""
    distance = counted(found["steps"], "grid step")
    return (
        f"the approximation {found['verdict'].replace('doubtful', 'is doubtful')} "
        f"({distance} from the exact choice on {found['rows']} rows, regret {found['regret']:.3g})"
    )


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
        lines.append(("trust check", trust_words(approximation["trust"])))
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


def ran_facts(estimator: Any, seconds: float | None = None) -> dict[str, Any]:
    """The choice, its score, the search and the approximation, as lines of label and value."""
    results = getattr(estimator, "cv_results_", None)
    facts: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "choice": _choice(estimator),
        "blend": list(getattr(estimator, "blend_", None) or []),
        "score": _score(estimator),
        "search": dict(getattr(estimator, "search_", {})),
        "candidates": len(results["params"]) if results is not None else 1,
        "seconds": _seconds(estimator) if seconds is None else seconds,
        "approximation": approximation_lines(estimator.approximation_),
    }
    return facts | {"lines": _lines(facts)}


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    members = facts["blend"]
    alone = " of the best alone" if len(members) > 1 else ""
    lines = [("estimator", facts["estimator"])]
    lines += [(f"{label}{alone}", value) for label, value in facts["choice"]]
    if len(members) > 1:
        lines += [("member", f"{one['weight']:.2f} × {member_words(one)}") for one in members]
    elif members:
        lines.append(("blend", "no other candidate makes it better"))
    score = facts["score"]
    if score is not None:
        lines.append((score["label"], score["words"]))
    lines += facts["approximation"]
    search = facts["search"]
    if search:
        words = f"{search.get('method', 'grid')}, {counted(facts['candidates'], 'candidate')}"
        if search.get("stopped"):
            untried = counted(len(search.get("untried", ())), "candidate")
            words += f"; stopped early ({search['stopped'].replace('_', ' ')}), {untried} not tried"
        lines.append(("search", words))
    if facts["seconds"] is not None:
        lines.append(("time of the search", f"{facts['seconds']:.1f} s"))
    return lines


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
    criterion = _criterion(estimator)
    blended = getattr(estimator, "blend_score_", None)
    if blended is not None:
        return _told(criterion, float(blended), None)
    table = getattr(estimator, "cv_results_", None)
    if table is not None:
        place = int(estimator.best_index_)
    else:
        table = estimator.path_
        place = int(np.flatnonzero(table["n_centres"] == estimator.n_centres_)[0])
    names = [n for n in table if n.startswith("split") and n.endswith("_test_score")]
    scores = np.array([table[name][place] for name in names], dtype=np.float64)
    error = float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None
    return _told(criterion, float(estimator.best_score_), error)


def _told(criterion: str, value: float, error: float | None) -> dict[str, Any]:
    """The score as the criterion has it, and in the words and with the sign that people know."""
    told = {"mse": "mean squared error", "error": "share of wrong labels", "gcv": "GCV error"}
    label = told.get(criterion, criterion.removeprefix("neg_").replace("_", " "))
    smaller = criterion in told or criterion.startswith("neg_")
    show, show_error = (percent, percent) if criterion == "error" else (readable, rough)
    words = show(-value if smaller else value)
    if error is not None:
        words += f" ± {show_error(error)} (standard error)"
    if criterion == "mse" and value <= 0:
        words += f", the square of {readable(float(np.sqrt(-value)))}"
    words += f"; {'smaller' if smaller else 'greater'} is better"
    label = label if smaller else f"criterion {label}"
    return {"criterion": criterion, "value": value, "error": error, "label": label, "words": words}


def _criterion(estimator: Any) -> str:
    """The name of the criterion; of a function what Python calls it."""
    if "criterion" in getattr(estimator, "dropped_params_", {}):
        return "of your own"
    given = estimator.criterion
    first = given[0] if isinstance(given, list | tuple) else given
    if first is None:
        return str(estimator._default_criterion)
    return first if isinstance(first, str) else "of your own"


def _seconds(estimator: Any) -> float | None:
    history = getattr(estimator, "history_", None)
    return float(sum(one.get("seconds", 0.0) for one in history)) if history else None


def trust_facts(approximation: dict[str, Any]) -> dict[str, Any]:
    """The verdict on the approximation, or how to get one."""
    if "trust" in approximation:
        found = approximation["trust"]
        return {"verdict": found["verdict"], "words": trust_words(found), "found": found}
    stages = [approximation.get(name, {}).get("name") for name in ("selected_with", "fitted_with")]
    if {*stages} <= {"exact"} or approximation.get("name") == "exact":
        words = "the exact method ran: there is no approximation to doubt"
        return {"verdict": "exact", "words": words, "found": None}
    words = "not checked; call onefold.trust(estimator, X, y)"
    if "selected_with" in approximation:
        words += ", or fit with check=True (onefold tune --check)"
    if approximation.get("name") == "sparse":
        words = "pruned to few centres; the held-out scores of every size tell what that costs"
    return {"verdict": None, "words": words, "found": None}
