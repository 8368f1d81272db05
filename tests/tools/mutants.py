r"""How much of the core do the tests pin down? Draw random mutants and see which survive.

A mutant is the package with one operator, comparison, condition, constant, sign or pair of arguments
changed. It is made in a copy of the tree, never in place. The tests of its folder run, those first whose
path names its file, then a sample of all files, until a time limit; the first that fails (see that all
pass before), and a run that takes far too long catch it. Mutants that only say which of two equal routes
runs are listed below, and not drawn.

    python -m tests.tools.mutants --mutants 40 --seed 0 --folders smoothers criteria

In the copy this module is a plugin of pytest, which puts the tests in order and ends with the limit.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.mutation_sites import changed, changes
from tests.tools.readme import ROOT, copy_tree

PACKAGE = Path("src/onefold")
# Not the core.
AROUND = {
    "cli",
    "docstrings",
    "export",
    "facts",
    "plots",
    "report",
    "saving",
    "tables",
    "tuning",
    "typing",
}

# Where the tests of a folder are; those of one that is not here are in the folder of its name. The
# metamorphic relations are asked of every folder.
TESTS = {
    "approximations": "approximations basis circulant toeplitz grid",
    "basis": "basis pruned",
    "calibration": "calibration intervals",
    "criteria": "estimators/test_criteria.py heldout search calibration estimators/test_parity.py",
    "estimators": "estimators intervals calibration pruned search/test_objective.py",
    "expansions": "expansions grid intervals",
    "heldout": "heldout corners estimators/test_parity.py",
    "kernels": "kernels expansions corners",
    "linalg": "linalg kernels smoothers rows estimators/test_array_api.py",
    "machine": "machine basis/test_memory.py",
    "rows": "rows dask_rows basis",
    "search": "search learned trust",
    "smoothers": "smoothers heldout corners circulant toeplitz",
    "docstrings": "test_docstrings.py",
    "facts": "report tables",
    "trust_check": "trust",
    "tuning": "tables cli",
    "typing": "test_typing.py",
}

# Lines whose change no result can show: (path, line), and what they are.
COSTS = {
    (r"", r"^_?[A-Z][A-Z0-9_]*(: \w+)? = "): "thresholds, block sizes and tolerances of a module",
    (r"", r"_(MANY|BLOCK|STRIP|TILE|LIMIT|PROBE|SIDE_BY_SIDE)\b|\bLARGE\b|_LARGEST"): "equal routes",
    (r"", r"stacklevel=|perf_counter|seconds|isinstance\(.*(bool|Integral)"): "clock, warnings",
    (r"approximations/(base|nystroem|exact|footprint)", r"speed|Cost\(|load\.|memory"): "costs",
    (r"speed\.py|memory\.py", r""): "estimates of cost, and routes by them",
    (r"l1_triton\.py", r""): "runs on a GPU alone",
    (r"smoothers/base", r"eigen|triangle"): "estimates of cost, and routes by them",
    (r"", r"workers|threads|require_memory|available_memory|2 ?\*\* ?\d\d"): "threads and memory",
    (r"", r"overwrite=|release_lock"): "memory and locks, not results",
    (r"", r"random_state: .* = \d"): "another draw is as good",
    (r"", r"block = |range\(0, .*(block|_PAIR_TILE)|spans\("): "sizes of blocks",
}
_PASSES = 8  # through the files of tests, each with as many tests of a file as the others


@dataclass(frozen=True)
class Mutant:
    """A change of a file of the package."""

    path: Path  # relative to the root
    line: int
    kind: str
    number: int  # among the changes of the file

    def text(self) -> str:
        """The file with the change made."""
        return changed((ROOT / self.path).read_text("utf-8"), self.number)

    def diff(self) -> str:
        """The change, as a unified diff without context."""
        before = changed((ROOT / self.path).read_text("utf-8"))
        found = difflib.unified_diff(before.splitlines(), self.text().splitlines(), n=0, lineterm="")
        return "\n".join(line for line in found if line[:3] not in ("---", "+++"))


class Sandbox:
    """A copy of the tree in which the tests run."""

    def __init__(self, folder: Path, limit: float) -> None:
        self._folder = folder
        self._limit = limit
        copy_tree(folder)

    def catches(self, mutant: Mutant) -> str | None:
        """What caught the mutant, or None if it survived."""
        target = self._folder / mutant.path
        before = target.read_bytes()
        words = [word.removesuffix(".py") for word in mutant.path.relative_to(PACKAGE).parts[1:]]
        target.write_text(mutant.text(), "utf-8")
        try:
            code, text = self._run([*folder_tests(mutant.path), "--first", *words])
        finally:
            target.write_bytes(before)
        found = re.search(r"^(FAILED|ERROR) .*$", text, flags=re.MULTILINE)
        return None if code == 0 else found[0][:200] if found else "it does not come to an end"

    def _run(self, arguments: list[str]) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--tb=no", "-p", "no:cacheprovider"]
        command += ["-p", "tests.tools.mutants", f"--processor-seconds={self._limit}", *arguments]
        environment = os.environ | {"PYTHONPATH": "src:.", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        process = subprocess.Popen(
            command, cwd=self._folder, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            text, _ = process.communicate(timeout=5 * self._limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its own session: nothing else is in it
            process.communicate()
            return -signal.SIGKILL, ""
        return process.returncode, text if process.returncode > 0 else ""


# -- as a plugin of pytest: seconds are those of the processor, so that a busy machine runs the same ----


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first", nargs="*", default=[], help="words in the paths of what comes first")
    parser.addoption("--processor-seconds", type=float, default=float("inf"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    words = config.getoption("--first")
    seen = Counter[str]()
    order = {}
    for item in items:
        file = item.location[0]
        order[item] = 0 if any(word in file for word in words) else 1 + seen[file] % _PASSES
        seen[file] += 1
    items.sort(key=lambda item: order[item])


def pytest_runtest_setup(item: pytest.Item) -> None:
    if sum(os.times()[:4]) > item.config.getoption("--processor-seconds"):
        pytest.skip("past the limit")


# -- drawing -------------------------------------------------------------------------------------------


def folders() -> list[str]:
    """The names of the folders and files of the package."""
    found = (ROOT / PACKAGE).iterdir()
    return sorted(path.stem for path in found if path.suffix in ("", ".py") and path.name[0] != "_")


def folder_tests(path: Path) -> list[str]:
    """The folders and files of tests of a file's folder, and the relations."""
    folder = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return [f"tests/{name}" for name in (*TESTS.get(folder, folder).split(), "metamorphic")]


