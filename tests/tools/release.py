"""Test a release in empty environments, with the oldest and the newest versions it supports.

    python -m build && python -m tests.tools.release        (or make release)
    python -m tests.tools.release --only oldest-3.11 --tests tests/saving --workers 1

The minimum versions come from pyproject.toml: ``numpy>=2.0`` is tested with the last release of 2.0. The
oldest versions are tested on the oldest Python, the newest ones on every Python that the classifiers
name and on the next one. A Python that is not found on PATH or in pyenv is skipped. In each environment
the wheel is installed with its own dependencies and has to pass a smoke test; then the source archive is
installed with what its tests import, and they run from a copy of it. torch is left out: it is larger
than everything else together, and `make test` has it.

The outcomes are printed and written to dist/release.json, the output of every step to dist/logs/.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

import onefold

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
NAME = f"onefold-{onefold.__version__}"
WHEEL = DIST / f"{NAME}-py3-none-any.whl"
SOURCE = DIST / f"{NAME}.tar.gz"
LEFT_OUT = ("torch",)
NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_REQUIRE_VIRTUALENV", "ONEFOLD_DATA")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

SMOKE = """
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

import onefold
from onefold import LSSVCCV, TableRegressor

version, environment = sys.argv[1:]
assert onefold.__version__ == version, onefold.__version__
assert Path(onefold.__file__).is_relative_to(environment), onefold.__file__

model = TableRegressor(simple=True).fit("examples/houses.csv", "price")
predicted = model.predict("examples/new_houses.csv")
bounds = model.predict_interval("examples/new_houses.csv", coverage=0.9)
assert predicted.shape == (20,) and np.isfinite(predicted).all() and np.isfinite(bounds).all()
model.report("houses.html", "examples/houses.csv")
model.save("houses.onefold")
loaded = onefold.load("houses.onefold")
assert loaded.predict("examples/new_houses.csv").tolist() == predicted.tolist()

X, y = load_iris(return_X_y=True)
model = LSSVCCV().fit(X, y)
assert model.score(X, y) > 0.9
assert np.allclose(model.predict_proba(X).sum(axis=1), 1.0)
"""
COMMANDS = (
    "tune examples/houses.csv --target price --id house --simple",
    "predict houses-onefold/model.onefold examples/new_houses.csv --out prices.csv --interval 0.9",
    "report houses-onefold examples/houses.csv --out report.html",
    "inspect houses-onefold/model.onefold",
)


class Combination(NamedTuple):
    """A Python and which versions of the dependencies it is tested with."""

    versions: str
    python: str

    def __str__(self) -> str:
        return f"{self.versions}-{self.python}"


class Row(NamedTuple):
    """One line of the table."""

    combination: str
    step: str
    outcome: str
    seconds: float
    detail: str

    def __str__(self) -> str:
        columns = f"{self.combination:<12} {self.step:<12} {self.outcome:<8} {self.seconds:6.0f} s"
        return f"{columns}  {self.detail}"


class StepFailed(Exception):
    """A step that did not succeed; the message is for the table."""


def combinations(project: dict[str, Any]) -> list[Combination]:
    """The oldest versions on the oldest Python, the newest ones on all and on the next."""
    named = re.findall(r"Python :: 3\.(\d+)", "\n".join(project["project"]["classifiers"]))
    minors = sorted(map(int, named))
    newest = [Combination("newest", f"3.{minor}") for minor in (*minors, minors[-1] + 1)]
    return [Combination("oldest", f"3.{minors[0]}"), *newest]


def requirements(project: dict[str, Any], versions: str) -> tuple[list[str], list[str]]:
    """What the package itself needs, with pictures, and what its tests need beside that."""
    table = project["project"]
    extras = project["project"]["optional-dependencies"]
    core = [*table["dependencies"], *extras["plot"]]
    tests: list[str] = []
    for line in project["dependency-groups"]["dev"]:
        requirement = Requirement(line)
        if requirement.name == "onefold":
            tests += [one for extra in sorted(requirement.extras) for one in extras[extra]]
        elif requirement.name not in LEFT_OUT:
            tests.append(line)
    pin = oldest if versions == "oldest" else str
    return [pin(line) for line in core], [pin(line) for line in tests]


def oldest(line: str) -> str:
    """The requirement held to the last patch release of its minimum version."""
    requirement = Requirement(line)
    for bound in requirement.specifier:
        if bound.operator == ">=":
            parts = bound.version.split(".")
            minimum = ".".join(parts if len(parts) > 1 else [*parts, "0"])
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
            return f"{requirement.name}{extras}=={minimum}.*"
    return line


def interpreter(version: str) -> str | None:
    """A Python of this version, from PATH or from pyenv; a shim of pyenv may lead nowhere."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    asked = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, candidates):
        found = subprocess.run([candidate, "-c", asked], capture_output=True, text=True, check=False)
        if found.returncode == 0 and found.stdout.strip() == version:
            return str(candidate)
    return None


