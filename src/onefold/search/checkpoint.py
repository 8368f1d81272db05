"""What a search keeps of itself in a journal, and finds there again.

Evaluations are found by the stage of the search, what names the candidate, the cells that its metric was
learned from, and the ridge: a larger grid finds what a smaller one has left. So are learned metrics, by
the cells they were learned from. The first record says whose search it is; every other one has a mark
made from it, so that the records of one search are never taken for those of another.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from onefold.approximations import Approximation, registered
from onefold.machine.journal import Journal, plain
from onefold.search.choice import Leader
from onefold.search.evaluation import Candidate, Evaluation
from onefold.search.ledger import Ledger
from onefold.search.metrics import Fitted, Round, Track

_LARGEST = 2**18  # held-out predictions that are kept: more are made again

_WHY = "reason"
_KEPT = ("scores", "seconds", "why", "report", "ranks", "others")  # of an evaluation


class Checkpoint:
    """A search's view of its journal; without one, nothing is kept and nothing is found."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal, self._mark = journal, ""
        self._found: dict[str, list[dict[str, Any]]] = {}
        for record in [] if journal is None else journal.records[1:]:
            self._found.setdefault(str(record.get("key")), []).append(record)

    def __bool__(self) -> bool:
        """Whether there is a journal."""
        return self._journal is not None

    @property
    def decided(self) -> tuple[Approximation, str] | None:
        """What "auto" has chosen for the journal's search, and why; None where nothing was chosen."""
        if self._journal is None or not self._journal.records:
            return None
        first = self._journal.records[0]
        noted: Any = first.get("approximation")
        if not first.get(_WHY):
            return None
        try:
            return registered()[noted["name"]](**noted["settings"]), str(first[_WHY])
        except (TypeError, ValueError, LookupError):  # one with arrays; `begin` will compare
            return None

    def begin(self, fingerprint: Callable[[], dict[str, Any]], reason: str = "") -> None:
        """Note whose search this is, or raise if it is not the one that the journal was begun with.

        `reason` is why "auto" chose its approximation, which makes no difference.
        """
        if self._journal is None:
            return
        own = {name: plain(value) for name, value in fingerprint().items()}
        self._mark = hashlib.blake2b(_sorted(own).encode(), digest_size=8).hexdigest()
        if not self._journal.records:
            self._journal.append(own | {_WHY: reason})
            return
        noted, names = self._journal.records[0], own.keys() | self._journal.records[0].keys()
        differ = sorted(name for name in names - {_WHY} if own.get(name) != noted.get(name))
        if differ:
            raise ValueError(
                f"{self._journal.path} is the journal of another search, which differs in "
                f"{', '.join(differ)}; delete it, or use another name."
            )
        for number, record in enumerate(self._journal.records[1:], start=3):
            if record.get("search") != self._mark:
                raise ValueError(
                    f"line {number} of {self._journal.path} is of another search; delete the file, or "
                    "use another name."
                )

    def find(self, key: str) -> list[dict[str, Any]]:
        """The records of a key, the last one first."""
        return list(reversed(self._found.get(key, [])))

    def append(self, record: dict[str, Any]) -> None:
        """Keep a record, if there is a journal."""
        if self._journal is not None:
            self._journal.append({"search": self._mark} | record)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever goes wrong with a record becomes one sentence that says where."""
        try:
            yield
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            path = "the journal" if self._journal is None else self._journal.path
            raise ValueError(
                f"{path} is damaged ({type(error).__name__} in a record); delete it to search anew."
            ) from error

    def learned(
        self, stage: str, track: Track, lineage: Sequence[Any], learn: Callable[[], Round]
    ) -> Round:
        """A round that was learned from the models of a lineage of cells; it is learned at most once."""
        if self._journal is None:
            return learn()
        key = _key(f"metric of {stage}", {"kernel": track.name, "metric": track.kind}, lineage)
        for record in self.find(key):
            with self.reading():
                whole, *parts = (_fitted(track, one) for one in record["metrics"])
                return Round(track, len(lineage), whole, parts, tuple(lineage))
        found = learn()
        metrics = [_noted(one) for one in (found.whole, *(found.parts or []))]
        self.append({"key": key, "metrics": metrics})
        return found


class StageRecords:
    """The evaluations of one stage of a search, whose ledger numbers the ridges."""

    def __init__(self, checkpoint: Checkpoint, stage: str, ledger: Ledger) -> None:
        self._checkpoint, self._stage, self._ledger = checkpoint, stage, ledger

    def _alpha(self, ridge: int) -> float:
        return float(self._ledger.alphas[ridge])

    def _key(self, candidate: Candidate) -> str:
        return _key(self._stage, candidate.params, candidate.lineage)

    def recall(self, candidate: Candidate, number: int, ridges: Any) -> list[Evaluation]:
        """The evaluations of a candidate, by its number, with some of the ridges, as far as known."""
        if not self._checkpoint:
            return []
        entries, missing = [], set(np.asarray(ridges).tolist())
        for record in self._checkpoint.find(self._key(candidate)):
            with self._checkpoint.reading():
                places = {float(alpha): place for place, alpha in enumerate(record["alphas"])}
                columns = [ridge for ridge in sorted(missing) if self._alpha(ridge) in places]
                if columns:
                    rows = [places[self._alpha(ridge)] for ridge in columns]
                    entries.append(_entry(record, number, columns, rows))
                missing -= set(columns)
        return entries

    def remember(self, candidate: Candidate, entry: Evaluation, leader: Leader | None = None) -> None:
        """Keep an evaluation; of what leads its group, the held-out predictions too.

        Not where a model or an expansion comes with them: these are made anew, all together.
        """
        if not self._checkpoint:
            return
        fields = {name: getattr(entry, name) for name in _KEPT}
        record = {"key": self._key(candidate), "alphas": self._ledger.alphas[entry.ridges], **fields}
        if leader is not None and leader.heldout is not None and leader.heldout.size <= _LARGEST:
            alone = leader.model is None and leader.expansion is None and leader.of_splits is None
            if alone:
                record |= {"leads": leader.alpha, "heldout": _packed(leader.heldout)}
        self._checkpoint.append(record)

    def predictions(self, candidate: Candidate, ridge: int) -> Any | None:
        """The held-out predictions of a cell that led its group when it was evaluated."""
        if not self._checkpoint:
            return None
        for record in self._checkpoint.find(self._key(candidate)):
            if record.get("leads") == self._alpha(ridge):
                with self._checkpoint.reading():
                    return _unpacked(record["heldout"])
        return None


@contextmanager
def open_checkpoint(path: str | os.PathLike[str] | None) -> Iterator[Checkpoint]:
    """What is kept in the journal at `path`, which is open while the block runs; None keeps nothing."""
    if path is None:
        yield Checkpoint()
        return
    with Journal(path) as journal:
        yield Checkpoint(journal)


def _key(stage: str, params: dict[str, Any], lineage: Sequence[Any]) -> str:
    return _sorted([stage, params, lineage])


def _sorted(value: Any) -> str:
    return json.dumps(plain(value), sort_keys=True)


def _entry(record: dict[str, Any], number: int, columns: list[int], rows: list[int]) -> Evaluation:
    """An entry from what a journal says of it; raise unless that makes sense."""
    scores = np.asarray(record["scores"], dtype=np.float64)
    ranks = None if record["ranks"] is None else np.asarray(record["ranks"], dtype=np.float64)[rows]
    seconds, why, report = float(record["seconds"]), record["why"], dict(record["report"])
    share = len(rows) / len(record["alphas"])
    others = {name: np.asarray(v, dtype=np.float64)[rows] for name, v in record["others"].items()}
    numbers = number, np.asarray(columns), scores[rows], share * seconds
    return Evaluation(*numbers, why, report, ranks, others)


def _packed(array: Any) -> dict[str, Any]:
    """An array of float64, to the last bit."""
    values = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": values.shape, "base64": base64.b64encode(values.tobytes()).decode("ascii")}


def _unpacked(noted: dict[str, Any]) -> Any:
    values = np.frombuffer(base64.b64decode(noted["base64"]), dtype="<f8")
    return values.reshape(noted["shape"]).astype(np.float64)


def _noted(fitted: Fitted) -> dict[str, Any]:
    kernel: Any = fitted.kernel
    return {"values": _packed(kernel.metric.values), "mean_exponent": fitted.mean_exponent}


def _fitted(track: Track, noted: dict[str, Any]) -> Fitted:
    kernel = track.kernel.with_metric(_unpacked(noted["values"]))
    return Fitted(kernel, float(noted["mean_exponent"]))
