"""Class labels as they were written: 007 stays 007, 1.0 stays 1.0, True stays True."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from onefold.tables.errors import TableError

_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,17}")


def as_written(texts: list[str], name: str, numbers: Sequence[object] | None = None) -> np.ndarray:
    """Labels of a column of text: int64 if that shows every label as it was, else text.

    Parameters
    ----------
    texts : list of str
    name : str
        Of the column.
    numbers : sequence, optional
        The numbers that the texts stand for, if they do.

    Raises
    ------
    TableError
        If a label is written in two ways, as 1 and 1.0, or with and without blanks.
    """
    distinct = dict.fromkeys(texts)
    if all(_CANONICAL.fullmatch(text) for text in distinct):
        return np.array([int(text) for text in texts], dtype=np.int64)
    spelled: dict[object, str] = {}
    meanings = dict(zip(texts, numbers)) if numbers is not None else {t: _meaning(t) for t in distinct}
    for text, meaning in meanings.items():
        earlier = spelled.setdefault(meaning, text)
        if earlier != text:
            raise TableError(
                f"the target '{name}' has the same class as '{earlier}' and as '{text}' (data row "
                f"{texts.index(text) + 1}); write it one way"
            )
    return np.asarray(texts, dtype=np.str_)


def known_labels(found: Sequence[str], classes: np.ndarray) -> np.ndarray:
    """Labels of further rows in the form of `classes`, however they are spelled there.

    Classes that a fit kept apart, as 007 and 7, are told by their spelling alone. A label that is none
    of the classes stays text, which equals none of them.
    """
    exact = {str(label): label for label in classes.tolist()}
    meanings = Counter(map(_meaning, exact))
    by_meaning = {_meaning(text): one for text, one in exact.items() if meanings[_meaning(text)] == 1}
    if classes.dtype.kind == "b":
        by_meaning |= {0: False, 1: True}
    labels = [exact.get(text, by_meaning.get(_meaning(text), text)) for text in found]
    if all(type(label) is type(classes[0].item()) for label in labels):
        return np.asarray(labels, dtype=classes.dtype if classes.dtype.kind != "U" else np.str_)
    mixed: np.ndarray = np.array(labels, dtype=object)
    return mixed


def _meaning(text: str) -> object:
    """What a label says: a whole number of any size, another number, a truth value, or its words."""
    text = text.strip()
    if text.lower() in {"true", "false"}:
        return text.lower()
    try:
        return int(text) if re.fullmatch(r"[-+]?[0-9]+", text) else float(text.replace("_", "?"))
    except ValueError:
        return text
