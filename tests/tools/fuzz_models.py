"""Mutated model files: whatever loads must predict; whatever does not must be a ModelFileError.

Each mutant is a valid file with one to three changes in its metadata or its arrays and a checksum that
fits. Prints every mutant that neither loads and works nor is refused.

    python -m tests.tools.fuzz_models --mutants 20000 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import random
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import onefold
from onefold.cli import inspect
from onefold.saving import ModelFileError, classes, container
from tests.tools.fuzz_cases import CASES, Case

SPECIAL = [
    None, True, False, 0, 1, -1, 2, 7, 2**31, 2**32, 2**63, -(2**63), 10**30, 0.0, 0.5, -1.5, 1e-320,
    1e-200, 1e155, 1e300, -1e308, "", "x", "rbf", "scale", "laplacian", [], {}, [None], [1, 2], [[1.0]],
    {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}, {"$tuple": []}, {"$tuple": [1, 2]},
    {"$tuple": [2**32, 2**32]}, {"$scalar": "float64", "value": 0.5}, {"$objects": ["a"], "shape": [1]},
    {"$slice": [None, None, None]}, {"$dtype": "|O"}, {"a": 1}, {"$dropped": "KFold()"}, "drop",
    "passthrough",
]  # fmt: skip
NUMBERS = [0.0, 1.0, -1.0, 1e-320, 1e-200, 1e155, 1e300, 1.7e308, -1.7e308, np.nan, np.inf, -np.inf]
DTYPES = ["float64", "float32", "float16", "int64", "int8", "uint32", "uint64", "bool"]


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a tree of metadata."""
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(items):
        yield node, key
        if isinstance(value, dict | list):
            yield from places(value)


def mutate_metadata(metadata: dict[str, Any], rng: random.Random) -> str:
    """Change one node in place; says what was done."""
    found = list(places(metadata))
    holder, key = rng.choice(found)
    other, name = rng.choice(found)
    old = holder[key]
    action = rng.random()
    where = f"{key}={str(old)[:50]}"
    if action < 0.2:
        del holder[key]
        return f"delete {where}"
    if action < 0.3 and isinstance(holder, dict):
        new = rng.choice([f"{key}_", f"${key}", key[:-1], "__class__", "predict", "x_", "_x"])
        holder[new] = holder.pop(key)
        return f"rename {where} to {new}"
    values = [other[name], rng.choice(SPECIAL)]
    if isinstance(old, list) and old:
        values += [old[:-1], old[::-1], [*old, old[0]], []]
    elif isinstance(old, str):
        values += [rng.choice([*classes.MODULES]), old + "x", old.upper(), "a0", "\ud800", "x" * 300]
    elif isinstance(old, int | float) and not isinstance(old, bool):
        values += [-old, old + 1, old - 1, old * 2**32, float(old), old / 2, str(old), 0]
    holder[key] = copy.deepcopy(rng.choice(values))
    return f"{where} becomes {ascii(holder[key])[:60]}"


