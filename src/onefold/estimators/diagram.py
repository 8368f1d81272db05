"""The estimators in scikit-learn's diagrams: a summary of the fit, and where to read about them.

A diagram asks each fitted estimator for a table of its attributes (scikit-learn 1.9); ours puts a short
summary before it. Older versions do not ask, and show the parameters alone.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from onefold.estimators.summary import summary_of
from onefold.machine.notebook import html_table

DOCUMENTATION = ""
"""Where the page of an estimator is, with ``{estimator_name}`` in it; empty while there is no such
address, and diagrams then have no link."""


class Diagram(BaseEstimator):
    """What scikit-learn's HTML representation asks of an estimator."""

    _doc_link_module = "onefold"
    _doc_link_template = DOCUMENTATION

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """The table of scikit-learn, with the summary above it."""
        attributes = super()._get_fitted_attr_html(doc_link)
        # A fit that was refused half-way leaves attributes, too.
        whole = hasattr(self, "approximation_") and hasattr(self, "expansion_")
        return _WithSummary(attributes, self) if whole else attributes


class _WithSummary:
    """Stands for scikit-learn's dict of attributes, as a diagram uses it: its size and its HTML."""

    def __init__(self, attributes: Any, estimator: Any) -> None:
        self._attributes, self._estimator = attributes, estimator

    def __len__(self) -> int:
        return len(self._attributes)

    def _repr_html_inner(self) -> str:
        summary = html_table(summary_of(self._estimator))
        return (
            '<div class="estimator-table"><details open><summary>Summary of the fit</summary>'
            f"{summary}</details></div>{self._attributes._repr_html_inner()}"
        )