def draw(names: list[str], count: int, generator: random.Random) -> list[Mutant]:
    """`count` random mutants of the named folders, files weighed by what there is to change."""
    found = []
    for name in names:
        where = ROOT / PACKAGE / name
        for file in sorted(where.rglob("*.py")) if where.is_dir() else [where.with_suffix(".py")]:
            source = file.read_text("utf-8")
            path = file.relative_to(ROOT)
            lines = source.splitlines()
            for number, (kind, line, *_) in enumerate(changes(source)):
                if not only_cost(path, lines[line - 1].strip()):
                    found.append(Mutant(path, line, kind, number))
    return generator.sample(found, min(count, len(found)))


def only_cost(path: Path, line: str) -> bool:
    """Whether the line is on the list of those that decide costs alone."""
    return any(re.search(where, path.as_posix()) and re.search(what, line) for where, what in COSTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutants", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    core = sorted({*folders()} - AROUND)
    parser.add_argument("--folders", nargs="+", default=core, help="folders and files of the package")
    parser.add_argument("--limit", type=float, default=90, help="processor seconds for each mutant")
    options = parser.parse_args()
    drawn = draw(options.folders, options.mutants, random.Random(options.seed))
    caught = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        sandbox = Sandbox(Path(folder), options.limit)
        for number, mutant in enumerate(drawn, 1):
            by = sandbox.catches(mutant)
            caught += by is not None
            where = f"{mutant.path}:{mutant.line}"
            found = by or f"SURVIVED\n{mutant.diff()}"
            print(f"{number}/{len(drawn)} {where} {mutant.kind}: {found}", flush=True)
    print(f"caught {caught} of {len(drawn)}")


if __name__ == "__main__":
    main()
