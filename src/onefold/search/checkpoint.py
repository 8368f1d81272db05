r"""What a search keeps of itself in a journal, and finds there again.

Evaluations are found by the stage of the search, what names the candidate, the cells that its metric was
learned from, and the ridge: a larger grid finds what a smaller one has left. So are learned metrics, by
the cells they were learned from. The first record says whose search it is; every other one has a mark
made from it, so that the records of one search are never taken for those of another.

**What tells a search from others**: its data, its splits and its settings, each by itself.

Rows are summed up as whole numbers, modulo 2⁶⁴,

    Σ_i h_i  and  Σ_i i h_i,    h_i = mix(Σ_j c_j · fold(bits(x_ij))),    c_j odd

which add over blocks, whatever they are: it does not matter where rows live. O(n d). The bits of small
whole numbers are all at the upper end, where a product keeps little of c_j: fold(b) = b xor (b >> 32).

Settings are compared as plain values: numbers and words as they are, arrays by a checksum, objects by
their class and what they hold. A function is compared by its module and name alone, so that it must be
one that an import finds there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onefold._version import __version__
from onefold.approximations import Approximation, registered
from onefold.kernels import Kernel
from onefold.linalg import as_float64, is_sparse
from onefold.machine.journal import Journal, plain
from onefold.rows import Block, Rows, to_host
from onefold.search.crossfit import CrossFit
from onefold.search.evaluation import Evaluation

if TYPE_CHECKING:
    from onefold.search.strategies import Setup

# Numbers in the held-out predictions of a cell that are kept, 2 MiB; more are made again. Chosen, not
# measured.
_MAX_KEPT_PREDICTIONS = 2**18

_WHY = "reason"
_KEPT = ("scores", "reasons", "seconds", "report", "ranks", "others")  # of an evaluation
_Value = TypeVar("_Value")
# Constants of the generator splitmix64, whose steps take nearby numbers far apart.
_FIRST_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_MULTIPLIER = np.uint64(0x94D049BB133111EB)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Checkpoint:
    """A search's view of its journal; without one, nothing is kept and nothing is found."""

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self._mark = ""
        self._records: dict[str, list[dict[str, Any]]] = {}  # by their keys
        for record in [] if journal is None else journal.records[1:]:
            self._records.setdefault(str(record.get("key")), []).append(record)

    def __bool__(self) -> bool:
        """Whether there is a journal."""
        return self._journal is not None

    @property
    def mark(self) -> str:
        """What tells the search from others; nothing without a journal."""
        return self._mark

    @property
    def state_path(self) -> Path | None:
        """The file of the state of a long solution, next to the journal; None without one."""
        return None if self._journal is None else state_path(self._journal.path)

    @property
    def decided(self) -> tuple[Approximation, str] | None:
        """What "auto" has chosen for the journal's search, and why; None where nothing was chosen."""
        first = self._journal.records[0] if self._journal and self._journal.records else {}
        approximation: Any = first.get("approximation")
        if not first.get(_WHY):
            return None
        try:
            return registered()[approximation["name"]](**approximation["settings"]), str(first[_WHY])
        except (TypeError, ValueError, LookupError):  # one with arrays; `begin` will compare
            return None

    def begin(self, fingerprint: Callable[[], dict[str, Any]], reason: str = "") -> None:
        """Note whose search this is; raise if it is not the one that the journal was begun with."""
        if self._journal is None:
            return
        current = {name: plain(value) for name, value in fingerprint().items()}
        self._mark = hashlib.blake2b(_sorted(current).encode(), digest_size=8).hexdigest()
        if not self._journal.records:
            self._journal.append(current | {_WHY: reason})
            return
        first, *later = self._journal.records
        names = (current.keys() | first.keys()) - {_WHY}  # why "auto" chose makes no difference
        differ = sorted(name for name in names if current.get(name) != first.get(name))
        if differ:
            raise ValueError(
                f"{self._journal.path} is the journal of another search, which differs in "
                f"{', '.join(differ)}; delete the file, or use another name."
            )
        for number, record in enumerate(later, start=3):
            if record.get("search") != self._mark:
                what = "belongs to another search"
                if "key" not in record:  # a header
                    what = "starts a second search: two processes wrote to the file, or two were joined"
                raise ValueError(
                    f"line {number} of {self._journal.path} {what}; delete the file, and use a separate "
                    "file for every search."
                )

    def find(
        self, key: Sequence[Any], read: Callable[[dict[str, Any]], _Value | None]
    ) -> Iterator[_Value]:
        """What `read` makes of the records of a key, the last one first; None is passed over."""
        if self._journal is None:
            return
        for record in reversed(self._records.get(_sorted(key), [])):
            try:
                value = read(record)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                what = f"{self._journal.path} is damaged ({type(error).__name__} in a record)"
                raise ValueError(f"{what}; delete the file to search again.") from error
            if value is not None:
                yield value

    def append(self, key: Sequence[Any], **values: Any) -> None:
        """Keep a record, if there is a journal."""
        if self._journal is not None:
            self._journal.append({"search": self._mark, "key": _sorted(key)} | values)

    def keep(
        self, key: Sequence[Any], alphas: Any, entry: Evaluation, leader: CrossFit | None = None
    ) -> None:
        """Keep an evaluation; of what leads its group, the held-out predictions too."""
        if not self:
            return
        record = {"alphas": alphas[entry.ridges]} | {name: getattr(entry, name) for name in _KEPT}
        # What comes with a model or an expansion is made anew, all together.
        if leader is not None and leader.model is None and leader.expansion is None:
            by_row = None if leader.predictions is None else leader.predictions.by_row
            repeated = leader.predictions is not None and leader.predictions.by_split is not None
            if by_row is not None and not repeated and by_row.size <= _MAX_KEPT_PREDICTIONS:
                record |= {"leads": leader.cell.alpha, "heldout": packed(by_row)}
        self.append(key, **record)


