"""Forecast against measured peak memory: ``python -m benchmarks.plan_memory``, ``--json FILE``.

Each shape is fitted in a process of its own. Measured is the largest resident memory during the fit
(VmHWM) above that just before it, when the libraries are loaded and the data are there; the forecast is
``plan``'s. Linux only. Some minutes and up to 4 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Shape:
    """What is fitted: rows, features, what the targets are, and how."""

    rows: int
    features: int
    approximation: str = "exact"
    dtype: str = "float64"
    targets: int = 1
    classes: int = 0
    fixed: bool = False
    cv: int | str = 5
    gammas: int = 3
    jobs: int = 1
    landmarks: int = 0

    def words(self) -> str:
        """The shape in a line."""
        kind = f"{self.classes} classes" if self.classes else f"{self.targets} targets"
        how = "fixed" if self.fixed else f"search cv={self.cv}"
        which = f"{self.approximation}({self.landmarks or ''})"
        return f"{self.rows} x {self.features} {self.dtype} {kind} {which} {how}"


SHAPES = [
    Shape(200, 2),
    Shape(1000, 5, "auto"),
    Shape(1500, 20, classes=26),
    Shape(1500, 4, targets=30),
    Shape(2000, 100, "auto", "float32"),
    Shape(3000, 10, fixed=True),
    Shape(3000, 10, cv="loo"),
    Shape(3000, 3, classes=10, dtype="float32"),
    Shape(5000, 10, fixed=True),
    Shape(5000, 20, gammas=1),
    Shape(8000, 5, fixed=True, dtype="float32"),
    Shape(3000, 5, "nystroem", landmarks=300),
    Shape(10_000, 10, "nystroem", "float32"),
    Shape(10_000, 100, "nystroem", classes=20),
    Shape(20_000, 20, "nystroem", gammas=1, landmarks=2000),
    Shape(20_000, 20, "nystroem", fixed=True, landmarks=2000),
    Shape(50_000, 5, "nystroem", cv="loo", landmarks=500),
    Shape(50_000, 10, "nystroem", targets=20),
    Shape(100_000, 50, "nystroem", fixed=True),
    Shape(200_000, 10, "nystroem", "float32", classes=10, landmarks=500),
    Shape(200_000, 2, "nystroem", landmarks=500),
]


def main() -> None:
    """Measure every shape with one and two threads, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="shapes whose words contain this")
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(Shape(**json.loads(arguments.one)))))
        return
    found = []
    print(f"{'forecast':>9} {'measured':>9} {'ratio':>6}  jobs  shape   (MB)")
    for shape in SHAPES:
        for jobs in map(int, arguments.jobs.split(",")):
            if arguments.only in shape.words():
                facts = in_a_process(Shape(**asdict(shape) | {"jobs": jobs}))
                found.append(facts | {"shape": shape.words(), "jobs": jobs})
                print(
                    f"{facts['forecast'] / 1e6:9.1f} {facts['measured'] / 1e6:9.1f} "
                    f"{facts['forecast'] / facts['measured']:6.2f}  {jobs:4}  {shape.words()}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1))


def in_a_process(shape: Shape) -> dict[str, float]:
    """The measurement in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--one", json.dumps(asdict(shape))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure(shape: Shape) -> dict[str, float]:
    """Forecast and measured bytes of one fit, in this process."""
    import onefold
    from onefold.approximations import Nystroem
    from onefold.estimators import LSSVC, LSSVCCV, LSSVR, LSSVRCV

    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape.rows, shape.features), dtype=np.dtype(shape.dtype))
    approximation = Nystroem(shape.landmarks) if shape.landmarks else shape.approximation
    if shape.classes:
        y = rng.integers(0, shape.classes, shape.rows)
        y[: 10 * shape.classes] = np.tile(np.arange(shape.classes), 10)
    else:
        y = np.sin(X[:, :1] + np.arange(shape.targets)) + 0.1 * rng.standard_normal((shape.rows, 1))
        y = y[:, 0] if shape.targets == 1 else y
    gammas = np.geomspace(0.3, 3, 1 if shape.fixed else shape.gammas) / shape.features
    settings = {"approximation": approximation, "n_jobs": shape.jobs}
    if shape.fixed:
        model = (LSSVC if shape.classes else LSSVR)(gamma=gammas[0], **settings)
    else:
        model = (LSSVCCV if shape.classes else LSSVRCV)(gammas=gammas, cv=shape.cv, **settings)
    forecast = onefold.plan(model, X, y).bytes
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _status("VmRSS:")
    model.fit(X, y)
    return {"forecast": float(forecast), "measured": float(_status("VmHWM:") - before)}


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


if __name__ == "__main__":
    main()
