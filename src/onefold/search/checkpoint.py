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
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np

from onefold.approximations import Approximation, registered
from onefold.machine.journal import Journal, plain
from onefold.search.choice import Leader
from onefold.search.evaluation import Evaluation

_LARGEST = 2**18  # held-out predictions that are kept: more are made again

_WHY = "reason"
_KEPT = ("scores", "seconds", "why", "report", "ranks", "others")  # of an evaluation
_Value = TypeVar("_Value")


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
        first = self._journal.records[0] if self._journal and self._journal.records else {}
        noted: Any = first.get("approximation")
        if not first.get(_WHY):
            return None
        try:
            return registered()[noted["name"]](**noted["settings"]), str(first[_WHY])
        except (TypeError, ValueError, LookupError):  # one with arrays; `begin` will compare
            return None

    def begin(self, fingerprint: Callable[[], dict[str, Any]], reason: str = "") -> None:
        """Note whose search this is; raise if it is not the one that the journal was begun with."""
        if self._journal is None:
            return
        own = {name: plain(value) for name, value in fingerprint().items()}
        self._mark = hashlib.blake2b(_sorted(own).encode(), digest_size=8).hexdigest()
        if not self._journal.records:
            self._journal.append(own | {_WHY: reason})
            return
        noted, *others = self._journal.records
        names = (own.keys() | noted.keys()) - {_WHY}  # why "auto" chose makes no difference
        differ = sorted(name for name in names if own.get(name) != noted.get(name))
        if differ:
            raise ValueError(
                f"{self._journal.path} is the journal of another search, which differs in "
                f"{', '.join(differ)}; delete it, or use another name."
            )
        for number, record in enumerate(others, start=3):
            if record.get("search") != self._mark:
                raise ValueError(
                    f"line {number} of {self._journal.path} is of another search; delete the file, or "
                    "use another name."
                )

    def find(
        self, key: Sequence[Any], read: Callable[[dict[str, Any]], _Value | None]
    ) -> Iterator[_Value]:
        """What `read` makes of the records of a key, the last one first; None is passed over."""
        if self._journal is None:
            return
        for record in reversed(self._found.get(_sorted(key), [])):
            try:
                found = read(record)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                what = f"{self._journal.path} is damaged ({type(error).__name__} in a record)"
                raise ValueError(f"{what}; delete it to search anew.") from error
            if found is not None:
                yield found

    def append(self, key: Sequence[Any], **fields: Any) -> None:
        """Keep a record, if there is a journal."""
        if self._journal is not None:
            self._journal.append({"search": self._mark, "key": _sorted(key)} | fields)

    def keep(
        self, key: Sequence[Any], alphas: Any, entry: Evaluation, leader: Leader | None = None
    ) -> None:
        """Keep an evaluation; of what leads its group, the held-out predictions too."""
        if not self:
            return
        fields = {"alphas": alphas[entry.ridges]} | {name: getattr(entry, name) for name in _KEPT}
        if leader is not None and leader.heldout is not None and leader.heldout.size <= _LARGEST:
            # What comes with a model or an expansion is made anew, all together.
            alone = leader.model is None and leader.expansion is None and leader.of_splits is None
            fields |= {"leads": leader.alpha, "heldout": packed(leader.heldout)} if alone else {}
        self.append(key, **fields)


@contextmanager
def open_checkpoint(path: str | os.PathLike[str] | None) -> Iterator[Checkpoint]:
    """What is kept in the journal at `path`, which is open while the block runs; None keeps nothing."""
    with nullcontext() if path is None else Journal(path) as journal:
        yield Checkpoint(journal)


def known_cells(number: int, wanted: Set[int], alphas: Any, record: dict[str, Any]) -> Evaluation | None:
    """What a record has of a candidate with the wanted ridges; raise unless that makes sense."""
    places = {float(alpha): place for place, alpha in enumerate(record["alphas"])}
    columns = [ridge for ridge in sorted(wanted) if float(alphas[ridge]) in places]
    if not columns:
        return None
    rows = [places[float(alphas[ridge])] for ridge in columns]

    def part(values: Any) -> Any:
        return np.asarray(values, dtype=np.float64)[rows]

    seconds = float(record["seconds"]) * len(rows) / len(record["alphas"])
    ranks = None if record["ranks"] is None else part(record["ranks"])
    others = {name: part(values) for name, values in record["others"].items()}
    ridges, scores, report = np.asarray(columns), part(record["scores"]), dict(record["report"])
    return Evaluation(number, ridges, scores, seconds, record["why"], report, ranks, others)


def packed(array: Any) -> dict[str, Any]:
    """An array of float64, to the last bit."""
    values = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": values.shape, "base64": base64.b64encode(values.tobytes()).decode("ascii")}


def unpacked(noted: dict[str, Any]) -> Any:
    """What was packed."""
    values = np.frombuffer(base64.b64decode(noted["base64"]), dtype="<f8")
    return values.reshape(noted["shape"]).astype(np.float64)


def _sorted(value: Any) -> str:
    return json.dumps(plain(value), sort_keys=True)