def state_path(journal: Path) -> Path:
    """The file next to a journal that the state of a long solution is kept in."""
    return journal.with_name(f"{journal.name}.iterate")


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
    recorded = {name: part(values) for name, values in record["others"].items()}
    ridges = np.asarray(columns)
    scores = part(record["scores"])
    report = dict(record["report"])
    # Version 1.0.0rc1 kept one reason for all ridges.
    every_reason = record.get("reasons") or [record["why"]] * len(record["alphas"])
    reasons = tuple(every_reason[row] for row in rows)
    return Evaluation(number, ridges, scores, reasons, seconds, report, ranks, recorded)


def packed(array: Any) -> dict[str, Any]:
    """An array of float64, to the last bit."""
    values = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": values.shape, "base64": base64.b64encode(values.tobytes()).decode("ascii")}


def unpacked(record: dict[str, Any]) -> Any:
    """The array that was packed."""
    values = np.frombuffer(base64.b64decode(record["base64"]), dtype="<f8")
    return values.reshape(record["shape"]).astype(np.float64)


def _sorted(value: Any) -> str:
    return json.dumps(plain(value), sort_keys=True)


def fingerprint(setup: Setup, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Named parts, as plain values; two searches with equal ones have equal evaluations."""
    problem = setup.problem
    task = setup.task
    splits = setup.scoring.splits
    if splits is None:
        held_out = "none"
    elif splits.leave_one_out:
        held_out = f"leave-one-out, {len(splits)} scores"
    else:
        held_out = digest(*splits.left_out, *splits.tests)
    return {
        "version": __version__,
        "shape": list(problem.shape),
        "rows": rows_checksum(problem.source, problem.shape[1]),
        "targets": digest(task.y),
        "weights": digest(task.sample_weight, problem.root_weight, problem.alpha_unit),
        "splits": held_out,
        "approximation": described(setup.run.approximation),
        "random_state": setup.seed,
        **{name: described(value) for name, value in settings.items()},
    }


def described(value: Any) -> Any:
    """A setting in plain values, the same in another process; raise for a function without a name."""
    if value is None or isinstance(value, str | int | float | np.generic):
        return plain(value)
    if isinstance(value, np.ndarray) or hasattr(type(value), "__array__"):
        return digest(value) if np.ndim(value) else plain(np.asarray(value))
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(described(item)) for item in value)
    if isinstance(value, Mapping):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, partial):
        return [described(part) for part in (value.func, value.args, value.keywords)]
    library = type(value).__module__.partition(".")[0] in ("onefold", "sklearn")
    if isinstance(value, type) or (callable(value) and not (library or isinstance(value, Kernel))):
        return _imported(value)
    if is_dataclass(value):
        held = {item.name: described(getattr(value, item.name)) for item in fields(value)}
    else:
        held = {name: described(item) for name, item in getattr(value, "__dict__", {}).items()}
    if isinstance(value, Approximation):
        return {"name": value.name, "settings": held}
    named = held or isinstance(value, Kernel)
    return {_imported(type(value)): held} if named else _ADDRESS.sub("", repr(value))


def _imported(value: Any) -> str:
    """The module and the name under which a function or a class is found; raise where it is not."""
    module = str(getattr(value, "__module__", ""))
    name = getattr(value, "__qualname__", "")
    try:
        imported = reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        imported = None
    if imported is not value:
        raise ValueError(
            f"a checkpoint identifies functions by their import name, and {value!r:.80} has none; "
            "define it with def at the top level of a module, or use checkpoint=None."
        )
    return f"{module}.{name}"


def digest(*values: Any) -> str:
    """A checksum of arrays and other values."""
    checksum = hashlib.blake2b(digest_size=16)
    for value in values:
        array = np.ascontiguousarray("none" if value is None else to_host(value))
        checksum.update(f"{array.dtype.kind}{array.shape}".encode())
        checksum.update(repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes())
    return checksum.hexdigest()


def rows_checksum(source: Rows, d: int) -> str:
    """Numbers for X, whatever the blocks that it comes in."""
    total = 0  # Σ_i h_i
    numbered = 0  # Σ_i i h_i
    for _, rows, block_sums in source.map(_RowSums(d)):
        block_total, block_numbered = (int(value) for value in block_sums)
        total += block_total
        numbered += rows.start * block_total + block_numbered
    return "".join(f"{value % 2**64:016x}" for value in (total, numbered))


class _RowSums:
    """Σ h_i and Σ i h_i of a block, its rows numbered from 0."""

    def __init__(self, d: int) -> None:
        self._constants = _mixed(np.arange(1, d + 1, dtype=np.uint64)) | np.uint64(1)

    def placed(self, place: Any) -> _RowSums:
        """The same: it works on the host wherever rows are."""
        return self

    def __call__(self, block: Block) -> Any:
        X = as_float64(block.X).tocsr() if is_sparse(block.X) else to_host(block.X)
        values = np.ascontiguousarray(X.data if is_sparse(X) else X)
        bits = values.view(f"u{values.dtype.itemsize}").astype(np.uint64, copy=False)
        folded = bits ^ (bits >> np.uint64(32))
        if is_sparse(X):  # zeros add nothing
            terms = folded * self._constants[X.indices]
            before = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
            h = _mixed(np.diff(before[X.indptr]))
        else:
            h = _mixed(folded @ self._constants)
        return np.array([h.sum(dtype=np.uint64), (h * np.arange(h.size, dtype=np.uint64)).sum()])


def _mixed(values: Any) -> Any:
    """Whole numbers of 64 bits, each to another, none near it."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST_MULTIPLIER
    values = (values ^ (values >> np.uint64(27))) * _SECOND_MULTIPLIER
    return values ^ (values >> np.uint64(31))
