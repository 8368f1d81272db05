r"""How much of the core do the tests pin down? Draw random mutants and see which survive.

A mutant is the package with one operator, comparison, condition, constant, sign or pair of arguments
changed. It is made in a copy of the tree, never in place. The tests of its room run, those first whose
path names its file, then the quicker files, as many as fit in a time limit; the first that fails, and a
run that takes far too long, catch it. Mutants that only say which of two equal routes runs are listed
below, and not drawn. Tests that fail without any change are left out.

    python -m tests.tools.mutants --mutants 40 --seed 0 --rooms smoothers criteria --out mutants.json
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.tools.mutation_sites import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("src/onefold")

AROUND = {"cli", "export", "jobs", "plots", "report", "saving", "tables", "typing.py"}  # not the core

# Where the tests of a room are; a room that is not here has the folder of its own name. The metamorphic
# relations are asked of every room.
TESTS = {
    "approximations": "approximations basis circulant toeplitz grid",
    "basis": "basis pruned",
    "calibration": "calibration intervals",
    "criteria": "estimators/test_criteria.py search calibration estimators/test_parity.py",
    "estimators": "estimators intervals calibration pruned search/test_objective.py",
    "expansions": "expansions grid intervals",
    "heldout": "heldout corners estimators/test_parity.py",
    "kernels": "kernels expansions corners",
    "linalg": "linalg kernels smoothers estimators/test_array_api.py",
    "machine": "machine basis/test_memory.py",
    "rows": "rows dask_rows basis",
    "search": "search learned",
    "smoothers": "smoothers heldout corners circulant toeplitz",
    "trust_check.py": "trust",
    "typing.py": "test_typing.py",
}

# Lines whose change no result can show, and why: (path, line, reason).
COSTS: list[tuple[str, str, str]] = [
    (r"", r"^_?[A-Z][A-Z0-9_]*(: \w+)? = ", "thresholds, block sizes and tolerances of a module"),
    (r"", r"_(MANY|BLOCK|STRIP|TILE|LIMIT|PROBE|SIDE_BY_SIDE)\b|\bLARGE\b|_LARGEST", "equal routes"),
    (
        r"",
        r"stacklevel=|perf_counter|seconds|isinstance\(.*(bool|Integral)",
        "clock, levels of warnings",
    ),
    (
        r"approximations/(planning|base|nystroem|exact|footprint)",
        r"speed|Cost\(|load\.|memory",
        "estimates of cost",
    ),
    (r"speed\.py|memory\.py", r"", "estimates of cost, and routes by them"),
    (r"l1_triton\.py", r"", "runs on a GPU alone"),
    (r"smoothers/base", r"eigen|triangle", "estimates of cost, and routes by them"),
    (r"", r"workers|threads|require_memory|available_memory|2 ?\*\* ?\d\d", "threads and memory"),
    (r"", r"overwrite=|release_lock", "memory and locks, not results"),
    (r"", r"random_state: .* = \d", "another draw is as good"),
    (r"", r"block = |range\(0, .*(block|_PAIR_TILE)|spans\(", "sizes of blocks"),
]


@dataclass(frozen=True)
class Mutant:
    """A mutation of a file of the package."""

    path: Path  # relative to the root
    mutation: Mutation

    def diff(self) -> str:
        """The change, as a unified diff without context."""
        before = (ROOT / self.path).read_bytes()
        after = self.mutation.apply(before)
        lines = [text.decode().splitlines() for text in (before, after)]
        found = difflib.unified_diff(*lines, n=0, lineterm="")
        return "\n".join(line for line in found if line[:3] not in ("---", "+++"))


class Sandbox:
    """A copy of the tree in which the tests run."""

    def __init__(self, folder: Path, limit: float, kept: Path | None) -> None:
        self._folder, self._limit, self._kept = folder, limit, kept
        names = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        for name in names:
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        # {path: {test below it that passes unchanged: seconds}}
        self._seconds: dict[str, dict[str, float]] = {}
        if kept is not None and kept.exists():
            self._seconds = json.loads(kept.read_text())

    def catches(self, mutant: Mutant) -> str | None:
        """What caught the mutant, or None if it survived."""
        paths = room_tests(mutant.path)
        chosen, seconds = in_the_limit(
            mutant.path, [self.unchanged(path) for path in paths], self._limit
        )
        target = self._folder / mutant.path
        before = target.read_bytes()
        target.write_bytes(mutant.mutation.apply(before))
        try:
            (self._folder / "chosen.json").write_text(json.dumps(chosen))
            files = list(dict.fromkeys(name.split("::")[0] for name in chosen))
            code, text = self._run(["-x", "--chosen", "chosen.json", *files], 30 + 3 * seconds)
        finally:
            target.write_bytes(before)
        if code == 0:
            return None
        if code is None:
            return f"ran past {30 + 3 * seconds:.0f} s"
        return next((line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))), text)[
            :200
        ]

    def unchanged(self, path: str) -> dict[str, float]:
        """The tests below a path that pass without any change, and the seconds of each."""
        if path not in self._seconds:
            self._run(["--keep-seconds", "seconds.json", path], None)
            self._seconds[path] = json.loads((self._folder / "seconds.json").read_text())
            if self._kept is not None:
                self._kept.write_text(json.dumps(self._seconds))
        return self._seconds[path]

    def _run(self, arguments: list[str], limit: float | None) -> tuple[int | None, str]:
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-p", "tests.tools.chosen_tests", *arguments]
        environment = os.environ | {"PYTHONPATH": "src:.", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            command, cwd=self._folder, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            text, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: nothing else is in it
            process.communicate()
            return None, ""
        return process.returncode, text


def rooms() -> list[str]:
    """The folders and files of the package."""
    found = (ROOT / PACKAGE).iterdir()
    return sorted(path.name for path in found if path.suffix in ("", ".py") and path.name[0] != "_")


def room_tests(path: Path) -> list[str]:
    """The folders and files of tests of a file's room, and the relations."""
    room = path.relative_to(PACKAGE).parts[0]
    return [f"tests/{name}" for name in (*TESTS.get(room, room).split(), "metamorphic")]


