r"""How much of the core do the tests pin down? Draw random mutants and see which survive.

A mutant is the package with one operator, comparison, condition, constant, sign or pair of arguments
changed. It is made in a copy of the tree, never in place. The tests of its own folder run first, then
the metamorphic relations of the cases that reach it, then all others; a test that fails, and a run that
takes far too long, catch it. Mutants that only say which of two equal routes runs are listed below, and
not drawn. Tests that fail without any change are told apart first, and left out.

    python -m benchmarks.mutants --mutants 40 --seed 0 --paths smoothers criteria --out mutants.json
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
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.mutation_sites import Mutation, mutations

ROOT = Path(__file__).resolve().parents[1]
CORE = [
    "approximations", "basis", "criteria", "estimators", "expansion.py", "grid_expansion.py", "heldout",
    "kernels", "search", "smoothers", "trust_check.py",
]  # fmt: skip

# Where the tests of a path are, and which of the metamorphic cases reach it: the first that matches.
_LANDMARKS = "nystroem or kmeans or pivoted or ding2012 or improved"
TESTS: list[tuple[str, list[str], str]] = [
    (r"kernels/lattice|approximations/grid|grid_expansion", ["grid"], "grid"),
    (r"kernels/|expansion", ["kernels", "heldout", "estimators/test_parity.py"], "exact or nystroem"),
    (r"toeplitz|diagonals|reordered", ["toeplitz"], "toeplitz or averaged"),
    (r"circulant", ["circulant"], "circulant"),
    (r"pruning|estimators/sparse", ["pruned"], "improved"),
    (r"iterative|gradients|symmetric", ["basis/test_conjugate_gradients.py"], "cg"),
    (r"/basis/|approximations/(?!exact|base)", ["basis", "pruned"], _LANDMARKS),
    (r"smoothers/|approximations/", ["smoothers", "heldout", "estimators/test_parity.py"], "exact"),
    (r"heldout/", ["heldout", "estimators/test_parity.py"], "exact"),
    (r"criteria/", ["estimators/test_criteria.py", "estimators/test_parity.py"], "exact"),
    (r"search/", ["estimators/test_parity.py", "estimators/test_interface.py"], "exact or circulant"),
    (r"estimators/", ["estimators"], "exact"),
    (r"trust_check", ["trust"], "exact"),
    (r"saving/", ["saving"], "test_from_a_file"),
    (r"plots/", ["plots"], "test_from_a_file"),
    (r"tables/|cli/", ["tables", "cli"], "test_from_a_file"),
    (r"", ["machine", "basis", "estimators"], "test_two_threads"),
]

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
        r"approximations/(planning|base|nystroem|exact)",
        r"speed|Cost\(|load\.|memory",
        "estimates of cost",
    ),
    (r"speed\.py|memory\.py|gram\.py", r"", "estimates of cost, and routes by them"),
    (r"smoothers/base", r"eigen|triangle", "estimates of cost, and routes by them"),
    (r"", r"workers|threads|require_memory|available_memory|2 ?\*\* ?\d\d", "threads and memory"),
    (r"", r"overwrite=|release_lock", "memory and locks, not results"),
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

    def __init__(self, folder: Path, slowest: float, quick: bool) -> None:
        self._folder, self._slowest, self._quick = folder, slowest, quick
        names = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        for name in names:
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        self._baseline: dict[tuple[str, ...], tuple[float, list[str]]] = {}

    def catches(self, mutant: Mutant) -> str | None:
        """What caught the mutant, or None if it survived."""
        target = self._folder / mutant.path
        before = target.read_bytes()
        stages = stages_for(mutant.path)[: 2 if self._quick else 3]
        for stage in stages:
            self.baseline(stage)
        target.write_bytes(mutant.mutation.apply(before))
        try:
            for stage in stages:
                seconds, failing = self.baseline(stage)
                code, text = self._run(stage, failing, 30 + 4 * seconds)
                if code is None:
                    return f"{' '.join(stage)}: ran past {30 + 4 * seconds:.0f} s"
                if code not in (0, 5):
                    return next((line for line in text.splitlines() if "FAILED" in line), stage[0])[:200]
        finally:
            target.write_bytes(before)
        return None

    def baseline(self, stage: tuple[str, ...]) -> tuple[float, list[str]]:
        """Seconds that a stage takes unchanged, and the tests in it that fail unchanged."""
        if stage not in self._baseline:
            start = time.perf_counter()
            _, text = self._run(stage, [], self._slowest, stop=False)
            found = re.findall(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", text, flags=re.MULTILINE)
            self._baseline[stage] = (time.perf_counter() - start, found)
        return self._baseline[stage]

    def _run(
        self, stage: tuple[str, ...], failing: list[str], limit: float, stop: bool = True
    ) -> tuple[int | None, str]:
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *stage]
        command += ["-x"] if stop else []
        command += [f"--deselect={test}" for test in failing]
        environment = os.environ | {"PYTHONPATH": "src", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
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


def stages_for(path: Path) -> list[tuple[str, ...]]:
    """The tests to run on a mutant of a file: its own, the relations, all others."""
    name = path.as_posix()
    own, cases = next(entry[1:] for entry in TESTS if re.search(entry[0], name))
    first = tuple(f"tests/{folder}" for folder in own)
    rest = ("tests", *(f"--ignore={folder}" for folder in first))
    return [first, ("tests/metamorphic", "-k", cases), rest]


def draw(paths: list[str], count: int, generator: random.Random) -> list[Mutant]:
    """`count` random mutants of the files under `paths`, files weighed by what there is to change."""
    package = Path("src/onefold")
    found = []
    for name in paths:
        where = ROOT / package / name
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
    parser.add_argument("--paths", nargs="+", default=CORE, help="folders and files of the package")
    parser.add_argument("--slowest", type=float, default=3600, help="seconds that all tests may take")
    parser.add_argument("--quick", action="store_true", help="leave out the tests of other folders")
    parser.add_argument("--out", type=Path, default=None, help="write every mutant to this JSON file")
    options = parser.parse_args()
    drawn = draw(options.paths, options.mutants, random.Random(options.seed))
    table = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        sandbox = Sandbox(Path(folder), options.slowest, options.quick)
        for number, mutant in enumerate(drawn, 1):
            caught = sandbox.catches(mutant)
            where = f"{mutant.path}:{mutant.mutation.line}"
            print(
                f"{number}/{len(drawn)} {where} {mutant.mutation.kind}: {caught or 'SURVIVED'}",
                flush=True,
            )
            if caught is None:
                print(mutant.diff(), flush=True)
            table.append({
                "where": where, "kind": mutant.mutation.kind, "caught_by": caught, "diff": mutant.diff(),
            })  # fmt: skip
            if options.out is not None:
                options.out.write_text(json.dumps(table, indent=1))
    caught_count = sum(row["caught_by"] is not None for row in table)
    print(f"caught {caught_count} of {len(table)} ({100 * caught_count / max(1, len(table)):.0f} %)")


if __name__ == "__main__":
    main()