def mutate_array(arrays: dict[str, np.ndarray], rng: random.Random) -> str:
    """Change one array in place, or swap two; says what was done."""
    name = rng.choice(sorted(arrays))
    other = rng.choice(sorted(arrays))
    array = arrays[name]
    action = rng.random()
    if action < 0.15:
        arrays[name] = arrays[other]
        arrays[other] = array
        return f"swap {name} and {other}"
    if action < 0.6 and array.size:
        array = arrays[name] = array.copy()
        whole = array.dtype.kind in "iu"
        limits = [0, 1, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min] if whole else NUMBERS
        where: Any = rng.choice([rng.randrange(array.size), slice(None), slice(0, array.size // 2 + 1)])
        number = rng.choice(limits)
        with np.errstate(all="ignore"):
            array.reshape(-1)[where] = np.array(number).astype(array.dtype)
        return f"{name}[{where}] = {number}"
    if action < 0.75:
        dtype = rng.choice(DTYPES)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            arrays[name] = np.ascontiguousarray(array.astype(dtype))
        return f"{name} as {dtype}"
    shapes = [array.reshape(-1), array[None], array[..., None], array.T, np.zeros(()), np.zeros((0, 0))]
    if array.ndim:
        shapes += [array[:0], array[:-1], array[1:], array[:1], np.concatenate([array, array])]
    arrays[name] = np.ascontiguousarray(rng.choice(shapes))
    return f"{name} from shape {array.shape} to {arrays[name].shape}"


def mutate_text(text: str, rng: random.Random) -> str:
    """Other letters in the metadata, digits above all."""
    letters = list(text)
    for _ in range(rng.randrange(1, 4)):
        letters[rng.randrange(len(letters))] = rng.choice('0123456789-e.{}[]",:$a_')
    return "".join(letters)


class Original:
    """A saved model, taken apart once."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case = case
        self.path = folder / "original"
        onefold.save(case.model, self.path)
        with container.opened(self.path) as opened:
            self.text = opened.text
            self.arrays = opened.arrays()

    def mutant(self, path: Path, rng: random.Random) -> str:
        """Write a mutant; says what was done."""
        if rng.random() < 0.1:
            container.write(path, mutate_text(self.text, rng), self.arrays)
            return "letters changed"
        metadata = json.loads(self.text)
        arrays = dict(self.arrays)
        steps = []
        for _ in range(rng.choice([1, 1, 1, 1, 2, 3])):
            if arrays and rng.random() < 0.4:
                steps.append(mutate_array(arrays, rng))
            else:
                steps.append(mutate_metadata(metadata, rng))
        container.write(path, json.dumps(metadata), arrays)
        return "; ".join(steps)


def values_of(model: Any, rows: Any) -> np.ndarray:
    """What a model predicts, or the features of a preparation."""
    return np.asarray(model.predict(rows) if hasattr(model, "predict") else model.transform(rows))


def complaint(path: Path, case: Case) -> str | None:
    """None if the file is refused; "" if it loads and works; else what went wrong."""
    try:
        model = onefold.load(path)
    except ModelFileError:
        return None
    predicted = values_of(model, case.rows)
    n = case.rows.shape[0] if hasattr(case.rows, "shape") else len(case.rows)
    if predicted.shape[:1] != (n,) or predicted.ndim > 2:
        return f"predictions of shape {predicted.shape}"
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        return "predictions that are not finite"
    if hasattr(model, "decision_function"):
        if not np.isfinite(model.decision_function(case.rows)).all():
            return "decision values that are not finite"
        if not np.isin(predicted, model.classes_).all():
            return "labels that are no classes"
    if hasattr(model, "get_params"):
        repr(model)
        clone(model)
    again = path.with_name("again")
    onefold.save(model, again)
    if values_of(onefold.load(again), case.rows).tolist() != predicted.tolist():
        return "other predictions when saved again"
    as_json = again.stat().st_size % 2 == 0
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(ModelFileError):
        inspect.run_inspect(argparse.Namespace(model=path, json=as_json))
    return ""


def judge(path: Path, case: Case) -> str | None:
    """`complaint`, where any exception is one too."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return complaint(path, case)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - also what `except Exception` would miss
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            return f"{type(error).__name__}: {str(error)[:150]!r} at {place}"


def fuzz(names: list[str], mutants: int, seed: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """Outcomes of `mutants` files of each named case, and the mutants that misbehaved."""
    outcomes: Counter[str] = Counter()
    findings = []
    for name in names:
        original = Original(CASES[name](), folder)
        found = judge(original.path, original.case)
        if found != "":
            findings.append(f"{name}: the model itself: {found}")
            continue
        for number in range(mutants):
            rng = random.Random(f"{seed} {name} {number}")
            done = original.mutant(folder / "mutant", rng)
            found = judge(folder / "mutant", original.case)
            outcomes["refused" if found is None else "worked" if found == "" else "misbehaved"] += 1
            if found:
                findings.append(f"{name} seed {seed} number {number}: {done} -> {found}")
    return outcomes, findings


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=1000, help="of each kind of model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=sorted(CASES), choices=sorted(CASES))
    arguments = parser.parse_args()
    total: Counter[str] = Counter()
    for name in arguments.only:
        with tempfile.TemporaryDirectory() as folder:
            outcomes, findings = fuzz([name], arguments.mutants, arguments.seed, Path(folder))
        total += outcomes
        print(f"{name}: {dict(outcomes)}", flush=True)
        for finding in findings:
            print(f"  {finding}", flush=True)
    print(f"all: {dict(total)}")
    sys.exit(1 if total["misbehaved"] else 0)


if __name__ == "__main__":
    main()
