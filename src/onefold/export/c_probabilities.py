r"""Probabilities of a calibrated classifier as a function of C, in float32.

With f the decision values and z(f) the log-odds of (1 + f)/2 within its limits,

    log_odds, temperature    p ∝ exp(β f + δ z(f) − log w)                              (1)
    sigmoid                  p ∝ 1 / (1 + exp(−(a f + b)))                              (2)

where δ = 0 for a temperature, f = (−f, f) in (1) and p = (1 − p, p) in (2) for two classes. A staircase
of isotonic calibration is not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onefold.calibration.probabilities import CERTAINTY
from onefold.export.c_terms import Source, number, single

# The subject of the message about numbers that float32 cannot hold.
_CONTENT = "the probabilities"


def can_write(calibrator: Any) -> bool:
    """Whether there is a calibration, and one that can be written."""
    return calibrator is not None and calibrator.name in ("log_odds", "temperature", "sigmoid")


def write_probabilities(source: Source, calibrator: Any, n_classes: int) -> str:
    """Add the function probabilities(x, out); return how it begins."""
    sigmoid = calibrator.name == "sigmoid"
    if n_classes == 2:
        logit = (
            _logistic_logit(calibrator)
            if sigmoid
            else f"2.0f * ({_exponent(source, calibrator, 'f[0]')})"
        )
        body = [
            "float f[1];",
            f"{source.name}_values(x, f);",
            f"const float logit = {logit};",
            "out[0] = 1.0f / (1.0f + expf(logit));",
            "out[1] = 1.0f / (1.0f + expf(-logit));",
        ]
    else:
        exponent = _logistic_exponent if sigmoid else _exponent
        body = _softmax(source, exponent(source, calibrator, "out[t]"))
    head = f"void {source.name}_probabilities(const float *x, float *out)"
    source.function(head, body)
    return head


def _exponent(source: Source, calibrator: Any, value: str) -> str:
    """β f + δ z(f) − log w; adds the function log_odds(f) where there is a δ."""
    text = f"{number(single(calibrator.slope, _CONTENT))} * {value}"
    shift = getattr(calibrator, "shift", None)
    shift_text = ""
    if shift is not None and len(shift) == 2:  # ∓ half of their difference: that of −f and f
        shift_text = f" - {number(single((shift[1] - shift[0]) / 2, _CONTENT))}"
    elif shift is not None:
        shift_text = f" - {source.table('shift', single(shift, _CONTENT))}[t]"
    odds = getattr(calibrator, "odds", 0.0)
    if odds == 0.0:
        return text + shift_text
    lowest = number(np.float32(CERTAINTY))
    highest = number(np.float32(1.0 - CERTAINTY))
    body = [
        "float share = 0.5f * (1.0f + f);",
        f"share = share < {lowest} ? {lowest} : share;",
        f"share = share > {highest} ? {highest} : share;",
        "return logf(share / (1.0f - share));",
    ]
    source.function(f"static float {source.name}_log_odds(float f)", body)
    return f"{text} + {number(single(odds, _CONTENT))} * {source.name}_log_odds({value}){shift_text}"


def _logistic_logit(calibrator: Any) -> str:
    """The log-odds of the second of two classes by equation (2)."""
    slope = single(calibrator.slope[0], _CONTENT)
    return f"{number(slope)} * f[0] + {number(single(calibrator.intercept[0], _CONTENT))}"


def _each(source: Source, lines: Sequence[str]) -> list[str]:
    """A loop over the classes t."""
    indented = (f"    {line}" for line in lines)
    return [f"for (int t = 0; t < {source.outputs}; t++) {{", *indented, "}"]


def _logistic_exponent(source: Source, calibrator: Any, value: str) -> str:
    """The logarithm of equation (2), which keeps the order of shares that float32 cannot hold."""
    slope = source.table("slope", single(calibrator.slope, _CONTENT))
    intercept = source.table("midpoint", single(calibrator.intercept, _CONTENT))
    negative = "logit - log1pf(expf(logit))"
    body = [f"return logit < 0.0f ? {negative} : -log1pf(expf(-logit));"]
    source.function(f"static float {source.name}_log_share(float logit)", body)
    return f"{source.name}_log_share({slope}[t] * {value} + {intercept}[t])"


def _softmax(source: Source, exponent: str) -> list[str]:
    """Probabilities ∝ exp(exponent) of several classes."""
    return [
        f"{source.name}_values(x, out);",
        *_each(source, [f"out[t] = {exponent};"]),
        "float largest = out[0];",
        *_each(source, ["largest = out[t] > largest ? out[t] : largest;"]),
        "float sum = 0.0f;",
        *_each(source, ["out[t] = expf(out[t] - largest);", "sum += out[t];"]),
        *_each(source, ["out[t] /= sum;"]),
    ]