def check_contents() -> str:
    """The archives hold what is under version control and nothing else; the wheel the package alone."""
    with zipfile.ZipFile(WHEEL) as wheel, tarfile.open(SOURCE) as source:
        in_wheel = set(wheel.namelist())
        in_source = {one.name.removeprefix(f"{NAME}/") for one in source.getmembers() if one.isfile()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = {name for name in listed.stdout.splitlines() if not name.startswith(".ci/")}
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    extra = in_source - tracked - {"PKG-INFO"}
    extra |= {name for name in in_wheel - package if not name.startswith(f"{NAME}.dist-info/")}
    missing = (tracked - in_source) | (package - in_wheel)
    for what, names in {"not under version control": extra, "missing": missing}.items():
        if names:
            raise StepFailed(f"{len(names)} files {what}: {', '.join(sorted(names)[:5])}")
    return f"{len(in_wheel)} files in the wheel, {len(in_source)} in the source archive"


def check_version() -> str:
    """The changelog and CITATION.cff speak of this version, with one date."""
    version = re.escape(onefold.__version__)
    patterns = {
        "CHANGELOG.md": rf"^## {version} \(([\d-]+)\)$",
        "CITATION.cff": rf"^version: {version}\ndate-released: ([\d-]+)$",
    }
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in patterns}
    dates = {name: re.findall(patterns[name], text, re.M) for name, text in texts.items()}
    if len({tuple(found) for found in dates.values()}) > 1 or not dates["CHANGELOG.md"]:
        raise StepFailed(f"dates of {onefold.__version__} are missing or differ: {dates}")
    return f"{onefold.__version__} of {dates['CHANGELOG.md'][0]}"


