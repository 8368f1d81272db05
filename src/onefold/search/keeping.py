"""What a search keeps of itself in a journal, and finds there again.

Evaluations are found by the part of the search, what names the candidate, the cells that its metric was
learned from, and the ridge: a larger grid finds what a smaller one has left. So are learned metrics, by
the cells they were learned from.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from onefold.approximations import Approximation, registered
from onefold.learned_metrics import Fitted, Round, Track
from onefold.machine.journal import Journal, plain
from onefold.search.candidates import Candidate
from onefold.search.ledger import Entry


class Keeping:
    """A search's view of its journal; without one, nothing is kept and nothing is found."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self._found: dict[str, list[dict[str, Any]]] = {}
        for record in [] if journal is None else journal.records[1:]:
            self._found.setdefault(str(record.get("key")), []).append(record)

    @property
    def decided(self) -> Approximation | None:
        """The approximation that the journal's search runs with; None where it has not begun."""
        if self._journal is None or not self._journal.records:
            return None
        noted: Any = self._journal.records[0].get("approximation")
        try:
            return registered()[noted["name"]](**noted["settings"])
        except (TypeError, ValueError, LookupError):  # one with arrays; `begin` will compare
            return None

    def begin(self, fingerprint: Callable[[], dict[str, Any]]) -> None:
        """Note whose search this is, or raise if it is not the one that the journal was begun with."""
        if self._journal is None:
            return
        own = {name: plain(value) for name, value in fingerprint().items()}
        if not self._journal.records:
            self._journal.append(own)
            return
        noted = self._journal.records[0]
        differ = sorted(name for name in own.keys() | noted.keys() if own.get(name) != noted.get(name))
        if differ:
            raise ValueError(
                f"{self._journal.path} is the journal of another search, which differs in "
                f"{', '.join(differ)}; delete it, or use another name."
            )

    # -- evaluations -----------------------------------------------------------------------------

    def recall(
        self, part: str, candidate: Candidate, number: int, ridges: Any, alphas: Any
    ) -> list[Entry]:
        """The evaluations of a candidate, by its number, with some of the ridges, as far as known."""
        entries, missing = [], set(np.asarray(ridges).tolist())
        for record in reversed(self._found.get(_key(part, candidate.params, candidate.lineage), [])):
            with _damage(self._journal):
                places = {float(alpha): place for place, alpha in enumerate(record["alphas"])}
                columns = [ridge for ridge in sorted(missing) if float(alphas[ridge]) in places]
                if columns:
                    rows = [places[float(alphas[ridge])] for ridge in columns]
                    entries.append(_entry(record, number, columns, rows))
                missing -= set(columns)
        return entries

    def remember(self, part: str, candidate: Candidate, entry: Entry, alphas: Any) -> None:
        """Keep an evaluation."""
        if self._journal is None:
            return
        fields = {
            name: value for name, value in vars(entry).items() if name not in ("candidate", "ridges")
        }
        key = _key(part, candidate.params, candidate.lineage)
        self._journal.append({"key": key, "alphas": alphas[entry.ridges], **fields})

    # -- learned metrics -------------------------------------------------------------------------

    def learned(
        self, part: str, track: Track, lineage: Sequence[Any], learn: Callable[[], Round]
    ) -> Round:
        """A round that was learned from the models of a lineage of cells; it is learned at most once."""
        if self._journal is None:
            return learn()
        key = _key(f"metric of {part}", {"kernel": track.name, "metric": track.kind}, lineage)
        for record in self._found.get(key, []):
            with _damage(self._journal):
                whole, *parts = (_fitted(track, one) for one in record["metrics"])
                return Round(track, len(lineage), whole, parts, tuple(lineage))
        found = learn()
        metrics = [_packed(one) for one in (found.whole, *(found.parts or []))]
        self._journal.append({"key": key, "metrics": metrics})
        return found


@contextmanager
def kept_in(path: str | os.PathLike[str] | None) -> Iterator[Keeping]:
    """What is kept in the journal at `path`, which is open while the block runs; None keeps nothing."""
    if path is None:
        yield Keeping()
        return
    with Journal(path) as journal:
        yield Keeping(journal)


@contextmanager
def _damage(journal: Journal | None) -> Iterator[None]:
    """Whatever goes wrong with a record becomes one sentence that says where."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        path = "the journal" if journal is None else journal.path
        raise ValueError(
            f"{path} is damaged ({type(error).__name__} in a record); delete it to search anew."
        ) from error


def _key(part: str, params: dict[str, Any], lineage: Sequence[Any]) -> str:
    return json.dumps(plain([part, params, lineage]), sort_keys=True)


def _entry(record: dict[str, Any], number: int, columns: list[int], rows: list[int]) -> Entry:
    """An entry from what a journal says of it; raise unless that makes sense."""
    scores = np.asarray(record["scores"], dtype=np.float64)
    ranks = None if record["ranks"] is None else np.asarray(record["ranks"], dtype=np.float64)[rows]
    seconds, why, report = float(record["seconds"]), record["why"], dict(record["report"])
    share = len(rows) / len(record["alphas"])
    return Entry(number, np.asarray(columns), scores[rows], share * seconds, why, report, ranks)


def _packed(fitted: Fitted) -> dict[str, Any]:
    """The metric of a kernel, to the last bit."""
    kernel: Any = fitted.kernel
    values = np.ascontiguousarray(kernel.metric.values, dtype="<f8")
    text = base64.b64encode(values.tobytes()).decode("ascii")
    return {"shape": values.shape, "values": text, "mean_exponent": fitted.mean_exponent}


def _fitted(track: Track, noted: dict[str, Any]) -> Fitted:
    values = np.frombuffer(base64.b64decode(noted["values"]), dtype="<f8").reshape(noted["shape"])
    kernel = track.kernel.with_metric(np.array(values, dtype=np.float64))
    return Fitted(kernel, float(noted["mean_exponent"]))
