"""A report as a file."""

from __future__ import annotations

import os
from typing import Any

from onefold.report.gather import gather
from onefold.report.report import Report, refuse_place


def write_report(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    title: str | None = None,
    new_rows: bool | None = False,
) -> Report:
    """Gather a report and write it as one self-contained HTML page.

    Parameters
    ----------
    model : estimator, Pipeline that ends in one, or model of tables
        Fitted.
    path : path, optional
        Where the page goes; its folder must exist. None writes nothing.
    X, y : the rows that it was fitted on, optional
        Without them the sections that need rows say so. For a model of tables X may be the table, or
        its path, with the target in it.
    sample_weight, groups : arrays (n,), optional
        As `fit` had them.
    title : str, optional
        Of the page.
    new_rows : bool or None, default=False
        The rows are new to the model: scores are those of a test. None finds it out.

    Returns
    -------
    Report

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from onefold import LSSVRCV, write_report
    >>> X, y = load_diabetes(return_X_y=True)
    >>> report = write_report(LSSVRCV().fit(X, y), X=X, y=y)
    >>> report.as_dict()["scores"]["main"]
    'r2'
    """
    if path is not None:
        refuse_place(path)
    found = gather(
        model,
        X,
        y,
        sample_weight=sample_weight,
        groups=groups,
        title=title,
        new_rows=new_rows,
    )
    if path is not None:
        found.save(path)
    return found
