"""Sentences about tables in the words of the estimators, which have fewer settings than the jobs.

A sentence may name an option of the command line or of a file that is read, such as ``id='nr'`` or
``na_values=['?']``, beside others; whoever fits an estimator has none of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from onefold.tables.errors import TableError

_TEXT = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
_WHY = "(?: to keep it beside predictions| if it means missing,| if that is its decimal mark)?"
_ELSEWHERE = re.compile(
    rf"(?:, or| or)?(?: use)? (?:id|decimal)={_TEXT}{_WHY}|(?:, or)? use na_values=\[{_TEXT}\]{_WHY}"
)
_ESTIMATORS = {"task='regression'": "TableRegressor", "task='classification'": "TableClassifier"}


def for_estimators(sentence: str) -> str:
    """The sentence without settings that estimators do not have."""
    sentence = _ELSEWHERE.sub("", sentence)
    for setting, estimator in _ESTIMATORS.items():
        sentence = sentence.replace(setting, estimator)
    return sentence


@contextmanager
def estimator_words() -> Iterator[None]:
    """Errors about tables that are raised inside are in the words of the estimators."""
    try:
        yield
    except TableError as error:
        raise TableError(for_estimators(str(error))) from error
