"""The scores of rows that tuning set aside, as the model remembers them."""

from __future__ import annotations

from typing import Any

from onefold.facts.words import counted, percent, readable, rough, thousandths


def test_words(test: dict[str, Any]) -> str:
    """One clause: what rows that the search never saw say, beside a constant of those it saw."""
    rows = f"on {counted(test['rows'], 'row')} that tuning never saw"
    if "rmse" in test:
        return (
            f"{rows} the R² is {thousandths(test['r2'])} and the RMSE {readable(test['rmse'])} "
            f"± {rough(test['standard_error'])} (always the mean: {readable(test['baseline_rmse'])})"
        )
    return (
        f"{rows} the accuracy is {percent(test['accuracy'])} ± {percent(test['standard_error'])} "
        f"(always '{test['baseline_class']}': {percent(test['baseline_accuracy'])}), the balanced "
        f"accuracy {percent(test['balanced_accuracy'])}"
    )