class Environment:
    """An empty environment in `folder`, which keeps the output of its commands in one file."""

    def __init__(self, folder: Path, python: str, log: Path) -> None:
        inherited = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        self.folder = folder / "environment"
        self.log = log
        self.variables = {**inherited, **ONE_THREAD}
        self.work = folder
        self.run([python, "-m", "venv", str(self.folder)])

    def run(self, command: list[str], folder: Path | None = None) -> str:
        """Run a command and give its output; StepFailed with its last line if it fails."""
        done = subprocess.run(
            command, cwd=folder or self.work, env=self.variables, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{done.stdout}\n")
        lines = done.stdout.strip().splitlines() or [""]
        if done.returncode:
            raise StepFailed(f"{lines[-1]} (exit code {done.returncode}, {self.log.relative_to(ROOT)})")
        return done.stdout

    def python(self, *arguments: str, folder: Path | None = None) -> str:
        """Run the environment's Python."""
        return self.run([str(self.folder / "bin" / "python"), *arguments], folder)

    def install(self, *what: str) -> str:
        """Install, and say which versions of the numerical packages there are."""
        self.python("-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)
        self.python("-m", "pip", "check", "--disable-pip-version-check")
        return ", ".join(
            f"{name} {self.versions()[name]}" for name in ("numpy", "scipy", "scikit-learn")
        )

    def versions(self) -> dict[str, str]:
        """The version of every package."""
        listed = self.python("-m", "pip", "list", "--format=json", "--disable-pip-version-check")
        line = next(line for line in listed.splitlines() if line.startswith("["))
        return {one["name"].lower(): one["version"] for one in json.loads(line)}


def smoke(environment: Environment, source: Path) -> str:
    """Fit, predict, save, load and report in Python, and the commands of the shell."""
    folder = environment.work / "smoke"
    shutil.copytree(source / "examples", folder / "examples")
    environment.python("-c", SMOKE, onefold.__version__, str(environment.folder), folder=folder)
    for command in COMMANDS:
        environment.run([str(environment.folder / "bin" / "onefold"), *command.split()], folder)
    return f"Python and {len(COMMANDS)} commands"


def run_tests(environment: Environment, source: Path, paths: list[str], workers: int) -> str:
    """The tests of the source archive, against the installed package; the summary of pytest."""
    options = ["-q", "-p", "no:cacheprovider", "-n", str(workers), "--dist", "worksteal"]
    output = environment.python("-m", "pytest", *options, *paths, folder=source)
    return output.strip().splitlines()[-1].strip("= ")


def try_out(
    combination: Combination, project: dict[str, Any], paths: list[str], workers: int
) -> tuple[list[Row], dict[str, str]]:
    """All steps with one combination, until one fails; the versions that were installed."""
    python = interpreter(combination.python)
    rows = []
    there = {}
    if python is None:
        reason = f"no python{combination.python} on PATH or in pyenv"
        rows = [Row(str(combination), "all", "skipped", 0.0, reason)]
        print(rows[0], flush=True)
        return rows, there
    core, extra = requirements(project, combination.versions)
    log = DIST / "logs" / f"{combination}.log"
    log.parent.mkdir(exist_ok=True)
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        with tarfile.open(SOURCE) as archive:
            archive.extractall(folder, filter="data")
        source = folder / NAME
        environment = Environment(folder, python, log)
        steps: dict[str, Callable[[], str]] = {
            "wheel": lambda: environment.install(str(WHEEL), *core),
            "smoke test": lambda: smoke(environment, source),
        }
        if paths:
            again = ("--force-reinstall", "--no-deps", str(SOURCE))
            steps["sdist"] = lambda: environment.install(*core, *extra) and environment.install(*again)
            steps["tests"] = lambda: run_tests(environment, source, paths, workers)
        for step, act in steps.items():
            rows.append(timed(str(combination), step, act))
            if rows[-1].outcome == "failed":
                break
        there = environment.versions()
    return rows, there


def timed(combination: str, step: str, act: Callable[[], str]) -> Row:
    """Run one step and print its line."""
    start = time.perf_counter()
    try:
        outcome = "passed"
        detail = act()
    except StepFailed as failure:
        outcome = "failed"
        detail = str(failure)
    row = Row(combination, step, outcome, round(time.perf_counter() - start, 1), detail)
    print(row, flush=True)
    return row


def main() -> int:
    """Try the combinations one after another."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = {str(one): one for one in combinations(project)}
    parser = argparse.ArgumentParser(description="Test the wheel and the source archive in dist/.")
    parser.add_argument("--only", nargs="+", default=list(known), choices=list(known), metavar="NAME",
                        help=f"some of the combinations {', '.join(known)}")  # fmt: skip
    parser.add_argument("--tests", nargs="*", default=["tests"], metavar="PATH",
                        help="some of the tests; without a path only the smoke test is run")  # fmt: skip
    parser.add_argument("--workers", type=int, default=2, help="processes that run tests (default 2)")
    given = parser.parse_args()
    if not (WHEEL.exists() and SOURCE.exists()):
        parser.error(f"dist/ does not hold {NAME}: run `python -m build` first")
    rows = []
    installed = {}
    for step, check in {"version": check_version, "contents": check_contents}.items():
        rows.append(timed("archives", step, check))
    for name in given.only:
        done, installed[name] = try_out(known[name], project, given.tests, given.workers)
        rows += done
    content = {"version": onefold.__version__, "steps": [row._asdict() for row in rows]}
    content["installed"] = installed
    (DIST / "release.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return int(any(row.outcome == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
