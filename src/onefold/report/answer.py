"""The answer in three sentences, from the facts alone."""

from __future__ import annotations

import math
from typing import Any

from onefold.report.words import in_words

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
_CLEAR = 2.0  # standard errors
_IMPORTANT = 0.05
_SMALLER_IS_BETTER = ("rmse", "mae", "log_loss")


def number(name: str, value: float) -> str:
    """A measure as people read it."""
    if value is None or not math.isfinite(value):
        return "undefined"
    if name in _SHARES:
        return f"{value:.1%}"
    return f"{value + 0.0:.3f}" if name in ("r2", "roc_auc", "log_loss") else f"{value:.4g}"


def error_number(name: str, value: float) -> str:
    """A standard error of the measure, which two digits are enough for."""
    plain = name in ("rmse", "mae") and math.isfinite(value)
    return f"{value:.2g}" if plain else number(name, value)


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
        if own is None:
            return f"How good it is cannot be said: {scores['absent']}."
        error = "" if own["error"] is None else f" ± {own['error']:.2g}"
        return f"By the criterion {own['criterion']} its score is {own['value']:.4g}{error}."
    main, where = scores["main"], "new rows" if scores["new_rows"] else "rows held out from it"
    own = scores["model"]["measures"][main]
    words = (
        f"On {where} the {LABELS[main]} of the model is {number(main, own['value'])} "
        f"(95 % interval {number(main, own['low'])} to {number(main, own['high'])})"
    )
    best = best_baseline(scores)
    if best is None:
        return f"{words}."
    gain = best["gain"]
    beside = (
        f"the best simple model, {best['name']}, has {number(main, best['measures'][main]['value'])}"
    )
    if not math.isfinite(gain["value"]):
        return f"{words}; {beside}."
    if gain["value"] > _CLEAR * gain["error"] and gain["value"] > 1e-12:
        return f"{words}; {beside}, and the difference is more than two standard errors."
    if gain["value"] < -_CLEAR * gain["error"]:
        return f"{words}; {beside}, which is better: use that one."
    return f"{words}; {beside}, and the two cannot be told apart."


def best_baseline(scores: dict[str, Any]) -> dict[str, Any] | None:
    """The simple model with the best main measure."""
    rated = [one for one in scores["baselines"] if math.isfinite(one["gain"]["value"])]
    return min(rated, key=lambda one: float(one["gain"]["value"]), default=None)


def _what_matters(facts: dict[str, Any]) -> str:
    ran = facts["ran"]
    members = len(ran["blend"])
    chosen = ", ".join(f"{label} {value}" for label, value in ran["choice"])
    words = f"It is a blend of {members} kernel machines" if members > 1 else f"It has {chosen}"
    shares = facts["importances"].get("shares") or {}
    top = [name for name, share in shares.items() if share >= _IMPORTANT][:3]
    if not top or len(shares) < 2:
        return f"{words}."
    named = in_words([f"'{name}' ({percent_short(shares[name])})" for name in top])
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


def cautions(scores: dict[str, Any], ran: dict[str, Any]) -> list[str]:
    """What makes the answer itself doubtful, before anything about the rows."""
    found = []
    if ran["search"].get("stopped"):
        found.append("the search was stopped before it had tried everything")
    if "absent" in scores:
        return found
    constant = scores["baselines"][0] if scores["baselines"] else None
    if constant is not None and math.isfinite(constant["gain"]["value"]):
        gain = constant["gain"]
        if gain["value"] <= 1e-12:
            found.append(f"it is no better than {constant['name']}")
        elif gain["value"] <= _CLEAR * gain["error"]:
            found.append(f"it is hardly better than {constant['name']}: within two standard errors")
    if scores["model"]["measures"].get("r2", {}).get("value", 0.0) > 0.9999:
        found.append("it is suspiciously perfect; look for a column that holds the answer")
    return found
