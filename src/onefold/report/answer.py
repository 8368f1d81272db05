"""The answer in three sentences, from the facts alone."""

from __future__ import annotations

import math
from typing import Any

from onefold.facts.words import counted, in_words, readable, rough, shortened, thousandths
from onefold.report.kept_aside import test_words

LABELS = {
    "r2": "R²",
    "rmse": "RMSE",
    "mae": "mean absolute error",
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "roc_auc": "area under the ROC curve",
    "log_loss": "log loss",
}
_SHARES = ("accuracy", "balanced_accuracy")
_UNITLESS = ("r2", "roc_auc", "log_loss")
_CLEAR = 2.0  # standard errors
_TOO_FEW, _FEW = 8, 30  # rows, of which standard errors are themselves uncertain
_IMPORTANT = 0.05
_NOTHING = 1e-12
_PERFECT = 0.9999
_SMALLER_IS_BETTER = ("rmse", "mae", "log_loss")


def number(name: str, value: float) -> str:
    """A measure as people read it."""
    if value is None or not math.isfinite(value):
        return "undefined"
    if name in _SHARES:
        return f"{value:.1%}"
    return thousandths(value) if name in _UNITLESS else readable(value)


def error_number(name: str, value: float) -> str:
    """A standard error of the measure, which two digits are enough for."""
    if value is None or not math.isfinite(value):
        return "undefined"
    if name in _SHARES:
        return f"{value:.1%}"
    if name in _UNITLESS:
        return f"{value:.3f}" if value >= 5e-4 or value <= 1e-9 else f"{value:.1g}"
    return rough(value)


def smaller_is_better(name: str) -> bool:
    """Whether the measure is an error."""
    return name in _SMALLER_IS_BETTER


def answer(facts: dict[str, Any]) -> list[str]:
    """How good it is beside the simplest; what was chosen and matters; what to beware of."""
    return [_how_good(facts), _what_matters(facts), _what_to_beware(facts)]


def _how_good(facts: dict[str, Any]) -> str:
    scores = facts["scores"]
    if "absent" in scores:
        own = facts["ran"]["score"]
        if facts.get("test"):
            words = test_words(facts["test"])
            return f"{words[:1].upper()}{words[1:]}."
        if own is None:
            return f"How good it is cannot be said: {scores['absent']}."
        return f"In the search its {own['label']} is {own['words']}; more cannot be said, see below."
    main, where = scores["main"], "new rows" if scores["new_rows"] else "rows held out from it"
    own = scores["model"]["measures"][main]
    span = f"95 % interval {number(main, own['low'])} to {number(main, own['high'])}"
    if scores["rows"] < _TOO_FEW:
        span = f"of {counted(scores['rows'], 'row')}, too few for an interval"
    words = f"On {where} the {LABELS[main]} of the model is {number(main, own['value'])} ({span})"
    if facts.get("test"):
        words += f", and {test_words(facts['test'])}"
    best = best_baseline(scores)
    return f"{words}{'' if best is None else _beside(best, scores)}."


def _beside(best: dict[str, Any], scores: dict[str, Any]) -> str:
    """What the best simple model has, and whether the model is better than that and than a constant."""
    main, gain = scores["main"], best["gain"]
    name, value = best["name"], number(main, best["measures"][main]["value"])
    if scores["new_rows"]:
        name += " fitted to parts of these rows"
    words = f"; the best simple model, {name}, has {value}"
    if not scores["comparable"]:
        return f"{words}, but on other splits, so that the two do not compare"
    if gain["value"] > _CLEAR * gain["error"] and gain["value"] > _NOTHING:
        return f"{words}, and the difference is more than two standard errors"
    if gain["value"] < -_CLEAR * gain["error"]:
        return f"{words}, which is better{'' if scores['new_rows'] else ': use that one'}"
    constant = scores["baselines"][0]
    if constant is not best and no_better(constant["gain"]):
        return f"{words}, and the model is not clearly better than {constant['name']}"
    if constant is best:
        return f"{words}, and the model is not clearly better: it may have learned nothing"
    return f"{words}, and the two cannot be told apart"


def no_better(gain: dict[str, float]) -> bool:
    """Whether the gain lies within two standard errors of none, or below."""
    return bool(gain["value"] <= max(_CLEAR * gain["error"], _NOTHING))


def best_baseline(scores: dict[str, Any]) -> dict[str, Any] | None:
    """The simple model with the best main measure."""
    rated = [one for one in scores["baselines"] if math.isfinite(one["gain"]["value"])]
    return min(rated, key=lambda one: float(one["gain"]["value"]), default=None)


def _what_matters(facts: dict[str, Any]) -> str:
    ran = facts["ran"]
    members = len(ran["blend"])
    chosen = ", ".join(f"{label} {value}" for label, value in ran["choice"])
    words = f"It is a kernel machine with {chosen}"
    if members > 1:
        words = f"It is a blend of {members} kernel machines"
    shares = facts["importances"].get("shares") or {}
    top = [name for name, share in shares.items() if share >= _IMPORTANT][:3]
    if not top or len(shares) < 2:
        return f"{words}."
    named = in_words([f"'{shortened(name)}' ({percent_short(shares[name])})" for name in top])
    return f"{words}; what moves its predictions most is {named}."


def percent_short(share: float) -> str:
    """A share in whole per cent, or with a decimal where that is little."""
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}"


def _what_to_beware(facts: dict[str, Any]) -> str:
    trust = facts["trust"]
    words = {
        "applies": "The trust check found that the approximation chooses as the exact method would",
        "doubtful": "The trust check is in doubt whether the approximation chooses as the exact method",
        "does not apply": "The trust check found that the approximation cannot be trusted here",
        "exact": "Nothing was approximated",
        None: "The approximation was not checked against the exact method",
    }[trust["verdict"]]
    data = facts["data"]
    if "absent" in data:
        return f"{words}; the rows were not given, so nothing is known of leaks and copies."
    warnings = [*facts["cautions"], *data["warnings"]]
    if not warnings:
        return f"{words}, and the rows give no cause for warnings."
    more = len(warnings) - 1
    rest = "" if not more else f" ({more} more warning{'s' if more > 1 else ''} below)"
    return f"{words}; beware: {warnings[0]}{rest}."


def cautions(scores: dict[str, Any], ran: dict[str, Any], data: dict[str, Any]) -> list[str]:
    """What makes the answer itself doubtful, before anything about the rows."""
    found = []
    if ran["search"].get("stopped"):
        found.append("the search was stopped before it had tried everything")
    if "absent" in scores:
        return found
    constant = scores["baselines"][0] if scores["baselines"] else None
    if constant is not None and math.isfinite(constant["gain"]["value"]):
        gain = constant["gain"]
        if gain["value"] <= _NOTHING:
            found.append(f"it is no better than {constant['name']}")
        elif no_better(gain):
            found.append(f"it is hardly better than {constant['name']}: within two standard errors")
    if scores["rows"] < _FEW:
        found.append(f"scores of {counted(scores['rows'], 'row')} are uncertain, their errors too")
    perfect = scores["model"]["measures"].get("r2", {}).get("value", 0.0) > _PERFECT
    if perfect and not data.get("leaks") and not data.get("duplicates", {}).get("across"):
        found.append("it is suspiciously perfect; look for columns that hold the answer")
    return found