def in_the_limit(path: Path, seconds: list[dict[str, float]], limit: float) -> tuple[list[str], float]:
    """The tests to run on a mutant of a file, in order, and the seconds that they take unchanged."""
    words = [word.removesuffix(".py") for word in path.relative_to(PACKAGE).parts[1:]]
    tests = {name: took for part in seconds for name, took in part.items()}
    files: dict[str, float] = {}
    for name, took in tests.items():
        files[name.split("::")[0]] = files.get(name.split("::")[0], 0.0) + took
    order = sorted(files, key=lambda file: (not any(word in file for word in words), files[file]))
    chosen, spent = [], 0.0
    for name in sorted(tests, key=lambda name: order.index(name.split("::")[0])):
        if spent + tests[name] <= limit:
            chosen.append(name)
            spent += tests[name]
    return chosen, spent


def draw(names: list[str], count: int, generator: random.Random) -> list[Mutant]:
    """`count` random mutants of the named rooms, files weighed by what there is to change."""
    found = []
    for name in names:
        where = ROOT / PACKAGE / name
        for file in sorted(where.rglob("*.py")) if where.is_dir() else [where]:
            source = file.read_bytes()
            lines, path = source.decode().splitlines(), file.relative_to(ROOT)
            found += [
                Mutant(path, change) for change in mutations(source)
                if not only_cost(path, lines[change.line - 1].strip())
            ]  # fmt: skip
    return generator.sample(found, min(count, len(found)))


def only_cost(path: Path, line: str) -> bool:
    """Whether the line is on the list of those that decide costs alone."""
    return any(re.search(where, path.as_posix()) and re.search(what, line) for where, what, _ in COSTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    core = sorted({*rooms()} - AROUND)
    parser.add_argument("--rooms", nargs="+", default=core, help="folders and files of the package")
    parser.add_argument("--limit", type=float, default=90, help="seconds of tests for each mutant")
    parser.add_argument("--seconds", type=Path, help="keep in this file how long unchanged tests take")
    parser.add_argument("--out", type=Path, default=None, help="write every mutant to this JSON file")
    options = parser.parse_args()
    drawn = draw(options.rooms, options.mutants, random.Random(options.seed))
    table = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        sandbox = Sandbox(Path(folder), options.limit, options.seconds)
        for number, mutant in enumerate(drawn, 1):
            caught = sandbox.catches(mutant)
            where = f"{mutant.path}:{mutant.mutation.line}"
            kind = mutant.mutation.kind
            print(f"{number}/{len(drawn)} {where} {kind}: {caught or 'SURVIVED'}", flush=True)
            if caught is None:
                print(mutant.diff(), flush=True)
            table.append({"where": where, "kind": kind, "caught_by": caught, "diff": mutant.diff()})
            if options.out is not None:
                options.out.write_text(json.dumps(table, indent=1))
    caught_count = sum(row["caught_by"] is not None for row in table)
    print(f"caught {caught_count} of {len(table)} ({100 * caught_count / max(1, len(table)):.0f} %)")


if __name__ == "__main__":
    main()
