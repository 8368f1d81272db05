"""Words for true and false, in the languages of the tables that people have."""

from __future__ import annotations

from collections.abc import Iterable

_PAIRS = (
    *(("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n"), ("on", "off"), ("1", "0")),
    *(("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("si", "no")),
    *(("sí", "no"), ("sì", "no"), ("s", "n"), ("verdadero", "falso"), ("vero", "falso")),
    *(("sim", "não"), ("ja", "nee"), ("ja", "nej"), ("tak", "nie"), ("evet", "hayır")),
)
_TRUTH = {word: truth for pair in _PAIRS for word, truth in zip(pair, (True, False))}
WORDS = tuple(_TRUTH)


def truth_of(word: str) -> bool | None:
    """What a word says, in any letter case; None if it is no such word."""
    return _TRUTH.get(word.strip().casefold())


def are_truths(words: Iterable[str]) -> bool:
    """Whether all words say true or false, and some of them each.

    Numbers alone do not, 0 and 1 being numbers, nor do single letters that are no pair: t and n.
    """
    found = {word.strip().casefold() for word in words}
    if not found <= _TRUTH.keys() or found <= {"0", "1"} or len({_TRUTH[word] for word in found}) < 2:
        return False
    return any(found.issuperset(pair) for pair in _PAIRS) or any(len(word) > 1 for word in found)
